"""Kernels of the backward pass beside the adjoints of emission and interaction."""

import functools

import warp as wp

from kernels.detectors.pixels import pixel_of
from kernels.detectors.splat import splat
from kernels.modules import kernel_module
from kernels.precision import INT, LONG, bundle, ld_table, ldi
from kernels.shapes.quadric import NUM_NUMBERS
from kernels.trace import layout as at
from kernels.trace.deposit import PIXEL_X, PIXEL_Y


@functools.cache
def readout_kernel(precision):
    """What a ray's detector hit adds to the loss, linear in its flux: flux (total_weight + sum_k w_k G_k).

    ``weights`` holds the loss's derivatives with respect to the maps, ``total_weights`` those to the detectors' total
    flux. Launched as an adjoint, it turns them into gradients of the ray's state and of the detector's numbers. Only
    the cells that ``landed`` lists are looked at.
    """
    b = bundle(precision)
    array = b.array
    read = splat(precision).read
    pixel, has_pixel = pixel_of(precision)

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}.adjoint", backward=True))
    def readout(
        floats: array, ints: INT, row_hit: INT, rows: LONG, numbers: array, detectors: INT, planes: INT, sigmas: array,
        weights: array, total_weights: array, lines: int, value: array, landed: INT, n: int,
    ):  # fmt: skip
        i = landed[wp.tid()]
        row = row_hit[i]
        detector = int(-1)
        if row >= 0:
            detector = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.READER))
        if ints[wp.static(at.STATE) * n + i] == wp.static(at.ALIVE) and detector >= 0:
            c = detector * wp.static(at.NUM_DETECTOR_INTS)
            mode = detectors[c + wp.static(at.SPLAT)]
            flux = floats[wp.static(at.FLUX) * n + i]
            if mode == wp.static(at.RECORD):
                value[i] = flux * total_weights[detector]
            else:
                nx = detectors[c + wp.static(at.PIXELS_X)]
                ny = detectors[c + wp.static(at.PIXELS_Y)]
                reads = detectors[c + wp.static(at.READS)]
                px, py = pixel(
                    numbers, reads, detector, nx, ny, row - detectors[c + wp.static(at.FIRST_ROW)],
                    floats[wp.static(at.X) * n + i],
                    floats[wp.static(at.Y) * n + i], floats[wp.static(at.Z) * n + i],
                    floats[wp.static(at.L) * n + i], floats[wp.static(at.M) * n + i],
                    floats[wp.static(at.N) * n + i],
                )  # fmt: skip
                plane = planes[detector * lines + ints[wp.static(at.WAVELENGTH) * n + i]]
                if has_pixel(reads, ny, py):
                    seen = read(
                        weights, detectors[c + wp.static(at.OFFSET)] + plane * nx * ny, nx, ny, mode,
                        detectors[c + wp.static(at.WRAPS)], detectors[c + wp.static(at.RADIUS)], sigmas[detector],
                        px, py,
                    )  # fmt: skip
                    value[i] = flux * (total_weights[detector] + seen)
                else:
                    value[i] = flux * total_weights[detector]

    return readout


# columns of what a hit reads: its share of the loss for each watt, and the slopes of that along the pixel coordinates
VALUE, SLOPE_X, SLOPE_Y = range(3)
NUM_READING = 3


