"""A measured lobe from a file."""

from __future__ import annotations

import csv
import math
import os
from typing import Any

import numpy as np

from .._files import read_bounded
from .._names import named_arguments
from ..numbers import Number, check_choice
from .base import BaseBSDF, cosines

SAMPLERS = ("cosine", "density")
_DENSITY_CELLS = 512
_LONGEST_FILE, _MOST_INCIDENCES = 8 * 1024 * 1024, 1000  # bytes, angles
_SLACK = 1e-9
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


@named_arguments
class TabulatedBSDF(BaseBSDF):
    """A measured lobe, even about the normal, from a file.

    Args:
        path: a CSV file of rows theta_i, theta_s, value: angles of incidence and of scatter in degrees, 0 to 90, and
            the BSDF in 1/sr, >= 0. The rows fill a grid of at least two angles each way, in any order; a first row that
            holds no numbers is a heading; lines that are empty or begin with # do not count.
        transmissive_fraction: share of the scattered rays that go behind the surface, 0 to 1.
        sampler: "cosine" draws directions from a cosine and weighs them by pi times the BSDF, clipped to 1: energy that
            a narrow, high lobe holds above 1 / pi is cut off. "density" draws directions from the table itself; the
            weight is the same for all of them, the share of the light that the table scatters at that incidence.

    Attributes:
        theta_i, theta_s: (n_i,) and (n_s,) arrays, degrees. values: (n_i, n_s) array, 1/sr.

    Between angles the BSDF is bilinear, outside of them 0. Nothing is differentiated. Raises FileNotFoundError,
    ValueError naming the line or the angle that is wrong, and, for sampler="density", where a table scatters more
    light than arrives.
    """

    def __init__(
        self, path: str | os.PathLike[str], transmissive_fraction: Number = 0.0, sampler: str = "cosine"
    ) -> None:
        self.path = path
        self.transmissive_fraction = transmissive_fraction
        self.sampler = sampler
        self.theta_i, self.theta_s, self.values = _read_grid(path)
        self.validate()

    @property
    def ROW(self) -> str:  # type: ignore[override]
        return "density" if self.sampler == "density" else "tabulated"

    def validate(self) -> None:
        super().validate()
        check_choice(self.sampler, "sampler", SAMPLERS)
        if self.sampler == "density":
            weights = self._running()[1][:, -1]
            worst = int(np.argmax(weights))
            if weights[worst] > 1.0 + _SLACK:
                raise ValueError(
                    f"path got {os.fspath(self.path)!r}, which scatters {weights[worst]:g} of the flux at theta_i ="
                    f" {self.theta_i[worst]:g}; sampler='density' takes tables that scatter at most 1"
                )

    def table(self) -> np.ndarray:
        """The grid, and for sampler="density" its cumulative distributions.

        Both begin with n_i, n_s, theta_i (n_i,), theta_s (n_s,) in degrees, and the values, row after row (n_i * n_s,).
        "density" goes on with

            m, s (m,), C (n_i * m,) row after row,

        where s = sin(theta_s)^2 rises from theta_s[0] to theta_s[-1], and C[i, j] = 2 pi times the integral of
        value(theta_i[i], theta) cos(theta) sin(theta) from theta_s[0] to asin(sqrt(s[j])); C[i, 0] = 0, and
        C[i, m - 1] is the weight of row i. To draw at an incidence theta between rows i and i + 1, at the share c of
        the way, take D[j] = (1 - c) C[i, j] + c C[i + 1, j], which belongs to the interpolated BSDF exactly. The weight
        is D[m - 1], and 0 for theta outside theta_i. Find the j with D[j] <= u D[m - 1] < D[j + 1]; s is uniform in
        that cell: s = s[j] + (s[j + 1] - s[j]) (u D[m - 1] - D[j]) / (D[j + 1] - D[j]); cos(theta_s) = sqrt(1 - s).
        """
        grid = [[len(self.theta_i), len(self.theta_s)], self.theta_i, self.theta_s, self.values.ravel()]
        if self.sampler == "density":
            s, running = self._running()
            grid += [[len(s)], s, running.ravel()]
        return np.concatenate([np.asarray(part, dtype=np.float64) for part in grid])

    def value(self, theta_i: Any, theta_s: Any) -> np.ndarray:
        """The BSDF in 1/sr at angles in degrees, which broadcast."""
        ti, ts = np.broadcast_arrays(np.asarray(theta_i, dtype=np.float64), np.asarray(theta_s, dtype=np.float64))
        i, a = _bracket(self.theta_i, ti)
        j, c = _bracket(self.theta_s, ts)
        low = (1.0 - c) * self.values[i, j] + c * self.values[i, j + 1]
        high = (1.0 - c) * self.values[i + 1, j] + c * self.values[i + 1, j + 1]
        inside = (ti >= self.theta_i[0]) & (ti <= self.theta_i[-1])
        inside &= (ts >= self.theta_s[0]) & (ts <= self.theta_s[-1])
        return np.where(inside, (1.0 - a) * low + a * high, 0.0)

    def reflectance(self, incident: Any, normals: Any, wavelengths: Any) -> np.ndarray:
        theta = np.degrees(np.arccos(cosines(incident, normals)))
        if self.sampler == "density":
            _, running = self._running()
            return np.interp(theta, self.theta_i, running[:, -1], left=0.0, right=0.0)
        points, weights = _cell_rule(self._angles())
        lobe = np.minimum(math.pi * self.value(theta[:, None], points.ravel()), 1.0)
        angle = np.radians(points.ravel())
        return lobe @ (2.0 * np.cos(angle) * np.sin(angle) * np.radians(weights.ravel()))

    def _angles(self) -> np.ndarray:
        """The scattered angles with even steps between them, degrees."""
        parts = math.ceil(_DENSITY_CELLS / (len(self.theta_s) - 1))
        steps = np.arange(parts) / parts
        fine = self.theta_s[:-1, None] + np.diff(self.theta_s)[:, None] * steps
        return np.append(fine.ravel(), self.theta_s[-1])

    def _running(self) -> tuple[np.ndarray, np.ndarray]:
        """s (m,) and C (n_i, m), as `table` describes them."""
        angles = self._angles()
        points, weights = _cell_rule(angles)
        measure = 2.0 * math.pi * np.cos(np.radians(points)) * np.sin(np.radians(points)) * np.radians(weights)
        cells = (self.value(self.theta_i[:, None, None], points) * measure).sum(axis=2)
        running = np.concatenate([np.zeros((len(self.theta_i), 1)), np.cumsum(cells, axis=1)], axis=1)
        return np.sin(np.radians(angles)) ** 2, running

    def __repr__(self) -> str:
        return (
            f"TabulatedBSDF({os.fspath(self.path)!r}, transmissive_fraction={self.transmissive_fraction!r},"
            f" sampler={self.sampler!r})"
        )


