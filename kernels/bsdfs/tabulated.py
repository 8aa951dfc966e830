"""A measured lobe, sampled from a cosine about the normal and weighed by clip(pi f(theta_i, theta_s), 0, 1).

``table[at:]`` holds the number of incident and of scattered angles, the angles (degrees), and f row after row. Between
angles f is bilinear, outside of them 0.
"""

import warp as wp

from kernels.bsdfs.frames import frames
from kernels.precision import bundle

NAME = "tabulated"


def build(precision):
    b, f = bundle(precision), frames(precision)
    real, array, ld_plain, sin_turn, cos_turn = b.real, b.array, b.ld_plain, b.sin_turn, b.cos_turn
    vec3, along, bracket = f.vec3, f.along, f.bracket

    @wp.func
    def degrees_of(cosine: real):
        return wp.acos(wp.clamp(cosine, real(0.0), real(1.0))) * real(57.29577951308232)

    @wp.func
    def value_at(table: array, at: int, incident: real, scattered: real):
        n_i = int(ld_plain(table, at))
        n_s = int(ld_plain(table, at + 1))
        first_i = at + 2
        first_s = first_i + n_i
        values = first_s + n_s
        value = real(0.0)
        if (
            incident >= ld_plain(table, first_i)
            and incident <= ld_plain(table, first_i + n_i - 1)
            and scattered >= ld_plain(table, first_s)
            and scattered <= ld_plain(table, first_s + n_s - 1)
        ):
            i = bracket(table, first_i, n_i, incident)
            s = bracket(table, first_s, n_s, scattered)
            i1 = wp.min(i + 1, n_i - 1)
            s1 = wp.min(s + 1, n_s - 1)
            a = real(0.0)
            c = real(0.0)
            if i1 > i:
                a = (incident - ld_plain(table, first_i + i)) / (
                    ld_plain(table, first_i + i1) - ld_plain(table, first_i + i)
                )
            if s1 > s:
                c = (scattered - ld_plain(table, first_s + s)) / (
                    ld_plain(table, first_s + s1) - ld_plain(table, first_s + s)
                )
            one = real(1.0)
            low = (one - c) * ld_plain(table, values + i * n_s + s) + c * ld_plain(table, values + i * n_s + s1)
            high = (one - c) * ld_plain(table, values + i1 * n_s + s) + c * ld_plain(table, values + i1 * n_s + s1)
            value = (one - a) * low + a * high
        return value

    @wp.func_grad(value_at)
    def adj_value_at(table: array, at: int, incident: real, scattered: real, adj_ret: real):
        pass

    @wp.func
    def sample(u1: real, u2: real, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        h = wp.where(transmitted == 1, -n, n)
        cosine = wp.sqrt(u2)
        sine = wp.sqrt(real(1.0) - u2)
        value = value_at(table, at, degrees_of(-wp.dot(d, h)), degrees_of(cosine))
        weight = wp.clamp(real(3.141592653589793) * value, real(0.0), real(1.0))
        return along(sine * cos_turn(u1), sine * sin_turn(u1), cosine, h), share * weight

    return sample
