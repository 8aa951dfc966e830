"""Rays against single surfaces, and the rays of single sources: the trace's own rows on arrays of the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from kernels import bsdfs
from kernels import rng as keyed
from kernels.trace import probe

from .components import SurfaceComponent
from .coordinates import CoordinateSystem
from .lowering.emitters import has_own_lines, lower_source, source_table
from .lowering.optics import lobe_table
from .lowering.surfaces import lower_surfaces
from .materials import VACUUM
from .numbers import to_float
from .rays import NSQRayBundle
from .rng import NSQRng

_EPS = 1e-9
_HERE = CoordinateSystem()


class _Locate(torch.autograd.Function):
    """Distance and geometric normal (4, n) from rays (6, n), surface numbers (rows, 10) and sag numbers (S,)."""

    @staticmethod
    def forward(ctx: Any, rays: torch.Tensor, numbers: torch.Tensor, sags: torch.Tensor, found: tuple) -> torch.Tensor:
        ctx.save_for_backward(rays, numbers, sags)
        ctx.found = found
        return torch.from_numpy(probe.locate(rays.detach().numpy(), *found))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[Any, ...]:
        rays = ctx.saved_tensors[0].detach().numpy()
        gradients = probe.locate_adjoint(rays, *ctx.found, upstream.numpy())
        return (*(torch.from_numpy(g) for g in gradients), None)


class _Emit(torch.autograd.Function):
    """Floats (8, n) of a source's rays from its numbers (17,)."""

    @staticmethod
    def forward(ctx: Any, numbers: torch.Tensor, ids: Any, init: int, kind: int, born: tuple, sink: list) -> Any:
        ctx.save_for_backward(numbers)
        ctx.keys, ctx.table = (ids, init, kind), born[0]
        floats, lines = probe.emit(ids, init, kind, numbers.detach().numpy(), *born)
        sink.append(lines)
        return torch.from_numpy(floats)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: torch.Tensor) -> tuple[Any, ...]:
        (numbers,) = ctx.saved_tensors
        gradient = probe.emit_adjoint(*ctx.keys, numbers.detach().numpy(), ctx.table, upstream.numpy())
        return torch.from_numpy(gradient), None, None, None, None, None


def _first_hits(origins: torch.Tensor, directions: torch.Tensor, placed: list[tuple[Any, Any]]) -> tuple[Any, ...]:
    """t (n,), n_geom (n, 3), row (n,) of the first of several (frame, geometry) pairs that each ray meets."""
    if not placed:
        n = len(origins)
        return origins.new_full((n,), torch.inf), torch.zeros_like(origins), np.full(n, -1, dtype=np.int32)
    rows, surfaces = lower_surfaces(placed)
    # the rows take unit vectors; distances go back to units of the given ones
    length = torch.linalg.vector_norm(directions, dim=1, keepdim=True)
    if not bool((length.detach() > 0.0).all()):
        raise ValueError("directions got a vector of length 0; they take vectors with a direction")
    rays = torch.cat([origins, directions / length], dim=1).T.contiguous()
    distance, row_hit = probe.nearest(rays.detach().numpy(), surfaces, _EPS)
    located = _Locate.apply(rays, rows.numbers, rows.sag_numbers, (surfaces, distance, row_hit))
    met = row_hit >= 0
    owner = np.where(met, rows.owner[row_hit], -1).astype(np.int32)
    t = torch.where(torch.from_numpy(met), located[0] / length[:, 0], torch.inf)
    return t, located[1:].T, owner


def _against(normals: torch.Tensor, directions: torch.Tensor) -> torch.Tensor:
    """Normals turned against the rays."""
    along = (normals.detach() * directions.detach()).sum(dim=1, keepdim=True) > 0.0
    return torch.where(along, -normals, normals)


def _as_rays(values: Any, name: str) -> torch.Tensor:
    try:
        out = torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{name} got {type(values).__name__}; it takes an array or tensor of shape (N, 3)") from error
    if out.dim() != 2 or out.shape[1] != 3:
        raise ValueError(f"{name} got shape {tuple(out.shape)}; it takes (N, 3)")
    if not bool(torch.isfinite(out.detach()).all()):
        raise ValueError(f"{name} got numbers that are not finite; it takes finite ones")
    return out.cpu()


def ray_intersect(geometry: Any, origins: Any, directions: Any) -> tuple[Any, Any, Any, Any]:
    """`Geometry.ray_intersect`: arrays in, arrays out; tensors where a tensor goes in or the shape has a graph.

    Differentiable in origins, directions and the shape's numbers. Raises TypeError for what is no array and ValueError
    for another shape than (N, 3) or numbers that are not finite.
    """
    tensors = isinstance(origins, torch.Tensor) or isinstance(directions, torch.Tensor)
    o, d = _as_rays(origins, "origins"), _as_rays(directions, "directions")
    if o.shape != d.shape:
        raise ValueError(f"directions got shape {tuple(d.shape)}; it takes {tuple(o.shape)}, as origins have")
    geometry.validate()
    t, n_geom, row = _first_hits(o, d, [(_HERE, geometry)])
    result = (t, _against(n_geom, d), torch.from_numpy(row >= 0), n_geom)
    return result if tensors or t.requires_grad else tuple(value.numpy() for value in result)


