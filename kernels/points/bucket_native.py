"""What farthest point sampling does to one bucket, eight lanes wide; see ``buckets`` for the layout."""

import warp as wp

from kernels.points.native import INTS, twin

# Distances of 0 and more order like their bits, and -1 (chosen) comes below all of them, so maxima are taken of
# integers. Buckets serve CPUs; their kernel compiles for CUDA too, in plain loops.
REFRESH = twin(
    """
    I8 best = LEAST - (I8){0, 0, 0, 0, 0, 0, 0, 0};
    for (wp::int32 block = start; block < stop; ++block) {
        wp::float32 *cell = cells.data + (size_t)block * (8 * (DIM + 1));
        wp::int32 *owner = anchors.data + (size_t)block * 8;
        F8 d = {0, 0, 0, 0, 0, 0, 0, 0}, gap = LOAD8(cell + 8 * DIM);
        for (wp::int32 c = 0; c < DIM; ++c) { F8 u = LOAD8(cell + 8 * c) - x[c]; d += u * u; }
        I8 nearer = d < gap;
        gap = nearer ? d : gap;
        *(F8U *)(cell + 8 * DIM) = gap;
        *(I8U *)owner = nearer ? anchor - (I8){0, 0, 0, 0, 0, 0, 0, 0} : LOAD8I(owner);
        I8 bits = (I8)gap;
        best = bits > best ? bits : best;
    }
""",
    """
    wp::int32 best[8] = {LEAST, LEAST, LEAST, LEAST, LEAST, LEAST, LEAST, LEAST};
    for (wp::int32 i = 8 * start; i < 8 * stop; ++i) {
        wp::float32 *cell = cells.data + (size_t)(i / 8) * (8 * (DIM + 1)) + i % 8, d = 0.0f;
        for (wp::int32 c = 0; c < DIM; ++c) { wp::float32 u = cell[8 * c] - x[c]; d += u * u; }
        if (d < cell[8 * DIM]) { cell[8 * DIM] = d; anchors.data[i] = anchor; }
        const wp::int32 bits = FLOAT_BITS(cell[8 * DIM]);
        best[i % 8] = bits > best[i % 8] ? bits : best[i % 8];
    }
""",
    """
    wp::int32 most = best[0];
    for (wp::int32 j = 1; j < 8; ++j) most = best[j] > most ? best[j] : most;
    return most;
""",
).replace("LEAST", "(-2147483647 - 1)")

# the boxes of eight neighbours, an axis at a time: which are nearer than their largest distance (kept as bits)
NEAR = twin(
    """
    const wp::float32 *b = boxes.data + (size_t)(first / 8) * (16 * DIM);
    F8 acc = {0, 0, 0, 0, 0, 0, 0, 0};
    for (wp::int32 c = 0; c < DIM; ++c) {
        F8 u = LOAD8(b + 16 * c) - x[c], v = x[c] - LOAD8(b + 16 * c + 8);
        u = u > v ? u : v;
        u = u > 0.0f ? u : (F8){0, 0, 0, 0, 0, 0, 0, 0};
        acc += u * u;
    }
    return MASK8(acc < (F8)LOAD8I(largest.data + first));
""",
    """
    const wp::float32 *b = boxes.data + (size_t)(first / 8) * (16 * DIM);
    wp::int32 mask = 0;
    for (wp::int32 j = 0; j < 8; ++j) {
        wp::float32 d = 0.0f;
        for (wp::int32 c = 0; c < DIM; ++c) {
            wp::float32 u = b[16 * c + j] - x[c], v = x[c] - b[16 * c + 8 + j];
            u = u > v ? u : v;
            u = u > 0.0f ? u : 0.0f;
            d += u * u;
        }
        mask |= (d < __int_as_float(largest.data[first + j])) << j;
    }
    return mask;
""",
)

_LARGEST = twin(
    """
    I8 most = LOAD8I(bits.data + start);
    for (wp::int32 i = start + 8; i < stop; i += 8) {
        I8 next = LOAD8I(bits.data + i);
        most = next > most ? next : most;
    }
    wp::int32 best = most[0];
    for (wp::int32 j = 1; j < 8; ++j) best = most[j] > best ? most[j] : best;
    return best;
""",
    """
    wp::int32 best = bits.data[start];
    for (wp::int32 i = start; i < stop; ++i) best = bits.data[i] > best ? bits.data[i] : best;
    return best;
""",
)

