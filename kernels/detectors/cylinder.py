"""Pixels all round an axis: azimuth across, height along the axis down.

Width is the range of azimuth (360 degrees, closed), height the span of z about the detector's origin. On a sphere
pixels of equal height have equal areas (Archimedes).
"""

import warp as wp

from kernels.detectors.frames import centred_of, point_of
from kernels.precision import bundle

NAME = "cylinder"


def build(precision):
    b = bundle(precision)
    real, array = b.real, b.array
    point, centred = point_of(precision), centred_of(precision)

    @wp.func
    def pixel(
        numbers: array, at: int, nx: int, ny: int, cell: int, x: real, y: real, z: real, u: real, v: real, w: real
    ):
        a, c, s = point(numbers, at, x, y, z)
        phi = real(0.0)
        # on the axis azimuth has no derivative
        if a * a + c * c > real(0.0):
            phi = wp.atan2(c, a)
        degrees = real(57.29577951308232)
        return centred(phi * degrees, numbers[at + 9], nx), centred(s, numbers[at + 10], ny)

    return pixel
