"""One build shared by several calls of a forward pass."""

import torch

from bvh.build import build_bvh_batched
from bvh.validation import check_bool, check_points


def _signature(points):
    """What must not have changed between the build and a later use of the same tensor."""
    return (
        points._version,
        points.data_ptr(),
        tuple(points.shape),
        points.stride(),
        points.device,
        points.dtype,
    )


class PointGeometry:
    """The tree and a copy of a points tensor, to be passed as ``geometry=`` beside that very tensor.

    Parameters
    ----------
    points : Tensor, float32, (N, D) or (B, N, D)
        Copied and detached. It may change, and the geometry may be destroyed, once a forward is done: backward uses
        the copy.
    experimental_fast : bool
        Accepted; results do not depend on it.

    Raises TypeError for a non-tensor or a non-bool flag, ValueError for shapes and dtypes and for tensors made under
    ``torch.inference_mode``, whose changes cannot be noticed.
    """

    def __init__(self, points, *, experimental_fast=False):
        check_bool(experimental_fast, "experimental_fast")
        check_points(points)
        if points.is_inference():
            raise ValueError("points must not be an inference tensor: changes to it could not be noticed")
        self._source = points
        self._signature = _signature(points)
        self._experimental_fast = experimental_fast
        self._handle = build_bvh_batched(points.detach().reshape(-1, *points.shape[-2:]))

    @property
    def experimental_fast(self):
        return self._experimental_fast

    @property
    def destroyed(self):
        """Whether ``destroy`` was called."""
        return self._handle.destroyed

    @property
    def bvh(self):
        """The BatchedBVHHandle (B = 1 for (N, D) points). Validates first."""
        self.validate(self._source)
        return self._handle

    def validate(self, points):
        """Return self if ``points`` is the tensor of the build, unchanged since.

        RuntimeError once destroyed; ValueError for another object ("different source") or a changed one ("source
        changed").
        """
        if self.destroyed:
            raise RuntimeError("this PointGeometry has been destroyed")
        if points is not self._source:
            raise ValueError("geometry was made from a different source: pass the tensor object it was built from")
        if not isinstance(points, torch.Tensor) or _signature(points) != self._signature:
            raise ValueError("geometry: its source changed since the build")
        return self

    def destroy(self):
        """Drop the tree and the source; may be called again."""
        self._handle.destroy()
        self._source = None

    def __enter__(self):
        if self.destroyed:
            raise RuntimeError("this PointGeometry has been destroyed")
        return self

    def __exit__(self, *exception):
        self.destroy()
