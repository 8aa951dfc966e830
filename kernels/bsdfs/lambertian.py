"""A cosine lobe about the normal, or about its opposite where transmitted: azimuth 2 pi u1, cos(theta) = sqrt(u2)."""

import warp as wp

from kernels.bsdfs.frames import frames
from kernels.precision import bundle

NAME = "lambertian"


def build(precision):
    b, f = bundle(precision), frames(precision)
    real, array, sin_turn, cos_turn = b.real, b.array, b.sin_turn, b.cos_turn
    vec3, along = f.vec3, f.along

    @wp.func
    def sample(u1: real, u2: real, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        h = wp.where(transmitted == 1, -n, n)
        sine = wp.sqrt(real(1.0) - u2)
        return along(sine * cos_turn(u1), sine * sin_turn(u1), wp.sqrt(u2), h), share

    return sample


def build_density(precision):
    b = bundle(precision)
    real, array, detach, vec3 = b.real, b.array, b.detach, frames(precision).vec3

    @wp.func
    def density(out: vec3, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        h = wp.where(transmitted == 1, -n, n)
        per_steradian = wp.max(wp.dot(out, h), real(0.0)) * real(0.3183098861837907)
        return share * per_steradian, detach(per_steradian)

    return density
