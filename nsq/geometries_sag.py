"""Shapes given by their sag: aspheres, biconics and toroids.

A surface ``z = sag(x, y)`` over the disk ``x^2 + y^2 <= aperture_radius^2``, with its vertex at the origin. Its
implicit function is ``F(q) = z - sag(x, y)``, so n_geom points along +z at the vertex.

Each class says by ``ROW`` which device function intersects it and gives its numbers by ``numbers``. `sag` and
`implicit` are the reference: float64 ``torch``, attached to the numbers and to the points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ._names import named_arguments
from .geometries import Geometry, curvature, plain_curvature
from .numbers import Number, check_count, check_number, stack, to_float

_HIGHEST_POWER = 40
_ROUNDING = 1e-12  # a radicand may round to this much below 0 at the rim
_SAMPLES = 257


class SagGeometry(Geometry):
    """What the shapes of this module share."""

    ROW = ""
    aperture_radius: Number

    def sag(self, x: Any, y: Any) -> torch.Tensor:
        """z of the surface in mm at x and y in mm, float64 tensor of their broadcast shape.

        Differentiable in x, y and the shape's numbers. A radicand below 0, beyond where the surface reaches, counts
        as 0.
        """
        raise NotImplementedError

    def implicit(self, q: torch.Tensor) -> torch.Tensor:
        """F (n,) in mm at points ``q`` (n, 3) in mm: ``z - sag(x, y)``, differentiable as `sag`."""
        return q[:, 2].to(torch.float64) - self.sag(q[:, 0], q[:, 1])

    def z_range(self) -> tuple[float, float]:
        """Heights between which the surface lies over its aperture, mm: sampled, and widened by the steepest step."""
        reach = to_float(self.aperture_radius)
        rho = np.linspace(0.0, reach, _SAMPLES)
        phi = np.linspace(0.0, 0.5 * np.pi, _SAMPLES)[:, None]  # every shape here is even in x and in y
        with torch.no_grad():
            z = self.sag(rho * np.cos(phi), rho * np.sin(phi)).numpy()
        rise = np.abs(np.diff(z, axis=1)).max() + np.abs(np.diff(z, axis=0)).max()
        return float(z.min() - rise), float(z.max() + rise)

    def least_radius(self) -> float:
        """The least radius of curvature over the aperture, mm, infinite for a plane: sampled along radii."""
        reach = to_float(self.aperture_radius)
        rho = np.linspace(0.0, reach, _SAMPLES)
        phi = np.linspace(0.0, 0.5 * np.pi, 17)[:, None]
        with torch.no_grad():
            z = self.sag(rho * np.cos(phi), rho * np.sin(phi)).numpy()
        step = reach / (_SAMPLES - 1)
        second = (z[:, 2:] - 2.0 * z[:, 1:-1] + z[:, :-2]) / step**2
        slope = 0.5 * (z[:, 2:] - z[:, :-2]) / step
        bend = np.abs(second / (1.0 + slope**2) ** 1.5).max()
        return float(1.0 / bend) if bend > 0.0 else np.inf

    def _check_aperture(self) -> None:
        check_number(self.aperture_radius, "aperture_radius", positive=True)


def _points(x: Any, y: Any) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = (v if isinstance(v, torch.Tensor) else torch.as_tensor(np.asarray(v, dtype=np.float64)) for v in (x, y))
    return torch.broadcast_tensors(x.to(torch.float64), y.to(torch.float64))


def _root(radicand: torch.Tensor) -> torch.Tensor:
    """Square root, 0 with gradient 0 where the radicand is not above 0."""
    inside = radicand > 0.0
    return torch.where(inside, torch.sqrt(torch.where(inside, radicand, torch.ones_like(radicand))), 0.0)


def _conic_sag(c: torch.Tensor, k: torch.Tensor, squared: torch.Tensor) -> torch.Tensor:
    return c * squared / (1.0 + _root(1.0 - (1.0 + k) * c * c * squared))


def _check_reach(c: float, k: float, a: float, which: str) -> None:
    if 1.0 - (1.0 + k) * (c * a) ** 2 < -_ROUNDING:
        raise ValueError(
            f"aperture_radius got {a:g}; it takes at most {1.0 / (abs(c) * (1.0 + k) ** 0.5):g}, the largest distance"
            f" from the axis on a surface of {which} {1.0 / c:g} and conic {k:g}"
        )


@named_arguments
@dataclass(eq=False)
class AsphereGeometry(SagGeometry):
    """A conic plus powers of the distance from the axis: ``sag = conic(rho) + sum of a_p rho^p``.

    Args:
        radius: vertex radius, mm, positive with the centre on +z; 0 and infinities mean flat.
        conic: conic constant.
        aperture_radius: mm, > 0.
        coefficients: {power: a_p}, whole powers from 2 to 40, odd ones too; a_p in mm^(1 - p). Differentiable.

    ``conic(rho) = c rho^2 / (1 + sqrt(1 - (1 + conic) c^2 rho^2))`` with c = 1 / radius. A power of 1 would make a
    cone, which has no normal at its tip: see CylindricalFrustumGeometry.
    """

    ROW = "asphere"

    radius: Number
    conic: Number
    aperture_radius: Number
    coefficients: Mapping[int, Number] = field(default_factory=dict)

    def terms(self) -> tuple[tuple[int, Number], ...]:
        """(power, coefficient) of every term of the polynomial."""
        return tuple((int(power), value) for power, value in self.coefficients.items())

    @property
    def powers(self) -> tuple[int, ...]:
        """Powers of the terms, in the order of `numbers`."""
        return tuple(power for power, _ in self.terms())

    def validate(self) -> None:
        check_number(self.radius, "radius", finite=False)
        check_number(self.conic, "conic")
        self._check_aperture()
        self._check_coefficients()
        _check_reach(plain_curvature(self.radius), to_float(self.conic), to_float(self.aperture_radius), "radius")

    def _check_coefficients(self) -> None:
        if not isinstance(self.coefficients, Mapping):
            kind = type(self.coefficients).__name__
            raise TypeError(f"coefficients got {kind}; it takes a mapping such as {{4: 1e-5, 5: -2e-7}}")
        for power, value in self.coefficients.items():
            if check_count(power, "coefficients' power", minimum=2) > _HIGHEST_POWER:
                raise ValueError(f"coefficients' power got {power}; it takes a whole number up to {_HIGHEST_POWER}")
            check_number(value, f"coefficients[{power}]")

    def numbers(self) -> tuple[Number, ...]:
        return (self.radius, self.conic, self.aperture_radius, *(value for _, value in self.terms()))

    def sag(self, x: Any, y: Any) -> torch.Tensor:
        x, y = _points(x, y)
        radius, k, _, *values = stack(self.numbers(), x.device).unbind()
        squared = x * x + y * y
        z = _conic_sag(curvature(radius), k, squared)
        off_axis = squared > 0.0
        positive = torch.where(off_axis, squared, torch.ones_like(squared))
        for power, value in zip(self.powers, values, strict=True):
            z = z + value * torch.where(off_axis, positive ** (0.5 * power), 0.0)
        return z


@named_arguments
@dataclass(eq=False)
class EvenAsphereGeometry(AsphereGeometry):
    """A conic plus even powers of the distance from the axis: ``a4 rho^4 + a6 rho^6 + ...``.

    Args:
        radius, conic, aperture_radius: as for `AsphereGeometry`.
        coefficients: (a4, a6, a8, ...), in mm^-3, mm^-5 and so on. Differentiable.
    """

    coefficients: Sequence[Number] = ()

    def terms(self) -> tuple[tuple[int, Number], ...]:
        return tuple((4 + 2 * place, value) for place, value in enumerate(self.coefficients))

    def _check_coefficients(self) -> None:
        if isinstance(self.coefficients, str | Mapping) or not isinstance(self.coefficients, Sequence):
            kind = type(self.coefficients).__name__
            raise TypeError(f"coefficients got {kind}; it takes a sequence (a4, a6, ...)")
        if len(self.coefficients) > (_HIGHEST_POWER - 2) // 2:
            raise ValueError(
                f"coefficients got {len(self.coefficients)} numbers; it takes powers up to {_HIGHEST_POWER}"
            )
        for place, value in enumerate(self.coefficients):
            check_number(value, f"coefficients[{place}]")


@named_arguments
@dataclass(eq=False)
class BiconicGeometry(SagGeometry):
    """A surface of different conics along x and y.

    ``sag = (cx x^2 + cy y^2) / (1 + sqrt(1 - (1 + conic_x) cx^2 x^2 - (1 + conic_y) cy^2 y^2))``, c = 1 / radius.

    Args:
        radius_x, radius_y: vertex radii along x and y, mm, signs as for `AsphereGeometry`. Differentiable.
        conic_x, conic_y: conic constants. Differentiable.
        aperture_radius: mm, > 0; by name.
    """

    ROW = "biconic"

    radius_x: Number
    radius_y: Number
    conic_x: Number = 0.0
    conic_y: Number = 0.0
    aperture_radius: Number = field(kw_only=True)

    def validate(self) -> None:
        for name in ("radius_x", "radius_y"):
            check_number(getattr(self, name), name, finite=False)
        for name in ("conic_x", "conic_y"):
            check_number(getattr(self, name), name)
        self._check_aperture()
        # on the rim the radicand is linear in x^2, so its least value is at one end
        a = to_float(self.aperture_radius)
        _check_reach(plain_curvature(self.radius_x), to_float(self.conic_x), a, "radius_x")
        _check_reach(plain_curvature(self.radius_y), to_float(self.conic_y), a, "radius_y")

    def numbers(self) -> tuple[Number, ...]:
        return (self.radius_x, self.radius_y, self.conic_x, self.conic_y, self.aperture_radius)

    def sag(self, x: Any, y: Any) -> torch.Tensor:
        x, y = _points(x, y)
        radius_x, radius_y, kx, ky, _ = stack(self.numbers(), x.device).unbind()
        cx, cy = curvature(radius_x), curvature(radius_y)
        radicand = 1.0 - (1.0 + kx) * (cx * x) ** 2 - (1.0 + ky) * (cy * y) ** 2
        return (cx * x * x + cy * y * y) / (1.0 + _root(radicand))


@named_arguments
@dataclass(eq=False)
class ToroidGeometry(SagGeometry):
    """A conic curve in the plane x = 0, swept around the axis parallel to y at z = ``radius_x``.

    With g(y) the conic of ``radius_y`` and ``conic_y`` and c = 1 / radius_x,
    ``sag = g + c x^2 / (1 - c g + sqrt((1 - c g)^2 - c^2 x^2))``. A flat ``radius_x`` gives a cylinder along x, a flat
    ``radius_y`` one along y; equal radii give a sphere.

    Args:
        radius_x: distance from the vertex to the axis of the sweep, mm, positive on +z; 0 and infinities mean flat.
            Differentiable.
        radius_y, conic_y: of the curve, mm. Differentiable.
        aperture_radius: mm, > 0; by name.
    """

    ROW = "toroid"

    radius_x: Number
    radius_y: Number
    conic_y: Number = 0.0
    aperture_radius: Number = field(kw_only=True)

    def validate(self) -> None:
        check_number(self.radius_x, "radius_x", finite=False)
        check_number(self.radius_y, "radius_y", finite=False)
        check_number(self.conic_y, "conic_y")
        self._check_aperture()
        cx, cy, k = plain_curvature(self.radius_x), plain_curvature(self.radius_y), to_float(self.conic_y)
        a = to_float(self.aperture_radius)
        _check_reach(cy, k, a, "radius_y")
        y = np.linspace(0.0, a, _SAMPLES)
        height = 1.0 - cx * cy * y**2 / (1.0 + np.sqrt(np.maximum(0.0, 1.0 - (1.0 + k) * (cy * y) ** 2)))
        if np.any(height - abs(cx) * np.sqrt(np.maximum(0.0, a**2 - y**2)) < -_ROUNDING):
            raise ValueError(
                f"aperture_radius got {a:g}; the toroid of radius_x {1.0 / cx:g} does not reach that far out"
            )

    def numbers(self) -> tuple[Number, ...]:
        return (self.radius_x, self.radius_y, self.conic_y, self.aperture_radius)

    def sag(self, x: Any, y: Any) -> torch.Tensor:
        x, y = _points(x, y)
        radius_x, radius_y, k, _ = stack(self.numbers(), x.device).unbind()
        c = curvature(radius_x)
        g = _conic_sag(curvature(radius_y), k, y * y)
        height = 1.0 - c * g
        return g + c * x * x / (height + _root(height * height - (c * x) ** 2))
