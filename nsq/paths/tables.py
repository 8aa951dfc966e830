"""Tables of path groups: all ways that light took, and the ghosts among them."""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kernels.trace import layout as at
from kernels.trace.watch import Action

from ..numbers import check_choice, check_count, suggest
from ..sampling import SamplingPolicy
from .groups import PathGroup, PathStep, ghosts_of, steps_of
from .replay import MEDIUM, Replay
from .signatures import SignatureSink, SignatureTree

#: rays that a table looks at unless it is told otherwise
MOST_RAYS = 1_000_000
_ACTIONS = tuple(action.name.lower() for action in Action)
_COLUMNS = ("flux_w", "standard_error_w", "share", "order", "num_rays", "end", "ghosts", "signature")


@dataclass(frozen=True)
class PathTable:
    """Groups of rays that went the same way, the brightest first.

    Attributes:
        groups: tuple of `PathGroup`. num_rays: rays looked at, of num_rays_total traced.
        parts: names of surfaces and detectors.

    It has a length, can be indexed by a number or a slice (which gives a tuple of groups) and iterated over.
    """

    groups: tuple[PathGroup, ...]
    num_rays: int
    num_rays_total: int
    parts: tuple[str, ...] = field(repr=False)
    title: str = field(default="paths", repr=False)

    def to(self, part: str) -> PathTable:
        """The paths that reach a detector, or end at a surface. Raises ValueError for a name that is neither."""
        known = _matches(self.parts, part, "part")
        kept = tuple(group for group in self.groups if group.end.part in known)
        return replace(self, groups=kept, title=f"{self.title} to {part}")

    def filter(self, *steps: str) -> PathTable:
        """The paths on which these steps follow each other, with anything before, between and after them.

        A step is ``"L1.back:reflect"``, ``"L1.back"`` for anything that happens there, or ``":reflect"`` for a
        reflection anywhere; a part is one face or a whole component (``"L1:reflect"``). Actions are those of
        `PathStep`.

        Raises TypeError for what is no text, and ValueError for unknown parts and actions.
        """
        wanted = [self._wanted(step) for step in steps]
        kept = tuple(group for group in self.groups if _holds(group.steps, wanted))
        return replace(self, groups=kept)

    def _wanted(self, step: Any) -> tuple[frozenset[str] | None, str | None]:
        if not isinstance(step, str):
            raise TypeError(f"step got {step!r} of type {type(step).__name__}; it takes text such as 'L1.back:reflect'")
        part, _, action = step.rpartition(":") if step.rpartition(":")[2] in _ACTIONS else (step, "", "")
        if ":" in step and not action and step not in self.parts:
            check_choice(step.rpartition(":")[2], f"action of step {step!r}", _ACTIONS)
        return (_matches(self.parts, part, f"step {step!r}: part") if part else None), (action or None)

    @property
    def total_flux(self) -> float:
        """Flux of all groups together, W."""
        return float(sum(group.flux for group in self.groups))

    def to_numpy(self) -> np.ndarray:
        """A structured array with one row a group."""
        rows = [
            (g.flux, g.standard_error, g.share, g.order, g.num_rays, str(g.end), ", ".join(g.ghosts), g.signature)
            for g in self.groups
        ]
        texts = [max([1, *(len(row[k]) for row in rows)]) for k in (5, 6, 7)]
        kinds = ["f8", "f8", "f8", "i8", "i8", *(f"U{size}" for size in texts)]
        return np.array(rows, dtype=list(zip(_COLUMNS, kinds, strict=True)))

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the table to a CSV file with a header, and return the file's path."""
        target = Path(path)
        with open(target, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(_COLUMNS)
            writer.writerows(self.to_numpy().tolist())
        return target

    def table(self, limit: int | None = 20) -> str:
        """The first ``limit`` groups as text, all of them for None."""
        shown = self.groups[: None if limit is None else check_count(limit, "limit", minimum=0)]
        lines = [f"{self.title}: {len(self.groups)} groups, {self.total_flux:.6g} W, {self._looked_at()}"]
        if shown:
            lines.append(f"{'flux (W)':>12}{'+-':>10}{'share':>10}{'rays':>9}{'order':>7}  {self._last_heading}")
        for g in shown:
            numbers = f"{g.flux:>12.5g}{g.standard_error:>10.2g}{g.share:>10.3%}{g.num_rays:>9}{g.order:>7}"
            lines.append(f"{numbers}  {self._last_column(g)}")
        if len(shown) < len(self.groups):
            rest = sum(group.flux for group in self.groups[len(shown) :])
            lines.append(f"{rest:>12.5g}  in {len(self.groups) - len(shown)} more groups")
        return "\n".join(lines)

    def plot(self, ax: Any = None, limit: int = 12, **kwargs: Any) -> Any:
        """Draw the flux of the first ``limit`` groups as bars with standard errors, and return the axes.

        Groups are named by the surfaces that reflected part of the light, and by where they end. On ``ax``, or on a new
        figure; ``kwargs`` go to ``barh``.
        """
        from ..plotting.results import draw_groups

        return draw_groups(ax, self.groups[: check_count(limit, "limit")], self.title, kwargs)

    _last_heading = "path"

    def _last_column(self, group: PathGroup) -> str:
        return group.signature

    def _looked_at(self) -> str:
        if self.num_rays == self.num_rays_total:
            return f"from all {self.num_rays} rays"
        return f"from {self.num_rays} of {self.num_rays_total} rays"

    def __str__(self) -> str:
        return self.table()

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[PathGroup]:
        return iter(self.groups)

    def __getitem__(self, place: Any) -> Any:
        return self.groups[place]


@dataclass(frozen=True)
class GhostTable(PathTable):
    """The ghosts on a detector, the brightest first: light that surfaces reflected which are there to refract.

    Attributes:
        detector: its name. detector_flux: all that reaches it, W.
    """

    detector: str = ""
    detector_flux: float = 0.0

    _last_heading = "reflected at"

    def _last_column(self, group: PathGroup) -> str:
        return ", ".join(group.ghosts) + (f"  (from {group.source})" if self._several_sources else "")

    @property
    def _several_sources(self) -> bool:
        return len({group.source for group in self.groups}) > 1


def paths_of(replay: Replay, num_rays: int | None, policy: SamplingPolicy | None) -> PathTable:
    """Every path to a detector and every end of a path, of about ``num_rays`` rays."""
    count = MOST_RAYS if num_rays is None else check_count(num_rays, "num_rays")
    replay = replay.with_policy(policy)
    ids = replay.sample(count)
    tree = SignatureTree(len(replay.source_names))
    sinks = replay.watch(ids, lambda: SignatureSink(replay, tree))
    nothing = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    arrivals = [nothing, *(columns for sink in sinks for columns in sink.arrivals)]
    node, ray, flux = (np.concatenate(column) for column in zip(*arrivals, strict=True))
    order = np.lexsort((ray, node))
    node, ray, flux = node[order], ray[order], flux[order].astype(np.float64)
    looked = np.bincount(replay.source_of(ids), minlength=len(replay.source_names))
    made = replay.rays_of_sources()
    refracts = _refracting(replay)
    cuts = np.flatnonzero(np.diff(node, prepend=-1))
    found = []
    for first, last in itertools.pairwise([*cuts.tolist(), len(node)]):
        key = tree.signature(int(node[first]))
        source, codes = key
        scale = made[source] / looked[source]
        total, error = _estimate(flux[first:last], int(looked[source]))
        found.append(
            PathGroup(
                source=replay.source_names[source], steps=steps_of(replay, codes), flux=float(scale * total),
                standard_error=float(scale * error), share=0.0, ids=ray[first:last],
                ghosts=ghosts_of(replay, codes, refracts),
                _replay=replay, _key=key,
            )
        )  # fmt: skip
    detectors = set(replay.ir.detector_names)
    at_part: dict[str, float] = {}
    for group in found:
        at_part[group.end.part] = at_part.get(group.end.part, 0.0) + group.flux
    reference = {name: at_part[name] for name in at_part if name in detectors}
    found = [replace(g, share=_ratio(g.flux, reference.get(g.end.part, replay.ir.flux_in))) for g in found]
    found.sort(key=lambda group: (-group.flux, group.signature))
    return PathTable(tuple(found), len(ids), replay.options.num_rays, (*replay.names, MEDIUM))


def ghosts_at(
    replay: Replay, detector: str, num_rays: int | None, policy: SamplingPolicy | None, min_reflections: int
) -> GhostTable:
    """Paths to a detector with at least ``min_reflections`` reflections at surfaces that refract."""
    check_choice(detector, "detector", replay.ir.detector_names)
    least = check_count(min_reflections, "min_reflections")
    table = paths_of(replay, num_rays, policy)
    arriving = [g for g in table.groups if g.end.part == detector]
    return GhostTable(
        tuple(g for g in arriving if g.order >= least), table.num_rays, table.num_rays_total, table.parts,
        title=f"ghosts on {detector}", detector=detector, detector_flux=float(sum(g.flux for g in arriving)),
    )  # fmt: skip


def _estimate(flux: np.ndarray, looked: int) -> tuple[float, float]:
    """The sum of a group's flux and its standard error, of ``looked`` independent rays of which most add nothing."""
    total = float(flux.sum())
    if looked < 2:
        return total, total
    spread = float(np.sum(flux**2)) - total**2 / looked
    return total, float(np.sqrt(max(spread, 0.0) * looked / (looked - 1)))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _refracting(replay: Replay) -> np.ndarray:
    """(parts,) whether a part refracts."""
    out = np.zeros(len(replay.names), dtype=bool)
    out[replay.ir.geometry.owner[replay.ir.rows[:, at.KIND] <= at.COATED]] = True
    return out


def _matches(parts: tuple[str, ...], name: str, what: str) -> frozenset[str]:
    """The parts that a name stands for: itself, or the faces of a component."""
    found = frozenset(part for part in parts if part == name or part.startswith(f"{name}."))
    if not found:
        compounds = {part.rpartition(".")[0] for part in parts if "." in part}
        raise ValueError(f"{what} got {name!r}; it takes a surface, a component or a detector of the scene."
                         + suggest(name, [*parts, *sorted(compounds)]))  # fmt: skip
    return found


def _holds(steps: tuple[PathStep, ...], wanted: list[tuple[frozenset[str] | None, str | None]]) -> bool:
    """Whether the wanted steps occur in this order."""
    rest = iter(steps)
    return all(
        any((parts is None or s.part in parts) and (action is None or s.action == action) for s in rest)
        for parts, action in wanted
    )
