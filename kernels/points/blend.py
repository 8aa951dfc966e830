"""Weighted sums of feature rows over neighbours, and their transpose.

A query r of B samples, H heads and M rows a sample (heads included) reads the features of sample ``r // M`` and head
``r % H``. The transpose adds into feature rows; it first sorts the (query, neighbour) pairs by feature row (on a CPU
into buckets of rows, see ``scatter``), so that one thread owns one row and adds in a fixed order: the sums are the same
on every run.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points import scatter
from kernels.points.launch import launch, once
from kernels.points.native import FLOATS, INTS, twin

V16 = wp.types.vector(length=16, dtype=wp.float64)
INDICES = wp.array2d(dtype=wp.int64)
_CHANNELS = wp.constant(16)


@dataclass(frozen=True)
class Layout:
    """Which feature row belongs to a query's neighbour."""

    rows_per_sample: int
    points_per_sample: int
    heads: int
    samples: int

    @property
    def arguments(self):
        return [self.rows_per_sample, self.points_per_sample, self.heads]

    @property
    def feature_rows(self):
        return self.samples * self.points_per_sample * self.heads


@wp.func_native("""
    const wp::float32 *f = features.data + start;
    for (wp::int32 c = 0; c < 16; ++c)
        if (c < count) acc[c] += weight * (wp::float64)f[c];
    return acc;
""")
def add_row_part(acc: V16, weight: wp.float64, features: FLOATS, start: wp.int64, count: int) -> V16: ...


_ADD_ROW = twin(
    """
    typedef wp::float64 D16 __attribute__((vector_size(128)));
    typedef wp::float32 F16U __attribute__((vector_size(64), aligned(4)));
    D16 sum;
    __builtin_memcpy(&sum, &acc, sizeof(D16));
    sum += weight * __builtin_convertvector(*(const F16U *)(features.data + start), D16);
    __builtin_memcpy(&acc, &sum, sizeof(D16));
    return acc;
""",
    """
    const wp::float32 *f = features.data + start;
    for (wp::int32 c = 0; c < 16; ++c) acc[c] += weight * (wp::float64)f[c];
    return acc;
""",
)

_DOT_ROWS = twin(
    """
    typedef wp::float64 D8 __attribute__((vector_size(64)));
    const wp::float32 *x = a.data + start_a, *y = b.data + start_b;
    D8 acc = {0, 0, 0, 0, 0, 0, 0, 0};
    wp::float64 rest = 0;
    wp::int32 c = 0;
    for (; c + 8 <= count; c += 8)
        acc += __builtin_convertvector(LOAD8(x + c), D8) * __builtin_convertvector(LOAD8(y + c), D8);
    for (; c < count; ++c) rest += (wp::float64)x[c] * (wp::float64)y[c];
    for (wp::int32 j = 0; j < 8; ++j) rest += acc[j];
    return rest;
""",
    """
    const wp::float32 *x = a.data + start_a, *y = b.data + start_b;
    wp::float64 rest = 0;
    for (wp::int32 c = 0; c < count; ++c) rest += (wp::float64)x[c] * (wp::float64)y[c];
    return rest;
""",
)


@wp.func_native(_ADD_ROW)
def add_row_whole(acc: V16, weight: wp.float64, features: FLOATS, start: wp.int64) -> V16: ...


@wp.func
def add_row(acc: V16, weight: wp.float64, features: FLOATS, start: wp.int64, count: int) -> V16:
    """``acc + weight * features[start : start + count]`` for up to sixteen channels."""
    if count >= 16:
        acc = add_row_whole(acc, weight, features, start)
    else:
        acc = add_row_part(acc, weight, features, start, count)
    return acc


@wp.func_native("""
    for (wp::int32 c = 0; c < 16; ++c)
        if (c < count) out.data[start + c] = (wp::float32)acc[c];
""")
def store_row(out: FLOATS, start: wp.int64, acc: V16, count: int): ...


@wp.func_native(_DOT_ROWS)
def dot_rows(a: FLOATS, start_a: wp.int64, b: FLOATS, start_b: wp.int64, count: int) -> wp.float64: ...


