"""Queries that belong to the points themselves, one a head: neighbours, gathered values, distance-weighted means."""

import torch
from torch.autograd.function import once_differentiable

from bvh._bridge import on_stream, wrap, wrap_flat
from bvh.build import build_bvh_batched
from bvh.query import query_knn
from bvh.validation import (
    check_bool,
    check_device,
    check_dim,
    check_enough,
    check_float32,
    check_k,
    check_rank,
    check_size,
    check_tensor,
)
from kernels.points.blend import Layout, blend, transpose_blend

_FLOOR = 1e-12  # squared distances up to here are exact hits; sums of weights do not go below it


def _check_positions(pos, q):
    check_rank(pos, "pos", (3,), "(B, N, D)")
    check_rank(q, "q", (4,), "(B, N, H, D)")
    check_size(q.shape[0], "q", "batch size", pos.shape[0])
    check_size(q.shape[1], "q", "point dimension", pos.shape[1])
    check_dim(pos.shape[2], "pos")
    check_size(q.shape[3], "q", "last dimension", pos.shape[2])


def _check_values(values, batch, count, device):
    check_rank(values, "values", (4,), "(B, N, H, C)")
    check_size(values.shape[0], "values", "batch size", batch)
    check_size(values.shape[1], "values", "point dimension", count)
    check_float32(values, "values")
    check_device(values, "values", device)


def query_displaced_knn(pos, q, k=8, *, return_positions=True):
    """The k nearest points to every displaced query of every point and head.

    pos (B, N, D), q (B, N, H, D), both float32 -> indices (B, N, H, k) int64, squared distances (B, N, H, k) [,
    positions (B, N, H, k, D)]. Equals ``query_knn`` of a batched handle over ``q.reshape(B, N * H, D)``; everything is
    detached. ValueError for shapes, then k, then dtypes and devices.
    """
    _check_positions(pos, q)
    check_k(k)
    check_bool(return_positions, "return_positions")
    check_float32(pos, "pos")
    check_float32(q, "q")
    check_device(q, "q", pos.device)
    check_enough([pos.shape[1]], k, "pos")
    batch, count, heads, dim = q.shape
    pos = pos.detach()
    handle = build_bvh_batched(pos)
    source = pos if return_positions else None
    results = query_knn(handle, q.detach().reshape(batch, count * heads, dim), k, source_points=source)
    return tuple(r.reshape(batch, count, heads, *r.shape[2:]) for r in results)


def gather_neighbor_values(values, indices):
    """Values of neighbours, head by head.

    values (B, N, H, C) float32, indices (B, M, H, k) int64 in [0, N) -> (B, M, H, k, C). Differentiable by ``values``.
    ValueError for shapes, dtypes, devices and indices out of range.
    """
    check_rank(values, "values", (4,), "(B, N, H, C)")
    check_rank(indices, "indices", (4,), "(B, N, H, k)")
    batch, count, heads, channels = values.shape
    check_size(indices.shape[0], "indices", "batch size", batch)
    check_size(indices.shape[2], "indices", "number of heads", heads)
    check_float32(values, "values")
    if indices.dtype != torch.int64:
        raise ValueError(f"indices must be int64, got {indices.dtype}")
    check_device(indices, "indices", values.device)
    if indices.numel():
        low, high = (int(v) for v in torch.aminmax(indices))
        if low < 0 or high >= count:
            raise ValueError(f"indices must be in [0, {count}), got values from {low} to {high}")
    device = values.device
    sample = torch.arange(batch, device=device).reshape(-1, 1, 1, 1)
    head = torch.arange(heads, device=device).reshape(1, 1, -1, 1)
    rows = (sample * count + indices) * heads + head
    flat = values.reshape(batch * count * heads, channels)
    return flat.index_select(0, rows.reshape(-1)).reshape(*indices.shape, channels)


class _Blend(torch.autograd.Function):
    """Weighted sums of feature rows, differentiable by the features alone."""

    @staticmethod
    def forward(ctx, features, indices, weights, layout):
        channels = features.shape[-1]
        out = features.new_empty((indices.shape[0], channels))
        with on_stream(features.device):
            blend(wrap(indices), wrap(weights), wrap_flat(features), layout, channels, wrap_flat(out))
        ctx.layout, ctx.shape = layout, features.shape
        ctx.save_for_backward(indices, weights)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        indices, weights = ctx.saved_tensors
        out = torch.empty(ctx.shape, dtype=torch.float32, device=gradient.device)
        arriving = wrap_flat(gradient)
        with on_stream(gradient.device):
            transpose_blend(
                wrap(indices), wrap_flat(weights), 1, arriving, None, ctx.layout, ctx.shape[-1], wrap_flat(out)
            )
        return out, None, None, None


def _mean_weights(squared):
    """Inverse squared distances normalised to one; where some are exact hits, the plain mean of those."""
    weights = 1.0 / (squared + _FLOOR)
    hits = (squared <= _FLOOR).to(weights.dtype)
    weights = torch.where(hits.any(-1, keepdim=True), hits, weights)
    return weights / weights.sum(-1, keepdim=True).clamp_min(_FLOOR)


def interpolate_displaced(pos, q, values, k=8, *, reduction="weighted_mean"):
    """Means of neighbour values at displaced queries, weighted by ``1 / (squared distance + 1e-12)``.

    pos (B, N, D), q (B, N, H, D), values (B, N, H, C), all float32 -> (B, N, H, C). Where neighbours lie within a
    squared distance of 1e-12, the plain mean of those. Differentiable by ``values`` alone: ``pos.grad`` and ``q.grad``
    stay None.
    ValueError for shapes, k, dtypes, devices and any reduction but "weighted_mean".
    """
    if reduction != "weighted_mean":
        raise ValueError(f"reduction must be 'weighted_mean', got {reduction!r}")
    _check_positions(pos, q)
    check_tensor(values, "values")
    _check_values(values, pos.shape[0], pos.shape[1], pos.device)
    check_size(values.shape[2], "values", "number of heads", q.shape[2])
    indices, squared = query_displaced_knn(pos, q, k, return_positions=False)
    batch, count, heads, _ = q.shape
    layout = Layout(max(count * heads, 1), count, max(heads, 1), batch)
    out = _Blend.apply(values, indices.reshape(-1, k), _mean_weights(squared).reshape(-1, k), layout)
    return out.reshape(batch, count, heads, values.shape[-1])
