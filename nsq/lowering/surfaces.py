"""Surfaces and detectors as rows: where they lie, where they end, and a tree of boxes where there are many.

An analytic shape is one row; a mesh is a row for each triangle, as a plane through it. Rows come in order of
registration, surfaces before detectors, and `Rows.owner` says whose row it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernels.shapes.quadric import NUM_DOMAIN
from kernels.trace import layout as at
from kernels.trace import probe
from kernels.trace.rims import RHO_MAX, RHO_MIN

from ..coordinates import lower_frames
from ..geometries import (
    AnnularPlaneGeometry,
    ConicGeometry,
    CylindricalFrustumGeometry,
    FinitePlaneGeometry,
    ParaboloidGeometry,
    PlaneGeometry,
    SphereGeometry,
)
from ..numbers import stack, to_float
from .contacts import Sides, merge_contacts
from .sags import is_sag, lower_sags

# from this many bounded analytic rows on, a tree is quicker than trying them one after another
TREE_FROM = 24
# Boxes in the tree grow by this share of the scene's coordinates: some float32 roundings of where a ray starts and
# ends.
_GROWTH = 4e-6
# rows that many times larger than the middling one stay out of the tree
_LARGEST = 1e3


@dataclass(frozen=True)
class Rows:
    """The geometry of all rows.

    Attributes:
        numbers: (rows, 10) tensor, attached: origin, axis, quadric coefficients.
        domain: (rows, 15) array: the other axes and the limits.
        limits: (rows, 12) tensor, attached: the other axes, the range of the distance from the axis, half widths and
            the range of height, mm. Infinite where nothing ends.
        owner: (rows,) integers: the surface or detector, counted together.
        triangles: (T, 9) array of vertices, world mm; corners: the same as a tensor, attached;
            triangle_of_row: (rows,), -1 for analytic shapes.
        linear_rows: rows that are searched one after another; tree_rows: those in the tree, with their boxes
            (n, 3) lower and upper corners.
        sags: (row, code, block of numbers, block of limits) of every surface given by a sag, with their numbers,
        attached,
            and limits.
        front, back: (rows,) media, where contacts were merged. covered: (row, surface) pairs of surfaces that lie on a
            row of another one.
        size: a length that the scene's smallest sensible distance scales with, mm.
    """

    numbers: torch.Tensor
    domain: np.ndarray
    limits: torch.Tensor
    owner: np.ndarray
    triangles: np.ndarray
    corners: torch.Tensor
    triangle_of_row: np.ndarray
    linear_rows: tuple[int, ...]
    tree_rows: np.ndarray
    tree_lower: np.ndarray
    tree_upper: np.ndarray
    sags: tuple[tuple[int, int, int, int], ...]
    sag_numbers: torch.Tensor
    sag_limits: np.ndarray
    size: float
    front: np.ndarray | None = None
    back: np.ndarray | None = None
    covered: tuple[tuple[int, int], ...] = ()


def lower_rows(items: list[Any], turn: torch.Tensor, place: torch.Tensor, sides: Sides | None = None) -> Rows:
    """Rows of surfaces and detectors with frames ``turn`` (n, 3, 3) and ``place`` (n, 3).

    With the ``sides`` of the items, faces that lie on each other are merged.
    """
    counts = np.array([_num_rows(item.geometry) for item in items])
    owner = np.repeat(np.arange(len(items)), counts)
    meshes = [k for k, item in enumerate(items) if is_mesh(item.geometry)]
    sagged = [k for k, item in enumerate(items) if is_sag(item.geometry)]
    analytic = sorted({*range(len(items))} - {*meshes, *sagged})
    parts, order = [], []
    ends = place.new_tensor(_ENDLESS).repeat(len(owner), 1)
    domain = np.zeros((len(owner), NUM_DOMAIN))
    first = np.concatenate([[0], np.cumsum(counts)])[:-1]
    lower, upper = np.full((len(owner), 3), -np.inf), np.full((len(owner), 3), np.inf)
    if analytic:
        own_turn, own_place = turn[analytic], place[analytic]
        coefficients, limits, boxes = _quadrics([items[k].geometry for k in analytic], place.device)
        parts.append(torch.cat([own_place, own_turn[:, :, 2], coefficients], dim=1))
        rows = first[analytic]
        order.append(rows)
        domain[rows] = _domain(own_turn, limits.detach())
        edges = torch.cat([own_turn[:, :, 0], own_turn[:, :, 1], _ends(coefficients, limits)], dim=1)
        ends = ends.index_copy(0, torch.as_tensor(rows, device=place.device), edges)
        lower[rows], upper[rows] = _world_boxes(own_turn, own_place, boxes)
    triangles, all_corners, triangle_of_row = [], [place.new_zeros(0, 3, 3)], np.full(len(owner), -1)
    for k in meshes:
        corners = items[k].geometry.triangles().to(place.device) @ turn[k].T + place[k]
        rows = np.arange(first[k], first[k] + counts[k])
        parts.append(_planes_through(corners))
        order.append(rows)
        triangle_of_row[rows] = sum(map(len, triangles)) + np.arange(counts[k])
        detached = corners.detach().cpu().numpy()
        triangles.append(detached)
        all_corners.append(corners)
        lower[rows], upper[rows] = detached.min(axis=1), detached.max(axis=1)
    if sagged:
        # the row says where it is and that it faces along its axis; its sag says the rest
        plane = torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=place.dtype, device=place.device).expand(len(sagged), 4)
        parts.append(torch.cat([place[sagged], turn[sagged][:, :, 2], plane], dim=1))
        order.append(first[sagged])
        ends = _sag_ends(ends, first[sagged], [items[k].geometry.aperture_radius for k in sagged])
    sags, sag_numbers, sag_limits = lower_sags(items, sagged, first, turn, place)
    numbers = torch.cat(parts)[torch.as_tensor(np.argsort(np.concatenate(order)), device=place.device)]
    size = _size(place, lower, upper)
    front = back = None
    covered: tuple[tuple[int, int], ...] = ()
    if sides is not None:
        by_row = Sides(*(getattr(sides, name)[owner] for name in ("kind", "front", "back", "plain")), names=tuple(
            sides.names[k] for k in owner
        ))  # fmt: skip
        faces = np.flatnonzero((by_row.kind <= at.ABSORBER) & (triangle_of_row < 0))
        faces = np.setdiff1d(faces, [row for row, *_ in sags])
        merged = merge_contacts(numbers.detach().cpu().numpy(), domain, faces, by_row, size)
        keep = merged.source
        covered = tuple((row, int(owner[other])) for row, others in enumerate(merged.covered) for other in others)
        numbers, domain = numbers[torch.as_tensor(keep, device=place.device)], merged.domain
        ends = _merged_ends(ends, keep, merged.ends)
        owner, triangle_of_row, lower, upper = owner[keep], triangle_of_row[keep], lower[keep], upper[keep]
        front, back = merged.front, merged.back
        where = {int(row): new for new, row in enumerate(keep)}
        sags = tuple((where[row], *rest) for row, *rest in sags)
    bounded = np.isfinite(lower).all(axis=1) & np.isfinite(upper).all(axis=1)
    if bounded.any():
        # a far-field detector's disk would coarsen the float32 of all boxes, and its own holds everything anyway
        extent = np.where(bounded, (upper - lower).max(axis=1), np.inf)
        bounded &= extent <= _LARGEST * np.median(extent[bounded])
    many = int((bounded & (triangle_of_row < 0)).sum()) > TREE_FROM
    in_tree = (triangle_of_row >= 0) | (bounded & many)
    tree_rows = np.flatnonzero(in_tree)
    reach = float(np.abs(np.stack([lower[tree_rows], upper[tree_rows]])).max()) if len(tree_rows) else 0.0
    grow = _GROWTH * max(reach, float(place.detach().abs().max()))
    return Rows(
        numbers=numbers, domain=domain, limits=ends, owner=owner, corners=torch.cat(all_corners).reshape(-1, 9),
        triangles=np.concatenate(triangles).reshape(-1, 9) if triangles else np.zeros((0, 9)),
        triangle_of_row=triangle_of_row, sags=sags, sag_numbers=sag_numbers,
        sag_limits=sag_limits, tree_rows=tree_rows,
        linear_rows=tuple(sorted({*np.flatnonzero(~in_tree).tolist()} - {row for row, *_ in sags})),
        tree_lower=lower[tree_rows] - grow, tree_upper=upper[tree_rows] + grow, size=size, front=front, back=back,
        covered=covered,
    )  # fmt: skip


# limits of a row that goes on for ever
_ENDLESS = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, math.inf, math.inf, math.inf, -math.inf, math.inf)


def _sag_ends(ends: torch.Tensor, rows: np.ndarray, radii: list[Any]) -> torch.Tensor:
    """Limits with those of rows that end at a radius and nowhere else."""
    where = torch.as_tensor(rows, device=ends.device)
    kept = ends[where]
    outer = stack(radii, ends.device)[:, None]
    return ends.index_copy(0, where, torch.cat([kept[:, :RHO_MAX], outer, kept[:, RHO_MAX + 1 :]], dim=1))


def _merged_ends(ends: torch.Tensor, keep: np.ndarray, sources: np.ndarray) -> torch.Tensor:
    """Limits of merged rows: those of the rows they come from, but for the range of the distance from the axis."""
    kept, chosen = (torch.as_tensor(a, device=ends.device) for a in (keep, sources))
    out, ranges = ends[kept], ends[:, RHO_MIN : RHO_MAX + 1].reshape(-1)[chosen]
    return torch.cat([out[:, :RHO_MIN], ranges, out[:, RHO_MAX + 1 :]], dim=1)


def is_mesh(geometry: Any) -> bool:
    """Whether a geometry is made of triangles."""
    return hasattr(geometry, "triangles")


def _num_rows(geometry: Any) -> int:
    return len(geometry.triangles()) if is_mesh(geometry) else 1


def _planes_through(corners: torch.Tensor) -> torch.Tensor:
    """Rows (n, 10) of the planes through triangles (n, 3, 3), normals by the right-hand rule."""
    a, b, c = corners.unbind(1)
    normal = torch.linalg.cross(b - a, c - a)
    normal = normal / torch.linalg.vector_norm(normal, dim=1, keepdim=True)
    flat = torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=corners.dtype, device=corners.device).expand(len(corners), 4)
    return torch.cat([corners.mean(dim=1), normal, flat], dim=1)


def _quadrics(geometries: list[Any], device: Any) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Coefficients (rows, 4), limits (rows, 9) and local boxes (rows, 4), each kind of shape in one go."""
    groups: dict[type, list[int]] = {}
    for place, geometry in enumerate(geometries):
        groups.setdefault(type(geometry), []).append(place)
    coefficients, limits, boxes, order = [], [], [], []
    for kind, places in groups.items():
        values = [value for place in places for value in geometries[place].numbers()]
        numbers = stack(values, device).reshape(len(places), -1)
        shaped = kind.quadric(numbers)
        coefficients.append(shaped[0])
        limits.append(shaped[1])
        boxes.append(_BOXES.get(kind, _unbounded)(numbers.detach().cpu().numpy()))
        order += places
    back = torch.argsort(torch.tensor(order, device=coefficients[0].device))
    return torch.cat(coefficients)[back], torch.cat(limits)[back], np.concatenate(boxes)[back.cpu().numpy()]


