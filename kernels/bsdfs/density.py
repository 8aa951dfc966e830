"""A measured lobe, sampled from itself: every direction weighs the same, the share of the light that it scatters.

The draw is detached; the weight carries the derivative to the angle of incidence as f / detach(f).

``table[at:]`` begins as for the row "tabulated", and goes on with m, s_j = sin(theta_s)^2 (m of them) and, for each
incident angle, the running integral C_j of f cos over the hemisphere (m of them). Between incident angles C is linear,
as f is; within a cell s is uniform.
"""

import functools

import warp as wp

from kernels.bsdfs.frames import frames
from kernels.bsdfs.grids import grids
from kernels.precision import bundle

NAME = "density"


@functools.cache
def integrals(precision):
    """``(between, running)``: where the running integrals of an incident angle are, and one of them.

    Their callers have adjoints that do nothing, since draws are detached.
    """
    b = bundle(precision)
    real, array, ld_plain = b.real, b.array, b.ld_plain
    bracket = frames(precision).bracket

    @wp.func
    def between(table: array, at: int, theta: real):
        """(m, where the s_j begin, where C begins for the angles below and above, share of the one above).

        m is 0 where ``theta`` (degrees) lies outside the table.
        """
        n_i = int(ld_plain(table, at))
        n_s = int(ld_plain(table, at + 1))
        first_i = at + 2
        more = first_i + n_i + n_s + n_i * n_s
        m = int(ld_plain(table, more))
        s_at = more + 1
        c_at = s_at + m
        i = bracket(table, first_i, n_i, theta)
        i1 = wp.min(i + 1, n_i - 1)
        share = real(0.0)
        if i1 > i:
            share = (theta - ld_plain(table, first_i + i)) / (
                ld_plain(table, first_i + i1) - ld_plain(table, first_i + i)
            )
        count = m
        if theta < ld_plain(table, first_i) or theta > ld_plain(table, first_i + n_i - 1):
            count = 0
        return count, s_at, c_at + i * m, c_at + i1 * m, share

    @wp.func
    def running(table: array, low: int, high: int, share: real, j: int):
        return (real(1.0) - share) * ld_plain(table, low + j) + share * ld_plain(table, high + j)

    return between, running


def build(precision):
    b, f = bundle(precision), frames(precision)
    real, array, ld_plain, sin_turn, cos_turn = b.real, b.array, b.ld_plain, b.sin_turn, b.cos_turn
    vec3, along = f.vec3, f.along
    degrees_of, value_at, detach = grids(precision).degrees_of, grids(precision).value_at, b.detach
    between, running = integrals(precision)
    vec2 = wp.types.vector(length=2, dtype=real)

    @wp.func
    def drawn(table: array, at: int, theta: real, u: real):
        """(sin(theta_s)^2, weight) at incidence ``theta`` (degrees)."""
        m, s_at, row, row1, share = between(table, at, theta)
        out = vec2(real(0.0), real(0.0))
        if m > 0:
            total = running(table, row, row1, share, m - 1)
            wanted = u * total
            low = int(0)
            high = int(m - 1)
            while high - low > 1:
                middle = (low + high) / 2
                if running(table, row, row1, share, middle) <= wanted:
                    low = middle
                else:
                    high = middle
            below = running(table, row, row1, share, low)
            above = running(table, row, row1, share, low + 1)
            part = real(0.0)
            if above > below:
                part = (wanted - below) / (above - below)
            s0 = ld_plain(table, s_at + low)
            out = vec2(s0 + part * (ld_plain(table, s_at + low + 1) - s0), total)
        return out

    @wp.func_grad(drawn)
    def adj_drawn(table: array, at: int, theta: real, u: real, adj_ret: vec2):
        pass

    @wp.func
    def sample(u1: real, u2: real, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        h = wp.where(transmitted == 1, -n, n)
        theta = degrees_of(-wp.dot(d, n))
        got = drawn(table, at, detach(theta), u2)
        sine = wp.sqrt(got[0])
        cosine = wp.sqrt(real(1.0) - got[0])
        value = value_at(table, at, theta, degrees_of(cosine))
        ratio = real(1.0)
        if value > real(0.0):
            ratio = value / detach(value)
        return along(sine * cos_turn(u1), sine * sin_turn(u1), cosine, h), share * got[1] * ratio

    return sample


def build_density(precision):
    b, f = bundle(precision), frames(precision)
    real, array, ld_plain, detach = b.real, b.array, b.ld_plain, b.detach
    vec3, bracket = f.vec3, f.bracket
    degrees_of, surface_at = grids(precision).degrees_of, grids(precision).surface_at
    between, running = integrals(precision)
    vec2 = wp.types.vector(length=2, dtype=real)

    @wp.func
    def stepped(table: array, at: int, theta: real, sine2: real):
        """(flux per unit of sin(theta_s)^2, flux in all) at incidence ``theta`` (degrees), as `drawn` spreads it."""
        m, s_at, low, high, share = between(table, at, theta)
        out = vec2(real(0.0), real(0.0))
        if m > 0 and sine2 >= ld_plain(table, s_at) and sine2 <= ld_plain(table, s_at + m - 1):
            j = bracket(table, s_at, m, sine2)
            below = running(table, low, high, share, j)
            above = running(table, low, high, share, j + 1)
            width = ld_plain(table, s_at + j + 1) - ld_plain(table, s_at + j)
            out = vec2((above - below) / width, running(table, low, high, share, m - 1))
        return out

    @wp.func_grad(stepped)
    def adj_stepped(table: array, at: int, theta: real, sine2: real, adj_ret: vec2):
        pass

    @wp.func
    def density(out: vec3, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        h = wp.where(transmitted == 1, -n, n)
        theta = degrees_of(-wp.dot(d, n))
        cosine = wp.dot(out, h)
        value = real(0.0)
        probability = real(0.0)
        if cosine > real(0.0):
            got = stepped(table, at, detach(theta), detach(real(1.0) - cosine * cosine))
            # a patch of sin^2 is 2 cos sin d(theta): per steradian the cosine over pi
            lobe = got[0] * cosine * real(0.3183098861837907)
            bsdf = surface_at(table, at, theta, degrees_of(cosine))
            ratio = real(1.0)
            if bsdf > real(0.0):
                ratio = bsdf / detach(bsdf)
            value = share * lobe * ratio
            if got[1] > real(0.0):
                probability = detach(lobe / got[1])
        return value, probability

    return density
