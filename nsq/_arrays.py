"""Arrays inside of JSON: exact, compact, and checked when they are read."""

from __future__ import annotations

import base64
import binascii
import math
import zlib
from typing import Any

import numpy as np

from ._schema import Broken

_DTYPES = ("<f8", "<f4", "<i4", "<i8")
_KEYS = {"type", "dtype", "shape", "crc32", "base64"}
_MOST_DIMS = 3


def write_array(values: Any) -> dict[str, Any]:
    """An array of floats or ints as an entry of type "array": little-endian bytes in base64.

    Floats that are all single precision take four bytes, and so do integers that fit.
    """
    array = np.ascontiguousarray(values)
    wide, narrow = ("<f8", "<f4") if array.dtype.kind == "f" else ("<i8", "<i4")
    array = array.astype(wide)
    with np.errstate(over="ignore"):
        short = array.astype(narrow)
    if np.array_equal(short.astype(wide), array):
        array = short
    raw = array.tobytes()
    text = base64.b64encode(raw).decode("ascii")
    return {
        "type": "array",
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "crc32": zlib.crc32(raw),
        "base64": text,
    }


def read_array(entry: Any, where: str) -> np.ndarray:
    """The array (float64 or int64) of an entry; ValueError naming the place for one that is not whole."""
    if not isinstance(entry, dict) or set(entry) != _KEYS or entry["type"] != "array":
        raise Broken(where, f"takes an object of type 'array' with {sorted(_KEYS)}")
    dtype, shape, text = entry["dtype"], entry["shape"], entry["base64"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise Broken(f"{where}.dtype", f"got {dtype!r}; it takes one of {list(_DTYPES)}")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMS or not all(_is_size(size) for size in shape):
        raise Broken(f"{where}.shape", f"got {str(shape)[:60]}; it takes at most {_MOST_DIMS} whole numbers >= 0")
    if not isinstance(text, str):
        raise Broken(f"{where}.base64", f"got {type(text).__name__}; it takes a str")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Broken(f"{where}.base64", f"is no base64: {error}") from None
    if len(raw) != math.prod(shape) * np.dtype(dtype).itemsize:
        raise Broken(where, f"holds {len(raw)} bytes, which is not the shape {shape} of {dtype}; it was cut or damaged")
    if entry["crc32"] != zlib.crc32(raw):
        raise Broken(where, "has bytes that its checksum contradicts; it was damaged")
    return np.frombuffer(raw, dtype=dtype).reshape(shape).astype(np.float64 if dtype[1] == "f" else np.int64)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