_NEXT_EQUAL = twin(
    """
    wp::int32 i = start;
    for (; i < stop && i % 8 != 0; ++i)
        if (bits.data[i] == wanted) return i;
    for (; i < stop; i += 8) {
        wp::int32 mask = MASK8(LOAD8I(bits.data + i) == wanted);
        if (mask) return i + LOWEST_BIT(mask);
    }
    return stop;
""",
    """
    for (wp::int32 i = start; i < stop; ++i)
        if (bits.data[i] == wanted) return i;
    return stop;
""",
)

LOWEST_AT = twin(
    """
    wp::int32 least = 2147483647, place = start * 8;
    for (wp::int32 block = start; block < stop; ++block) {
        const wp::float32 *gap = cells.data + (size_t)block * (8 * (DIM + 1)) + 8 * DIM;
        wp::int32 mask = MASK8((I8)LOAD8(gap) == wanted);
        for (; mask != 0; mask &= mask - 1) {
            const wp::int32 i = block * 8 + LOWEST_BIT(mask);
            if (order.data[i] < least) { least = order.data[i]; place = i; }
        }
    }
    return place;
""",
    """
    wp::int32 least = 2147483647, place = start * 8;
    for (wp::int32 i = start * 8; i < stop * 8; ++i) {
        const wp::float32 gap = cells.data[(size_t)(i / 8) * (8 * (DIM + 1)) + 8 * DIM + i % 8];
        if (__float_as_int(gap) == wanted && order.data[i] < least) { least = order.data[i]; place = i; }
    }
    return place;
""",
)

# results in the order of the points, and what the anchors have; a choice's own place in the order of places is known
FINISH = """
    const wp::int64 first = (wp::int64)sample * wanted;
    if (summary)
        for (wp::int32 i = 0; i < wanted; ++i) { radius.data[first + i] = 0.0f; counts.data[first + i] = 0; }
    wp::int64 next = first;
    for (wp::int32 place = start; place < stop; ++place) {
        const wp::int32 index = order.data[place], anchor = anchors.data[place];
        if (index >= count) continue;
        const wp::float32 gap = cells.data[(size_t)(place / 8) * (8 * (DIM + 1)) + 8 * DIM + place % 8];
        const wp::float32 square = gap > 0.0f ? gap : 0.0f;
        out_gaps.data[(wp::int64)sample * count + index] = square;
        out_anchors.data[(wp::int64)sample * count + index] = anchor;
        if (!summary) continue;
        wp::float32 &most = radius.data[first + anchor];
        most = square > most ? square : most;
        ++counts.data[first + anchor];
        if (gap < 0.0f) coarse.data[next++] = ranks.data[place];
    }
"""

# a stable sort of codes and their rows by eleven bits a pass; an even number of passes ends where it began
SORT = """
    wp::int64 *from = keys.data + start, *to = from + count;
    wp::int32 *from_rows = rows.data + start, *to_rows = from_rows + count, next[2048];
    for (wp::int32 pass = 0; pass < PASSES; ++pass) {
        const wp::int32 shift = 11 * pass;
        for (wp::int32 i = 0; i < 2048; ++i) next[i] = 0;
        for (wp::int32 i = 0; i < count; ++i) ++next[(from[i] >> shift) & 2047];
        wp::int32 sum = 0;
        for (wp::int32 i = 0; i < 2048; ++i) { const wp::int32 here = next[i]; next[i] = sum; sum += here; }
        for (wp::int32 i = 0; i < count; ++i) {
            const wp::int32 place = next[(from[i] >> shift) & 2047]++;
            to[place] = from[i];
            to_rows[place] = from_rows[i];
        }
        wp::int64 *keys_before = from;
        from = to;
        to = keys_before;
        wp::int32 *rows_before = from_rows;
        from_rows = to_rows;
        to_rows = rows_before;
    }
"""


@wp.func_native(_LARGEST)
def largest_of(bits: INTS, start: int, stop: int) -> int: ...


@wp.func_native(_NEXT_EQUAL)
def next_equal(bits: INTS, start: int, stop: int, wanted: int) -> int: ...
