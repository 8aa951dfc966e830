"""Exact farthest point sampling.

After every choice a point moves to the new anchor only if that is strictly nearer; the next choice is the point with
the largest distance to its anchor, the lowest index among equals, never a point that was chosen before.

On a CPU the points of a sample lie in buckets, leaves of a Morton tree, and every bucket knows its box and its largest
distance: one whose box is not nearer to the new anchor than that cannot change. Groups of buckets know the same of
themselves. A bucket is a run of blocks of eight points, a block being eight coordinates an axis and then eight
distances, filled up with points that are out of the running. Elsewhere, and as a plain reference, every choice is one
launch over all points.
"""

from types import SimpleNamespace

import numpy as np
import warp as wp

from kernels.modules import kernel_module
from kernels.points.binary import leaf_buckets
from kernels.points.bucket_native import LOWEST_AT, NEAR, REFRESH, largest_of, next_equal
from kernels.points.launch import VECTORS, launch, launch_each, once, ready
from kernels.points.native import FLOATS, INTS, load_int, lowest_bit
from kernels.points.tree import sort_into_arrays

BUCKET_SIZE = 128
_SCAN_POINTS = 64  # points a thread of the scan looks at, so that few threads meet at the maximum
_FAR = 3.0e38
_START = wp.constant(wp.float32(_FAR))
_CHOSEN = wp.constant(wp.float32(-1.0))
KEYS = wp.array(dtype=wp.int64)


