"""Bookkeeping after an interaction, in 64-bit fixed point: integer sums give the same bits in any order.

What a ray loses is booked as the difference of its flux in quanta before and after, so that the ledger closes exactly.
None of this is differentiated.
"""

import functools

import warp as wp

from kernels.detectors.pixels import pixel_of
from kernels.detectors.splat import splat
from kernels.modules import kernel_module
from kernels.precision import INT, LONG, add_long, bundle, ld_table, ldi, sti
from kernels.rng import join_key, pcg32, uniform_of
from kernels.trace import layout as at

_COUNT = """
#if defined(__CUDA_ARCH__)
    return atomicAdd(a.data + j, v);
#else
    wp::int32 old = a.data[j];
    a.data[j] = old + v;
    return old;
#endif
"""


@wp.func_native(_COUNT)
def count_up(a: INT, j: int, v: wp.int32) -> wp.int32: ...


@wp.func
def key_of(ints: INT, base: wp.uint64, own_keys: int, n: wp.int64, i: int):
    """A ray's part of its random keys: its id, or where rays split a key of its own."""
    key = base + wp.uint64(ldi(ints, wp.static(at.SLOT), n, i))
    if own_keys == 1:
        key = join_key(ldi(ints, wp.static(at.KEY_LOW), n, i), ldi(ints, wp.static(at.KEY_HIGH), n, i))
    return key


@wp.func
def book_stray(row_books: LONG, cell: int, flux: wp.int64, key: int):
    """Enter a ray that arrived in another medium than the one on its side of the surface."""
    k = wp.int64(key)
    add_long(row_books, cell + wp.static(at.ROW_STRAYS), wp.int64(1))
    add_long(row_books, cell + wp.static(at.ROW_STRAY_FLUX), flux)
    add_long(row_books, cell + wp.static(at.ROW_STRAY_KEY), k)
    add_long(row_books, cell + wp.static(at.ROW_STRAY_KEY2), k * k)


