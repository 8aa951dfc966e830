"""One pixel for each row of a detector, as a mesh has one for each of its triangles."""

import warp as wp

from kernels.precision import bundle

NAME = "faces"


def build(precision):
    b = bundle(precision)
    real, array = b.real, b.array

    @wp.func
    def pixel(
        numbers: array, at: int, nx: int, ny: int, cell: int, x: real, y: real, z: real, u: real, v: real, w: real
    ):
        return real(cell), real(0.0)

    return pixel