# a rim this close, relative to its square, to where a surface turns back is where it turns back
_TURNED = 1e-9
# a rim beyond this share of the widest squared distance from the axis is given by its height
_STEEP = 0.8


def _ends(coefficients: torch.Tensor, limits: torch.Tensor) -> torch.Tensor:
    """Where rows end (n, 6), from their coefficients (n, 4) and limits (n, 9).

    A rim nearly as wide as the surface itself says badly where it ends: the distance from the axis hardly grows beyond
    it, and has no slope at all along a half ball's. Such a row ends at the height of its rim on its sheet, a half ball
    at that of its sheet; a sphere that is kept out to its radius is whole.
    """
    a, b, g, e = coefficients.unbind(1)
    low, high = limits[:, 4], limits[:, 5]
    sheet = limits[:, 7]
    with torch.no_grad():
        curved = (a != 0.0) & (a + b != 0.0)
        widest = (g * g / torch.where(curved, a + b, 1.0) - e) / torch.where(curved, a, 1.0)
        rim = limits[:, 1] ** 2
        ends = curved & (widest > 0.0) & torch.isfinite(rim)
        whole = ends & (rim >= (1.0 - _TURNED) * widest)
        steep = ends & (sheet != 0.0) & (rim >= _STEEP * widest) & ~whole
    # (a + b) z + g is the root below on the sheet where F rises along z
    radius, along = torch.where(steep, limits[:, 1], 0.0), torch.where(steep, a + b, 1.0)
    root = torch.sqrt(torch.where(steep, g * g - along * (a * radius * radius + e), 1.0))
    height = torch.where(steep, (root - g) / along, -limits[:, 6] / torch.where(sheet != 0.0, sheet, 1.0))
    by_height = whole | steep
    ends = [
        limits[:, 0], torch.where(by_height, math.inf, limits[:, 1]), limits[:, 2], limits[:, 3],
        torch.where(by_height & (sheet > 0.0), height, low), torch.where(by_height & (sheet < 0.0), height, high),
    ]  # fmt: skip
    return torch.stack(ends, dim=1)


