"""Where surfaces end, as signed distances: rims, sides, ends, silhouettes and the edges of triangles.

A ray's fate changes where a *gap* g goes through zero. g is a length across the edge, positive where the ray meets the
surface. With p the point where the ray meets the surface as if it went on for ever, it is

    rims, sides, ends    the distance of p from that limit, within the surface
    triangles            the distance of p from the edge, in the plane of the triangle
    sags                 the distance of p from the rim, across the axis
    silhouettes          -sign(A) F(p) / |grad F(p)| at the point of the ray where F has its extremum,
    crossings            how much later along the ray it would meet the other surface,

A being half the second derivative of F along the ray: a first-order distance from a curved surface that the ray misses.
Point and distance are found elsewhere and handed in as a plain number t; one Newton step, or for a silhouette the
extremum, makes the derivative right.
"""

import functools
from types import SimpleNamespace

import warp as wp

from kernels.precision import LONG, bundle, ld_table
from kernels.shapes.quadric import NUM_NUMBERS
from kernels.trace import layout as at
from kernels.trace.sags import NUM_FRAME, frame_of, surface_of

# columns of a row's limits: local x and y axes, range of the distance from the axis, half widths, range of height
AXIS_X, AXIS_Y, RHO_MIN, RHO_MAX, HALF_X, HALF_Y, Z_MIN, Z_MAX = 0, 3, 6, 7, 8, 9, 10, 11
NUM_LIMITS = 12

# kinds of edges; a row has one each of the first nine, a triangle the next three, and a pair of rows the last
INNER, OUTER, X_LOW, X_HIGH, Y_LOW, Y_HIGH, Z_LOW, Z_HIGH, SILHOUETTE = range(9)
SIDE_A, SIDE_B, SIDE_C, CROSSING = 9, 10, 11, 12
# the second derivative of a sag along a ray is a difference over this share of its radius
_STEP = 1e-3
# widths kept for a row: nine kinds, one for the sides of a triangle, one for crossings
AT_CROSSING = 10
NUM_WIDTHS = 11


