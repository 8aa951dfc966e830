"""Surfaces given by a sag: where a ray meets them, and the distance and normal there with their derivatives.

The search marches along the ray through the box of the surface, brackets the first change of sign of z - sag and closes
in on it. A ray may also dip through the surface and out again between two samples: where z - sag nears zero and turns
away, its extremum is found, and with it the chord. `locate_sag` then takes the detached root, makes one Newton step on
F = z - sag, and writes distance and normal for the interaction, which knows nothing of the shape.
"""

import functools

import warp as wp

from kernels import shapes
from kernels.modules import kernel_module
from kernels.precision import INT, LONG, bundle, ld_table, ldi, sti
from kernels.trace import layout as at
from kernels.trace.search import FAR

# samples along a ray's way through the box, steps that close a bracket to rounding, and steps to an extremum
SAMPLES, _CLOSING, TURNING = 32, 80, 24
# where the box of a surface grows, it grows by so much more in height: the surface may be steep at its rim
_RISE = 4.0
# a shape's block of numbers begins with its rotation (row-major, local to world) and origin
NUM_FRAME = 12
# a shape's block of limits: half width x, half width y, radius, lowest z, highest z, least radius of curvature
BEND = 5
NUM_LIMITS = 6


@functools.cache
def surface_of(precision):
    """A Warp function: sag and slopes of whatever shape a code stands for."""
    b = bundle(precision)
    real, array = b.real, b.array
    vec3 = wp.types.vector(length=3, dtype=real)
    asphere, biconic, toroid = (row.build(precision) for row in shapes.ROWS)

    @wp.func
    def surface(code: int, x: real, y: real, numbers: array, start: int):
        # no row may run for another's code: it would read, and its adjoint write, beyond that block of numbers
        out = vec3(real(0.0), real(0.0), real(0.0))
        if code == wp.static(shapes.NAMES.index("asphere")):
            out = asphere(x, y, numbers, start)
        if code == wp.static(shapes.NAMES.index("biconic")):
            out = biconic(x, y, numbers, start)
        if code == wp.static(shapes.NAMES.index("toroid")):
            out = toroid(x, y, numbers, start)
        return out

    return surface


@functools.cache
def frame_of(precision):
    """``(vec3, to_local, to_world, origin)``: the frame that a sag's block of numbers begins with."""
    b = bundle(precision)
    real, array = b.real, b.array
    vec3 = wp.types.vector(length=3, dtype=real)

    @wp.func
    def to_local(v: vec3, numbers: array, k: int):
        """R^T v."""
        return vec3(
            numbers[k] * v[0] + numbers[k + 3] * v[1] + numbers[k + 6] * v[2],
            numbers[k + 1] * v[0] + numbers[k + 4] * v[1] + numbers[k + 7] * v[2],
            numbers[k + 2] * v[0] + numbers[k + 5] * v[1] + numbers[k + 8] * v[2],
        )

    @wp.func
    def to_world(v: vec3, numbers: array, k: int):
        """R v."""
        return vec3(
            numbers[k] * v[0] + numbers[k + 1] * v[1] + numbers[k + 2] * v[2],
            numbers[k + 3] * v[0] + numbers[k + 4] * v[1] + numbers[k + 5] * v[2],
            numbers[k + 6] * v[0] + numbers[k + 7] * v[1] + numbers[k + 8] * v[2],
        )

    @wp.func
    def origin(numbers: array, k: int):
        return vec3(numbers[k + 9], numbers[k + 10], numbers[k + 11])

    return vec3, to_local, to_world, origin


@functools.cache
def distance_of(precision):
    """A Warp function: the distance along a ray to a surface given by a sag, t0 in value, by one Newton step."""
    b = bundle(precision)
    real, array, detach = b.real, b.array, b.detach
    vec3, to_local, _to_world, origin = frame_of(precision)
    surface = surface_of(precision)

    @wp.func
    def distance(code: int, o: vec3, d: vec3, t0: real, numbers: array, block: int):
        q = to_local(o + t0 * d - origin(numbers, block), numbers, block)
        u = to_local(d, numbers, block)
        s = surface(code, q[0], q[1], numbers, block + wp.static(NUM_FRAME))
        toward = detach(u[2] - s[1] * u[0] - s[2] * u[1])
        step = real(0.0)
        if toward != real(0.0):
            step = (s[0] - q[2]) / toward
        return t0 + step

    return distance


@functools.cache
def normal_of(precision):
    """A Warp function: the unit normal, from front to back, at a point of a surface given by a sag."""
    b = bundle(precision)
    real, array = b.real, b.array
    vec3, to_local, to_world, origin = frame_of(precision)
    surface = surface_of(precision)

    @wp.func
    def normal(code: int, p: vec3, numbers: array, block: int):
        q = to_local(p - origin(numbers, block), numbers, block)
        s = surface(code, q[0], q[1], numbers, block + wp.static(NUM_FRAME))
        return to_world(wp.normalize(vec3(-s[1], -s[2], real(1.0))), numbers, block)

    return normal


