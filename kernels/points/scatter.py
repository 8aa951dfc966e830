"""Sums into feature rows on a CPU; ``blend.transpose_blend`` has the definition and what other devices run.

The (query, neighbour) pairs are dealt into buckets of neighbouring feature rows, each in the order of the pairs. One
lane then owns a bucket, whose float64 sums stay in its cache while the gradients stream by. A row's sum has one order,
whatever the number of lanes.
"""

from types import SimpleNamespace

import numpy as np
import warp as wp

from kernels import lanes
from kernels.modules import kernel_module
from kernels.points.launch import launch_each, once, ready, run_pieces
from kernels.points.native import FLOATS, INTS, twin

INDICES = wp.array2d(dtype=wp.int64)
DOUBLES = wp.array(dtype=wp.float64)
_CHUNKS = 8  # parts of the rows that are dealt out side by side
_CELLS = 1 << 16  # sums of a bucket

_DEAL = """
    const wp::int32 k = indices.shape[1];
    wp::int32 *next = counts.data + (wp::int64)chunk * buckets;
    const wp::int64 mask = ((wp::int64)1 << shift) - 1;
    const wp::int32 begin = (wp::int64)total * chunk / chunks, end = (wp::int64)total * (chunk + 1) / chunks;
    for (wp::int32 t = begin; t < end; ++t) {
        const wp::int32 r = use_rows ? rows.data[t] : t;
        const wp::int64 start = (wp::int64)(r / rows_per_sample) * points_per_sample, head = r % heads;
        for (wp::int32 j = 0; j < k; ++j) {
            const wp::int64 n = indices.data[(wp::int64)r * k + j];
            const wp::int64 target = (start + (n > 0 ? n : 0)) * heads + head;
            EACH
        }
    }
"""
_COUNT = twin(_DEAL.replace("EACH", "++next[target >> shift]; (void)mask;"), "")
_FILL = twin(
    _DEAL.replace(
        "EACH",
        "const wp::int32 place = next[target >> shift]++;"
        "pairs.data[place] = r * k + j; targets.data[place] = target & mask;",
    ),
    "",
)

_ACCUMULATE = twin(
    """
    typedef wp::float64 D8 __attribute__((vector_size(64)));
    typedef wp::float64 D8U __attribute__((vector_size(64), aligned(8)));
    const wp::int64 first = (wp::int64)bucket << shift, most = (wp::int64)1 << shift;
    const wp::int64 used = (feature_rows - first < most ? feature_rows - first : most) * channels;
    for (wp::int64 i = 0; i < used; ++i) sums.data[i] = 0;
    const wp::int32 end = starts.data[bucket + 1];
    for (wp::int32 i = starts.data[bucket]; i < end; ++i) {
        const wp::int32 pair = pairs.data[i];
        if (i + AHEAD < end) {  // rows come in order, with gaps
            const wp::int64 coming = pairs.data[i + AHEAD] / k;
            __builtin_prefetch(first_gradient.data + coming * channels);
            __builtin_prefetch(weights.data + (wp::int64)pairs.data[i + AHEAD] * parts);
        }
        const wp::int64 row = pair / k;
        const wp::float32 *weight = weights.data + (wp::int64)pair * parts;
        wp::float64 *sum = sums.data + (wp::int64)targets.data[i] * channels;
        for (wp::int32 m = 0; m < parts; ++m) {
            const wp::float32 *g = m == 0 ? first_gradient.data + row * channels
                                          : other_gradients.data + (row * (parts - 1) + m - 1) * channels;
            const wp::float64 w = weight[m];
            wp::int32 c = 0;
            for (; c + 8 <= channels; c += 8)
                *(D8U *)(sum + c) = *(D8U *)(sum + c) + w * __builtin_convertvector(LOAD8(g + c), D8);
            for (; c < channels; ++c) sum[c] += w * (wp::float64)g[c];
        }
    }
    wp::float32 *to = out.data + first * channels;
    for (wp::int64 i = 0; i < used; ++i) to[i] = (wp::float32)sums.data[i];
""",
    "",
).replace("AHEAD", "16")


