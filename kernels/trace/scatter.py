"""Scatter at a surface, after the interaction chose reflection or transmission.

With probability p = the detached share (kept off 0 and 1) the lobe's direction replaces the ray's; the flux takes the
lobe's weight and share / p, and (1 - share) / (1 - p) otherwise, so that the derivative to the share is right. Rays at
surfaces without a lobe are left alone. The kernel reads the state that the interaction wrote and writes beside it;
`apply_scatter` moves the result in, `take_scatter` takes its gradient out again.

A surface may have targets. Then the direction comes from the mixture of the lobe and the cones that the targets are
seen in, and the weight is the scattered flux per steradian over the mixture's probability (the balance heuristic of one
sample: Veach and Guibas, "Optimally Combining Sampling Techniques for Monte Carlo Rendering", 1995). It is never above
the lobe's own weight over the lobe's share of the draws. The direction is a number there, and the weight carries the
derivatives to whatever shapes the lobe and turns the surface.
"""

import functools

import warp as wp

from kernels import bsdfs
from kernels.bsdfs.aims import aims as aims_of
from kernels.bsdfs.frames import frames
from kernels.modules import kernel_module
from kernels.precision import INT, LONG, bundle, ld_table, ldi, sti
from kernels.rng import pcg32, slot_key, uniform_of
from kernels.shapes.quadric import NUM_NUMBERS
from kernels.trace import layout as at
from kernels.trace.books import key_of
from kernels.trace.sags import normal_of

_BRANCH, _U1, _U2, _LOBE, _AIM = (wp.uint64(slot_key(slot)) for slot in (6, 7, 8, 10, 12))


@functools.cache
def lobe_of(precision):
    """A Warp function that samples whatever lobe a code stands for."""
    b, f = bundle(precision), frames(precision)
    real, array, vec3 = b.real, b.array, f.vec3
    specular, lambertian, radial, tabulated, density = (row.build(precision) for row in bsdfs.ROWS)

    @wp.func
    def lobe(code: int, u1: real, u2: real, behind: int, d: vec3, n: vec3, share: real, table: array, start: int):
        direction = d
        weight = real(1.0)
        if code == wp.static(bsdfs.NAMES.index("specular")):
            direction, weight = specular(u1, u2, behind, d, n, share, table, start)
        elif code == wp.static(bsdfs.NAMES.index("lambertian")):
            direction, weight = lambertian(u1, u2, behind, d, n, share, table, start)
        elif code == wp.static(bsdfs.NAMES.index("radial")):
            direction, weight = radial(u1, u2, behind, d, n, share, table, start)
        elif code == wp.static(bsdfs.NAMES.index("tabulated")):
            direction, weight = tabulated(u1, u2, behind, d, n, share, table, start)
        else:
            direction, weight = density(u1, u2, behind, d, n, share, table, start)
        return direction, weight

    return lobe


@functools.cache
def density_of(precision):
    """A Warp function: (flux per steradian, probability per steradian) of a direction, for the lobe of a code."""
    b, f = bundle(precision), frames(precision)
    real, array, vec3 = b.real, b.array, f.vec3
    lambertian, radial, tabulated, density = (
        bsdfs.ROWS[bsdfs.NAMES.index(name)].build_density(precision)
        for name in ("lambertian", "radial", "tabulated", "density")
    )

    @wp.func
    def lobe_density(code: int, out: vec3, behind: int, d: vec3, n: vec3, share: real, table: array, start: int):
        value = real(0.0)
        chance = real(0.0)
        if code == wp.static(bsdfs.NAMES.index("lambertian")):
            value, chance = lambertian(out, behind, d, n, share, table, start)
        elif code == wp.static(bsdfs.NAMES.index("radial")):
            value, chance = radial(out, behind, d, n, share, table, start)
        elif code == wp.static(bsdfs.NAMES.index("tabulated")):
            value, chance = tabulated(out, behind, d, n, share, table, start)
        elif code == wp.static(bsdfs.NAMES.index("density")):
            value, chance = density(out, behind, d, n, share, table, start)
        return value, chance

    return lobe_density


def scatter_kernel(precision, backward=False, full=False):
    """The kernel for one precision; ``backward=True`` is the one with an adjoint.

    The ``full`` one serves scenes whose surfaces have targets, or are given by a sag.
    """
    return _scatter_kernel(precision, bool(backward), bool(full))


