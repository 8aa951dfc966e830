"""A measured lobe, sampled from a cosine about the normal and weighed by clip(pi f(theta_i, theta_s), 0, 1).

The table is a grid of `kernels.bsdfs.grids`.
"""

import warp as wp

from kernels.bsdfs.frames import frames
from kernels.bsdfs.grids import grids
from kernels.precision import bundle

NAME = "tabulated"


def build(precision):
    b, f = bundle(precision), frames(precision)
    real, array, sin_turn, cos_turn = b.real, b.array, b.sin_turn, b.cos_turn
    vec3, along = f.vec3, f.along
    degrees_of, value_at = grids(precision).degrees_of, grids(precision).value_at

    @wp.func
    def sample(u1: real, u2: real, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        h = wp.where(transmitted == 1, -n, n)
        cosine = wp.sqrt(u2)
        sine = wp.sqrt(real(1.0) - u2)
        value = value_at(table, at, degrees_of(-wp.dot(d, n)), degrees_of(cosine))
        weight = wp.clamp(real(3.141592653589793) * value, real(0.0), real(1.0))
        return along(sine * cos_turn(u1), sine * sin_turn(u1), cosine, h), share * weight

    return sample


def build_density(precision):
    b = bundle(precision)
    real, array, detach, vec3 = b.real, b.array, b.detach, frames(precision).vec3
    degrees_of, surface_at = grids(precision).degrees_of, grids(precision).surface_at

    @wp.func
    def density(out: vec3, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        h = wp.where(transmitted == 1, -n, n)
        cosine = wp.dot(out, h)
        lobe = wp.max(cosine, real(0.0)) * real(0.3183098861837907)
        bsdf = surface_at(table, at, degrees_of(-wp.dot(d, n)), degrees_of(cosine))
        weight = wp.clamp(real(3.141592653589793) * bsdf, real(0.0), real(1.0))
        return share * weight * lobe, detach(lobe)

    return density
