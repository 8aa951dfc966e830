"""Farthest point sampling."""

from dataclasses import dataclass

import torch

from bvh._bridge import on_stream, warp_device, wrap_fresh
from bvh.validation import check_bool, check_points
from kernels.points import farthest as kernels
from kernels.points.launch import VECTORS

MODES = ("exact_bucketed", "exact_full_scan", "approx_bucketed")


@dataclass(frozen=True)
class FPSResult:
    """Chosen points ("anchors") and what belongs to them; of a batch, every tensor has a leading B.

    indices                  (M,) int64, in order of choice
    points                   (M, D) float32, ``points[indices]``
    nearest_anchor           (N,) int32, position in ``indices`` of a point's nearest anchor, the earliest of equals
    nearest_anchor_dist_sq   (N,) float32, squared distance to it
    anchor_radius            (M,) float32, largest *squared* distance of an anchor's points, 0 if it has none
    anchor_counts            (M,) int32, how many points an anchor has
    coarse_order             (M,) int64, the anchors in the Morton order of ``build_bvh(points)["sorted_indices"]``
    selection_order_indices  (M,) int64, same as ``indices``
    """

    indices: torch.Tensor
    points: torch.Tensor
    nearest_anchor: torch.Tensor
    nearest_anchor_dist_sq: torch.Tensor
    anchor_radius: torch.Tensor
    anchor_counts: torch.Tensor
    coarse_order: torch.Tensor
    selection_order_indices: torch.Tensor


def _check_integer(value, name, low, high, what):
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be {what}, got {value!r}")


def _first_anchors(points):
    """Index of every sample's point nearest to the middle of the bounding box."""
    middle = (points.amin(1, keepdim=True) + points.amax(1, keepdim=True)) * 0.5
    squared = ((points - middle) ** 2).sum(-1)
    # argmin does not promise the first of equals
    return (squared == squared.amin(1, keepdim=True)).to(torch.int8).argmax(1).tolist()


def fps(
    points,
    target_tokens,
    *,
    seed=0,
    r=4,
    c=2,
    alpha=0.25,
    mode="exact_bucketed",
    bucket_size=256,
    use_graph=True,
):
    """Farthest point sampling: every next point is the one farthest from those chosen so far.

    Parameters
    ----------
    points : Tensor, float32, (N, D) or (B, N, D)
        D is 2 or 3.
    target_tokens : int
        How many to choose, 1 to N.
    seed : int
        Index of the first choice, or -1 for the point nearest to the middle of the bounding box.
    mode : str
        "exact_bucketed", "exact_full_scan" (slower, the same results), or "approx_bucketed" (whose bounds the exact
        selection satisfies, and gets).
    r, c, alpha, bucket_size, use_graph
        Accepted for the sake of callers that tune other implementations; results do not depend on them. With
        "approx_bucketed", r must be in [1, 8], c at least 1, and r * c at most 32.

    Returns
    -------
    FPSResult
        Ties in distance go to the lowest index; a point moves to a later anchor only if that is strictly nearer; no
        point is chosen twice, however many coincide. Nothing is differentiable.

    Raises
    ------
    TypeError
        ``points`` is no tensor.
    ValueError
        mode, shape, D, dtype, target token count, seed, r, c.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {MODES}, got {mode!r}")
    check_points(points)
    batched = points.ndim == 3
    live = points.contiguous()  # torch's calls are few here: each takes longer than a hundred choices on cold caches
    samples, count, dim = live.shape if batched else (1, *live.shape)
    _check_integer(target_tokens, "target token count", 1, count, f"an integer from 1 to N = {count}")
    _check_integer(seed, "seed", -1, count - 1, f"an integer from -1 to N - 1 = {count - 1}")
    check_bool(use_graph, "use_graph")
    _check_integer(bucket_size, "bucket_size", 1, 2**31 - 1, "a positive integer")
    if mode == "approx_bucketed":
        _check_integer(r, "r", 1, 8, "an integer in [1, 8]")
        _check_integer(c, "c", 1, 32, "an integer >= 1")
        if r * c > 32:
            raise ValueError(f"r * c must be at most 32, got {r} * {c} = {r * c}")
    device = live.device
    lead = (samples,) if batched else ()

    def fresh(size, dtype, *vector):
        return torch.empty((*lead, size, *vector), dtype=dtype, device=device)

    indices, coarse = fresh(target_tokens, torch.int64), fresh(target_tokens, torch.int64)
    gaps, nearest = fresh(count, torch.float32), fresh(count, torch.int32)
    radius, counts = fresh(target_tokens, torch.float32), fresh(target_tokens, torch.int32)
    chosen = fresh(target_tokens, torch.float32, dim)
    vector, picks = VECTORS[dim], (samples * target_tokens,)
    with on_stream(device):
        kernels.select(
            wrap_fresh(live, (samples * count,), vector),
            samples,
            _first_anchors(live.detach().reshape(samples, count, dim)) if seed < 0 else [seed] * samples,
            target_tokens,
            wrap_fresh(indices, (samples, target_tokens)),
            *(wrap_fresh(tensor, (samples * count,)) for tensor in (gaps, nearest)),
            (*(wrap_fresh(tensor, picks) for tensor in (radius, counts, coarse)), wrap_fresh(chosen, picks, vector)),
            dim=dim,
            device=warp_device(live),
            bucketed=mode != "exact_full_scan",
        )
    return FPSResult(indices, chosen, nearest, gaps, radius, counts, coarse, indices.clone())
