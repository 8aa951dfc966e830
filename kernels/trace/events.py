"""Which rays pass an edge closely: the events of visibility gradients.

Each kernel goes through the rays of a bounce for one analytic row, one row given by a sag, or all triangles, and enters
an *event* for every ray and edge whose gap is within the band. What an event holds is described here.
"""

import functools

import warp as wp

from kernels.modules import kernel_module
from kernels.precision import INT, bundle, ldi, sti
from kernels.shapes.quadric import NEAREST_ONLY, NUM_DOMAIN, NUM_NUMBERS, SHEET0, SHEET1
from kernels.trace import layout as at
from kernels.trace import rims as edge
from kernels.trace.books import count_up
from kernels.trace.rims import rims
from kernels.trace.sags import NUM_FRAME, SAMPLES, frame_of, surface_of, ways_of
from kernels.trace.search import FAR

# columns of an event: the ray's cell, the row, the kind of edge, and the row that it crosses or -1
CELL, ROW, KIND, OTHER = range(4)
NUM_EVENT_INTS = 4
# float columns: distance along the ray, weight, what the two fates differ by, and the point of the edge
DISTANCE, WEIGHT, DIFFERENCE, POINT = 0, 1, 2, 3
NUM_EVENT_FLOATS = 6
# A pair starts this share of the band's half width from the edge, and is expected to meet within so many such hairs. In
# float32 a ray's distance from a curved surface far away is rounded by more than a finer hair.
HAIR = {"float64": 1e-3, "float32": 1e-2}
NEAR = {"float64": 64.0, "float32": 16.0}
# How far behind what a ray meets its edges are looked for, in half widths. Beside an edge the ray may meet another
# surface at a small angle, long before it would pass the edge: a corner seen along one of its faces.
BEHIND = 64.0
# A ray that is stopped this near an edge of what stops it, in half widths of the band of an edge further behind, may
# have a neighbour on that edge which passes.
BESIDE = 4.0


@functools.cache
def rays_of(precision):
    """``(place, heading)``: Warp functions that read where a ray is and where it goes."""
    b = bundle(precision)
    array, ld = b.array, b.ld
    vec3 = rims(precision).vec3

    @wp.func
    def place(floats: array, n: wp.int64, i: int):
        return vec3(
            ld(floats, wp.static(at.X), n, i), ld(floats, wp.static(at.Y), n, i), ld(floats, wp.static(at.Z), n, i)
        )

    @wp.func
    def heading(floats: array, n: wp.int64, i: int):
        return vec3(
            ld(floats, wp.static(at.L), n, i), ld(floats, wp.static(at.M), n, i), ld(floats, wp.static(at.N), n, i)
        )

    return place, heading


def edge_module(precision, sags=False):
    """The Warp module of these kernels; those that know sags have one of their own."""
    return kernel_module(f"kernels.trace.{precision}.edges" + ("_sag" if sags else ""))


@functools.cache
def event_of(precision):
    """A Warp function that enters an event for the ray in cell ``i``."""
    b = bundle(precision)
    real, array, st = b.real, b.array, b.st

    @wp.func
    def enter(
        t: real, i: int, row: int, kind: int, events: INT, event_floats: array, counter: INT, room: wp.int64,
    ):  # fmt: skip
        e = count_up(counter, 0, 1)
        if wp.int64(e) < room:
            sti(events, wp.static(CELL), room, e, i)
            sti(events, wp.static(ROW), room, e, row)
            sti(events, wp.static(KIND), room, e, kind)
            sti(events, wp.static(OTHER), room, e, -1)
            st(event_floats, wp.static(DISTANCE), room, e, t)
            st(event_floats, wp.static(DIFFERENCE), room, e, real(0.0))
        return e

    return enter


