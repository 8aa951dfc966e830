"""A top-hat beam along +z from a disk. Shape numbers: aperture radius."""

import warp as wp

from kernels.precision import bundle
from kernels.rng import pcg32, slot_key, uniform_of

NAME = "collimated"
_U1, _U2 = wp.uint64(slot_key(0)), wp.uint64(slot_key(1))


def build(precision):
    b = bundle(precision)
    real, sqrt, sin_turn, cos_turn = b.real, b.sqrt, b.sin_turn, b.cos_turn
    uniform = uniform_of(precision)

    @wp.func
    def variates(id: wp.uint64, init: wp.uint64, p0: real, p1: real, p2: real, p3: real):
        """Uniform over the unit disk: r = sqrt(u1), azimuth 2 pi u2."""
        r = sqrt(uniform(pcg32(id, init, wp.static(_U1), wp.uint64(1), wp.uint64(0))))
        turn = uniform(pcg32(id, init, wp.static(_U2), wp.uint64(1), wp.uint64(0)))
        return r * cos_turn(turn), r * sin_turn(turn), real(0.0), real(0.0), real(0.0)

    @wp.func
    def place(v0: real, v1: real, v2: real, v3: real, v4: real, p0: real, p1: real, p2: real, p3: real):
        return p0 * v0, p0 * v1, real(0.0), real(0.0), real(1.0)

    return variates, place
