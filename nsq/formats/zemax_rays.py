"""Binary ray files of Zemax OpticStudio (.dat, .sdf), little-endian.

A header of 208 bytes, then one record a ray: x, y, z, l, m, n, flux as 7 float32, or 8 with the wavelength in µm. As
OpticStudio does, a reader takes the number of rays, the unit of length, the format of the rays and the kind of flux
from the header, and the wavelength where the rays have none; location, rotation and scale in it are not applied.
"""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np

from .._files import PathLike, atomic_write
from ..numbers import check_count
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

_HEADER = struct.Struct("<iI100s7fI3f3f3f4fiiii")
_IDENTIFIERS = (1010, 8675309)
_UNITS_MM = (1000.0, 25.4, 10.0, 304.8, 1.0)  # m, in, cm, ft, mm
_MM = 4
_FLUX_ONLY, _SPECTRAL = 0, 2
_FLUX_UNITS = ("W", "lm")


def read_zemax_rays(path: PathLike, wavelength_um: float | None = None, max_rays: int = MOST_RAYS) -> RayTable:
    """The rays of a file, in its order, every float32 exactly; lengths in mm.

    Args:
        path: the file.
        wavelength_um: in place of the header's, for rays that have no wavelength of their own.
        max_rays: a file of more raises.

    Raises OSError, and ValueError naming the file and the place for an unknown identifier, unit, format or kind of
    flux, a length that is not that of the stated number of rays, and numbers that are no rays.
    """
    file = os.fspath(path)
    most = check_count(max_rays, "max_rays")
    with open(path, "rb") as stream:
        raw = stream.read(_HEADER.size)
        if len(raw) < _HEADER.size:
            raise ValueError(f"{file}: ends at byte {len(raw)}, within its header of {_HEADER.size} bytes")
        fields = _HEADER.unpack(raw)
        identifier, count, text = fields[:3]
        wavelength, unit, kind, flux_type = fields[5], fields[10], fields[24], fields[25]
        if identifier not in _IDENTIFIERS:
            raise ValueError(f"{file}: byte 0 holds identifier {identifier}; it takes one of {_IDENTIFIERS}")
        if unit >= len(_UNITS_MM):
            raise ValueError(f"{file}: byte 136 holds unit {unit}; it takes 0 to {len(_UNITS_MM) - 1}")
        if kind not in (_FLUX_ONLY, _SPECTRAL):
            raise ValueError(f"{file}: byte 192 holds ray format {kind}; it takes {_FLUX_ONLY} or {_SPECTRAL}")
        if flux_type not in (0, 1):
            raise ValueError(f"{file}: byte 196 holds flux type {flux_type}; it takes 0 (W) or 1 (lm)")
        columns = 8 if kind == _SPECTRAL else 7
        check_length(file, stream, _HEADER.size, count, 4 * columns, most)
        if kind == _FLUX_ONLY:
            wavelength = file_wavelength(file, wavelength, wavelength_um, "the header's wavelength")
        values = read_records(stream, count, columns, list(range(columns)))
    if kind == _FLUX_ONLY:
        values.append(np.full(count, wavelength))
    if unit != _MM:
        for position in values[:3]:
            position *= _UNITS_MM[unit]
    description = text.split(b"\0")[0].decode("utf-8", errors="replace")
    table = dict(zip(COLUMNS, values, strict=True))
    return made(file, {**table, "flux_unit": _FLUX_UNITS[flux_type], "description": description})


def write_zemax_rays(table: RayTable, path: PathLike) -> None:
    """Write a table as float32, in mm, with wavelengths in µm.

    Rays of one wavelength are written without it, and the header states it; the header's source flux and ray-set flux
    are the sum of the flux. Raises ValueError for a number that float32 does not hold and for more than 2**32 - 1 rays.
    """
    file = os.fspath(path)
    check_single(file, table)
    if table.num_rays >= 2**32:
        raise ValueError(f"{file}: got {table.num_rays} rays; the format takes at most {2**32 - 1}")
    columns = [getattr(table, name) for name in COLUMNS]
    one = table.num_rays > 0 and np.all(table.wavelength == table.wavelength[0])
    exact = one and float(np.float32(table.wavelength[0])) == table.wavelength[0]
    kind = _FLUX_ONLY if exact or table.num_rays == 0 else _SPECTRAL
    wavelength = float(table.wavelength.mean()) if table.num_rays else 0.55
    text: Any = table.description.encode("utf-8")[:99].decode("utf-8", errors="ignore").encode("utf-8")
    total = float(columns[6].astype(np.float32).sum(dtype=np.float64))
    header = _HEADER.pack(
        *(_IDENTIFIERS[0], table.num_rays, text),
        *(total, total, wavelength, 0.0, 0.0, 0.0, 0.0),
        _MM,
        *(0.0, 0.0, 0.0),  # location
        *(0.0, 0.0, 0.0),  # rotation
        *(1.0, 1.0, 1.0),  # scale
        *(0.0, 0.0, 0.0, 0.0),
        *(kind, _FLUX_UNITS.index(table.flux_unit), 0, 0),
    )
    with atomic_write(path) as stream:
        stream.write(header)
        if table.num_rays:
            write_records(stream, columns if kind == _SPECTRAL else columns[:7])