@functools.cache  # by position, so that one build has one key
def _scatter_kernel(precision, backward, full):
    b, f = bundle(precision), frames(precision)
    real, array, vec3, detach = b.real, b.array, f.vec3, b.detach
    ld_plain, st_plain = b.ld_plain, b.st_plain
    uniform = uniform_of(precision)
    lobe = lobe_of(precision)
    lobe_density, aim, sag_normal = density_of(precision), aims_of(precision), normal_of(precision)
    choose_aim, aim_density = aim.choose, aim.density
    name = f"kernels.trace.{precision}.scatter" + ("_full" if full else "")

    @wp.func
    def aimed(
        code: int, p: vec3, chosen: vec3, d: vec3, n: vec3, share: real, back: real, behind: int, u: real, u1: real,
        u2: real, lobes: array, start: int, aims: array, targets: int,
    ):  # fmt: skip
        """(direction, weight, whether it lies behind) from the mixture, or ``chosen``, 0 and -1 for a draw in vain.

        Both sides of the surface count, each with its probability, since a target may stand on either.
        """
        one = real(1.0)
        got = choose_aim(p, u, u1, u2, aims, targets)
        out = vec3(got[0], got[1], got[2])
        lit = one
        if got[3] < real(0.0):
            # what the lobe throws away stays thrown away
            drawn, lit = lobe(code, u1, u2, behind, d, n, one, lobes, start)
            out = vec3(detach(drawn[0]), detach(drawn[1]), detach(drawn[2]))
        front, p_front = lobe_density(code, out, 0, d, n, share, lobes, start)
        rear, p_rear = lobe_density(code, out, 1, d, n, share, lobes, start)
        value = (one - back) * front + back * rear
        seen = aim_density(p, out, int(got[3]), aims, targets)
        chance = seen[0] + seen[1] * ((one - back) * p_front + back * p_rear)
        weight = real(0.0)
        direction = chosen
        side = int(-1)
        if lit > real(0.0) and chance > real(0.0) and p_front + p_rear > real(0.0):
            weight = value / detach(chance)
            direction = out
            side = wp.where(p_rear > p_front, 1, 0)
        return direction, weight, side

    @wp.kernel(module=kernel_module(f"{name}.adjoint" if backward else name, backward=backward),
               enable_backward=backward)  # fmt: skip
    def scatter(
        ints: INT, row_hit: INT, before: array, floats: array, numbers: array, rows: LONG, shares: array,
        lobes: array, aims: array, sag_numbers: array, ints_out: INT, aux: array, scattered: array,
        base: wp.uint64, init: wp.uint64, jump_a: wp.uint64, jump_c: wp.uint64, own_keys: int,
        n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        row = ldi(row_hit, 0, n, i)
        code = int(-1)
        if row >= 0 and ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            code = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.LOBE))
        if code >= 0:
            k = int(n)
            m = row * wp.static(at.NUM_ROW_INTS)
            kind = ld_table(rows, m + wp.static(at.KIND))
            r = row * wp.static(NUM_NUMBERS)
            q = vec3(
                floats[wp.static(at.X) * k + i] - numbers[r],
                floats[wp.static(at.Y) * k + i] - numbers[r + 1],
                floats[wp.static(at.Z) * k + i] - numbers[r + 2],
            )
            axis = vec3(numbers[r + 3], numbers[r + 4], numbers[r + 5])
            g = numbers[r + 6] * q + (numbers[r + 7] * wp.dot(axis, q) + numbers[r + 8]) * axis
            came = vec3(
                ld_plain(before, wp.static(at.L) * k + i),
                ld_plain(before, wp.static(at.M) * k + i),
                ld_plain(before, wp.static(at.N) * k + i),
            )
            normal = wp.normalize(g)
            if wp.static(full):
                sag = ld_table(rows, m + wp.static(at.SAG))
                if sag >= 0:
                    block = ld_table(rows, m + wp.static(at.SAG_BLOCK))
                    normal = sag_normal(
                        sag,
                        vec3(
                            floats[wp.static(at.X) * k + i],
                            floats[wp.static(at.Y) * k + i],
                            floats[wp.static(at.Z) * k + i],
                        ),
                        sag_numbers,
                        block,
                    )
                    g = normal
            forwards = wp.dot(g, came) > real(0.0)
            facing = wp.where(forwards, -normal, normal)
            chosen = vec3(
                floats[wp.static(at.L) * k + i],
                floats[wp.static(at.M) * k + i],
                floats[wp.static(at.N) * k + i],
            )
            flux = floats[wp.static(at.FLUX) * k + i]
            # the lobe of a reflected ray sees it reflected back, which on a mirror is the arriving ray
            incident = chosen
            if wp.dot(chosen, facing) > real(0.0):
                incident = chosen - real(2.0) * wp.dot(chosen, facing) * facing
            id = key_of(ints, base, own_keys, n, i)
            share = shares[row * wp.static(at.NUM_SCATTER) + wp.static(at.SCATTER_SHARE)]
            albedo = shares[row * wp.static(at.NUM_SCATTER) + wp.static(at.LOBE_SHARE)]
            back = detach(shares[row * wp.static(at.NUM_SCATTER) + wp.static(at.LOBE_BEHIND)])
            one = real(1.0)
            tiny = real(1.0e-6)
            p = wp.min(wp.max(detach(share), tiny), one - tiny)
            direction = chosen
            flux_out = flux * (one - share) / (one - p)
            kept = flux
            if uniform(pcg32(id, init, wp.static(_BRANCH), jump_a, jump_c)) < p:
                behind = int(0)
                if uniform(pcg32(id, init, wp.static(_LOBE), jump_a, jump_c)) < back:
                    behind = int(1)
                u1 = uniform(pcg32(id, init, wp.static(_U1), jump_a, jump_c))
                u2 = uniform(pcg32(id, init, wp.static(_U2), jump_a, jump_c))
                start = ld_table(rows, m + wp.static(at.TABLE))
                targets = int(-1)
                if wp.static(full):
                    targets = ld_table(rows, m + wp.static(at.AIMS))
                moved = int(1)
                if targets >= 0:
                    here = vec3(
                        ld_plain(floats, wp.static(at.X) * k + i),
                        ld_plain(floats, wp.static(at.Y) * k + i),
                        ld_plain(floats, wp.static(at.Z) * k + i),
                    )
                    u = uniform(pcg32(id, init, wp.static(_AIM), jump_a, jump_c))
                    direction, weight, behind = aimed(
                        code, here, chosen, incident, facing, albedo, back, behind, u, u1, u2, lobes, start, aims,
                        targets,
                    )  # fmt: skip
                    moved = wp.where(behind < 0, 0, 1)
                else:
                    direction, weight = lobe(code, u1, u2, behind, incident, facing, albedo, lobes, start)
                flux_out = flux * weight * share / p
                kept = flux * weight
                if moved == 1 and kind <= wp.static(at.COATED):
                    front = ld_table(rows, m + wp.static(at.FRONT))
                    rear = ld_table(rows, m + wp.static(at.BACK))
                    crosses = forwards
                    if behind == 0:
                        crosses = not forwards
                    entered = wp.where(crosses, rear, front)
                    inside = ldi(ints, wp.static(at.MEDIUM), n, i) & wp.static(at.INSIDE)
                    word = entered | (ldi(ints_out, wp.static(at.MEDIUM), n, i) & wp.static(at.FROM_BACK | at.STRAY))
                    if behind == 0:
                        word = word | inside
                    elif entered > 0:
                        word = word | wp.static(at.INSIDE)
                    elif inside == 0:
                        word = word | wp.static(at.UNDERFLOW)
                    sti(ints_out, wp.static(at.MEDIUM), n, i, word)
            scattered[i] = direction[0]
            scattered[k + i] = direction[1]
            scattered[2 * k + i] = direction[2]
            scattered[3 * k + i] = flux_out
            st_plain(aux, wp.static(at.LOSS), n, i, ld_plain(aux, wp.static(at.LOSS) * k + i) + detach(flux - kept))

    return scatter


