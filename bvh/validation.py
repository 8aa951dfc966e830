"""Checks shared by the public functions. Messages name the argument, what it got and what it takes."""

from itertools import pairwise

import torch

from kernels.points.knn_native import MAX_K
from kernels.points.search import SIZES

SUPPORTED_K = SIZES
SUPPORTED_DIMS = (2, 3)


def check_k(k):
    """ValueError unless ``k`` is an integer from 1 to 64."""
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MAX_K:
        raise ValueError(f"k must be 4, 8, or 16, or any other integer from 1 to {MAX_K}, got {k!r}")


def check_tensor(tensor, name):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")


def check_rank(tensor, name, ranks, form):
    """TypeError for no tensor, ValueError for a rank other than those in ``ranks``; ``form`` says what fits."""
    check_tensor(tensor, name)
    if tensor.ndim not in ranks:
        raise ValueError(f"{name} must have shape {form}, got {tuple(tensor.shape)}")


def check_dim(size, name):
    if size not in SUPPORTED_DIMS:
        raise ValueError(f"{name}: D must be 2 or 3, got {size}")


def check_float32(tensor, name):
    if tensor.dtype != torch.float32:
        raise ValueError(f"{name} must be float32, got {tensor.dtype}")


def check_device(tensor, name, device):
    if tensor.device != device:
        raise ValueError(f"{name} must be on the same device as the other tensors ({device}), got {tensor.device}")


def check_bool(value, name):
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool, got {type(value).__name__}")


def check_size(got, name, what, expected):
    if got != expected:
        raise ValueError(f"{name}: {what} must be {expected}, got {got}")


def check_points(points, name="points"):
    """Geometry of a build: (N, D) or (B, N, D), float32, D 2 or 3, at least one point a sample."""
    check_rank(points, name, (2, 3), "(N, D) or (B, N, D)")
    check_dim(points.shape[-1], name)
    if 0 in points.shape:
        raise ValueError(f"{name} must have shape (N, D) or (B, N, D) with no empty axis, got {tuple(points.shape)}")
    check_float32(points, name)


def check_offsets(offsets, name, rows, device, *, allow_empty=False):
    """(B + 1,) int64 offsets over ``rows`` rows; returns them as a list."""
    check_rank(offsets, name, (1,), "(B + 1,)")
    if offsets.shape[0] < 2:
        raise ValueError(f"{name} must have shape (B + 1,) with at least one sample, got {tuple(offsets.shape)}")
    if offsets.dtype != torch.int64:
        raise ValueError(f"{name} must be int64, got {offsets.dtype}")
    check_device(offsets, name, device)
    values = offsets.tolist()
    if values[0] != 0:
        raise ValueError(f"{name} must start at 0, got {values[0]}")
    if values[-1] != rows:
        raise ValueError(f"{name}: the final offset must be the number of rows, {rows}, got {values[-1]}")
    for i, (start, stop) in enumerate(pairwise(values)):
        if stop < start or (stop == start and not allow_empty):
            kind = "non-decreasing" if allow_empty else "strictly increasing"
            hint = "" if allow_empty or stop < start else " (sets may be empty with allow_empty=True at the build)"
            raise ValueError(f"{name} must be {kind}{hint}: set {i} runs from {start} to {stop}")
    return values


def check_enough(counts, k, name="bvh"):
    """ValueError that names the first set with fewer than ``k`` points."""
    for i, count in enumerate(counts):
        if count < k:
            which = f"set {i}" if len(counts) > 1 else "the set"
            raise ValueError(
                f"{name}: {which} has {count} points, but k = {k} neighbours need at least k of them"
                " (a query with pad=True fills missing neighbours with index -1 and distance inf)"
            )