@functools.cache
def weigh_kernel(precision, bilinear):
    """Read the map's derivatives at the ``pixels`` of the hits that ``landed`` lists.

    With ``bilinear`` every hit is spread so: without the loops of other splats the compiler vectorises it.
    """
    b = bundle(precision)
    real, array, ld, st, ld_plain = b.real, b.array, b.ld, b.st, b.ld_plain
    reading = splat(precision).reading
    triple = wp.types.vector(3, real)

    @wp.func
    def of_four(weights: array, start: int, nx: int, ny: int, px: real, py: real):
        """The share of the loss at a place between four pixels, and its slopes."""
        lx = wp.floor(px)
        ly = wp.floor(py)
        fx = px - lx
        fy = py - ly
        left = wp.clamp(int(lx), 0, nx - 1)
        right = wp.clamp(int(lx) + 1, 0, nx - 1)
        low = start + wp.clamp(int(ly), 0, ny - 1) * nx
        high = start + wp.clamp(int(ly) + 1, 0, ny - 1) * nx
        a0 = ld_plain(weights, low + left)
        a1 = ld_plain(weights, low + right)
        b0 = ld_plain(weights, high + left)
        b1 = ld_plain(weights, high + right)
        a = a0 + fx * (a1 - a0)
        b_ = b0 + fx * (b1 - b0)
        return triple(a + fy * (b_ - a), (a1 - a0) + fy * ((b1 - b0) - (a1 - a0)), b_ - a)

    def weigh(
        ints: INT, row_hit: INT, rows: LONG, detectors: INT, planes: INT, sigmas: array, weights: array,
        total_weights: array, lines: int, landed: INT, pixels: array, readings: array, n: wp.int64,
    ):  # fmt: skip
        j = wp.tid()
        i = ldi(landed, 0, n, j)
        detector = ld_table(rows, ldi(row_hit, 0, n, i) * wp.static(at.NUM_ROW_INTS) + wp.static(at.READER))
        c = detector * wp.static(at.NUM_DETECTOR_INTS)
        nx = ldi(detectors, 0, n, c + wp.static(at.PIXELS_X))
        ny = ldi(detectors, 0, n, c + wp.static(at.PIXELS_Y))
        plane = ldi(planes, 0, n, detector * lines + ldi(ints, wp.static(at.WAVELENGTH), n, i))
        start = ldi(detectors, 0, n, c + wp.static(at.OFFSET)) + plane * nx * ny
        px = ld(pixels, wp.static(PIXEL_X), n, j)
        py = ld(pixels, wp.static(PIXEL_Y), n, j)
        seen = triple()
        if wp.static(bilinear):
            seen = of_four(weights, start, nx, ny, px, py)
        else:
            mode = ldi(detectors, 0, n, c + wp.static(at.SPLAT))
            if mode == wp.static(at.BILINEAR):
                seen = of_four(weights, start, nx, ny, px, py)
            elif mode != wp.static(at.RECORD):
                seen = reading(
                    weights, start, nx, ny, mode, 0, ldi(detectors, 0, n, c + wp.static(at.RADIUS)),
                    ld_plain(sigmas, detector), px, py,
                )  # fmt: skip
        st(readings, wp.static(VALUE), n, j, seen[0] + ld_plain(total_weights, detector))
        st(readings, wp.static(SLOPE_X), n, j, seen[1])
        st(readings, wp.static(SLOPE_Y), n, j, seen[2])

    name = "weigh_bilinear" if bilinear else "weigh"
    return wp.kernel(weigh, name=name, module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)


@functools.cache
def flat_pull_kernel(precision):
    """Add what follows from the readings of `weigh_kernel`, for flux and place, to the gradients of the states."""
    b = bundle(precision)
    real, array, ld, st, ld_plain = b.real, b.array, b.ld, b.st, b.ld_plain

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def pull(
        floats: array, gradients: array, row_hit: INT, rows: LONG, numbers: array, detectors: INT, landed: INT,
        readings: array, n: wp.int64,
    ):  # fmt: skip
        j = wp.tid()
        i = ldi(landed, 0, n, j)
        detector = ld_table(rows, ldi(row_hit, 0, n, i) * wp.static(at.NUM_ROW_INTS) + wp.static(at.READER))
        c = detector * wp.static(at.NUM_DETECTOR_INTS)
        d = detector * wp.static(at.NUM_DETECTOR_NUMBERS)
        flux = ld(floats, wp.static(at.FLUX), n, i)
        along_x = real(ldi(detectors, 0, n, c + wp.static(at.PIXELS_X))) / ld_plain(numbers, d + 9)
        along_y = real(ldi(detectors, 0, n, c + wp.static(at.PIXELS_Y))) / ld_plain(numbers, d + 10)
        along_x = flux * ld(readings, wp.static(SLOPE_X), n, j) * along_x
        along_y = flux * ld(readings, wp.static(SLOPE_Y), n, j) * along_y
        for k in range(wp.static(3)):
            more = along_x * ld_plain(numbers, d + 3 + k) + along_y * ld_plain(numbers, d + 6 + k)
            st(gradients, k, n, i, ld(gradients, k, n, i) + more)
        value = ld(readings, wp.static(VALUE), n, j)
        st(gradients, wp.static(at.FLUX), n, i, ld(gradients, wp.static(at.FLUX), n, i) + value)

    return pull


def flat_readout_kernels(precision, bilinear):
    """``(weigh, pull)``: the adjoint of `readout_kernel` for rectangles whose own numbers have no gradient."""
    return weigh_kernel(precision, bilinear), flat_pull_kernel(precision)


@functools.cache
def uncompact_kernels(precision):
    """``(clear, uncompact)``: undo a compaction for gradients.

    Cell ``kept[j]`` gets the gradient of cell ``j``; the others must be cleared before.
    """
    b = bundle(precision)
    real, array, ld, st = b.real, b.array, b.ld, b.st
    module = kernel_module(f"kernels.trace.{precision}")

    @wp.kernel(module=module, enable_backward=False)
    def clear(gradients_out: array, n: wp.int64):
        i = wp.tid()
        for c in range(wp.static(at.NUM_FLOATS)):
            st(gradients_out, c, n, i, real(0.0))

    @wp.kernel(module=module, enable_backward=False)
    def uncompact(gradients: array, kept: INT, gradients_out: array, n: wp.int64):
        j = wp.tid()
        i = ldi(kept, 0, n, j)
        for c in range(wp.static(at.NUM_FLOATS)):
            st(gradients_out, c, n, i, ld(gradients, c, n, j))

    return clear, uncompact