@functools.cache
def find_kernel(precision):
    """Events of one analytic row: rays that pass its rim, a side, an end or its silhouette within the band.

    Only the rays in the cells that ``suspects`` lists are looked at (`kernels.trace.suspects`).
    """
    b = bundle(precision)
    real, array, ld, ld_plain = b.real, b.array, b.ld, b.ld_plain
    r = rims(precision)
    vec3, at_limit, nearest_edge = r.vec3, r.at_limit, r.nearest_edge
    place, heading = rays_of(precision)
    enter = event_of(precision)

    @wp.func
    def beside(
        o: vec3, u: vec3, t: real, row: int, width: real, numbers: array, limits: array, triangles: array,
        triangle_of_row: INT, widths: array,
    ):  # fmt: skip
        """Whether a ray that meets a row does so near an edge of it or its silhouette, for a band of this width."""
        near = bool(False)
        if row >= 0:
            reach = real(wp.static(BESIDE)) * width
            p = o + t * u
            rest, its = nearest_edge(p, row, numbers, limits, triangles, triangle_of_row[row], widths)
            if its >= 0 and rest < reach:
                near = True
            if widths[row * wp.static(edge.NUM_WIDTHS) + wp.static(edge.SILHOUETTE)] > real(0.0):
                m = row * wp.static(NUM_NUMBERS)
                axis = vec3(ld_plain(numbers, m + 3), ld_plain(numbers, m + 4), ld_plain(numbers, m + 5))
                q = p - vec3(ld_plain(numbers, m), ld_plain(numbers, m + 1), ld_plain(numbers, m + 2))
                a = ld_plain(numbers, m + 6)
                d = ld_plain(numbers, m + 7)
                nu = wp.dot(axis, u)
                A = wp.abs(a + d * nu * nu)
                slope = a * q + (d * wp.dot(axis, q) + ld_plain(numbers, m + 8)) * axis
                toward = wp.dot(slope, u)
                # F at its extremum along the ray over its gradient; what is given by a sag does not tell
                if toward * toward <= real(2.0) * reach * A * wp.length(slope) or A == real(0.0):
                    near = True
        return near

    @wp.func
    def within(q: vec3, z: real, axis: vec3, limits: array, widths: array, row: int, slack: real):
        """Whether a point keeps every limit of a row but for ``slack``."""
        ok = bool(True)
        for kind in range(wp.static(edge.SILHOUETTE)):
            if widths[row * wp.static(edge.NUM_WIDTHS) + kind] > real(0.0):
                g, _slope = at_limit(q, z, axis, limits, row, kind)
                if g < -slack:
                    ok = False
        return ok

    @wp.kernel(module=edge_module(precision), enable_backward=False)
    def find(
        floats: array, ints: INT, distance: array, row_hit: INT, numbers: array, domain: array, limits: array,
        triangles: array, triangle_of_row: INT, widths: array, row: int, suspects: INT, start: int, eps: real,
        events: INT, event_floats: array, counter: INT, n: wp.int64, room: wp.int64,
    ):  # fmt: skip
        i = ldi(suspects, 0, n, start + wp.tid())
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            zero = real(0.0)
            two = real(2.0)
            m = row * wp.static(NUM_NUMBERS)
            k = row * wp.static(edge.NUM_WIDTHS)
            u = heading(floats, n, i)
            axis = vec3(ld_plain(numbers, m + 3), ld_plain(numbers, m + 4), ld_plain(numbers, m + 5))
            o = place(floats, n, i)
            q = o - vec3(ld_plain(numbers, m), ld_plain(numbers, m + 1), ld_plain(numbers, m + 2))
            a = ld_plain(numbers, m + 6)
            d = ld_plain(numbers, m + 7)
            g = ld_plain(numbers, m + 8)
            s = wp.dot(axis, q)
            nu = wp.dot(axis, u)
            A = a + d * nu * nu
            B = a * wp.dot(q, u) + (d * s + g) * nu
            C = a * wp.dot(q, q) + d * s * s + two * g * s + ld_plain(numbers, m + 9)
            own = ldi(ints, wp.static(at.LAST), n, i) == row
            if own:
                C = zero
            far = ld(distance, wp.static(at.NEAREST), n, i)
            met = ldi(row_hit, 0, n, i)
            disc = B * B - A * C
            w = widths[k + wp.static(edge.SILHOUETTE)]
            if w > zero and A != zero and not own:
                t = -B / A
                # what meets the surface itself does so half a chord before
                chord = wp.sqrt(wp.max(disc, zero)) / wp.abs(A)
                if t > eps:
                    p = q + t * u
                    z = wp.dot(axis, p)
                    steep = two * wp.length(a * p + (d * z + g) * axis)
                    miss = disc / wp.abs(A) / wp.max(steep, real(1.0e-30))
                    fine = wp.abs(miss) < w and within(p, z, axis, limits, widths, row, w)
                    if fine and t >= far + chord + real(wp.static(BEHIND)) * w:
                        fine = beside(o, u, far, met, w, numbers, limits, triangles, triangle_of_row, widths)
                    if fine:
                        _e = enter(t, i, row, wp.static(edge.SILHOUETTE), events, event_floats, counter, room)
            if disc >= zero:
                root = wp.sqrt(disc)
                h = -(B + wp.where(B < zero, -root, root))
                t1 = h / A
                t2 = C / h
                nearest_only = ld_plain(domain, row * wp.static(NUM_DOMAIN) + wp.static(NEAREST_ONLY)) > zero
                for side in range(2):
                    t = t1
                    other = t2
                    ok = A != zero
                    if side == 1:
                        t = t2
                        other = t1
                        ok = wp.abs(h) > real(2.0e-12)
                    if nearest_only and other > eps and other < t:
                        ok = False
                    if ok and t > eps:
                        p = q + t * u
                        z = wp.dot(axis, p)
                        rise = ld_plain(domain, row * wp.static(NUM_DOMAIN) + wp.static(SHEET1))
                        sheet = ld_plain(domain, row * wp.static(NUM_DOMAIN) + wp.static(SHEET0)) + rise * z
                        for kind in range(wp.static(edge.SILHOUETTE)):
                            w = widths[k + kind]
                            # a surface may end where its sheet does
                            if w > zero and sheet >= -w * wp.abs(rise):
                                near, _slope = at_limit(p, z, axis, limits, row, kind)
                                fine = wp.abs(near) < w and within(p, z, axis, limits, widths, row, w)
                                if fine and t >= far + real(wp.static(BEHIND)) * w:
                                    fine = beside(
                                        o, u, far, met, w, numbers, limits, triangles, triangle_of_row, widths
                                    )
                                if fine:
                                    _e = enter(t, i, row, kind, events, event_floats, counter, room)

    return find


