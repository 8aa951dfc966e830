"""Scatter at a surface, after the interaction chose reflection or transmission.

With probability p = the detached share (kept off 0 and 1) the lobe's direction replaces the ray's; the flux takes the
lobe's weight and share / p, and (1 - share) / (1 - p) otherwise, so that the derivative to the share is right. Rays at
surfaces without a lobe are left alone. The kernel reads the state that the interaction wrote and writes beside it;
`apply_scatter` moves the result in, `take_scatter` takes its gradient out again.
"""

import functools

import warp as wp

from kernels import bsdfs
from kernels.bsdfs.frames import frames
from kernels.modules import kernel_module
from kernels.precision import INT, LONG, bundle, ld_table, ldi, sti
from kernels.rng import pcg32, slot_key, uniform_of
from kernels.shapes.quadric import NUM_NUMBERS
from kernels.trace import layout as at
from kernels.trace.books import key_of

_BRANCH, _U1, _U2, _LOBE = (wp.uint64(slot_key(slot)) for slot in (6, 7, 8, 10))


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
def scatter_kernel(precision, backward=False):
    """The kernel for one precision; ``backward=True`` is the one with an adjoint."""
    b, f = bundle(precision), frames(precision)
    real, array, vec3, detach = b.real, b.array, f.vec3, b.detach
    ld_plain, st_plain = b.ld_plain, b.st_plain
    uniform = uniform_of(precision)
    lobe = lobe_of(precision)
    name = f"kernels.trace.{precision}.scatter"

    @wp.kernel(module=kernel_module(f"{name}.adjoint" if backward else name, backward=backward),
               enable_backward=backward)  # fmt: skip
    def scatter(
        ints: INT, row_hit: INT, before: array, floats: array, numbers: array, rows: LONG, shares: array,
        lobes: array, ints_out: INT, aux: array, scattered: array,
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
            forwards = wp.dot(g, came) > real(0.0)
            facing = wp.where(forwards, -normal, normal)
            chosen = vec3(
                floats[wp.static(at.L) * k + i],
                floats[wp.static(at.M) * k + i],
                floats[wp.static(at.N) * k + i],
            )
            flux = floats[wp.static(at.FLUX) * k + i]
            # a mirror's lobe sees the arriving ray, which is the reflected one reflected back
            incident = chosen
            if kind == wp.static(at.MIRROR):
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
                direction, weight = lobe(
                    code, u1, u2, behind, incident, facing, albedo, lobes, ld_table(rows, m + wp.static(at.TABLE))
                )
                flux_out = flux * weight * share / p
                kept = flux * weight
                if kind <= wp.static(at.COATED):
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
