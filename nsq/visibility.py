"""How wide the bands are in which rays sample the motion of an edge.

A band's half width is a share of the smaller of two lengths: the size of what ends there, and the spread of the light
on that surface. Both change little over it, which is what the bias of order width^2 asks for. The spread comes from a
few thousand rays that are traced first, the first of each source, so that widths depend on nothing but scene and seed.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernels.shapes.quadric import COEFFICIENTS
from kernels.trace import layout as at
from kernels.trace import rims
from kernels.trace.replay import ReplayLane
from kernels.trace.sags import BEND
from kernels.trace.visibility import Bands

if TYPE_CHECKING:
    from kernels.trace.tables import Run, Tables

    from .lowering.ir import SceneIR

# whether visibility is differentiated, and the default width of a band
VISIBILITY = ("band", "off")
WIDTH = 0.05
# tables behind which the place of a ray or of an edge may stand
MOVING = ("numbers", "index", "source_numbers", "sag_numbers", "limits", "triangles")
# rays that look where the light falls, hits from which on a spread is believed
_PILOTS, _FEW = 4096, 16
# the width at a side of a triangle is a share of this many radii of its inscribed circle
_INSCRIBED = 10.0
# rays look for a surface that crosses another within so many widths of a band
_BESIDE = 2.0
# of coordinates, which float32 rounds
_ROUNDING = 1e-6
# a band is at least this many of the least distances to another surface
_LEAST = 64.0


def bands_of(ir: SceneIR, tables: Tables, run: Run, width: float) -> Bands | None:
    """The bands at every edge of a scene, or None where it has no edge."""
    scales = _scales(ir)
    if not scales.any():
        return None
    pilots = _Pilots(ir, tables, run)
    widths = width * np.minimum(scales, pilots.spreads()[:, None])
    widths = np.where((widths > _LEAST * run.eps) & np.isfinite(widths), widths, 0.0)
    of_sags = [row for row, *_ in ir.geometry.sags]
    rows = np.setdiff1d(np.flatnonzero(widths[:, : rims.SIDE_A].any(axis=1)), of_sags)
    tree_rows = np.flatnonzero(widths[:, rims.SIDE_A] > 0.0)
    corners = ir.geometry.triangles[ir.geometry.triangle_of_row[tree_rows]].reshape(-1, 3, 3)
    # float32 boxes, which a ray may pass by up to a band's width in the plane of the triangle
    grow = 2.0 * widths[tree_rows, rims.SIDE_A, None] + _ROUNDING * np.abs(corners).max(initial=0.0)
    crossing = pilots.crossing(widths[:, rims.AT_CROSSING])
    return Bands.build(
        tables, run, widths, rows, crossing, tree_rows, corners.min(axis=1) - grow, corners.max(axis=1) + grow
    )


def _scales(ir: SceneIR) -> np.ndarray:
    """The size of what ends at each edge, mm; 0 where nothing does."""
    limits = ir.tensors.limits.detach().cpu().numpy()
    inner, outer = limits[:, rims.RHO_MIN], limits[:, rims.RHO_MAX]
    scales = np.zeros((len(limits), rims.NUM_WIDTHS))
    ring = outer - inner
    scales[:, rims.INNER] = np.minimum(inner, ring)
    scales[:, rims.OUTER] = np.minimum(outer, ring)
    scales[:, rims.X_LOW] = scales[:, rims.X_HIGH] = limits[:, rims.HALF_X]
    scales[:, rims.Y_LOW] = scales[:, rims.Y_HIGH] = limits[:, rims.HALF_Y]
    low, high = limits[:, rims.Z_MIN], limits[:, rims.Z_MAX]
    with np.errstate(invalid="ignore"):
        length = 0.5 * (high - low)
    bend = np.abs(ir.tensors.numbers.detach().cpu().numpy()[:, COEFFICIENTS])
    radius = np.where(bend > 0.0, 1.0 / np.where(bend > 0.0, bend, 1.0), np.inf)
    length = np.minimum(length, radius)
    scales[:, rims.Z_LOW] = np.where(np.isfinite(low), length, 0.0)
    scales[:, rims.Z_HIGH] = np.where(np.isfinite(high), length, 0.0)
    scales[:, rims.SILHOUETTE] = np.where(bend > 0.0, np.minimum(radius, outer), 0.0)
    for row, _, _, where in ir.geometry.sags:
        scales[row, rims.SILHOUETTE] = min(ir.geometry.sag_limits[where + BEND], outer[row])
    triangle = ir.geometry.triangle_of_row
    a, b, c = ir.geometry.triangles[triangle[triangle >= 0]].reshape(-1, 3, 3).transpose(1, 0, 2)
    around = sum(np.linalg.norm(side, axis=1) for side in (b - a, c - b, a - c))
    scales[triangle >= 0, rims.SIDE_A] = _INSCRIBED * np.linalg.norm(np.cross(b - a, c - a), axis=1) / around
    # what two surfaces share may be as long as either, and no wider than the light: see `_Pilots.spreads`
    crossing = np.minimum(radius, np.minimum(outer, limits[:, rims.HALF_X : rims.HALF_Y + 1].min(axis=1)))
    scales[~np.isfinite(scales)] = 0.0
    scales[:, rims.AT_CROSSING] = np.where(triangle < 0, crossing, 0.0)
    scales[[row for row, *_ in ir.geometry.sags], rims.AT_CROSSING] = 0.0
    return scales


class _Pilots:
    """Where a few thousand rays, the first of each source, meet each row."""

    def __init__(self, ir: SceneIR, tables: Tables, run: Run) -> None:
        self._ir = ir
        each = max(_PILOTS // len(run.sources), _FEW)
        lane = ReplayLane(tables, run, min(each, run.num_rays) + 8, fills_maps=False)
        met = []
        for source in run.sources:
            record = lane.trace(source.start, min(source.stop, source.start + each))
            met += [_met(stage, step.count) for stage, step in zip(record.stages, record.steps, strict=True)]
        self._rows, self._places = (np.concatenate(column) for column in zip(*met, strict=True))

    def spreads(self) -> np.ndarray:
        """Twice the standard deviation of places on each row (a uniform disk's radius), or infinity for too few."""
        count, total, square = (np.zeros(s) for s in (self._ir.num_rows, (self._ir.num_rows, 3), self._ir.num_rows))
        np.add.at(count, self._rows, 1.0)
        np.add.at(total, self._rows, self._places)
        np.add.at(square, self._rows, (self._places**2).sum(axis=1))
        mean = total / np.maximum(count, 1.0)[:, None]
        variance = np.maximum(square / np.maximum(count, 1.0) - (mean**2).sum(axis=1), 0.0)
        return np.where(count >= _FEW, np.sqrt(2.0 * variance), np.inf)

    def crossing(self, widths: np.ndarray) -> np.ndarray:
        """Analytic rows that may cross: on either of two, light is seen close to the other.

        ``widths`` (rows,) are those of bands at crossings. Surfaces that only come close, as in the corner of a lens,
        are among them, and are sorted out later.
        """
        geometry, limits = self._ir.geometry, self._ir.tensors.limits.detach().cpu().numpy()
        numbers = self._ir.tensors.numbers.detach().cpu().numpy()
        lower, upper = np.full(len(numbers), -np.inf), np.full(len(numbers), np.inf)
        lower[geometry.tree_rows], upper[geometry.tree_rows] = geometry.tree_lower[:, 0], geometry.tree_upper[:, 0]
        kept = np.flatnonzero(widths[self._rows] > 0.0)
        kept = kept[np.argsort(self._places[kept, 0], kind="stable")]
        rows, places = self._rows[kept], self._places[kept]
        close = set()
        for row in np.flatnonzero(widths > 0.0):
            slack = _BESIDE * widths[row]
            some = slice(*np.searchsorted(places[:, 0], (lower[row] - slack, upper[row] + slack)))
            q = places[some] - numbers[row, :3]
            axis, (a, d, g, e) = numbers[row, 3:6], numbers[row, COEFFICIENTS:]
            z = q @ axis
            value = a * (q**2).sum(axis=1) + d * z**2 + 2.0 * g * z + e
            steep = 2.0 * np.linalg.norm(a * q + (d * z + g)[:, None] * axis, axis=1)
            near = (rows[some] != row) & (np.abs(value) < slack * steep)
            rho = np.linalg.norm(q - z[:, None] * axis, axis=1)
            near &= (rho > limits[row, rims.RHO_MIN] - slack) & (rho < limits[row, rims.RHO_MAX] + slack)
            near &= (z > limits[row, rims.Z_MIN] - slack) & (z < limits[row, rims.Z_MAX] + slack)
            for axes, half in ((rims.AXIS_X, rims.HALF_X), (rims.AXIS_Y, rims.HALF_Y)):
                near &= np.abs(q @ limits[row, axes : axes + 3]) < limits[row, half] + slack
            close |= {(int(row), int(other)) for other in np.unique(rows[some][near])}
        crossing = {row for row, other in close if (other, row) in close}
        return np.array(sorted(crossing), dtype=np.int64)


def _met(stage: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that the rays of a bounce met, and where (n, 3)."""
    row = stage.row_hit.numpy()[:count]
    alive = stage.before.ints.numpy().reshape(at.NUM_INTS, -1)[at.STATE, :count] == at.ALIVE
    hits = np.flatnonzero(alive & (row >= 0))
    places = stage.after.floats.numpy().reshape(at.NUM_FLOATS, -1)[at.X : at.Z + 1, hits]
    return row[hits], places.T.astype(np.float64)


# numbers of a surface that only say where it ends
_LIMITS = ("aperture_radius", "inner_radius", "outer_radius", "width", "height")


def moving_limits(items: list[Any]) -> tuple[str, ...]:
    """Every number of surfaces and detectors that says where one ends and requires a gradient: "stop: inner_radius"."""
    return tuple(
        f"{item.name or type(item).__name__}: {name}"
        for item in items
        for name in _LIMITS
        if isinstance(value := getattr(item.geometry, name, None), torch.Tensor) and value.requires_grad
    )


def warn_of_limits(limits: tuple[str, ...]) -> None:
    """Warn of limits that require a gradient, for a trace without visibility."""
    for limit in limits:
        warnings.warn(
            f"{limit} requires a gradient, but with visibility='off' what a moving rim lets pass is not differentiated",
            stacklevel=5,
        )


def warn_of_rows(limits: tuple[str, ...]) -> None:
    """Warn of limits that require a gradient of a loss that is read from rows of a ray database."""
    for limit in limits:
        warnings.warn(
            f"{limit} requires a gradient of rows of a ray database, which have that of the rays that are there"
            " and not of what a moving rim lets pass. total_flux and the maps of detectors have both",
            stacklevel=2,
        )
