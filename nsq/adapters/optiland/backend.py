"""This tracer as a backend of Optiland's, with Optiland's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import optiland.backend as be
import torch
from optiland import nonsequential as peer
from optiland.nonsequential.diagnostics import build_diagnostics

import nsq

from ...numbers import to_float
from ...results import FarFieldPattern, IrradianceMap, RayDatabase, SpectralResult
from .scenes import can_be_met, from_optiland


class WarpBackend(peer.TracerBackend):
    """Traces an Optiland scene: ``scene.trace(num_rays, seed=1, backend=WarpBackend())``.

    Random numbers have the same keys as Optiland's, so a result differs from its own backends' by rounding. With
    Optiland's torch backend, ``data`` and ``total_flux`` of irradiance maps are tensors in its precision, and
    gradients reach every tensor of the scene; poses and the shapes of sources too, which Optiland leaves out, and what
    a moving edge lets pass (visibility), unless that is "off". With its NumPy backend they are arrays.

    Args:
        seed, gradient_mode, precision, device, visibility: as for `nsq.TorchBackend`.

    `trace` raises TypeError for parts of the scene that are classes of the user's own; see `from_optiland`.
    """

    def __init__(
        self,
        seed: int | None = None,
        gradient_mode: str = "prb",
        precision: str = "float64",
        device: str | torch.device | None = None,
        visibility: str = "band",
    ) -> None:
        self._tracer = nsq.TorchBackend(seed, gradient_mode, precision, device, visibility)

    def trace(
        self,
        scene: peer.NSQScene,
        num_rays: int,
        max_depth: int = 16,
        min_flux_fraction: float = 1e-6,
        batch_size: int = 16384,
        seed: int | None = None,
        record_paths: bool | int = False,
    ) -> peer.SimulationResult:
        """Trace ``scene``; arguments as in Optiland, with ``batch_size`` a hint.

        Returns:
            An Optiland SimulationResult. Its ``flux_conservation_error`` is defined by Optiland and has no place for
            what mirrors and coatings lose; ``from_optiland(scene).trace(...)`` has.
        """
        attached = be.get_backend() == "torch"
        with torch.set_grad_enabled(attached and torch.is_grad_enabled()):
            result = self._tracer.trace(
                from_optiland(scene), num_rays, max_depth=max_depth, min_flux_fraction=min_flux_fraction,
                batch_size=batch_size, seed=seed, record_paths=record_paths,
            )  # fmt: skip
        return _result_of(scene, result)

    def __repr__(self) -> str:
        return f"WarpBackend({repr(self._tracer).removeprefix('TorchBackend(')}"


_PRECISIONS = {32: torch.float32, 64: torch.float64}


def _handle(tensor: torch.Tensor) -> Any:
    """What Optiland's active backend holds: an attached tensor in its precision, or an array."""
    if be.get_backend() == "torch":
        return tensor.to(device=be.get_device(), dtype=_PRECISIONS[be.get_precision()])
    return tensor.detach().cpu().numpy()


def _irradiance(read: IrradianceMap) -> peer.IrradianceMap:
    return peer.IrradianceMap(
        irradiance=read.irradiance, x_coords=read.x_coords, y_coords=read.y_coords,
        total_flux=_handle(read.total_flux), num_rays_hit=read.num_rays_hit, data=_handle(read.data),
    )  # fmt: skip


def _spectral(read: SpectralResult) -> peer.SpectralResult:
    return peer.SpectralResult(
        irradiance=read.irradiance, x_coords=read.x_coords, y_coords=read.y_coords, wavelengths=read.wavelengths,
        total_flux=read.total_flux_float, num_rays_hit=read.num_rays_hit,
    )  # fmt: skip


def _far_field(read: FarFieldPattern) -> peer.FarFieldPattern:
    return peer.FarFieldPattern(
        intensity=read.intensity, theta=read.theta, phi=read.phi, total_flux=read.total_flux_float,
        num_rays_hit=read.num_rays_hit,
    )  # fmt: skip


def _ray_database(read: RayDatabase) -> peer.RayDatabase:
    rays = read.to_numpy()
    columns = {name: rays[name] for name in ("x", "y", "z", "L", "M", "N", "flux", "wavelength")}
    if not read.num_rays:  # Optiland keeps the flux of rays that it does not store in one row
        columns |= {"flux": np.array([to_float(read.total_flux)]), "wavelength": np.zeros(1)}
    return peer.RayDatabase(**columns)


_RESULTS = {
    IrradianceMap: _irradiance,
    SpectralResult: _spectral,
    FarFieldPattern: _far_field,
    RayDatabase: _ray_database,
}


def _result_of(scene: peer.NSQScene, result: nsq.SimulationResult) -> peer.SimulationResult:
    detectors = {name: _RESULTS[type(read)](read) for name, read in result.detectors.items()}
    flux_in = result.total_flux_in
    out = result.total_flux_detected - result.total_flux_tapped + result.total_flux_absorbed
    out += result.total_flux_bulk_absorbed + result.total_flux_escaped + result.total_flux_lost
    error = abs(flux_in - out) / flux_in if flux_in > 0.0 else 0.0
    places = [place for place, surface in enumerate(scene.surfaces) if can_be_met(surface)]
    books = zip(places, result.surfaces.values(), strict=True)
    diagnostics = build_diagnostics(
        scene,
        {place for place, book in books if book.num_hits},
        result.num_rays_total,
        flux_in,
        result.total_flux_depth_killed,
        result.total_flux_roulette_killed,
        error,
        result.split_budget_saturated,
        detectors,
        medium_stack_underflows=result.medium_stack_underflows,
    )
    same = (
        "num_rays_total", "num_rays_absorbed", "num_rays_escaped", "num_rays_flux_killed", "num_rays_depth_killed",
        "total_flux_in", "total_flux_detected", "total_flux_tapped", "total_flux_absorbed", "total_flux_bulk_absorbed",
        "total_flux_escaped", "total_flux_lost", "trace_time_sec", "ray_paths",
    )  # fmt: skip
    return peer.SimulationResult(
        detectors=detectors, flux_conservation_error=error, diagnostics=diagnostics,
        **{name: getattr(result, name) for name in same},
    )  # fmt: skip
