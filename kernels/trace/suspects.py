"""Which rays may pass an edge of an analytic row closely at all: a vectorised sieve before the search for events.

It keeps every ray that `kernels.trace.events` would enter for one of the rows, and some more: all bands of a row count
as wide as its widest, and which of its edges is close does not matter here.
"""

import functools

import warp as wp

from kernels.modules import kernel_module
from kernels.precision import INT, REALS, bundle, ldi, select_int, sti
from kernels.shapes.quadric import NUM_NUMBERS, quadric
from kernels.trace import layout as at
from kernels.trace import rims as edge
from kernels.trace.books import count_up
from kernels.trace.command import Command
from kernels.trace.wavefront import Counters

# room for the rounding of what is compared, a share of it
_SLACK = 1e-2


@functools.cache
def suspect_kernels(precision):
    """``(suspect, list_suspects)``: flag the rays that come close to one row, then list all that were flagged."""
    b = bundle(precision)
    real, array, ld, ld_plain, sqrt = b.real, b.array, b.ld, b.ld_plain, b.sqrt
    dot = quadric(precision).dot
    module = kernel_module(f"kernels.trace.{precision}.edges")

    @wp.func
    def close(
        t: real, eps: real, qx: real, qy: real, qz: real, u: real, v: real, w: real, nx: real, ny: real, nz: real,
        limits: array, widths: array, k: int, m: int, band: real,
    ):  # fmt: skip
        """Whether a point of the ray lies in the band about the border of a row, as seen along its axis and across."""
        zero = real(0.0)
        px = qx + t * u
        py = qy + t * v
        pz = qz + t * w
        z = dot(nx, ny, nz, px, py, pz)
        x = wp.abs(dot(px, py, pz, ld_plain(limits, k), ld_plain(limits, k + 1), ld_plain(limits, k + 2)))
        y = wp.abs(dot(px, py, pz, ld_plain(limits, k + 3), ld_plain(limits, k + 4), ld_plain(limits, k + 5)))
        rx = px - z * nx
        ry = py - z * ny
        rz = pz - z * nz
        rho2 = dot(rx, ry, rz, rx, ry, rz)
        # within the limits that there are but for the band, and not within them by the band; both are false for what
        # is not a number
        least = wp.max(ld_plain(limits, k + wp.static(edge.RHO_MIN)) - band, zero)
        most = ld_plain(limits, k + wp.static(edge.RHO_MIN)) + band
        ends = ld_plain(widths, m + wp.static(edge.INNER)) > zero
        inside = wp.where(ends, rho2 >= least * least, True)
        at_edge = wp.where(ends, rho2 < most * most, False)
        least = wp.max(ld_plain(limits, k + wp.static(edge.RHO_MAX)) - band, zero)
        most = ld_plain(limits, k + wp.static(edge.RHO_MAX)) + band
        ends = ld_plain(widths, m + wp.static(edge.OUTER)) > zero
        inside = wp.where(wp.where(ends, rho2 < most * most, True), inside, False)
        at_edge = wp.where(wp.where(ends, rho2 >= least * least, False), True, at_edge)
        gap = ld_plain(limits, k + wp.static(edge.HALF_X)) - x
        ends = ld_plain(widths, m + wp.static(edge.X_LOW)) > zero
        inside = wp.where(wp.where(ends, gap > -band, True), inside, False)
        at_edge = wp.where(wp.where(ends, gap < band, False), True, at_edge)
        gap = ld_plain(limits, k + wp.static(edge.HALF_Y)) - y
        ends = ld_plain(widths, m + wp.static(edge.Y_LOW)) > zero
        inside = wp.where(wp.where(ends, gap > -band, True), inside, False)
        at_edge = wp.where(wp.where(ends, gap < band, False), True, at_edge)
        gap = z - ld_plain(limits, k + wp.static(edge.Z_MIN))
        ends = ld_plain(widths, m + wp.static(edge.Z_LOW)) > zero
        inside = wp.where(wp.where(ends, gap > -band, True), inside, False)
        at_edge = wp.where(wp.where(ends, gap < band, False), True, at_edge)
        gap = ld_plain(limits, k + wp.static(edge.Z_MAX)) - z
        ends = ld_plain(widths, m + wp.static(edge.Z_HIGH)) > zero
        inside = wp.where(wp.where(ends, gap > -band, True), inside, False)
        at_edge = wp.where(wp.where(ends, gap < band, False), True, at_edge)
        return wp.where(wp.where(t > eps, at_edge, False), inside, False)

    @wp.kernel(module=module, enable_backward=False)
    def suspect(
        floats: array, ints: INT, numbers: array, limits: array, widths: array, row: int, first: int,
        band: real, eps: real, flags: INT, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        zero = real(0.0)
        r = row * wp.static(NUM_NUMBERS)
        k = row * wp.static(edge.NUM_LIMITS)
        m = row * wp.static(edge.NUM_WIDTHS)
        u = ld(floats, wp.static(at.L), n, i)
        v = ld(floats, wp.static(at.M), n, i)
        w = ld(floats, wp.static(at.N), n, i)
        qx = ld(floats, wp.static(at.X), n, i) - ld_plain(numbers, r)
        qy = ld(floats, wp.static(at.Y), n, i) - ld_plain(numbers, r + 1)
        qz = ld(floats, wp.static(at.Z), n, i) - ld_plain(numbers, r + 2)
        nx = ld_plain(numbers, r + 3)
        ny = ld_plain(numbers, r + 4)
        nz = ld_plain(numbers, r + 5)
        a = ld_plain(numbers, r + 6)
        d = ld_plain(numbers, r + 7)
        g = ld_plain(numbers, r + 8)
        s = dot(nx, ny, nz, qx, qy, qz)
        nu = dot(nx, ny, nz, u, v, w)
        qq = dot(qx, qy, qz, qx, qy, qz)
        qu = dot(qx, qy, qz, u, v, w)
        A = a + d * nu * nu
        B = a * qu + (d * s + g) * nu
        C = a * qq + d * s * s + real(2.0) * g * s + ld_plain(numbers, r + 9)
        own = ldi(ints, wp.static(at.LAST), n, i) == row
        C = wp.where(own, zero, C)
        disc = B * B - A * C
        root = sqrt(wp.max(disc, zero))
        h = -(B + wp.where(B < zero, -root, root))
        one = real(1.0)
        bends = A != zero
        inverse = one / wp.where(bends, A, one)
        near1 = close(h * inverse, eps, qx, qy, qz, u, v, w, nx, ny, nz, limits, widths, k, m, band)
        near2 = close(C / wp.where(h == zero, one, h), eps, qx, qy, qz, u, v, w, nx, ny, nz, limits, widths, k, m, band)
        near1 = wp.where(bends, near1, False)
        near = wp.where(disc >= zero, wp.where(near1, True, near2), False)
        # a silhouette: F at its extremum along the ray, over its gradient there
        t = -B * inverse
        z = s + t * nu
        steep = d * z + g
        fx = a * (qx + t * u) + steep * nx
        fy = a * (qy + t * v) + steep * ny
        fz = a * (qz + t * w) + steep * nz
        reach = real(2.0) * band * A
        passes = disc * disc <= reach * reach * dot(fx, fy, fz, fx, fy, fz)
        passes = wp.where(ld_plain(widths, m + wp.static(edge.SILHOUETTE)) > zero, passes, False)
        passes = wp.where(wp.where(own, False, bends), wp.where(t > eps, passes, False), False)
        near = wp.where(passes, True, near)
        flag = select_int(near, 1, 0)
        # of rows that are asked for after the first, what was found stays
        sti(flags, 0, n, i, wp.max(flag, select_int(first == 1, 0, ldi(flags, 0, n, i))))

    @wp.kernel(module=module, enable_backward=False)
    def list_suspects(flags: INT, ints: INT, near: INT, counter: INT, n: wp.int64):
        i = wp.tid()
        if ldi(flags, 0, n, i) > 0 and ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            sti(near, 0, n, count_up(counter, 0, 1), i)

    return suspect, list_suspects


class Suspects:
    """Lists the rays that come close to an edge of any of ``rows``, as ``cells``.

    Half ``widths`` of bands are (rows, kinds), and ``arguments`` are what the kernels take of the scene.
    """

    def __init__(self, tables, rows, widths, capacity, arguments):
        device, real = tables.device, REALS[tables.precision]
        self.cells, flags = (wp.empty(capacity, dtype=wp.int32, device=device) for _ in range(2))
        self._counter = Counters(1, device)
        names = {**arguments, "flags": flags, "near": self.cells, "counter": self._counter.array, "first": 0,
                 "band": real(0.0), "n": wp.int64(capacity)}  # fmt: skip
        suspect, listed = suspect_kernels(tables.precision)
        self._suspect, self._list = (Command(kernel, device, names) for kernel in (suspect, listed))
        self._rows = [
            {"row": row, "first": int(k == 0), "band": real(widths[row, : edge.SIDE_A].max() * (1.0 + _SLACK))}
            for k, row in enumerate(rows)
        ]

    def find(self, count, where):
        """List those among the first ``count`` rays of a state; ``where`` has its arrays. Returns how many they are."""
        if not self._rows:
            return 0
        for row in self._rows:
            self._suspect.run(count, {**{k: v for k, v in where.items() if self._suspect.takes(k)}, **row})
        self._counter.clear()
        self._list.run(count, {"ints": where["ints"]})
        return int(self._counter.read()[0])
