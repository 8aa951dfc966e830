"""Results in .npz files: written whole or not at all, and believed only where they are whole.

A file is a ZIP archive of arrays, uncompressed and without Python objects, so that reading one takes twice the memory
that the file has bytes, and runs nothing. Two entries say what it is: ``kind``, the class of the result, and
``version`` of the layout. Every other entry is looked at by name, type and shape before it is used.
"""

from __future__ import annotations

import io
import json
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._files import PathLike, atomic_write

VERSION = 1
_MOST_ENTRIES = 100_000
# what the readers of a ZIP archive, of an array's header and of the text in it raise
_COMPLAINTS = (
    OSError, ValueError, EOFError, KeyError, TypeError, SyntaxError, RuntimeError, NotImplementedError, OverflowError,
    zipfile.BadZipFile, zlib.error, tokenize.TokenError,
)  # fmt: skip


def save_npz(path: PathLike, arrays: dict[str, Any]) -> Path:
    """Write arrays to ``path`` (with .npz appended where it is missing), all of them or nothing."""
    target = Path(path)
    if target.suffix != ".npz":
        target = target.with_name(target.name + ".npz")
    with atomic_write(target) as stream:
        np.savez(stream, version=VERSION, **arrays)
    return target


class Archive:
    """The arrays of a file, or some of them: what `save_npz` wrote.

    Every method raises ValueError naming the file and the entry for one that is missing or not what it takes.
    """

    def __init__(self, file: str, arrays: dict[str, np.ndarray], prefix: str = "") -> None:
        self.file, self._arrays, self._prefix = file, arrays, prefix

    @classmethod
    def open(cls, path: PathLike, kind: str) -> Archive:
        """The file of a result of class ``kind``.

        Raises OSError, and ValueError for a file of another kind or of a newer version, and for one that is cut short,
        damaged, or holds anything but plain arrays.
        """
        file = os.fspath(path)
        with open(path, "rb") as stream:
            raw = stream.read()
        try:
            arrays = _read_members(raw)
        except RecursionError:
            raise ValueError(f"{file}: holds an array whose header is nested too deep") from None
        except _COMPLAINTS as error:
            raise ValueError(f"{file}: is no .npz file of a result, or was cut or damaged: {error}") from error
        made = cls(file, arrays)
        if "kind" not in arrays or "version" not in arrays:
            raise ValueError(f"{file}: holds nothing known; it takes a file that {kind}.save wrote")
        found, version = made.text("kind"), made.count("version")
        if found != kind:
            raise ValueError(f"{file}: holds {found[:60]}; it takes a file that {kind}.save wrote")
        if version != VERSION:
            raise ValueError(f"{file}: is of version {version}; this version of the package reads version {VERSION}")
        return made

    def part(self, prefix: str) -> Archive:
        """The entries whose names begin with ``prefix``, named without it."""
        return Archive(self.file, self._arrays, self._prefix + prefix)

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._arrays

    def _array(self, name: str) -> np.ndarray:
        if name not in self:
            raise ValueError(f"{self.file}: has no entry {self._prefix + name!r}")
        return self._arrays[self._prefix + name]

    def _wrong(self, name: str, takes: str) -> ValueError:
        array = self._array(name)
        what = f"{array.dtype} of shape {array.shape}"
        return ValueError(f"{self.file}: entry {self._prefix + name!r} is {what}; it takes {takes}")

    def _scalar(self, name: str, kinds: str, takes: str) -> Any:
        array = self._array(name)
        if array.shape != () or array.dtype.kind not in kinds:
            raise self._wrong(name, takes)
        return array.item()

    def text(self, name: str) -> str:
        return self._scalar(name, "U", "a text")

    def number(self, name: str) -> float:
        """A finite number."""
        value = float(self._scalar(name, "fiu", "a number"))
        if not math.isfinite(value):
            raise ValueError(f"{self.file}: entry {self._prefix + name!r} is {value}; it takes a finite number")
        return value

    def count(self, name: str, minimum: int = 0) -> int:
        value = int(self._scalar(name, "iu", "a whole number"))
        if value < minimum:
            raise ValueError(f"{self.file}: entry {self._prefix + name!r} is {value}; it takes at least {minimum}")
        return value

    def floats(self, name: str, dims: int = 1) -> np.ndarray:
        """A float64 array of finite numbers."""
        array = self._array(name)
        if array.dtype != np.float64 or array.ndim != dims:
            raise self._wrong(name, f"float64 of {dims} dimensions")
        bad = np.flatnonzero(~np.isfinite(array))
        if len(bad):
            value = array.ravel()[bad[0]]
            raise ValueError(f"{self.file}: entry {self._prefix + name!r} holds {value} at {bad[0]}; it takes numbers")
        return array

    def integers(self, name: str) -> np.ndarray:
        array = self._array(name)
        if array.dtype != np.int64 or array.ndim != 1:
            raise self._wrong(name, "int64 of one dimension")
        return array

    def tensor(self, name: str, dims: int = 1) -> torch.Tensor:
        """`floats` as a tensor."""
        return torch.from_numpy(self.floats(name, dims))

    def records(self, name: str, dtype: np.dtype) -> np.ndarray:
        """A table of that type, whose floats are finite."""
        array = self._array(name)
        if array.dtype != dtype or array.ndim != 1:
            raise self._wrong(name, f"{dtype} of one dimension")
        for field in dtype.names or ():
            if dtype[field].kind == "f" and not np.isfinite(array[field]).all():
                row = int(np.argmin(np.isfinite(array[field])))
                raise ValueError(f"{self.file}: {field} of row {row} of {self._prefix + name!r} is no finite number")
        return array

    def json(self, name: str) -> Any:
        """Plain values."""
        try:
            return json.loads(self.text(name), parse_constant=_no_constant)
        except RecursionError:
            raise ValueError(f"{self.file}: entry {name!r} is nested too deep") from None
        except ValueError as error:
            if str(error).startswith(self.file):
                raise
            raise ValueError(f"{self.file}: entry {name!r} is no JSON: {error}") from error

    def made(self, make: Any, arguments: dict[str, Any]) -> Any:
        """``make(**arguments)``; its complaint with the file's name."""
        try:
            return make(**arguments)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{self.file}: {self._prefix}{error}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _read_members(raw: bytes) -> dict[str, np.ndarray]:
    """The arrays of an archive. From bytes: a file would make room for as much as a damaged entry asks of it."""
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = archive.infolist()
        _check_members(members, len(raw))
        for member in members:
            # read whole, which checks the checksum
            arrays[member.filename.removesuffix(".npy")] = _read_array(member.filename, archive.read(member))
    return arrays


