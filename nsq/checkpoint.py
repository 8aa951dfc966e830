"""Checkpoints: what a long run has added up so far, in one file that is whole at any moment.

The sums of a trace are integers, so a run that goes on from a checkpoint ends with the same bits as one that was never
interrupted. A file holds an account of the trace that it belongs to, the chunks of rays that are done, and their sums.
It is an .npz archive without pickled objects; reading one executes nothing.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import importlib.metadata
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernels.trace import layout as at
from kernels.trace.wavefront import Sums

from ._files import PathLike, atomic_write

_FORMAT = "nsq checkpoint 1"
# the columns of a row of the ray tables, beside its eight floats
_RECORD = ("detector", "id", "bounce", "line")


@dataclass
class Progressed:
    """What is done of a run.

    Attributes:
        chunks: (K,) bool, the chunks that are done.
        sums: of their rays.
        totals: (K, detectors) int64, what each chunk adds to a detector's flux, in quanta.
        squares: (K, detectors), the sum of squares of what each chunk adds to a detector's pixels; (0, 0) where
            nobody asks for it.
    """

    chunks: np.ndarray
    sums: Sums
    totals: np.ndarray
    squares: np.ndarray


def package_version() -> str:
    """Of the installed package; another one may trace a ray to other bits."""
    try:
        return importlib.metadata.version("nsq")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def digest(*values: Any) -> str:
    """SHA-256 of values of any nesting of dataclasses, tuples, lists, arrays, tensors and plain values."""
    state = hashlib.sha256()
    _feed(state, values)
    return state.hexdigest()


def _feed(state: Any, value: Any) -> None:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        state.update(f"{value.dtype.str}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).tobytes())
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            state.update(field.name.encode())
            _feed(state, getattr(value, field.name))
    elif isinstance(value, dict):
        _feed(state, tuple(value.items()))
    elif isinstance(value, tuple | list):
        state.update(f"({len(value)}".encode())
        for item in value:
            _feed(state, item)
    elif value is None or isinstance(value, str | bool | int | float | np.generic):
        state.update(f"{type(value).__name__}:{value!r};".encode())
    else:
        raise TypeError(f"a scene with a {type(value).__name__} cannot be told from another one")


def write(path: PathLike, account: dict[str, Any], done: Progressed) -> None:
    """Put a checkpoint in the place of the file at ``path``. Raises OSError naming it, and leaves the old file then."""
    arrays = {
        "format": np.array(_FORMAT),
        "account": np.array(json.dumps(account)),
        "chunks": np.packbits(done.chunks),
        "ledger": done.sums.ledger,
        "row_books": done.sums.row_books,
        "maps": done.sums.maps,
        "totals": done.totals,
        "squares": done.squares,
    }
    if done.sums.records:
        columns = [np.concatenate(column, axis=-1) for column in zip(*done.sums.records, strict=True)]
        arrays |= {f"rays_{name}": column for name, column in zip(_RECORD, columns, strict=False)}
        arrays["rays_states"] = columns[-1]
    try:
        with atomic_write(path) as stream:
            np.savez(stream, **arrays)
    except OSError as error:
        if error.filename is not None:
            raise
        raise type(error)(
            error.errno, f"{error.strerror}, writing a checkpoint; the one before it is kept", os.fspath(path)
        ) from error


def read(path: PathLike, account: dict[str, Any], blank: Progressed) -> Progressed | None:
    """The checkpoint at ``path``, or None if there is no file.

    ``blank`` has the sizes that the trace takes. Raises ValueError naming the file for anything but a whole checkpoint
    of a trace with this ``account``, and OSError for a file that cannot be read.
    """
    file = os.fspath(path)
    try:
        with np.load(path, allow_pickle=False) as archive:
            if str(archive["format"]) != _FORMAT:
                raise ValueError(f"it is not a file of the format {_FORMAT!r}")
            found = json.loads(str(archive["account"]))
            _compare(file, found, account)
            arrays = {name: archive[name] for name in archive.files}
        return _checked(arrays, blank)
    except FileNotFoundError:
        return None
    except _OtherTraceError as error:
        raise ValueError(str(error)) from None
    except Exception as error:  # whatever the readers of zip, npy and JSON make of a broken file
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise ValueError(f"{file}: no checkpoint, or cut short: {error}") from error


class _OtherTraceError(Exception):
    """A checkpoint is whole, and belongs to another trace."""


def _compare(file: str, found: dict[str, Any], account: dict[str, Any]) -> None:
    if found == account:
        return
    differ = [
        f"{name} {found.get(name)!r}, not {account.get(name)!r}"
        for name in dict.fromkeys([*account, *found])
        if name != "scene" and found.get(name) != account.get(name)
    ] or ["its scene is not this one"]
    raise _OtherTraceError(
        f"{file}: the checkpoint belongs to another trace: {', '.join(differ)}; give another path, or remove the file"
    )


def _checked(arrays: dict[str, np.ndarray], blank: Progressed) -> Progressed:
    """Arrays of the right type and size; ValueError for any other."""

    def take(name: str, like: np.ndarray) -> np.ndarray:
        array = arrays[name]
        if array.dtype != like.dtype or array.shape != like.shape:
            raise ValueError(f"{name} is {array.dtype} {array.shape}, where the trace has {like.dtype} {like.shape}")
        return array

    count = len(blank.chunks)
    packed = take("chunks", np.packbits(blank.chunks))
    records: tuple = ()
    if "rays_states" in arrays:
        states = arrays["rays_states"]
        rows = states.shape[-1]
        columns = [take(f"rays_{name}", np.empty(rows, arrays[f"rays_{name}"].dtype)) for name in _RECORD]
        if any(column.dtype.kind != "i" for column in columns):
            raise ValueError("the columns of a ray table are not whole numbers")
        records = ((*columns, take("rays_states", np.empty((at.NUM_FLOATS, rows)))),)
    sums = Sums(*(take(name, getattr(blank.sums, name)) for name in ("ledger", "row_books", "maps")), records)
    return Progressed(
        chunks=np.unpackbits(packed, count=count).astype(bool),
        sums=sums,
        totals=take("totals", blank.totals),
        squares=take("squares", blank.squares),
    )


def sweep(path: PathLike) -> None:
    """Remove what killed writers of this checkpoint left beside it."""
    target = Path(path)
    with suppress(OSError):
        for scratch in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
            scratch.unlink()