@functools.cache
def move_kernels(precision):
    """``(apply, take)``: put scattered directions and fluxes into the state; take their gradients out of it."""
    b = bundle(precision)
    array, real, ld, st = b.array, b.real, b.ld, b.st
    module = kernel_module(f"kernels.trace.{precision}.scatter")

    @wp.func
    def scatters(ints: INT, row_hit: INT, rows: LONG, n: wp.int64, i: int):
        row = ldi(row_hit, 0, n, i)
        if row < 0 or ldi(ints, wp.static(at.STATE), n, i) != wp.static(at.ALIVE):
            return False
        return ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.LOBE)) >= 0

    @wp.kernel(module=module, enable_backward=False)
    def apply_scatter(ints: INT, row_hit: INT, rows: LONG, scattered: array, floats: array, n: wp.int64):
        i = wp.tid()
        if scatters(ints, row_hit, rows, n, i):
            for c in range(wp.static(at.NUM_SCATTERED)):
                st(floats, wp.static(at.L) + c, n, i, ld(scattered, c, n, i))

    @wp.kernel(module=module, enable_backward=False)
    def take_scatter(ints: INT, row_hit: INT, rows: LONG, gradients: array, scattered: array, n: wp.int64):
        i = wp.tid()
        moves = scatters(ints, row_hit, rows, n, i)
        for c in range(wp.static(at.NUM_SCATTERED)):
            g = real(0.0)
            if moves:
                g = ld(gradients, wp.static(at.L) + c, n, i)
                st(gradients, wp.static(at.L) + c, n, i, real(0.0))
            st(scattered, c, n, i, g)

    return apply_scatter, take_scatter
