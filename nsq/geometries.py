"""Shapes of surfaces in their own frames, and the one quadric form that the trace intersects.

Every shape here is symmetric about its local z axis and lies on a surface ``F(q) = 0`` with

    F(q) = a |q|^2 + (b - a) z^2 + 2 g z + e,        q = (x, y, z) in mm,

whose gradient is the fixed normal ``n_geom``: it points from ``material_front`` to ``material_back``. A point of that
surface belongs to the shape where all of its limits hold,

    rho_min <= sqrt(x^2 + y^2) <= rho_max,  |x| <= half_x,  |y| <= half_y,  z_min <= z <= z_max,
    sheet0 + sheet1 z >= 0.

Of a line's two meetings with F the nearer one that the limits allow counts; where ``nearest_only`` is 1, the nearer one
alone counts, and the ray misses if the limits do not allow it.

A shape class gives its own numbers by ``numbers()`` and turns a stack of them into rows of this form by ``quadric``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ._names import check_attribute, named_arguments
from .numbers import Number, check_number, stack, to_float

_INF = math.inf


def _rows(p: torch.Tensor, columns: tuple[Any, ...]) -> torch.Tensor:
    """(n, len(columns)) of columns that are tensors (n,) or plain numbers."""
    n = p.shape[0]
    return torch.stack([c if isinstance(c, torch.Tensor) else p.new_full((n,), c) for c in columns], dim=1)


def _limits(
    p: torch.Tensor,
    *,
    rho=(0.0, _INF),
    half=(_INF, _INF),
    z=(-_INF, _INF),
    sheet=(1.0, 0.0),
    nearest_only=0.0,
) -> torch.Tensor:
    return _rows(p, (*rho, *half, *z, *sheet, nearest_only))


def curvature(radius: torch.Tensor) -> torch.Tensor:
    """1 / radius, and 0 with gradient 0 where the radius is 0 or infinite, which both mean flat."""
    flat = (radius == 0) | torch.isinf(radius)
    return torch.where(flat, torch.zeros_like(radius), 1.0 / torch.where(flat, torch.ones_like(radius), radius))


class Geometry:
    """What every shape offers. Attributes carry the constructor's names and may be reassigned.

    Numbers may be 0-d tensors; gradients reach those that shape the surface. `validate` is called by the constructor
    and again before each trace. It raises TypeError for what is no number and ValueError for a number out of range,
    naming the attribute.
    """

    def __post_init__(self) -> None:
        self.validate()

    def __setattr__(self, name: str, value: Any) -> None:
        fields = vars(type(self)).get("__dataclass_fields__")
        if fields is not None:  # a class that is no dataclass may have whatever attributes it likes
            check_attribute(self, name, fields)
        object.__setattr__(self, name, value)

    def validate(self) -> None:
        """Check every attribute. Unless a class does more, `numbers` are checked for kind and NaN."""
        names = {id(value): name for name, value in reversed(vars(self).items())}
        for k, value in enumerate(self.numbers()):
            check_number(value, names.get(id(value), f"numbers()[{k}]"), finite=False)

    def numbers(self) -> tuple[Number, ...]:
        """The numbers of this shape, in the order of the columns that `quadric` takes."""
        return ()

    @staticmethod
    def quadric(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Coefficients (n, 4) and limits (n, 9) of ``n`` shapes from their numbers ``p`` (n, P), float64, attached.

        Columns: a, b - a, g, e; and rho_min, rho_max, half_x, half_y, z_min, z_max, sheet0, sheet1, nearest_only.
        """
        raise NotImplementedError

    def ray_intersect(self, origins: Any, directions: Any) -> tuple[Any, Any, Any, Any]:
        """First hit of each ray, in the shape's own frame.

        Args:
            origins: (N, 3) in mm.
            directions: (N, 3), of any length above 0.

        Returns:
            t (N,) in lengths of the direction, so mm for unit vectors, infinite for a miss; normals (N, 3) turned
            against the ray; hit (N,) bool; n_geom (N, 3), the fixed normal, not turned.
        """
        from .intersect import ray_intersect

        return ray_intersect(self, origins, directions)