@functools.cache
def scale_kernel(precision):
    """Gradients pass a roulette multiplied by the survivor's factor."""
    b = bundle(precision)
    array, ld, ld_fixed, st = b.array, b.ld, b.ld_fixed, b.st

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def scale(gradients: array, boost: array, n: wp.int64):
        i = wp.tid()
        st(gradients, wp.static(at.FLUX), n, i, ld(gradients, wp.static(at.FLUX), n, i) * ld_fixed(boost, i))

    return scale


# The numbers in the code are those of `layout`. The rays of a stretch mostly meet one surface in one medium with one
# wavelength: theirs are added eight at a time, in double precision, and entered where the surface changes; what others
# bring is entered ray by ray. A GPU's thread does that with all of its few rays.
_SUM = """
    wp::int32 columns[15], used = 0;
    for (wp::int32 c = 0; with_numbers && c < {NUMBERS}; ++c)
        columns[used++] = c;
    if (with_tables) {{
        columns[used++] = {INDEX_FRONT};
        columns[used++] = {INDEX_BACK};
        if (with_absorption)
            columns[used++] = {EXTINCTION};
        if (with_coats) {{
            columns[used++] = {REFLECTANCE};
            columns[used++] = {TRANSMITTANCE};
        }}
    }}
    const {T}* values = acc.data;
    const wp::int32* met = row_hit.data;
    const wp::int32* state = ints.data + {STATE} * n;
    const wp::int32* wave = ints.data + {WAVELENGTH} * n;
    const wp::int32* within = ints.data + {MEDIUM} * n;
    auto cell = [&](wp::int32 c, wp::int32 row, wp::int32 line, wp::int32 medium) -> double* {{
        const wp::int64* codes = rows.data + (long long)row * {ROW_INTS};
        if (c < {NUMBERS})
            return numbers.data + (long long)row * {NUMBERS} + c;
        if (c == {INDEX_FRONT})
            return index.data + codes[{FRONT}] * lines + line;
        if (c == {INDEX_BACK})
            return index.data + codes[{BACK}] * lines + line;
        if (c == {EXTINCTION})
            return extinction.data + (long long)medium * lines + line;
        return (c == {REFLECTANCE} ? reflectance : transmittance).data + (long long)row * lines + line;
    }};
    auto add = [&](wp::int32 i) {{
        if (met[i] < 0 || state[i] != {ALIVE})
            return;
        for (wp::int32 k = 0; k < used; ++k) {{
            const double value = (double)values[columns[k] * n + i];
            double* sum = cell(columns[k], met[i], wave[i], within[i] & {MASK});
#if defined(__CUDA_ARCH__)
            atomicAdd(sum, value);
#else
            *sum += value;
#endif
        }}
    }};
    wp::int32 i = start;
#if !defined(__CUDA_ARCH__)
    typedef {T} values8 __attribute__((vector_size(8 * sizeof({T}))));
    typedef double doubles8 __attribute__((vector_size(64)));
    typedef long long longs8 __attribute__((vector_size(64)));
    typedef int ints8 __attribute__((vector_size(32)));
    auto eight = [](const wp::int32* from) {{
        ints8 v;
        __builtin_memcpy(&v, from, sizeof(v));
        return v;
    }};
    doubles8 sums[15] = {{}};
    wp::int32 row = -2, line = 0, medium = 0;
    auto enter = [&]() {{
        for (wp::int32 k = 0; k < used; ++k) {{
            const doubles8 s = sums[k];
            const double low = (s[0] + s[1]) + (s[2] + s[3]), high = (s[4] + s[5]) + (s[6] + s[7]);
            if (row >= 0)
                *cell(columns[k], row, line, medium) += low + high;
            sums[k] = doubles8{{}};
        }}
    }};
    for (; i + 8 <= stop; i += 8) {{
        const ints8 met8 = eight(met + i), wave8 = eight(wave + i), within8 = eight(within + i) & {MASK};
        const ints8 lives = (met8 >= 0) & (eight(state + i) == {ALIVE});
        ints8 mine = lives & (met8 == row) & (wave8 == line) & (within8 == medium);
        const wp::int32 all = -__builtin_reduce_add(lives);
        wp::int32 alike = -__builtin_reduce_add(mine);
        if (2 * alike < all) {{
            enter();
            wp::int32 first = 0;
            while (!lives[first])
                ++first;
            row = met8[first];
            line = wave8[first];
            medium = within8[first];
            mine = lives & (met8 == row) & (wave8 == line) & (within8 == medium);
            alike = -__builtin_reduce_add(mine);
        }}
        const longs8 chosen = __builtin_convertvector(mine, longs8);
        for (wp::int32 k = 0; k < used; ++k) {{
            values8 v;
            __builtin_memcpy(&v, values + columns[k] * n + i, sizeof(v));
            sums[k] += (doubles8)((longs8)__builtin_convertvector(v, doubles8) & chosen);
        }}
        for (wp::int32 l = 0; alike < all && l < 8; ++l)
            if (!mine[l])
                add(i + l);
    }}
    enter();
#endif
    for (; i < stop; ++i)
        add(i);
"""


