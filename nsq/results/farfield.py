"""Flux by direction."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..numbers import to_float
from .archive import Archive, save_npz
from .common import DetectorResult, as_numpy

_FIELDS = ("name", "num_bins_theta", "num_bins_phi", "theta_max_deg", "num_rays_hit")


class FarFieldPattern(DetectorResult):
    """Flux by direction, on a polar grid in the frame of a far-field detector.

    Theta is the angle to the detector's axis, 0 to ``theta_max_deg``, the same for light along +z and along -z; phi is
    the azimuth atan2(M, L), -180 to 180 degrees.

    Args:
        name: the detector's name.
        data: (num_bins_theta * num_bins_phi,) float64 tensor, flux in W, all azimuths of the first theta first,
            attached.
        num_bins_theta, num_bins_phi: size of the grid.
        theta_max_deg: where theta ends, degrees.
        num_rays_hit: rays read.
        total_flux: flux of all rays read, also of those beyond ``theta_max_deg``; 0-d tensor, W, attached.

    Attributes:
        data, total_flux: as given; differentiate through these, or through intensity_tensor.
        intensity_tensor: (num_bins_theta, num_bins_phi) tensor, W/sr, attached.
        intensity: the same as a detached array.
        theta, phi: (num_bins_theta,) and (num_bins_phi,) arrays, centres of the bins, degrees.
        theta_edges, phi_edges: the edges, one more of each, degrees.
        solid_angle: (num_bins_theta,) array, of a bin, sr: sin(theta) dtheta dphi at its centre.
        total_flux_float: the total as a Python float.
        name, num_bins_theta, num_bins_phi, theta_max_deg, num_rays_hit: as given.
    """

    PROJECTION = "polar"

    def __init__(
        self,
        *,
        name: str,
        data: torch.Tensor,
        num_bins_theta: int,
        num_bins_phi: int,
        theta_max_deg: float = 90.0,
        num_rays_hit: int,
        total_flux: torch.Tensor,
    ) -> None:
        self.num_bins_theta, self.num_bins_phi = int(num_bins_theta), int(num_bins_phi)
        size = self.num_bins_theta * self.num_bins_phi
        if tuple(data.shape) != (size,):
            raise ValueError(f"data got shape {tuple(data.shape)}; it takes ({size},)")
        self.name = name
        self.data = data
        self.theta_max_deg = to_float(theta_max_deg)
        self.num_rays_hit = int(num_rays_hit)
        self.total_flux = total_flux
        self.theta_edges = np.linspace(0.0, self.theta_max_deg, self.num_bins_theta + 1)
        self.phi_edges = np.linspace(-180.0, 180.0, self.num_bins_phi + 1)
        self.theta = 0.5 * (self.theta_edges[:-1] + self.theta_edges[1:])
        self.phi = 0.5 * (self.phi_edges[:-1] + self.phi_edges[1:])
        step = math.radians(self.theta_max_deg) / self.num_bins_theta * (2.0 * math.pi / self.num_bins_phi)
        self.solid_angle = np.sin(np.radians(self.theta)) * step

    @property
    def flux(self) -> torch.Tensor:
        """(num_bins_theta, num_bins_phi) tensor, W, attached: ``data`` in its shape."""
        return self.data.reshape(self.num_bins_theta, self.num_bins_phi)

    @property
    def intensity_tensor(self) -> torch.Tensor:
        return self.flux / torch.as_tensor(self.solid_angle, device=self.data.device)[:, None]

    @property
    def intensity(self) -> np.ndarray:
        return as_numpy(self.intensity_tensor)

    @property
    def total_flux_float(self) -> float:
        return to_float(self.total_flux)

    def to_numpy(self) -> np.ndarray:
        """The intensity (num_bins_theta, num_bins_phi) in W/sr, a float64 array of its own."""
        return self.intensity

    def cut(self, phi: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """The pattern in the plane through the axis at azimuth ``phi``, degrees.

        Returns theta (2 * num_bins_theta,) in degrees, negative on the far side (azimuth phi + 180), rising, and the
        intensity there in W/sr, of the bins that hold the two azimuths.
        """
        near, far = (self._bin_of(phi), self._bin_of(phi + 180.0))
        intensity = self.intensity
        along = np.concatenate([-self.theta[::-1], self.theta])
        return along, np.concatenate([intensity[::-1, far], intensity[:, near]])

    def _bin_of(self, phi: float) -> int:
        turns = (float(phi) + 180.0) % 360.0 / 360.0
        return min(int(turns * self.num_bins_phi), self.num_bins_phi - 1)

    def facts(self) -> list[tuple[str, str]]:
        return [
            ("bins", f"{self.num_bins_theta} x {self.num_bins_phi}, to {self.theta_max_deg:g}°"),
            ("on the axis", f"{self.intensity[0].mean():.4g} W/sr"),
        ]

    def plot(self, ax: Any = None, kind: str = "polar", **kwargs: Any) -> Any:
        """Draw the pattern on ``ax``, or on a new figure, and return the axes.

        Args:
            kind: "polar" draws the whole pattern, azimuth around and theta outwards (``ax`` must be polar axes;
                ``kwargs`` go to ``pcolormesh``); "cartesian" draws intensity against theta in the planes of azimuth 0
                and 90 degrees, and "diagram" the same as curves about a pole, on polar axes (``kwargs`` go to
                ``plot``); both average over a strip of 8 degrees across the cut. A few noisy bins about the axis may
                lie beyond the end of the colour bar, which then says so.
        """
        from ..plotting.results import FAR_FIELDS

        if kind not in FAR_FIELDS:
            raise ValueError(f"kind got {kind!r}; it takes one of {list(FAR_FIELDS)}")
        ax = FAR_FIELDS[kind](ax, self, kwargs)
        ax.set_title(f"{self.name}   {self.total_flux_float:.4g} W".strip())
        return ax

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the pattern to an .npz file, all of it or nothing, and return its path. The graph is not saved."""
        derived = {"intensity": self.intensity, "theta": self.theta, "phi": self.phi}
        return save_npz(path, {"kind": "FarFieldPattern", **self._arrays(), **derived})

    def _arrays(self) -> dict[str, Any]:
        """What a file holds of the pattern."""
        arrays = {name: getattr(self, name) for name in _FIELDS}
        return {**arrays, "data": as_numpy(self.data), "total_flux": as_numpy(self.total_flux)}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FarFieldPattern:
        """Read what `save` wrote. Raises FileNotFoundError, and ValueError for a file of another kind."""
        return cls._read(Archive.open(path, "FarFieldPattern"))

    @classmethod
    def _read(cls, archive: Archive) -> FarFieldPattern:
        counts = {name: archive.count(name, 1) for name in ("num_bins_theta", "num_bins_phi")}
        numbers = {"theta_max_deg": archive.number("theta_max_deg"), "num_rays_hit": archive.count("num_rays_hit")}
        tensors = {"data": archive.tensor("data"), "total_flux": archive.tensor("total_flux", 0)}
        return archive.made(cls, {"name": archive.text("name"), **counts, **numbers, **tensors})

    def __repr__(self) -> str:
        return (
            f"FarFieldPattern({self.name!r}, {self.num_bins_theta} x {self.num_bins_phi} bins to"
            f" {self.theta_max_deg:g}°, {self.num_rays_hit} rays, {self.total_flux_float:.6g} W)"
        )
