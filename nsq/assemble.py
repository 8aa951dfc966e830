"""From what a trace adds up to the results that users read."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import torch

from kernels.trace import layout as at

from . import engine
from .detectors import FarFieldDetector, IrradianceDetector, PixelDetector, RayDatabaseDetector, SpectralDetector
from .longrun import CTRL_C
from .lowering.ir import SceneIR
from .numbers import to_float
from .paths.events import record
from .paths.replay import Replay
from .results import FarFieldPattern, IrradianceMap, RayDatabase, SimulationResult, SpectralResult, SurfaceBooks

if TYPE_CHECKING:
    from .scene import NSQScene


def assemble(scene: NSQScene, ir: SceneIR, trace: engine.Trace, record_paths: bool | int = False) -> SimulationResult:
    """Run a trace and dress what comes out as a `SimulationResult`, with the events of some rays if asked for."""
    if torch.is_grad_enabled() and ir.tensors.require_grad:
        _warn_of_hard_splats(scene)
    started = time.perf_counter()
    outcome, (maps, totals, states) = engine.run(trace)
    detectors, offset = {}, 0
    for place, (name, detector) in enumerate(zip(ir.detector_names, scene.detectors, strict=True)):
        size = int(ir.map_sizes[place])
        hits = int(outcome.hits[len(ir.surface_names) + place])
        shared = {"name": name, "num_rays_hit": hits, "total_flux": totals[place]}
        read = _Readings(ir, outcome, place, maps[offset : offset + size], states)
        detectors[name] = detector.read(_result_of(detector, read, shared))
        offset += size
    counts = {cell: int(outcome.counts[cell - at.ESCAPE_COUNT]) for cell in range(at.ESCAPE_COUNT, at.NUM_LEDGER)}
    flux = outcome.ledger.tolist()
    replay = Replay.of(scene, trace, detectors)
    result = SimulationResult(
        detectors=detectors,
        num_rays_total=outcome.num_rays,
        num_rays_absorbed=counts[at.ABSORBED_COUNT],
        num_rays_escaped=counts[at.ESCAPE_COUNT],
        num_rays_flux_killed=counts[at.ROULETTE_COUNT],
        num_rays_depth_killed=counts[at.DEPTH_COUNT],
        total_flux_in=ir.flux_in,
        total_flux_detected=flux[at.DETECTED_FLUX],
        total_flux_tapped=flux[at.TAPPED_FLUX],
        total_flux_absorbed=flux[at.ABSORBED_FLUX],
        total_flux_coating=flux[at.COATING_FLUX],
        total_flux_bulk_absorbed=flux[at.BULK],
        total_flux_escaped=flux[at.ESCAPE_FLUX],
        total_flux_lost=flux[at.DEPTH_FLUX] + flux[at.ROULETTE_FLUX],
        total_flux_depth_killed=flux[at.DEPTH_FLUX],
        total_flux_roulette_killed=flux[at.KILLED_FLUX],
        trace_time_sec=time.perf_counter() - started,
        split_budget_saturated=bool(counts[at.REFUSED_COUNT]),
        surfaces=_surface_books(scene, ir, outcome),
        ray_paths=None
        if record_paths is False
        else record(replay, replay.sample(_number_of_rays(record_paths, outcome))),
        replay=replay,
        medium_stack_underflows=counts[at.UNDERFLOW_COUNT],
        **_long_run(ir, outcome),
    )
    _warn_of_media(result)
    return result


def _number_of_rays(record_paths: bool | int, outcome: engine.Outcome) -> int | None:
    """How many rays to record; None is all. Of a run that stopped early, as many as it traced are all."""
    if record_paths is not True:
        return int(record_paths)
    return None if outcome.outlook is None or outcome.outlook.whole else outcome.num_rays


def _long_run(ir: SceneIR, outcome: engine.Outcome) -> dict[str, Any]:
    """What a long run says about itself; warns of one that Ctrl-C ended."""
    outlook = outcome.outlook
    if outlook is None:
        return {}
    if outlook.stopped_by == CTRL_C:
        warnings.warn(f"the trace was interrupted after {outcome.num_rays} rays; its result is partial", stacklevel=6)
    errors = dict(zip(ir.detector_names, outlook.flux_errors.tolist(), strict=True))
    return {"partial": not outlook.whole, "stopped_by": outlook.stopped_by, "relative_errors": errors}


def _surface_books(scene: NSQScene, ir: SceneIR, outcome: engine.Outcome) -> dict[str, SurfaceBooks]:
    """Hits and fluxes of every surface by name; a nameless one is called after its place."""
    books = {}
    for place, (name, surface) in enumerate(zip(ir.surface_names, scene.surfaces, strict=True)):
        loss = float(outcome.loss[place])
        absorbs = surface.kind == "absorb"
        books[name or f"component_{place}"] = SurfaceBooks(
            num_hits=int(outcome.hits[place]),
            incident_flux=float(outcome.incident[place]),
            absorbed_flux=loss if absorbs else 0.0,
            coating_flux=0.0 if absorbs else loss,
            num_shared_hits=int(outcome.shared_hits[place]),
            num_medium_mismatches=int(outcome.strays[place, 0]),
            medium_mismatch_flux=float(outcome.stray_flux[place]),
            mismatched_media=_stray_media(ir, place, *outcome.strays[place].tolist()),
        )
    return books


def _stray_media(ir: SceneIR, place: int, rays: int, keys: int, squares: int) -> tuple[str, str] | None:
    """Labels of the medium that all mismatched rays came through and of the one that the surface has there."""
    if not rays or rays * squares != keys * keys:
        return None
    medium, side = divmod(keys // rays, 2)
    rows = ir.rows[ir.geometry.owner == place]
    sides = {ir.medium_labels[m] for m in rows[:, at.BACK if side else at.FRONT]}
    return (ir.medium_labels[medium], sides.pop()) if len(sides) == 1 else None


# a warning names that many surfaces, and is worth that share of all flux: a ray on the very edge of a mesh may come out
# on the wrong side of it; the result has them all
_NAMED, _WORTH = 5, 1e-4


def _warn_of_media(result: SimulationResult) -> None:
    found = result.medium_mismatches()
    flux = sum(books.medium_mismatch_flux for books in result.surfaces.values())
    if not found or flux < _WORTH * result.total_flux_in:
        return
    rest = f"; and {len(found) - _NAMED} surfaces more" if len(found) > _NAMED else ""
    warnings.warn(
        "light came to surfaces through another medium than the one on their side, as where solids overlap, or lie in"
        f" each other and do not say so: {'; '.join(found[:_NAMED])}{rest}. Say what is around a solid with ambient= or"
        " material_front= and material_back=, and what is around a source with medium=",
        stacklevel=5,
    )


# columns of a ray's state, in order
_STATE_COLUMNS = ("x", "y", "z", "L", "M", "N", "flux", "path_length")


class _Readings:
    """One detector's share of a trace."""

    def __init__(self, ir: SceneIR, outcome: engine.Outcome, place: int, data: torch.Tensor, states: torch.Tensor):
        self.data = data
        self._ir, self._outcome, self._place, self._states = ir, outcome, place, states

    def columns(self, detector: RayDatabaseDetector) -> dict[str, torch.Tensor]:
        """Columns of the ray table, the last ``max_rays`` rows if the detector says so."""
        outcome, device = self._outcome, self._states.device
        rows = torch.as_tensor((outcome.detectors == self._place).nonzero()[0])
        if not detector.store_rays:
            rows = rows[:0]
        elif detector.max_rays:
            rows = rows[-detector.max_rays :]
        floats = dict(zip(_STATE_COLUMNS, self._states[:, rows].unbind(0), strict=True))
        lines = torch.as_tensor(self._ir.wavelengths, device=device)
        line = torch.as_tensor(outcome.lines)[rows].long().to(device)
        return {**floats, "wavelength": lines[line], "ray_id": torch.as_tensor(outcome.ids)[rows].to(device)}