@once
def _kernels():
    module = kernel_module("kernels.points.scatter")

    @wp.func_native(_COUNT)
    def count_chunk(
        chunk: int,
        chunks: int,
        total: int,
        indices: INDICES,
        rows: INTS,
        use_rows: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        shift: int,
        buckets: int,
        counts: INTS,
    ): ...

    @wp.func_native(_FILL)
    def fill_chunk(
        chunk: int,
        chunks: int,
        total: int,
        indices: INDICES,
        rows: INTS,
        use_rows: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        shift: int,
        buckets: int,
        counts: INTS,
        pairs: INTS,
        targets: INTS,
    ): ...

    @wp.func_native(_ACCUMULATE)
    def accumulate_bucket(
        bucket: int,
        shift: int,
        feature_rows: int,
        starts: INTS,
        pairs: INTS,
        targets: INTS,
        k: int,
        weights: FLOATS,
        parts: int,
        first_gradient: FLOATS,
        other_gradients: FLOATS,
        channels: int,
        sums: DOUBLES,
        out: FLOATS,
    ): ...

    @wp.kernel(module=module)
    def count(
        offset: int,
        chunks: int,
        total: int,
        indices: INDICES,
        rows: INTS,
        use_rows: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        shift: int,
        buckets: int,
        counts: INTS,
    ):
        count_chunk(
            offset + wp.tid(), chunks, total, indices, rows, use_rows, rows_per_sample, points_per_sample, heads,
            shift, buckets, counts,
        )  # fmt: skip

    @wp.kernel(module=module)
    def fill(
        offset: int,
        chunks: int,
        total: int,
        indices: INDICES,
        rows: INTS,
        use_rows: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        shift: int,
        buckets: int,
        counts: INTS,
        pairs: INTS,
        targets: INTS,
    ):
        fill_chunk(
            offset + wp.tid(), chunks, total, indices, rows, use_rows, rows_per_sample, points_per_sample, heads,
            shift, buckets, counts, pairs, targets,
        )  # fmt: skip

    @wp.kernel(module=module)
    def accumulate(
        offset: int,
        shift: int,
        feature_rows: int,
        starts: INTS,
        pairs: INTS,
        targets: INTS,
        k: int,
        weights: FLOATS,
        parts: int,
        first_gradient: FLOATS,
        other_gradients: FLOATS,
        channels: int,
        out: FLOATS,
        sums: DOUBLES,
    ):
        accumulate_bucket(
            offset + wp.tid(), shift, feature_rows, starts, pairs, targets, k, weights, parts, first_gradient,
            other_gradients, channels, sums, out,
        )  # fmt: skip

    return SimpleNamespace(count=count, fill=fill, accumulate=accumulate)


def transpose_blend(indices, weights, parts, first_gradient, other_gradients, layout, channels, out, rows, device):
    """See ``blend.transpose_blend``."""
    kernels = _kernels()
    k = indices.shape[1]
    total = (indices if rows is None else rows).shape[0]
    shift = max(6, (_CELLS // channels).bit_length() - 1)
    buckets = ((layout.feature_rows - 1) >> shift) + 1
    chunks = _CHUNKS if total * k >= 1 << 16 else 1
    counts = np.zeros((chunks, buckets), np.int32)
    counted = wp.array(counts.reshape(-1), dtype=wp.int32, device=device, copy=False)
    inputs = [chunks, total, indices, rows, int(rows is not None), *layout.arguments, shift, buckets, counted]
    launch_each(kernels.count, chunks, inputs, device)
    ends = counts.T.cumsum(dtype=np.int32)  # a bucket's chunks follow each other
    starts = np.append(np.int32(0), ends[chunks - 1 :: chunks])
    counts[:] = (ends - counts.T.reshape(-1)).reshape(buckets, chunks).T
    pairs, targets = (wp.empty(total * k, dtype=wp.int32, device=device) for _ in range(2))
    launch_each(kernels.fill, chunks, [*inputs, pairs, targets], device)

    ready(kernels.accumulate, device)
    starts = wp.array(starts, dtype=wp.int32, device=device, copy=False)
    inputs = [shift, layout.feature_rows, starts, pairs, targets, k, weights, parts, first_gradient, other_gradients]
    room = min(1 << shift, layout.feature_rows) * channels
    idle = []

    def work(start, stop):
        sums = idle.pop() if idle else wp.empty(room, dtype=wp.float64, device=device)
        wp.launch(
            kernels.accumulate,
            stop - start,
            inputs=[start, *inputs, channels, out, sums],
            device=device,
            record_tape=False,
        )
        idle.append(sums)

    threads = lanes.get_num_threads()
    run_pieces(work, lanes.split_range(buckets, buckets if threads > 1 else 1), threads)
