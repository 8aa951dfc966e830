"""Tensors in, Warp arrays out, and back: no copies, no gradients, the caller's CUDA stream."""

import contextlib

import torch
import warp as wp

from kernels.points.launch import VECTORS

_SCALARS = {torch.float32: wp.float32, torch.float64: wp.float64, torch.int32: wp.int32, torch.int64: wp.int64}


def on_stream(device):
    """Launch on torch's current stream of a CUDA device; nothing to do on a CPU."""
    if device.type != "cuda":
        return contextlib.nullcontext()
    return wp.ScopedStream(wp.stream_from_torch(torch.cuda.current_stream(device)))


def warp_device(tensor):
    wp.init()
    return wp.device_from_torch(tensor.device)


def wrap(tensor):
    """A Warp array over a tensor's memory; a non-contiguous tensor is copied first."""
    tensor = tensor.detach().contiguous()
    if tensor.numel() == 0:
        return wp.empty(tuple(tensor.shape), dtype=_SCALARS[tensor.dtype], device=warp_device(tensor))
    wp.init()
    return wp.from_torch(tensor, requires_grad=False)


def wrap_fresh(tensor, shape, dtype=None):
    """A Warp array over a contiguous tensor, whose gradients do not matter; the caller keeps the tensor.

    ``dtype`` is for vectors. Quicker than ``wp.from_torch``, which counts in calls of a few milliseconds.
    """
    dtype = dtype or _SCALARS[tensor.dtype]
    return wp.array(ptr=tensor.data_ptr(), dtype=dtype, shape=shape, device=warp_device(tensor))


def wrap_flat(tensor):
    return wrap(tensor.detach().contiguous().reshape(-1))


def wrap_vectors(tensor):
    """A Warp array of ``wp.vec2`` or ``wp.vec3`` over a float32 tensor of shape (..., D)."""
    dim = tensor.shape[-1]
    tensor = tensor.detach().contiguous().reshape(-1, dim)
    if tensor.numel() == 0:
        return wp.empty(0, dtype=VECTORS[dim], device=warp_device(tensor))
    wp.init()
    return wp.from_torch(tensor, dtype=VECTORS[dim], requires_grad=False)


def unwrap(array):
    """A tensor over a Warp array's memory; vectors become a last axis."""
    return wp.to_torch(array, requires_grad=False)
