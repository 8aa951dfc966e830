"""Flux on pixels."""

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


class IrradianceMap(PixelMap):
    """Flux on the pixels of an irradiance detector.

    Args:
        name: the detector's name.
        data: (ny * nx,) float64 tensor, flux in each pixel in W, row after row along +y, attached to the scene.
        width, height: what the pixels span, mm; degrees of azimuth for a width all round. Kept detached.
        num_pixels_x, num_pixels_y: nx, ny.
        num_rays_hit: rays read.
        total_flux: 0-d tensor, W, attached.
        grid, centre, pixel_areas: of a detector on a shape; see `PixelMap`. Without areas all pixels are alike.

    Attributes:
        data, total_flux: as given; differentiate through these.
        irradiance: (ny, nx) float64 array, W/mm², detached.
        total_flux_float: the total as a Python float.
        And those of `PixelMap`.
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
        num_rays_hit: int,
        total_flux: torch.Tensor,
        grid: str = PLANE,
        centre: Number = 0.0,
        pixel_areas: torch.Tensor | None = None,
    ) -> None:
        if tuple(data.shape) != (num_pixels_x * num_pixels_y,):
            raise ValueError(f"data got shape {tuple(data.shape)}; it takes ({num_pixels_x * num_pixels_y},)")
        self.data, self.total_flux = data, total_flux
        size, pixels = (width, height), (num_pixels_x, num_pixels_y)
        self._lay_out(name, size, pixels, num_rays_hit, grid, centre, pixel_areas)

    @property
    def irradiance(self) -> np.ndarray:
        return self._per_area(as_numpy(self.data).reshape(self.num_pixels_y, self.num_pixels_x))

    @property
    def total_flux_float(self) -> float:
        return to_float(self.total_flux)

    def to_numpy(self) -> np.ndarray:
        """The irradiance (ny, nx) in W/mm², a float64 array of its own."""
        return self.irradiance

    def plot(self, ax: Any = None, profiles: bool | None = None, **kwargs: Any) -> Any:
        """Draw the map in W/mm² on ``ax``, or on a new figure, and return its axes. ``kwargs`` go to ``imshow``.

        ``profiles`` adds cuts through the middle below and beside it; None adds them to a new figure only.
        ``to_photometric(result).plot()`` draws the same in lux.
        """
        return self._draw(ax, self.irradiance, profiles, kwargs)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the map to an .npz file, all of it or nothing, and return the file's path. The graph is not saved."""
        derived = {"irradiance": self.irradiance, "x_coords": self.x_coords, "y_coords": self.y_coords}
        return save_npz(path, {"kind": "IrradianceMap", **self._arrays(), **derived})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> IrradianceMap:
        """Read what `save` wrote. Raises FileNotFoundError, and ValueError for a file of another kind."""
        return cls._read(Archive.open(path, "IrradianceMap"))

    @classmethod
    def _read(cls, archive: Archive) -> IrradianceMap:
        return archive.made(cls, cls._arguments(archive))

    def __repr__(self) -> str:
        return (
            f"IrradianceMap({self.name!r}, {self.num_pixels_x} x {self.num_pixels_y} pixels,"
            f" {self.num_rays_hit} rays, {self.total_flux_float:.6g} W)"
        )
