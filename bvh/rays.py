"""Rays against segments and triangles, differentiable by rays and by the vertices that were hit."""

import math
from dataclasses import dataclass

import torch
import warp as wp
from torch.autograd.function import once_differentiable

from bvh._bridge import on_stream, warp_device, wrap, wrap_vectors
from bvh.validation import check_bool, check_device, check_float32, check_size, check_tensor
from kernels.points import rays as kernels

# primitive_type: (vertices, dimension)
PRIMITIVES = {"segment": (2, 2), "triangle": (3, 3)}


@dataclass(frozen=True)
class RayHitResult:
    """Closest hits, one a ray; every shape is the rays' shape without the last axis.

    primitive_indices  int64, -1 for a miss
    t                  float32, in units of the direction's length, inf for a miss
    points             float32, with a last axis D: ``origin + t * direction``, NaN for a miss
    mask               bool, whether there is a hit
    """

    primitive_indices: torch.Tensor
    t: torch.Tensor
    points: torch.Tensor
    mask: torch.Tensor


@dataclass(frozen=True)
class RayHits:
    """All hits of R rays (numbered row by row), those of one ray in ascending t.

    ray_offsets        (R + 1,) int64: ray r has hits ``ray_offsets[r]`` to ``ray_offsets[r + 1]``
    ray_indices        (H,) int64
    primitive_indices  (H,) int64
    t                  (H,) float32
    points             (H, D) float32
    """

    ray_offsets: torch.Tensor
    ray_indices: torch.Tensor
    primitive_indices: torch.Tensor
    t: torch.Tensor
    points: torch.Tensor


def _cross(a, b):
    return torch.linalg.cross(a, b, dim=-1)


def _dot(a, b):
    return (a * b).sum(-1, keepdim=True)


def _triangle_frame(vertices, o, d):
    """Normal, and barycentric weights of the hit point, of rays that hit: everything float64."""
    a, e1, e2 = vertices[:, 0], vertices[:, 1] - vertices[:, 0], vertices[:, 2] - vertices[:, 0]
    h = _cross(d, e2)
    det = _dot(e1, h)
    s = o - a
    u = _dot(s, h) / det
    v = _dot(d, _cross(s, e1)) / det
    return _cross(e1, e2), torch.stack([1 - u - v, u, v], 1)


def _segment_frame(vertices, o, d):
    a, e = vertices[:, 0], vertices[:, 1] - vertices[:, 0]
    s = a - o
    u = (s[:, :1] * d[:, 1:] - s[:, 1:] * d[:, :1]) / (d[:, :1] * e[:, 1:] - d[:, 1:] * e[:, :1])
    return torch.stack([-e[:, 1], e[:, 0]], 1), torch.stack([1 - u, u], 1)


_FRAMES = {2: _segment_frame, 3: _triangle_frame}


@dataclass(frozen=True)
class _Found:
    """Which primitive every ray hit: rows of ``snapshot`` (rows, V, D), the primitives' copy; -1 for a miss."""

    rows: torch.Tensor
    snapshot: torch.Tensor


class _Hits(torch.autograd.Function):
    """t and points of hits that were found already, with the derivative of the hit primitive's plane equation.

    On the plane n . (o + t d - p) = 0 of the hit primitive, with p the vertices weighted by their barycentric
    coordinates beta, dt = n . (sum_i beta_i dv_i - do - t dd) / (n . d).
    """

    @staticmethod
    def forward(ctx, primitives, origins, directions, found, outputs):
        t, points = outputs
        ctx.save_for_backward(origins, directions, t)
        ctx.found, ctx.shape = found, primitives.shape
        ctx.set_materialize_grads(False)
        return t, points

    @staticmethod
    @once_differentiable
    def backward(ctx, t_gradient, point_gradient):
        origins, directions, t = ctx.saved_tensors
        results = [None] * 5
        found = ctx.found
        if t_gradient is None and point_gradient is None:
            return tuple(results)
        hit = (found.rows >= 0).nonzero().reshape(-1)
        rows = found.rows[hit]
        o, d, t = (x[hit].double() for x in (origins, directions, t))
        t = t.unsqueeze(-1)
        normal, weights = _FRAMES[o.shape[-1]](found.snapshot[rows].double(), o, d)
        gp = torch.zeros_like(o) if point_gradient is None else point_gradient[hit].double()
        along = _dot(gp, d)
        if t_gradient is not None:
            along = along + t_gradient[hit].double().unsqueeze(-1)
        push = along * normal / _dot(normal, d)
        if ctx.needs_input_grad[0]:
            total = torch.zeros(found.snapshot.shape, dtype=torch.float64, device=o.device)
            total.index_add_(0, rows, weights * push.unsqueeze(1))
            results[0] = total.to(torch.float32).reshape(ctx.shape)
        for slot, live, value in ((1, origins, gp - push), (2, directions, t * (gp - push))):
            if ctx.needs_input_grad[slot]:
                results[slot] = torch.zeros_like(live).index_copy_(0, hit, value.to(torch.float32))
        return tuple(results)


