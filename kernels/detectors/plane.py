"""Pixels of a rectangle: p = (x / width + 1/2) n - 1/2 of the hit point in the detector's frame."""

import warp as wp

from kernels.detectors.frames import centred_of, point_of
from kernels.precision import bundle

NAME = "plane"


def build(precision):
    b = bundle(precision)
    real, array = b.real, b.array
    point, centred = point_of(precision), centred_of(precision)

    @wp.func
    def pixel(
        numbers: array, at: int, nx: int, ny: int, cell: int, x: real, y: real, z: real, u: real, v: real, w: real
    ):
        a, c, _s = point(numbers, at, x, y, z)
        return centred(a, numbers[at + 9], nx), centred(c, numbers[at + 10], ny)

    return pixel
