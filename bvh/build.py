"""Building: points to handles."""

from itertools import pairwise

import torch

from bvh._bridge import on_stream, unwrap, warp_device, wrap, wrap_vectors
from bvh.handles import FOREST, BatchedBVHHandle, BVHHandle, RaggedBVHHandle
from bvh.validation import check_bool, check_dim, check_float32, check_offsets, check_points, check_rank
from kernels.points.tree import build_forest


def make_forest(points, offsets):
    """A ``Forest`` over the rows of ``points`` (..., D); ``offsets`` is a list of B + 1 row numbers."""
    device = points.device
    samples = len(offsets) - 1
    largest = max(stop - start for start, stop in pairwise(offsets))
    with on_stream(device):
        row_offsets = wrap(torch.tensor(offsets, dtype=torch.int32, device=device))
        return build_forest(wrap_vectors(points), row_offsets, samples, largest, points.shape[-1], warp_device(points))


def build_bvh(points, *, batch_offsets=None, allow_empty=False):
    """Build the tree of one set, of a batch, or of packed sets of different sizes.

    Parameters
    ----------
    points : Tensor, float32
        (N, D) for one set, (B, N, D) for a batch, (total_N, D) with ``batch_offsets``; D is 2 or 3. Read only during
        the call, never differentiated, copied where it is not contiguous.
    batch_offsets : Tensor, int64, (B + 1,), optional
        Set i has rows ``batch_offsets[i]`` to ``batch_offsets[i + 1]``. Starts at 0, ends at total_N, strictly
        increases.
    allow_empty : bool
        Let sets of ``batch_offsets`` be empty.

    Returns
    -------
    BVHHandle, BatchedBVHHandle or RaggedBVHHandle

    Raises
    ------
    TypeError
        ``points`` or ``batch_offsets`` is no tensor.
    ValueError
        Wrong shape, D, dtype, device or offsets.
    """
    check_bool(allow_empty, "allow_empty")
    if batch_offsets is not None:
        return build_bvh_ragged(points, batch_offsets, allow_empty=allow_empty)
    check_points(points)
    if points.ndim == 3:
        return build_bvh_batched(points)
    forest = make_forest(points, [0, points.shape[0]])
    aabbs = unwrap(forest.nodes.aabbs).reshape(-1, 2 * forest.dim)
    return BVHHandle(
        {
            "dim": forest.dim,
            "num_leaves": points.shape[0],
            "num_real_nodes": aabbs.shape[0],
            "node_aabbs": aabbs,
            "sorted_indices": unwrap(forest.order).long(),
            "scene_min": unwrap(forest.frame.lower)[0],
            "scene_max": unwrap(forest.frame.upper)[0],
            FOREST: forest,
        }
    )


def _boxes_by_sample(forest):
    """(B, nodes of the largest tree, 2 D): every sample's node boxes, zero beyond its own."""
    boxes = unwrap(forest.nodes.aabbs).reshape(-1, 2 * forest.dim)
    owner = unwrap(forest.nodes.sample_of).long()
    counts = torch.bincount(owner, minlength=forest.samples)
    by_owner = torch.argsort(owner, stable=True)
    first = torch.cumsum(counts, 0) - counts
    owner = owner[by_owner]
    place = torch.arange(owner.shape[0], device=owner.device) - first[owner]
    padded = boxes.new_zeros((forest.samples, int(counts.max()), 2 * forest.dim))
    padded[owner, place] = boxes[by_owner]
    return padded


def build_bvh_batched(points):
    """``build_bvh`` of a batch: points (B, N, D) float32. ValueError for another rank."""
    check_rank(points, "points", (3,), "(B, N, D)")
    check_points(points)
    samples, count, _ = points.shape
    forest = make_forest(points, [i * count for i in range(samples + 1)])
    aabbs = _boxes_by_sample(forest)
    return BatchedBVHHandle(
        {
            "dim": forest.dim,
            "batch_size": samples,
            "num_leaves": count,
            "num_real_nodes": aabbs.shape[1],
            "node_aabbs": aabbs,
            "sorted_indices": unwrap(forest.order).long().reshape(samples, count),
            "scene_min": unwrap(forest.frame.lower),
            "scene_max": unwrap(forest.frame.upper),
            "_batched": True,
            FOREST: forest,
        }
    )


def build_bvh_ragged(points, batch_offsets, *, allow_empty=False):
    """``build_bvh`` of packed sets: points (total_N, D) float32, batch_offsets (B + 1,) int64.

    ``allow_empty=True`` lets sets be empty.
    """
    check_bool(allow_empty, "allow_empty")
    check_rank(points, "points", (2,), "(total_N, D): batch_offsets take 2-D points")
    check_dim(points.shape[-1], "points")
    check_float32(points, "points")
    offsets = check_offsets(batch_offsets, "batch_offsets", points.shape[0], points.device, allow_empty=allow_empty)
    forest = make_forest(points, offsets)
    kept = batch_offsets.detach().clone()
    return RaggedBVHHandle(
        {
            "dim": forest.dim,
            "batch_size": forest.samples,
            "batch_offsets": kept,
            "num_leaves_per_sample": kept[1:] - kept[:-1],
            "_offsets": offsets,
            "_allow_empty": allow_empty,
            FOREST: forest,
        }
    )


def points_in_order(forest):
    """The points of a build, (total, D), in the order they were given: a snapshot, whatever became of the tensor."""
    rows = unwrap(forest.order).long()
    if forest.samples > 1:
        offsets = unwrap(forest.offsets).long()
        rows = rows + torch.repeat_interleave(offsets[:-1], offsets[1:] - offsets[:-1])
    points = torch.empty((forest.count, forest.dim), dtype=torch.float32, device=rows.device)
    points[rows] = unwrap(forest.items)
    return points
