"""Farthest point sampling in buckets, on a CPU; ``farthest`` has the definition.

The points of a sample lie in buckets, leaves of a Morton tree, and every bucket knows its box and its largest distance:
one whose box is not nearer to the new anchor than that cannot change. Groups of buckets know the same of themselves. A
bucket is a run of blocks of eight points, a block being eight coordinates an axis and then eight distances, filled up
with points that are out of the running. Every sample's buckets fill whole groups, and its groups a multiple of eight.
"""

import threading

import numpy as np
import warp as wp

from kernels.points import morton
from kernels.points.bucket_kernels import kernels_of
from kernels.points.launch import launch, launch_each, launch_serial

BUCKET_SIZE = 128
_SMALL = 32768  # points that one launch takes from beginning to end
_kept = threading.local()


def _select_whole(points, samples, starts, wanted, outputs, dim, device, size):
    """In one launch, with working memory that the thread keeps for its next call of the same shape."""
    count = points.shape[0] // samples
    key = (dim, samples, count)
    if getattr(_kept, "key", None) != key:

        def ints(each):
            return wp.empty(samples * each, dtype=wp.int32, device=device)

        def floats(each):
            return wp.empty(samples * each, dtype=wp.float32, device=device)

        # a leaf has a point or more, and a bucket a block or more
        buckets = 8 * ((count + 8 * int((count / 3) ** 0.5 + 16)) // 8 + 2)
        groups = 8 * (count // 64 + 3)
        _kept.arrays = [
            count, size, buckets, groups, wp.empty(2 * samples * count, dtype=wp.int64, device=device), ints(2 * count),
            ints(count + 1), ints(count + 1), floats(8 * count * (dim + 1)), ints(8 * count), ints(8 * count),
            ints(8 * count), floats(2 * dim * groups), ints(groups), ints(buckets), floats(2 * dim * buckets),
            ints(buckets), ints(buckets), ints(1), ints(1),
        ]  # fmt: skip
        _kept.key = key
    _kept.arrays[1] = size
    launch_each(kernels_of(dim).whole, samples, [points, starts, *_kept.arrays, wanted, *outputs], device)


def select(points, samples, starts, wanted, chosen, gaps, anchors, summary, *, dim, device, bucket_size=None):
    """See ``farthest.select``."""
    kernels = kernels_of(dim)
    total = points.shape[0]
    count = total // samples

    def numbers(values):
        return wp.array(np.asarray(values, np.int32), dtype=wp.int32, device=device, copy=False)

    def ints(size):
        return wp.empty(size, dtype=wp.int32, device=device)

    size = bucket_size or BUCKET_SIZE
    outputs = [chosen, gaps, anchors, int(summary is not None), *(summary or (None,) * 4)]
    if total <= _SMALL:
        _select_whole(points, samples, numbers(starts), wanted, outputs, dim, device, size)
        return
    offsets = numbers(range(0, total + 1, count))
    frame = morton.frames(points, offsets, samples, count, dim, device)
    keys, rows = morton.sort_points(points, offsets, samples, frame, dim, device)
    leaves = [ints(total + 1), ints(total + 1), ints(samples + 1)]
    launch_serial(kernels.plan, [keys, offsets, samples, size, *leaves], device)
    first_leaves = leaves[2].numpy()
    slots = 8 * int(leaves[1].numpy()[first_leaves[-1]])

    per_sample = np.diff(first_leaves)
    # about three groups are opened a choice, so this balances looking at groups against looking into them
    group = 8 * max(1, round((int(per_sample.max()) / 3) ** 0.5 / 8))
    groups = -(-per_sample // (8 * group)) * 8
    first_groups = numbers([0, *np.cumsum(groups)])
    many = int(groups.sum())
    buckets = many * group
    cells = wp.empty(slots * (dim + 1), dtype=wp.float32, device=device)
    boxes, group_boxes = (wp.empty(2 * dim * n, dtype=wp.float32, device=device) for n in (buckets, many))
    order, owners, ranks = (ints(slots) for _ in range(3))
    blocks, largest, best, group_largest = ints(buckets + 1), ints(buckets), ints(buckets), ints(many)
    places, homes = ints(samples), ints(samples)
    launch(
        kernels.pack,
        buckets,
        [
            points, rows, offsets, samples, numbers(starts), *leaves, first_groups, group, cells, order, owners,
            blocks, boxes, largest, best, places, homes,
        ],
        device,
        grain=256,
    )  # fmt: skip
    launch_each(
        kernels.select,
        samples,
        [
            cells, order, owners, ranks, first_groups, group_boxes, group_largest, blocks, boxes, largest, best,
            places, homes, group, count, wanted, *outputs,
        ],
        device,
    )  # fmt: skip
