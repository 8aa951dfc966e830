"""Pixels of direction: azimuth across, polar angle down.

theta = angle between the ray and the detector's z axis, both hemispheres folded into one; phi = atan2(M, L). Width and
height are the ranges of phi (360 degrees, closed) and theta in degrees. A direction beyond the largest theta has no
pixel.
"""

import warp as wp

from kernels.detectors.frames import centred_of, local_of
from kernels.precision import bundle

NAME = "far field"


def build(precision):
    b = bundle(precision)
    real, array, sqrt = b.real, b.array, b.sqrt
    local, centred = local_of(precision), centred_of(precision)

    @wp.func
    def pixel(
        numbers: array, at: int, nx: int, ny: int, cell: int, x: real, y: real, z: real, u: real, v: real, w: real
    ):
        a, c, s = local(numbers, at, u, v, w)
        rho2 = a * a + c * c
        phi = real(0.0)
        theta = real(0.0)
        # on the axis phi has no derivative, and theta none either
        if rho2 > real(0.0):
            phi = wp.atan2(c, a)
            theta = wp.atan2(sqrt(rho2), wp.abs(s))
        degrees = real(57.29577951308232)
        across = centred(phi * degrees, numbers[at + 9], nx)
        return across, theta * degrees / numbers[at + 10] * real(ny) - real(0.5)

    return pixel
