"""Spreading a ray's flux over the pixels about a pixel coordinate p, and reading a map there.

Whole numbers of p are pixel centres. "hard" takes the pixel that holds the point, "bilinear" the four centres about it,
"gaussian" the (2 r + 1)^2 pixels about floor(p) with r = max(1, ceil(3 sigma)) and weights
exp(-(distance / sigma)^2 / 2), normalised over that window. Indices are clipped into the array, or in x go round where
the pixels close (an azimuth), so no flux is lost.

The backward pass needs the flux-weighted reading sum_k w_k G_k of a map G, and its slope along p; both come from the
closed forms below, since a loop over pixels must not be differentiated by Warp.
"""

import functools
from types import SimpleNamespace

import warp as wp

from kernels.precision import LONG, add_long, bundle
from kernels.trace import layout as at


@functools.cache
def splat(precision):
    b = bundle(precision)
    real, array = b.real, b.array
    vec3 = wp.types.vector(length=3, dtype=real)

    @wp.func
    def column(k: int, count: int, wraps: int):
        if wraps == 1:
            return ((k % count) + count) % count
        return wp.clamp(k, 0, count - 1)

    @wp.func
    def gauss(k: int, p: real, sigma: real):
        z = (real(k) - p) / sigma
        return wp.exp(real(-0.5) * z * z)

    @wp.func
    def normalisation(mode: int, reach: int, p: real, sigma: real):
        """Sum of a Gaussian window's weights along one axis, and its slope along p."""
        low = int(wp.floor(p))
        total = real(0.0)
        slope = real(0.0)
        if mode == wp.static(at.GAUSSIAN):
            for j in range(-reach, reach + 1):
                g = gauss(low + j, p, sigma)
                total += g
                slope += g * (real(low + j) - p) / (sigma * sigma)
        return total, slope

    # `normalisation` and `reading` loop over pixels, which Warp must not differentiate: their adjoints do nothing, and
    # the slopes that they return are used instead
    @wp.func_grad(normalisation)
    def adj_normalisation(mode: int, reach: int, p: real, sigma: real, adj_total: real, adj_slope: real):
        pass

    @wp.func
    def weight_of(mode: int, reach: int, p: real, sigma: real, total: real, total_slope: real, k: int):
        """Weight of the k-th neighbour along one axis, and its slope along p."""
        low = int(wp.floor(p))
        weight = real(1.0)
        slope = real(0.0)
        if mode == wp.static(at.BILINEAR):
            f = p - wp.floor(p)
            weight = wp.where(k == 0, real(1.0) - f, f)
            slope = wp.where(k == 0, real(-1.0), real(1.0))
        if mode == wp.static(at.GAUSSIAN):
            own = gauss(low - reach + k, p, sigma)
            weight = own / total
            slope = (own * (real(low - reach + k) - p) / (sigma * sigma) - weight * total_slope) / total
        return weight, slope

    @wp.func
    def first_pixel(mode: int, reach: int, p: real):
        low = int(wp.floor(p))
        if mode == wp.static(at.HARD):
            low = int(wp.floor(p + real(0.5)))
        if mode == wp.static(at.GAUSSIAN):
            low = low - reach
        return low

    @wp.func
    def neighbours(mode: int, reach: int):
        if mode == wp.static(at.BILINEAR):
            return 2
        if mode == wp.static(at.GAUSSIAN):
            return 2 * reach + 1
        return 1

    @wp.func
    def reading(
        field: array, offset: int, nx: int, ny: int, mode: int, wraps: int, reach: int, sigma: real, px: real, py: real
    ):
        """(sum_k w_k G_k, its slope along px, its slope along py) for a map G at ``field[offset:]``."""
        out = vec3(real(0.0), real(0.0), real(0.0))
        count = neighbours(mode, reach)
        x0 = first_pixel(mode, reach, px)
        y0 = first_pixel(mode, reach, py)
        tx, dx = normalisation(mode, reach, px, sigma)
        ty, dy = normalisation(mode, reach, py, sigma)
        for j in range(count):
            wy, sy = weight_of(mode, reach, py, sigma, ty, dy, j)
            iy = wp.clamp(y0 + j, 0, ny - 1)
            for i in range(count):
                wx, sx = weight_of(mode, reach, px, sigma, tx, dx, i)
                g = field[offset + iy * nx + column(x0 + i, nx, wraps)]
                out += vec3(wx * wy * g, sx * wy * g, wx * sy * g)
        return out

    @wp.func_grad(reading)
    def adj_reading(
        field: array, offset: int, nx: int, ny: int, mode: int, wraps: int, reach: int, sigma: real, px: real, py: real,
        adj_ret: vec3,
    ):  # fmt: skip
        pass

    @wp.func
    def read(
        field: array, offset: int, nx: int, ny: int, mode: int, wraps: int, reach: int, sigma: real, px: real, py: real
    ):
        r = reading(field, offset, nx, ny, mode, wraps, reach, sigma, px, py)
        return r[0]

    @wp.func_grad(read)
    def adj_read(
        field: array, offset: int, nx: int, ny: int, mode: int, wraps: int, reach: int, sigma: real, px: real, py: real,
        adj_ret: real,
    ):  # fmt: skip
        r = reading(field, offset, nx, ny, mode, wraps, reach, sigma, px, py)
        wp.adjoint[px] += adj_ret * r[1]
        wp.adjoint[py] += adj_ret * r[2]

    @wp.func
    def fixed(value: wp.float64):
        return wp.int64(wp.rint(value))

    @wp.func
    def spread(
        field: LONG, offset: int, nx: int, ny: int, mode: int, wraps: int, reach: int, sigma: real, px: real, py: real,
        flux: wp.float64,
    ):  # fmt: skip
        """Add ``flux`` (in quanta) to the map in fixed point."""
        if mode == wp.static(at.BILINEAR):
            # the common case without loops
            lx = wp.floor(px)
            ly = wp.floor(py)
            fx = wp.float64(px - lx)
            fy = wp.float64(py - ly)
            ix = int(lx)
            iy = int(ly)
            one = wp.float64(1.0)
            low = offset + wp.clamp(iy, 0, ny - 1) * nx
            high = offset + wp.clamp(iy + 1, 0, ny - 1) * nx
            left = column(ix, nx, wraps)
            right = column(ix + 1, nx, wraps)
            add_long(field, low + left, fixed(flux * (one - fx) * (one - fy)))
            add_long(field, low + right, fixed(flux * fx * (one - fy)))
            add_long(field, high + left, fixed(flux * (one - fx) * fy))
            add_long(field, high + right, fixed(flux * fx * fy))
            return
        count = neighbours(mode, reach)
        x0 = first_pixel(mode, reach, px)
        y0 = first_pixel(mode, reach, py)
        tx, dx = normalisation(mode, reach, px, sigma)
        ty, dy = normalisation(mode, reach, py, sigma)
        for j in range(count):
            wy, _sy = weight_of(mode, reach, py, sigma, ty, dy, j)
            iy = wp.clamp(y0 + j, 0, ny - 1)
            for i in range(count):
                wx, _sx = weight_of(mode, reach, px, sigma, tx, dx, i)
                add_long(field, offset + iy * nx + column(x0 + i, nx, wraps), fixed(flux * wp.float64(wx * wy)))

    return SimpleNamespace(reading=reading, read=read, spread=spread)