def _check_members(members: Iterable[zipfile.ZipInfo], size: int) -> None:
    names: set[str] = set()
    total = 0
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"entry {member.filename!r} is compressed, which no such file has")
        if not member.filename.endswith(".npy") or member.filename in names:
            raise ValueError(f"entry {member.filename[:80]!r} is no array, or is there twice")
        names.add(member.filename)
        total += member.file_size
    if total > size or len(names) > _MOST_ENTRIES:
        raise ValueError(f"says it holds {len(names)} entries of {total} bytes, in a file of {size} bytes")


def _read_array(name: str, raw: bytes) -> np.ndarray:
    """An array from the bytes of an .npy file, checked before anything of its size is made."""
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read:
        raise ValueError(f"entry {name!r} is an array of format {version}")
    shape, fortran, dtype = read[version](stream)
    if dtype.hasobject:
        raise ValueError(f"entry {name!r} holds Python objects, which are not read")
    start = stream.tell()
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(raw) - start:
        raise ValueError(f"entry {name!r} is cut short: {len(raw) - start} bytes for {dtype} of shape {shape}")
    if dtype.itemsize == 0:
        return np.zeros(shape if math.prod(shape) <= 1 else (0,), dtype)
    flat = np.frombuffer(raw, dtype=dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C").copy()
