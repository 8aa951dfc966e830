"""Where and how a trace runs: the backend of the public API."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import engine
from ._files import PathLike
from ._names import named_arguments
from .assemble import assemble
from .longrun import Limits, check_limits
from .lower import lower
from .numbers import check_choice, check_constant, check_count, check_flag, check_number
from .ranks import Alone, Ranks
from .visibility import VISIBILITY, WIDTH, moving_limits, warn_of_limits

if TYPE_CHECKING:
    from .results import SimulationResult
    from .scene import NSQScene

PRECISIONS = ("float64", "float32")
GRADIENT_MODES = ("prb", "autograd")
# a ray table sorts by (ray id, bounce) in one integer
_DEEPEST = 1 << 16
_MOST_RAYS = 1 << 47


@named_arguments
class TorchBackend:
    """The tracer's settings that are not the scene's.

    Args:
        seed: of the random numbers; ``trace``'s own seed wins, and None there and here means 0.
        gradient_mode: "prb" (path replay) traces each batch again in the backward pass, in memory that does not
            grow with the number of rays; "autograd" keeps every state from the forward pass. Both give the same
            gradient.
        precision: "float64" or "float32", of the trace; results and gradients are float64 tensors either way.
        visibility: "band" differentiates also what a moving edge lets pass or stops; "off" leaves that out.
        visibility_width: half width of the band about an edge in which rays sample that, as a share of the smaller of
            the aperture and the spread of the light on it, above 0 and at most 0.5. Narrow bands are noisy, and the
            bias grows with the square of the width.
        device: where to trace, such as "cpu" or "cuda:0"; None is where the scene's tensors are, else the CPU. A list
            of devices shares the rays of a trace out among them; on CPUs, and on GPUs of one kind, the result has the
            bits of a trace on one of them.

    Raises TypeError and ValueError naming the argument.
    """

    def __init__(
        self,
        seed: int | None = None,
        gradient_mode: str = "prb",
        precision: str = "float64",
        device: str | torch.device | Sequence[str | torch.device] | None = None,
        visibility: str = "band",
        visibility_width: float = WIDTH,
    ) -> None:
        self.seed = check_seed(seed)
        self.gradient_mode = check_choice(gradient_mode, "gradient_mode", GRADIENT_MODES)
        self.precision = check_choice(precision, "precision", PRECISIONS)
        self.devices = check_devices(device)
        self.device = self.devices if len(self.devices) > 1 else check_device(device)
        self.visibility = check_choice(visibility, "visibility", VISIBILITY)
        self.visibility_width = check_width(visibility_width)

    def trace(
        self,
        scene: NSQScene,
        num_rays: int,
        max_depth: int = 16,
        min_flux_fraction: float = 1e-6,
        batch_size: int = 32768,
        seed: int | None = None,
        record_paths: bool | int = False,
        *,
        precision: str | None = None,
        progress: bool = False,
        max_seconds: float | None = None,
        target_error: float | Mapping[str, float] | None = None,
        target_map_error: float | Mapping[str, float] | None = None,
        checkpoint: PathLike | None = None,
        checkpoint_every: float = 60.0,
        visibility: str | None = None,
        visibility_width: float | None = None,
    ) -> SimulationResult:
        """Trace a scene. Arguments, result and errors are those of `NSQTracer.trace`."""
        started = time.perf_counter()
        num_rays = check_count(num_rays, "num_rays", maximum=_MOST_RAYS)
        max_depth = check_count(max_depth, "max_depth")
        if max_depth >= _DEEPEST:
            raise ValueError(f"max_depth got {max_depth}; it takes a whole number from 1 to {_DEEPEST - 1}")
        check_number(min_flux_fraction, "min_flux_fraction", nonnegative=True)
        batch_size = check_count(batch_size, "batch_size")
        seed = check_seed(seed)
        if precision is not None:
            check_choice(precision, "precision", PRECISIONS)
        check_flag(progress, "progress")
        if visibility is not None:
            check_choice(visibility, "visibility", VISIBILITY)
        if not isinstance(record_paths, bool):
            record_paths = check_count(record_paths, "record_paths", minimum=0) or False
        scene.validate()
        stops = {"max_seconds": max_seconds, "target_error": target_error, "target_map_error": target_map_error}
        limits = check_limits(scene, started, checkpoint=checkpoint, checkpoint_every=checkpoint_every, **stops)
        devices = self.devices or (_device_of(scene),)
        ir = lower(scene, num_rays, devices[0])
        gradients = torch.is_grad_enabled() and ir.tensors.require_grad
        if gradients and limits is not None:
            name, value = next((n, v) for n, v in {**stops, "checkpoint": checkpoint}.items() if v is not None)
            raise ValueError(
                f"{name} got {value!r}; a trace with gradients takes None, because its backward pass traces every ray"
                " again. Trace under torch.no_grad() to use it"
            )
        if limits is None and progress and not gradients:
            limits = Limits(started)
        visibility = visibility or self.visibility
        moving = moving_limits([*scene.surfaces, *scene.detectors]) if gradients else ()
        if visibility == "off":
            warn_of_limits(moving)
        policy = scene.sampling_policy
        split_depth = policy.split_depth
        if split_depth and gradients:
            warnings.warn(
                f"split_depth got {split_depth}; rays do not split in a trace with gradients, where it counts as 0",
                stacklevel=4,
            )
            split_depth = 0
        # rays sent towards targets are faint on purpose, and roulette would undo what they were sent for
        rr_start_flux = 0.0 if len(ir.aims) else float(policy.rr_start_flux)
        options = engine.Options(
            seed=self.seed or 0 if seed is None else seed,
            num_rays=num_rays,
            max_depth=max_depth,
            faint=max(float(min_flux_fraction), rr_start_flux) * ir.flux_in / num_rays,
            batch_size=batch_size,
            precision=precision or self.precision,
            gradient_mode=self.gradient_mode,
            reflect_prob=policy.reflect_prob,
            split_depth=split_depth,
            split_budget=float(policy.split_budget),
            sobol=policy.sampler is not None,
            devices=devices,
            progress=progress,
            limits=limits,
            ranks=self._ranks(),
            visibility=visibility,
            moving_limits=moving,
            visibility_width=self.visibility_width if visibility_width is None else check_width(visibility_width),
        )
        return assemble(scene, ir, engine.Trace(ir, options), record_paths)

    def _ranks(self) -> Ranks:
        """The processes that share in a trace."""
        return Alone()

    def intersect_scene(self, rays: Any, components: list[Any]) -> tuple[Any, Any, Any, Any]:
        """Nearest surface of each ray; see `nsq.intersect.intersect_scene`."""
        from .intersect import intersect_scene

        return intersect_scene(rays, components)

    def __repr__(self) -> str:
        return (
            f"TorchBackend(seed={self.seed!r}, gradient_mode={self.gradient_mode!r}, precision={self.precision!r},"
            f" device={self.device!r}, visibility={self.visibility!r}, visibility_width={self.visibility_width!r})"
        )


def check_seed(seed: Any) -> int | None:
    """None, or a whole number of any sign as a Python int."""
    return None if seed is None else check_count(seed, "seed", minimum=-(2**63))


def check_width(width: Any) -> float:
    """The half width of visibility bands, as a share of the aperture."""
    return check_constant(width, "visibility_width", positive=True, maximum=0.5)


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


def check_devices(device: Any) -> tuple[str, ...]:
    """The names of the devices of a list, or of one device; none for None."""
    if not isinstance(device, list | tuple):
        checked = check_device(device)
        return () if checked is None else (checked,)
    if not device:
        raise ValueError("device got an empty list; it takes the name of a device, or of several, or None")
    checked = tuple(check_device(d) for d in device)
    if None in checked:
        raise TypeError(f"device got {device!r}; a list takes the names of devices")
    return checked


def _device_of(scene: NSQScene) -> str:
    """The CUDA device of the scene's tensors if any is on one, else the CPU."""
    for item in (*scene.sources, *scene.surfaces, *scene.detectors):
        for holder in (item, item.cs, getattr(item, "geometry", None)):
            for value in vars(holder).values() if holder is not None else ():
                if isinstance(value, torch.Tensor) and value.is_cuda:
                    return str(value.device)
    return "cpu"