@functools.cache
def book_kernel(precision):
    """Ledger, per-row books and the counters that steer the loop."""
    b = bundle(precision)
    real, array, ld = b.real, b.array, b.ld

    @wp.func
    def quanta(value: real, scale: wp.float64, ledger: LONG):
        q = wp.float64(value) * scale
        # also false for NaN
        if wp.abs(q) < wp.float64(4.0e18):
            return wp.int64(wp.rint(q))
        add_long(ledger, wp.static(at.BAD_COUNT), wp.int64(1))
        return wp.int64(0)

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def book(
        floats: array, ints: INT, floats_out: array, ints_out: INT, aux: array, row_hit: INT, rows: LONG,
        detectors: INT, classes: INT, ledger: LONG, row_books: LONG, counters: INT,
        scale: wp.float64, faint: real, exact: int, last_bounce: int, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            before = quanta(ld(floats, wp.static(at.FLUX), n, i), scale, ledger)
            state = ldi(ints_out, wp.static(at.STATE), n, i)
            if state == wp.static(at.ESCAPED):
                add_long(ledger, wp.static(at.ESCAPE_FLUX), before)
                add_long(ledger, wp.static(at.ESCAPE_COUNT), wp.int64(1))
            row = ldi(row_hit, 0, n, i)
            leaving = real(0.0)
            after = wp.int64(0)
            if state == wp.static(at.ALIVE):
                leaving = ld(floats_out, wp.static(at.FLUX), n, i)
                after = quanta(leaving, scale, ledger)
                if row < 0:
                    # a collision inside a medium
                    add_long(ledger, wp.static(at.BULK), before - after)
            if row >= 0:
                kind = ld_table(rows, row * wp.static(at.NUM_ROW_INTS))
                cell = row * wp.static(at.NUM_ROW_BOOKS)
                arriving = quanta(ld(aux, wp.static(at.FLUX_AT_HIT), n, i), scale, ledger)
                add_long(ledger, wp.static(at.BULK), before - arriving)
                add_long(row_books, cell + wp.static(at.ROW_HITS), wp.int64(1))
                add_long(row_books, cell + wp.static(at.ROW_INCIDENT), arriving)
                word = ldi(ints_out, wp.static(at.MEDIUM), n, i)
                # set at refracting surfaces alone
                if (word & wp.static(at.STRAY | at.UNDERFLOW)) > 0:
                    medium = ldi(ints, wp.static(at.MEDIUM), n, i) & wp.static(at.MEDIUM_MASK)
                    side = wp.where((word & wp.static(at.FROM_BACK)) > 0, 1, 0)
                    own = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.FRONT) + side)
                    if classes[medium] != classes[own]:
                        book_stray(row_books, cell, arriving, 2 * medium + side)
                    if (word & wp.static(at.UNDERFLOW)) > 0:
                        add_long(ledger, wp.static(at.UNDERFLOW_COUNT), wp.int64(1))
                if kind >= wp.static(at.DETECTOR):
                    add_long(ledger, wp.static(at.DETECTED_FLUX), arriving)
                    if kind == wp.static(at.TAP):
                        add_long(ledger, wp.static(at.TAPPED_FLUX), arriving)
                    reader = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.READER))
                    mode = detectors[reader * wp.static(at.NUM_DETECTOR_INTS) + wp.static(at.SPLAT)]
                    count_up(counters, wp.where(mode == wp.static(at.RECORD), wp.static(at.RECORD_HITS),
                                                wp.static(at.SPLAT_HITS)), 1)  # fmt: skip
                if state == wp.static(at.ABSORBED):
                    add_long(ledger, wp.static(at.ABSORBED_FLUX), arriving)
                    add_long(ledger, wp.static(at.ABSORBED_COUNT), wp.int64(1))
                    add_long(row_books, cell + wp.static(at.ROW_LOSS), arriving)
                if state == wp.static(at.ALIVE):
                    lobe = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.LOBE))
                    if kind == wp.static(at.COATED) or kind == wp.static(at.MIRROR) or lobe >= 0:
                        lost = arriving - after
                        if exact == 0:
                            lost = quanta(ld(aux, wp.static(at.LOSS), n, i), scale, ledger)
                        add_long(ledger, wp.static(at.COATING_FLUX), lost)
                        add_long(row_books, cell + wp.static(at.ROW_LOSS), lost)
            if state == wp.static(at.ALIVE):
                if last_bounce == 1:
                    add_long(ledger, wp.static(at.DEPTH_FLUX), after)
                    add_long(ledger, wp.static(at.DEPTH_COUNT), wp.int64(1))
                else:
                    count_up(counters, wp.static(at.LIVE), 1)
                    if leaving > real(0.0) and leaving < faint:
                        count_up(counters, wp.static(at.FAINT), 1)

    return book


@functools.cache
def deposit_kernel(precision):
    """Add this bounce's detector hits to the maps."""
    b = bundle(precision)
    array, ld = b.array, b.ld
    spread = splat(precision).spread
    pixel, has_pixel = pixel_of(precision)

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def deposit(
        ints: INT, floats_out: array, aux: array, row_hit: INT, rows: LONG, numbers: array, detectors: INT, planes: INT,
        sigmas: array, lines: int, maps: LONG, scale: wp.float64, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        row = ldi(row_hit, 0, n, i)
        detector = int(-1)
        if row >= 0:
            detector = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.READER))
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE) and detector >= 0:
            c = detector * wp.static(at.NUM_DETECTOR_INTS)
            mode = detectors[c + wp.static(at.SPLAT)]
            flux = wp.float64(ld(aux, wp.static(at.FLUX_AT_HIT), n, i)) * scale
            if mode != wp.static(at.RECORD) and wp.abs(flux) < wp.float64(4.0e18):
                nx = detectors[c + wp.static(at.PIXELS_X)]
                ny = detectors[c + wp.static(at.PIXELS_Y)]
                reads = detectors[c + wp.static(at.READS)]
                px, py = pixel(
                    numbers, reads, detector, nx, ny, row - detectors[c + wp.static(at.FIRST_ROW)],
                    ld(floats_out, wp.static(at.X), n, i),
                    ld(floats_out, wp.static(at.Y), n, i), ld(floats_out, wp.static(at.Z), n, i),
                    ld(floats_out, wp.static(at.L), n, i), ld(floats_out, wp.static(at.M), n, i),
                    ld(floats_out, wp.static(at.N), n, i),
                )  # fmt: skip
                # a spectral detector has one plane of pixels a bin
                plane = planes[detector * lines + ldi(ints, wp.static(at.WAVELENGTH), n, i)]
                if has_pixel(reads, ny, py):
                    spread(
                        maps, detectors[c + wp.static(at.OFFSET)] + plane * nx * ny, nx, ny, mode,
                        detectors[c + wp.static(at.WRAPS)], detectors[c + wp.static(at.RADIUS)], sigmas[detector],
                        px, py, flux,
                    )  # fmt: skip

    return deposit