def _domain(turn: torch.Tensor, limits: torch.Tensor) -> np.ndarray:
    """The search's limits, from detached ones: the local x and y axes, squared radii, half sides, z range, sheet, and
    whether the nearer root alone counts."""
    axes = turn.detach()[:, :, :2].transpose(1, 2).reshape(-1, 6)
    return torch.cat([axes, limits[:, :2] ** 2, limits[:, 2:]], dim=1).cpu().numpy()


# ---- boxes: half width in x, half width in y, lowest z, highest z in the shape's own frame --------------------------


def _unbounded(p: np.ndarray) -> np.ndarray:
    return np.tile([np.inf, np.inf, -np.inf, np.inf], (len(p), 1))


def _plate_box(p: np.ndarray) -> np.ndarray:
    x, y = np.minimum(0.5 * p[:, 0], p[:, 2]), np.minimum(0.5 * p[:, 1], p[:, 2])
    return np.stack([x, y, 0.0 * x, 0.0 * x], axis=1)


def _conic_box(p: np.ndarray) -> np.ndarray:
    radius, k, a = p[:, 0], p[:, 1], p[:, 2]
    with np.errstate(divide="ignore"):
        c = np.where((radius == 0.0) | np.isinf(radius), 0.0, 1.0 / radius)
    sag = c * a * a / (1.0 + np.sqrt(np.maximum(0.0, 1.0 - (1.0 + k) * (c * a) ** 2)))
    return np.stack([a, a, np.minimum(0.0, sag), np.maximum(0.0, sag)], axis=1)


