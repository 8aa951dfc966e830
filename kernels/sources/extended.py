"""A disk or rectangle that shines evenly from its area, Lambertian or evenly into a cone about +z.

Shape numbers: width, height (of a rectangle), radius (of a disk, else negative), 1 - cos(half angle) (of a cone;
negative for a Lambertian source).
"""

import warp as wp

from kernels.precision import DOUBLES, bundle
from kernels.rng import uniform_of
from kernels.sobol import bits_of

NAME = "extended"


def build(precision, sobol=False):
    b = bundle(precision)
    bits1, bits2 = bits_of(0, sobol), bits_of(1, sobol)
    bits3, bits4 = bits_of(2, sobol), bits_of(3, sobol)
    real, sqrt, sin_turn, cos_turn, select = b.real, b.sqrt, b.sin_turn, b.cos_turn, b.select
    uniform = uniform_of(precision)

    @wp.func
    def variates(id: wp.uint64, init: wp.uint64, table: DOUBLES, block: int, p0: real, p1: real, p2: real, p3: real):
        u1 = uniform(bits1(id, init))
        u2 = uniform(bits2(id, init))
        u3 = uniform(bits3(id, init))
        u4 = uniform(bits4(id, init))
        disk = p2 >= real(0.0)
        r = sqrt(u1)
        half = real(0.5)
        return (
            wp.where(disk, r * cos_turn(u2), u1 - half),
            wp.where(disk, r * sin_turn(u2), u2 - half),
            u3,
            cos_turn(u4),
            sin_turn(u4),
        )

    @wp.func
    def place(v0: real, v1: real, v2: real, v3: real, v4: real, p0: real, p1: real, p2: real, p3: real):
        disk = p2 >= real(0.0)
        lambertian = p3 < real(0.0)
        # Lambertian: cos = sqrt(u3), hence sin = sqrt(1 - u3)
        versine = v2 * select(lambertian, real(0.5), p3)
        sine = select(lambertian, sqrt(real(1.0) - v2), sqrt(versine * (real(2.0) - versine)))
        cosine = select(lambertian, sqrt(v2), real(1.0) - versine)
        return select(disk, p2, p0) * v0, select(disk, p2, p1) * v1, sine * v3, sine * v4, cosine

    return variates, place
