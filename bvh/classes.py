"""Objects that own a handle and dispatch to the functions."""

from bvh.build import build_bvh
from bvh.handles import FOREST
from bvh.mls import interpolate_built
from bvh.query import query_knn
from bvh.validation import check_rank, check_tensor


class BVH:
    """A tree over one set, a batch, or packed sets of points, with its queries as methods.

    Parameters
    ----------
    points : Tensor, float32
        (N, D), (B, N, D), or (total_N, D) with ``batch_offsets``. A snapshot: later
        changes of the tensor do not reach it.
    batch_offsets : Tensor, int64, (B + 1,), optional
    allow_empty : bool
        Let packed sets be empty.

    Leaving a ``with`` block destroys it. After ``destroy()``, which may be repeated, every call raises RuntimeError.
    """

    def __init__(self, points, *, batch_offsets=None, allow_empty=False):
        self._handle = build_bvh(points, batch_offsets=batch_offsets, allow_empty=allow_empty)

    @property
    def destroyed(self):
        """Whether ``destroy`` was called."""
        return self._handle.destroyed

    def destroy(self):
        """Drop the tree."""
        self._handle.destroy()

    def _check_alive(self):
        if self.destroyed:
            raise RuntimeError(f"this {type(self).__name__} has been destroyed")

    def __enter__(self):
        self._check_alive()
        return self

    def __exit__(self, *exception):
        self.destroy()

    def knn(self, query_points, k, *, query_offsets=None, source_points=None, sort_queries=True, pad=False):
        """``query_knn`` on this tree."""
        return query_knn(
            self._handle,
            query_points,
            k,
            query_offsets=query_offsets,
            source_points=source_points,
            sort_queries=sort_queries,
            pad=pad,
        )

    def interpolate(self, displaced_points, features, k=8, *, return_grad=False, regularization="absolute"):
        """``mls_interpolate`` from the points of this tree.

        TypeError on packed sets, which have no interpolation.
        """
        self._check_alive()
        handle = self._handle
        if "num_leaves" not in handle:
            raise TypeError("interpolate takes points of one set or of a batch, not packed sets (RaggedBVHHandle)")
        batched = "batch_size" in handle
        return interpolate_built(handle[FOREST], batched, displaced_points, features, k, return_grad, regularization)


class BatchedBVH(BVH):
    """``BVH`` of points (B, N, D); ValueError for another rank."""

    def __init__(self, points):
        check_rank(points, "points", (3,), "(B, N, D)")
        super().__init__(points)


class RaggedBVH(BVH):
    """``BVH`` of packed sets: points (total_N, D) and batch_offsets (B + 1,) int64."""

    def __init__(self, points, batch_offsets, *, allow_empty=False):
        check_tensor(batch_offsets, "batch_offsets")
        super().__init__(points, batch_offsets=batch_offsets, allow_empty=allow_empty)
