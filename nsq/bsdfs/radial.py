"""Lobes that depend on the distance from a reference ray in direction cosines alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._names import named_arguments
from ..numbers import Number, check_constant
from .base import BaseBSDF, cosines

_STEPS, _MOST_STEPS = 4096, 1 << 17
_SLACK = 1e-9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


class RadialBSDF(BaseBSDF):
    """A lobe whose BSDF depends on b = |beta - beta0| alone: what the classes below share.

    A ray takes a distance b by the density ``value(b) 2 pi b`` on 0 to ``reach`` and an even azimuth. Its weight is 1,
    or 0 where beta would leave the unit disk: there is no such direction. The level of the scatter is the surface's
    ``scatter_fraction``, for which `total_integrated_scatter` is the natural value. Not differentiated, except through
    the reference ray.
    """

    ROW = "radial"

    @property
    def reach(self) -> float:
        """The largest distance b that is sampled."""
        raise NotImplementedError

    @property
    def total_integrated_scatter(self) -> float:
        """Share of the flux that the BSDF scatters at normal incidence."""
        raise NotImplementedError

    def value(self, distance: Any) -> np.ndarray:
        """The BSDF in 1/sr at distances b, any shape."""
        raise NotImplementedError

    def cumulative(self) -> np.ndarray:
        """Integral of ``value(b) 2 pi b`` from 0 to each of even steps from 0 to ``reach``."""
        steps = np.linspace(0.0, self.reach, _STEPS)
        return _integrate_cells(self.value, steps)

    def table(self) -> np.ndarray:
        """``reach``, and the cumulative distribution of b at even steps from 0 to ``reach``, ending at 1.

        Raises ValueError where ``reach`` is outside (0, 2] or requires a gradient, or where ``value`` is below 0, no
        number, or 0 throughout.
        """
        check_constant(self.reach, "reach", positive=True, maximum=2.0)
        running = self.cumulative()
        if not (np.all(np.diff(running) >= 0.0) and 0.0 < running[-1] < math.inf):
            raise ValueError(
                f"value of {type(self).__name__} got numbers below 0, NaN or 0 throughout; it takes densities >= 0"
            )
        return np.concatenate([[self.reach], running / running[-1]])

    def reflectance(self, incident: Any, normals: Any, wavelengths: Any) -> np.ndarray:
        sines = np.sqrt(1.0 - cosines(incident, normals) ** 2)
        table = self.table()
        steps = np.linspace(0.0, table[0], len(table) - 1)
        middle, share = 0.5 * (steps[1:] + steps[:-1]), np.diff(table[1:])
        return np.array([share @ _arc_inside(sine, middle) for sine in sines])


def _arc_inside(offset: float, radius: np.ndarray) -> np.ndarray:
    """Share of a circle of ``radius`` (> 0) about a point ``offset`` from the centre that lies in the unit disk."""
    if offset == 0.0:
        return (radius <= 1.0).astype(np.float64)
    cosine = (offset**2 + radius**2 - 1.0) / (2.0 * offset * radius)
    return np.arccos(np.clip(cosine, -1.0, 1.0)) / math.pi


def _integrate_cells(function: Any, edges: np.ndarray) -> np.ndarray:
    """Running integral of ``function(b) 2 pi b`` at ``edges``, from the first of them, Gauss-Legendre in each cell."""
    half, middle = 0.5 * np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
    points = middle[:, None] + half[:, None] * _NODES
    cells = (function(points) * 2.0 * math.pi * points) @ _WEIGHTS * half
    return np.concatenate([[0.0], np.cumsum(cells)])


@named_arguments
class HarveyShackBSDF(RadialBSDF):
    """Scatter of a polished surface: BSDF = b0 / (1 + (b / l0)^s), sampled for b from 0 to 2.

    Args:
        b0: value at the reference direction, 1/sr, > 0.
        l0: where it bends, > 0.
        s: slope beyond, >= 0.
        transmissive_fraction: share of the scattered rays that go behind the surface, 0 to 1.

    b = 2 is the largest distance of two directions; at normal incidence those above 1 do not exist and weigh nothing.
    `ABgBSDF` is the same curve kept to the directions that exist.
    """

    reach = 2.0

    def __init__(self, b0: Number, l0: Number, s: Number, transmissive_fraction: Number = 0.0) -> None:
        self.b0, self.l0, self.s = b0, l0, s
        self.transmissive_fraction = transmissive_fraction
        self.validate()

    def validate(self) -> None:
        super().validate()
        check_constant(self.b0, "b0", positive=True)
        check_constant(self.l0, "l0", positive=True)
        check_constant(self.s, "s", nonnegative=True)

    def value(self, distance: Any) -> np.ndarray:
        return float(self.b0) / (1.0 + (np.asarray(distance, dtype=np.float64) / float(self.l0)) ** float(self.s))

    def cumulative(self) -> np.ndarray:
        """Integral of ``value(b) 2 pi b`` from 0 to each of 4096 even steps from 0 to 2, by the trapezoid rule."""
        steps = np.linspace(0.0, self.reach, _STEPS)
        density = self.value(steps) * 2.0 * math.pi * steps
        cells = 0.5 * (density[1:] + density[:-1]) * np.diff(steps)
        return np.concatenate([[0.0], np.cumsum(cells)])

    @property
    def total_integrated_scatter(self) -> float:
        """The integral of the BSDF over b from 0 to 2, at most 1."""
        return min(1.0, float(self.cumulative()[-1]))

    def __repr__(self) -> str:
        return (
            f"HarveyShackBSDF({self.b0!r}, {self.l0!r}, {self.s!r},"
            f" transmissive_fraction={self.transmissive_fraction!r})"
        )


@named_arguments
class ABgBSDF(RadialBSDF):
    """The ABg model of a polished surface: BSDF = a / (b + |beta - beta0|^g).

    Args:
        a: amplitude, > 0.
        b: what keeps it finite at the reference direction, > 0.
        g: slope, >= 0.
        transmissive_fraction: share of the scattered rays that go behind the surface, 0 to 1.

    Distances run to 1, what is there at normal incidence. The table's steps are an eighth of the lobe's shoulder
    b^(1/g), but at least 1/131071 and at most 1/4095. Raises ValueError for numbers that scatter more light than
    arrives.
    """

    reach = 1.0

    def __init__(self, a: Number, b: Number, g: Number, transmissive_fraction: Number = 0.0) -> None:
        self.a, self.b, self.g = a, b, g
        self.transmissive_fraction = transmissive_fraction
        self.validate()

    def validate(self) -> None:
        super().validate()
        check_constant(self.a, "a", positive=True)
        check_constant(self.b, "b", positive=True)
        check_constant(self.g, "g", nonnegative=True)
        if self.total_integrated_scatter > 1.0 + _SLACK:
            raise ValueError(
                f"a, b and g got {float(self.a):g}, {float(self.b):g} and {float(self.g):g}, which scatter"
                f" {self.total_integrated_scatter:g} of the flux; they take values that scatter at most 1"
            )

    @property
    def _shoulder(self) -> float:
        return float(self.b) ** (1.0 / float(self.g)) if self.g > 0 else 1.0

    def value(self, distance: Any) -> np.ndarray:
        return float(self.a) / (float(self.b) + np.abs(np.asarray(distance, dtype=np.float64)) ** float(self.g))

    def cumulative(self) -> np.ndarray:
        wanted = 8.0 / self._shoulder if self._shoulder > 0.0 else math.inf
        steps = np.linspace(0.0, self.reach, int(min(max(wanted, _STEPS), _MOST_STEPS)))
        return _integrate_cells(self.value, steps)

    @property
    def total_integrated_scatter(self) -> float:
        """Share of the flux that is scattered at normal incidence, over the directions that exist, |beta| <= 1.

        In closed form for g = 0, 1, 2 (pi a ln(1 + 1/b)) and 4, else by quadrature in ln(beta), to about 1e-12.
        """
        a, b, g = float(self.a), float(self.b), float(self.g)
        if g == 0.0:
            return math.pi * a / (b + 1.0)
        if g == 1.0:
            return 2.0 * math.pi * a * (1.0 - b * math.log1p(1.0 / b))
        if g == 2.0:
            return math.pi * a * math.log1p(1.0 / b)
        if g == 4.0:
            return math.pi * a / math.sqrt(b) * math.atan(1.0 / math.sqrt(b))
        low = max(min(1e-9, 1e-9 * self._shoulder), 1e-100)  # the BSDF is flat within, or nothing of it is left there
        edges = np.exp(np.linspace(math.log(low), 0.0, 400))
        return math.pi * a / b * low**2 + float(_integrate_cells(self.value, edges)[-1])

    def __repr__(self) -> str:
        return f"ABgBSDF({self.a!r}, {self.b!r}, {self.g!r}, transmissive_fraction={self.transmissive_fraction!r})"


@named_arguments
class GaussianBSDF(RadialBSDF):
    """A lobe that falls off as exp(-b^2 / (2 sigma^2)), normalised to scatter all light at normal incidence.

    Args:
        sigma: standard deviation of each component of beta, > 0. The lobe is cut at b = 6 sigma, or at 1.
        transmissive_fraction: share of the scattered rays that go behind the surface, 0 to 1.
    """

    def __init__(self, sigma: Number, transmissive_fraction: Number = 0.0) -> None:
        self.sigma = sigma
        self.transmissive_fraction = transmissive_fraction
        self.validate()

    def validate(self) -> None:
        super().validate()
        check_constant(self.sigma, "sigma", positive=True)

    @property
    def reach(self) -> float:
        return min(1.0, 6.0 * float(self.sigma))

    @property
    def total_integrated_scatter(self) -> float:
        """1: all of it."""
        return 1.0

    def value(self, distance: Any) -> np.ndarray:
        half = 0.5 / float(self.sigma) ** 2
        peak = half / (math.pi * -math.expm1(-half * self.reach**2))
        b = np.asarray(distance, dtype=np.float64)
        return np.where(np.abs(b) <= self.reach, peak * np.exp(-half * b**2), 0.0)

    def cumulative(self) -> np.ndarray:
        half = 0.5 / float(self.sigma) ** 2
        steps = np.linspace(0.0, self.reach, _STEPS)
        return np.expm1(-half * steps**2) / math.expm1(-half * self.reach**2)

    def __repr__(self) -> str:
        return f"GaussianBSDF({self.sigma!r}, transmissive_fraction={self.transmissive_fraction!r})"
