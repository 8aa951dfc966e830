"""Kernels of visibility gradients that follow an event: move the ray onto both sides of its edge, compare the fates.

`shift` moves the ray of an event onto the edge, a hair to either side of it; both are traced on as ordinary rays, and
`tally` adds what they bring the loss: the inner one positive, the outer one negative. `pull` is the gap of the original
ray; launched as an adjoint with kernel times difference for a weight, it is the boundary term of the derivative. See
`kernels.trace.visibility`.
"""

import functools

import warp as wp

from kernels import sources as born
from kernels.modules import kernel_module
from kernels.precision import INT, LONG, bundle, ldi, sti
from kernels.shapes.quadric import NUM_NUMBERS
from kernels.trace import layout as at
from kernels.trace import rims as edge
from kernels.trace.events import (
    CELL,
    DIFFERENCE,
    DISTANCE,
    HAIR,
    KIND,
    NEAR,
    OTHER,
    POINT,
    ROW,
    WEIGHT,
    edge_module,
    rays_of,
)
from kernels.trace.rims import rims

# a band may shrink to this share of its width, where another edge cuts it off
_LEAST = 0.1
# steps that bring a ray onto an edge
_STEPS = 8


@functools.cache
def shift_kernel(precision, sags=False):
    """The two rays of every event, a hair inside and a hair outside the edge, as newborn branch rays."""
    b = bundle(precision)
    real, array, ld, st = b.real, b.array, b.ld, b.st
    r = rims(precision, sags)
    vec3, gap, settle, form, at_limit, width_of = r.vec3, r.gap, r.settle, r.form, r.at_limit, r.width_of
    on_disk = r.on_disk
    place, heading = rays_of(precision)

    @wp.func
    def until(g: real, rate: real, reach: real):
        """How far, in units of the gap that is crossed, it is to where another gap ends; at most ``reach``."""
        left = reach
        if wp.abs(rate) * reach > wp.abs(g):
            left = wp.abs(g / rate)
        return left

    @wp.func
    def on_surface(
        o: vec3, u: vec3, across: vec3, row: int, rows: LONG, numbers: array, limits: array, sag_numbers: array,
        widths: array, reach: real,
    ):  # fmt: skip
        """How far a ray can be shifted before it leaves the surface that it starts on."""
        m = row * wp.static(NUM_NUMBERS)
        axis = vec3(numbers[m + 3], numbers[m + 4], numbers[m + 5])
        _value, normal = form(o, row, rows, numbers, sag_numbers)
        toward = wp.dot(normal, u)
        q = o - vec3(numbers[m], numbers[m + 1], numbers[m + 2])
        left = reach
        if wp.abs(toward) > real(1.0e-3) * wp.length(normal):
            way = across - u * (wp.dot(normal, across) / toward)
            for kind in range(wp.static(edge.SILHOUETTE)):
                if widths[row * wp.static(edge.NUM_WIDTHS) + kind] > real(0.0):
                    g, slope = at_limit(q, wp.dot(axis, q), axis, limits, row, kind)
                    left = until(g, wp.dot(slope, way), left)
        return left

    @wp.func
    def in_beam(o: vec3, u: vec3, across: vec3, t: real, s: int, sources: INT, numbers: array, reach: real):
        """How far a ray can be shifted before it leaves its source's beam, or turned before it leaves the cone."""
        k = s * wp.static(at.NUM_SOURCE)
        kind = sources[3 * s + 2]
        shape = numbers[k + wp.static(at.SOURCE_SHAPE)]
        if kind == wp.static(born.EXTENDED):
            shape = numbers[k + wp.static(at.SOURCE_SHAPE) + 3]
        axis = vec3(numbers[k + 2], numbers[k + 5], numbers[k + 8])
        left = reach
        if kind == wp.static(born.COLLIMATED) or kind == wp.static(born.GAUSSIAN):
            q = o - vec3(numbers[k + 9], numbers[k + 10], numbers[k + 11])
            q = q - wp.dot(axis, q) * axis
            rho = wp.length(q)
            left = until(shape - rho, wp.dot(q, across) / wp.max(rho, real(1.0e-30)), reach)
        elif (kind == wp.static(born.POINT) or kind == wp.static(born.EXTENDED)) and shape > real(0.0):
            # a shift by s at the distance t is a turn by s / t
            cosine = wp.dot(axis, u)
            turn = across - wp.dot(across, u) * u
            left = until((cosine - real(1.0) + shape) * t, wp.dot(axis, turn), reach)
        return left

    @wp.kernel(module=edge_module(precision, sags), enable_backward=False)
    def shift(
        floats: array, ints: INT, rows: LONG, numbers: array, limits: array, triangles: array, triangle_of_row: INT,
        sag_numbers: array, widths: array, sources: INT, source_numbers: array, base: wp.uint64,
        events: INT, event_floats: array, eps: real, count: int,
        floats_out: array, ints_out: INT, n: wp.int64, room: wp.int64, n_out: wp.int64,
    ):  # fmt: skip
        e = wp.tid()
        i = ldi(events, wp.static(CELL), room, e)
        row = ldi(events, wp.static(ROW), room, e)
        kind = ldi(events, wp.static(KIND), room, e)
        t = ld(event_floats, wp.static(DISTANCE), room, e)
        other = ldi(events, wp.static(OTHER), room, e)
        width = width_of(widths, row, kind)
        if other >= 0:
            # both surfaces sample their crossing, and must do so alike
            width = wp.min(width, width_of(widths, other, kind))
        hair = wp.max(real(wp.static(HAIR[precision])) * width, real(16.0) * eps)
        u = heading(floats, n, i)
        o = place(floats, n, i)
        ok = bool(True)
        last = ldi(ints, wp.static(at.LAST), n, i)
        # Rays of one source are a family, and a shifted ray should be one of it. From a source that shines many ways
        # or a collision it starts where it did, and turns; any other ray keeps its direction.
        source = int(0)
        turns = last == wp.static(at.AFLOAT)
        if last == -1:
            id = base + wp.uint64(ldi(ints, wp.static(at.SLOT), n, i))
            while wp.uint64(sources[3 * source + 1]) <= id:
                source += 1
            born_as = sources[3 * source + 2]
            if (
                born_as == wp.static(born.POINT)
                or born_as == wp.static(born.EXTENDED)
                or born_as == wp.static(born.LUMINAIRE)
            ):
                turns = True
        moved = real(0.0)
        g = real(0.0)
        first = real(0.0)
        across = vec3()
        for k in range(wp.static(_STEPS)):
            g, across, t, fine = gap(
                o, u, t, kind, row, other, triangle_of_row[row], rows, numbers, limits, triangles, sag_numbers
            )
            if k == 0:
                first = g
            steep = wp.dot(across, across)
            if not fine or not steep > real(1.0e-12):
                ok = False
            if ok:
                moved += wp.abs(g) / wp.sqrt(steep)
                if turns:
                    u = wp.normalize(u - across * (g / (steep * t)))
                else:
                    o = o - across * (g / steep)
        # an edge that the ray cannot be brought to close by is none of its own
        if not (wp.abs(g) < real(0.1) * hair and moved < real(8.0) * width):
            ok = False
        if other >= 0:
            # the gap of a crossing is a length along the ray, and its band is as wide as others across it
            width = width * wp.length(across)
            hair = hair * wp.length(across)
        across = across / wp.max(wp.dot(across, across), real(1.0e-30))
        step = hair * across
        point = o + t * u
        # Where the rays near the edge end sooner than its band, at an edge that they passed before or at the border of
        # their source, the band ends there too: it must be sampled on both sides alike.
        least = real(wp.static(_LEAST)) * width
        half = width
        if last == -1:
            half = in_beam(o, u, across, t, source, sources, source_numbers, width)
        elif last >= 0 and triangle_of_row[wp.max(last, 0)] < 0:
            begin = o + settle(o, u, last, rows, numbers, sag_numbers) * u
            half = on_surface(begin, u, across, last, rows, numbers, limits, sag_numbers, widths, width)
        if kind < wp.static(edge.SILHOUETTE) and width_of(widths, row, wp.static(edge.SILHOUETTE)) > real(0.0):
            # a curved surface is not met at all beyond its silhouette
            s = t
            depth = real(0.0)
            slope = across
            fine = bool(True)
            closest = t
            for _ in range(2):
                closest = s
                depth, slope, s, fine = gap(
                    o, u, s, wp.static(edge.SILHOUETTE), row, -1, triangle_of_row[row], rows, numbers, limits,
                    triangles, sag_numbers,
                )  # fmt: skip
            if fine and on_disk(o + closest * u, row, numbers, limits, width):
                half = until(depth, wp.dot(slope, across), half)
        half = wp.max(half, least)
        # the biweight kernel: symmetric, so that the bias is of second order in the width
        x = wp.min(wp.abs(first) / half, real(1.0))
        inside = real(1.0) - x * x
        st(event_floats, wp.static(WEIGHT), room, e, real(0.9375) * inside * inside / half)
        if x >= real(1.0):
            ok = False
        st(event_floats, wp.static(POINT), room, e, point[0])
        st(event_floats, wp.static(POINT + 1), room, e, point[1])
        st(event_floats, wp.static(POINT + 2), room, e, point[2])
        for side in range(2):
            sign = real(1.0)
            if side == 1:
                sign = real(-1.0)
            begin = o
            way = u
            if turns:
                way = wp.normalize(u + sign / t * step)
            else:
                begin = o + sign * step
            if last >= 0:
                # a ray starts on the surface that it left
                begin = begin + settle(begin, u, last, rows, numbers, sag_numbers) * u
            if wp.dot(point - begin, u) < real(wp.static(NEAR[precision])) * hair:
                # the edge of the surface that the ray comes from: it was counted there
                ok = False
            j = e + side * count
            st(floats_out, wp.static(at.X), n_out, j, begin[0])
            st(floats_out, wp.static(at.Y), n_out, j, begin[1])
            st(floats_out, wp.static(at.Z), n_out, j, begin[2])
            st(floats_out, wp.static(at.L), n_out, j, way[0])
            st(floats_out, wp.static(at.M), n_out, j, way[1])
            st(floats_out, wp.static(at.N), n_out, j, way[2])
            for c in range(wp.static(at.FLUX), wp.static(at.NUM_FLOATS)):
                st(floats_out, c, n_out, j, ld(floats, c, n, i))
            for c in range(wp.static(at.STATE)):
                sti(ints_out, c, n_out, j, ldi(ints, c, n, i))
            sti(ints_out, wp.static(EVENT), n_out, j, j)
        state = int(wp.static(at.DEAD))
        if ok:
            state = int(wp.static(at.ALIVE))
        else:
            # steps that went astray may have left a weight that is no number
            st(event_floats, wp.static(WEIGHT), room, e, real(0.0))
        sti(ints_out, wp.static(at.STATE), n_out, e, state)
        sti(ints_out, wp.static(at.STATE), n_out, e + count, state)

    return shift