@functools.cache
def find_triangles_kernel(precision):
    """Events at the sides of triangles; their boxes in ``tree`` are grown by the width of the band."""
    b = bundle(precision)
    real, array, ld, ld_plain = b.real, b.array, b.ld, b.ld_plain
    r = rims(precision)
    vec3, at_side = r.vec3, r.at_side
    place, heading = rays_of(precision)
    enter = event_of(precision)

    @wp.kernel(module=edge_module(precision), enable_backward=False)
    def find_triangles(
        floats: array, ints: INT, distance: array, numbers: array, triangles: array, band_rows: INT,
        triangle_of_row: INT, band_tree: wp.uint64, reach: real, widths: array, start: int, eps: real, events: INT,
        event_floats: array, counter: INT, n: wp.int64, room: wp.int64,
    ):  # fmt: skip
        i = start + wp.tid()
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            o = place(floats, n, i)
            u = heading(floats, n, i)
            far = ld(distance, wp.static(at.NEAREST), n, i)
            last = ldi(ints, wp.static(at.LAST), n, i)
            o32 = wp.vec3(wp.float32(o[0]), wp.float32(o[1]), wp.float32(o[2]))
            u32 = wp.vec3(wp.float32(u[0]), wp.float32(u[1]), wp.float32(u[2]))
            query = wp.bvh_query_ray(band_tree, o32, u32)
            leaf = int(0)
            while wp.bvh_query_next(query, leaf, wp.float32(far + reach) * 1.00001):
                row = band_rows[leaf]
                m = row * wp.static(NUM_NUMBERS)
                width = widths[row * wp.static(edge.NUM_WIDTHS) + wp.static(edge.SIDE_A)]
                normal = vec3(ld_plain(numbers, m + 3), ld_plain(numbers, m + 4), ld_plain(numbers, m + 5))
                toward = wp.dot(normal, u)
                if row != last and wp.abs(toward) > real(1.0e-4):
                    mean = vec3(ld_plain(numbers, m), ld_plain(numbers, m + 1), ld_plain(numbers, m + 2))
                    t = wp.dot(normal, mean - o) / toward
                    if t > eps and t < far + real(wp.static(BEHIND)) * width:
                        p = o + t * u
                        k = triangle_of_row[row]
                        a, _a = at_side(p, normal, triangles, k, 0)
                        c, _c = at_side(p, normal, triangles, k, 1)
                        d, _d = at_side(p, normal, triangles, k, 2)
                        if wp.min(a, wp.min(c, d)) > -width:
                            if a < width:
                                _e = enter(t, i, row, wp.static(edge.SIDE_A), events, event_floats, counter, room)
                            if c < width:
                                _e = enter(t, i, row, wp.static(edge.SIDE_B), events, event_floats, counter, room)
                            if d < width:
                                _e = enter(t, i, row, wp.static(edge.SIDE_C), events, event_floats, counter, room)

    return find_triangles


