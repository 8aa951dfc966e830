"""Handles: mappings that own a built tree, and what it means to destroy one."""

from collections.abc import Mapping
from dataclasses import replace

from bvh._bridge import unwrap

DESTROYED = "_destroyed"
FOREST = "_forest"


class _Handle(Mapping):
    """A read-only mapping over the tensors of a built tree.

    ``destroy()`` drops the tensors and may be called again; afterwards every access and every query raises
    RuntimeError. ``dict(handle)`` of a single or a batched handle is itself accepted by ``query_knn``.
    """

    __slots__ = ("__weakref__", "_data")

    def __init__(self, data):
        self._data = data

    @property
    def destroyed(self):
        """Whether ``destroy`` was called."""
        return self._data is None

    def destroy(self):
        """Drop every tensor the handle holds."""
        self._data = None

    def _alive(self):
        data = self._data
        if data is None:
            raise RuntimeError(f"this {type(self).__name__} has been destroyed")
        return data

    def __getitem__(self, key):
        return self._alive()[key]

    def __iter__(self):
        return iter(self._alive())

    def __len__(self):
        return len(self._alive())

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def __repr__(self):
        return f"<{type(self).__name__}{' (destroyed)' if self.destroyed else ''}>"


class BVHHandle(_Handle):
    """The tree of one set, from ``build_bvh(points)`` with points (N, D).

    Keys: ``dim``, ``num_leaves`` (N), ``num_real_nodes``, ``node_aabbs`` (num_real_nodes, 2 D) float32 lower and upper
    corners, ``sorted_indices`` (N,) int64 the points' Morton order, ``scene_min`` and ``scene_max`` (D,).
    """

    __slots__ = ()


class BatchedBVHHandle(_Handle):
    """The trees of a batch, from ``build_bvh(points)`` with points (B, N, D).

    Keys as in ``BVHHandle`` with a leading B on every tensor, and ``batch_size``. ``num_real_nodes`` is that of the
    largest tree; rows of ``node_aabbs`` beyond a sample's own are zero.
    """

    __slots__ = ()


class RaggedBVHHandle(_Handle):
    """The trees of sets packed one after the other, from ``build_bvh(points, batch_offsets=...)``.

    Keys: ``dim``, ``batch_size``, ``batch_offsets`` (B + 1,) and ``num_leaves_per_sample`` (B,), both int64. Owns one
    ``BVHHandle`` a set and destroys them with itself.
    """

    __slots__ = ("_inner",)

    def __init__(self, data):
        super().__init__(data)
        self._inner = None

    @property
    def _handles(self):
        """One single handle a set; they share this handle's memory and are made when first asked for."""
        if self._inner is None:
            data = self._data
            if data is None:
                return []
            self._inner = [_single_view(data, i) for i in range(data["batch_size"])]
        return self._inner

    def destroy(self):
        for handle in self._inner or ():
            handle.destroy()
        super().destroy()


def _single_view(data, i):
    """The ``i``-th set of a ragged handle as a handle of its own, without copies."""
    forest = data[FOREST]
    start, stop = data["_offsets"][i : i + 2]
    frame = forest.frame
    part = replace(
        forest,
        samples=1,
        offsets=forest.offsets[i : i + 2],
        frame=replace(frame, lower=frame.lower[i : i + 1], upper=frame.upper[i : i + 1], scale=frame.scale[i : i + 1]),
        nodes=replace(forest.nodes, roots=forest.nodes.roots[i : i + 1]),
    )
    return BVHHandle(
        {
            "dim": forest.dim,
            "num_leaves": stop - start,
            "num_real_nodes": int((unwrap(forest.nodes.sample_of) == i).sum()) if stop > start else 0,
            "sorted_indices": unwrap(forest.order)[start:stop].long(),
            "scene_min": unwrap(frame.lower)[i],
            "scene_max": unwrap(frame.upper)[i],
            FOREST: part,
        }
    )


def destroy_bvh(handle):
    """Destroy a handle; doing so again is allowed.

    A plain dictionary made from a handle is emptied and marked. TypeError for anything else.
    """
    if isinstance(handle, _Handle):
        handle.destroy()
    elif isinstance(handle, dict) and (DESTROYED in handle or FOREST in handle):
        handle.clear()
        handle[DESTROYED] = True
    else:
        raise TypeError(f"destroy_bvh takes a handle returned by build_bvh, got {type(handle).__name__}")


def open_handle(handle, name="bvh"):
    """``(kind, mapping)`` of a live handle or a plain dictionary of one.

    TypeError for another object, RuntimeError once destroyed.
    """
    for kind, cls in (("single", BVHHandle), ("batched", BatchedBVHHandle), ("ragged", RaggedBVHHandle)):
        if isinstance(handle, cls):
            return kind, handle._data
    if isinstance(handle, dict):
        if handle.get(DESTROYED):
            return "destroyed", None
        if FOREST in handle and "batch_offsets" not in handle:
            batched = "batch_size" in handle or handle.get("_batched", False)
            return ("batched" if batched else "single"), handle
    raise TypeError(
        f"{name} must be a BVHHandle or mapping made by build_bvh"
        f" (BVHHandle, BatchedBVHHandle, RaggedBVHHandle, or dict of the first two), got {type(handle).__name__}"
    )