# the column of a branch ray's integers that says which event it belongs to; splitting uses it otherwise
EVENT = at.KEY_LOW


@functools.cache
def vet_kernel(precision, sags=False):
    """Keep the pairs whose edge is there to be seen, after the search of their first bounce.

    The inner ray must meet the surface at its edge, else something hides it. Where the outer ray meets another surface
    at the same place, at that one's own edge, both report the same step. They share it in proportion to the widths of
    their bands, as rays see them: the narrower one is the noisier.
    """
    b = bundle(precision)
    real, array, ld, st = b.real, b.array, b.ld, b.st
    r = rims(precision, sags)
    vec3, nearest_edge, gap, width_of, on_disk = r.vec3, r.nearest_edge, r.gap, r.width_of, r.on_disk
    place, heading = rays_of(precision)

    @wp.kernel(module=edge_module(precision, sags), enable_backward=False)
    def vet(
        floats: array, ints: INT, distance: array, row_hit: INT, rows: LONG, numbers: array, limits: array,
        triangles: array, triangle_of_row: INT, sag_numbers: array, widths: array, events: INT, event_floats: array,
        eps: real, count: int, n: wp.int64, room: wp.int64,
    ):  # fmt: skip
        e = wp.tid()
        row = ldi(events, wp.static(ROW), room, e)
        kind = ldi(events, wp.static(KIND), room, e)
        crossed = ldi(events, wp.static(OTHER), room, e)
        width = width_of(widths, row, kind)
        if crossed >= 0:
            width = wp.min(width, width_of(widths, crossed, kind))
        near = real(wp.static(NEAR[precision])) * wp.max(real(wp.static(HAIR[precision])) * width, real(16.0) * eps)
        point = vec3(
            ld(event_floats, wp.static(POINT), room, e), ld(event_floats, wp.static(POINT + 1), room, e),
            ld(event_floats, wp.static(POINT + 2), room, e),
        )  # fmt: skip
        seen = ldi(ints, wp.static(at.STATE), n, e) == wp.static(at.ALIVE)
        share = real(1.0)
        u = heading(floats, n, e)
        if seen:
            t = ld(distance, wp.static(at.NEAREST), n, e)
            away = place(floats, n, e) + t * u - point
            if kind == wp.static(edge.SILHOUETTE):
                # which is met half a chord before the point where the ray comes closest to it
                away = away - wp.dot(away, u) * u
            if ldi(row_hit, 0, n, e) != row or wp.length(away) > near:
                seen = False
            sharp = widths[row * wp.static(edge.NUM_WIDTHS) + wp.static(edge.SILHOUETTE)]
            if kind < wp.static(edge.SILHOUETTE) and sharp > real(0.0):
                # A rim that lies on the silhouette, as that of a half ball seen along its axis: both are one edge, and
                # the silhouette reports it, as long as its own inner ray meets the surface.
                o = place(floats, n, e)
                depth = real(0.0)
                fine = bool(True)
                closest = t
                for _ in range(2):
                    closest = t
                    depth, _across, t, fine = gap(
                        o, u, t, wp.static(edge.SILHOUETTE), row, -1, triangle_of_row[row], rows, numbers, limits,
                        triangles, sag_numbers,
                    )  # fmt: skip
                if not on_disk(o + closest * u, row, numbers, limits, width):
                    fine = False
                if fine and wp.abs(depth) < real(wp.static(HAIR[precision])) * (width + sharp):
                    seen = False
        if seen and crossed >= 0:
            # the other ray must meet the other surface there, and neither surface may end there: that is an edge
            j = e + count
            o = place(floats, n, j)
            t = ld(distance, wp.static(at.NEAREST), n, j)
            if ldi(row_hit, 0, n, j) != crossed or wp.length(o + t * heading(floats, n, j) - point) > near:
                seen = False
            for k in range(2):
                surface = row
                if k == 1:
                    surface = crossed
                rest, its = nearest_edge(point, surface, numbers, limits, triangles, -1, widths)
                if its >= 0 and rest < near:
                    seen = False
        elif seen:
            j = e + count
            other = ldi(row_hit, 0, n, j)
            if other >= 0 and other != row:
                o = place(floats, n, j)
                t = ld(distance, wp.static(at.NEAREST), n, j)
                triangle = triangle_of_row[other]
                if wp.length(o + t * u - point) < near:
                    rest, its = nearest_edge(o + t * u, other, numbers, limits, triangles, triangle, widths)
                    if wp.abs(rest) < near and its >= 0:
                        _g, across, _t, _fine = gap(
                            o, u, t, its, other, -1, triangle, rows, numbers, limits, triangles, sag_numbers
                        )
                        wide = width_of(widths, other, its) / wp.length(across)
                        _g, across, _t, _fine = gap(
                            o, u, t, kind, row, -1, triangle_of_row[row], rows, numbers, limits, triangles, sag_numbers
                        )
                        share = width / (width + wide * wp.length(across))
        if not seen:
            share = real(0.0)
            sti(ints, wp.static(at.STATE), n, e, wp.static(at.DEAD))
            sti(ints, wp.static(at.STATE), n, e + count, wp.static(at.DEAD))
        st(event_floats, wp.static(WEIGHT), room, e, share * ld(event_floats, wp.static(WEIGHT), room, e))

    return vet


