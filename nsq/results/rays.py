"""Rays, one by one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..numbers import to_float
from .archive import Archive, save_npz
from .common import DetectorResult, as_numpy

_RAY_COLUMNS = ("x", "y", "z", "L", "M", "N", "flux", "path_length", "wavelength", "ray_id")


class RayDatabase(DetectorResult):
    """The rays that reached a ray database detector, in world coordinates.

    Args:
        name: the detector's name.
        x, y, z: (n,) float64 tensors, where each ray met the detector, mm.
        L, M, N: (n,) float64 tensors, its direction cosines on arrival.
        flux: (n,) float64 tensor, W. path_length: (n,) float64 tensor, geometric length of the
            ray's way from its source, mm. wavelength: (n,) float64 tensor, µm.
        ray_id: (n,) int64 tensor.
        num_rays_hit: rays read, which may be more than were kept; n if None.
        total_flux: flux of all rays read, 0-d tensor, W; that of the rays kept if None.

    All are attributes of these names; the float tensors are attached to the scene.
    """

    def __init__(
        self,
        *,
        name: str,
        x: torch.Tensor,
        y: torch.Tensor,
        z: torch.Tensor,
        L: torch.Tensor,
        M: torch.Tensor,
        N: torch.Tensor,
        flux: torch.Tensor,
        path_length: torch.Tensor,
        wavelength: torch.Tensor,
        ray_id: torch.Tensor,
        num_rays_hit: int | None = None,
        total_flux: torch.Tensor | None = None,
    ) -> None:
        columns = dict(zip(_RAY_COLUMNS, (x, y, z, L, M, N, flux, path_length, wavelength, ray_id), strict=True))
        for column, values in columns.items():
            if values.shape != ray_id.shape or values.dim() != 1:
                raise ValueError(f"{column} got shape {tuple(values.shape)}; it takes {tuple(ray_id.shape[:1])}")
        self.name = name
        self.x, self.y, self.z = x, y, z
        self.L, self.M, self.N = L, M, N
        self.flux, self.path_length = flux, path_length
        self.wavelength, self.ray_id = wavelength, ray_id
        self.num_rays_hit = self.num_rays if num_rays_hit is None else int(num_rays_hit)
        self.total_flux = flux.sum() if total_flux is None else total_flux

    @property
    def num_rays(self) -> int:
        """Rays kept."""
        return int(self.ray_id.shape[0])

    @property
    def total_flux_float(self) -> float:
        return to_float(self.total_flux)

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Every column as a detached array, by name."""
        return {column: as_numpy(getattr(self, column)) for column in _RAY_COLUMNS}

    def facts(self) -> list[tuple[str, str]]:
        return [("kept", f"{self.num_rays:,}")]

    def plot(self, ax: Any = None, plane: str = "xy", **kwargs: Any) -> Any:
        """Spot diagram: where rays land, by wavelength, on ``ax`` or on a new figure; returns the axes.

        Args:
            plane: the two world coordinates to draw against each other, "xy", "xz", "zy" and so on.
            kwargs: go to ``scatter``.

        A spot under 0.1 mm is drawn in µm about its centroid. Of many rays every n-th is drawn; the RMS radius is that
        of all, weighted by flux.
        """
        from ..plotting.results import draw_spots

        if not isinstance(plane, str) or len(plane) != 2 or len(set(plane.lower()) & set("xyz")) != 2:
            raise ValueError(f"plane got {plane!r}; it takes two different ones of x, y and z, such as 'xy'")
        return draw_spots(ax, self.to_numpy(), plane.lower(), self.name, kwargs)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the rays to an .npz file, all of them or nothing, and return its path. The graph is not saved."""
        return save_npz(path, {"kind": "RayDatabase", **self._arrays()})

    def _arrays(self) -> dict[str, Any]:
        """What a file holds of the rays."""
        extra = {"name": self.name, "num_rays_hit": self.num_rays_hit, "total_flux": as_numpy(self.total_flux)}
        return {**self.to_numpy(), **extra}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RayDatabase:
        """Read what `save` wrote. Raises FileNotFoundError, and ValueError for a file of another kind."""
        return cls._read(Archive.open(path, "RayDatabase"))

    @classmethod
    def _read(cls, archive: Archive) -> RayDatabase:
        columns = {name: archive.tensor(name) for name in _RAY_COLUMNS if name != "ray_id"}
        columns["ray_id"] = torch.from_numpy(archive.integers("ray_id"))
        extra = {"name": archive.text("name"), "num_rays_hit": archive.count("num_rays_hit")}
        return archive.made(cls, {**columns, **extra, "total_flux": archive.tensor("total_flux", 0)})

    def __repr__(self) -> str:
        return f"RayDatabase({self.name!r}, {self.num_rays} rays, {self.total_flux_float:.6g} W)"
