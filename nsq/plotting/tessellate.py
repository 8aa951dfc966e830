"""Shapes as triangles, for drawing only: the trace meets the shapes themselves.

Rings about the axis are polygons of ``segments`` corners, so a drawn curve lies within ``(pi / segments)^2 / 2`` of its
radius from the true one; curves through the axis are far closer.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from ..geometries import (
    AnnularPlaneGeometry,
    ConicGeometry,
    CylindricalFrustumGeometry,
    FinitePlaneGeometry,
    PlaneGeometry,
    SphereGeometry,
)
from ..geometries_mesh import MeshGeometry
from ..geometries_sag import SagGeometry
from ..numbers import to_float

Triangles = tuple[np.ndarray, np.ndarray]


@functools.singledispatch
def tessellate(geometry: Any, segments: int, reach: float) -> Triangles:
    """Triangles of a shape in its own frame.

    Args:
        geometry: a shape.
        segments: corners of a ring, a multiple of 4 so that rings have corners on both axes.
        reach: half width to which an endless plane is drawn, mm.

    Returns vertices (V, 3) in mm and faces (F, 3). Raises TypeError for a shape that cannot be drawn.
    """
    raise TypeError(f"geometry got {type(geometry).__name__}, which has no triangles to draw")


def _grid(points: np.ndarray, *, poles: np.ndarray) -> Triangles:
    """Triangles between rings of ``points`` (rings, segments, 3); a ring at a pole is one corner."""
    rings, segments = points.shape[:2]
    index = np.arange(rings * segments).reshape(rings, segments)
    index[poles] = index[poles][:, :1]
    beside = np.roll(index, -1, axis=1)
    a, b, c, d = index[:-1], index[1:], beside[1:], beside[:-1]
    faces = np.stack([np.stack([a, b, c], axis=-1), np.stack([a, c, d], axis=-1)]).reshape(-1, 3)
    whole = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return points.reshape(-1, 3), faces[whole]


def _turn(segments: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of the corners of a ring; exact on the axes."""
    quarter = 0.5 * np.pi * np.arange(segments // 4) / (segments // 4)
    cos, sin = np.cos(quarter), np.sin(quarter)
    return np.concatenate([cos, -sin, -cos, sin]), np.concatenate([sin, cos, -sin, -cos])


def _revolve(rho: np.ndarray, z: np.ndarray, segments: int) -> Triangles:
    """The curve (rho, z) turned around the axis."""
    cos, sin = _turn(segments)
    points = np.stack([rho[:, None] * cos, rho[:, None] * sin, np.broadcast_to(z[:, None], (len(z), segments))], axis=2)
    return _grid(points, poles=rho == 0.0)


def _join(*parts: Triangles) -> Triangles:
    start = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    faces = [part[1] + first for part, first in zip(parts, start, strict=False)]
    return np.concatenate([part[0] for part in parts]), np.concatenate(faces)


def _radii(reach: float, segments: int) -> np.ndarray:
    """Distances from the axis, closer together at the rim, where a shape may be steep."""
    return reach * np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, segments // 2 + 1))


def rectangle(half_width: float, half_height: float) -> Triangles:
    """A rectangle in the plane z = 0."""
    corners = np.array([(-1.0, -1.0, 0.0), (1.0, -1.0, 0.0), (1.0, 1.0, 0.0), (-1.0, 1.0, 0.0)])
    return corners * (half_width, half_height, 1.0), np.array([(0, 1, 2), (0, 2, 3)])


def disk(radius: float, segments: int) -> Triangles:
    """A disk in the plane z = 0."""
    return _revolve(np.array([0.0, radius]), np.zeros(2), segments)


@tessellate.register
def _plane(geometry: PlaneGeometry, segments: int, reach: float) -> Triangles:
    return rectangle(reach, reach)


@tessellate.register
def _finite_plane(geometry: FinitePlaneGeometry, segments: int, reach: float) -> Triangles:
    if geometry.aperture_radius is not None:
        return disk(to_float(geometry.aperture_radius), segments)
    return rectangle(0.5 * to_float(geometry.width), 0.5 * to_float(geometry.height))


@tessellate.register
def _conic(geometry: ConicGeometry, segments: int, reach: float) -> Triangles:
    rho = _radii(to_float(geometry.aperture_radius), segments)
    return _revolve(rho, geometry.profile(rho), segments)


@tessellate.register
def _sphere(geometry: SphereGeometry, segments: int, reach: float) -> Triangles:
    radius = to_float(geometry.radius)
    if geometry.aperture_radius is None:
        angle = np.linspace(0.0, np.pi, segments // 2 + 1)
        rho = radius * np.sin(angle)
        rho[-1] = 0.0
        return _revolve(rho, -radius * np.cos(angle), segments)
    rho = _radii(to_float(geometry.aperture_radius), segments)
    z = np.sqrt(np.maximum(0.0, radius**2 - rho**2))
    return _join(_revolve(rho, -z, segments), _revolve(rho, z, segments))


@tessellate.register
def _frustum(geometry: CylindricalFrustumGeometry, segments: int, reach: float) -> Triangles:
    rho = np.array([to_float(geometry.r_front), to_float(geometry.r_back)])
    return _revolve(rho, np.array([to_float(geometry.z_front), to_float(geometry.z_back)]), segments)


@tessellate.register
def _annulus(geometry: AnnularPlaneGeometry, segments: int, reach: float) -> Triangles:
    rho = np.array([to_float(geometry.inner_radius), to_float(geometry.outer_radius)])
    return _revolve(rho, np.full(2, to_float(geometry.z_offset)), segments)


@tessellate.register
def _sag(geometry: SagGeometry, segments: int, reach: float) -> Triangles:
    rho = _radii(to_float(geometry.aperture_radius), segments)
    cos, sin = _turn(segments)
    x, y = rho[:, None] * cos, rho[:, None] * sin
    with torch.no_grad():
        z = geometry.sag(x, y).detach().cpu().numpy()
    return _grid(np.stack([x, y, z], axis=2), poles=rho == 0.0)


@tessellate.register
def _mesh(geometry: MeshGeometry, segments: int, reach: float) -> Triangles:
    vertices = geometry.vertices.detach().cpu().numpy().astype(np.float64)
    # corners at one place are one corner, so that a section runs on from triangle to triangle
    vertices, where = np.unique(vertices, axis=0, return_inverse=True)
    return vertices, where.reshape(-1)[geometry.faces]


def is_endless(geometry: Any, limit: float = math.inf) -> bool:
    """Whether a shape is a plane without an end, or a disk with a radius above ``limit`` mm."""
    if isinstance(geometry, FinitePlaneGeometry):
        return geometry.aperture_radius is not None and to_float(geometry.aperture_radius) > limit
    return isinstance(geometry, PlaneGeometry)
