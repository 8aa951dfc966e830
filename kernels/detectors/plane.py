"""Pixels of a rectangle: p = (x / width + 1/2) n - 1/2 of the hit point in the detector's frame."""

import warp as wp

from kernels.detectors.frames import local_of
from kernels.precision import bundle

NAME = "plane"


def build(precision):
    b = bundle(precision)
    real, array = b.real, b.array
    local = local_of(precision)

    @wp.func
    def pixel(
        numbers: array, at: int, nx: int, ny: int, cell: int, x: real, y: real, z: real, u: real, v: real, w: real
    ):
        a, c, _s = local(numbers, at, x - numbers[at], y - numbers[at + 1], z - numbers[at + 2])
        half = real(0.5)
        return (a / numbers[at + 9] + half) * real(nx) - half, (c / numbers[at + 10] + half) * real(ny) - half

    return pixel
