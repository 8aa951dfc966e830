"""What happens at the surface that a ray hits: the one place where the physics of a bounce stands.

The same source is compiled twice, without adjoints for tracing and with them for the backward pass. It is free of
branches, so that both are vectorised: every outcome is computed and one is selected. A ray that hits nothing, or is
dead, runs through with harmless numbers and is written back unchanged.
"""

import functools
from dataclasses import dataclass, fields

import warp as wp

from kernels.modules import kernel_module
from kernels.optics import optics
from kernels.precision import INT, LONG, bundle, ld_table, ldi, select_int, sti, sti_again
from kernels.rng import child_key, half_of_key, join_key, pcg32, uniform_of
from kernels.shapes.quadric import NUM_NUMBERS, quadric
from kernels.trace import layout as at

# entries of a coating's table over the cosine of the angle of incidence
ANGLES = 4097


@dataclass(frozen=True)
class Variant:
    """What a build of the interaction can do; what a scene does not need is left out of its kernel.

    To keep the builds few, those for the rarer needs (all but the first two) leave nothing of these two
    out, and a turbid one can do with sags.

    Attributes:
        coats: mirrors and coatings, whose shares stand in tables over wavelength.
        absorbs: media that absorb.
        angles: coatings with a table over the cosine of the angle of incidence, `ANGLES` even steps from 0 to 1.
        sags: surfaces given by a sag; distance and normal of rays that met one come from ``given``.
        splits: rays that may split do so: launched with ``force`` 1 the kernel writes their reflected part, with 2 the
            transmitted one, each with its share of the flux, and nothing is drawn.
        turbid: media that scatter.
    """

    coats: bool = True
    absorbs: bool = True
    angles: bool = False
    sags: bool = False
    splits: bool = False
    turbid: bool = False

    @classmethod
    def common(cls):
        """The builds for scenes of quadrics with plain coatings and clear media."""
        flags = (False, True)
        return [cls(coats=coats, absorbs=absorbs) for coats in flags for absorbs in flags]

    @classmethod
    def every(cls):
        """All builds that a scene may ask for."""
        flags = (False, True)
        reach = ((False, False), (True, False), (True, True))
        rare = [
            cls(angles=angles, sags=sags, splits=splits, turbid=turbid)
            for angles in flags
            for splits in flags
            for sags, turbid in reach
        ]
        return [*cls.common(), *rare[1:]]

    @property
    def suffix(self):
        """The name's part that tells this build's module from others."""
        return "".join(f".{f.name}" for f in fields(self) if getattr(self, f.name))


