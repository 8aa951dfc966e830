"""Collisions inside a scattering medium, by the phase function of Henyey and Greenstein.

A ray in such a medium draws a free path. `collide` compares it with the distance to the nearest surface, and where it
is shorter the ray has met no surface: the column of rows says so, and which surface lay ahead. `interact` leaves those
rays alone, and `collision` moves them on: attenuated, turned, and weaker by the albedo. It reads the state that the
interaction passed on and writes beside it; `apply_collision` moves the result in, `take_collision` takes its gradient
out again.

The free path and the angles are numbers, drawn with detached parameters. Weights of value 1 carry the derivatives: the
density of the free path and that of the angle over themselves, detached. The end of the segment moves with the surface
ahead, and the point of the collision moves in proportion, with the factor of the density that goes with it; so nothing
is lost at that end. `interact` does the rest, with exp(-t / mean free path) over itself at a surface.

Source: L. G. Henyey and J. L. Greenstein, "Diffuse radiation in the Galaxy", 1941.
"""

import functools

import warp as wp

from kernels.bsdfs.frames import frames
from kernels.modules import kernel_module
from kernels.precision import INT, LONG, bundle, ld_table, ldi, sti
from kernels.rng import pcg32, slot_key, uniform_of
from kernels.shapes.quadric import NUM_NUMBERS, quadric
from kernels.trace import layout as at
from kernels.trace.books import key_of
from kernels.trace.sags import distance_of

_FREE_PATH, _U1, _U2 = (wp.uint64(slot_key(slot)) for slot in (13, 14, 15))


@functools.cache
def free_path_of(precision):
    """A Warp function: the path to a collision, mm, from a random number and the collisions per mm."""
    real = bundle(precision).real

    @wp.func
    def free_path(u: real, rate: real):
        return -wp.log(real(1.0) - u) / rate

    return free_path


