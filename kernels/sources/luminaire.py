"""A point, rectangle or disk whose intensity over directions is a table, bilinear in theta and phi.

Shape numbers: width, height, radius (negative for a rectangle). The table of a grid of n angles theta and m angles phi:

    n, m, theta (n), phi (m), G (n), E (n m), C (n m)

with angles in radians and phi closed, phi[m - 1] = phi[0] + 2 pi. E is the intensity, C[i, j] the integral of
E[i] over phi from phi[0] to phi[j], and G[i] that of C(theta)[m - 1] sin(theta) over theta from theta[0] to theta[i].

Both angles come from their exact cumulative distributions: theta from that of all azimuths, phi from that of the row at
theta, which is linear between the rows of the table.
"""

import warp as wp

from kernels.precision import DOUBLES, bundle
from kernels.rng import uniform_of
from kernels.sobol import bits_of
from kernels.sources.steps import first_above

NAME = "luminaire"
TABLE = True
_STEPS = 60  # halving alone reaches the last place in these; Newton's steps in two or three
_CLOSE = 1e-9  # the step after one this small, as a share of the cell, is below rounding


def build(precision, sobol=False):
    b = bundle(precision)
    bits1, bits2 = bits_of(0, sobol), bits_of(1, sobol)
    bits3, bits4 = bits_of(2, sobol), bits_of(3, sobol)
    real, sqrt, sin_turn, cos_turn, select = b.real, b.sqrt, b.sin_turn, b.cos_turn, b.select
    uniform, fine, find = uniform_of(precision), uniform_of("float64"), first_above()
    f64 = wp.float64

    @wp.func
    def under(e0: f64, e1: f64, width: f64, area: f64):
        """The x in 0 to ``width`` where a line from ``e0`` to ``e1`` has ``area`` under it, without cancellation."""
        root = e0 + wp.sqrt(wp.max(e0 * e0 + f64(2.0) * area * (e1 - e0) / width, f64(0.0)))
        x = f64(0.0)
        if root > f64(0.0):
            x = wp.min(f64(2.0) * area / root, width)
        return x

    @wp.func
    def angle_within(a: f64, h: f64, p: f64, q: f64, wanted: f64, total: f64):
        """The s in 0 to h where the integral of (p + q t) sin(a + t) over t from 0 to s is ``wanted``; ``total`` at h.

        Newton's steps from the answer for a linear integrand, and halves where these leave the bracket.
        """
        sin_a = wp.sin(a)
        cos_a = wp.cos(a)
        low = f64(0.0)
        high = h
        e0 = p * sin_a
        e1 = (p + q * h) * wp.sin(a + h)
        s = under(e0, e1, h, f64(0.5) * h * (e0 + e1) * wanted / total)
        step = int(0)
        while step < wp.static(_STEPS):
            step += 1
            half_sin = wp.sin(f64(0.5) * s)
            half_cos = wp.cos(f64(0.5) * s)
            # of the middle a + s / 2, and of the end a + s
            middle_sin = sin_a * half_cos + cos_a * half_sin
            middle_cos = cos_a * half_cos - sin_a * half_sin
            end_sin = middle_sin * half_cos + middle_cos * half_sin
            end_cos = middle_cos * half_cos - middle_sin * half_sin
            # by parts
            error = f64(2.0) * half_sin * (p * middle_sin + q * middle_cos) - q * s * end_cos - wanted
            if error > f64(0.0):
                high = s
            else:
                low = s
            slope = (p + q * s) * end_sin
            following = f64(0.5) * (low + high)
            if slope > f64(0.0):
                newton = s - error / slope
                if newton >= low and newton <= high:
                    following = newton
            if wp.abs(following - s) <= f64(wp.static(_CLOSE)) * h:
                step = wp.static(_STEPS)
            s = following
        return s

    @wp.func_grad(angle_within)
    def adj_angle_within(a: f64, h: f64, p: f64, q: f64, wanted: f64, total: f64, a0: f64):
        pass

    @wp.func
    def azimuth(table: DOUBLES, low: int, high: int, m: int, c: f64, u: f64):
        """The cell of phi that a ray takes, and the integral up to it from where the cell begins.

        Its row lies at the share ``c`` of the way between two of the table, whose C begin at ``low`` and ``high``.
        """
        wanted = u * ((f64(1.0) - c) * table[low + m - 1] + c * table[high + m - 1])
        first = int(1)
        last = m - 1
        while first < last:
            middle = (first + last) // 2
            if (f64(1.0) - c) * table[low + middle] + c * table[high + middle] > wanted:
                last = middle
            else:
                first = middle + 1
        return first - 1, wanted - ((f64(1.0) - c) * table[low + first - 1] + c * table[high + first - 1])

    @wp.func_grad(azimuth)
    def adj_azimuth(table: DOUBLES, low: int, high: int, m: int, c: f64, u: f64, a0: int, a1: f64):
        pass

    @wp.func
    def variates(id: wp.uint64, init: wp.uint64, table: DOUBLES, block: int, p0: real, p1: real, p2: real, p3: real):
        u1 = uniform(bits1(id, init))
        u2 = uniform(bits2(id, init))
        n = int(table[block])
        m = int(table[block + 1])
        theta = block + 2
        phi = theta + n
        g = phi + m
        e = g + n
        c = e + n * m
        wanted = fine(bits3(id, init)) * table[g + n - 1]
        i = wp.max(find(table, g, n, wanted), 1) - 1
        h = table[theta + i + 1] - table[theta + i]
        total = table[c + i * m + m - 1]
        slope = (table[c + (i + 1) * m + m - 1] - total) / h
        s = angle_within(table[theta + i], h, total, slope, wanted - table[g + i], table[g + i + 1] - table[g + i])
        share = s / h
        j, rest = azimuth(table, c + i * m, c + (i + 1) * m, m, share, fine(bits4(id, init)))
        at = e + i * m + j
        before = (f64(1.0) - share) * table[at] + share * table[at + m]
        after = (f64(1.0) - share) * table[at + 1] + share * table[at + m + 1]
        width = table[phi + j + 1] - table[phi + j]
        around = table[phi + j] + under(before, after, width, rest)
        down = table[theta + i] + s
        sine = wp.sin(down)
        disk = p2 >= real(0.0)
        r = sqrt(u1)
        half = real(0.5)
        return (
            wp.where(disk, r * cos_turn(u2), u1 - half),
            wp.where(disk, r * sin_turn(u2), u2 - half),
            real(sine * wp.cos(around)),
            real(sine * wp.sin(around)),
            real(wp.cos(down)),
        )

    @wp.func
    def place(v0: real, v1: real, v2: real, v3: real, v4: real, p0: real, p1: real, p2: real, p3: real):
        disk = p2 >= real(0.0)
        return select(disk, p2, p0) * v0, select(disk, p2, p1) * v1, v2, v3, v4

    return variates, place
