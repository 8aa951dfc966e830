"""From the world to a detector's frame."""

import functools

import warp as wp

from kernels.precision import bundle


@functools.cache
def local_of(precision):
    b = bundle(precision)
    real, array = b.real, b.array

    @wp.func
    def local(numbers: array, at: int, x: real, y: real, z: real):
        """Components along the detector's three axes; the third is the cross product of the first two."""
        ax = numbers[at + 3]
        ay = numbers[at + 4]
        az = numbers[at + 5]
        bx = numbers[at + 6]
        by = numbers[at + 7]
        bz = numbers[at + 8]
        return (
            x * ax + y * ay + z * az,
            x * bx + y * by + z * bz,
            x * (ay * bz - az * by) + y * (az * bx - ax * bz) + z * (ax * by - ay * bx),
        )

    return local
