"""A scene as it was traced, ready to trace any of its rays again."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernels import rng
from kernels.rng import mix
from kernels.trace import layout as at

from .. import engine
from ..lowering.ir import SceneIR
from ..ranks import Alone
from ..rng import EventSlot
from ..sampling import SamplingPolicy

if TYPE_CHECKING:
    from ..scene import NSQScene

# where light is scattered that is at no surface
MEDIUM = "medium"
# ids whose draws are looked at together
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Replay:
    """A traced scene and how it was traced. It shares nothing with the user's scene, so changes there have no effect.

    Attributes:
        ir: the lowered scene, without graph. options: of the trace.
        names: of the surfaces, then of the detectors; a nameless surface is called after its place.
        source_names: in order of registration.
        blanks: results of the detectors by name, without what they read.
    """

    ir: SceneIR
    options: engine.Options
    names: tuple[str, ...]
    source_names: tuple[str, ...]
    blanks: dict[str, Any]

    @classmethod
    def of(cls, scene: NSQScene, trace: engine.Trace, detectors: dict[str, Any]) -> Replay:
        """Keep what a trace of ``scene`` with results ``detectors`` needs to be repeated."""
        tensors = trace.ir.tensors
        copies = {f.name: getattr(tensors, f.name).detach().clone() for f in dataclasses.fields(tensors)}
        surfaces = tuple(name or f"component_{place}" for place, name in enumerate(trace.ir.surface_names))
        return cls(
            ir=dataclasses.replace(trace.ir, tensors=type(tensors)(**copies)),
            options=dataclasses.replace(trace.options, gradient_mode="prb", progress=False, limits=None, ranks=Alone()),
            names=(*surfaces, *trace.ir.detector_names),
            source_names=tuple(scene.source_names),
            blanks={name: _blank(result) for name, result in detectors.items() if hasattr(result, "data")},
        )

    @property
    def num_surfaces(self) -> int:
        return len(self.ir.surface_names)

    @property
    def labels(self) -> tuple[str, ...]:
        """``names``, and what `parts_of` gives beyond them: nothing, and the inside of a medium that scatters."""
        return (*self.names, "", MEDIUM)

    def parts_of(self, row: np.ndarray) -> np.ndarray:
        """Which of ``labels`` rays met (n,), from the rows of a meeting."""
        met = self.ir.geometry.owner[np.maximum(row, 0)]
        return np.select([row >= 0, row == -1], [met, len(self.names)], len(self.names) + 1)

    def with_policy(self, policy: SamplingPolicy | None) -> Replay:
        """The same scene, sampled otherwise; None changes nothing. Raises TypeError for anything else."""
        if policy is None:
            return self
        if not isinstance(policy, SamplingPolicy):
            raise TypeError(f"policy got {policy!r} of type {type(policy).__name__}; it takes a SamplingPolicy or None")
        mean = self.ir.flux_in / self.options.num_rays
        # as in a trace, rays sent towards targets are faint on purpose
        faint = 0.0 if len(self.ir.aims) else float(policy.rr_start_flux) * mean
        changed = dataclasses.replace(
            self.options, reflect_prob=policy.reflect_prob, split_depth=policy.split_depth,
            split_budget=float(policy.split_budget), sobol=policy.sampler is not None,
            faint=faint,
        )  # fmt: skip
        return dataclasses.replace(self, options=changed)

    def round(self, number: int) -> Replay:
        """The same scene with other random numbers: round 0 is the trace, every other one an independent repetition."""
        if number == 0:
            return self
        seed = mix(self.options.seed + mix(number)) >> 1
        return dataclasses.replace(self, options=dataclasses.replace(self.options, seed=seed))

    def sample(self, count: int | None) -> np.ndarray:
        """Ids of about ``count`` rays, chosen by the draw PATH_SAMPLE of each; of all rays for None."""
        total = self.options.num_rays
        if count is None or count >= total:
            return np.arange(total)
        below = min(int(count / total * 2.0**32), 0xFFFFFFFF)
        chosen = []
        for start in range(0, total, _CHUNK):
            ids = np.arange(start, min(start + _CHUNK, total))
            chosen.append(ids[rng.draw(self.options.seed, ids, np.zeros_like(ids), EventSlot.PATH_SAMPLE) < below])
        return np.concatenate(chosen)

    def source_of(self, ids: np.ndarray) -> np.ndarray:
        """Which source each ray comes from."""
        return np.searchsorted([source.stop for source in self.ir.sources], ids, side="right")

    def rays_of_sources(self) -> np.ndarray:
        """(sources,) rays that the trace gave each."""
        return np.array([source.stop - source.start for source in self.ir.sources])

    def map_of(self, name: str, rows: np.ndarray, states: np.ndarray, lines: np.ndarray) -> Any:
        """A result of the detector ``name`` that holds rays met in ``rows`` (n,): states (8, n), lines (n,)."""
        trace = engine.Trace(self.ir, self.options)
        maps = trace.read(self.ir.tensors.as_tuple(), rows, states, lines)
        place = self.ir.detector_names.index(name)
        first = int(self.ir.map_sizes[:place].sum())
        result = copy.copy(self.blanks[name])
        result.data = torch.tensor(maps[first : first + int(self.ir.map_sizes[place])])
        result.total_flux = torch.tensor(float(states[at.FLUX].sum()), dtype=torch.float64)
        result.num_rays_hit = len(rows)
        return result

    def watch(self, ids: np.ndarray, sink: Callable[[], Any]) -> list[Any]:
        """Trace the rays of ascending ``ids`` under the eyes of sinks, and return these in the order of the ids."""
        if not len(ids):
            return []
        trace = engine.Trace(self.ir, self.options)
        return trace.watch(self.ir.tensors.as_tuple(), np.asarray(ids, dtype=np.int64), sink)


def _blank(result: Any) -> Any:
    """A copy of a detector's result that holds nothing of what was read, and so keeps no graph alive."""
    blank = copy.copy(result)
    blank.data = blank.total_flux = None
    return blank
