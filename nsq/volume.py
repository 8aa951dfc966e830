"""Solids as closed sets of surfaces, and the check that they are closed.

A set of surfaces is taken as closed when every point of every rim lies on another rim, and when rays from a point
inside leave through an odd number of surfaces, whatever their direction. A rim is where a surface ends: the circle at
an aperture, the two ends of a frustum, the border of a rectangle. A whole sphere has none, and a mesh has none where
every edge belongs to two triangles that wind alike, as it must. Boundaries with meshes, aspheres or toroids are judged
by their rims and edges alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .components import SurfaceComponent
from .coordinates import lower_frames
from .geometries import (
    AnnularPlaneGeometry,
    ConicGeometry,
    CylindricalFrustumGeometry,
    FinitePlaneGeometry,
    Geometry,
    PlaneGeometry,
    SphereGeometry,
)
from .geometries_mesh import MeshGeometry
from .geometries_sag import SagGeometry
from .intersect import intersect_scene
from .materials import NSQMaterial, as_material
from .numbers import to_float
from .rays import NSQRayBundle

_TOLERANCE = 1e-6  # mm
_RIM_POINTS = 64
_DIRECTIONS = 24
_MOST_CROSSINGS = 64


class NonWatertightVolumeError(ValueError):
    """A boundary that is not closed.

    Attributes:
        volume: its name. place: (3,) array, a point of the gap in world coordinates, mm, or None where there is none.
    """

    def __init__(self, volume: str, reason: str, place: np.ndarray | None = None) -> None:
        at = "" if place is None else f" near ({', '.join(f'{v:g}' for v in place)}) mm"
        super().__init__(f"volume {volume!r} is not watertight: {reason}{at}")
        self.volume, self.place = volume, place


@dataclass
class _Rim:
    """A closed curve in world coordinates: a circle, or a polygon where it has corners."""

    surface: str
    points: np.ndarray  # (n, 3)
    centre: np.ndarray
    axis: np.ndarray
    radius: float
    corners: np.ndarray | None = None  # (k, 3)

    def distance(self, points: np.ndarray) -> np.ndarray:
        """Distance (n,) of points (n, 3) from the curve, mm."""
        if self.corners is None:
            offset = points - self.centre
            along = offset @ self.axis
            across = np.linalg.norm(offset - along[:, None] * self.axis, axis=1)
            return np.hypot(along, across - self.radius)
        nearest = np.full(len(points), np.inf)
        for start, stop in zip(self.corners, np.roll(self.corners, -1, axis=0), strict=True):
            side = stop - start
            share = np.clip((points - start) @ side / (side @ side), 0.0, 1.0)
            nearest = np.minimum(nearest, np.linalg.norm(points - start - share[:, None] * side, axis=1))
        return nearest


def _circles(geometry: Geometry) -> list[tuple[float, float]]:
    """(z, radius) of the circles that bound a surface of revolution, in its frame."""
    if isinstance(geometry, ConicGeometry):
        aperture = to_float(geometry.aperture_radius)
        return [(float(geometry.profile(aperture)), aperture)]
    if isinstance(geometry, SagGeometry):
        return [(_sag_rim(geometry), to_float(geometry.aperture_radius))]
    if isinstance(geometry, CylindricalFrustumGeometry):
        ends = ((geometry.z_front, geometry.r_front), (geometry.z_back, geometry.r_back))
        return [(to_float(z), to_float(r)) for z, r in ends if to_float(r) > 0.0]
    if isinstance(geometry, AnnularPlaneGeometry):
        radii = [to_float(r) for r in (geometry.inner_radius, geometry.outer_radius)]
        return [(to_float(geometry.z_offset), r) for r in radii if r > 0.0]
    if isinstance(geometry, SphereGeometry):
        if geometry.aperture_radius is None:
            return []
        radius, aperture = to_float(geometry.radius), to_float(geometry.aperture_radius)
        sag = math.sqrt(max(0.0, radius**2 - aperture**2))
        return [(-sag, aperture), (sag, aperture)]
    return [(0.0, to_float(geometry.aperture_radius))]  # a disk


def _sag_rim(geometry: SagGeometry) -> float | None:
    """z of the rim of a shape given by its sag, or None where the rim is no circle."""
    phi = 2.0 * np.pi * np.arange(_RIM_POINTS) / _RIM_POINTS
    reach = to_float(geometry.aperture_radius)
    with torch.no_grad():
        z = geometry.sag(reach * np.cos(phi), reach * np.sin(phi)).numpy()
    return float(z.mean()) if np.ptp(z) <= 0.1 * _TOLERANCE else None


def _check_mesh(volume: str, surface: str, mesh: MeshGeometry, turn: np.ndarray, origin: np.ndarray) -> None:
    """NonWatertightVolumeError where an edge does not belong to two triangles, or two that wind against each other.

    Corners at the same place count as one, as in a file that gives each triangle corners of its own.
    """
    corners, where = np.unique(mesh.vertices.detach().cpu().to(torch.float64).numpy(), axis=0, return_inverse=True)
    ends = where.reshape(-1)[np.asarray(mesh.faces)][:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    edges, place, count = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True, return_counts=True)
    # an edge that two triangles run along in opposite directions sums to 0
    turned = np.bincount(place.reshape(-1), weights=np.sign(ends[:, 1] - ends[:, 0]), minlength=len(edges)) != 0.0
    for wrong, what in (
        (count != 2, f"edges of the mesh {surface!r} do not belong to two triangles, the first"),
        (turned, f"edges of the mesh {surface!r} lie between triangles that wind against each other, the first"),
    ):
        if wrong.any():
            middle = corners[edges[int(np.argmax(wrong))]].mean(axis=0)
            raise NonWatertightVolumeError(volume, f"{int(wrong.sum())} {what}", middle @ turn.T + origin)


def _rims(name: str, surface: SurfaceComponent, turn: np.ndarray, origin: np.ndarray) -> list[_Rim]:
    geometry = surface.geometry
    if isinstance(geometry, MeshGeometry):
        _check_mesh(name, surface.name, geometry, turn, origin)
        return []
    known = ConicGeometry | CylindricalFrustumGeometry | AnnularPlaneGeometry | SphereGeometry | FinitePlaneGeometry
    if isinstance(geometry, SagGeometry) and _sag_rim(geometry) is not None:
        known |= SagGeometry
    if not isinstance(geometry, known):
        kind = type(geometry).__name__
        endless = "is infinite" if isinstance(geometry, PlaneGeometry) else f"is a {kind}, whose rim is not known"
        raise NonWatertightVolumeError(name, f"surface {surface.name!r} {endless}")
    axis = turn[:, 2]
    if isinstance(geometry, FinitePlaneGeometry) and geometry.aperture_radius is None:
        w, h = 0.5 * to_float(geometry.width), 0.5 * to_float(geometry.height)
        flat = np.array([(-w, -h, 0.0), (w, -h, 0.0), (w, h, 0.0), (-w, h, 0.0)])
        share = np.arange(_RIM_POINTS // 4)[:, None] / (_RIM_POINTS // 4)
        local = np.concatenate([a + share * (b - a) for a, b in zip(flat, np.roll(flat, -1, axis=0), strict=True)])
        place, corners = local @ turn.T + origin, flat @ turn.T + origin
        return [_Rim(surface.name, place, origin, axis, 0.0, corners)]
    phi = 2.0 * np.pi * np.arange(_RIM_POINTS) / _RIM_POINTS
    rims = []
    for z, radius in _circles(geometry):
        local = np.stack([radius * np.cos(phi), radius * np.sin(phi), np.full(_RIM_POINTS, z)], axis=1)
        rims.append(_Rim(surface.name, local @ turn.T + origin, origin + z * axis, axis, radius))
    return rims


class Volume:
    """A solid: surfaces that close around a medium.

    Args:
        name: for messages.
        boundary: the surfaces, in any order.
        interior: the medium inside, an NSQMaterial or a glass name.

    The three are attributes; the boundary is a list. Raises `NonWatertightVolumeError`, with the place of the gap,
    where the boundary is empty or a rim is more than 1e-6 mm from every other one, or where rays find a way out that
    misses it; TypeError for anything but surfaces. Nothing is differentiable.
    """

    def __init__(self, name: str, boundary: Iterable[SurfaceComponent], interior: NSQMaterial | str) -> None:
        self.name = name
        self.boundary = _surfaces([list(boundary)], "boundary")
        self.interior = as_material(interior, "interior")
        self._check()

    def _check(self) -> None:
        if not self.boundary:
            raise NonWatertightVolumeError(self.name, "its boundary is empty")
        turns, origins = (t.detach().cpu().numpy() for t in lower_frames([s.cs for s in self.boundary]))
        rims: list[_Rim] = []
        for surface, turn, origin in zip(self.boundary, turns, origins, strict=True):
            surface.validate()
            rims += _rims(self.name, surface, turn, origin)
        for rim in rims:
            distance = np.full(len(rim.points), np.inf)
            for other in rims:
                if other is not rim:
                    distance = np.minimum(distance, other.distance(rim.points))
            worst = int(np.argmax(distance))
            if distance[worst] > _TOLERANCE:
                gap = "no other rim" if np.isinf(distance[worst]) else f"a gap of {distance[worst]:g} mm"
                raise NonWatertightVolumeError(
                    self.name, f"the rim of surface {rim.surface!r} meets {gap}", rim.points[worst]
                )
        if not any(isinstance(s.geometry, MeshGeometry | SagGeometry) for s in self.boundary):
            self._check_crossings(np.mean([rim.points.mean(axis=0) for rim in rims], axis=0) if rims else origins[0])

    def _check_crossings(self, start: np.ndarray) -> None:
        directions = _directions()
        crossings = _crossings(self.boundary, start, directions)
        if not all(len(c) % 2 for c in crossings):
            # The mean of the rims need not lie inside: it is in the air beside a bent meniscus, and on the base of a
            # cone. Halfway between two crossings, or to the only one, is a better start.
            longest = max(range(len(directions)), key=lambda ray: _stretch(crossings[ray])[1])
            middle, length = _stretch(crossings[longest])
            if length == 0.0:
                raise NonWatertightVolumeError(self.name, "rays from between its rims do not meet it", start)
            start = start + middle * directions[longest]
            crossings = _crossings(self.boundary, start, directions)
        for way, distances in zip(directions, crossings, strict=True):
            if len(distances) % 2 == 0:
                course = ", ".join(f"{v:.3f}" for v in way)
                reason = f"a ray along ({course}) leaves it through an even number of surfaces, starting"
                raise NonWatertightVolumeError(self.name, reason, start)

    @staticmethod
    def union(*parts: Volume | SurfaceComponent | Sequence[Any]) -> list[SurfaceComponent]:
        """The surfaces of several parts, which are volumes, surfaces or lists of them, each surface once, in order.

        Parts may touch, or share surfaces as the two glasses of a doublet do; parts that overlap are not cut.
        """
        return _surfaces(list(parts), "parts")

    @staticmethod
    def intersection(*parts: Any) -> list[SurfaceComponent]:
        """Not supported: NotImplementedError."""
        raise NotImplementedError("intersection needs a boolean surface evaluator, which there is not yet; use union")

    @staticmethod
    def difference(*parts: Any) -> list[SurfaceComponent]:
        """Not supported: NotImplementedError."""
        raise NotImplementedError("difference needs a boolean surface evaluator, which there is not yet; use union")

    def __repr__(self) -> str:
        return f"Volume({self.name!r}, {[s.name for s in self.boundary]}, {self.interior!r})"


def _surfaces(parts: Sequence[Any], name: str) -> list[SurfaceComponent]:
    flat: dict[int, SurfaceComponent] = {}
    for part in parts:
        if isinstance(part, Volume):
            members = part.boundary
        elif isinstance(part, SurfaceComponent):
            members = [part]
        elif isinstance(part, list | tuple):
            members = _surfaces(part, name)
        else:
            raise TypeError(f"{name} got {type(part).__name__}; it takes surfaces, volumes and lists of them")
        flat.update((id(member), member) for member in members)
    return list(flat.values())


def _stretch(crossings: list[float]) -> tuple[float, float]:
    """Middle and length of the first stretch inside a solid, on a ray that starts outside it or on its surface."""
    if not crossings:
        return 0.0, 0.0
    first, second = crossings[:2] if len(crossings) % 2 == 0 else (0.0, crossings[0])
    return 0.5 * (first + second), second - first


def _directions() -> np.ndarray:
    """Unit vectors (n, 3) spread over the sphere on a spiral, none of them along an axis or in a plane of symmetry."""
    k = np.arange(_DIRECTIONS)
    z = 1.0 - (2.0 * k + 1.0137) / _DIRECTIONS
    phi = k * np.pi * (3.0 - math.sqrt(5.0)) + 0.7391
    across = np.sqrt(np.maximum(0.0, 1.0 - z**2))
    out = np.stack([across * np.cos(phi), across * np.sin(phi), z], axis=1)
    return out / np.linalg.norm(out, axis=1)[:, None]


def _crossings(boundary: Sequence[SurfaceComponent], start: np.ndarray, directions: np.ndarray) -> list[list[float]]:
    """For each direction (n, 3), the sorted distances at which a ray from ``start`` (3,) crosses a surface."""
    found: list[list[float]] = [[] for _ in directions]
    with torch.no_grad():
        for surface in boundary:
            going, travelled = np.arange(len(directions)), np.zeros(len(directions))
            for _ in range(_MOST_CROSSINGS):
                place = start + travelled[going, None] * directions[going]
                dark = np.ones(len(going))
                bundle = NSQRayBundle(*place.T, *directions[going].T, flux=dark, wavelength=dark)
                t, _, hit, _ = intersect_scene(bundle, [surface])
                met = np.asarray(hit) >= 0
                if not met.any():
                    break
                going = going[met]
                travelled[going] += t.numpy()[met]
                for ray in going:
                    found[ray].append(float(travelled[ray]))
    return [sorted(distances) for distances in found]