@functools.cache
def interact_kernel(precision, variant, backward=False):
    """The kernel for one precision and variant; ``backward=True`` is the one with an adjoint."""
    b = bundle(precision)
    real, array = b.real, b.array
    ld, st, st_plain, ld_fixed = b.ld, b.st, b.st_plain, b.ld_fixed
    ld_number, ld_plain = b.ld_number, b.ld_plain
    select, inverse_sqrt, fma, detach, exp = b.select, b.inverse_sqrt, b.fma, b.detach, b.exp
    implicit, dot = quadric(precision).implicit, quadric(precision).dot
    fresnel = optics(precision).fresnel
    uniform = uniform_of(precision)
    coats, absorbs, angles = variant.coats, variant.absorbs, variant.angles
    sags, splits, turbid = variant.sags, variant.splits, variant.turbid
    # a module of its own, since a scene needs one build of many
    name = f"kernels.trace.{precision}.interact{variant.suffix}" + (".adjoint" if backward else "")
    # the keys of random numbers are 64-bit, by which the compiler would take half of the rays a float32 vector holds
    module = kernel_module(name, backward=backward, lanes=16 if precision == "float32" else None)

    @wp.kernel(module=module, enable_backward=backward)
    def interact(
        floats: array, ints: INT, distance: array, row_hit: INT,
        floats_out: array, ints_out: INT, aux: array,
        numbers: array, rows: LONG, index: array, extinction: array, reflectance: array, transmittance: array,
        attenuation: array, media: array, acc: array, given: array,
        angular: array, angle_cell: INT,
        lines: int, fresnel_policy: int, p_low: real, p_high: real,
        base: wp.uint64, init: wp.uint64, key: wp.uint64, jump_a: wp.uint64, jump_c: wp.uint64,
        retreat: real, may_split: int, force: int, turn: wp.uint64, n: wp.int64,
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
        flux = ld(floats, wp.static(at.FLUX), n, i)
        path = ld(floats, wp.static(at.PATH), n, i)
        slot = ldi(ints, wp.static(at.SLOT), n, i)
        line = ldi(ints, wp.static(at.WAVELENGTH), n, i)
        word = ldi(ints, wp.static(at.MEDIUM), n, i)
        medium = word & wp.static(at.MEDIUM_MASK)
        last = ldi(ints, wp.static(at.LAST), n, i)
        state = ldi(ints, wp.static(at.STATE), n, i)
        found = ldi(row_hit, 0, n, i)
        alive = state == wp.static(at.ALIVE)
        valid = wp.where(found >= 0, alive, False)
        row = select_int(found >= 0, found, 0)
        t0 = select(valid, ld_fixed(distance, i), zero)

        r = row * wp.static(NUM_NUMBERS)
        tx = ld_number(numbers, r, acc, 0, n, i)
        ty = ld_number(numbers, r + 1, acc, 1, n, i)
        tz = ld_number(numbers, r + 2, acc, 2, n, i)
        ax = ld_number(numbers, r + 3, acc, 3, n, i)
        ay = ld_number(numbers, r + 4, acc, 4, n, i)
        az = ld_number(numbers, r + 5, acc, 5, n, i)
        a = ld_number(numbers, r + 6, acc, 6, n, i)
        d = ld_number(numbers, r + 7, acc, 7, n, i)
        g = ld_number(numbers, r + 8, acc, 8, n, i)
        e = ld_number(numbers, r + 9, acc, 9, n, i)
        m = row * wp.static(at.NUM_ROW_INTS)
        kind = ld_table(rows, m + wp.static(at.KIND))
        front = ld_table(rows, m + wp.static(at.FRONT))
        back = ld_table(rows, m + wp.static(at.BACK))
        n_front = ld_number(index, front * lines + line, acc, wp.static(at.ACC_INDEX_FRONT), n, i)
        n_back = ld_number(index, back * lines + line, acc, wp.static(at.ACC_INDEX_BACK), n, i)
        r_table = zero
        t_table = zero
        if wp.static(coats):
            r_table = ld_number(reflectance, row * lines + line, acc, wp.static(at.ACC_REFLECTANCE), n, i)
            t_table = ld_number(transmittance, row * lines + line, acc, wp.static(at.ACC_TRANSMITTANCE), n, i)

        # the detached root, then one Newton step on F: the value stays, the derivative is the implicit one
        qx = fma(t0, u, x - tx)
        qy = fma(t0, v, y - ty)
        qz = fma(t0, w, z - tz)
        s = dot(ax, ay, az, qx, qy, qz)
        slope = fma(d, s, g)
        toward = dot(fma(a, qx, slope * ax), fma(a, qy, slope * ay), fma(a, qz, slope * az), u, v, w)
        toward = detach(real(2.0) * select(valid, toward, one))
        step = -implicit(qx, qy, qz, s, a, d, g, e) / select(toward == zero, one, toward)
        step = select(valid, step, zero)
        met_sag = False
        if wp.static(sags):
            met_sag = wp.where(valid, ld_table(rows, m + wp.static(at.SAG)) >= 0, False)
            step = select(met_sag, ld(given, 0, n, i) - t0, step)
        t = t0 + step
        hx = fma(step, u, qx)
        hy = fma(step, v, qy)
        hz = fma(step, w, qz)

        # geometric normal, from the front medium to the back medium
        s = dot(ax, ay, az, hx, hy, hz)
        slope = fma(d, s, g)
        gx = fma(a, hx, slope * ax)
        gy = fma(a, hy, slope * ay)
        gz = fma(a, hz, slope * az)
        g2 = dot(gx, gy, gz, gx, gy, gz)
        inv = inverse_sqrt(select(valid, select(g2 > zero, g2, one), one))
        gx = gx * inv
        gy = gy * inv
        gz = gz * inv
        if wp.static(sags):
            gx = select(met_sag, ld(given, 1, n, i), gx)
            gy = select(met_sag, ld(given, 2, n, i), gy)
            gz = select(met_sag, ld(given, 3, n, i), gz)
        cs = dot(gx, gy, gz, u, v, w)
        backwards = cs < zero
        n_i = select(backwards, n_back, n_front)
        n_t = select(backwards, n_front, n_back)
        cos_i = select(backwards, -cs, cs)

        # Beer-Lambert over the segment in the medium the ray was in; attenuation = 4 pi 1e3 / wavelength (mm, um)
        flux_hit = flux
        if wp.static(absorbs):
            k = ld_number(extinction, medium * lines + line, acc, wp.static(at.ACC_EXTINCTION), n, i)
            depth = -ld_plain(attenuation, line) * k * t
            flux_hit = flux * exp(detach(depth)) * (one + (depth - detach(depth)))
        if wp.static(turbid):
            # it came through without a collision: drawn with the detached chance of that, and weighed with the attached
            rate_at = (medium * lines + line) * wp.static(at.NUM_MEDIUM)
            thin = -t * ld_number(media, rate_at, acc, wp.static(at.ACC_RATE), n, i)
            flux_hit = flux_hit * (one + (thin - detach(thin)))

        r_fresnel, cos_t, total, eta = fresnel(cos_i, n_i, n_t)
        coated = kind == wp.static(at.COATED)
        mirror = kind == wp.static(at.MIRROR)
        refracting = kind <= wp.static(at.COATED)
        if wp.static(angles):
            block = ld_table(rows, m + wp.static(at.ANGLES))
            tabled = block >= 0
            spread = cos_i * real(wp.static(ANGLES - 1))
            cell = wp.int32(detach(spread))
            cell = select_int(cell > wp.static(ANGLES - 2), wp.static(ANGLES - 2), cell)
            part = spread - real(cell)
            side = select_int(backwards, lines, 0)
            cell = select_int(tabled, block, 0) + ((side + line) * wp.static(ANGLES) + cell) * 2
            r0 = ld_number(angular, cell, acc, wp.static(at.ACC_ANGLE), n, i)
            t0_ = ld_number(angular, cell + 1, acc, wp.static(at.ACC_ANGLE + 2), n, i)
            r1 = ld_number(angular, cell + 2, acc, wp.static(at.ACC_ANGLE + 1), n, i)
            t1_ = ld_number(angular, cell + 3, acc, wp.static(at.ACC_ANGLE + 3), n, i)
            r_table = select(tabled, r0 + part * (r1 - r0), r_table)
            t_table = select(tabled, t0_ + part * (t1_ - t0_), t_table)
            sti_again(angle_cell, i, select_int(tabled, cell, -1))
        r_power = r_fresnel
        t_power = one - r_fresnel
        if wp.static(coats):
            r_power = select(coated, select(total, one, r_table), r_fresnel)
            t_power = select(coated, select(total, zero, t_table), one - r_fresnel)
        p_exact = detach(r_power)
        p = select(p_exact < p_low, p_low, select(p_exact > p_high, p_high, p_exact))
        p = select(fresnel_policy == 1, p_exact, p)
        id = base + wp.uint64(slot)
        if wp.static(splits):
            id = join_key(ldi(ints, wp.static(at.KEY_LOW), n, i), ldi(ints, wp.static(at.KEY_HIGH), n, i))
        chosen = uniform(pcg32(id, init, key, jump_a, jump_c)) < p
        # beyond the critical angle there is nothing to choose
        chosen = wp.where(total, True, chosen)
        chance = select(chosen, p, one - p)
        chance = select(chance > zero, chance, one)
        share = select(chosen, r_power, t_power)
        weight = select(total, one, share / chance)
        halves = False
        if wp.static(splits):
            # a surface that scatters does not split
            lobe = ld_table(rows, m + wp.static(at.LOBE))
            allowance = ldi(ints, wp.static(at.ALLOWANCE), n, i)
            could = wp.where(lobe < 0, wp.where(total, False, refracting), False)
            could = wp.where(may_split == 1, wp.where(valid, could, False), False)
            halves = wp.where(allowance > 1, could, False)
            chosen = wp.where(halves, force == 1, chosen)
            weight = select(halves, select(chosen, r_power, t_power), weight)
        reflects = wp.where(mirror, True, wp.where(refracting, chosen, False))
        weight = select(mirror, r_table, select(refracting, weight, one))
        bends = wp.where(refracting, wp.where(chosen, False, True), False)

        # u + 2 |cs| towards the ray's own side, or Snell's law in vector form
        along = fma(eta, cos_i, -cos_t)
        push = select(backwards, along, -along)
        scale = select(bends, eta, one)
        normal = select(reflects, real(-2.0) * cs, select(bends, push, zero))
        flux_out = flux_hit * weight

        # A ray that lands on two surfaces at once, on an edge, would find the other one at distance 0, where nothing is
        # looked for. If it stays on its side it goes on from a hair before the edge and meets the other there; if it
        # passes through, from a hair behind.
        out_u = fma(scale, u, normal * gx)
        out_v = fma(scale, v, normal * gy)
        out_w = fma(scale, w, normal * gz)
        gap = ld_fixed(distance, wp.int32(n) + i) - t0
        hair = select(gap < retreat, retreat, zero)
        sx = select(bends, hair * out_u, -hair * u)
        sy = select(bends, hair * out_v, -hair * v)
        sz = select(bends, hair * out_w, -hair * w)
        st(floats_out, wp.static(at.X), n, i, select(valid, hx + tx + sx, x))
        st(floats_out, wp.static(at.Y), n, i, select(valid, hy + ty + sy, y))
        st(floats_out, wp.static(at.Z), n, i, select(valid, hz + tz + sz, z))
        st(floats_out, wp.static(at.L), n, i, select(valid, out_u, u))
        st(floats_out, wp.static(at.M), n, i, select(valid, out_v, v))
        st(floats_out, wp.static(at.N), n, i, select(valid, out_w, w))
        st(floats_out, wp.static(at.FLUX), n, i, select(valid, flux_out, flux))
        st(floats_out, wp.static(at.PATH), n, i, path + t)

        incoming = select_int(backwards, back, front)
        beyond = select_int(backwards, front, back)
        entered = select_int(refracting, select_int(chosen, incoming, beyond), medium)
        after = select_int(
            kind == wp.static(at.ABSORBER),
            wp.static(at.ABSORBED),
            select_int(kind == wp.static(at.DETECTOR), wp.static(at.DETECTED), wp.static(at.ALIVE)),
        )
        after = select_int(valid, after, select_int(alive, wp.static(at.ESCAPED), wp.static(at.DEAD)))
        if wp.static(splits):
            offspring = allowance / 2
            child = child_key(id, turn)
            second = force == 2
            # of the second launch only the split-off rays count, and those that would have split
            other = select_int(could, wp.static(at.REFUSED), wp.static(at.DEAD))
            born = select_int(flux_out > zero, wp.static(at.ALIVE), wp.static(at.DEAD))
            after = select_int(second, select_int(halves, born, other), after)
            key = wp.where(second, child, id)
            kept = select_int(halves, select_int(second, offspring, allowance - offspring), allowance)
            sti(ints_out, wp.static(at.ALLOWANCE), n, i, kept)
            sti(ints_out, wp.static(at.KEY_LOW), n, i, half_of_key(key, False))
            sti(ints_out, wp.static(at.KEY_HIGH), n, i, half_of_key(key, True))
        sti(ints_out, wp.static(at.SLOT), n, i, slot)
        sti(ints_out, wp.static(at.WAVELENGTH), n, i, line)
        # leaving for vacuum empties the stack of media that the ray went into, anything else adds to it
        inside = word & wp.static(at.INSIDE)
        vacuum = beyond == 0
        stacked = select_int(bends, select_int(vacuum, 0, wp.static(at.INSIDE)), inside)
        empty = wp.where(bends, wp.where(vacuum, inside == 0, False), False)
        known = select_int(backwards, wp.static(at.FROM_BACK), 0) + select_int(empty, wp.static(at.UNDERFLOW), 0)
        known = known + select_int(wp.where(refracting, incoming != medium, False), wp.static(at.STRAY), 0)
        known = known + select_int(kind >= wp.static(at.DETECTOR), wp.static(at.LANDS), 0)
        if wp.static(coats):
            known = known + select_int(wp.where(coated, True, mirror), wp.static(at.KEEPS), 0)
        sti(ints_out, wp.static(at.MEDIUM), n, i, select_int(valid, entered + stacked + known, word))
        sti(ints_out, wp.static(at.LAST), n, i, select_int(valid, found, last))
        sti(ints_out, wp.static(at.STATE), n, i, after)

        # what the surface keeps, booked where it happens: in expectation 1 - R - T of the arriving flux
        lost = zero
        if wp.static(coats):
            lost = select(chosen, zero, (one - r_power - t_power) / chance)
            if wp.static(splits):
                lost = select(halves, one - r_power - t_power, lost)
            lost = select(coated, select(total, zero, lost), select(mirror, one - r_table, zero))
        st_plain(aux, wp.static(at.FLUX_AT_HIT), n, i, detach(flux_hit))
        st_plain(aux, wp.static(at.LOSS), n, i, detach(flux_hit * lost))

    return interact
