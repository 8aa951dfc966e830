"""k nearest neighbours of queries against built handles."""

from itertools import pairwise

import torch

from bvh._bridge import on_stream, wrap, wrap_vectors
from bvh.build import build_bvh, build_bvh_batched
from bvh.handles import FOREST, open_handle
from bvh.validation import (
    check_bool,
    check_device,
    check_enough,
    check_float32,
    check_k,
    check_offsets,
    check_points,
    check_rank,
    check_size,
    check_tensor,
)
from kernels.points.search import query_rows


def search(forest, queries, k, *, rows_per_sample=0, sample_of=None, rows=None, sort=True):
    """``(indices (R, k) int64, squared distances (R, k) float32)`` of query rows (R, D), no checks.

    Rows not named by ``rows`` (int32) are left uninitialised. See ``kernels.points.search.query_rows``.
    """
    total = queries.shape[0]
    indices = torch.empty((total, k), dtype=torch.int64, device=queries.device)
    distances = torch.empty((total, k), dtype=torch.float32, device=queries.device)
    with on_stream(queries.device):
        query_rows(
            forest,
            wrap_vectors(queries),
            k,
            wrap(indices),
            wrap(distances),
            rows_per_sample=rows_per_sample,
            sample_of=None if sample_of is None else wrap(sample_of),
            rows=None if rows is None else wrap(rows),
            sort=sort,
        )
    return indices, distances


def _check_source(source_points, shape, device):
    check_tensor(source_points, "source_points")
    if tuple(source_points.shape) != shape:
        names = ("first dimension", "second dimension", "last dimension")
        got = tuple(source_points.shape)
        which = next((n for n, a, b in zip(names, got, shape, strict=False) if a != b), "shape")
        raise ValueError(f"source_points must have the shape of the built points, {shape}, got {got}: wrong {which}")
    check_float32(source_points, "source_points")
    check_device(source_points, "source_points", device)


def _gather(source_rows, rows, indices, pad):
    """Rows of the source, differentiable by it alone; NaN where there is no neighbour."""
    positions = source_rows[rows.clamp_min(0) if pad else rows]
    return positions.masked_fill((indices < 0).unsqueeze(-1), float("nan")) if pad else positions


def _check_uniform(queries, form, rank, data, name="query_points"):
    """Rank, batch size and D of queries against a single or batched handle."""
    check_rank(queries, name, (rank,), form)
    if rank == 3:
        check_size(queries.shape[0], name, "batch size", data["batch_size"])
    check_size(queries.shape[-1], name, "last dimension", data["dim"])


def _query_uniform(data, kind, query_points, k, source_points, sort_queries, pad):
    batched = kind == "batched"
    forest = data[FOREST]
    _check_uniform(query_points, "(B, M, D)" if batched else "(M, D)", 3 if batched else 2, data)
    count = data["num_leaves"]
    if not pad:
        check_enough([count], k)
    device = data["sorted_indices"].device
    check_float32(query_points, "query_points")
    check_device(query_points, "query_points", device)
    lead = (data["batch_size"], count) if batched else (count,)
    if source_points is not None:
        _check_source(source_points, (*lead, data["dim"]), device)
    per_sample = query_points.shape[-2]
    indices, distances = search(
        forest,
        query_points.reshape(-1, data["dim"]),
        k,
        rows_per_sample=max(per_sample, 1),
        sort=sort_queries,
    )
    shape = (*query_points.shape[:-1], k)
    indices, distances = indices.reshape(shape), distances.reshape(shape)
    if source_points is None:
        return indices, distances
    rows = indices
    if batched:
        first = torch.arange(data["batch_size"], device=device) * count
        rows = indices + first[:, None, None]
    return indices, distances, _gather(source_points.reshape(-1, data["dim"]), rows, indices, pad)


def _query_ragged(data, query_points, query_offsets, k, source_points, sort_queries, pad):
    if query_offsets is None:
        raise ValueError("query_offsets is needed for a RaggedBVHHandle, got None; it takes (B + 1,) int64 offsets")
    forest = data[FOREST]
    check_rank(query_points, "query_points", (2,), "(total_M, D)")
    check_size(query_points.shape[1], "query_points", "second dimension", data["dim"])
    check_rank(query_offsets, "query_offsets", (1,), "(B + 1,)")
    check_size(query_offsets.shape[0] - 1, "query_offsets", "batch size", data["batch_size"])
    if not pad:
        offsets = data["_offsets"]
        check_enough([b - a for a, b in pairwise(offsets)], k)
    device = data["batch_offsets"].device
    check_float32(query_points, "query_points")
    check_device(query_points, "query_points", device)
    rows = query_points.shape[0]
    check_offsets(query_offsets, "query_offsets", rows, device, allow_empty=data["_allow_empty"])
    if source_points is not None:
        _check_source(source_points, (forest.count, data["dim"]), device)
    sample_of = torch.repeat_interleave(
        torch.arange(data["batch_size"], dtype=torch.int32, device=device),
        query_offsets[1:] - query_offsets[:-1],
        output_size=rows,
    )
    indices, distances = search(forest, query_points, k, sample_of=sample_of, sort=sort_queries)
    if source_points is None:
        return indices, distances
    first = data["batch_offsets"][:-1][sample_of.long()]
    if forest.count == 0:  # every set is empty: nothing to gather from, and nothing to differentiate
        return indices, distances, query_points.new_full((rows, k, data["dim"]), float("nan"))
    return (
        indices,
        distances,
        _gather(source_points, (indices + first[:, None]).clamp_max(forest.count - 1), indices, pad),
    )