@named_arguments
@dataclass(eq=False)
class PlaneGeometry(Geometry):
    """The infinite plane z = 0; n_geom is +z."""

    @staticmethod
    def quadric(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _rows(p, (0.0, 0.0, 1.0, 0.0)), _limits(p)


@named_arguments
@dataclass(eq=False)
class FinitePlaneGeometry(Geometry):
    """A rectangle in the plane z = 0, or a disk where ``aperture_radius`` is given; n_geom is +z.

    Args:
        width, height: full extents along x and y, mm, > 0; the border belongs to it.
        aperture_radius: radius of the disk, mm, > 0, or None for the rectangle.
    """

    width: Number = 10.0
    height: Number = 10.0
    aperture_radius: Number | None = None

    def validate(self) -> None:
        check_number(self.width, "width", positive=True)
        check_number(self.height, "height", positive=True)
        check_number(self.aperture_radius, "aperture_radius", positive=True, none_ok=True)

    def numbers(self) -> tuple[Number, ...]:
        if self.aperture_radius is not None:
            return (_INF, _INF, self.aperture_radius)
        return (self.width, self.height, _INF)

    @staticmethod
    def quadric(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        limits = _limits(p, rho=(0.0, p[:, 2]), half=(0.5 * p[:, 0], 0.5 * p[:, 1]))
        return _rows(p, (0.0, 0.0, 1.0, 0.0)), limits


@named_arguments
@dataclass(eq=False)
class ConicGeometry(Geometry):
    """A conic of revolution with its vertex at the origin, out to a circular aperture; n_geom is +z at the vertex.

    ``c (x^2 + y^2) + (1 + K) c z^2 - 2 z = 0`` with ``c = 1 / radius``, on the sheet ``1 - (1 + K) c z >= 0``.

    Args:
        radius: vertex radius of curvature R, mm; positive puts the centre on +z, 0 and infinities mean flat.
        conic: conic constant K; 0 is a sphere, -1 a paraboloid.
        aperture_radius: mm, > 0. ValueError where the conic does not reach that far out.
    """

    radius: Number
    conic: Number
    aperture_radius: Number

    def validate(self) -> None:
        check_number(self.radius, "radius", finite=False)
        check_number(self.conic, "conic")
        check_number(self.aperture_radius, "aperture_radius", positive=True)
        c, k, a = plain_curvature(self.radius), to_float(self.conic), to_float(self.aperture_radius)
        if 1.0 - (1.0 + k) * (c * a) ** 2 < -1e-12:  # a hemisphere's 1/R * R may round above 1
            raise ValueError(
                f"aperture_radius got {a:g}; it takes at most {1.0 / (abs(c) * math.sqrt(1.0 + k)):g},"
                f" the largest distance from the axis on a surface of radius {1.0 / c:g} and conic {k:g}"
            )

    def numbers(self) -> tuple[Number, ...]:
        return (self.radius, self.conic, self.aperture_radius)

    @staticmethod
    def quadric(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        c, k = curvature(p[:, 0]), p[:, 1]
        coefficients = _rows(p, (-c, -c * k, 1.0, 0.0))
        return coefficients, _limits(p, rho=(0.0, p[:, 2]), sheet=(1.0, -(1.0 + k) * c))

    def sag(self, rho: Number) -> Number:
        """z of the surface at distance ``rho`` from the axis, mm: ``c rho^2 / (1 + sqrt(1 - (1 + K) c^2 rho^2))``.

        A radicand below 0 counts as 0. A float, or a 0-d float64 tensor where radius, conic or ``rho`` is a tensor.
        """
        _, conic, _ = numbers = self.numbers()
        if not any(isinstance(v, torch.Tensor) for v in (numbers[0], conic, rho)):
            return float(self.profile(float(rho)))
        radius, k, r = stack((numbers[0], conic, rho)).unbind()
        c = curvature(radius)
        radicand = 1.0 - (1.0 + k) * (c * r) ** 2
        inside = radicand > 0.0
        root = torch.where(inside, torch.sqrt(torch.where(inside, radicand, 1.0)), 0.0)
        return c * r * r / (1.0 + root)

    def profile(self, rho: np.ndarray | float) -> np.ndarray:
        """`sag` as NumPy numbers, detached, for any shape of ``rho``."""
        radius, conic, _ = self.numbers()
        c, k = plain_curvature(radius), to_float(conic)
        return c * rho**2 / (1.0 + np.sqrt(np.maximum(0.0, 1.0 - (1.0 + k) * (c * rho) ** 2)))


def plain_curvature(radius: Number) -> float:
    """`curvature` of one number, detached."""
    radius = to_float(radius)
    return 0.0 if radius == 0.0 or math.isinf(radius) else 1.0 / radius


@named_arguments
class ParaboloidGeometry(ConicGeometry):
    """A paraboloid of vertex radius ``radius``, mm, out to ``aperture_radius``, mm: the conic with K = -1."""

    def __init__(self, radius: Number, aperture_radius: Number) -> None:
        super().__init__(radius, -1.0, aperture_radius)

    def validate(self) -> None:
        super().validate()
        if to_float(self.conic) != -1.0:
            raise ValueError(f"conic got {to_float(self.conic):g}; a paraboloid takes -1 (use ConicGeometry)")


@named_arguments
@dataclass(eq=False)
class SphereGeometry(Geometry):
    """A whole sphere about the origin; n_geom points to the centre.

    A ray whose nearer meeting with the sphere lies outside the aperture misses, even where the farther one lies inside.

    Args:
        radius: mm, > 0.
        aperture_radius: keeps the part within this distance of the axis, mm, > 0 and at most the radius; None keeps
            all.
    """

    radius: Number
    aperture_radius: Number | None = None

    def validate(self) -> None:
        check_number(self.radius, "radius", positive=True)
        check_number(self.aperture_radius, "aperture_radius", positive=True, none_ok=True)
        if self.aperture_radius is not None and to_float(self.aperture_radius) > to_float(self.radius):
            raise ValueError(
                f"aperture_radius got {to_float(self.aperture_radius):g};"
                f" it takes at most {to_float(self.radius):g}, the sphere's radius"
            )

    def numbers(self) -> tuple[Number, ...]:
        return (self.radius, _INF if self.aperture_radius is None else self.aperture_radius)

    @staticmethod
    def quadric(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        radius = p[:, 0]
        return _rows(p, (-1.0 / radius, 0.0, 0.0, radius)), _limits(p, rho=(0.0, p[:, 1]), nearest_only=1.0)


@named_arguments
@dataclass(eq=False)
class CylindricalFrustumGeometry(Geometry):
    """The lateral surface of a truncated cone about the z axis, a cylinder for equal radii; n_geom points outwards.

    Args:
        r_front, r_back: radii at ``z_front`` and ``z_back``, mm, >= 0 and not both 0.
        z_front, z_back: the two ends, mm; ``z_back`` beyond ``z_front``.
    """

    r_front: Number
    r_back: Number
    z_front: Number
    z_back: Number

    def validate(self) -> None:
        check_number(self.r_front, "r_front", nonnegative=True)
        check_number(self.r_back, "r_back", nonnegative=True)
        check_number(self.z_front, "z_front")
        check_number(self.z_back, "z_back")
        if max(to_float(self.r_front), to_float(self.r_back)) == 0.0:
            raise ValueError("r_front and r_back got 0; at least one of them takes a number > 0")
        if not to_float(self.z_back) > to_float(self.z_front):
            raise ValueError(
                f"z_back got {to_float(self.z_back):g}; it takes a number above z_front = {to_float(self.z_front):g}"
            )

    def numbers(self) -> tuple[Number, ...]:
        return (self.r_front, self.r_back, self.z_front, self.z_back)

    @staticmethod
    def quadric(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # F = (x^2 + y^2 - r(z)^2) / m with r(z) = r0 + s z. The scale m only keeps F's size near a length, so it is
        # held constant: the surface F = 0 does not depend on it.
        r_front, r_back, z_front, z_back = p.unbind(1)
        slope = (r_back - r_front) / (z_back - z_front)
        r0 = r_front - slope * z_front
        m = torch.maximum(r_front, r_back).detach()
        coefficients = _rows(p, (1.0 / m, -(slope * slope + 1.0) / m, -slope * r0 / m, -r0 * r0 / m))
        return coefficients, _limits(p, z=(z_front, z_back), sheet=(r0, slope))


@named_arguments
@dataclass(eq=False)
class AnnularPlaneGeometry(Geometry):
    """A ring in the plane z = ``z_offset``, both radii included; n_geom is +z.

    Args:
        inner_radius: mm, >= 0.
        outer_radius: mm, above the inner radius.
        z_offset: mm.
    """

    inner_radius: Number
    outer_radius: Number
    z_offset: Number = 0.0

    def validate(self) -> None:
        check_number(self.inner_radius, "inner_radius", nonnegative=True)
        check_number(self.outer_radius, "outer_radius", positive=True)
        check_number(self.z_offset, "z_offset")
        if not to_float(self.outer_radius) > to_float(self.inner_radius):
            raise ValueError(
                f"outer_radius got {to_float(self.outer_radius):g};"
                f" it takes a number above inner_radius = {to_float(self.inner_radius):g}"
            )

    def numbers(self) -> tuple[Number, ...]:
        return (self.inner_radius, self.outer_radius, self.z_offset)

    @staticmethod
    def quadric(p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _rows(p, (0.0, 0.0, 1.0, -2.0 * p[:, 2])), _limits(p, rho=(p[:, 0], p[:, 1]))