@functools.cache
def collide_kernel(precision):
    """Which rays collide before they reach what they would meet. Nothing of this is differentiated."""
    b = bundle(precision)
    array, ld, ld_plain = b.array, b.ld, b.ld_plain
    uniform, free_path = uniform_of(precision), free_path_of(precision)
    real = b.real

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}.volume"), enable_backward=False)
    def collide(
        ints: INT, distance: array, row_hit: INT, media: array, lines: int,
        base: wp.uint64, init: wp.uint64, jump_a: wp.uint64, jump_c: wp.uint64, own_keys: int, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            medium = ldi(ints, wp.static(at.MEDIUM), n, i) & wp.static(at.MEDIUM_MASK)
            line = ldi(ints, wp.static(at.WAVELENGTH), n, i)
            rate = ld_plain(media, (medium * lines + line) * wp.static(at.NUM_MEDIUM))
            if rate > real(0.0):
                u = uniform(pcg32(key_of(ints, base, own_keys, n, i), init, wp.static(_FREE_PATH), jump_a, jump_c))
                if free_path(u, rate) < ld(distance, wp.static(at.NEAREST), n, i):
                    sti(row_hit, 0, n, i, wp.static(at.COLLISION) - ldi(row_hit, 0, n, i))

    return collide


@functools.cache
def collision_kernel(precision, backward=False):
    """What a collision does to a ray; ``backward=True`` is the kernel with an adjoint."""
    b, f = bundle(precision), frames(precision)
    real, array, vec3, along = b.real, b.array, f.vec3, f.along
    detach, exp, ld_fixed, ld_plain, st_plain = b.detach, b.exp, b.ld_fixed, b.ld_plain, b.st_plain
    sin_turn, cos_turn = b.sin_turn, b.cos_turn
    uniform, free_path = uniform_of(precision), free_path_of(precision)
    implicit, sag_distance = quadric(precision).implicit, distance_of(precision)
    name = f"kernels.trace.{precision}.volume"

    @wp.func
    def ahead(o: vec3, d: vec3, t0: real, row: int, rows: LONG, numbers: array, sag_numbers: array):
        """The distance to the surface ahead: its value is t0, its derivative that of the implicit function."""
        r = row * wp.static(NUM_NUMBERS)
        m = row * wp.static(at.NUM_ROW_INTS)
        sag = ld_table(rows, m + wp.static(at.SAG))
        t = t0
        if sag >= 0:
            t = sag_distance(sag, o, d, t0, sag_numbers, ld_table(rows, m + wp.static(at.SAG_BLOCK)))
        else:
            q = o + t0 * d - vec3(numbers[r], numbers[r + 1], numbers[r + 2])
            axis = vec3(numbers[r + 3], numbers[r + 4], numbers[r + 5])
            s = wp.dot(axis, q)
            gradient = numbers[r + 6] * q + (numbers[r + 7] * s + numbers[r + 8]) * axis
            toward = detach(real(2.0) * wp.dot(gradient, d))
            if toward != real(0.0):
                value = implicit(
                    q[0], q[1], q[2], s, numbers[r + 6], numbers[r + 7], numbers[r + 8], numbers[r + 9]
                )  # fmt: skip
                t = t0 - value / toward
        return t

    @wp.func
    def cosine_of(u: real, g: real):
        """The cosine of the angle of scatter, from the inverse of its distribution, written so that g may be 0."""
        s = real(2.0) * u - real(1.0)
        half = real(0.5)
        top = s + half * g * (s * s + real(3.0)) + g * g * s + half * g * g * g * (s * s - real(1.0))
        return wp.clamp(top / ((real(1.0) + g * s) * (real(1.0) + g * s)), real(-1.0), real(1.0))

    @wp.func
    def phase(cosine: real, g: real):
        """The phase function but for a constant."""
        q = real(1.0) + g * g - real(2.0) * g * cosine
        return (real(1.0) - g * g) / (q * wp.sqrt(q))

    @wp.kernel(module=kernel_module(f"{name}.adjoint" if backward else name, backward=backward),
               enable_backward=backward)  # fmt: skip
    def collision(
        floats: array, ints: INT, distance: array, row_hit: INT, rows: LONG, numbers: array, sag_numbers: array,
        extinction: array, media: array, attenuation: array, ints_out: INT, aux: array, moved: array, lines: int,
        base: wp.uint64, init: wp.uint64, jump_a: wp.uint64, jump_c: wp.uint64, own_keys: int, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        found = ldi(row_hit, 0, n, i)
        if found < -1 and ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            k = int(n)
            one = real(1.0)
            o = vec3(floats[wp.static(at.X) * k + i], floats[wp.static(at.Y) * k + i], floats[wp.static(at.Z) * k + i])
            d = vec3(floats[wp.static(at.L) * k + i], floats[wp.static(at.M) * k + i], floats[wp.static(at.N) * k + i])
            line = ldi(ints, wp.static(at.WAVELENGTH), n, i)
            cell = (ldi(ints, wp.static(at.MEDIUM), n, i) & wp.static(at.MEDIUM_MASK)) * lines + line
            rate = media[cell * wp.static(at.NUM_MEDIUM) + wp.static(at.RATE)]
            albedo = media[cell * wp.static(at.NUM_MEDIUM) + wp.static(at.ALBEDO)]
            g = media[cell * wp.static(at.NUM_MEDIUM) + wp.static(at.ASYMMETRY)]
            id = key_of(ints, base, own_keys, n, i)
            drawn = free_path(uniform(pcg32(id, init, wp.static(_FREE_PATH), jump_a, jump_c)), detach(rate))
            row = wp.static(at.COLLISION) - found
            stretch = one
            if row >= 0:
                t0 = ld_fixed(distance, i)
                t = ahead(o, d, t0, row, rows, numbers, sag_numbers)
                stretch = one + (t - detach(t)) / t0
            s = drawn * stretch
            thin = -s * rate
            depth = -ld_plain(attenuation, line) * extinction[cell] * s
            arriving = floats[wp.static(at.FLUX) * k + i] * exp(detach(depth)) * (one + (depth - detach(depth)))
            chance = rate / detach(rate) * stretch * (one + (thin - detach(thin)))
            u1 = uniform(pcg32(id, init, wp.static(_U1), jump_a, jump_c))
            u2 = uniform(pcg32(id, init, wp.static(_U2), jump_a, jump_c))
            cosine = cosine_of(u1, detach(g))
            sine = wp.sqrt(wp.max(one - cosine * cosine, real(0.0)))
            out = along(detach(sine * cos_turn(u2)), detach(sine * sin_turn(u2)), detach(cosine), d)
            likely = phase(detach(cosine), g)
            moved[i] = o[0] + s * d[0]
            moved[k + i] = o[1] + s * d[1]
            moved[2 * k + i] = o[2] + s * d[2]
            moved[3 * k + i] = out[0]
            moved[4 * k + i] = out[1]
            moved[5 * k + i] = out[2]
            moved[6 * k + i] = arriving * albedo * chance * (likely / detach(likely))
            moved[7 * k + i] = floats[wp.static(at.PATH) * k + i] + s
            st_plain(aux, wp.static(at.FLUX_AT_HIT), n, i, detach(arriving))
            sti(ints_out, wp.static(at.LAST), n, i, wp.static(at.AFLOAT))
            sti(ints_out, wp.static(at.STATE), n, i, wp.static(at.ALIVE))

    return collision


@functools.cache
def collision_moves(precision):
    """``(apply, take)``: put collided rays into the state; take their gradients out of it."""
    b = bundle(precision)
    array, real, ld, st = b.array, b.real, b.ld, b.st
    module = kernel_module(f"kernels.trace.{precision}.volume")

    @wp.func
    def collided(ints: INT, row_hit: INT, n: wp.int64, i: int):
        return ldi(row_hit, 0, n, i) < -1 and ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE)

    @wp.kernel(module=module, enable_backward=False)
    def apply_collision(ints: INT, row_hit: INT, moved: array, floats: array, n: wp.int64):
        i = wp.tid()
        if collided(ints, row_hit, n, i):
            for c in range(wp.static(at.NUM_FLOATS)):
                st(floats, c, n, i, ld(moved, c, n, i))

    @wp.kernel(module=module, enable_backward=False)
    def take_collision(ints: INT, row_hit: INT, gradients: array, moved: array, n: wp.int64):
        i = wp.tid()
        moves = collided(ints, row_hit, n, i)
        for c in range(wp.static(at.NUM_FLOATS)):
            g = real(0.0)
            if moves:
                g = ld(gradients, c, n, i)
                st(gradients, c, n, i, real(0.0))
            st(moved, c, n, i, g)

    return apply_collision, take_collision