def query_knn(bvh, query_points, k, *, query_offsets=None, source_points=None, sort_queries=True, pad=False):
    """The k nearest points of every query, exactly.

    Parameters
    ----------
    bvh : BVHHandle, BatchedBVHHandle, RaggedBVHHandle, or dict of one of the first two
    query_points : Tensor, float32
        (M, D), (B, M, D) or (total_M, D), after the kind of handle. M may be 0.
    k : int, 1 to 64
        4, 8 and 16 have kernels of their own; sizes below 16 take those.
    query_offsets : Tensor, int64, (B + 1,)
        Ragged handles only, and needed there.
    source_points : Tensor, float32, optional
        Of the shape, dtype and device of the points that were built. Asks for the neighbours' positions, gathered
        from it.
    sort_queries : bool
        Visit the queries in the order of their cells. Changes the speed alone.
    pad : bool
        Where a set has fewer than k points, fill with index -1, distance inf and position NaN.

    Returns
    -------
    indices : int64, (..., k)
        Local to the set, by ascending distance; equal distances by ascending index.
    squared_distances : float32, (..., k)
        Sums of squared differences, never expanded: exact far from the origin as well.
    positions : float32, (..., k, D)
        Only with ``source_points``. Differentiable by ``source_points``; nothing else here is differentiable.

    Raises
    ------
    TypeError
        ``bvh`` is no handle, or ``query_offsets`` without a RaggedBVHHandle.
    RuntimeError
        The handle was destroyed.
    ValueError
        k, shapes, dtypes, devices, offsets; a set with fewer than k points unless ``pad``.
    """
    check_k(k)
    kind, data = open_handle(bvh)
    if query_offsets is not None and kind not in ("ragged", "destroyed"):
        raise TypeError(f"query_offsets takes a RaggedBVHHandle, got a {kind} handle ({type(bvh).__name__})")
    if data is None:
        raise RuntimeError("bvh: the handle has been destroyed")
    check_bool(sort_queries, "sort_queries")
    check_bool(pad, "pad")
    if kind == "ragged":
        return _query_ragged(data, query_points, query_offsets, k, source_points, sort_queries, pad)
    return _query_uniform(data, kind, query_points, k, source_points, sort_queries, pad)


def _check_kind(bvh, wanted, name):
    try:
        kind, data = open_handle(bvh)
    except TypeError:
        kind, data = "other", bvh
    if kind not in (wanted, "destroyed"):
        raise TypeError(f"bvh must be a {name}, got {type(bvh).__name__}")
    if data is None:
        raise RuntimeError("bvh: the handle has been destroyed")


def query_knn_batched(bvh, query_points, k, *, source_points=None, sort_queries=True, pad=False):
    """``query_knn`` that takes a BatchedBVHHandle (or dict of one) only; TypeError for another kind."""
    check_k(k)
    _check_kind(bvh, "batched", "BatchedBVHHandle")
    return query_knn(bvh, query_points, k, source_points=source_points, sort_queries=sort_queries, pad=pad)


def query_knn_ragged(bvh, query_points, query_offsets, k, *, source_points=None, sort_queries=True, pad=False):
    """``query_knn`` that takes a RaggedBVHHandle only, with the offsets before k; TypeError for another kind."""
    check_k(k)
    _check_kind(bvh, "ragged", "RaggedBVHHandle")
    return query_knn(
        bvh,
        query_points,
        k,
        query_offsets=query_offsets,
        source_points=source_points,
        sort_queries=sort_queries,
        pad=pad,
    )


class _Query(torch.autograd.Function):
    """Build, query, forget; all three results are cut off from the graph."""

    rank = 2
    form = "(N, D)"

    @classmethod
    def _search(cls, points, query_points, k):
        check_k(k)
        check_rank(points, "points", (cls.rank,), cls.form)
        check_points(points)
        build = build_bvh_batched if cls.rank == 3 else build_bvh
        handle = build(points.detach())
        return query_knn(handle, query_points.detach(), k, source_points=points.detach())

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, None


class BVHQuery(_Query):
    """``BVHQuery.apply(points (N, D), query_points (M, D), k)`` -> indices, squared distances, positions.

    An explicit boundary of autograd: all three results are detached from points and queries alike.
    """

    @staticmethod
    def forward(ctx, points, query_points, k):
        results = BVHQuery._search(points, query_points, k)
        ctx.mark_non_differentiable(*results)
        return results


class BatchedBVHQuery(_Query):
    """``BatchedBVHQuery.apply(points (B, N, D), query_points (B, M, D), k)``; as ``BVHQuery``."""

    rank = 3
    form = "(B, N, D)"

    @staticmethod
    def forward(ctx, points, query_points, k):
        results = BatchedBVHQuery._search(points, query_points, k)
        ctx.mark_non_differentiable(*results)
        return results
