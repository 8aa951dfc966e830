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


def build_density(precision):
    b, f = bundle(precision), frames(precision)
    real, array, ld_plain, sqrt, detach = b.real, b.array, b.ld_plain, b.sqrt, b.detach
    vec3 = f.vec3
    two_pi = 6.283185307179586

    @wp.func
    def mean_of(table: array, at: int, cell: int):
        """Probability per unit of beta's plane in the middle of a cell of distances."""
        step = ld_plain(table, at) / (ld_plain(table, at + 1) - real(1.0))
        share = ld_plain(table, at + 3 + cell) - ld_plain(table, at + 2 + cell)
        return share / (real(wp.static(two_pi)) * (real(cell) + real(0.5)) * step * step)

    @wp.func
    def per_beta(table: array, at: int, distance: real):
        """Probability per unit of beta's plane at a distance from the reference: even over a cell's distances."""
        largest = ld_plain(table, at)
        cells = int(ld_plain(table, at + 1)) - 1
        out = real(0.0)
        if distance <= largest:
            step = largest / real(cells)
            cell = wp.min(int(distance / step), cells - 1)
            out = mean_of(table, at, cell) * (real(cell) + real(0.5)) * step / wp.max(distance, real(1.0e-6) * step)
        return out

    @wp.func_grad(per_beta)
    def adj_per_beta(table: array, at: int, distance: real, adj_ret: real):
        # the slope of the curve behind the steps, from the middles of the neighbouring cells
        largest = ld_plain(table, at)
        cells = int(ld_plain(table, at + 1)) - 1
        if distance <= largest:
            step = largest / real(cells)
            cell = wp.min(int(distance / step), cells - 1)
            low = wp.max(cell - 1, 0)
            high = wp.min(cell + 1, cells - 1)
            if high > low:
                slope = (mean_of(table, at, high) - mean_of(table, at, low)) / (real(high - low) * step)
                wp.adjoint[distance] += adj_ret * slope

    @wp.func
    def density(out: vec3, transmitted: int, d: vec3, n: vec3, share: real, table: array, at: int):
        reference = d
        if transmitted == 0:
            reference = d - real(2.0) * wp.dot(d, n) * n
        height = wp.dot(out, n)
        offset = out - reference
        across = offset - wp.dot(offset, n) * n
        per_steradian = real(0.0)
        if (height < real(0.0)) == (wp.dot(reference, n) < real(0.0)):
            # a patch of beta's plane is the cosine times its solid angle
            per_steradian = per_beta(table, at, sqrt(wp.dot(across, across))) * wp.abs(height)
        return share * per_steradian, detach(per_steradian)

    return density