@functools.cache
def tally_kernels(precision):
    """``(tally, weigh)``: add what branch rays bring to their events; turn that into the weights of the gaps."""
    b = bundle(precision)
    real, array, ld, st = b.real, b.array, b.ld, b.st

    @wp.kernel(module=edge_module(precision), enable_backward=False)
    def tally(
        ints: INT, value: array, event_floats: array, count: int, ints_out: INT, n: wp.int64, room: wp.int64
    ):  # fmt: skip
        j = wp.tid()
        e = ldi(ints, wp.static(EVENT), n, j)
        # the interaction knows nothing of events
        sti(ints_out, wp.static(EVENT), n, j, e)
        brought = ld(value, 0, n, j)
        if brought != real(0.0):
            if e >= count:
                e = e - count
                brought = -brought
            wp.atomic_add(event_floats, wp.static(DIFFERENCE) * wp.int32(room) + e, brought)
            st(value, 0, n, j, real(0.0))

    @wp.kernel(module=edge_module(precision), enable_backward=False)
    def weigh(event_floats: array, weight: array, room: wp.int64):
        e = wp.tid()
        st(
            weight, 0, room, e,
            ld(event_floats, wp.static(WEIGHT), room, e) * ld(event_floats, wp.static(DIFFERENCE), room, e),
        )  # fmt: skip

    return tally, weigh