@functools.cache
def find_crossings_kernel(precision):
    """Events of rays that meet an analytic row where another one crosses it."""
    b = bundle(precision)
    real, array, ld, ld_plain = b.real, b.array, b.ld, b.ld_plain
    r = rims(precision)
    vec3, at_limit = r.vec3, r.at_limit
    place, heading = rays_of(precision)
    enter = event_of(precision)

    @wp.func
    def normal(p: vec3, row: int, numbers: array):
        """grad F / 2 of an analytic row."""
        m = row * wp.static(NUM_NUMBERS)
        axis = vec3(ld_plain(numbers, m + 3), ld_plain(numbers, m + 4), ld_plain(numbers, m + 5))
        q = p - vec3(ld_plain(numbers, m), ld_plain(numbers, m + 1), ld_plain(numbers, m + 2))
        rise = ld_plain(numbers, m + 7) * wp.dot(axis, q) + ld_plain(numbers, m + 8)
        return ld_plain(numbers, m + 6) * q + rise * axis

    @wp.kernel(module=edge_module(precision), enable_backward=False)
    def find_crossings(
        floats: array, ints: INT, distance: array, row_hit: INT, numbers: array, limits: array, triangle_of_row: INT,
        widths: array, row: int, start: int, eps: real, events: INT, event_floats: array, counter: INT,
        n: wp.int64, room: wp.int64,
    ):  # fmt: skip
        i = start + wp.tid()
        met = ldi(row_hit, 0, n, i)
        last = ldi(ints, wp.static(at.LAST), n, i)
        # a ray that starts on one of the two has left it behind
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE) and met >= 0 and met != row and last != row:
            k = row * wp.static(edge.NUM_WIDTHS)
            met_width = widths[met * wp.static(edge.NUM_WIDTHS) + wp.static(edge.AT_CROSSING)]
            width = wp.min(met_width, widths[k + wp.static(edge.AT_CROSSING)])
            if width > real(0.0) and last != met and triangle_of_row[met] < 0:
                m = row * wp.static(NUM_NUMBERS)
                t = ld(distance, wp.static(at.NEAREST), n, i)
                u = heading(floats, n, i)
                axis = vec3(ld_plain(numbers, m + 3), ld_plain(numbers, m + 4), ld_plain(numbers, m + 5))
                p = place(floats, n, i) + t * u
                q = p - vec3(ld_plain(numbers, m), ld_plain(numbers, m + 1), ld_plain(numbers, m + 2))
                a = ld_plain(numbers, m + 6)
                d = ld_plain(numbers, m + 7)
                g = ld_plain(numbers, m + 8)
                z = wp.dot(axis, q)
                late = a * wp.dot(q, q) + d * z * z + real(2.0) * g * z + ld_plain(numbers, m + 9)
                away = real(2.0) * (a * q + (d * z + g) * axis)
                leaves = wp.dot(away, u)
                # the slope of the gap across the ray, which is 0 for surfaces that run side by side
                own = normal(p, met, numbers)
                toward = wp.dot(own, u)
                across = own * leaves - away * toward
                if wp.abs(late * toward) < width * wp.length(across) and leaves != real(0.0):
                    # along the ray to the other surface, which may end before
                    q = q - u * (late / leaves)
                    inside = bool(True)
                    for kind in range(wp.static(edge.SILHOUETTE)):
                        if widths[k + kind] > real(0.0):
                            rest, _slope = at_limit(q, wp.dot(axis, q), axis, limits, row, kind)
                            if rest < -width:
                                inside = False
                    if inside:
                        e = enter(t, i, met, wp.static(edge.CROSSING), events, event_floats, counter, room)
                        if wp.int64(e) < room:
                            sti(events, wp.static(OTHER), room, e, row)

    return find_crossings


