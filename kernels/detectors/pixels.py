"""The pixel coordinates of a hit, whatever the detector's row, and whether there is such a pixel."""

import functools

import warp as wp

from kernels import detectors
from kernels.precision import bundle
from kernels.trace import layout as at


@functools.cache
def pixel_of(precision):
    b = bundle(precision)
    real, array = b.real, b.array
    plane, far_field, cylinder, faces = (row.build(precision) for row in detectors.ROWS)

    @wp.func
    def pixel(
        numbers: array, reads: int, detector: int, nx: int, ny: int, cell: int, x: real, y: real, z: real,
        u: real, v: real, w: real,
    ):  # fmt: skip
        d = detector * wp.static(at.NUM_DETECTOR_NUMBERS)
        px = real(0.0)
        py = real(0.0)
        if reads == wp.static(detectors.PLANE):
            px, py = plane(numbers, d, nx, ny, cell, x, y, z, u, v, w)
        elif reads == wp.static(detectors.FAR_FIELD):
            px, py = far_field(numbers, d, nx, ny, cell, x, y, z, u, v, w)
        elif reads == wp.static(detectors.CYLINDER):
            px, py = cylinder(numbers, d, nx, ny, cell, x, y, z, u, v, w)
        else:
            px, py = faces(numbers, d, nx, ny, cell, x, y, z, u, v, w)
        return px, py

    @wp.func
    def has_pixel(reads: int, ny: int, py: real):
        """A direction beyond the last polar angle has none; a point of a surface always does."""
        return reads != wp.static(detectors.FAR_FIELD) or py < real(ny) - real(0.5)

    return pixel, has_pixel
