"""Flux on pixels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..numbers import Number, to_float
from .common import as_numpy, axes, centres, label, load_npz, save_npz

_MAP_FIELDS = ("name", "width", "height", "num_pixels_x", "num_pixels_y", "num_rays_hit")


class IrradianceMap:
    """Flux on the pixels of an irradiance detector.

    Args:
        name: the detector's name.
        data: (ny * nx,) float64 tensor, flux in each pixel in W, row after row along +y, attached to the scene.
        width, height: of the detector, mm. Kept detached.
        num_pixels_x, num_pixels_y: nx, ny.
        num_rays_hit: rays read.
        total_flux: 0-d tensor, W, attached.

    Attributes:
        data, total_flux: as given; differentiate through these.
        irradiance: (ny, nx) float64 array, W/mm², detached.
        x_coords, y_coords: (nx,) and (ny,) arrays, pixel centres in the detector's frame, mm.
        total_flux_float: the total as a Python float.
        name, width, height, num_pixels_x, num_pixels_y, num_rays_hit: as given; the two lengths as floats.
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
    ) -> None:
        if tuple(data.shape) != (num_pixels_x * num_pixels_y,):
            raise ValueError(f"data got shape {tuple(data.shape)}; it takes ({num_pixels_x * num_pixels_y},)")
        self.name = name
        self.data = data
        self.width, self.height = to_float(width), to_float(height)
        self.num_pixels_x, self.num_pixels_y = int(num_pixels_x), int(num_pixels_y)
        self.num_rays_hit = int(num_rays_hit)
        self.total_flux = total_flux
        self.x_coords = centres(self.width, self.num_pixels_x)
        self.y_coords = centres(self.height, self.num_pixels_y)

    @property
    def pixel_area(self) -> float:
        """Area of a pixel, mm²."""
        return self.width / self.num_pixels_x * (self.height / self.num_pixels_y)

    @property
    def irradiance(self) -> np.ndarray:
        return as_numpy(self.data).reshape(self.num_pixels_y, self.num_pixels_x) / self.pixel_area

    @property
    def total_flux_float(self) -> float:
        return to_float(self.total_flux)

    def to_numpy(self) -> np.ndarray:
        """The irradiance (ny, nx) in W/mm², a float64 array of its own."""
        return self.irradiance

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw the map on ``ax``, or on a new figure, and return the axes. ``kwargs`` go to ``imshow``."""
        ax = axes(ax)
        w, h = 0.5 * self.width, 0.5 * self.height
        options = {"origin": "lower", "extent": (-w, w, -h, h), "aspect": "equal", **kwargs}
        image = ax.imshow(self.irradiance, **options)
        ax.figure.colorbar(image, ax=ax, label="W/mm²")
        label(ax, self.name)
        return ax

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the map to an .npz file, all of it or nothing, and return the file's path. The graph is not saved."""
        arrays = {name: getattr(self, name) for name in _MAP_FIELDS}
        arrays.update(data=as_numpy(self.data), total_flux=as_numpy(self.total_flux))
        derived = {"irradiance": self.irradiance, "x_coords": self.x_coords, "y_coords": self.y_coords}
        return save_npz(path, {"kind": "IrradianceMap", **arrays, **derived})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> IrradianceMap:
        """Read what `save` wrote. Raises FileNotFoundError, and ValueError for a file of another kind."""
        arrays = load_npz(path, "IrradianceMap")
        plain = {name: arrays[name].item() for name in _MAP_FIELDS}
        return cls(data=torch.from_numpy(arrays["data"]), total_flux=torch.tensor(arrays["total_flux"]), **plain)

    def __repr__(self) -> str:
        return (
            f"IrradianceMap({self.name!r}, {self.num_pixels_x} x {self.num_pixels_y} pixels,"
            f" {self.num_rays_hit} rays, {self.total_flux_float:.6g} W)"
        )