def _pixels(detector: PixelDetector) -> dict[str, Any]:
    grid = detector.grid()
    layout = {"width": grid.width, "height": grid.height, "num_pixels_x": grid.num_x, "num_pixels_y": grid.num_y}
    if detector.shape is None:
        return layout
    areas = grid.areas(detector.splat, to_float(detector.splat_sigma))
    return {**layout, "grid": grid.kind, "centre": grid.centre, "pixel_areas": areas}


def _irradiance(detector: IrradianceDetector, read: _Readings, shared: dict[str, Any]) -> IrradianceMap:
    return IrradianceMap(data=read.data, **_pixels(detector), **shared)


def _spectral(detector: SpectralDetector, read: _Readings, shared: dict[str, Any]) -> SpectralResult:
    return SpectralResult(data=read.data, wavelength_bins=detector.wavelength_bins, **_pixels(detector), **shared)


def _far_field(detector: FarFieldDetector, read: _Readings, shared: dict[str, Any]) -> FarFieldPattern:
    bins = {name: getattr(detector, name) for name in ("num_bins_theta", "num_bins_phi", "theta_max_deg")}
    return FarFieldPattern(data=read.data, **bins, **shared)


def _ray_database(detector: RayDatabaseDetector, read: _Readings, shared: dict[str, Any]) -> RayDatabase:
    return RayDatabase(**read.columns(detector), **shared)


_RESULTS = {
    IrradianceDetector: _irradiance,
    SpectralDetector: _spectral,
    FarFieldDetector: _far_field,
    RayDatabaseDetector: _ray_database,
}


def _result_of(detector: Any, read: _Readings, shared: dict[str, Any]) -> Any:
    """The result that belongs to the detector's class, or to the nearest one that it is derived from."""
    return next(_RESULTS[kind] for kind in type(detector).__mro__ if kind in _RESULTS)(detector, read, shared)


def _warn_of_hard_splats(scene: NSQScene) -> None:
    names = [d.name for d in scene.detectors if getattr(d, "splat", "") == "hard"]
    if names:
        warnings.warn(
            f"detectors {names} have hard pixels, which carry the gradient of flux but not of where it lands;"
            " splat='bilinear' carries both",
            stacklevel=5,
        )
