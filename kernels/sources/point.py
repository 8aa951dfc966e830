"""A point that shines evenly into a cone about +z. Shape numbers: 1 - cos(half angle)."""

import warp as wp

from kernels.precision import DOUBLES, bundle
from kernels.rng import uniform_of
from kernels.sobol import bits_of

NAME = "point"


def build(precision, sobol=False):
    b = bundle(precision)
    bits1, bits2 = bits_of(0, sobol), bits_of(1, sobol)
    real, sqrt, sin_turn, cos_turn = b.real, b.sqrt, b.sin_turn, b.cos_turn
    uniform = uniform_of(precision)

    @wp.func
    def variates(id: wp.uint64, init: wp.uint64, table: DOUBLES, block: int, p0: real, p1: real, p2: real, p3: real):
        u1 = uniform(bits1(id, init))
        turn = uniform(bits2(id, init))
        return u1, cos_turn(turn), sin_turn(turn), real(0.0), real(0.0)

    @wp.func
    def place(v0: real, v1: real, v2: real, v3: real, v4: real, p0: real, p1: real, p2: real, p3: real):
        """cos = 1 - u1 (1 - cos half angle); the sine from 1 - cos, which stays exact near the axis."""
        versine = v0 * p0
        sine = sqrt(versine * (real(2.0) - versine))
        return real(0.0), real(0.0), sine * v1, sine * v2, real(1.0) - versine

    return variates, place
