"""What a trace gives back: maps, ray tables and the ledger of flux."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .numbers import Number, to_float


def _save_npz(path: str | os.PathLike[str], arrays: dict[str, Any]) -> Path:
    """Write arrays to ``path`` (with .npz appended where it is missing), all of them or nothing."""
    target = Path(path)
    if target.suffix != ".npz":
        target = target.with_name(target.name + ".npz")
    # A reader never sees half a file: it is written beside the target and then moved onto it.
    scratch = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with open(scratch, "wb") as stream:
            np.savez(stream, **arrays)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)
    return target


def _load_npz(path: str | os.PathLike[str], kind: str) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    found = str(arrays.pop("kind", "nothing known"))
    if found != kind:
        raise ValueError(f"path got {os.fspath(path)!r}, which holds {found}; it takes a file that {kind}.save wrote")
    return arrays


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


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
        self.x_coords = _centres(self.width, self.num_pixels_x)
        self.y_coords = _centres(self.height, self.num_pixels_y)

    @property
    def pixel_area(self) -> float:
        """Area of a pixel, mm²."""
        return self.width / self.num_pixels_x * (self.height / self.num_pixels_y)

    @property
    def irradiance(self) -> np.ndarray:
        return _numpy(self.data).reshape(self.num_pixels_y, self.num_pixels_x) / self.pixel_area

    @property
    def total_flux_float(self) -> float:
        return to_float(self.total_flux)

    def to_numpy(self) -> np.ndarray:
        """The irradiance (ny, nx) in W/mm², a float64 array of its own."""
        return self.irradiance

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw the map on ``ax``, or on a new figure, and return the axes. ``kwargs`` go to ``imshow``."""
        ax = _axes(ax)
        w, h = 0.5 * self.width, 0.5 * self.height
        options = {"origin": "lower", "extent": (-w, w, -h, h), "aspect": "equal", **kwargs}
        image = ax.imshow(self.irradiance, **options)
        ax.figure.colorbar(image, ax=ax, label="W/mm²")
        _label(ax, self.name)
        return ax

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the map to an .npz file, all of it or nothing, and return the file's path. The graph is not saved."""
        arrays = {name: getattr(self, name) for name in _MAP_FIELDS}
        arrays.update(data=_numpy(self.data), total_flux=_numpy(self.total_flux))
        derived = {"irradiance": self.irradiance, "x_coords": self.x_coords, "y_coords": self.y_coords}
        return _save_npz(path, {"kind": "IrradianceMap", **arrays, **derived})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> IrradianceMap:
        """Read what `save` wrote. Raises FileNotFoundError, and ValueError for a file of another kind."""
        arrays = _load_npz(path, "IrradianceMap")
        plain = {name: arrays[name].item() for name in _MAP_FIELDS}
        return cls(data=torch.from_numpy(arrays["data"]), total_flux=torch.tensor(arrays["total_flux"]), **plain)

    def __repr__(self) -> str:
        return (
            f"IrradianceMap({self.name!r}, {self.num_pixels_x} x {self.num_pixels_y} pixels,"
            f" {self.num_rays_hit} rays, {self.total_flux_float:.6g} W)"
        )


_MAP_FIELDS = ("name", "width", "height", "num_pixels_x", "num_pixels_y", "num_rays_hit")


def _centres(extent: float, count: int) -> np.ndarray:
    return (np.arange(count) + 0.5) * (extent / count) - 0.5 * extent


