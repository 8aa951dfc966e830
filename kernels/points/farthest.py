"""Exact farthest point sampling.

After every choice a point moves to the new anchor only if that is strictly nearer; the next choice is the point with
the largest distance to its anchor, the lowest index among equals, never a point that was chosen before.

On a CPU the points of a sample lie in ``buckets``. Elsewhere, and as a plain reference, every choice is one launch over
all points.
"""

from types import SimpleNamespace

import numpy as np
import warp as wp

from kernels.modules import kernel_module
from kernels.points import buckets
from kernels.points.launch import VECTORS, launch, once, ready
from kernels.points.native import FLOATS, INTS
from kernels.points.tree import sort_into_arrays

_SCAN_POINTS = 64  # points a thread of the scan looks at, so that few threads meet at the maximum
_CHOSEN = wp.constant(wp.float32(-1.0))
KEYS = wp.array(dtype=wp.int64)


@once
def _kernels(dim):
    vector = VECTORS[dim]
    module = kernel_module(f"kernels.points.fps_{dim}d")

    @wp.kernel(module=module)
    def scan(
        offset: int,
        points: wp.array(dtype=vector),
        points_per_sample: int,
        threads: int,
        it: int,
        wanted: int,
        keys: KEYS,
        gaps: FLOATS,
        anchors: INTS,
    ):
        # keys hold distance bits above the complement of the index: the maximum is the farthest, lowest of equals
        t = offset + wp.tid()
        sample = t // threads
        first = sample * points_per_sample
        slot = sample * (wanted + 1) + it
        current = wp.int32(wp.int64(0x7FFFFFFF) - (keys[slot] & wp.int64(0x7FFFFFFF)))
        x = points[first + current]
        best = wp.int64(-1)
        for i in range(t % threads, points_per_sample, threads):
            e = points[first + i] - x
            d = e[0] * e[0] + e[1] * e[1]
            if wp.static(dim == 3):
                d = d + e[wp.static(dim - 1)] * e[wp.static(dim - 1)]
            gap = gaps[first + i]
            if d < gap:
                gap = d
                anchors[first + i] = it
            if i == current:
                gap = _CHOSEN
            gaps[first + i] = gap
            if gap >= wp.float32(0.0):
                high = wp.int64(wp.cast(gap, wp.int32)) << wp.int64(31)
                best = wp.max(best, high | (wp.int64(0x7FFFFFFF) - wp.int64(i)))
        if best >= wp.int64(0):
            wp.atomic_max(keys, slot + 1, best)

    @wp.kernel(module=module)
    def finish_scan(offset: int, gaps: FLOATS):
        i = offset + wp.tid()
        gaps[i] = wp.max(gaps[i], wp.float32(0.0))

    @wp.kernel(module=module)
    def decode(offset: int, keys: KEYS, wanted: int, chosen: wp.array2d(dtype=wp.int64)):
        i = offset + wp.tid()
        sample = i // wanted
        key = keys[sample * (wanted + 1) + i % wanted]
        chosen[sample, i % wanted] = wp.int64(0x7FFFFFFF) - (key & wp.int64(0x7FFFFFFF))

    @wp.kernel(module=module)
    def pick(
        offset: int,
        points: wp.array(dtype=vector),
        points_per_sample: int,
        chosen: wp.array2d(dtype=wp.int64),
        picked: wp.array(dtype=vector),
    ):
        i = offset + wp.tid()
        wanted = chosen.shape[1]
        picked[i] = points[(i // wanted) * points_per_sample + wp.int32(chosen[i // wanted, i % wanted])]

    @wp.kernel(module=module)
    def invert(offset: int, order: INTS, points_per_sample: int, inverse: INTS):
        i = offset + wp.tid()
        inverse[(i // points_per_sample) * points_per_sample + order[i]] = i

    @wp.kernel(module=module)
    def ranks(
        offset: int,
        chosen: wp.array2d(dtype=wp.int64),
        points_per_sample: int,
        inverse: INTS,
        keys: INTS,
        values: INTS,
    ):
        i = offset + wp.tid()
        wanted = chosen.shape[1]
        sample = i // wanted
        keys[i] = inverse[sample * points_per_sample + wp.int32(chosen[sample, i % wanted])]
        values[i] = i % wanted

    @wp.kernel(module=module)
    def widen(offset: int, values: INTS, out: KEYS):
        i = offset + wp.tid()
        out[i] = wp.int64(values[i])

    @wp.kernel(module=module)
    def summarise(gaps: FLOATS, anchors: INTS, points_per_sample: int, wanted: int, radius: FLOATS, counts: INTS):
        i = wp.tid()
        target = (i // points_per_sample) * wanted + anchors[i]
        wp.atomic_max(radius, target, gaps[i])
        wp.atomic_add(counts, target, 1)

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Kernel)})


def _select_by_scan(points, samples, starts, wanted, chosen, gaps, anchors, dim, device):
    kernels = _kernels(dim)
    total = points.shape[0]
    count = total // samples
    seeds = np.full((samples, wanted + 1), -1, np.int64)
    seeds[:, 0] = 0x7FFFFFFF - np.asarray(starts, np.int64)
    keys = wp.array(seeds.reshape(-1), dtype=wp.int64, device=device)
    gaps.fill_(3.0e38)
    anchors.zero_()
    # CPU atomics are plain: one thread a sample there
    threads = 1 if device.is_cpu else max(1, count // _SCAN_POINTS)
    ready(kernels.scan, device)
    for it in range(wanted):
        wp.launch(
            kernels.scan,
            samples * threads,
            inputs=[0, points, count, threads, it, wanted, keys, gaps, anchors],
            device=device,
            record_tape=False,
        )
    launch(kernels.finish_scan, total, [gaps], device)
    launch(kernels.decode, samples * wanted, [keys, wanted, chosen], device)


def select(
    points,
    samples,
    starts,
    wanted,
    chosen,
    gaps,
    anchors,
    summary=None,
    *,
    dim,
    device,
    bucketed=True,
    bucket_size=None,
):
    """Choose ``wanted`` of every sample's points, the first being ``starts[s]`` (a list of indices).

    points (B N) vectors; writes chosen (B, wanted) int64, gaps (B N) float32 squared distances to the nearest anchor,
    anchors (B N) int32 its position among the chosen. ``summary``, four arrays of (B wanted): every anchor's largest
    squared distance (float32) and number of points (int32), positions among the chosen in Morton order (int64), and the
    chosen points (vectors).
    ``bucketed`` is about speed and counts on a CPU only.
    """
    if bucketed and device.is_cpu:
        buckets.select(
            points,
            samples,
            starts,
            wanted,
            chosen,
            gaps,
            anchors,
            summary,
            dim=dim,
            device=device,
            bucket_size=bucket_size,
        )
        return
    _select_by_scan(points, samples, starts, wanted, chosen, gaps, anchors, dim, device)
    if summary is not None:
        radius, counts, coarse, picked = summary
        _summarise(gaps, anchors, samples, wanted, radius, counts, dim, device)
        count = points.shape[0] // samples
        launch(_kernels(dim).pick, samples * wanted, [points, count, chosen, picked], device)
        offsets = wp.array(np.arange(samples + 1, dtype=np.int32) * np.int32(count), dtype=wp.int32, device=device)
        _, forest = sort_into_arrays(points, offsets, samples, count, dim, device)
        _coarse_order(forest.order, chosen, coarse, dim, device)


def _summarise(gaps, anchors, samples, wanted, radius, counts, dim, device):
    kernels = _kernels(dim)
    radius.zero_()
    counts.zero_()
    total = gaps.shape[0]
    ready(kernels.summarise, device)
    # not split over lanes: CPU atomics are plain
    inputs = [gaps, anchors, total // samples, wanted, radius, counts]
    wp.launch(kernels.summarise, total, inputs=inputs, device=device, record_tape=False)


def _coarse_order(order, chosen, coarse, dim, device):
    kernels = _kernels(dim)
    samples, wanted = chosen.shape
    total = order.shape[0]
    inverse = wp.empty(total, dtype=wp.int32, device=device)
    keys, values = (wp.empty(2 * samples * wanted, dtype=wp.int32, device=device) for _ in range(2))
    launch(kernels.invert, total, [order, total // samples, inverse], device, grain=65536)
    launch(kernels.ranks, samples * wanted, [chosen, total // samples, inverse, keys, values], device, grain=65536)
    wp.utils.radix_sort_pairs(keys, values, samples * wanted)
    launch(kernels.widen, samples * wanted, [values, coarse], device, grain=65536)
