"""Files written whole or not at all, and read only as far as is sensible."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

PathLike = str | os.PathLike[str]


@contextmanager
def atomic_write(path: PathLike, mode: str = "wb") -> Iterator[IO[Any]]:
    """A stream whose content takes the place of ``path`` when the block ends well.

    It is written beside the target and then moved onto it, so a reader never sees half a file, and a failure, a full
    disk among them, leaves the old file as it was. Text is UTF-8 with ``\\n``. Raises OSError naming the path.
    """
    target = Path(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        descriptor, scratch = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise type(error)(error.errno, f"{error.strerror}, writing", os.fspath(target)) from error
    try:
        with os.fdopen(descriptor, mode, **text) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(scratch, _mode(target))
        os.replace(scratch, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(scratch)
        raise


def _mode(target: Path) -> int:
    """Permissions that a plain ``open`` would give, or those of the file that is replaced."""
    with suppress(OSError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def read_bounded(path: PathLike, limit: int) -> bytes:
    """The bytes of a file of at most ``limit`` bytes; ValueError naming the file for a longer one."""
    with open(path, "rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{os.fspath(path)}: longer than {limit} bytes, the most that such a file takes")
    return data