class RayDatabase:
    """The rays that reached a ray database detector, in world coordinates.

    Args:
        name: the detector's name.
        x, y, z: (n,) float64 tensors, where each ray met the detector, mm.
        L, M, N: (n,) float64 tensors, its direction cosines on arrival.
        flux: (n,) float64 tensor, W. wavelength: (n,) float64 tensor, µm.
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
        wavelength: torch.Tensor,
        ray_id: torch.Tensor,
        num_rays_hit: int | None = None,
        total_flux: torch.Tensor | None = None,
    ) -> None:
        columns = dict(zip(_RAY_COLUMNS, (x, y, z, L, M, N, flux, wavelength, ray_id), strict=True))
        for column, values in columns.items():
            if values.shape != ray_id.shape or values.dim() != 1:
                raise ValueError(f"{column} got shape {tuple(values.shape)}; it takes {tuple(ray_id.shape[:1])}")
        self.name = name
        self.x, self.y, self.z = x, y, z
        self.L, self.M, self.N = L, M, N
        self.flux, self.wavelength, self.ray_id = flux, wavelength, ray_id
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
        return {column: _numpy(getattr(self, column)) for column in _RAY_COLUMNS}

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Spot diagram: y against x in world coordinates, coloured by wavelength. ``kwargs`` go to ``scatter``."""
        ax = _axes(ax)
        rays = self.to_numpy()
        options = {"s": 2.0, "linewidths": 0.0, "cmap": "turbo", **kwargs}
        spots = ax.scatter(rays["x"], rays["y"], c=rays["wavelength"], **options)
        ax.figure.colorbar(spots, ax=ax, label="wavelength (µm)")
        ax.set_aspect("equal", adjustable="datalim")
        _label(ax, self.name)
        return ax

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the rays to an .npz file, all of them or nothing, and return its path. The graph is not saved."""
        extra = {"name": self.name, "num_rays_hit": self.num_rays_hit, "total_flux": _numpy(self.total_flux)}
        return _save_npz(path, {"kind": "RayDatabase", **self.to_numpy(), **extra})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RayDatabase:
        """Read what `save` wrote. Raises FileNotFoundError, and ValueError for a file of another kind."""
        arrays = _load_npz(path, "RayDatabase")
        columns = {column: torch.from_numpy(arrays[column]) for column in _RAY_COLUMNS}
        return cls(
            name=arrays["name"].item(),
            num_rays_hit=arrays["num_rays_hit"].item(),
            total_flux=torch.tensor(arrays["total_flux"]),
            **columns,
        )

    def __repr__(self) -> str:
        return f"RayDatabase({self.name!r}, {self.num_rays} rays, {self.total_flux_float:.6g} W)"


_RAY_COLUMNS = ("x", "y", "z", "L", "M", "N", "flux", "wavelength", "ray_id")


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # not needed by anything but a plot, and slow to import

    return plt.subplots()[1]


def _label(ax: Any, title: str) -> None:
    ax.set_xlabel("x (mm)")
    ax.set_ylabel("y (mm)")
    if title:
        ax.set_title(title)


@dataclass(repr=False)
class SimulationResult:
    """The outcome of a trace. Plain Python numbers, but for the results of the detectors; fluxes in W.

    Attributes:
        detectors: results by detector name, in order of registration.
        num_rays_total: rays traced.
        num_rays_absorbed: rays that ended at absorbing surfaces; num_rays_escaped: at nothing;
            num_rays_flux_killed: in Russian roulette; num_rays_depth_killed: at ``max_depth``.
        total_flux_in: of all sources.
        total_flux_detected: read by all detectors; total_flux_tapped: of it, by those that let rays pass.
        total_flux_absorbed: taken by absorbing surfaces; total_flux_coating: lost in mirrors and coatings;
            total_flux_bulk_absorbed: lost inside media; total_flux_escaped: carried away by rays that meet nothing.
        total_flux_lost: given up at ``max_depth`` and in roulette.
        trace_time_sec: wall-clock time.
        ray_paths: None.
    """

    detectors: dict[str, Any] = field(default_factory=dict)
    num_rays_total: int = 0
    num_rays_absorbed: int = 0
    num_rays_escaped: int = 0
    num_rays_flux_killed: int = 0
    num_rays_depth_killed: int = 0
    total_flux_in: float = 0.0
    total_flux_detected: float = 0.0
    total_flux_tapped: float = 0.0
    total_flux_absorbed: float = 0.0
    total_flux_coating: float = 0.0
    total_flux_bulk_absorbed: float = 0.0
    total_flux_escaped: float = 0.0
    total_flux_lost: float = 0.0
    trace_time_sec: float = 0.0
    ray_paths: None = None

    @property
    def flux_conservation_error(self) -> float:
        """|in - (detected - tapped) - absorbed - coating - bulk - escaped - lost| / in; 0 for no flux at all."""
        if self.total_flux_in == 0.0:
            return 0.0
        out = self.total_flux_detected - self.total_flux_tapped
        out += self.total_flux_absorbed + self.total_flux_coating + self.total_flux_bulk_absorbed
        out += self.total_flux_escaped + self.total_flux_lost
        return abs(self.total_flux_in - out) / self.total_flux_in

    def report(self) -> str:
        """The ledger as a short table."""
        killed = self.num_rays_depth_killed + self.num_rays_flux_killed
        rows = (
            ("in", self.total_flux_in, self.num_rays_total),
            ("detected", self.total_flux_detected, None),
            ("  of which tapped", self.total_flux_tapped, None),
            ("absorbed by surfaces", self.total_flux_absorbed, self.num_rays_absorbed),
            ("lost in mirrors and coatings", self.total_flux_coating, None),
            ("absorbed in media", self.total_flux_bulk_absorbed, None),
            ("escaped", self.total_flux_escaped, self.num_rays_escaped),
            ("lost to depth and roulette", self.total_flux_lost, killed),
        )
        lines = [f"{'flux':<30}{'W':>14}{'share':>10}{'rays':>12}"]
        for label, flux, rays in rows:
            share = flux / self.total_flux_in if self.total_flux_in else 0.0
            lines.append(f"{label:<30}{flux:>14.6g}{share:>10.4%}{'' if rays is None else rays:>12}".rstrip())
        lines.append(f"flux conservation error {self.flux_conservation_error:.2e}")
        for name, detector in self.detectors.items():
            lines.append(f"detector {name}: {to_float(detector.total_flux):.6g} W, {detector.num_rays_hit} rays")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return (
            f"SimulationResult({self.num_rays_total} rays, detectors={list(self.detectors)},"
            f" {self.total_flux_detected:.6g} of {self.total_flux_in:.6g} W detected,"
            f" flux_conservation_error={self.flux_conservation_error:.1e}, {self.trace_time_sec:.3g} s)"
        )