@once
def _kernels(dim):
    vector = VECTORS[dim]
    module = kernel_module(f"kernels.points.fps_{dim}d")
    refresh_snippet, near_snippet, lowest_snippet = (
        snippet.replace("DIM", str(dim)) for snippet in (REFRESH, NEAR, LOWEST_AT)
    )
    block_size = 8 * (dim + 1)

    @wp.func_native(refresh_snippet)
    def refresh(cells: FLOATS, anchors: INTS, start: int, stop: int, x: vector, anchor: int) -> int: ...

    @wp.func_native(near_snippet)
    def near(boxes: FLOATS, largest: INTS, first: int, x: vector) -> int: ...

    @wp.func_native(lowest_snippet)
    def lowest_at(cells: FLOATS, order: INTS, start: int, stop: int, wanted: int) -> int: ...

    @wp.kernel(module=module)
    def pack(
        offset: int,
        bucket_start: INTS,
        bucket_stop: INTS,
        blocks: INTS,
        items: wp.array(dtype=vector),
        order: INTS,
        cells: FLOATS,
        packed_order: INTS,
        anchors: INTS,
    ):
        b = offset + wp.tid()
        start = bucket_start[b]
        count = bucket_stop[b] - start
        for i in range(8 * (blocks[b + 1] - blocks[b])):
            place = 8 * blocks[b] + i
            cell = (place // 8) * wp.static(block_size) + place % 8
            p = vector(0.0)
            gap = _CHOSEN
            index = wp.int32(0x7FFFFFFF)
            if i < count:
                p = items[start + i]
                gap = _START
                index = order[start + i]
            for c in range(wp.static(dim)):
                cells[cell + 8 * c] = p[c]
            cells[cell + wp.static(8 * dim)] = gap
            packed_order[place] = index
            anchors[place] = 0

    @wp.kernel(module=module)
    def select(
        offset: int,
        cells: FLOATS,
        order: INTS,
        anchors: INTS,
        first_group: INTS,
        group_boxes: FLOATS,
        group_largest: INTS,
        blocks: INTS,
        bucket_boxes: FLOATS,
        bucket_largest: INTS,
        bucket_best: INTS,
        places: INTS,
        homes: INTS,
        group: int,
        wanted: int,
        chosen: wp.array2d(dtype=wp.int64),
    ):
        sample = offset + wp.tid()
        first = first_group[sample]
        last = first_group[sample + 1]
        place = places[sample]
        home = homes[sample]
        far = wp.cast(_START, wp.int32)
        for it in range(wanted):
            chosen[sample, it] = wp.int64(order[place])
            cell = (place // 8) * wp.static(block_size) + place % 8
            x = vector(0.0)
            for c in range(wp.static(dim)):
                x[c] = cells[cell + 8 * c]
            # the choice itself: out of the running, and its own anchor unless a twin of it was chosen before
            if cells[cell + wp.static(8 * dim)] > wp.float32(0.0):
                anchors[place] = it
            cells[cell + wp.static(8 * dim)] = _CHOSEN
            bucket_largest[home] = far
            group_largest[home // group] = far
            for g8 in range(first, last, 8):
                groups = near(group_boxes, group_largest, g8, x)
                while groups != 0:
                    g = g8 + lowest_bit(groups)
                    groups = groups & (groups - 1)
                    begin = g * group
                    for b8 in range(begin, begin + group, 8):
                        buckets = near(bucket_boxes, bucket_largest, b8, x)
                        while buckets != 0:
                            b = b8 + lowest_bit(buckets)
                            buckets = buckets & (buckets - 1)
                            bucket_largest[b] = refresh(
                                cells, anchors, load_int(blocks, b), load_int(blocks, b + 1), x, it
                            )
                            bucket_best[b] = -1
                    group_largest[g] = largest_of(bucket_largest, begin, begin + group)
            most = largest_of(group_largest, first, last)
            least = wp.int32(0x7FFFFFFF)
            g = next_equal(group_largest, first, last, most)
            while g < last:
                end = (g + 1) * group
                b = next_equal(bucket_largest, end - group, end, most)
                while b < end:
                    if bucket_best[b] < 0:
                        bucket_best[b] = lowest_at(cells, order, blocks[b], blocks[b + 1], most)
                    candidate = bucket_best[b]
                    if order[candidate] < least:
                        least = order[candidate]
                        place = candidate
                        home = b
                    b = next_equal(bucket_largest, b + 1, end, most)
                g = next_equal(group_largest, g + 1, last, most)

    @wp.kernel(module=module)
    def scatter(
        offset: int,
        bucket_owner: INTS,
        blocks: INTS,
        cells: FLOATS,
        order: INTS,
        anchors: INTS,
        points_per_sample: int,
        out_gaps: FLOATS,
        out_anchors: INTS,
    ):
        b = offset + wp.tid()
        first = bucket_owner[b] * points_per_sample
        for place in range(8 * blocks[b], 8 * blocks[b + 1]):
            if order[place] < points_per_sample:
                cell = (place // 8) * wp.static(block_size) + place % 8
                target = first + order[place]
                out_gaps[target] = wp.max(cells[cell + wp.static(8 * dim)], wp.float32(0.0))
                out_anchors[target] = anchors[place]

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
    def summarise(gaps: FLOATS, anchors: INTS, points_per_sample: int, wanted: int, radius: FLOATS, counts: INTS):
        i = wp.tid()
        target = (i // points_per_sample) * wanted + anchors[i]
        wp.atomic_max(radius, target, gaps[i])
        wp.atomic_add(counts, target, 1)

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Kernel)})


def _boxes_of_eight(lower, upper):
    """(8 n, D) corners laid out for ``near``: per eight boxes and axis, eight lower and eight upper bounds."""
    dim = lower.shape[1]
    both = np.stack([lower.reshape(-1, 8, dim), upper.reshape(-1, 8, dim)], axis=1)
    return np.ascontiguousarray(both.transpose(0, 3, 1, 2)).reshape(-1)


def _buckets(forest, keys, starts, bucket_size, device):
    """``(arrays, group size)``: every sample's buckets fill whole groups, and its groups a multiple of eight."""
    samples, dim = forest.samples, forest.dim
    start, stop, owner, lower, upper = leaf_buckets(
        keys, forest.items, forest.order, forest.offsets, samples, bucket_size, dim, device
    )
    per_sample = np.bincount(owner, minlength=samples)
    # about three groups are opened a choice, so this balances looking at groups against looking into them
    group = 8 * max(1, round((per_sample.max() / 3) ** 0.5 / 8))
    groups = -(-per_sample // (8 * group)) * 8
    first_group = np.concatenate([[0], np.cumsum(groups)])
    total = int(first_group[-1]) * group
    rank = np.arange(len(owner)) - (np.cumsum(per_sample) - per_sample)[owner]
    place = first_group[owner] * group + rank

    def spread(values, fill):
        out = np.full((total, *values.shape[1:]), fill, values.dtype)
        out[place] = values
        return out

    bucket_start, bucket_stop = spread(start, 0), spread(stop, 0)
    blocks = np.concatenate([[0], np.cumsum(-(-(bucket_stop - bucket_start) // 8))])
    lower, upper = spread(lower, np.inf), spread(upper, -np.inf)
    group_lower = lower.reshape(-1, group, dim).min(1)
    group_upper = upper.reshape(-1, group, dim).max(1)
    # as bits: far for what holds points, below every distance for what holds none
    far, none = np.float32(_FAR).view(np.int32), np.int32(-(2**31) + 1)
    largest = spread(np.full(len(owner), far), none)
    order, offsets = forest.order.numpy(), forest.offsets.numpy()
    position = np.array(
        [offsets[s] + (order[offsets[s] : offsets[s + 1]] == starts[s]).argmax() for s in range(samples)]
    )
    home = place[np.searchsorted(start, position, side="right") - 1]
    arrays = {
        "bucket_start": bucket_start,
        "bucket_stop": bucket_stop,
        "bucket_owner": spread(owner, 0),
        "blocks": blocks,
        "bucket_boxes": _boxes_of_eight(lower, upper),
        "bucket_largest": largest,
        "first_group": first_group,
        "group_boxes": _boxes_of_eight(group_lower, group_upper),
        "group_largest": largest.reshape(-1, group).max(1),
        "home": home,
        "place": 8 * blocks[home] + position - bucket_start[home],
    }
    return arrays, group


def _select_in_buckets(forest, keys, starts, wanted, chosen, gaps, anchors, device, bucket_size):
    kernels = _kernels(forest.dim)
    arrays, group = _buckets(forest, keys, starts, bucket_size, device)
    buckets = {
        name: wp.array(
            np.ascontiguousarray(v, np.float32 if v.dtype == np.float32 else np.int32),
            dtype=wp.float32 if v.dtype == np.float32 else wp.int32,
            device=device,
            copy=False,
        )
        for name, v in arrays.items()
    }
    blocks = buckets["blocks"]
    total = buckets["bucket_start"].shape[0]
    slots = 8 * int(blocks.numpy()[-1])
    cells = wp.empty(slots * (forest.dim + 1), dtype=wp.float32, device=device)
    order, owners = (wp.empty(slots, dtype=wp.int32, device=device) for _ in range(2))
    launch(
        kernels.pack,
        total,
        [buckets["bucket_start"], buckets["bucket_stop"], blocks, forest.items, forest.order, cells, order, owners],
        device,
    )
    launch_each(
        kernels.select,
        forest.samples,
        [
            cells,
            order,
            owners,
            buckets["first_group"],
            buckets["group_boxes"],
            buckets["group_largest"],
            blocks,
            buckets["bucket_boxes"],
            buckets["bucket_largest"],
            wp.full(total, -1, dtype=wp.int32, device=device),
            buckets["place"],
            buckets["home"],
            group,
            wanted,
            chosen,
        ],
        device,
    )
    count = forest.count // forest.samples
    found = [buckets["bucket_owner"], blocks, cells, order, owners, count, gaps, anchors]
    launch(kernels.scatter, total, found, device, grain=256)


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


def select(points, samples, starts, wanted, chosen, gaps, anchors, *, dim, device, bucketed=True, bucket_size=None):
    """Choose ``wanted`` of every sample's points, the first being ``starts[s]`` (a list of indices).

    points (B N) vectors; writes chosen (B, wanted) int64, gaps (B N) float32 squared distances to the nearest anchor,
    anchors (B N) int32 its position among the chosen. ``bucketed`` is about speed and counts on a CPU only. Returns the
    Morton order of every sample's points, (B N) int32.
    """
    count = points.shape[0] // samples
    offsets = wp.array(np.arange(samples + 1, dtype=np.int32) * np.int32(count), dtype=wp.int32, device=device)
    keys, forest = sort_into_arrays(points, offsets, samples, count, dim, device)
    if bucketed and device.is_cpu:
        size = bucket_size or BUCKET_SIZE
        _select_in_buckets(forest, keys, starts, wanted, chosen, gaps, anchors, device, size)
    else:
        _select_by_scan(points, samples, starts, wanted, chosen, gaps, anchors, dim, device)
    return forest.order


def summarise(gaps, anchors, samples, wanted, radius, counts, *, dim, device):
    """Every anchor's largest squared distance and number of points: radius and counts, (B wanted)."""
    kernels = _kernels(dim)
    radius.zero_()
    counts.zero_()
    total = gaps.shape[0]
    ready(kernels.summarise, device)
    # not split over lanes: CPU atomics are plain
    inputs = [gaps, anchors, total // samples, wanted, radius, counts]
    wp.launch(kernels.summarise, total, inputs=inputs, device=device, record_tape=False)


def coarse_order(order, chosen, *, dim, device):
    """Positions among the chosen, in Morton order, (B wanted) int32; ``order`` (B N) is what ``select`` returns."""
    kernels = _kernels(dim)
    samples, wanted = chosen.shape
    total = order.shape[0]
    inverse = wp.empty(total, dtype=wp.int32, device=device)
    keys, values = (wp.empty(2 * samples * wanted, dtype=wp.int32, device=device) for _ in range(2))
    launch(kernels.invert, total, [order, total // samples, inverse], device, grain=65536)
    launch(kernels.ranks, samples * wanted, [chosen, total // samples, inverse, keys, values], device, grain=65536)
    wp.utils.radix_sort_pairs(keys, values, samples * wanted)
    return values[: samples * wanted]