class RayBVH:
    """A tree over segments or triangles that rays are traced against.

    Parameters
    ----------
    primitives : Tensor, float32
        Segments (F, 2, 2) or (B, F, 2, 2), triangles (F, 3, 3) or (B, F, 3, 3): vertices, then coordinates. Traversal
        uses a copy of the values; gradients go to this tensor.
    primitive_type : "segment" or "triangle"

    Leaving a ``with`` block destroys it. Raises TypeError if ``primitives`` is no tensor, ValueError for an unknown
    type, a shape that the type does not have, or a dtype; RuntimeError after ``destroy()``.
    """

    def __init__(self, primitives, *, primitive_type):
        if primitive_type not in PRIMITIVES:
            raise ValueError(f"primitive_type must be one of {sorted(PRIMITIVES)}, got {primitive_type!r}")
        check_tensor(primitives, "primitives")
        form = PRIMITIVES[primitive_type]
        if primitives.ndim not in (3, 4) or tuple(primitives.shape[-2:]) != form:
            tail = ", ".join(map(str, form))
            raise ValueError(
                f"primitives: primitive_type {primitive_type!r} requires shape (F, {tail}) or (B, F, {tail}),"
                f" got {tuple(primitives.shape)}"
            )
        if 0 in primitives.shape:
            raise ValueError(f"primitives must have shape with no empty axis, got {tuple(primitives.shape)}")
        check_float32(primitives, "primitives")
        self._primitives = primitives
        self._batched = primitives.ndim == 4
        self._dim = form[1]
        self._per_scene = primitives.shape[-3]
        self._scenes = primitives.shape[0] if self._batched else 1
        self._snapshot = primitives.detach().reshape(-1, *form).clone(memory_format=torch.contiguous_format)
        with on_stream(primitives.device):
            self._forest = kernels.build(
                wrap_vectors(self._snapshot), self._scenes, self._per_scene, self._dim, warp_device(primitives)
            )

    @property
    def destroyed(self):
        """Whether ``destroy`` was called."""
        return self._forest is None

    def destroy(self):
        """Drop the tree and the primitives; may be called again."""
        self._forest = self._primitives = self._snapshot = None

    def _check_alive(self):
        if self.destroyed:
            raise RuntimeError("this RayBVH has been destroyed")

    def __enter__(self):
        self._check_alive()
        return self

    def __exit__(self, *exception):
        self.destroy()

    def _check_rays(self, origins, directions, t_min, t_max):
        self._check_alive()
        lead = "(B, ..., D)" if self._batched else "(..., D)"
        least = 2 if self._batched else 1
        for tensor, name in ((origins, "origins"), (directions, "directions")):
            check_tensor(tensor, name)
            if tensor.ndim < least:
                raise ValueError(f"{name} must have shape {lead}, got {tuple(tensor.shape)}")
            check_size(tensor.shape[-1], name, "last dimension", self._dim)
            if self._batched:
                check_size(tensor.shape[0], name, "batch size", self._scenes)
        if origins.shape != directions.shape:
            raise ValueError(
                f"origins and directions must have the same shape, got {tuple(origins.shape)}"
                f" and {tuple(directions.shape)}"
            )
        for tensor, name in ((origins, "origins"), (directions, "directions")):
            check_float32(tensor, name)
            check_device(tensor, name, self._primitives.device)
        t_min, t_max = float(t_min), float(t_max)
        if not (math.isfinite(t_min) and 0 <= t_min < t_max):
            raise ValueError(f"t_min and t_max must be 0 <= t_min < t_max with t_min finite, got {t_min}, {t_max}")
        return t_min, t_max

    def _arguments(self, origins, directions, t_min, t_max):
        rays = origins.numel() // self._dim
        return [
            self._forest,
            wrap_vectors(origins),
            wrap_vectors(directions),
            rays // self._scenes,
            wp.float32(t_min),
            wp.float32(t_max),
        ]

    def _rows(self, indices, rays_per_scene, rays=None):
        """Rows of the flat primitives, -1 for a miss."""
        if self._scenes == 1:
            return indices
        rays = torch.arange(indices.shape[0], device=indices.device) if rays is None else rays
        scene = torch.div(rays, max(rays_per_scene, 1), rounding_mode="floor")
        return torch.where(indices >= 0, indices + scene * self._per_scene, indices)

    def trace(self, origins, directions, *, t_min=1e-7, t_max=math.inf):
        """The closest hit of every ray with ``t_min <= t <= t_max``.

        Parameters
        ----------
        origins, directions : Tensor, float32
            (..., D), or (B, ..., D) for batched primitives; of one shape. Directions need no normalising: t is in units
            of their length. Differentiable.
        t_min, t_max : float
            0 <= t_min < t_max, t_min finite. Inclusive.

        Returns
        -------
        RayHitResult
            Of hits that coincide (t within 8 * 2^-23 * max(1, t)) the lowest index. ``t`` and ``points`` are
            differentiable by origins, directions and the vertices of the hit primitive, with the choice of the
            primitive fixed; misses have zero gradients. First order only.

        Raises ValueError for shapes, batch size, dtypes, devices, t_min and t_max; RuntimeError after ``destroy()``.
        """
        t_min, t_max = self._check_rays(origins, directions, t_min, t_max)
        shape = origins.shape[:-1]
        flat_o, flat_d = origins.reshape(-1, self._dim), directions.reshape(-1, self._dim)
        rays = flat_o.shape[0]
        indices = torch.empty(rays, dtype=torch.int64, device=origins.device)
        t = torch.empty(rays, dtype=torch.float32, device=origins.device)
        points = torch.empty((rays, self._dim), dtype=torch.float32, device=origins.device)
        with on_stream(origins.device):
            outputs = wrap(indices), wrap(t), wrap_vectors(points)
            kernels.closest(*self._arguments(flat_o, flat_d, t_min, t_max), *outputs)
        found = _Found(self._rows(indices, rays // self._scenes), self._snapshot)
        t, points = _Hits.apply(self._primitives, flat_o, flat_d, found, (t, points))
        return RayHitResult(
            indices.reshape(shape),
            t.reshape(shape),
            points.reshape(*shape, self._dim),
            (indices >= 0).reshape(shape),
        )

    def trace_all(self, origins, directions, *, t_min=1e-7, t_max=math.inf, merge_coincident=True):
        """Every hit of every ray with ``t_min <= t <= t_max``; arguments, gradients and errors as in ``trace``.

        ``merge_coincident`` counts hits once that coincide (t within 8 * 2^-23 * max(1, t) of the first of them),
        keeping the lowest index: a ray through an edge or a vertex that primitives share crosses the surface once.

        Returns ``RayHits``.
        """
        t_min, t_max = self._check_rays(origins, directions, t_min, t_max)
        check_bool(merge_coincident, "merge_coincident")
        device = origins.device
        flat_o, flat_d = origins.reshape(-1, self._dim), directions.reshape(-1, self._dim)
        rays = flat_o.shape[0]
        arguments = self._arguments(flat_o, flat_d, t_min, t_max)
        offsets = torch.zeros(rays + 1, dtype=torch.int64, device=device)
        with on_stream(device):
            kernels.count(*arguments, wrap(offsets[1:]))
        offsets = torch.cumsum(offsets, 0)
        total = int(offsets[-1])
        indices = torch.empty(total, dtype=torch.int64, device=device)
        t = torch.empty(total, dtype=torch.float64, device=device)
        if total:
            with on_stream(device):
                kernels.fill(*arguments, wrap(offsets), wrap(indices), wrap(t), merge=merge_coincident)
        every = torch.arange(rays, device=device)
        owner = torch.repeat_interleave(every, offsets[1:] - offsets[:-1], output_size=total)
        kept = indices >= 0
        indices, t, owner = indices[kept], t[kept], owner[kept]
        offsets = torch.zeros_like(offsets)
        offsets[1:] = torch.cumsum(torch.bincount(owner, minlength=rays), 0)
        rows = self._rows(indices, rays // self._scenes, owner)
        o, d, t = flat_o[owner], flat_d[owner], t.to(torch.float32)
        points = (o + t.unsqueeze(-1) * d).detach()
        t, points = _Hits.apply(self._primitives, o, d, _Found(rows, self._snapshot), (t, points))
        return RayHits(offsets, owner, indices, t, points)


def raytrace(primitives, origins, directions, *, primitive_type, t_min=1e-7, t_max=math.inf):
    """Build a ``RayBVH``, trace the closest hits, forget it; arguments, gradients and errors as there."""
    with RayBVH(primitives, primitive_type=primitive_type) as scene:
        return scene.trace(origins, directions, t_min=t_min, t_max=t_max)
