"""Ray files by IES TM-25-13 (.tm25ray), little-endian.

A file is a header (section 4.7.1, 256 bytes), flags of the data that each ray has (4.7.2), nine descriptions (4.7.3),
spectral tables (4.7.4), names of additional columns (4.7.5), a free text (4.7.6), and float32 records. Lengths are in
mm, wavelengths in nm in the file and in µm in a table.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

import numpy as np

from .._files import PathLike, atomic_write
from ..numbers import check_count
from ..spectrum import Spectrum
from .rays import (
    COLUMNS,
    MOST_RAYS,
    RayTable,
    check_length,
    check_single,
    file_wavelength,
    made,
    read_records,
    write_records,
)

_HEADER = struct.Struct("<4siiffQ28siifffiii168s")
_FLAGS = struct.Struct("<8i")
_TEXT_BYTES, _NUM_TEXTS, _LABEL_BYTES = 4000, 9, 512
_VERSION = 2013
_MOST_TABLES, _MOST_COLUMNS, _MOST_TEXT = 10_000, 1000, 16 * 1024 * 1024
_NO_SPECTRUM, _ONE_LINE, _LINE_A_RAY, _ONE_TABLE, _TABLE_A_RAY = range(5)
_NM = 1000.0  # in a µm


@dataclass
class _Head:
    count: int
    kind: int
    line_nm: float
    tables: int
    extra: int
    text_bytes: int
    has_watts: bool
    has_line: bool
    has_lumens: bool
    has_stokes: bool
    has_tristimulus: bool
    has_index: bool


def _take(file: str, stream: IO[bytes], size: int, what: str) -> bytes:
    start = stream.tell()
    data = stream.read(size)
    if len(data) < size:
        raise ValueError(f"{file}: ends at byte {start + len(data)}, within {what}")
    return data


def _between(file: str, value: int, low: int, high: int, what: str) -> int:
    if not low <= value <= high:
        raise ValueError(f"{file}: {what} is {value}; it takes {low} to {high}")
    return value


def _read_head(file: str, stream: IO[bytes]) -> _Head:
    fields = _HEADER.unpack(_take(file, stream, _HEADER.size, "the header (4.7.1)"))
    magic, version, _, _, _, count, _, _, kind, line_nm, _, _, tables, extra, text_bytes, _ = fields
    if magic != b"TM25":
        raise ValueError(f"{file}: begins with {magic!r}; a TM-25 file begins with b'TM25'")
    if version != _VERSION:
        raise ValueError(f"{file}: version (4.7.1.2) is {version}; it takes {_VERSION}")
    _between(file, kind, 0, 4, "the spectral data identifier (4.7.1.9)")
    _between(file, tables, 0, _MOST_TABLES, "the number of spectral tables (4.7.1.13)")
    _between(file, extra, 0, _MOST_COLUMNS, "the number of additional columns (4.7.1.14)")
    _between(file, text_bytes, 0, _MOST_TEXT, "the size of the additional text (4.7.1.15)")
    flags = _FLAGS.unpack(_take(file, stream, _FLAGS.size, "the flags (4.7.2)"))
    for place, flag in enumerate(flags, start=1):
        _between(file, flag, 0, 1, f"flag 4.7.2.{place}")
    position, direction, watts, line, lumens, stokes, tristimulus, index = (bool(flag) for flag in flags)
    if not (position and direction):
        raise ValueError(f"{file}: the flags of position and direction (4.7.2.1, 4.7.2.2) are not both 1")
    if not (watts or lumens):
        raise ValueError(f"{file}: has neither radiant nor luminous flux (4.7.2.3, 4.7.2.5)")
    if stokes:
        raise ValueError(f"{file}: has Stokes vectors (4.7.2.6), which are not supported")
    if kind == _LINE_A_RAY and not line:
        raise ValueError(f"{file}: says each ray has a wavelength (4.7.1.9), and has none (4.7.2.4)")
    if kind in (_ONE_TABLE, _TABLE_A_RAY) and tables < 1:
        raise ValueError(f"{file}: says rays follow a spectral table (4.7.1.9), and has none (4.7.1.13)")
    if index != (kind == _TABLE_A_RAY):
        raise ValueError(f"{file}: the flag of the spectrum index (4.7.2.8) contradicts 4.7.1.9")
    return _Head(count, kind, line_nm, tables, extra, text_bytes, watts, line, lumens, stokes, tristimulus, index)


def _read_tables(file: str, stream: IO[bytes], count: int) -> tuple[Spectrum, ...]:
    spectra, size = [], 0
    for number in range(1, count + 1):
        what = f"spectral table {number} (4.7.4)"
        pairs = struct.unpack("<i", _take(file, stream, 4, what))[0]
        left = (os.fstat(stream.fileno()).st_size - stream.tell()) // 8
        _between(file, pairs, 1, max(1, left), f"the length of {what}")
        values = np.frombuffer(_take(file, stream, 8 * pairs, what), dtype="<f4").astype(np.float64)
        try:
            spectra.append(Spectrum(values[0::2] / _NM, values[1::2]))
        except ValueError as error:
            raise ValueError(f"{file}: {what}: {str(error)[:200]}") from error
        size += 4 + 8 * pairs
    _take(file, stream, -size % 32, "the padding of the spectral tables (4.7.4)")
    return tuple(spectra)


def _mean(spectrum: Spectrum) -> float:
    return float(spectrum.weights @ spectrum.wavelengths / spectrum.weights.sum())


def read_tm25(path: PathLike, wavelength_um: float | None = None, max_rays: int = MOST_RAYS) -> RayTable:
    """The rays of a file, in its order, every float32 exactly.

    The flux is the radiant one in W where the file has it, else the luminous one in lm. Where rays follow spectral
    tables, the tables are the result's ``spectra`` and a ray's wavelength is the mean of its own. Tristimulus values
    and additional columns are left out; the description is the name of the light source.

    Args:
        path: the file.
        wavelength_um: for a file that states no wavelengths; in place of the one of a file that states one for all.
        max_rays: a file of more raises.

    Raises OSError, and ValueError naming the file and the section for anything that the standard does not allow, for
    Stokes vectors, a length that is not that of the stated number of rays, and numbers that are no rays.
    """
    file = os.fspath(path)
    most = check_count(max_rays, "max_rays")
    with open(path, "rb") as stream:
        head = _read_head(file, stream)
        texts = _take(file, stream, _TEXT_BYTES * _NUM_TEXTS, "the descriptions (4.7.3)")
        spectra = _read_tables(file, stream, head.tables)
        _take(file, stream, _LABEL_BYTES * head.extra, "the names of additional columns (4.7.5)")
        _take(file, stream, head.text_bytes, "the additional text (4.7.6)")
        items = ["x", "y", "z", "L", "M", "N"]
        items += [name for name, has in (("watts", head.has_watts), ("line", head.has_line)) if has]
        items += ["lumens"] * head.has_lumens + ["X", "Z"] * head.has_tristimulus + ["index"] * head.has_index
        columns = len(items) + head.extra
        check_length(file, stream, stream.tell(), head.count, 4 * columns, most)
        flux = "watts" if head.has_watts else "lumens"
        wanted = [*items[:6], flux]
        colour = {_LINE_A_RAY: "line", _TABLE_A_RAY: "index"}.get(head.kind)
        if head.kind == _NO_SPECTRUM and head.has_line:
            colour = "line"
        wanted += [colour] if colour else []
        values = read_records(stream, head.count, columns, [items.index(name) for name in wanted])
    if colour == "line":
        values[7] /= _NM
    elif colour == "index":
        values[7] = _means_by_index(file, values[7], spectra)
    else:
        values.append(np.full(head.count, _one_line(file, head, spectra, wavelength_um)))
    return made(
        file,
        {
            **dict(zip(COLUMNS, values, strict=True)),
            "flux_unit": "W" if head.has_watts else "lm",
            "description": _text(texts[:_TEXT_BYTES]),
            "spectra": spectra if head.kind in (_ONE_TABLE, _TABLE_A_RAY) else (),
        },
    )


def _one_line(file: str, head: _Head, spectra: tuple[Spectrum, ...], given: float | None) -> float:
    if head.kind == _ONE_TABLE and given is None:
        return _mean(spectra[0])
    stated = head.line_nm / _NM if head.kind == _ONE_LINE else float("nan")
    return file_wavelength(file, stated, given, "the single wavelength (4.7.1.10)")


def _means_by_index(file: str, index: np.ndarray, spectra: tuple[Spectrum, ...]) -> np.ndarray:
    good = (index >= 1) & (index <= len(spectra)) & (index == np.floor(index))
    if not good.all():
        ray = int(np.argmin(good))
        raise ValueError(f"{file}: ray {ray} follows spectral table {index[ray]:g}; there are {len(spectra)}")
    return np.array([_mean(s) for s in spectra])[index.astype(np.int64) - 1]


def _text(raw: bytes) -> str:
    return raw.decode("utf-32-le", errors="replace").split("\0")[0]


def _block(text: str) -> bytes:
    return text[: _TEXT_BYTES // 4 - 1].encode("utf-32-le", errors="replace").ljust(_TEXT_BYTES, b"\0")


def write_tm25(table: RayTable, path: PathLike, created: datetime | None = None) -> None:
    """Write a table as float32.

    Rays of one wavelength are written without it and the header states it; otherwise each ray has its own. The total
    flux in the header is the sum of the flux. ``created`` is the time of creation, now if None.

    Raises ValueError for an empty table, for a number that float32 does not hold, and for flux in lm at several
    wavelengths, which the standard does not allow.
    """
    file = os.fspath(path)
    if table.num_rays == 0:
        raise ValueError(f"{file}: got no rays; the format takes at least one")
    check_single(file, table)
    columns: list[Any] = [getattr(table, name) for name in COLUMNS[:7]]
    lines = table.wavelength * _NM
    one = bool(np.all(lines == lines[0]))
    lumens = table.flux_unit == "lm"
    if lumens and not one:
        raise ValueError(f"{file}: got flux in lm at several wavelengths; the format takes W there, see to_watts")
    total = float(columns[6].astype(np.float32).sum(dtype=np.float64))
    stamp = (datetime.now(UTC) if created is None else created).isoformat(timespec="seconds").encode("ascii")[:27]
    nan = float("nan")
    header = _HEADER.pack(
        *(b"TM25", _VERSION, 0),  # made by simulation
        *((total, nan) if lumens else (nan, total)),
        *(table.num_rays, stamp, 0),  # rays start where they were read
        *(_ONE_LINE if one else _LINE_A_RAY, float(lines[0]) if one else 0.0),
        *(0.0 if one else float(lines.min()), 0.0 if one else float(lines.max())),
        *(0, 0, 0, b""),
    )
    flags = _FLAGS.pack(1, 1, int(not lumens), int(not one), int(lumens), 0, 0, 0)
    with atomic_write(path) as stream:
        stream.write(header + flags + _block(table.description) + b"\0" * (_TEXT_BYTES * (_NUM_TEXTS - 1)))
        write_records(stream, columns if one else [*columns, lines])