def _sphere_box(p: np.ndarray) -> np.ndarray:
    rho = np.minimum(p[:, 0], p[:, 1])
    return np.stack([rho, rho, -p[:, 0], p[:, 0]], axis=1)


def _frustum_box(p: np.ndarray) -> np.ndarray:
    rho = np.maximum(p[:, 0], p[:, 1])
    return np.stack([rho, rho, p[:, 2], p[:, 3]], axis=1)


def _annulus_box(p: np.ndarray) -> np.ndarray:
    return np.stack([p[:, 1], p[:, 1], p[:, 2], p[:, 2]], axis=1)


_BOXES: dict[type, Callable[[np.ndarray], np.ndarray]] = {
    PlaneGeometry: _unbounded,
    FinitePlaneGeometry: _plate_box,
    ConicGeometry: _conic_box,
    ParaboloidGeometry: _conic_box,
    SphereGeometry: _sphere_box,
    CylindricalFrustumGeometry: _frustum_box,
    AnnularPlaneGeometry: _annulus_box,
}


def bounding_sphere(geometry: Any) -> tuple[np.ndarray, float]:
    """Centre (3,) and radius of a sphere that holds a shape, in its own frame, mm; infinite for a shape without end."""
    if is_mesh(geometry):
        corners = geometry.triangles().detach().cpu().numpy().reshape(-1, 3)
        centre = 0.5 * (corners.min(axis=0) + corners.max(axis=0))
        return centre, float(np.linalg.norm(corners - centre, axis=1).max())
    if isinstance(geometry, SphereGeometry):
        return np.zeros(3), to_float(geometry.radius)
    if is_sag(geometry):
        rim, (low, high) = to_float(geometry.aperture_radius), geometry.z_range()
    else:
        box = next((_BOXES[kind] for kind in type(geometry).__mro__ if kind in _BOXES), _unbounded)
        half_x, half_y, low, high = box(np.array([[to_float(v) for v in geometry.numbers()]]))[0]
        rim = half_x  # of a round shape
        if isinstance(geometry, FinitePlaneGeometry) and geometry.aperture_radius is None:
            rim = float(np.hypot(half_x, half_y))
    if not (np.isfinite(rim) and np.isfinite(high - low)):
        return np.zeros(3), np.inf
    return np.array([0.0, 0.0, 0.5 * (low + high)]), float(np.hypot(rim, 0.5 * (high - low)))


