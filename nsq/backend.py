"""Where and how a trace runs: the backend of the public API."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import torch

from kernels.trace import layout as at

from . import engine
from .detectors import IrradianceDetector
from .lower import lower
from .lowering.ir import SceneIR
from .numbers import check_choice, check_count, check_flag, check_number
from .results import IrradianceMap, RayDatabase, SimulationResult

if TYPE_CHECKING:
    from .scene import NSQScene

PRECISIONS = ("float64", "float32")
GRADIENT_MODES = ("prb", "autograd")
# a ray table sorts by (ray id, bounce) in one integer
_DEEPEST = 1 << 16


class TorchBackend:
    """The tracer's settings that are not the scene's.

    Args:
        seed: of the random numbers; ``trace``'s own seed wins, and None there and here means 0.
        gradient_mode: "prb" (path replay) traces each batch again in the backward pass, in memory that does not grow with
            the number of rays; "autograd" keeps every state from the forward pass. Both give the same gradient.
        precision: "float64" or "float32", of the trace; results and gradients are float64 tensors either way.
        device: where to trace, such as "cpu" or "cuda:0"; None is where the scene's tensors are, else the CPU.

    Raises TypeError and ValueError naming the argument.
    """

    def __init__(
        self,
        seed: int | None = None,
        gradient_mode: str = "prb",
        precision: str = "float64",
        device: str | torch.device | None = None,
    ) -> None:
        self.seed = check_seed(seed)
        self.gradient_mode = check_choice(gradient_mode, "gradient_mode", GRADIENT_MODES)
        self.precision = check_choice(precision, "precision", PRECISIONS)
        self.device = check_device(device)

    def trace(
        self,
        scene: NSQScene,
        num_rays: int,
        max_depth: int = 16,
        min_flux_fraction: float = 1e-6,
        batch_size: int = 16384,
        seed: int | None = None,
        record_paths: bool | int = False,
        *,
        precision: str | None = None,
        progress: bool = False,
    ) -> SimulationResult:
        """Trace a scene. Arguments, result and errors are those of `NSQTracer.trace`."""
        num_rays = check_count(num_rays, "num_rays")
        max_depth = check_count(max_depth, "max_depth")
        if max_depth >= _DEEPEST:
            raise ValueError(f"max_depth got {max_depth}; it takes a whole number from 1 to {_DEEPEST - 1}")
        check_number(min_flux_fraction, "min_flux_fraction", nonnegative=True)
        batch_size = check_count(batch_size, "batch_size")
        seed = check_seed(seed)
        if precision is not None:
            check_choice(precision, "precision", PRECISIONS)
        check_flag(progress, "progress")
        if record_paths is not False:
            raise NotImplementedError(
                f"record_paths got {record_paths!r}; recording is not supported yet, it takes False"
            )
        scene.validate()
        ir = lower(scene, num_rays, self.device or _device_of(scene))
        policy = scene.sampling_policy
        options = engine.Options(
            seed=self.seed or 0 if seed is None else seed,
            num_rays=num_rays,
            max_depth=max_depth,
            faint=max(float(min_flux_fraction), float(policy.rr_start_flux)) * ir.flux_in / num_rays,
            batch_size=batch_size,
            precision=precision or self.precision,
            gradient_mode=self.gradient_mode,
            reflect_prob=policy.reflect_prob,
            device=ir.tensors.numbers.device,
            progress=progress,
        )
        return assemble(scene, ir, options)

    def intersect_scene(self, rays: Any, components: list[Any]) -> tuple[Any, Any, Any, Any]:
        """Nearest surface of each ray; see `nsq.intersect.intersect_scene`."""
        from .intersect import intersect_scene

        return intersect_scene(rays, components)

    def __repr__(self) -> str:
        return (
            f"TorchBackend(seed={self.seed!r}, gradient_mode={self.gradient_mode!r}, precision={self.precision!r},"
            f" device={self.device!r})"
        )


def check_seed(seed: Any) -> int | None:
    """None, or a whole number of any sign as a Python int."""
    return None if seed is None else check_count(seed, "seed", minimum=-(2**63))


def check_device(device: Any) -> str | None:
    """None, or the name of a device that ``torch`` knows and that is there."""
    if device is None:
        return None
    if not isinstance(device, str | torch.device):
        raise TypeError(
            f"device got {device!r} of type {type(device).__name__}; it takes a name such as 'cuda:0' or None"
        )
    try:
        known = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device got {device!r}; it takes a name such as 'cpu' or 'cuda:0'") from error
    if known.type not in ("cpu", "cuda"):
        raise ValueError(f"device got {device!r}; it takes a CPU or a CUDA device")
    if known.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device got {device!r}, but no CUDA device is there; it takes 'cpu' here")
    return str(known)


def _device_of(scene: NSQScene) -> str:
    """The CUDA device of the scene's tensors if any is on one, else the CPU."""
    for item in (*scene.sources, *scene.surfaces, *scene.detectors):
        for holder in (item, item.cs, getattr(item, "geometry", None)):
            for value in vars(holder).values() if holder is not None else ():
                if isinstance(value, torch.Tensor) and value.is_cuda:
                    return str(value.device)
    return "cpu"


