"""Plane sections of triangles, as curves, and the closed outlines that curves make together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_SNAP = 1e-12  # a corner nearer to the plane than this, relative to the largest coordinate, lies in it
_JOIN = 2e-3  # curves whose ends are nearer than this, relative to the shorter one's extent, belong together


@dataclass(frozen=True)
class Plane:
    """A plane parallel to two of the world's axes.

    Attributes:
        across, up, normal: the world's axes (0 to 2) that run along the picture, up in it and out of it.
        offset: where the plane cuts the third axis, mm.
    """

    across: int
    up: int
    normal: int
    offset: float = 0.0

    def project(self, points: np.ndarray) -> np.ndarray:
        """Points (..., 3) of the world as (across, up, height above the plane), mm."""
        return points[..., [self.across, self.up, self.normal]] - (0.0, 0.0, self.offset)

    @property
    def labels(self) -> tuple[str, str]:
        """Names of the two axes."""
        return f"{'xyz'[self.across]} (mm)", f"{'xyz'[self.up]} (mm)"


PLANES = {"YZ": (2, 1, 0), "XZ": (2, 0, 1), "XY": (0, 1, 2)}


def cut(points: np.ndarray, faces: np.ndarray) -> list[np.ndarray]:
    """Curves in which triangles meet the plane where the third coordinate of ``points`` (V, 3) is 0.

    Each curve is (n, 2), the first two coordinates of its points in order; the first is repeated at the end of a closed
    one. Triangles that share corners give one curve.
    """
    height = points[:, 2].copy()
    height[np.abs(height) <= _SNAP * max(1.0, np.abs(points).max(initial=0.0))] = 0.0
    # a corner in the plane counts as below it: then every triangle is crossed in two sides or in none
    above = height > 0.0
    sides = above[faces]
    met = faces[sides.any(axis=1) & ~sides.all(axis=1)]
    if not len(met):
        return []
    ends = np.sort(np.stack([met, np.roll(met, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    crossed = above[ends[:, 0]] != above[ends[:, 1]]
    edges, number = np.unique(ends[crossed], axis=0, return_inverse=True)
    below, beyond = height[edges[:, 0]], height[edges[:, 1]]
    share = (below / (below - beyond))[:, None]
    places = (1.0 - share) * points[edges[:, 0], :2] + share * points[edges[:, 1], :2]
    return [_distinct(places[chain]) for chain in _chains(number.reshape(-1, 2))]


def _distinct(curve: np.ndarray) -> np.ndarray:
    """A curve without points that repeat the one before; corners in the plane are met several times."""
    keep = np.append(True, np.any(np.diff(curve, axis=0) != 0.0, axis=1))
    return curve[keep]


def _chains(links: np.ndarray) -> list[np.ndarray]:
    """Pairs (n, 2) of numbers, steps from one to the other, as runs of numbers; closed runs end as they began."""
    at: dict[int, list[int]] = {}
    for step, pair in enumerate(links.tolist()):
        for end in pair:
            at.setdefault(end, []).append(step)
    used = np.zeros(len(links), dtype=bool)
    # runs with ends begin at one of them; what is left over is closed
    starts = [end for end, steps in at.items() if len(steps) % 2] + list(at)
    runs = []
    for start in starts:
        here, run = start, [start]
        while True:
            step = next((s for s in at[here] if not used[s]), None)
            if step is None:
                break
            used[step] = True
            a, b = links[step]
            here = int(b if here == a else a)
            run.append(here)
        if len(run) > 1:
            runs.append(np.array(run))
    return runs


def outlines(curves: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Closed outlines (n, 2) that ``curves`` make when they are joined end to end; what does not close is left out."""
    rest, closed = list(curves), []
    while rest:
        run = rest.pop()
        while rest and _gap(run[-1], run[0]) > _JOIN * _extent(run):
            gaps = [min(_gap(run[-1], c[0]), _gap(run[-1], c[-1])) for c in rest]
            best = int(np.argmin(gaps))
            if gaps[best] > _JOIN * min(_extent(run), _extent(rest[best])):
                break
            following = rest.pop(best)
            forward = _gap(run[-1], following[0]) <= _gap(run[-1], following[-1])
            run = np.concatenate([run, following if forward else following[::-1]])
        if len(run) > 2 and _gap(run[-1], run[0]) <= _JOIN * _extent(run):
            closed.append(run)
    return _alternate(closed)


def _extent(curve: np.ndarray) -> float:
    return float(np.max(np.ptp(curve, axis=0)))


def _gap(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.hypot(*(a - b)))


def _alternate(loops: list[np.ndarray]) -> list[np.ndarray]:
    """Loops turned so that each runs against those around it: filled by the winding rule, a hole stays empty."""
    from matplotlib.path import Path

    turned = []
    for loop in loops:
        depth = sum(Path(other).contains_point(loop[0]) for other in loops if other is not loop)
        x, y = loop.T
        anticlockwise = np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) > 0.0
        turned.append(loop if anticlockwise == (depth % 2 == 0) else loop[::-1])
    return turned
