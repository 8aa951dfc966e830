"""From hits of detectors to their maps, in two steps: where each hit lies in pixels, and what it adds to those."""

import functools

import warp as wp

from kernels.detectors.pixels import pixel_of
from kernels.detectors.splat import splat
from kernels.modules import kernel_module
from kernels.precision import INT, LONG, bundle, ld_table, ldi
from kernels.trace import layout as at

# columns of where a hit lies
PIXEL_X, PIXEL_Y = range(2)
NUM_PIXEL = 2
# builds of the kernel that finds pixels
BUILDS = ("any", "flat", "one_flat")
# quanta of a hit, from which on it is not believed
_MOST = 4.0e18


@functools.cache
def locate_kernel(precision, build):
    """Pixel coordinates of the cells that ``landed`` lists.

    ``build`` is one of `BUILDS`: for all kinds of detectors, and the vectorised ones for rectangles and for a single
    rectangle.
    """
    flat, alone = build != "any", build == "one_flat"
    b = bundle(precision)
    real, array, ld, st, ld_plain = b.real, b.array, b.ld, b.st, b.ld_plain
    pixel, _has_pixel = pixel_of(precision)

    def locate(
        floats_out: array, row_hit: INT, rows: LONG, numbers: array, detectors: INT, landed: INT, pixels: array,
        n: wp.int64,
    ):  # fmt: skip
        j = wp.tid()
        i = ldi(landed, 0, n, j)
        row = ldi(row_hit, 0, n, i)
        detector = 0
        if wp.static(not alone):
            detector = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.READER))
        c = detector * wp.static(at.NUM_DETECTOR_INTS)
        nx = ldi(detectors, 0, n, c + wp.static(at.PIXELS_X))
        ny = ldi(detectors, 0, n, c + wp.static(at.PIXELS_Y))
        if wp.static(flat):
            d = detector * wp.static(at.NUM_DETECTOR_NUMBERS)
            half = real(0.5)
            stride = wp.int32(n)
            x = ld_plain(floats_out, i) - ld_plain(numbers, d)
            y = ld_plain(floats_out, stride + i) - ld_plain(numbers, d + 1)
            z = ld_plain(floats_out, 2 * stride + i) - ld_plain(numbers, d + 2)
            s = x * ld_plain(numbers, d + 3) + y * ld_plain(numbers, d + 4) + z * ld_plain(numbers, d + 5)
            t = x * ld_plain(numbers, d + 6) + y * ld_plain(numbers, d + 7) + z * ld_plain(numbers, d + 8)
            st(pixels, wp.static(PIXEL_X), n, j, (s / ld_plain(numbers, d + 9) + half) * real(nx) - half)
            st(pixels, wp.static(PIXEL_Y), n, j, (t / ld_plain(numbers, d + 10) + half) * real(ny) - half)
        else:
            px, py = pixel(
                numbers, ldi(detectors, 0, n, c + wp.static(at.READS)), detector, nx, ny,
                row - ldi(detectors, 0, n, c + wp.static(at.FIRST_ROW)),
                ld(floats_out, wp.static(at.X), n, i), ld(floats_out, wp.static(at.Y), n, i),
                ld(floats_out, wp.static(at.Z), n, i), ld(floats_out, wp.static(at.L), n, i),
                ld(floats_out, wp.static(at.M), n, i), ld(floats_out, wp.static(at.N), n, i),
            )  # fmt: skip
            st(pixels, wp.static(PIXEL_X), n, j, px)
            st(pixels, wp.static(PIXEL_Y), n, j, py)

    return wp.kernel(
        locate, name=f"locate_{build}", module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False
    )


def locate_kernels(precision):
    """Every build of `locate_kernel`."""
    return [locate_kernel(precision, build) for build in BUILDS]


def locate_kernel_of(tables):
    """The build of `locate_kernel` for a scene."""
    if not tables.flat:
        return locate_kernel(tables.precision, "any")
    return locate_kernel(tables.precision, "one_flat" if len(tables.detector_sigmas) == 1 else "flat")


@functools.cache
def deposit_kernel(precision):
    """Add the hits that ``landed`` lists, at their ``pixels``, to the maps."""
    b = bundle(precision)
    array, ld, ld_plain = b.array, b.ld, b.ld_plain
    spread = splat(precision).spread
    _pixel, has_pixel = pixel_of(precision)

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def deposit(
        ints: INT, aux: array, row_hit: INT, rows: LONG, detectors: INT, planes: INT, sigmas: array, lines: int,
        maps: LONG, landed: INT, pixels: array, scale: wp.float64, n: wp.int64,
    ):  # fmt: skip
        j = wp.tid()
        i = ldi(landed, 0, n, j)
        row = ldi(row_hit, 0, n, i)
        detector = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.READER))
        c = detector * wp.static(at.NUM_DETECTOR_INTS)
        mode = ldi(detectors, 0, n, c + wp.static(at.SPLAT))
        flux = wp.float64(ld(aux, wp.static(at.FLUX_AT_HIT), n, i)) * scale
        if mode != wp.static(at.RECORD) and wp.abs(flux) < wp.float64(wp.static(_MOST)):
            nx = ldi(detectors, 0, n, c + wp.static(at.PIXELS_X))
            ny = ldi(detectors, 0, n, c + wp.static(at.PIXELS_Y))
            py = ld(pixels, wp.static(PIXEL_Y), n, j)
            # a spectral detector has one plane of pixels a bin
            plane = ldi(planes, 0, n, detector * lines + ldi(ints, wp.static(at.WAVELENGTH), n, i))
            if has_pixel(ldi(detectors, 0, n, c + wp.static(at.READS)), ny, py):
                spread(
                    maps, ldi(detectors, 0, n, c + wp.static(at.OFFSET)) + plane * nx * ny, nx, ny, mode,
                    ldi(detectors, 0, n, c + wp.static(at.WRAPS)), ldi(detectors, 0, n, c + wp.static(at.RADIUS)),
                    ld_plain(sigmas, detector), ld(pixels, wp.static(PIXEL_X), n, j), py, flux,
                )  # fmt: skip

    return deposit
