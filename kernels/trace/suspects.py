"""Which rays may pass an edge of an analytic row closely at all: a vectorised sieve before the search for events.

It keeps every ray that `kernels.trace.events` would enter for one of the rows, and some more: all bands of a row count
as wide as its widest, and which of its edges is close does not matter here. As the search, it is built for several
kinds of rows, which leave out what a row lacks.
"""

import functools

import numpy as np
import warp as wp

from kernels.modules import kernel_module
from kernels.precision import INT, REALS, bundle, ldi, select_int, sti
from kernels.shapes.quadric import AXIAL, BOXED, COEFFICIENTS, CURVED, NUM_NUMBERS, RANGED, quadric
from kernels.trace import layout as at
from kernels.trace import rims as edge
from kernels.trace.books import count_up
from kernels.trace.command import Command
from kernels.trace.search import GROUPS, row_groups
from kernels.trace.state import Counters

# room for the rounding of what is compared, a share of it
_SLACK = 1e-2
# The builds, the cheapest first: planes; spherical caps and whole spheres; conics with a vertex; cylinders and
# cones; everything. What a build may leave out is what the search may (`kernels.shapes.quadric`), but for sheets.
SIEVES = {
    "plane": frozenset({BOXED}),
    "cap": frozenset({CURVED}),
    "conic": frozenset({CURVED, AXIAL}),
    "tube": frozenset({CURVED, AXIAL, RANGED}),
    "any": frozenset({CURVED, AXIAL, BOXED, RANGED}),
}
# those that take two neighbouring rows at once: the faces of a lens
_PAIRED = ("cap",)
# What is known of a row here: its x and y axes; how far a point may lie from the axis (squared), in x, y and z to lie
# within the limits or a band beyond; the same for a point that keeps clear of all bands; and the reach of the band at
# its silhouette, which is below 0 where there is none. Limits that a row lacks, or that have no band, are infinite.
BEYOND, CLEAR, REACH = 6, 12, 18
NUM_BOUNDS = 19


def bounds_of(limits, widths):
    """The bounds (n, `NUM_BOUNDS`) of rows from their limits and half widths of bands, on the host."""
    bounds = np.empty((len(limits), NUM_BOUNDS))
    bounds[:, : edge.RHO_MIN] = limits[:, : edge.RHO_MIN]
    band = widths[:, : edge.SIDE_A].max(axis=1) * (1.0 + _SLACK)
    for start, more in ((BEYOND, band), (CLEAR, -band)):

        def limit(kind, column, sign, more=more):
            return np.where(widths[:, kind] > 0.0, limits[:, column] + sign * more, sign * np.inf)

        bounds[:, start] = np.maximum(limit(edge.INNER, edge.RHO_MIN, -1.0), 0.0) ** 2
        # a rim narrower than its band leaves no point clear of it
        outer = limit(edge.OUTER, edge.RHO_MAX, 1.0)
        bounds[:, start + 1] = np.where(outer < 0.0, -1.0, outer**2)
        bounds[:, start + 2] = limit(edge.X_LOW, edge.HALF_X, 1.0)
        bounds[:, start + 3] = limit(edge.Y_LOW, edge.HALF_Y, 1.0)
        bounds[:, start + 4] = limit(edge.Z_LOW, edge.Z_MIN, -1.0)
        bounds[:, start + 5] = limit(edge.Z_HIGH, edge.Z_MAX, 1.0)
    bounds[:, REACH] = np.where(widths[:, edge.SILHOUETTE] > 0.0, 2.0 * band, -1.0)
    return bounds


def sieves_of(numbers, bounds):
    """The cheapest build for each of some rows, from their numbers (n, 10) and bounds on the host."""
    a, d = numbers[:, COEFFICIENTS], numbers[:, COEFFICIENTS + 1]
    needs = {
        CURVED: (a != 0.0) | (d != 0.0),
        AXIAL: d != 0.0,
        BOXED: np.isfinite(bounds[:, BEYOND + 2 : BEYOND + 4]).any(axis=1),
        RANGED: np.isfinite(bounds[:, BEYOND + 4 : BEYOND + 6]).any(axis=1),
    }
    wanted = [{name for name, asked in needs.items() if asked[row]} for row in range(len(numbers))]
    return [next(build for build, has in SIEVES.items() if features <= has) for features in wanted]


