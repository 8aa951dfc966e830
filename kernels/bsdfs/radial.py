"""A lobe that depends on the distance |beta - beta0| in direction cosines from a reference ray alone.

The reference is the specular direction, or the ray straight on where transmitted. ``table[at:]`` holds the largest
distance, the number of entries, and the cumulative distribution of the distance over even steps from 0 to the largest.
An offset that leaves the unit disk keeps the reference direction and weighs nothing. Harvey-Shack, ABg and Gaussian
lobes are tables of this row.
"""

import warp as wp

from kernels.bsdfs.frames import frames
from kernels.precision import bundle

NAME = "radial"


def build(precision):
    b, f = bundle(precision), frames(precision)
    real, array, ld_plain = b.real, b.array, b.ld_plain
    sin_turn, cos_turn, sqrt = b.sin_turn, b.cos_turn, b.sqrt
    vec3, along, tangents, bracket = f.vec3, f.along, f.tangents, f.bracket

    @wp.func
    def sample(u1: real, u2: real, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        largest = ld_plain(table, at)
        count = int(ld_plain(table, at + 1))
        k = bracket(table, at + 2, count, u1)
        low = ld_plain(table, at + 2 + k)
        high = ld_plain(table, at + 3 + k)
        part = real(0.0)
        if high > low:
            part = (u1 - low) / (high - low)
        distance = largest * (real(k) + part) / real(count - 1)
        reference = d
        if transmitted == 0:
            reference = d - real(2.0) * wp.dot(d, n) * n
        x0, y0 = tangents(reference, n)
        x = x0 + distance * cos_turn(u2)
        y = y0 + distance * sin_turn(u2)
        room = real(1.0) - x * x - y * y
        direction = reference
        weight = real(0.0)
        if room >= real(0.0):
            z = sqrt(room)
            if wp.dot(reference, n) < real(0.0):
                z = -z
            direction = along(x, y, z, n)
            weight = share
        return direction, weight

    return sample