@functools.cache
def roulette_kernel(precision):
    """Unbiased end for faint rays: survive with q = max(flux / threshold, 0.05), and carry flux / q from there on.

    ``boost`` keeps the factor, which the backward pass multiplies gradients with; the decision itself has none.
    """
    b = bundle(precision)
    real, array, ld, st, st_plain = b.real, b.array, b.ld, b.st, b.st_plain
    uniform = uniform_of(precision)

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def roulette(
        floats: array, ints: INT, boost: array, ledger: LONG, counters: INT, scale: wp.float64, faint: real,
        base: wp.uint64, init: wp.uint64, key: wp.uint64, jump_a: wp.uint64, jump_c: wp.uint64, own_keys: int,
        n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        flux = ld(floats, wp.static(at.FLUX), n, i)
        factor = real(1.0)
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE) and flux > real(0.0) and flux < faint:
            q = wp.max(flux / faint, real(0.05))
            if uniform(pcg32(key_of(ints, base, own_keys, n, i), init, key, jump_a, jump_c)) < q:
                factor = real(1.0) / q
                # what a survivor gains was booked as lost with those that were killed
                gained = wp.int64(wp.rint(wp.float64(flux * factor) * scale)) - wp.int64(
                    wp.rint(wp.float64(flux) * scale)
                )
                add_long(ledger, wp.static(at.ROULETTE_FLUX), -gained)
            else:
                factor = real(0.0)
                sti(ints, wp.static(at.STATE), n, i, wp.static(at.DEAD))
                given_up = wp.int64(wp.rint(wp.float64(flux) * scale))
                add_long(ledger, wp.static(at.ROULETTE_FLUX), given_up)
                add_long(ledger, wp.static(at.KILLED_FLUX), given_up)
                add_long(ledger, wp.static(at.ROULETTE_COUNT), wp.int64(1))
                count_up(counters, wp.static(at.LIVE), -1)
            st(floats, wp.static(at.FLUX), n, i, flux * factor)
        st_plain(boost, 0, n, i, factor)

    return roulette


@functools.cache
def compact_kernels(precision):
    """``(select, gather)``: list the cells of live rays, then move them to the front of another set of arrays."""
    b = bundle(precision)
    array, ld, st = b.array, b.ld, b.st
    module = kernel_module(f"kernels.trace.{precision}")

    @wp.kernel(module=module, enable_backward=False)
    def select_live(ints: INT, kept: INT, counter: INT, n: wp.int64):
        i = wp.tid()
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            kept[count_up(counter, 0, 1)] = i

    @wp.kernel(module=module, enable_backward=False)
    def gather(floats: array, ints: INT, kept: INT, floats_out: array, ints_out: INT, columns: int, n: wp.int64):
        j = wp.tid()
        i = kept[j]
        for c in range(wp.static(at.NUM_FLOATS)):
            st(floats_out, c, n, j, ld(floats, c, n, i))
        for c in range(columns):
            sti(ints_out, c, n, j, ldi(ints, c, n, i))

    return select_live, gather
