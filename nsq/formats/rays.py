"""Rays as a table, which ray files are read into and written from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import torch

from .._names import named_arguments
from ..coordinates import CoordinateSystem, lower_frames
from ..numbers import check_number, to_float
from ..photometry import KM_PHOTOPIC, v_lambda
from ..spectrum import Spectrum

COLUMNS = ("x", "y", "z", "L", "M", "N", "flux", "wavelength")
MOST_RAYS = 10_000_000  # a table of so many takes 640 MB
MOST_LINES = 256  # of a spectrum made of rays
_CHUNK = 65_536
_UNIT_SLACK = 1e-3  # a direction in single precision is a unit vector to 1e-7, a rounded one in text to 1e-4
_FLUX_UNITS = ("W", "lm")


@named_arguments
@dataclass(eq=False)
class RayTable:
    """Rays where they start.

    Args:
        x, y, z: (n,) positions, mm. L, M, N: (n,) direction cosines. flux: (n,) >= 0, in ``flux_unit``.
        wavelength: (n,) µm.
        flux_unit: "W" or "lm".
        description: a line of text.
        spectra: of a file whose rays have spectra rather than wavelengths, those spectra; `wavelength` then holds the
            mean of each ray's. Empty otherwise.

    Columns become float64 arrays. Raises TypeError for columns that are no numbers, ValueError for shapes that differ,
    numbers that are not finite, a flux below 0, a wavelength that is not above 0, and directions that are no unit
    vectors to 1e-3, naming the column and the ray.
    """

    x: Any
    y: Any
    z: Any
    L: Any
    M: Any
    N: Any
    flux: Any
    wavelength: Any
    flux_unit: str = "W"
    description: str = ""
    spectra: tuple[Spectrum, ...] = ()

    def __post_init__(self) -> None:
        if self.flux_unit not in _FLUX_UNITS:
            raise ValueError(f"flux_unit got {self.flux_unit!r}; it takes one of {list(_FLUX_UNITS)}")
        for name in COLUMNS:
            values = as_constants(getattr(self, name), name)
            if values.dtype.kind not in "iuf":
                raise TypeError(f"{name} got dtype {values.dtype}; it takes real numbers, shape (n,)")
            setattr(self, name, np.ascontiguousarray(values, dtype=np.float64))
        for name in COLUMNS:
            values = getattr(self, name)
            if values.ndim != 1 or values.shape != self.x.shape:
                raise ValueError(f"{name} got shape {values.shape}; it takes {self.x.shape[:1]}, as x has")
            _all(np.isfinite(values), name, values, "finite numbers")
        _all(self.flux >= 0.0, "flux", self.flux, "numbers >= 0")
        _all(self.wavelength > 0.0, "wavelength", self.wavelength, "numbers > 0, in µm")
        with np.errstate(over="ignore"):
            length = np.sqrt(self.L**2 + self.M**2 + self.N**2)
        _all(np.abs(length - 1.0) <= _UNIT_SLACK, "L, M, N", length, "unit vectors; this is the length of one")

    @property
    def num_rays(self) -> int:
        return len(self.x)

    @property
    def total_flux(self) -> float:
        """Sum of the flux, in ``flux_unit``."""
        return float(self.flux.sum())

    @classmethod
    def from_database(
        cls, database: Any, cs: CoordinateSystem | None = None, description: str | None = None
    ) -> RayTable:
        """The rays of a ray database, in the frame ``cs``, or in world coordinates; detached.

        They start where they met the detector. The description is the detector's name unless it is given.
        """
        columns = {name: getattr(database, name).detach() for name in COLUMNS}
        text = getattr(database, "name", "") if description is None else description
        table = cls(**columns, description=text)
        return table if cs is None else table.seen_from(cs)

    def seen_from(self, cs: CoordinateSystem) -> RayTable:
        """The same rays with positions and directions given in the frame ``cs``."""
        turn, origin = (t.detach().numpy()[0] for t in lower_frames([cs]))
        place = (np.stack([self.x, self.y, self.z], axis=1) - origin) @ turn
        way = np.stack([self.L, self.M, self.N], axis=1) @ turn
        return RayTable(*place.T, *way.T, self.flux, self.wavelength, self.flux_unit, self.description, self.spectra)

    def to_watts(self) -> RayTable:
        """The table with its flux in W; lumens are divided by each ray's photopic efficacy.

        Raises ValueError where a ray with flux has an invisible wavelength.
        """
        if self.flux_unit == "W":
            return self
        efficacy = KM_PHOTOPIC * v_lambda(self.wavelength)
        unseen = (self.flux > 0.0) & (efficacy <= 0.0)
        _all(~unseen, "wavelength", self.wavelength, "visible wavelengths where the flux is in lm")
        watts = np.divide(self.flux, efficacy, out=np.zeros_like(self.flux), where=efficacy > 0.0)
        return RayTable(
            *(getattr(self, name) for name in COLUMNS[:6]), watts, self.wavelength, "W", self.description, self.spectra
        )

    def spectrum(self) -> Spectrum:
        """The wavelengths that occur, weighted by their flux in W."""
        table = self.to_watts()
        lines, place = np.unique(table.wavelength, return_inverse=True)
        return Spectrum(lines, np.bincount(place, weights=table.flux, minlength=len(lines)))

    def lines(self, most: int = MOST_LINES) -> tuple[Spectrum, np.ndarray]:
        """A spectrum of at most ``most`` lines, and the place (n,) in it of each ray's wavelength.

        Lines are the wavelengths that occur, weighted by their flux in W. Where there are more, they are gathered in
        that many bins of equal width, each a line at the mean wavelength of its light.
        """
        table = self.to_watts()
        distinct, place = np.unique(table.wavelength, return_inverse=True)
        if len(distinct) > most:
            edges = np.linspace(distinct[0], distinct[-1], most + 1)
            bins = np.clip(np.searchsorted(edges, table.wavelength, side="right") - 1, 0, most - 1)
            # a bin without light stands where its rays do
            weights = np.where(np.bincount(bins, table.flux, most)[bins] > 0.0, table.flux, 1.0)
            place = np.unique(bins, return_inverse=True)[1]
            distinct = np.bincount(place, weights * table.wavelength) / np.bincount(place, weights)
        return Spectrum(distinct, np.bincount(place, weights=table.flux, minlength=len(distinct))), place

    def __repr__(self) -> str:
        return f"RayTable({self.num_rays} rays, {self.total_flux:.6g} {self.flux_unit}, {self.description!r})"


def as_constants(values: Any, name: str) -> np.ndarray:
    """An array of what a file may hold; NotImplementedError for a tensor whose gradient would never arrive."""
    if isinstance(values, torch.Tensor):
        if values.requires_grad:
            raise NotImplementedError(f"{name} got a tensor that requires a gradient; measured data carries none")
        values = values.cpu().numpy()
    return np.asarray(values)


def _all(good: np.ndarray, name: str, values: np.ndarray, takes: str) -> None:
    if not good.all():
        ray = int(np.argmin(good))
        raise ValueError(f"{name} of ray {ray} got {values[ray]:g}; it takes {takes}")


# ---- what the binary formats share -----------------------------------------------------------------------------------


def check_length(file: str, stream: IO[bytes], start: int, count: int, record: int, most: int) -> None:
    """ValueError where a file does not end after ``count`` records of ``record`` bytes that begin at ``start``."""
    size = os.fstat(stream.fileno()).st_size
    if size < start:
        raise ValueError(f"{file}: ends at byte {size}, within its header of {start} bytes")
    if count > most:
        raise ValueError(f"{file}: says it holds {count} rays; at most {most} are read (max_rays)")
    if size != start + count * record:
        held = (size - start) / record
        raise ValueError(f"{file}: says it holds {count} rays, and has bytes for {held:g}; it was cut short or damaged")


def read_records(stream: IO[bytes], count: int, columns: int, kept: list[int]) -> list[np.ndarray]:
    """Columns ``kept`` of ``count`` records of ``columns`` little-endian float32 each, as float64, chunk by chunk."""
    out = [np.empty(count) for _ in kept]
    for start in range(0, count, _CHUNK):
        rows = min(_CHUNK, count - start)
        chunk = np.fromfile(stream, dtype="<f4", count=rows * columns).reshape(rows, columns)
        for target, column in zip(out, kept, strict=True):
            target[start : start + rows] = chunk[:, column]
    return out


def write_records(stream: IO[bytes], columns: list[np.ndarray]) -> None:
    """Records of little-endian float32, a chunk at a time."""
    for start in range(0, len(columns[0]), _CHUNK):
        chunk = np.stack([c[start : start + _CHUNK] for c in columns], axis=1).astype("<f4")
        stream.write(chunk.tobytes())


def check_single(file: str, table: RayTable) -> None:
    """ValueError where a number of a table does not fit into single precision."""
    largest = float(np.finfo(np.float32).max)
    for name in COLUMNS:
        values = getattr(table, name)
        if len(values) and np.abs(values).max() > largest:
            raise ValueError(f"{file}: {name} reaches {np.abs(values).max():g}; the format takes at most {largest:g}")


def made(file: str, columns: dict[str, Any]) -> RayTable:
    """A RayTable; its complaint with the file's name."""
    try:
        return RayTable(**columns)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def file_wavelength(file: str, stated: float, given: Any, what: str) -> float:
    """The wavelength in µm of a file that has one for all rays: what the caller gives, or what it states."""
    if given is not None:
        return to_float(check_number(given, "wavelength_um", positive=True))
    if not np.isfinite(stated) or not stated > 0.0:
        raise ValueError(f"{file}: {what} is {stated:g}, no wavelength; give wavelength_um")
    return stated
