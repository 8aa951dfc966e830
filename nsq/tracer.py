"""The tracer: a scene and a backend."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .backend import TorchBackend

if TYPE_CHECKING:
    from .results import SimulationResult
    from .scene import NSQScene


class NSQTracer:
    """Traces a scene with a backend; ``None`` is a `TorchBackend` with its defaults."""

    def __init__(self, scene: NSQScene, backend: TorchBackend | None = None) -> None:
        from .scene import NSQScene

        if not isinstance(scene, NSQScene):
            raise TypeError(f"scene got {type(scene).__name__}; it takes an NSQScene")
        if backend is None:
            backend = TorchBackend()
        if not callable(getattr(backend, "trace", None)):
            raise TypeError(
                f"backend got {backend!r} of type {type(backend).__name__}; it takes a TorchBackend or None"
            )
        self.scene = scene
        self.backend = backend

    def trace(
        self,
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
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 60.0,
        visibility: str | None = None,
        visibility_width: float | None = None,
    ) -> SimulationResult:
        """Trace ``num_rays`` rays.

        Every ray is a function of (scene, seed, ray id) alone, so the result does not depend on batches, threads or
        devices: on CPUs it is the same to the last bit.

        Args:
            num_rays: rays over all sources, in proportion to their flux; at least one for each, at most 2**47.
            max_depth: events (surfaces and detectors met) after which a ray is given up, 1 to 65535.
            min_flux_fraction: flux, as a share of the mean flux per ray, below which Russian roulette begins; the
                larger of this and the sampling policy's ``rr_start_flux`` counts. 0 for both turns it off.
            batch_size: a hint of how many rays to work on at a time; no effect on the result.
            seed: of the random numbers; None takes the backend's, and 0 where that is None too.
            record_paths: True records every event of every ray, a number n those of about n rays (the same ones for
                any batch size), False none. The rays are traced again for it, so the trace itself is none the slower.
            precision: "float64" or "float32"; None takes the backend's.
            progress: show a progress bar.
            visibility: "band" or "off": whether gradients count what a moving edge lets pass; None takes the backend's.
            visibility_width: half width of the bands that sample it, a share of the aperture; None takes the backend's.
            max_seconds: stop after so many seconds of this call, > 0, with the rays traced by then; ``math.inf`` makes
                a long run of a trace and does not stop it.
            target_error: stop when the relative standard error of a detector's total flux is no larger: a number for
                all detectors, or numbers by name of the detector.
            target_map_error: the same for a detector's pixels: the expected root of the sum of their squared errors,
                over the root of the sum of their squares.
            checkpoint: a file to write what is done to, every ``checkpoint_every`` seconds and at the end. A trace that
                finds the file goes on from there.
            checkpoint_every: seconds between two of them, >= 0.

        The last five arguments and ``progress`` make a *long run*. In one, Ctrl-C ends the trace, with a warning, and
        not the program; a second one raises. A run that stops before its last ray returns a result marked ``partial``,
        an estimate from the rays traced so far, and ``relative_errors``. Errors are estimated from the spread between
        chunks of rays, of which a run must have 16; `docs/longruns.md` has the details. A run resumed from a checkpoint
        has the bits of one that was never interrupted. A trace with gradients takes none but ``progress``, which is a
        bar alone there.

        Returns:
            A `SimulationResult`. Where autograd is on and a number of the scene requires a gradient, ``data`` and
            ``total_flux`` of irradiance maps and the float columns of ray databases are attached to it. Derivatives
            are of first order; a second backward through a gradient raises.

        Raises TypeError and ValueError naming the argument or the part of the scene that is wrong, before anything is
        launched, FloatingPointError if a ray's flux ceases to be finite, ValueError for a ``checkpoint`` that is broken
        or of another trace, and OSError for one that cannot be written; the file from before stays then.
        """
        return self.backend.trace(
            self.scene,
            num_rays,
            max_depth=max_depth,
            min_flux_fraction=min_flux_fraction,
            batch_size=batch_size,
            seed=seed,
            record_paths=record_paths,
            precision=precision,
            progress=progress,
            max_seconds=max_seconds,
            target_error=target_error,
            target_map_error=target_map_error,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            visibility=visibility,
            visibility_width=visibility_width,
        )
