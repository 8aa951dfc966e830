"""Detectors that lie on something else, and so read nothing: who covers whom.

A ray meets one thing at a time, and looks for the next beyond a hair's distance. So of things in one place only one is
met: a surface rather than a detector, and of detectors the one that was registered first. The scene is traced as it
stands, and a warning names what is covered.

Whether two shapes coincide is decided at points: those of the one lie on the surface that the other is a part of, and
some of them within its limits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from kernels.shapes import quadric

from ..geometries import (
    AnnularPlaneGeometry,
    ConicGeometry,
    CylindricalFrustumGeometry,
    FinitePlaneGeometry,
    PlaneGeometry,
    SphereGeometry,
)
from ..numbers import to_float
from .surfaces import Rows, is_mesh

# closer than this share of the scene's size, as where faces touch
_TOLERANCE = 1e-9
_RINGS, _SPOKES = 6, 8


def warn_of_hidden_detectors(
    items: list[Any], num_surfaces: int, rows: Rows, turn: torch.Tensor, place: torch.Tensor
) -> None:
    """Warn of every detector that lies on a surface or on an earlier detector, be it in part."""
    names = [item.name or type(item).__name__ for item in items]
    frames = turn.detach().cpu().numpy(), place.detach().cpu().numpy()
    for k in range(num_surfaces, len(items)):
        for cover in _covers(k, items, rows, frames):
            kind = "detector" if cover >= num_surfaces else "surface"
            warnings.warn(
                f"detector {names[k]!r} lies on {kind} {names[cover]!r}, which light meets first: it reads nothing"
                " where they coincide; a micrometre before or behind it, it does",
                stacklevel=5,
            )


def _covers(k: int, items: list[Any], rows: Rows, frames: tuple[np.ndarray, np.ndarray]) -> list[int]:
    """The surfaces and earlier detectors that detector ``k`` coincides with."""
    near = _TOLERANCE * rows.size
    numbers, sagged = rows.numbers.detach().cpu().numpy(), {row for row, *_ in rows.sags}
    own, earlier = np.flatnonzero(rows.owner == k), np.flatnonzero(rows.owner < k)
    if own[0] in sagged:
        return [j for j in range(k) if _same_sag(items[k], items[j], k, j, frames, near)]
    earlier = np.array([row for row in earlier if row not in sagged], dtype=np.int64) if sagged else earlier
    if is_mesh(items[k].geometry):
        # each sample is the middle of a triangle, and has that triangle's plane to compare with
        sample = own[:: max(1, len(own) // (_RINGS * _SPOKES))]
        found = [earlier[_on(numbers, row, earlier, near)] for row in sample]
        pairs = [(row, other) for row, others in zip(sample, found, strict=True) for other in others]
        overlapping = [o for row, o in pairs if _overlap(row, o, numbers[[row], :3], rows, items, frames, near)]
    else:
        # all else is one row; whoever coincides with it lies on the whole of the surface that it is a part of
        points = _world(_samples(items[k].geometry), k, frames)
        if not len(points):
            return []
        few = points[:: max(1, len(points) // 6)]
        others = earlier[np.all(_distance(few, numbers[earlier]) <= near, axis=0)]
        overlapping = [other for other in others if _overlap(own[0], other, points, rows, items, frames, near)]
    return sorted({int(rows.owner[row]) for row in overlapping})


def _on(numbers: np.ndarray, row: int, others: np.ndarray, near: float) -> np.ndarray:
    """Which of the other rows are the plane that a triangle lies in."""
    flat = np.all(numbers[others][:, [6, 7, 9]] == 0.0, axis=1)
    aligned = np.abs(np.abs(numbers[others, 3:6] @ numbers[row, 3:6]) - 1.0) < 1e-12
    return flat & aligned & (_distance(numbers[[row], :3], numbers[others])[0] <= near)


def _distance(points: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """(points, rows): distances to the whole quadrics of rows, to first order."""
    q = points[:, None, :] - numbers[None, :, 0:3]
    axis, (a, d, g, e) = numbers[:, 3:6], numbers[:, 6:10].T
    s = np.einsum("nri,ri->nr", q, axis)
    value = a * np.sum(q * q, axis=2) + d * s * s + 2.0 * g * s + e
    slope = 2.0 * np.linalg.norm(a[:, None] * q + (d * s + g)[..., None] * axis, axis=2)
    return np.abs(value) / np.maximum(slope, 1e-300)


def _overlap(own: int, other: int, points: np.ndarray, rows: Rows, items: Any, frames: Any, near: float) -> bool:
    """Whether points of a detector's row lie within the limits of another row, or the other way round."""
    if _within(points, other, rows, near).any():
        return True
    if rows.triangle_of_row[other] >= 0:
        corners = rows.triangles[rows.triangle_of_row[other]].reshape(3, 3)
        back = np.array([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9], [1.0, 1.0, 1.0]])
        theirs = (back / back.sum(axis=1, keepdims=True)) @ corners
    else:
        owner = int(rows.owner[other])
        theirs = _world(_samples(items[owner].geometry), owner, frames)
        theirs = theirs[_within(theirs, other, rows, near)]
    return bool(_within(theirs, own, rows, near).any())