def intersect_scene(rays: NSQRayBundle, components: Sequence[SurfaceComponent]) -> tuple[Any, Any, Any, Any]:
    """The nearest surface that each ray meets beyond 1e-9 mm.

    Args:
        rays: a bundle; tensors in it may have a graph.
        components: surfaces, as `NSQScene.surfaces` lists them. On a tie the first one wins.

    Returns:
        t_min (n,) tensor in mm, infinite for a miss; hit_normals (n, 3), turned against the ray; component_indices
        (n,) int32 array, -1 for a miss; hit_n_geom (n, 3), not turned. Tensors are attached to the rays and to the
        surfaces' numbers; normals of misses are 0.

    Raises TypeError for anything but surfaces.
    """
    for place, component in enumerate(components):
        if not isinstance(component, SurfaceComponent):
            raise TypeError(f"components[{place}] got {type(component).__name__}; it takes surfaces")
        component.validate()
    o, d = rays.positions.cpu(), rays.directions.cpu()
    t, n_geom, row = _first_hits(o, d, [(c.cs, c.geometry) for c in components])
    return t, _against(n_geom, d), row, n_geom


def generate(source: Any, ray_id: Any, rng: NSQRng) -> NSQRayBundle:
    """`BaseNSQSource.generate`: the rays ``ray_id`` of a source; tensors where the source has a graph, else arrays.

    Raises TypeError for ids that are no integers or an ``rng`` that is none, ValueError for a shape other than (n,) or
    negative ids.
    """
    ids = np.asarray(ray_id)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"ray_id got dtype {ids.dtype}; it takes integers")
    if ids.ndim != 1 or (ids.size and ids.min() < 0):
        raise ValueError(f"ray_id got shape {ids.shape}; it takes (n,) integers >= 0")
    if not isinstance(rng, NSQRng):
        raise TypeError(f"rng got {type(rng).__name__}; it takes an NSQRng")
    source.validate()
    kind, numbers = lower_source(source, max(1, len(ids)))
    init = keyed.mix(rng.seed & ((1 << 64) - 1))
    spectrum, sink = source.spectrum, []
    born = (source_table(source), spectrum.cumulative, has_own_lines(source))
    floats = _Emit.apply(numbers, ids, init, kind, born, sink)
    wavelength = np.asarray(spectrum.wavelengths)[sink[0]]
    medium = source.medium or VACUUM
    lines = torch.tensor(spectrum.wavelengths.tolist(), dtype=torch.float64)
    index, extinction = (table[torch.as_tensor(sink[0]).long()] for table in medium.index_table(lines))
    if not floats.requires_grad:
        floats = floats.numpy()
    if not index.requires_grad and not extinction.requires_grad:
        index, extinction = index.numpy(), extinction.numpy()
    return NSQRayBundle(
        *floats[:7], wavelength=wavelength, n_current=index, k_current=extinction, ray_id=ids.astype(np.int64)
    )


def scatter(bsdf: Any, incident: Any, normals: Any, rng: NSQRng | None, ray_id: Any, bounce: Any) -> tuple[Any, ...]:
    """Directions (n, 3), weights (n,) and whether rays are transmitted (n,) that a scatter lobe gives rays.

    ``incident`` and ``normals`` are (n, 3) unit vectors, the normals facing the rays; ``ray_id`` and ``bounce`` are
    (n,) integers, or None for a lobe that draws nothing. Directions are arrays; weights are a tensor where the lobe's
    reflectance requires a gradient.
    """
    d, n = (np.asarray(torch.as_tensor(v).detach(), dtype=np.float64) for v in (incident, normals))
    count = len(d)
    ids = np.arange(count) if ray_id is None else np.broadcast_to(np.asarray(ray_id), (count,))
    steps = np.zeros(count, dtype=np.int64) if bounce is None else np.broadcast_to(np.asarray(bounce), (count,))
    distinct, where = np.unique(steps, return_inverse=True)
    jumps = np.array([keyed.jump(int(s)) for s in distinct], dtype=np.uint64).reshape(-1, 2)[where].T
    share, behind = bsdf.numbers()
    init = keyed.mix((0 if rng is None else rng.seed) & ((1 << 64) - 1))
    code = bsdfs.NAMES.index(bsdf.ROW)
    directions, weights, transmitted = probe.sample_lobe(
        code, 1.0, to_float(behind), lobe_table(bsdf), d, n, init, ids, jumps
    )
    if isinstance(share, torch.Tensor) and share.requires_grad:
        return directions, torch.as_tensor(weights) * share, transmitted
    return directions, weights * to_float(share), transmitted