def assemble(scene: NSQScene, ir: SceneIR, options: engine.Options) -> SimulationResult:
    """Run the trace and dress what comes out as a `SimulationResult`."""
    attached = torch.is_grad_enabled() and ir.tensors.require_grad
    if attached:
        _warn_of_hard_splats(scene)
    started = time.perf_counter()
    outcome, (maps, totals, states) = engine.run(engine.Trace(ir, options))
    lines = torch.as_tensor(ir.wavelengths, device=maps.device)
    detectors, offset = {}, 0
    for place, (name, detector) in enumerate(zip(ir.detector_names, scene.detectors, strict=True)):
        hits = int(outcome.hits[len(ir.surface_names) + place])
        shared = {"name": name, "num_rays_hit": hits, "total_flux": totals[place]}
        if isinstance(detector, IrradianceDetector):
            size = detector.num_pixels_x * detector.num_pixels_y
            detectors[name] = IrradianceMap(
                data=maps[offset : offset + size], width=detector.width, height=detector.height,
                num_pixels_x=detector.num_pixels_x, num_pixels_y=detector.num_pixels_y, **shared,
            )  # fmt: skip
            offset += size
        else:
            chosen = _rows_to_keep(outcome, place, detector)
            columns = dict(zip(("x", "y", "z", "L", "M", "N", "flux"), states[:7, chosen].unbind(0), strict=True))
            wavelength = lines[torch.as_tensor(outcome.lines, device=lines.device)[chosen].long()]
            ids = torch.as_tensor(outcome.ids, device=maps.device)[chosen]
            detectors[name] = RayDatabase(**columns, wavelength=wavelength, ray_id=ids, **shared)
    counts = {cell: int(outcome.counts[cell - at.ESCAPE_COUNT]) for cell in range(at.ESCAPE_COUNT, at.NUM_LEDGER)}
    flux = outcome.ledger.tolist()
    return SimulationResult(
        detectors=detectors,
        num_rays_total=options.num_rays,
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
        trace_time_sec=time.perf_counter() - started,
    )


def _rows_to_keep(outcome: engine.Outcome, place: int, detector: Any) -> torch.Tensor:
    """Rows of the ray tables that belong to a detector, the last ``max_rays`` of them if it says so."""
    rows = torch.as_tensor((outcome.detectors == place).nonzero()[0])
    if not detector.store_rays:
        return rows[:0]
    return rows[-detector.max_rays :] if detector.max_rays else rows


def _warn_of_hard_splats(scene: NSQScene) -> None:
    names = [d.name for d in scene.detectors if getattr(d, "splat", "") == "hard"]
    if names:
        warnings.warn(
            f"detectors {names} have hard pixels, which carry the gradient of flux but not of where it lands;"
            " splat='bilinear' carries both",
            stacklevel=4,
        )
