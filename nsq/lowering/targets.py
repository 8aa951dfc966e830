"""Targets of importance sampling: from names to spheres in space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..coordinates import lower_frames
from ..importance import ImportanceTarget, targets_of
from ..numbers import suggest, to_float
from .surfaces import bounding_sphere

if TYPE_CHECKING:
    from ..scene import NSQScene

_Sphere = tuple[np.ndarray, float]


def lower_targets(scene: NSQScene) -> tuple[list[int], np.ndarray]:
    """Where each surface's targets begin in the table (-1 for none), and the table that `kernels.bsdfs.aims` reads.

    Raises ValueError for a name that the scene does not hold, or holds twice, and for a target without bounds.
    """
    known: dict[str, list[list[Any]]] | None = None
    starts, table = [], []
    for surface in scene.surfaces:
        targets = targets_of(surface.importance)
        starts.append(len(table) if targets else -1)
        if targets:
            known = _by_name(scene) if known is None else known
            where = f"importance of {surface.name or type(surface).__name__!r}"
            table.append(float(len(targets)))
            for target in targets:
                centre, radius = _sphere(target, known, where)
                table += [*centre, radius, to_float(target.share)]
    return starts, np.array(table)


def _by_name(scene: NSQScene) -> dict[str, list[list[Any]]]:
    """What a name may mean: each meaning is a list of posed shapes."""
    known: dict[str, list[list[Any]]] = {}
    components, detectors = scene.component_registry, scene.detector_registry
    for name in components:
        parts = getattr(components.get(name), "surfaces", [components.get(name)])
        known.setdefault(name, []).append(parts)
        for part in parts:
            if part.name and part.name != name:
                known.setdefault(part.name, []).append([part])
    for name in detectors:
        known.setdefault(name, []).append([detectors.get(name)])
    return known


def _sphere(target: ImportanceTarget, known: dict[str, list[list[Any]]], where: str) -> _Sphere:
    if target.target is None:
        return np.array(target.centre), to_float(target.radius)
    found = known.get(target.target, [])
    if len(found) != 1:
        held = "which several parts have" if found else "which no component or detector has"
        hint = "" if found else suggest(target.target, known)
        raise ValueError(f"{where} got the target {target.target!r}, {held}; it takes one of {list(known)}.{hint}")
    spheres = [_placed(part) for part in found[0]]
    if not all(np.isfinite(radius) for _, radius in spheres):
        raise ValueError(f"{where} got the target {target.target!r}, which has no bounds; it takes a bounded one")
    low = np.min([centre - radius for centre, radius in spheres], axis=0)
    high = np.max([centre + radius for centre, radius in spheres], axis=0)
    middle = spheres[0][0] if len(spheres) == 1 else 0.5 * (low + high)
    return middle, max(float(np.linalg.norm(centre - middle)) + radius for centre, radius in spheres)


def _placed(part: Any) -> _Sphere:
    """The bounding sphere of a surface or detector in world coordinates."""
    centre, radius = bounding_sphere(part.geometry)
    turn, place = (frame.detach().cpu().numpy()[0] for frame in lower_frames([part.cs]))
    return turn @ centre + place, radius
