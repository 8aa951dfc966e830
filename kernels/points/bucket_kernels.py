"""The kernels of farthest point sampling in buckets: what a point, a bucket and a group is, `buckets` says."""

from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points import morton
from kernels.points.binary import split_at
from kernels.points.bucket_native import FINISH, LOWEST_AT, NEAR, REFRESH, SORT, largest_of, next_equal
from kernels.points.launch import VECTORS, once
from kernels.points.native import FLOATS, INTS, load_int, lowest_bit

_START = wp.constant(wp.float32(3.0e38))
_CHOSEN = wp.constant(wp.float32(-1.0))
_INFINITE = wp.constant(wp.float32(float("inf")))
# as bits: below every distance
_NOTHING = wp.constant(wp.int32(-(2**31) + 1))
_DEPTH = wp.constant(128)  # a tree of 63 bits, and then halves
KEYS = wp.array(dtype=wp.int64)


@once
def kernels_of(dim):
    """``plan``, ``pack`` and ``select`` for many points, and ``whole`` for few: all steps in one launch."""
    vector = VECTORS[dim]
    module = kernel_module(f"kernels.points.fps_buckets_{dim}d")
    refresh_snippet, near_snippet, lowest_snippet, finish_snippet = (
        snippet.replace("DIM", str(dim)) for snippet in (REFRESH, NEAR, LOWEST_AT, FINISH)
    )
    block_size = 8 * (dim + 1)

    @wp.func_native(refresh_snippet)
    def refresh(cells: FLOATS, anchors: INTS, start: int, stop: int, x: vector, anchor: int) -> int: ...

    @wp.func_native(near_snippet)
    def near(boxes: FLOATS, largest: INTS, first: int, x: vector) -> int: ...

    @wp.func_native(lowest_snippet)
    def lowest_at(cells: FLOATS, order: INTS, start: int, stop: int, wanted: int) -> int: ...

    @wp.func_native(finish_snippet)
    def finish(
        cells: FLOATS,
        order: INTS,
        anchors: INTS,
        ranks: INTS,
        start: int,
        stop: int,
        sample: int,
        count: int,
        wanted: int,
        out_gaps: FLOATS,
        out_anchors: INTS,
        summary: int,
        radius: FLOATS,
        counts: INTS,
        coarse: KEYS,
    ): ...

    @wp.func_native(SORT.replace("PASSES", str(2 * dim)))
    def sort_keys(keys: KEYS, rows: INTS, start: int, count: int): ...

    @wp.func
    def set_box(boxes: FLOATS, i: int, low: vector, high: vector):
        """Eight boxes lie together, an axis at a time: eight lower and eight upper bounds."""
        base = (i // 8) * wp.static(16 * dim) + i % 8
        for c in range(wp.static(dim)):
            boxes[base + 16 * c] = low[c]
            boxes[base + 16 * c + 8] = high[c]

    @wp.kernel(module=module)
    def plan(
        keys: KEYS, offsets: INTS, samples: int, size: int, leaf_starts: INTS, leaf_blocks: INTS, first_leaves: INTS
    ):
        # a range ends where the next begins, so ends are all there is to remember
        ends = wp.zeros(shape=(_DEPTH,), dtype=wp.int32)
        used = int(0)
        blocks = int(0)
        start = int(0)
        for s in range(samples):
            first_leaves[s] = used
            ends[0] = offsets[s + 1]
            depth = int(1)
            while depth > 0:
                stop = ends[depth - 1]
                if stop - start > size:
                    ends[depth] = split_at(keys, start, stop)
                    depth = depth + 1
                else:
                    leaf_starts[used] = start
                    leaf_blocks[used] = blocks
                    blocks = blocks + (stop - start + 7) // 8
                    used = used + 1
                    start = stop
                    depth = depth - 1
        first_leaves[samples] = used
        leaf_starts[used] = start
        leaf_blocks[used] = blocks

    @wp.func
    def pack_bucket(
        b: int,
        start: int,
        count: int,
        first_block: int,
        sample: int,
        first_row: int,
        wanted: int,
        points: wp.array(dtype=vector),
        rows: INTS,
        cells: FLOATS,
        order: INTS,
        anchors: INTS,
        blocks: INTS,
        boxes: FLOATS,
        largest: INTS,
        best: INTS,
        places: INTS,
        homes: INTS,
    ):
        """Fill bucket b with sorted points, and note where the sample's point ``wanted`` is."""
        blocks[b] = first_block
        blocks[b + 1] = first_block + (count + 7) // 8  # what the next bucket writes too
        low = vector(_INFINITE)
        high = vector(-_INFINITE)
        for i in range(8 * ((count + 7) // 8)):
            place = 8 * first_block + i
            cell = (place // 8) * wp.static(block_size) + place % 8
            p = vector(0.0)
            gap = _CHOSEN
            index = wp.int32(0x7FFFFFFF)
            if i < count:
                row = rows[start + i]
                p = points[row]
                gap = _START
                index = row - first_row
                low = wp.min(low, p)
                high = wp.max(high, p)
                if index == wanted:
                    places[sample] = place
                    homes[sample] = b
            for c in range(wp.static(dim)):
                cells[cell + 8 * c] = p[c]
            cells[cell + wp.static(8 * dim)] = gap
            order[place] = index
            anchors[place] = 0
        set_box(boxes, b, low, high)
        largest[b] = wp.where(count > 0, wp.cast(_START, wp.int32), _NOTHING)
        best[b] = -1

    @wp.kernel(module=module)
    def pack(
        offset: int,
        points: wp.array(dtype=vector),
        rows: INTS,
        offsets: INTS,
        samples: int,
        starts: INTS,
        leaf_starts: INTS,
        leaf_blocks: INTS,
        first_leaves: INTS,
        first_groups: INTS,
        group: int,
        cells: FLOATS,
        order: INTS,
        anchors: INTS,
        blocks: INTS,
        boxes: FLOATS,
        largest: INTS,
        best: INTS,
        places: INTS,
        homes: INTS,
    ):
        b = offset + wp.tid()
        s = morton.sample_at(first_groups, samples, b // group)
        leaf = wp.min(first_leaves[s] + b - first_groups[s] * group, first_leaves[s + 1])
        start = leaf_starts[leaf]
        count = int(0)
        if leaf < first_leaves[s + 1]:
            count = leaf_starts[leaf + 1] - start
        pack_bucket(
            b, start, count, leaf_blocks[leaf], s, offsets[s], starts[s], points, rows, cells, order, anchors,
            blocks, boxes, largest, best, places, homes,
        )  # fmt: skip

    @wp.func
    def select_in_sample(
        sample: int,
        first: int,
        last: int,
        base_bucket: int,
        cells: FLOATS,
        order: INTS,
        anchors: INTS,
        ranks: INTS,
        group_boxes: FLOATS,
        group_largest: INTS,
        blocks: INTS,
        bucket_boxes: FLOATS,
        bucket_largest: INTS,
        bucket_best: INTS,
        places: INTS,
        homes: INTS,
        group: int,
        count: int,
        wanted: int,
        chosen: wp.array2d(dtype=wp.int64),
        out_gaps: FLOATS,
        out_anchors: INTS,
        summary: int,
        radius: FLOATS,
        counts: INTS,
        coarse: KEYS,
        picked: wp.array(dtype=vector),
    ):
        """Groups ``first`` to ``last``, whose buckets begin with ``base_bucket``."""
        for g in range(first, last):
            low = vector(_INFINITE)
            high = vector(-_INFINITE)
            begin = base_bucket + (g - first) * group
            for b in range(begin, begin + group):
                base = (b // 8) * wp.static(16 * dim) + b % 8
                for c in range(wp.static(dim)):
                    low[c] = wp.min(low[c], bucket_boxes[base + 16 * c])
                    high[c] = wp.max(high[c], bucket_boxes[base + 16 * c + 8])
            set_box(group_boxes, g, low, high)
            group_largest[g] = largest_of(bucket_largest, begin, begin + group)
        place = places[sample]
        home = homes[sample]
        far = wp.cast(_START, wp.int32)
        for it in range(wanted):
            chosen[sample, it] = wp.int64(order[place])
            ranks[place] = it
            cell = (place // 8) * wp.static(block_size) + place % 8
            x = vector(0.0)
            for c in range(wp.static(dim)):
                x[c] = cells[cell + 8 * c]
            if summary == 1:
                picked[sample * wanted + it] = x
            # the choice itself: out of the running, and its own anchor unless a twin of it was chosen before
            if cells[cell + wp.static(8 * dim)] > wp.float32(0.0):
                anchors[place] = it
            cells[cell + wp.static(8 * dim)] = _CHOSEN
            bucket_largest[home] = far
            group_largest[first + (home - base_bucket) // group] = far
            for g8 in range(first, last, 8):
                groups = near(group_boxes, group_largest, g8, x)
                while groups != 0:
                    g = g8 + lowest_bit(groups)
                    groups = groups & (groups - 1)
                    begin = base_bucket + (g - first) * group
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
                end = base_bucket + (g - first + 1) * group
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
        start = 8 * blocks[base_bucket]
        stop = 8 * blocks[base_bucket + (last - first) * group]
        finish(
            cells, order, anchors, ranks, start, stop, sample, count, wanted, out_gaps, out_anchors, summary, radius,
            counts, coarse,
        )  # fmt: skip

    @wp.kernel(module=module)
    def select(
        offset: int,
        cells: FLOATS,
        order: INTS,
        anchors: INTS,
        ranks: INTS,
        first_groups: INTS,
        group_boxes: FLOATS,
        group_largest: INTS,
        blocks: INTS,
        bucket_boxes: FLOATS,
        bucket_largest: INTS,
        bucket_best: INTS,
        places: INTS,
        homes: INTS,
        group: int,
        count: int,
        wanted: int,
        chosen: wp.array2d(dtype=wp.int64),
        out_gaps: FLOATS,
        out_anchors: INTS,
        summary: int,
        radius: FLOATS,
        counts: INTS,
        coarse: KEYS,
        picked: wp.array(dtype=vector),
    ):
        s = offset + wp.tid()
        first = first_groups[s]
        select_in_sample(
            s, first, first_groups[s + 1], first * group, cells, order, anchors, ranks, group_boxes, group_largest,
            blocks, bucket_boxes, bucket_largest, bucket_best, places, homes, group, count, wanted, chosen, out_gaps,
            out_anchors, summary, radius, counts, coarse, picked,
        )  # fmt: skip

    @wp.kernel(module=module)
    def whole(
        offset: int,
        points: wp.array(dtype=vector),
        starts: INTS,
        count: int,
        size: int,
        bucket_room: int,
        group_room: int,
        keys: KEYS,
        rows: INTS,
        leaf_starts: INTS,
        leaf_blocks: INTS,
        cells: FLOATS,
        order: INTS,
        anchors: INTS,
        ranks: INTS,
        group_boxes: FLOATS,
        group_largest: INTS,
        blocks: INTS,
        bucket_boxes: FLOATS,
        bucket_largest: INTS,
        bucket_best: INTS,
        places: INTS,
        homes: INTS,
        wanted: int,
        chosen: wp.array2d(dtype=wp.int64),
        out_gaps: FLOATS,
        out_anchors: INTS,
        summary: int,
        radius: FLOATS,
        counts: INTS,
        coarse: KEYS,
        picked: wp.array(dtype=vector),
    ):
        # a sample of few points from beginning to end; every array has room for the worst case
        s = offset + wp.tid()
        first_row = s * count
        low = vector(_INFINITE)
        high = vector(-_INFINITE)
        for i in range(first_row, first_row + count):
            low = wp.min(low, points[i])
            high = wp.max(high, points[i])
        scale = morton.scale_of(wp.max(high - low))
        for i in range(count):
            keys[2 * first_row + i] = wp.int64(morton.code(points[first_row + i], low, scale))
            rows[2 * first_row + i] = first_row + i
        sort_keys(keys, rows, 2 * first_row, count)
        leaves = s * (count + 1)
        ends = wp.zeros(shape=(_DEPTH,), dtype=wp.int32)
        used = leaves
        block = first_row
        start = 2 * first_row
        ends[0] = start + count
        depth = int(1)
        while depth > 0:
            stop = ends[depth - 1]
            if stop - start > size:
                ends[depth] = split_at(keys, start, stop)
                depth = depth + 1
            else:
                leaf_starts[used] = start
                leaf_blocks[used] = block
                block = block + (stop - start + 7) // 8
                used = used + 1
                start = stop
                depth = depth - 1
        leaf_starts[used] = start
        leaf_blocks[used] = block
        many = used - leaves
        group = 8 * wp.max(1, int(wp.round(wp.sqrt(float(many) / 3.0) / 8.0)))
        groups = 8 * ((many + 8 * group - 1) // (8 * group))
        base = s * bucket_room
        for j in range(groups * group):
            leaf = leaves + wp.min(j, many)
            filled = int(0)
            if j < many:
                filled = leaf_starts[leaf + 1] - leaf_starts[leaf]
            pack_bucket(
                base + j, leaf_starts[leaf], filled, leaf_blocks[leaf], s, first_row, starts[s], points, rows, cells,
                order, anchors, blocks, bucket_boxes, bucket_largest, bucket_best, places, homes,
            )  # fmt: skip
        first = s * group_room
        select_in_sample(
            s, first, first + groups, base, cells, order, anchors, ranks, group_boxes, group_largest, blocks,
            bucket_boxes, bucket_largest, bucket_best, places, homes, group, count, wanted, chosen, out_gaps,
            out_anchors, summary, radius, counts, coarse, picked,
        )  # fmt: skip

    return SimpleNamespace(plan=plan, pack=pack, select=select, whole=whole)