@wp.func
def feature_row(row: int, index: wp.int64, rows_per_sample: int, points_per_sample: int, heads: int) -> wp.int64:
    """An index below 0 (a query that is not finite has such) reads row 0 instead of foreign memory."""
    sample = wp.int64(row // rows_per_sample)
    point = sample * wp.int64(points_per_sample) + wp.max(index, wp.int64(0))
    return point * wp.int64(heads) + wp.int64(row % heads)


@once
def _kernels():
    module = kernel_module("kernels.points.blend")

    @wp.kernel(module=module)
    def blend(
        offset: int,
        indices: INDICES,
        weights: wp.array2d(dtype=wp.float32),
        features: FLOATS,
        channels: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        out: FLOATS,
    ):
        row = offset + wp.tid()
        for c in range(0, channels, _CHANNELS):
            acc = V16(wp.float64(0.0))
            for j in range(indices.shape[1]):
                f = feature_row(row, indices[row, j], rows_per_sample, points_per_sample, heads)
                start = f * wp.int64(channels) + wp.int64(c)
                acc = add_row(acc, wp.float64(weights[row, j]), features, start, channels - c)
            store_row(out, wp.int64(row) * wp.int64(channels) + wp.int64(c), acc, channels - c)

    @wp.kernel(module=module)
    def pair_keys(
        offset: int,
        indices: INDICES,
        rows: INTS,
        use_rows: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        keys: INTS,
        pairs: INTS,
    ):
        i = offset + wp.tid()
        k = indices.shape[1]
        row = i // k
        if use_rows == 1:
            row = rows[row]
        j = i % k
        keys[i] = wp.int32(feature_row(row, indices[row, j], rows_per_sample, points_per_sample, heads))
        pairs[i] = row * k + j

    @wp.kernel(module=module)
    def find_starts(offset: int, keys: INTS, total: int, starts: INTS):
        row = offset + wp.tid()
        low = int(0)
        high = int(total)
        while low < high:
            middle = (low + high) // 2
            if keys[middle] < row:
                low = middle + 1
            else:
                high = middle
        starts[row] = low

    @wp.kernel(module=module)
    def gather_gradient(
        offset: int,
        starts: INTS,
        ordered: INTS,
        k: int,
        weights: FLOATS,
        parts: int,
        first_gradient: FLOATS,
        other_gradients: FLOATS,
        channels: int,
        out: FLOATS,
    ):
        target = offset + wp.tid()
        for c in range(0, channels, _CHANNELS):
            acc = V16(wp.float64(0.0))
            for i in range(starts[target], starts[target + 1]):
                pair = ordered[i]
                row = wp.int64(pair // k)
                w = wp.int64(pair) * wp.int64(parts)
                start = row * wp.int64(channels) + wp.int64(c)
                acc = add_row(acc, wp.float64(weights[w]), first_gradient, start, channels - c)
                for e in range(1, parts):
                    part = row * wp.int64(parts - 1) + wp.int64(e - 1)
                    start = part * wp.int64(channels) + wp.int64(c)
                    acc = add_row(acc, wp.float64(weights[w + wp.int64(e)]), other_gradients, start, channels - c)
            store_row(out, wp.int64(target) * wp.int64(channels) + wp.int64(c), acc, channels - c)

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Kernel)})


def blend(indices, weights, features, layout, channels, out):
    """``out[r] = sum_j weights[r, j] * features[row of (r, j)]``; features and out flattened, summed in float64."""
    device = indices.device
    launch(
        _kernels().blend,
        indices.shape[0],
        [indices, weights, features, channels, *layout.arguments, out],
        device,
    )


def _sorted_pairs(indices, rows, layout, device):
    kernels = _kernels()
    k = indices.shape[1]
    total = (indices.shape[0] if rows is None else rows.shape[0]) * k
    keys, pairs = (wp.empty(2 * total, dtype=wp.int32, device=device) for _ in range(2))
    use_rows = int(rows is not None)
    launch(
        kernels.pair_keys,
        total,
        [indices, rows if rows is not None else keys, use_rows, *layout.arguments, keys, pairs],
        device,
        grain=32768,
    )
    wp.utils.radix_sort_pairs(keys, pairs, total)
    starts = wp.empty(layout.feature_rows + 1, dtype=wp.int32, device=device)
    launch(kernels.find_starts, layout.feature_rows + 1, [keys, total, starts], device)
    return starts, pairs


def transpose_blend(
    indices, weights, parts, first_gradient, other_gradients, layout, channels, out, *, rows=None, in_buckets=None
):
    """Gradients of the feature rows into ``out`` (feature rows, C), every row of which is written.

    ``weights`` (R, k, parts): parts is 1 for ``first_gradient`` (R, C) alone, or 1 + D with ``other_gradients``
    (R, D, C). ``in_buckets`` chooses how: pairs dealt into buckets of rows (see ``scatter``, the default on a CPU) or
    sorted by row. The sums are the same to the bit.
    """
    device = indices.device
    if indices.shape[0] == 0 or (rows is not None and rows.shape[0] == 0):
        out.zero_()
        return
    if device.is_cpu if in_buckets is None else in_buckets:
        scatter.transpose_blend(
            indices, weights, parts, first_gradient, other_gradients, layout, channels, out, rows, device
        )
        return
    starts, ordered = _sorted_pairs(indices, rows, layout, device)
    launch(
        _kernels().gather_gradient,
        layout.feature_rows,
        [starts, ordered, indices.shape[1], weights, parts, first_gradient, other_gradients, channels, out],
        device,
        grain=1024,
    )
