"""From the world to a detector's frame, and from there to pixels."""

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


@functools.cache
def point_of(precision):
    """A Warp function: a point in the detector's frame."""
    b = bundle(precision)
    real, array = b.real, b.array
    local = local_of(precision)

    @wp.func
    def point(numbers: array, at: int, x: real, y: real, z: real):
        return local(numbers, at, x - numbers[at], y - numbers[at + 1], z - numbers[at + 2])

    return point


@functools.cache
def centred_of(precision):
    """A Warp function: the pixel coordinate of a value from -extent / 2 to extent / 2 across ``count`` pixels."""
    real = bundle(precision).real

    @wp.func
    def centred(value: real, extent: real, count: int):
        half = real(0.5)
        return (value / extent + half) * real(count) - half

    return centred