@functools.cache
def reduce_kernel(precision):
    """Sum the per-ray gradients of scene numbers into the scene's tables.

    One thread works through a stretch of rays. On a CPU there is one stretch, so the order of the sum, and with it
    every bit, is fixed.
    """
    b = bundle(precision)
    array = b.array
    ld = b.ld
    sums = wp.array(dtype=wp.float64)
    names = {
        "T": b.ctype, "NUMBERS": NUM_NUMBERS, "INDEX_FRONT": at.ACC_INDEX_FRONT, "INDEX_BACK": at.ACC_INDEX_BACK,
        "EXTINCTION": at.ACC_EXTINCTION, "REFLECTANCE": at.ACC_REFLECTANCE, "TRANSMITTANCE": at.ACC_TRANSMITTANCE,
        "STATE": at.STATE, "WAVELENGTH": at.WAVELENGTH, "MEDIUM": at.MEDIUM, "ROW_INTS": at.NUM_ROW_INTS,
        "FRONT": at.FRONT, "BACK": at.BACK, "ALIVE": at.ALIVE, "MASK": at.MEDIUM_MASK,
    }  # fmt: skip

    @wp.func_native(_SUM.format(**names))
    def add_up(
        acc: array, ints: INT, row_hit: INT, rows: LONG, lines: int, start: int, stop: int,
        with_numbers: int, with_tables: int, with_coats: int, with_absorption: int,
        numbers: sums, index: sums, extinction: sums, reflectance: sums, transmittance: sums, n: wp.int64,
    ):  # fmt: skip
        """Add the columns of the rays ``start <= i < stop`` that each surface has."""
        ...

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def reduce(
        acc: array, ints: INT, row_hit: INT, rows: LONG, lines: int, count: int, stretches: int,
        with_numbers: int, with_tables: int, with_angles: int, with_coats: int, with_absorption: int, with_rates: int,
        numbers: sums, index: sums, extinction: sums, reflectance: sums, transmittance: sums, angular: sums,
        media: sums, angle_cell: INT, n: wp.int64,
    ):  # fmt: skip
        stretch = wp.tid()
        start = int(wp.int64(count) * wp.int64(stretch) / wp.int64(stretches))
        stop = int(wp.int64(count) * wp.int64(stretch + 1) / wp.int64(stretches))
        add_up(
            acc, ints, row_hit, rows, lines, start, stop, with_numbers, with_tables, with_coats, with_absorption,
            numbers, index, extinction, reflectance, transmittance, n,
        )  # fmt: skip
        if with_angles == 1 or with_rates == 1:
            for i in range(start, stop):
                if ldi(row_hit, 0, n, i) >= 0 and ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
                    cell = int(-1)
                    if with_angles == 1:
                        cell = ldi(angle_cell, 0, n, i)
                    if cell >= 0:
                        # two angles, each a reflectance and a transmittance
                        a = wp.static(at.ACC_ANGLE)
                        wp.atomic_add(angular, cell, wp.float64(ld(acc, a, n, i)))
                        wp.atomic_add(angular, cell + 1, wp.float64(ld(acc, a + 2, n, i)))
                        wp.atomic_add(angular, cell + 2, wp.float64(ld(acc, a + 1, n, i)))
                        wp.atomic_add(angular, cell + 3, wp.float64(ld(acc, a + 3, n, i)))
                    if with_rates == 1:
                        rate = (ldi(ints, wp.static(at.MEDIUM), n, i) & wp.static(at.MEDIUM_MASK)) * lines
                        rate = (rate + ldi(ints, wp.static(at.WAVELENGTH), n, i)) * wp.static(at.NUM_MEDIUM)
                        wp.atomic_add(media, rate, wp.float64(ld(acc, wp.static(at.ACC_RATE), n, i)))

    return reduce