def _within(points: np.ndarray, row: int, rows: Rows, near: float) -> np.ndarray:
    """Which points of a row's surface lie within its limits."""
    if rows.triangle_of_row[row] >= 0:
        a, b, c = rows.triangles[rows.triangle_of_row[row]].reshape(3, 3)
        normal = np.cross(b - a, c - a)
        sides = [np.cross(q - p, points - p) @ normal for p, q in ((a, b), (b, c), (c, a))]
        return np.all(np.array(sides) > 0.0, axis=0)
    numbers, limits = rows.numbers[row].detach().cpu().numpy(), rows.domain[row]
    q = points - numbers[:3]
    z = q @ numbers[3:6]
    rho2 = np.sum(q * q, axis=1) - z * z
    x, y = (
        np.abs(q @ limits[quadric.AXIS_X : quadric.AXIS_X + 3]),
        np.abs(q @ limits[quadric.AXIS_Y : quadric.AXIS_Y + 3]),
    )
    inside = (rho2 > limits[quadric.RHO_MIN2] - near) & (rho2 < limits[quadric.RHO_MAX2])
    inside &= (x < limits[quadric.HALF_X]) & (y < limits[quadric.HALF_Y])
    inside &= (z > limits[quadric.Z_MIN]) & (z < limits[quadric.Z_MAX])
    return inside & (limits[quadric.SHEET0] + limits[quadric.SHEET1] * z >= -near)


def _same_sag(own: Any, other: Any, k: int, j: int, frames: Any, near: float) -> bool:
    """Whether two shapes given by sags are one and stand in one place."""
    mine, theirs = own.geometry, other.geometry
    if type(mine) is not type(theirs) or getattr(mine, "powers", ()) != getattr(theirs, "powers", ()):
        return False
    rim = mine.numbers().index(mine.aperture_radius)
    a, b = ([to_float(v) for i, v in enumerate(g.numbers()) if i != rim] for g in (mine, theirs))
    turn, place = frames
    return a == b and bool(np.abs(place[k] - place[j]).max() <= near and np.abs(turn[k] - turn[j]).max() <= 1e-12)


# ---- points of shapes, in their own frames ---------------------------------------------------------------------------


def _world(points: np.ndarray, k: int, frames: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return points @ frames[0][k].T + frames[1][k]


def _rings(inner: float, outer: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Radii, x and y of points on rings between two radii, each ring turned against the one inside it."""
    rho = inner + (outer - inner) * (np.arange(_RINGS) + 0.5) / _RINGS
    phi = 2.0 * np.pi * (np.arange(_SPOKES) + 0.37 * np.arange(_RINGS)[:, None]) / _SPOKES
    rho = np.broadcast_to(rho[:, None], phi.shape).ravel()
    return rho, rho * np.cos(phi.ravel()), rho * np.sin(phi.ravel())


def _of_plane(_: PlaneGeometry) -> np.ndarray:
    _, x, y = _rings(0.0, 1.0)
    return np.stack([x, y, 0.0 * x], axis=1)


def _of_plate(shape: FinitePlaneGeometry) -> np.ndarray:
    if shape.aperture_radius is not None:
        return to_float(shape.aperture_radius) * _of_plane(shape)
    u, v = (np.arange(_RINGS) + 0.5) / _RINGS - 0.5, (np.arange(_SPOKES) + 0.5) / _SPOKES - 0.5
    u, v = (c.ravel() for c in np.meshgrid(u, v))
    return np.stack([u * to_float(shape.width), v * to_float(shape.height), 0.0 * u], axis=1)


def _of_ring(shape: AnnularPlaneGeometry) -> np.ndarray:
    _, x, y = _rings(to_float(shape.inner_radius), to_float(shape.outer_radius))
    return np.stack([x, y, np.full_like(x, to_float(shape.z_offset))], axis=1)


def _of_conic(shape: ConicGeometry) -> np.ndarray:
    rho, x, y = _rings(0.0, to_float(shape.aperture_radius))
    return np.stack([x, y, shape.profile(rho)], axis=1)


def _of_sphere(shape: SphereGeometry) -> np.ndarray:
    radius = to_float(shape.radius)
    rim = radius if shape.aperture_radius is None else to_float(shape.aperture_radius)
    rho, x, y = _rings(0.0, rim)
    z = np.sqrt(radius**2 - rho**2)
    return np.concatenate([np.stack([x, y, side * z], axis=1) for side in (1.0, -1.0)])


def _of_frustum(shape: CylindricalFrustumGeometry) -> np.ndarray:
    r_front, r_back, z_front, z_back = (to_float(v) for v in shape.numbers())
    share, _, _ = _rings(0.0, 1.0)
    _, x, y = _rings(1.0, 1.0)
    r = r_front + share * (r_back - r_front)
    return np.stack([r * x, r * y, z_front + share * (z_back - z_front)], axis=1)


_POINTS: dict[type, Callable[[Any], np.ndarray]] = {
    PlaneGeometry: _of_plane,
    FinitePlaneGeometry: _of_plate,
    AnnularPlaneGeometry: _of_ring,
    ConicGeometry: _of_conic,
    SphereGeometry: _of_sphere,
    CylindricalFrustumGeometry: _of_frustum,
}


def _samples(shape: Any) -> np.ndarray:
    """Points (n, 3) of a shape; none of one that is not known here, such as a user's own."""
    known = next((_POINTS[kind] for kind in type(shape).__mro__ if kind in _POINTS), None)
    return np.zeros((0, 3)) if known is None else known(shape)
