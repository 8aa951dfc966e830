"""What maps on pixels share: where their pixels lie, how large they are, and how they are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..numbers import Number, to_float
from ..pixels import CYLINDER, FACES, PLANE
from .archive import Archive
from .common import DetectorResult, as_numpy, centres

# what the axes of a map are called
_LABELS = {PLANE: ("x (mm)", "y (mm)"), CYLINDER: ("azimuth (degrees)", "z (mm)"), FACES: ("face", "")}


class PixelMap(DetectorResult):
    """The layout of a map's pixels.

    Attributes:
        name, num_rays_hit, total_flux, data: of the reading.
        grid: what the pixels divide: "plane", x and y in mm; "cylinder", azimuth in degrees and z in mm, of a sphere or
            a frustum; "faces", the triangles of a mesh.
        width, height: what they span, in those units; centre: the middle of the span of z.
        num_pixels_x, num_pixels_y: nx, ny.
        x_coords, y_coords: (nx,) and (ny,) arrays, pixel centres in the detector's frame; numbers of faces.
    """

    FIELDS = ("name", "width", "height", "num_pixels_x", "num_pixels_y", "num_rays_hit", "grid", "centre")

    data: torch.Tensor
    total_flux: torch.Tensor

    def _lay_out(
        self,
        name: str,
        size: tuple[Number, Number],
        pixels: tuple[int, int],
        num_rays_hit: int,
        grid: str,
        centre: Number,
        pixel_areas: torch.Tensor | None,
    ) -> None:
        self.name, self.num_rays_hit = name, int(num_rays_hit)
        self.width, self.height = (to_float(value) for value in size)
        self.num_pixels_x, self.num_pixels_y = (int(count) for count in pixels)
        if grid not in _LABELS:
            raise ValueError(f"grid got {grid!r}; it takes one of {list(_LABELS)}")
        self.grid, self.centre = grid, to_float(centre)
        count = self.num_pixels_x * self.num_pixels_y
        if pixel_areas is not None and tuple(pixel_areas.shape) != (count,):
            raise ValueError(f"pixel_areas got shape {tuple(pixel_areas.shape)}; it takes ({count},), or None")
        self._areas = pixel_areas
        if grid == FACES:
            self.x_coords, self.y_coords = np.arange(float(count)), np.zeros(1)
        else:
            self.x_coords = centres(self.width, self.num_pixels_x)
            self.y_coords = centres(self.height, self.num_pixels_y)
            if self.centre:
                self.y_coords = self.y_coords + self.centre

    @property
    def pixel_area(self) -> float:
        """Area of a pixel, mm². ValueError where pixels differ in size."""
        if self._areas is not None:
            raise ValueError("pixels of this map differ in size; see pixel_areas")
        return self.width / self.num_pixels_x * (self.height / self.num_pixels_y)

    @property
    def pixel_areas(self) -> torch.Tensor:
        """(ny * nx,) float64 tensor, mm²: how much of the surface each pixel reads, attached to a detector's shape.

        ``data / pixel_areas`` is the irradiance with its graph, where the areas are not 0.
        """
        if self._areas is not None:
            return self._areas
        return torch.full((self.num_pixels_x * self.num_pixels_y,), self.pixel_area, dtype=torch.float64)

    def _per_area(self, flux: np.ndarray) -> np.ndarray:
        """Flux (..., ny, nx) over the areas of the pixels; 0 on pixels beyond a rim."""
        if self._areas is None:
            return flux / self.pixel_area
        areas = as_numpy(self._areas).reshape(self.num_pixels_y, self.num_pixels_x)
        return np.divide(flux, areas, out=np.zeros(flux.shape), where=areas > 0.0)

    def facts(self) -> list[tuple[str, str]]:
        if self.grid == FACES:
            return [("faces", f"{self.num_pixels_x}")]
        across, up = ("mm", "mm") if self.grid == PLANE else ("°", "mm")
        return [
            ("size", f"{self.width:g} {across} x {self.height:g} {up}"),
            ("pixels", f"{self.num_pixels_x} x {self.num_pixels_y}"),
        ]

    def _draw(self, ax: Any, values: np.ndarray, profiles: bool | None, options: dict[str, Any]) -> Any:
        """An image of values (ny, nx) in W/mm², or steps over the faces of a mesh."""
        from ..plotting.results import draw_map, draw_steps

        title = f"{self.name}   {to_float(self.total_flux):.4g} W".strip()
        if self.grid == FACES:
            return draw_steps(ax, values[0], ("face", "W/mm²"), title, options)
        w, h = 0.5 * self.width, 0.5 * self.height
        extent = (-w, w, self.centre - h, self.centre + h)
        if self.grid != PLANE:
            options = {"aspect": "auto", **options}
        options = {"labels": _LABELS[self.grid], "profiles": profiles, "hits": self.num_rays_hit, **options}
        return draw_map(ax, values, extent, "W/mm²", title, **options)

    def _arrays(self) -> dict[str, Any]:
        """What a file holds of the map."""
        arrays = {name: getattr(self, name) for name in self.FIELDS}
        arrays |= {"data": as_numpy(self.data), "total_flux": as_numpy(self.total_flux)}
        return arrays if self._areas is None else {**arrays, "pixel_areas": as_numpy(self._areas)}

    @classmethod
    def _arguments(cls, archive: Archive) -> dict[str, Any]:
        """Arguments of the constructor from what `_arrays` gave."""
        numbers = {name: archive.number(name) for name in ("width", "height", "centre")}
        counts = {name: archive.count(name, 1) for name in ("num_pixels_x", "num_pixels_y")}
        texts = {name: archive.text(name) for name in ("name", "grid")}
        tensors = {"data": archive.tensor("data"), "total_flux": archive.tensor("total_flux", 0)}
        tensors["pixel_areas"] = archive.tensor("pixel_areas") if "pixel_areas" in archive else None
        return {**numbers, **counts, **texts, **tensors, "num_rays_hit": archive.count("num_rays_hit")}
