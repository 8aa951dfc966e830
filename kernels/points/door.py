"""Build, k-NN and farthest point sampling for programs that hold Warp arrays and no tensors.

Nothing here lands on a ``wp.Tape``: inside one, these calls are constants. Launches go to the arrays' device and, on
CUDA, to its current stream.
"""

from itertools import pairwise

import numpy as np
import warp as wp

from kernels.points import farthest as farthest_kernels
from kernels.points import search as search_kernels
from kernels.points.knn_native import MAX_K
from kernels.points.launch import dimension
from kernels.points.tree import Forest, build_forest


def _flat(points, name):
    """``(vectors of all samples, samples, dimension)`` of an array of shape (N,) or (B, N)."""
    dim = dimension(points, name)
    if points.ndim not in (1, 2):
        raise ValueError(f"{name} must have shape (N,) or (B, N), got {tuple(points.shape)}")
    if points.ndim == 1:
        return points, 1, dim
    if not points.is_contiguous:
        raise ValueError(f"{name} of shape (B, N) must be contiguous, got strides {tuple(points.strides)}")
    return points.reshape((points.shape[0] * points.shape[1],)), points.shape[0], dim


def _check_count(value, name, low, high):
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be an integer from {low} to {high}, got {value!r}")


def _offset_list(offsets, rows, name):
    values = [int(v) for v in (offsets.numpy() if isinstance(offsets, wp.array) else offsets)]
    if len(values) < 2 or values[0] != 0 or values[-1] != rows or any(a > b for a, b in pairwise(values)):
        raise ValueError(f"{name} must rise from 0 to the number of rows, {rows}, got {values}")
    return values


def build(points, *, offsets=None):
    """Sort points and build their tree.

    Parameters
    ----------
    points : wp.array of wp.vec2 or wp.vec3
        (N,) for one set, (B, N) for a batch, (total,) with ``offsets``.
    offsets : wp.array of int32 or a sequence, (B + 1,), optional
        Where the sets begin among the points; sets may be empty.

    Returns a ``Forest``; the points may change afterwards. TypeError for other arrays, ValueError for shapes and
    offsets.
    """
    flat, samples, dim = _flat(points, "points")
    total = flat.shape[0]
    if total == 0:
        raise ValueError("points must hold at least one point, got none")
    if offsets is None:
        values = [i * (total // samples) for i in range(samples + 1)]
    elif samples != 1 or points.ndim != 1:
        raise ValueError(f"offsets take points of shape (total,), got {tuple(points.shape)}")
    else:
        values = _offset_list(offsets, total, "offsets")
    largest = max(b - a for a, b in pairwise(values))
    device = flat.device
    rows = wp.array(np.asarray(values, np.int32), dtype=wp.int32, device=device)
    return build_forest(flat, rows, len(values) - 1, largest, dim, device)


def knn(forest, queries, k, *, query_offsets=None, sort=True):
    """The k nearest points of every query; missing ones have index -1 and distance inf.

    Parameters
    ----------
    forest : Forest
        From ``build``.
    queries : wp.array of wp.vec2 or wp.vec3
        (M,) for one set, (B, M) for a batch, (total,) with ``query_offsets``.
    k : int, 1 to 64
    query_offsets : wp.array of int32 or a sequence, (B + 1,), optional
        Needed where the sets of the build came with offsets.
    sort : bool
        Visit the queries in the order of their cells; changes the speed alone.

    Returns
    -------
    indices : wp.array2d of int64, (M, k), (B M, k) or (total, k)
        By ascending distance, equal ones by ascending index.
    squared_distances : wp.array2d of float32

    TypeError for a forest or queries of another type, ValueError for k, shapes and offsets.
    """
    if not isinstance(forest, Forest):
        raise TypeError(f"forest must be a Forest made by build, got {type(forest).__name__}")
    _check_count(k, "k", 1, MAX_K)
    flat, samples, dim = _flat(queries, "queries")
    if dim != forest.dim:
        raise ValueError(f"queries must have dimension {forest.dim}, got {dim}")
    device = forest.device
    if flat.device != device:
        raise ValueError(f"queries must be on {device}, got {flat.device}")
    total = flat.shape[0]
    sample_of = None
    if query_offsets is not None:
        values = _offset_list(query_offsets, total, "query_offsets")
        if len(values) != forest.samples + 1:
            raise ValueError(f"query_offsets must hold {forest.samples + 1} offsets, got {len(values)}")
        owner = np.repeat(np.arange(forest.samples, dtype=np.int32), np.diff(values))
        sample_of = wp.array(owner, dtype=wp.int32, device=device)
    elif samples != forest.samples:
        raise ValueError(f"queries must hold {forest.samples} samples, got {samples}")
    indices = wp.empty((total, k), dtype=wp.int64, device=device)
    distances = wp.empty((total, k), dtype=wp.float32, device=device)
    search_kernels.query_rows(
        forest,
        flat,
        k,
        indices,
        distances,
        rows_per_sample=0 if sample_of is not None else max(total // samples, 1),
        sample_of=sample_of,
        sort=sort,
    )
    return indices, distances


def fps(points, count, *, seed=0):
    """Farthest point sampling: ``count`` points of every set, beginning with index ``seed``.

    points : wp.array of wp.vec2 or wp.vec3, (N,) or (B, N). Returns the chosen indices (B, count) int64, every point's
    position among them of its nearest anchor (B N,) int32, and the squared distance to it (B N,) float32. Ties go to
    the lowest index; no point is chosen twice. TypeError for other arrays, ValueError for shapes, count and seed.
    """
    flat, samples, dim = _flat(points, "points")
    total = flat.shape[0]
    each = total // samples if samples else 0
    if each == 0:
        raise ValueError("points must hold at least one point, got none")
    _check_count(count, "count", 1, each)
    _check_count(seed, "seed", 0, each - 1)
    device = flat.device
    chosen = wp.empty((samples, count), dtype=wp.int64, device=device)
    gaps = wp.empty(total, dtype=wp.float32, device=device)
    anchors = wp.empty(total, dtype=wp.int32, device=device)
    farthest_kernels.select(flat, samples, [seed] * samples, count, chosen, gaps, anchors, dim=dim, device=device)
    return chosen, anchors, gaps
