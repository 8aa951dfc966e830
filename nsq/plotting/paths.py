"""Recorded rays as lines to draw."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..lowering.emitters import ray_budget
from ..numbers import to_float
from .sections import Plane

_CANDIDATES = 40  # rays recorded for each that is drawn, so that those near the plane of a section can be chosen
_MOST_CANDIDATES = 4096
_NEAR = 4  # rays near the plane for each that is drawn, to choose evenly spread ones from
_ORDER = {"birth": 0, "hit": 1, "death": 2}


@dataclass(frozen=True)
class RayLine:
    """One ray.

    Attributes:
        points: (n, 3) places of its birth and of its events, mm. direction: (3,) at its birth.
        way_out: (3,) direction in which it left the scene, or None where it ended inside.
        wavelength: µm. source: its source's number in the scene, or -1 where that is not known.
    """

    points: np.ndarray
    direction: np.ndarray
    way_out: np.ndarray | None
    wavelength: float
    source: int


def ray_lines(scene: Any, result: Any, num_rays: int) -> list[RayLine]:
    """Lines of the rays that ``result`` recorded, or of a small trace where it is None or recorded none.

    A trace of its own records more rays than ``num_rays``, to choose from. A scene that cannot be traced yet has no
    lines.
    """
    paths = None if result is None else result.ray_paths
    total = None if result is None else result.num_rays_total
    if paths is None:
        if num_rays == 0 or not scene.sources or not scene.detectors:
            return []
        total = max(min(_CANDIDATES * num_rays, _MOST_CANDIDATES), len(scene.sources))
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a handful of rays is too few for a map, which is not what it is for
            paths = scene.trace(total, record_paths=True).ray_paths
    return _lines(paths["events"], _first_ids(scene, total))


def _first_ids(scene: Any, total: int) -> np.ndarray:
    """Id of the first ray of each source in a trace of ``total`` rays."""
    budget = ray_budget(total, [to_float(source.total_flux) for source in scene.sources]) if scene.sources else []
    return np.cumsum([0, *budget])[:-1]


def _lines(events: np.ndarray, first_ids: np.ndarray) -> list[RayLine]:
    rank = np.array([_ORDER[str(kind)] for kind in events["event_type"]], dtype=np.int64)
    events = events[np.lexsort((rank, events["bounce"], events["ray_id"]))]
    starts = np.flatnonzero(np.diff(events["ray_id"], prepend=-1))
    lines = []
    for rows in np.split(events, starts[1:]) if len(events) else []:
        points = np.stack([rows["x"], rows["y"], rows["z"]], axis=1)
        ways = np.stack([rows["L"], rows["M"], rows["N"]], axis=1)
        last = rows[-1]
        escaped = last["event_type"] == "death" and last["component_name"] == "escaped"
        source = int(np.searchsorted(first_ids, rows[0]["ray_id"], side="right")) - 1
        lines.append(RayLine(points, ways[0], ways[-1] if escaped else None, float(rows[0]["wavelength"]), source))
    return lines


def typical(lines: list[RayLine], plane: Plane, size: float, count: int) -> list[RayLine]:
    """About ``count`` rays to draw in a section, an equal share of each source.

    Of each source's rays, those that start nearest to the plane and run most nearly along it; of these, some that
    start at places and in directions as far apart as they can be.
    """
    groups: dict[int, list[RayLine]] = {}
    for ray in lines:
        groups.setdefault(ray.source, []).append(ray)
    share = -(-count // max(1, len(groups)))
    return [ray for source in sorted(groups) for ray in _spread(groups[source], plane, size, share)]


def _spread(lines: list[RayLine], plane: Plane, size: float, count: int) -> list[RayLine]:
    starts = plane.project(np.array([ray.points[0] for ray in lines]))
    ways = np.array([ray.direction for ray in lines])
    away = np.abs(starts[:, 2]) / size + np.abs(ways[:, plane.normal])
    near = np.argsort(away, kind="stable")[: _NEAR * count]
    angle = np.arctan2(ways[near, plane.up], ways[near, plane.across])
    seen = np.stack([*starts[near, :2].T, angle], axis=1)
    seen = (seen - seen.mean(axis=0)) / np.maximum(np.ptp(seen, axis=0), (1e-9 * size, 1e-9 * size, 1e-9))
    # farthest point sampling: each ray chosen is the farthest from those before it
    chosen = [0]
    distance = np.linalg.norm(seen - seen[0], axis=1)
    while len(chosen) < min(count, len(near)):
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.linalg.norm(seen - seen[chosen[-1]], axis=1))
    return [lines[near[k]] for k in chosen]
