"""Pixels on shapes: which coordinates they divide, and how large each of them is.

A shape that is a height over its own x-y plane has pixels in x and y over the square about its rim; a sphere and a
frustum in azimuth and height z, which on a sphere makes all pixels the same size; a mesh has one for each triangle.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .geometries import (
    AnnularPlaneGeometry,
    ConicGeometry,
    CylindricalFrustumGeometry,
    FinitePlaneGeometry,
    Geometry,
    SphereGeometry,
    curvature,
)
from .geometries_mesh import MeshGeometry
from .geometries_sag import SagGeometry
from .numbers import Number, check_number, stack

PLANE, CYLINDER, FACES = "plane", "cylinder", "faces"
# Gauss-Legendre points along the side of a pixel, and from the axis to it
_ALONG, _INWARDS = 8, 12
# stretches of lines that are worked on together
_AT_ONCE = 1 << 14
# a splat spreads light beyond the pixel that it falls on: so many parts of a pixel, each way, say how far
_PARTS = 2
# fewer pixels than that are taken in so many more parts, for the quadrature's sake
_FEW, _FINE = 4, 4


@dataclass(frozen=True)
class PixelGrid:
    """The pixels of one shape.

    Attributes:
        kind: what they divide: "plane", x and y in mm; "cylinder", azimuth in degrees and z in mm; "faces", triangles.
        num_x, num_y: how many. width, height: what they span, in those units. centre: the middle of the span of z, mm.
        shape: the geometry, as it was when the grid was made.
    """

    kind: str
    num_x: int
    num_y: int
    width: Number
    height: Number
    centre: Number
    shape: Geometry

    def areas(self, splat: str = "hard", sigma: float = 0.5) -> torch.Tensor:
        """(num_y * num_x,) float64 tensor: how much of the surface a pixel reads, mm², attached to the shape.

        With hard pixels that is what lies on the pixel. A splat gives some of the light that falls there to its
        neighbours and gets some of theirs, so it counts what it would read at an irradiance of 1 W/mm² everywhere: the
        difference shows at rims alone.
        """
        if self.kind == FACES:
            a, b, c = self.shape.triangles().unbind(1)
            return 0.5 * torch.linalg.vector_norm(torch.linalg.cross(b - a, c - a), dim=1)
        splat = "hard" if splat == "gaussian" and sigma <= 0.0 else splat
        parts = (1 if splat == "hard" else _PARTS) * (1 if min(self.num_x, self.num_y) >= _FEW else _FINE)
        # so many azimuths are alike that one stands for all
        columns = self.num_x * parts if self.kind == PLANE else 1
        fine = _AREAS[self.kind](self.shape, columns, self.num_y * parts)
        if self.kind == CYLINDER:
            return (spreading(self.num_y, parts, splat, sigma) @ fine).expand(-1, self.num_x).reshape(-1) / self.num_x
        down, across = (spreading(n, parts, splat, sigma) for n in (self.num_y, self.num_x))
        return (down @ fine @ across.T).reshape(-1)


def spreading(count: int, parts: int, splat: str, sigma: float) -> torch.Tensor:
    """(count, count * parts) shares of the flux at the middle of each part of a pixel that each of ``count`` gets."""
    p = (np.arange(count * parts) + 0.5) / parts - 0.5
    low = np.floor(p).astype(np.int64)
    if splat == "hard":
        taken, weights = np.floor(p + 0.5).astype(np.int64)[None], np.ones((1, len(p)))
    elif splat == "bilinear":
        taken, weights = np.stack([low, low + 1]), np.stack([1.0 - (p - low), p - low])
    else:
        reach = max(1, math.ceil(3.0 * sigma))
        taken = low + np.arange(-reach, reach + 1)[:, None]
        weights = np.exp(-0.5 * ((taken - p) / sigma) ** 2)
        weights /= weights.sum(axis=0)
    out = np.zeros((count, len(p)))
    np.add.at(out, (np.clip(taken, 0, count - 1), np.broadcast_to(np.arange(len(p)), taken.shape)), weights)
    return torch.from_numpy(out)


# ---- what each shape's pixels divide ---------------------------------------------------------------------------------


def _of_rim(shape: Any) -> tuple[str, Number, Number, Number]:
    reach = shape.outer_radius if isinstance(shape, AnnularPlaneGeometry) else shape.aperture_radius
    return PLANE, 2.0 * reach, 2.0 * reach, 0.0


def _of_plate(shape: FinitePlaneGeometry) -> tuple[str, Number, Number, Number]:
    return (PLANE, shape.width, shape.height, 0.0) if shape.aperture_radius is None else _of_rim(shape)


def _of_sphere(shape: SphereGeometry) -> tuple[str, Number, Number, Number]:
    return CYLINDER, 360.0, 2.0 * shape.radius, 0.0


def _of_frustum(shape: CylindricalFrustumGeometry) -> tuple[str, Number, Number, Number]:
    return CYLINDER, 360.0, shape.z_back - shape.z_front, 0.5 * (shape.z_front + shape.z_back)


def _of_mesh(shape: MeshGeometry) -> tuple[str, Number, Number, Number]:
    return FACES, float(len(shape.faces)), 1.0, 0.0


_SPANS: dict[type, Callable[[Any], tuple[str, Number, Number, Number]]] = {
    FinitePlaneGeometry: _of_plate,
    AnnularPlaneGeometry: _of_rim,
    ConicGeometry: _of_rim,
    SagGeometry: _of_rim,
    SphereGeometry: _of_sphere,
    CylindricalFrustumGeometry: _of_frustum,
    MeshGeometry: _of_mesh,
}


def check_extent(width: Any, height: Any, shape: Any, splat: str) -> None:
    """Check how large a detector is: by width and height, or by a shape that has borders.

    Raises TypeError for what is neither, and ValueError for both, for a shape without borders and for a mesh whose
    pixels are not hard.
    """
    if shape is None:
        for value, name in ((width, "width"), (height, "height")):
            if value is None:
                raise TypeError(f"{name} got None; a detector takes width and height in mm, or shape=, a geometry")
            check_number(value, name, positive=True)
        return
    for value, name in ((width, "width"), (height, "height")):
        if value is not None:
            raise ValueError(f"{name} got {value!r} beside a shape; it takes None, for the shape says how large it is")
    if not isinstance(shape, Geometry):
        raise TypeError(f"shape got {type(shape).__name__}; it takes a geometry such as SphereGeometry, or None")
    shape.validate()
    if not any(kind in _SPANS for kind in type(shape).__mro__):
        takes = ", ".join(sorted(kind.__name__ for kind in _SPANS))
        raise ValueError(f"shape got {type(shape).__name__}, which has no borders; it takes one of {takes}")
    if isinstance(shape, MeshGeometry) and splat != "hard":
        raise ValueError(f"splat got {splat!r}; a mesh has one pixel for each triangle, it takes 'hard'")


def pixel_grid(shape: Geometry, num_x: int, num_y: int) -> PixelGrid:
    """The pixels of a shape, ``num_x`` across and ``num_y`` down; a mesh has as many as it has triangles."""
    span = next(_SPANS[kind] for kind in type(shape).__mro__ if kind in _SPANS)
    kind, width, height, centre = span(shape)
    if kind == FACES:
        num_x, num_y = len(shape.faces), 1
    return PixelGrid(kind, num_x, num_y, width, height, centre, copy.copy(shape))


# ---- areas -----------------------------------------------------------------------------------------------------------


def _bands(shape: Any, _: int, rows: int) -> torch.Tensor:
    """(rows, 1) areas of bands of equal height all round a sphere or a frustum."""
    if isinstance(shape, CylindricalFrustumGeometry):
        r_front, r_back, z_front, z_back = stack(shape.numbers()).unbind()
        edges = torch.linspace(0.0, 1.0, rows + 1, dtype=torch.float64)
        # the mean radius of a band, times its length along the side, all round
        middle = r_front + (r_back - r_front) * 0.5 * (edges[1:] + edges[:-1])
        side = torch.sqrt((z_back - z_front) ** 2 + (r_back - r_front) ** 2) / rows
        return (2.0 * math.pi * middle * side)[:, None]
    radius, rim = stack(shape.numbers()).unbind()
    z = radius * torch.linspace(-1.0, 1.0, rows + 1, dtype=torch.float64)
    gap = torch.zeros_like(radius)
    if shape.aperture_radius is not None:
        # a rim leaves a cap at either end
        inside = radius**2 - rim**2
        gap = torch.where(inside > 0.0, torch.sqrt(torch.where(inside > 0.0, inside, 1.0)), 0.0)
    low, high = z[:-1], z[1:]
    between = torch.clamp(torch.minimum(high, gap) - torch.maximum(low, -gap), min=0.0)
    return (2.0 * math.pi * radius * (high - low - between))[:, None]


def _squares(shape: Any, columns: int, rows: int) -> torch.Tensor:
    """(rows, columns) areas of what lies over the cells of a grid in x and y.

    With w the area of the surface over a unit of the plane, and 0 outside the rim, the field (x, y) G with
    G = integral of w(t x, t y) t dt from 0 to 1 has the divergence w: the area over a cell is the flux of that field
    through its sides, which is smooth along a side but where a rim crosses it. Every shape is even in x and in y, so a
    quarter of the cells is enough.
    """
    if isinstance(shape, FinitePlaneGeometry) and shape.aperture_radius is None:
        width, height = stack((shape.width, shape.height)).unbind()
        return (width * height / (rows * columns)).expand(rows, columns)
    inwards, rims = _FIELDS[next(kind for kind in type(shape).__mro__ if kind in _FIELDS)](shape)
    outer = rims[-1]
    x, y = (outer * torch.linspace(-1.0, 1.0, n + 1, dtype=torch.float64)[n // 2 :] for n in (columns, rows))
    across = _through(x, y, inwards, rims)
    down = _through(y, x, lambda c, s: inwards(s, c), rims)
    quarter = (across[1:] - across[:-1]).T + (down[1:] - down[:-1])
    half = torch.cat([quarter[rows % 2 :].flip(0), quarter])
    return torch.cat([half[:, columns % 2 :].flip(1), half], dim=1)


def _through(lines: torch.Tensor, ends: torch.Tensor, inwards: Callable, rims: tuple[torch.Tensor, ...]) -> Any:
    """(lines, ends - 1): integrals of line * G along every line between neighbouring ends."""
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(_ALONG))
    crossings = []
    for rim in rims:
        # where a rim crosses a line the integrand has a kink; it is continuous, so where exactly carries no derivative
        half = torch.sqrt(torch.clamp(rim.detach() ** 2 - lines.detach() ** 2, min=0.0))
        crossings += [-half, half]
    crossings = torch.sort(torch.stack(crossings, dim=1), dim=1).values[:, None, :]
    low, high = ends[:-1, None], ends[1:, None]
    full = (len(lines), len(low), 1)
    cuts = torch.cat([low.expand(full), torch.maximum(torch.minimum(crossings, high), low), high.expand(full)], dim=2)
    length = cuts[..., 1:] - cuts[..., :-1]
    out = torch.zeros_like(length)
    # few stretches between ends have a rim in them
    where = length.detach().nonzero(as_tuple=True)
    parts = []
    for some in zip(*(index.split(_AT_ONCE) for index in where), strict=True):
        c, size = lines[some[0]][:, None].expand(-1, _ALONG), length[some][:, None]
        s = cuts[..., :-1][some][:, None] + size * (0.5 * (nodes + 1.0))
        parts.append(torch.sum(0.5 * size * weights * c * inwards(c, s), dim=1))
    return out.index_put(where, torch.cat(parts)).sum(dim=2)


def _round_field(mean: Callable, inner: torch.Tensor, outer: torch.Tensor) -> Callable:
    """G of a surface of revolution between two radii; ``mean(v)`` is 2 G at the squared radius v without rims."""

    def inwards(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        v = x * x + y * y
        inside = torch.minimum(torch.maximum(v, inner * inner), outer * outer)
        filled = inside * mean(inside) - inner * inner * mean(inner * inner)
        # at the axis v = 0, and where there is no hole, G has its limit there
        return 0.5 * torch.where(v > 0.0, filled / torch.where(v > 0.0, v, 1.0), mean(torch.zeros_like(inner)))

    return inwards


def _flat(shape: Any) -> tuple[Callable, tuple[torch.Tensor, ...]]:
    if isinstance(shape, AnnularPlaneGeometry):
        inner, outer = stack((shape.inner_radius, shape.outer_radius)).unbind()
    else:
        (outer,) = stack((shape.aperture_radius,)).unbind()
        inner = torch.zeros_like(outer)
    return _round_field(torch.ones_like, inner, outer), (inner, outer) if float(inner.detach()) > 0.0 else (outer,)


def _conic(shape: ConicGeometry) -> tuple[Callable, tuple[torch.Tensor, ...]]:
    """w^2 = (1 - K c^2 v) / (1 - (1 + K) c^2 v) at v = rho^2.

    With p^2 = 1 - (1 + K) c^2 v the area inside v is pi v 2 / (1 + p) times the mean of sqrt(1 - K c^2 u) for p' from 1
    to p, u being v at p': smooth out to a hemisphere's rim.
    """
    radius, k, outer = stack(shape.numbers()).unbind()
    c2 = curvature(radius) ** 2
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(_INWARDS))
    t, weights = 0.5 * (nodes + 1.0), 0.5 * weights

    def mean(v: torch.Tensor) -> torch.Tensor:
        radicand = 1.0 - (1.0 + k) * c2 * v
        p = torch.where(radicand > 0.0, torch.sqrt(torch.where(radicand > 0.0, radicand, 1.0)), 0.0)
        share = (v / (1.0 + p))[..., None]
        u = t * share * (2.0 - t * (1.0 - p[..., None]))
        return 2.0 / (1.0 + p) * torch.sum(weights * torch.sqrt(1.0 - k * c2 * u), dim=-1)

    return _round_field(mean, torch.zeros_like(outer), outer), (outer,)


def _sag(shape: SagGeometry) -> tuple[Callable, tuple[torch.Tensor, ...]]:
    (outer,) = stack((shape.aperture_radius,)).unbind()
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(_INWARDS))
    t, weights = 0.5 * (nodes + 1.0), 0.5 * weights
    attached = any(isinstance(v, torch.Tensor) and v.requires_grad for v in shape.numbers())

    def inwards(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        v = x * x + y * y
        limit = torch.where(v > outer * outer, outer / torch.sqrt(torch.where(v > 0.0, v, 1.0)), 1.0)[..., None]
        with torch.enable_grad():
            px, py = t * limit * x[..., None], t * limit * y[..., None]
            px, py = (p if p.requires_grad else p.requires_grad_() for p in (px, py))
            slopes = torch.autograd.grad(shape.sag(px, py).sum(), (px, py), create_graph=attached)
        return torch.sum(weights * torch.sqrt(1.0 + slopes[0] ** 2 + slopes[1] ** 2) * t, dim=-1) * limit[..., 0] ** 2

    return inwards, (outer,)


_AREAS: dict[str, Callable[[Any, int, int], torch.Tensor]] = {PLANE: _squares, CYLINDER: _bands}
_FIELDS: dict[type, Callable[[Any], tuple[Callable, tuple[torch.Tensor, ...]]]] = {
    FinitePlaneGeometry: _flat,
    AnnularPlaneGeometry: _flat,
    ConicGeometry: _conic,
    SagGeometry: _sag,
}