@functools.cache
def pull_kernel(precision, sags=False):
    """The gaps of the rays of all events, differentiable in the rays and in all that says where a surface ends."""
    b = bundle(precision)
    real, array, ld_fixed = b.real, b.array, b.ld_fixed
    r = rims(precision, sags)
    vec3, gap = r.vec3, r.gap
    name = f"kernels.trace.{precision}.edges" + ("_sag" if sags else "") + ".adjoint"

    @wp.kernel(module=kernel_module(name, backward=True))
    def pull(
        floats: array, rows: LONG, numbers: array, limits: array, triangles: array, triangle_of_row: INT,
        sag_numbers: array, events: INT, event_floats: array, weight: array, value: array, n: int, room: int,
    ):  # fmt: skip
        e = wp.tid()
        if ld_fixed(weight, e) == real(0.0):
            # nothing is pulled, and what is far off may have a gap or a slope of it that is no number
            return
        i = events[wp.static(CELL) * room + e]
        row = events[wp.static(ROW) * room + e]
        kind = events[wp.static(KIND) * room + e]
        other = events[wp.static(OTHER) * room + e]
        t = event_floats[wp.static(DISTANCE) * room + e]
        o = vec3(floats[wp.static(at.X) * n + i], floats[wp.static(at.Y) * n + i], floats[wp.static(at.Z) * n + i])
        u = vec3(floats[wp.static(at.L) * n + i], floats[wp.static(at.M) * n + i], floats[wp.static(at.N) * n + i])
        g, _slope, _closer, _fine = gap(
            o, u, t, kind, row, other, triangle_of_row[row], rows, numbers, limits, triangles, sag_numbers
        )
        value[e] = g

    return pull