def _world_boxes(turn: torch.Tensor, place: torch.Tensor, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners (n, 3) of boxes about the local boxes, aligned with the world's axes."""
    rotation, origin = turn.detach().cpu().numpy(), place.detach().cpu().numpy()
    half = np.stack([boxes[:, 0], boxes[:, 1], 0.5 * (boxes[:, 3] - boxes[:, 2])], axis=1)
    middle = np.zeros_like(half)
    finite = np.isfinite(boxes).all(axis=1)
    middle[finite, 2] = 0.5 * (boxes[finite, 2] + boxes[finite, 3])
    centre = origin + np.einsum("nij,nj->ni", rotation, middle)
    reach = np.full_like(half, np.inf)
    reach[finite] = np.einsum("nij,nj->ni", np.abs(rotation[finite]), half[finite])
    return centre - reach, centre + reach


# a far-field detector is a disk of this radius or more: no length of the scene
_FAR = 1e5


def _size(place: torch.Tensor, lower: np.ndarray, upper: np.ndarray) -> float:
    origins = place.detach().cpu().numpy()
    spread = float(np.abs(origins - origins.mean(axis=0)).max())
    extents = 0.5 * (upper - lower)
    extents = extents[np.isfinite(extents) & (extents < _FAR)]
    return max(spread, float(extents.max()) if extents.size else 0.0) or 1.0


@dataclass(frozen=True)
class _Posed:
    """A geometry in a frame, as surfaces and detectors have them."""

    cs: Any
    geometry: Any


def lower_surfaces(placed: list[tuple[Any, Any]]) -> tuple[Rows, probe.Surfaces]:
    """Rows of (frame, geometry) pairs, and the same as host arrays. The owner of a row is the pair it comes from."""
    turn, place = lower_frames([cs for cs, _ in placed])
    rows = lower_rows([_Posed(*pair) for pair in placed], turn, place)
    table = np.zeros((len(rows.owner), at.NUM_ROW_INTS), dtype=np.int64)
    table[:, at.SAG] = -1
    for row, code, block, _ in rows.sags:
        table[row, [at.SAG, at.SAG_BLOCK]] = code, block
    surfaces = probe.Surfaces(
        numbers=rows.numbers.detach().numpy(), sag_numbers=rows.sag_numbers.detach().numpy(), domain=rows.domain,
        rows=table, triangles=rows.triangles, triangle_of_row=rows.triangle_of_row, linear_rows=rows.linear_rows,
        tree=(rows.tree_rows, rows.tree_lower, rows.tree_upper), sags=rows.sags, sag_limits=rows.sag_limits,
    )  # fmt: skip
    return rows, surfaces