@functools.cache
def find_sag_kernel(precision):
    """Events of one row that is given by a sag: at its rim, and where it is seen edge-on."""
    b = bundle(precision)
    real, array, ld = b.real, b.array, b.ld
    _vec3, to_local, _to_world, frame_origin = frame_of(precision)
    surface = surface_of(precision)
    cross, along, turn, close = ways_of(precision)
    place, heading = rays_of(precision)
    enter = event_of(precision)

    @wp.kernel(module=edge_module(precision, True), enable_backward=False)
    def find_sag(
        floats: array, ints: INT, distance: array, row_hit: INT, sag_numbers: array, sag_limits: array,
        widths: array, row: int, code: int, block: int, limits: int, start: int, eps: real, events: INT,
        event_floats: array, counter: INT, n: wp.int64, room: wp.int64,
    ):  # fmt: skip
        i = start + wp.tid()
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            numbers = block + wp.static(NUM_FRAME)
            width = widths[row * wp.static(edge.NUM_WIDTHS) + wp.static(edge.OUTER)]
            radius = sag_limits[limits + 2]
            o = to_local(place(floats, n, i) - frame_origin(sag_numbers, block), sag_numbers, block)
            u = to_local(heading(floats, n, i), sag_numbers, block)
            far = ld(distance, wp.static(at.NEAREST), n, i)
            w = widths[row * wp.static(edge.NUM_WIDTHS) + wp.static(edge.SILHOUETTE)]
            # beyond the rim the surface goes on, and a ray may pass above it
            grow = wp.max(width, w)
            t_in, t_out = cross(o, u, sag_limits, limits, grow, eps, real(wp.static(FAR)))
            if t_in < t_out:
                own = ldi(ints, wp.static(at.LAST), n, i) == row
                if own:
                    t_in = wp.max(t_in, real(wp.static(1.0e-6)) * radius)
                step = (t_out - t_in) / real(wp.static(SAMPLES))
                low = t_in
                f_low, slope_low = along(code, o, u, low, sag_numbers, numbers)
                leaves = slope_low
                for k in range(wp.static(SAMPLES)):
                    high = t_in + step * real(k + 1)
                    f_high, slope_high = along(code, o, u, high, sag_numbers, numbers)
                    middle = high
                    f_middle = f_high
                    if slope_low * slope_high < real(0.0):
                        bend = (slope_high - slope_low) / step
                        middle = turn(code, o, u, low, slope_low, high, slope_high, sag_numbers, numbers)
                        x = o[0] + middle * u[0]
                        y = o[1] + middle * u[1]
                        s = surface(code, x, y, sag_numbers, numbers)
                        f_middle = o[2] + middle * u[2] - s[0]
                        # what meets the surface itself does so half a chord before
                        behind = wp.sqrt(real(2.0) * wp.abs(f_middle / bend)) + real(wp.static(BEHIND)) * w
                        near = wp.abs(f_middle) < w * wp.sqrt(real(1.0) + s[1] * s[1] + s[2] * s[2])
                        # A ray that starts here turns first where it goes back to the surface from within its hollow,
                        # which is no silhouette.
                        if own and bend * leaves < real(0.0):
                            near = False
                        if near and middle < far + behind and x * x + y * y < (radius + w) * (radius + w):
                            _e = enter(middle, i, row, wp.static(edge.SILHOUETTE), events, event_floats, counter, room)
                    for part in range(2):
                        a = low
                        fa = f_low
                        c = middle
                        fc = f_middle
                        if part == 1:
                            a = middle
                            fa = f_middle
                            c = high
                            fc = f_high
                        if fa * fc < real(0.0):
                            t = close(code, o, u, a, fa, c, fc, radius, sag_numbers, numbers)
                            x = o[0] + t * u[0]
                            y = o[1] + t * u[1]
                            g = radius - wp.sqrt(x * x + y * y)
                            if wp.abs(g) < width and t < far + real(wp.static(BEHIND)) * width:
                                _e = enter(t, i, row, wp.static(edge.OUTER), events, event_floats, counter, room)
                    low = high
                    f_low = f_high
                    slope_low = slope_high

    return find_sag
