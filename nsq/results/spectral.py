"""Flux on pixels by wavelength."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..numbers import Number, to_float
from ..pixels import PLANE
from .archive import Archive, save_npz
from .common import as_numpy
from .pixels import PixelMap


class SpectralResult(PixelMap):
    """Flux on the pixels of a spectral detector, in bins of wavelength.

    Args:
        name: the detector's name.
        data: (nb * ny * nx,) float64 tensor, flux in W, bin after bin, in each row after row along +y, attached.
        width, height: what the pixels span, mm; degrees of azimuth for a width all round. Kept detached.
        num_pixels_x, num_pixels_y: nx, ny.
        wavelength_bins: (nb + 1,) edges of the bins, µm, rising.
        num_rays_hit: rays read.
        total_flux: 0-d tensor, W, attached.
        grid, centre, pixel_areas: of a detector on a shape; see `PixelMap`. Without areas all pixels are alike.

    Attributes:
        data, total_flux: as given; differentiate through these.
        irradiance: (ny, nx, nb) float64 array, W/mm² in each bin (not per µm), detached.
        wavelengths: (nb,) array, centres of the bins, µm; assignable.
        total_flux_float: the total as a Python float.
        wavelength_bins: as given. And those of `PixelMap`.

    Raises ValueError for ``data`` or ``wavelengths`` of another size.
    """

    def __init__(
        self,
        *,
        name: str,
        data: torch.Tensor,
        width: Number,
        height: Number,
        num_pixels_x: int,
        num_pixels_y: int,
        wavelength_bins: Any,
        num_rays_hit: int,
        total_flux: torch.Tensor,
        grid: str = PLANE,
        centre: Number = 0.0,
        pixel_areas: torch.Tensor | None = None,
    ) -> None:
        self.wavelength_bins = np.array(wavelength_bins, dtype=np.float64)
        if self.wavelength_bins.ndim != 1 or len(self.wavelength_bins) < 2:
            raise ValueError(f"wavelength_bins got shape {self.wavelength_bins.shape}; it takes (nb + 1,) edges")
        cells = self.num_bins * num_pixels_y * num_pixels_x
        if tuple(data.shape) != (cells,):
            raise ValueError(f"data got shape {tuple(data.shape)}; it takes ({cells},)")
        self.data, self.total_flux = data, total_flux
        size, pixels = (width, height), (num_pixels_x, num_pixels_y)
        self._lay_out(name, size, pixels, num_rays_hit, grid, centre, pixel_areas)
        self.wavelengths = 0.5 * (self.wavelength_bins[:-1] + self.wavelength_bins[1:])

    @property
    def num_bins(self) -> int:
        """nb."""
        return len(self.wavelength_bins) - 1

    @property
    def wavelengths(self) -> np.ndarray:
        return self._wavelengths

    @wavelengths.setter
    def wavelengths(self, values: Any) -> None:
        values = np.array(values, dtype=np.float64)
        if values.shape != (self.num_bins,):
            raise ValueError(f"wavelengths got shape {values.shape}; it takes ({self.num_bins},), one for each bin")
        self._wavelengths = values

    @property
    def flux(self) -> torch.Tensor:
        """(nb, ny, nx) tensor, W, attached: ``data`` in its shape."""
        return self.data.reshape(self.num_bins, self.num_pixels_y, self.num_pixels_x)

    @property
    def spectrum(self) -> torch.Tensor:
        """(nb,) tensor, W, attached: the flux of all pixels in each bin."""
        return self.flux.sum(dim=(1, 2))

    @property
    def irradiance(self) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(self._per_area(as_numpy(self.flux)), 0, 2))

    @property
    def total_flux_float(self) -> float:
        return to_float(self.total_flux)

    def to_numpy(self) -> np.ndarray:
        """The irradiance (ny, nx, nb) in W/mm², a float64 array of its own."""
        return self.irradiance

    def facts(self) -> list[tuple[str, str]]:
        bins = f"{self.num_bins}, {self.wavelength_bins[0]:g} to {self.wavelength_bins[-1]:g} µm"
        return [*super().facts(), ("bins", bins)]

    def plot(self, ax: Any = None, profiles: bool | None = None, **kwargs: Any) -> Any:
        """Draw the map, summed over wavelength, and return its axes. ``kwargs`` go to ``imshow``.

        On ``ax`` the map stands alone; on a new figure the spectrum stands beside it. ``profiles`` True adds cuts
        through the middle.
        """
        if ax is None:
            import matplotlib.pyplot as plt  # not needed by anything but a plot, and slow to import

            _, (ax, beside) = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="tight" if profiles else "constrained")
            self.plot_spectrum(beside)
        return self._draw(ax, self.irradiance.sum(axis=2), profiles, kwargs)

    def plot_spectrum(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw the flux in each bin on ``ax``, or on a new figure, and return the axes. ``kwargs`` go to ``stairs``."""
        from ..plotting.results import draw_spectrum

        return draw_spectrum(ax, self.wavelength_bins, as_numpy(self.spectrum), kwargs)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the result to an .npz file, all of it or nothing, and return its path. The graph is not saved."""
        derived = {"irradiance": self.irradiance, "x_coords": self.x_coords, "y_coords": self.y_coords}
        return save_npz(path, {"kind": "SpectralResult", **self._arrays(), **derived})

    def _arrays(self) -> dict[str, Any]:
        return {**super()._arrays(), "wavelength_bins": self.wavelength_bins, "wavelengths": self.wavelengths}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SpectralResult:
        """Read what `save` wrote. Raises FileNotFoundError, and ValueError for a file of another kind."""
        return cls._read(Archive.open(path, "SpectralResult"))

    @classmethod
    def _read(cls, archive: Archive) -> SpectralResult:
        def make(wavelengths: np.ndarray, **arguments: Any) -> SpectralResult:
            made = cls(**arguments)
            made.wavelengths = wavelengths
            return made

        spectral = {name: archive.floats(name) for name in ("wavelength_bins", "wavelengths")}
        return archive.made(make, {**cls._arguments(archive), **spectral})

    def __repr__(self) -> str:
        return (
            f"SpectralResult({self.name!r}, {self.num_pixels_x} x {self.num_pixels_y} pixels, {self.num_bins} bins"
            f" from {self.wavelength_bins[0]:g} to {self.wavelength_bins[-1]:g} µm,"
            f" {self.num_rays_hit} rays, {self.total_flux_float:.6g} W)"
        )
