"""A mirror lobe: the incident direction reflected at the normal, never transmitted."""

import warp as wp

from kernels.bsdfs.frames import frames
from kernels.precision import bundle

NAME = "specular"


def build(precision):
    b = bundle(precision)
    real, array, vec3 = b.real, b.array, frames(precision).vec3

    @wp.func
    def sample(u1: real, u2: real, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        return d - real(2.0) * wp.dot(d, n) * n, real(1.0)

    return sample