@functools.cache
def ways_of(precision):
    """``(cross, along, turn, close)``: Warp functions of a ray in the frame of a sag.

    ``cross`` is its way through the box of the surface, grown by a length, ``along`` F = z - sag and its slope at a
    distance along the ray, ``turn`` and ``close`` the distances at which that slope, and F, is 0, between two where it
    has different signs.
    """
    b = bundle(precision)
    real, array = b.real, b.array
    vec3 = frame_of(precision)[0]
    surface = surface_of(precision)
    ulp = 2.0e-16 if precision == "float64" else 1.0e-7

    @wp.func
    def slab(o: real, d: real, low: real, high: real, t_in: real, t_out: real):
        """A ray's way through low <= x <= high, cut out of (t_in, t_out)."""
        if d == real(0.0):
            if o < low or o > high:
                return real(1.0), real(0.0)
            return t_in, t_out
        a = (low - o) / d
        c = (high - o) / d
        return wp.max(t_in, wp.min(a, c)), wp.min(t_out, wp.max(a, c))

    @wp.func
    def cross(o: vec3, d: vec3, limits: array, k: int, grow: real, t_in: real, t_out: real):
        rx = wp.min(limits[k], limits[k + 2]) + grow
        ry = wp.min(limits[k + 1], limits[k + 2]) + grow
        t_in, t_out = slab(o[0], d[0], -rx, rx, t_in, t_out)
        t_in, t_out = slab(o[1], d[1], -ry, ry, t_in, t_out)
        rise = real(wp.static(_RISE)) * grow
        return slab(o[2], d[2], limits[k + 3] - rise, limits[k + 4] + rise, t_in, t_out)

    @wp.func
    def along(code: int, o: vec3, d: vec3, t: real, numbers: array, start: int):
        s = surface(code, o[0] + t * d[0], o[1] + t * d[1], numbers, start)
        return o[2] + t * d[2] - s[0], d[2] - s[1] * d[0] - s[2] * d[1]

    @wp.func
    def turn(
        code: int, o: vec3, d: vec3, low: real, slope_low: real, high: real, slope_high: real, numbers: array,
        start: int,
    ):  # fmt: skip
        """Where F has its extremum in a bracket of its slopes: the same steps as `close`, of the slope."""
        a = low
        fa = slope_low
        c = high
        fc = slope_high
        t = high
        for _ in range(wp.static(TURNING)):
            if fc != fa:
                t = c - fc * (c - a) / (fc - fa)
            _value, f = along(code, o, d, t, numbers, start)
            if f * fc < real(0.0):
                a = c
                fa = fc
            else:
                fa = fa * real(0.5)
            c = t
            fc = f
            if f == real(0.0):
                break
        return t

    @wp.func
    def close(
        code: int, o: vec3, d: vec3, low: real, f_low: real, high: real, f_high: real, size: real, numbers: array,
        start: int,
    ):  # fmt: skip
        """Where F is 0 in a bracket: secant steps kept inside it, halved when they stall (Illinois)."""
        a = low
        fa = f_low
        c = high
        fc = f_high
        t = high
        for _ in range(wp.static(_CLOSING)):
            if fc != fa:
                t = c - fc * (c - a) / (fc - fa)
            f, _slope = along(code, o, d, t, numbers, start)
            moved = wp.abs(t - c)
            if f * fc < real(0.0):
                a = c
                fa = fc
            else:
                fa = fa * real(0.5)
            c = t
            fc = f
            if f == real(0.0) or moved <= real(wp.static(ulp)) * (wp.abs(t) + size):
                break
        return t

    return cross, along, turn, close