@functools.cache
def suspect_kernel(precision, rows, build):
    """Flag the rays that come close to any of ``rows`` neighbouring rows of a build."""
    b = bundle(precision)
    real, array, ld, ld_plain, sqrt, fma, within = b.real, b.array, b.ld, b.ld_plain, b.sqrt, b.fma, b.inside
    dot = quadric(precision).dot
    curved, axial, boxed, ranged = (feature in SIEVES[build] for feature in (CURVED, AXIAL, BOXED, RANGED))

    @wp.func
    def between(bounds: array, k: int, rho2: real, x: real, y: real, z: real):
        """Whether a point keeps the limits that begin at ``k``; not, if it is not a number."""
        half_x = real(0.0)
        half_y = real(0.0)
        z_min = z
        z_max = z
        if wp.static(boxed):
            half_x = ld_plain(bounds, k + 2)
            half_y = ld_plain(bounds, k + 3)
        if wp.static(ranged):
            z_min = ld_plain(bounds, k + 4)
            z_max = ld_plain(bounds, k + 5)
        least = ld_plain(bounds, k)
        most = ld_plain(bounds, k + 1)
        return within(rho2, x, y, z, real(0.0), least, most, half_x, half_y, z_min, z_max)

    @wp.func
    def close(
        t: real, eps: real, qx: real, qy: real, qz: real, u: real, v: real, w: real, nx: real, ny: real, nz: real,
        s: real, nu: real, bounds: array, k: int,
    ):  # fmt: skip
        """Whether a point of the ray lies in the band about the border of a row, as seen along its axis and across."""
        px = fma(t, u, qx)
        py = fma(t, v, qy)
        pz = fma(t, w, qz)
        z = fma(t, nu, s)
        x = real(0.0)
        y = real(0.0)
        if wp.static(boxed):
            x = dot(px, py, pz, ld_plain(bounds, k), ld_plain(bounds, k + 1), ld_plain(bounds, k + 2))
            y = dot(px, py, pz, ld_plain(bounds, k + 3), ld_plain(bounds, k + 4), ld_plain(bounds, k + 5))
        rx = fma(-z, nx, px)
        ry = fma(-z, ny, py)
        rz = fma(-z, nz, pz)
        rho2 = dot(rx, ry, rz, rx, ry, rz)
        clear = between(bounds, k + wp.static(CLEAR), rho2, x, y, z)
        near = between(bounds, k + wp.static(BEYOND), rho2, x, y, z)
        return wp.where(t > eps, wp.where(clear, False, near), False)

    def suspect(
        floats: array, ints: INT, numbers: array, bounds: array, row: int, bound: int, first: int, eps: real,
        flags: INT, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        zero = real(0.0)
        one = real(1.0)
        x = ld(floats, wp.static(at.X), n, i)
        y = ld(floats, wp.static(at.Y), n, i)
        z = ld(floats, wp.static(at.Z), n, i)
        u = ld(floats, wp.static(at.L), n, i)
        v = ld(floats, wp.static(at.M), n, i)
        w = ld(floats, wp.static(at.N), n, i)
        last = ldi(ints, wp.static(at.LAST), n, i)
        # of rows that are asked for after the first, what was found stays
        flag = wp.where(first == 1, 0, ldi(flags, 0, n, i))
        for j in range(wp.static(rows)):
            r = (row + j) * wp.static(NUM_NUMBERS)
            k = (bound + j) * wp.static(NUM_BOUNDS)
            qx = x - ld_plain(numbers, r)
            qy = y - ld_plain(numbers, r + 1)
            qz = z - ld_plain(numbers, r + 2)
            nx = ld_plain(numbers, r + 3)
            ny = ld_plain(numbers, r + 4)
            nz = ld_plain(numbers, r + 5)
            g = ld_plain(numbers, r + 8)
            e = ld_plain(numbers, r + 9)
            s = dot(nx, ny, nz, qx, qy, qz)
            nu = dot(nx, ny, nz, u, v, w)
            own = last == row + j
            B = g * nu
            C = fma(g + g, s, e)
            if wp.static(axial):
                d = ld_plain(numbers, r + 7)
                B = fma(d, s, g) * nu
                C = fma(fma(d, s, g + g), s, e)
            if wp.static(curved):
                a = ld_plain(numbers, r + 6)
                B = fma(a, dot(qx, qy, qz, u, v, w), B)
                C = fma(a, dot(qx, qy, qz, qx, qy, qz), C)
            C = wp.where(own, zero, C)
            h = -(B + B)
            if wp.static(curved):
                A = a
                if wp.static(axial):
                    A = fma(d * nu, nu, a)
                disc = fma(B, B, -A * C)
                root = sqrt(wp.max(disc, zero))
                h = -(B + wp.where(B < zero, -root, root))
            # what no ray has, a distance on a plane that it runs along, is infinite and in no band
            near = close(C / h, eps, qx, qy, qz, u, v, w, nx, ny, nz, s, nu, bounds, k)
            if wp.static(curved):
                inverse = one / A
                other = close(h * inverse, eps, qx, qy, qz, u, v, w, nx, ny, nz, s, nu, bounds, k)
                near = wp.where(disc >= zero, wp.where(other, True, near), False)
                # A silhouette: F at its extremum along the ray, -disc / A, over its gradient there. The square of that
                # follows from F: |grad F / 2|^2 = a (F - e) + g^2 + d s ((a + d) s + 2 g).
                t = -B * inverse
                steep2 = g * g - a * e - disc
                if wp.static(axial):
                    height = fma(t, nu, s)
                    steep2 = fma(d * height, fma(a + d, height, g + g), fma(-a * inverse, disc, g * g - a * e))
                reach = ld_plain(bounds, k + wp.static(REACH))
                passes = disc * disc <= (reach * A) * (reach * A) * steep2
                passes = wp.where(wp.where(own, False, reach > zero), wp.where(t > eps, passes, False), False)
                near = wp.where(passes, True, near)
            flag = select_int(near, 1, flag)
        sti(flags, 0, n, i, flag)

    return wp.kernel(
        suspect, name=f"suspect_{build}_{rows}", module=kernel_module(f"kernels.trace.{precision}.edges"),
        enable_backward=False,
    )  # fmt: skip


@functools.cache
def list_suspects_kernel(precision):
    """List all rays that were flagged."""

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}.edges"), enable_backward=False)
    def list_suspects(flags: INT, ints: INT, near: INT, counter: INT, n: wp.int64):
        i = wp.tid()
        if ldi(flags, 0, n, i) > 0 and ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            sti(near, 0, n, count_up(counter, 0, 1), i)

    return list_suspects