def _cell_rule(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights (cells, 8) of Gauss-Legendre quadrature in each cell."""
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    return middle + half * _NODES, half * _WEIGHTS


def _bracket(grid: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cell of ``grid`` that each value lies in and how far along it."""
    cell = np.clip(np.searchsorted(grid, values, side="right") - 1, 0, len(grid) - 2)
    return cell, np.clip((values - grid[cell]) / (grid[cell + 1] - grid[cell]), 0.0, 1.0)


def _read_grid(path: str | os.PathLike[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    name, rows, heading_allowed = os.fspath(path), [], True
    try:
        text = read_bounded(path, _LONGEST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"path got {name!r}: no UTF-8 text at byte {error.start}") from None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        where = f"path got {name!r}, line {number}: {line[:60]!r}"
        try:
            row = [float(field) for field in next(csv.reader([line]))]
        except (ValueError, csv.Error):
            if heading_allowed:
                heading_allowed = False
                continue
            raise ValueError(f"{where}; it takes numbers") from None
        heading_allowed = False
        if len(row) != 3 or not np.all(np.isfinite(row)):
            raise ValueError(f"{where}; it takes theta_i, theta_s, value")
        if not (0.0 <= row[0] <= 90.0 and 0.0 <= row[1] <= 90.0 and row[2] >= 0.0):
            raise ValueError(f"{where}; it takes angles from 0 to 90 degrees and values >= 0")
        rows.append(row)
    table = np.array(rows).reshape(-1, 3)
    theta_i, at_i = np.unique(table[:, 0], return_inverse=True)
    theta_s, at_s = np.unique(table[:, 1], return_inverse=True)
    if len(theta_i) < 2 or len(theta_s) < 2:
        raise ValueError(
            f"path got {name!r}, which holds {len(theta_i)} theta_i and {len(theta_s)} theta_s; at least 2"
        )
    if len(theta_i) > _MOST_INCIDENCES:
        raise ValueError(f"path got {name!r}, which holds {len(theta_i)} theta_i; at most {_MOST_INCIDENCES}")
    # looked for before a grid is made, which scattered angles could make as large as the square of the file
    place = np.unique(at_i * len(theta_s) + at_s)
    if len(place) < len(theta_i) * len(theta_s):
        first = int(np.argmax(np.append(place, -1) != np.arange(len(place) + 1)))
        i, s = divmod(first, len(theta_s))
        raise ValueError(f"path got {name!r}, which has no value at theta_i = {theta_i[i]:g}, theta_s = {theta_s[s]:g}")
    if len(table) != len(place):
        raise ValueError(f"path got {name!r}, which holds {len(table)} rows for {len(place)} pairs of angles")
    values = np.empty((len(theta_i), len(theta_s)))
    values[at_i, at_s] = table[:, 2]
    return theta_i, theta_s, values