@functools.cache
def rims(precision, sags=False):
    """The Warp functions for one precision; with ``sags`` rows may be given by a sag."""
    b = bundle(precision)
    real, array, detach, ld_plain = b.real, b.array, b.detach, b.ld_plain
    vec3, to_local, to_world, frame_origin = frame_of(precision)
    surface = surface_of(precision)

    @wp.func
    def width_of(widths: array, row: int, kind: int):
        """The half width of the band at an edge of a row."""
        column = wp.min(kind, wp.static(SIDE_A))
        if kind == wp.static(CROSSING):
            column = wp.static(AT_CROSSING)
        return widths[row * wp.static(NUM_WIDTHS) + column]

    @wp.func
    def at_limit(q: vec3, z: real, axis: vec3, limits: array, row: int, kind: int):
        """(gap, its gradient by q) of a limit; ``z`` is the height of q along the axis."""
        k = row * wp.static(NUM_LIMITS)
        one = real(1.0)
        g = real(0.0)
        slope = axis
        if kind == wp.static(INNER) or kind == wp.static(OUTER):
            off = q - z * axis
            rho = wp.length(off)
            slope = off / wp.max(rho, real(1.0e-30))
            if kind == wp.static(OUTER):
                g = limits[k + wp.static(RHO_MAX)] - rho
                slope = -slope
            else:
                g = rho - limits[k + wp.static(RHO_MIN)]
        elif kind == wp.static(Z_LOW):
            g = z - limits[k + wp.static(Z_MIN)]
        elif kind == wp.static(Z_HIGH):
            g = limits[k + wp.static(Z_MAX)] - z
            slope = -axis
        else:
            sign = one
            if kind == wp.static(X_HIGH) or kind == wp.static(Y_HIGH):
                sign = -one
            side = vec3(limits[k], limits[k + 1], limits[k + 2])
            half = limits[k + wp.static(HALF_X)]
            if kind >= wp.static(Y_LOW):
                side = vec3(limits[k + 3], limits[k + 4], limits[k + 5])
                half = limits[k + wp.static(HALF_Y)]
            g = half + sign * wp.dot(side, q)
            slope = sign * side
        return g, slope

    @wp.func
    def corner(triangles: array, triangle: int, k: int):
        m = triangle * 9 + k * 3
        return vec3(triangles[m], triangles[m + 1], triangles[m + 2])

    @wp.func
    def at_side(p: vec3, normal: vec3, triangles: array, triangle: int, side: int):
        """(gap, its gradient by p) of a triangle's side 0, 1 or 2, which runs from that corner to the next."""
        a = corner(triangles, triangle, 0)
        c = corner(triangles, triangle, 1)
        if side == 1:
            a = corner(triangles, triangle, 1)
            c = corner(triangles, triangle, 2)
        if side == 2:
            a = corner(triangles, triangle, 2)
            c = corner(triangles, triangle, 0)
        inwards = wp.normalize(wp.cross(normal, c - a))
        return wp.dot(inwards, p - a), inwards

    @wp.func
    def nearest_edge(p: vec3, row: int, numbers: array, limits: array, triangles: array, triangle: int, widths: array):
        """(distance of a point of a row from the nearest edge of it, positive inside; the kind of that edge)."""
        m = row * wp.static(NUM_NUMBERS)
        axis = vec3(ld_plain(numbers, m + 3), ld_plain(numbers, m + 4), ld_plain(numbers, m + 5))
        q = p - vec3(ld_plain(numbers, m), ld_plain(numbers, m + 1), ld_plain(numbers, m + 2))
        least = real(1.0e30)
        nearest = int(-1)
        if triangle >= 0:
            for side in range(3):
                g, _slope = at_side(p, axis, triangles, triangle, side)
                if g < least:
                    least = g
                    nearest = wp.static(SIDE_A) + side
        else:
            for kind in range(wp.static(SILHOUETTE)):
                if widths[row * wp.static(NUM_WIDTHS) + kind] > real(0.0):
                    g, _slope = at_limit(q, wp.dot(axis, q), axis, limits, row, kind)
                    if g < least:
                        least = g
                        nearest = kind
        return least, nearest

    @wp.func
    def form(p: vec3, row: int, rows: LONG, numbers: array, sag_numbers: array):
        """(F, its gradient) of a row at a point: the implicit function that is 0 on the surface."""
        r = row * wp.static(NUM_NUMBERS)
        two = real(2.0)
        axis = vec3(numbers[r + 3], numbers[r + 4], numbers[r + 5])
        q = p - vec3(numbers[r], numbers[r + 1], numbers[r + 2])
        z = wp.dot(axis, q)
        a = numbers[r + 6]
        d = numbers[r + 7]
        g = numbers[r + 8]
        value = a * wp.dot(q, q) + d * z * z + two * g * z + numbers[r + 9]
        normal = two * (a * q + (d * z + g) * axis)
        if wp.static(sags):
            code = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.SAG))
            if code >= 0:
                block = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.SAG_BLOCK))
                v = to_local(p - frame_origin(sag_numbers, block), sag_numbers, block)
                s = surface(code, v[0], v[1], sag_numbers, block + wp.static(NUM_FRAME))
                value = v[2] - s[0]
                normal = to_world(vec3(-s[1], -s[2], real(1.0)), sag_numbers, block)
        return value, normal

    @wp.func
    def on_disk(p: vec3, row: int, numbers: array, limits: array, slack: real):
        """Whether a point is within the outer radius of a row but for ``slack``; a sag says nothing far beyond it."""
        r = row * wp.static(NUM_NUMBERS)
        axis = vec3(numbers[r + 3], numbers[r + 4], numbers[r + 5])
        q = p - vec3(numbers[r], numbers[r + 1], numbers[r + 2])
        return wp.length(q - wp.dot(axis, q) * axis) < limits[row * wp.static(NUM_LIMITS) + wp.static(RHO_MAX)] + slack

    @wp.func
    def settle(p: vec3, u: vec3, row: int, rows: LONG, numbers: array, sag_numbers: array):
        """How far along a ray the surface lies that it starts close to; 0 where that cannot be told."""
        t = real(0.0)
        for _ in range(4):
            value, normal = form(p + t * u, row, rows, numbers, sag_numbers)
            toward = wp.dot(normal, u)
            if wp.abs(toward) > real(1.0e-3) * wp.length(normal):
                t = t - value / toward
        return t

    @wp.func
    def gap(
        o: vec3, u: vec3, t: real, kind: int, row: int, other: int, triangle: int, rows: LONG, numbers: array,
        limits: array, triangles: array, sag_numbers: array,
    ):  # fmt: skip
        """(gap, its gradient by o, a closer distance, whether they may be used) of a ray at about the distance ``t``.

        ``other`` is the row that a surface crosses, where that is the kind of the edge. The gap is differentiable in
        the ray and in the surface's numbers, limits, corners and sag, not in t.
        """
        r = row * wp.static(NUM_NUMBERS)
        one = real(1.0)
        axis = vec3(numbers[r + 3], numbers[r + 4], numbers[r + 5])
        p = o + t * u
        value, normal = form(p, row, rows, numbers, sag_numbers)
        toward = detach(wp.dot(normal, u))
        steep = detach(wp.length(normal))
        fine = steep > real(0.0)
        g = real(0.0)
        slope = axis
        closer = t
        if kind == wp.static(SILHOUETTE):
            along = detach(wp.dot(axis, u))
            bend = detach(numbers[r + 6]) + detach(numbers[r + 7]) * along * along
            if wp.static(sags):
                code = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.SAG))
                if code >= 0:
                    span = real(wp.static(_STEP)) * limits[row * wp.static(NUM_LIMITS) + wp.static(RHO_MAX)]
                    _f, after = form(p + span * u, row, rows, numbers, sag_numbers)
                    _f, before = form(p - span * u, row, rows, numbers, sag_numbers)
                    bend = detach(real(0.25) * wp.dot(after - before, u) / span)
            unit = one / wp.max(steep, real(1.0e-30))
            if bend > real(0.0):
                unit = -unit
            g = unit * value
            slope = unit * normal
            if bend == real(0.0):
                fine = False
            else:
                closer = t - real(0.5) * toward / bend
        else:
            if wp.abs(toward) < real(1.0e-4) * steep:
                fine = False
                toward = one
            step = -value / toward
            closer = t + detach(step)
            p = p + step * u
            if kind == wp.static(CROSSING):
                # to the other surface by plain numbers, then one step that has the derivatives
                late, away = form(p, other, rows, numbers, sag_numbers)
                first = wp.dot(away, u)
                wait = real(0.0)
                if first != real(0.0):
                    wait = detach(-late / first)
                late, away = form(p + wait * u, other, rows, numbers, sag_numbers)
                again = wp.dot(away, u)
                more = real(0.0)
                if again != real(0.0):
                    more = detach(-late / again)
                wait = wait + more
                late, away = form(p + wait * u, other, rows, numbers, sag_numbers)
                leaves = detach(wp.dot(away, u))
                if wp.abs(leaves) < real(1.0e-4) * detach(wp.length(away)):
                    fine = False
                    leaves = one
                g = wait - late / leaves
                slope = -away / leaves
            elif kind >= wp.static(SIDE_A):
                g, slope = at_side(p, axis, triangles, triangle, kind - wp.static(SIDE_A))
            else:
                q = p - vec3(numbers[r], numbers[r + 1], numbers[r + 2])
                g, slope = at_limit(q, wp.dot(axis, q), axis, limits, row, kind)
            slope = slope - normal * (wp.dot(slope, u) / toward)
        return g, slope, closer, fine

    return SimpleNamespace(
        vec3=vec3, width_of=width_of, at_limit=at_limit, at_side=at_side, nearest_edge=nearest_edge, form=form,
        on_disk=on_disk, settle=settle, gap=gap,
    )  # fmt: skip