def suspect_kernels(precision):
    """All of them."""
    sizes = {build: GROUPS if build in _PAIRED else (1,) for build in SIEVES}
    builds = [suspect_kernel(precision, rows, build) for build in SIEVES for rows in sizes[build]]
    return [*builds, list_suspects_kernel(precision)]


class Suspects:
    """Lists the rays that come close to an edge of any of ``rows``, as ``cells``.

    Half ``widths`` of bands are (rows, kinds), and ``arguments`` are what the kernels take of the scene.
    """

    def __init__(self, tables, rows, widths, capacity, arguments):
        device, real = tables.device, REALS[tables.precision]
        self.cells, flags = (wp.empty(capacity, dtype=wp.int32, device=device) for _ in range(2))
        self._counter = Counters(1, device)
        chosen = list(rows)
        limits = tables.limits.numpy().reshape(-1, edge.NUM_LIMITS)[chosen].astype(np.float64)
        bounds = bounds_of(limits, widths[chosen].astype(np.float64))
        numbers = tables.numbers.numpy().reshape(-1, NUM_NUMBERS)[chosen]
        names = {**arguments, "flags": flags, "near": self.cells, "counter": self._counter.array, "first": 0,
                 "bounds": wp.array(np.append(bounds.ravel(), 0.0), dtype=real, device=device),
                 "n": wp.int64(capacity)}  # fmt: skip
        self._list = Command(list_suspects_kernel(tables.precision), device, names)
        self._rows, bound = [], 0
        for row, size, build in row_groups(chosen, sieves_of(numbers, bounds)):
            each = size if build in _PAIRED else 1
            for k in range(0, size, each):
                own = {**names, "row": row + k, "bound": bound, "first": int(bound == 0)}
                self._rows.append(Command(suspect_kernel(tables.precision, each, build), device, own))
                bound += each

    def find(self, count, where):
        """List those among the first ``count`` rays of a state; ``where`` has its arrays. Returns how many they are."""
        if not self._rows:
            return 0
        state = {name: where[name] for name in ("floats", "ints")}
        for suspect in self._rows:
            suspect.run(count, state)
        self._counter.clear()
        self._list.run(count, {"ints": where["ints"]})
        return int(self._counter.read()[0])
