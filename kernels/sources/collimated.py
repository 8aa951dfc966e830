"""A top-hat beam along +z from a disk. Shape numbers: aperture radius."""

import warp as wp

from kernels.precision import DOUBLES, bundle
from kernels.rng import uniform_of
from kernels.sobol import bits_of

NAME = "collimated"


def build(precision, sobol=False):
    b = bundle(precision)
    bits1, bits2 = bits_of(0, sobol), bits_of(1, sobol)
    real, sqrt, sin_turn, cos_turn = b.real, b.sqrt, b.sin_turn, b.cos_turn
    uniform = uniform_of(precision)

    @wp.func
    def variates(id: wp.uint64, init: wp.uint64, table: DOUBLES, block: int, p0: real, p1: real, p2: real, p3: real):
        """Uniform over the unit disk: r = sqrt(u1), azimuth 2 pi u2."""
        r = sqrt(uniform(bits1(id, init)))
        turn = uniform(bits2(id, init))
        return r * cos_turn(turn), r * sin_turn(turn), real(0.0), real(0.0), real(0.0)

    @wp.func
    def place(v0: real, v1: real, v2: real, v3: real, v4: real, p0: real, p1: real, p2: real, p3: real):
        return p0 * v0, p0 * v1, real(0.0), real(0.0), real(1.0)

    return variates, place