@functools.cache
def search_sag_kernel(precision):
    """Search of one sag row; a ray keeps what an earlier search found if that is nearer."""
    b = bundle(precision)
    real, array, ld, st = b.real, b.array, b.ld, b.st
    vec3, to_local, _to_world, origin = frame_of(precision)
    cross, along, turn, close = ways_of(precision)

    @wp.func
    def inside(o: vec3, d: vec3, t: real, hx: real, hy: real, radius: real):
        x = o[0] + t * d[0]
        y = o[1] + t * d[1]
        return x * x + y * y <= radius * radius and wp.abs(x) <= hx and wp.abs(y) <= hy

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}.sag"), enable_backward=False)
    def search_sag(
        floats: array, ints: INT, distance: array, row_hit: INT, sag_numbers: array, sag_limits: array, row: int,
        code: int, block: int, limits: int, first: int, surfaces: int, eps: real, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        best = real(wp.static(FAR))
        second = real(wp.static(FAR))
        best_row = int(-1)
        if first == 0:
            best = ld(distance, wp.static(at.NEAREST), n, i)
            second = ld(distance, wp.static(at.RUNNER_UP), n, i)
            best_row = ldi(row_hit, 0, n, i)
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            p = vec3(
                ld(floats, wp.static(at.X), n, i), ld(floats, wp.static(at.Y), n, i), ld(floats, wp.static(at.Z), n, i)
            )
            u = vec3(
                ld(floats, wp.static(at.L), n, i), ld(floats, wp.static(at.M), n, i), ld(floats, wp.static(at.N), n, i)
            )
            o = to_local(p - origin(sag_numbers, block), sag_numbers, block)
            d = to_local(u, sag_numbers, block)
            numbers = block + wp.static(NUM_FRAME)
            hx = sag_limits[limits]
            hy = sag_limits[limits + 1]
            radius = sag_limits[limits + 2]
            size = wp.min(wp.max(hx, hy), radius)
            t_in = eps
            if ldi(ints, wp.static(at.LAST), n, i) == wp.static(at.AFLOAT):
                t_in = real(0.0)
            if ldi(ints, wp.static(at.LAST), n, i) == row:
                # the ray starts on this surface: step off it before looking for another meeting
                t_in = wp.max(eps, real(1.0e-6) * size)
            t_out = best + real(8.0) * eps
            t_in, t_out = cross(o, d, sag_limits, limits, real(0.0), t_in, t_out)
            found = real(wp.static(FAR))
            if t_in < t_out:
                step = (t_out - t_in) / real(wp.static(SAMPLES))
                low = t_in
                f_low, slope_low = along(code, o, d, low, sag_numbers, numbers)
                for k in range(wp.static(SAMPLES)):
                    high = t_in + step * real(k + 1)
                    f_high, slope_high = along(code, o, d, high, sag_numbers, numbers)
                    if found >= real(wp.static(FAR)) and f_low != real(0.0):
                        if f_low * f_high <= real(0.0):
                            t = close(code, o, d, low, f_low, high, f_high, size, sag_numbers, numbers)
                            if inside(o, d, t, hx, hy, radius):
                                found = t
                        elif f_low * slope_low < real(0.0) and f_high * slope_high > real(0.0):
                            m = turn(code, o, d, low, slope_low, high, slope_high, sag_numbers, numbers)
                            f_m, _slope = along(code, o, d, m, sag_numbers, numbers)
                            if f_m * f_low < real(0.0):
                                t = close(code, o, d, low, f_low, m, f_m, size, sag_numbers, numbers)
                                if not inside(o, d, t, hx, hy, radius):
                                    t = close(code, o, d, m, f_m, high, f_high, size, sag_numbers, numbers)
                                if inside(o, d, t, hx, hy, radius):
                                    found = t
                    low = high
                    f_low = f_high
                    slope_low = slope_high
            nearer = found < best or (found == best and row < best_row)
            other = wp.where(nearer, best_row, row)
            passed = wp.where(nearer, best, found)
            if other < surfaces and passed < second:
                second = passed
            if nearer:
                best = found
                best_row = row
        st(distance, wp.static(at.NEAREST), n, i, best)
        st(distance, wp.static(at.RUNNER_UP), n, i, second)
        sti(row_hit, 0, n, i, best_row)

    return search_sag


@functools.cache
def locate_sag_kernel(precision, backward=False):
    """Distance and normal of the rays that met a sag row; ``backward=True`` is the kernel with an adjoint."""
    b = bundle(precision)
    real, array, detach, ld_fixed = b.real, b.array, b.detach, b.ld_fixed
    vec3, to_local, to_world, origin = frame_of(precision)
    surface = surface_of(precision)
    name = f"kernels.trace.{precision}.sag"

    @wp.kernel(module=kernel_module(f"{name}.adjoint" if backward else name, backward=backward),
               enable_backward=backward)  # fmt: skip
    def locate_sag(
        floats: array, ints: INT, distance: array, row_hit: INT, rows: LONG, sag_numbers: array, given: array,
        n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        row = ldi(row_hit, 0, n, i)
        code = int(-1)
        if row >= 0 and ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            code = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.SAG))
        if code >= 0:
            k = int(n)
            block = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.SAG_BLOCK))
            numbers = block + wp.static(NUM_FRAME)
            p = vec3(floats[wp.static(at.X) * k + i], floats[wp.static(at.Y) * k + i], floats[wp.static(at.Z) * k + i])
            u = vec3(floats[wp.static(at.L) * k + i], floats[wp.static(at.M) * k + i], floats[wp.static(at.N) * k + i])
            t0 = ld_fixed(distance, i)
            q = to_local(p + t0 * u - origin(sag_numbers, block), sag_numbers, block)
            d = to_local(u, sag_numbers, block)
            s = surface(code, q[0], q[1], sag_numbers, numbers)
            toward = detach(d[2] - s[1] * d[0] - s[2] * d[1])
            step = real(0.0)
            if toward != real(0.0):
                step = (s[0] - q[2]) / toward
            h = surface(code, q[0] + step * d[0], q[1] + step * d[1], sag_numbers, numbers)
            normal = to_world(wp.normalize(vec3(-h[1], -h[2], real(1.0))), sag_numbers, block)
            given[i] = t0 + step
            given[k + i] = normal[0]
            given[2 * k + i] = normal[1]
            given[3 * k + i] = normal[2]

    return locate_sag
