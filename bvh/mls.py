"""Moving-least-squares interpolation: single, batched, per head, and per branch of a mask."""

from dataclasses import dataclass

import torch
from torch.autograd.function import once_differentiable

from bvh._bridge import on_stream, wrap, wrap_flat, wrap_vectors
from bvh.build import make_forest, points_in_order
from bvh.geometry import PointGeometry
from bvh.handles import FOREST
from bvh.query import search
from bvh.validation import (
    check_bool,
    check_device,
    check_dim,
    check_enough,
    check_float32,
    check_k,
    check_points,
    check_rank,
    check_size,
    check_tensor,
)
from kernels.points import mls as kernels
from kernels.points.blend import Layout


@dataclass(frozen=True)
class Side:
    """What one set of points contributes: its tree, its points as they were built, and the query rows it answers.

    ``rows`` (int32) is None where the side answers all of them. ``neighbours`` (R, k) int64, where they are known
    already, save the search.
    """

    forest: object
    points: torch.Tensor
    layout: Layout
    rows: torch.Tensor | None = None
    neighbours: torch.Tensor | None = None


@dataclass(frozen=True)
class Options:
    k: int
    slopes: bool
    ridge: str


def _row_array(rows):
    return None if rows is None else wrap(rows)


class _MovingLeastSquares(torch.autograd.Function):
    """Tensors are (queries (R, D), features (..., C)) of one side after the other; all sides share the rows R."""

    @staticmethod
    def forward(ctx, sides, options, *tensors):
        queries, features = tensors[0::2], tensors[1::2]
        total, dim = queries[0].shape
        channels = features[0].shape[-1]
        values = queries[0].new_empty((total, channels))
        slopes = queries[0].new_empty((total, dim, channels)) if options.slopes else None
        found = []
        for side, q, f in zip(sides, queries, features, strict=True):
            indices = side.neighbours
            if indices is None:
                per_sample = side.layout.rows_per_sample
                indices, _ = search(side.forest, q, options.k, rows_per_sample=per_sample, rows=side.rows)
            found.append(indices)
            with on_stream(q.device):
                kernels.forward(
                    dim,
                    wrap_vectors(q),
                    wrap_vectors(side.points),
                    wrap(indices),
                    wrap_flat(f),
                    channels,
                    options.ridge,
                    side.layout,
                    wrap_flat(values),
                    wrap_flat(slopes) if options.slopes else None,
                    rows=_row_array(side.rows),
                )
        ctx.save_for_backward(*tensors)  # the caller's own tensors: a change in place before backward is an error
        ctx.set_materialize_grads(False)
        ctx.sides, ctx.options, ctx.found = sides, options, found
        return (values, slopes) if options.slopes else values

    @staticmethod
    @once_differentiable
    def backward(ctx, value_gradient, slope_gradient=None):
        tensors = ctx.saved_tensors
        queries, features = tensors[0::2], tensors[1::2]
        wanted = ctx.needs_input_grad[2:]
        if value_gradient is None and slope_gradient is None:
            return (None,) * (2 + len(tensors))
        if value_gradient is None:
            value_gradient = slope_gradient.new_zeros((queries[0].shape[0], slope_gradient.shape[-1]))
        gradients = []
        for i, (side, indices) in enumerate(zip(ctx.sides, ctx.found, strict=True)):
            gradients += _backward_side(
                side,
                ctx.options,
                queries[i],
                features[i],
                indices,
                value_gradient,
                slope_gradient,
                wanted[2 * i : 2 * i + 2],
            )
        return (None, None, *gradients)


def _backward_side(side, options, q, f, indices, value_gradient, slope_gradient, wanted):
    if not any(wanted):
        return [None, None]
    total, dim = q.shape
    channels = f.shape[-1]
    dq = df = None
    if wanted[0]:
        dq = torch.empty((total, dim), dtype=torch.float32, device=q.device)
        if side.rows is not None:
            dq.zero_()
    if wanted[1]:
        df = torch.empty(f.shape, dtype=torch.float32, device=f.device)
    with on_stream(q.device):
        kernels.backward(
            dim,
            wrap_vectors(q),
            wrap_vectors(side.points),
            wrap(indices),
            wrap_flat(f),
            channels,
            options.ridge,
            side.layout,
            wrap_flat(value_gradient),
            None if slope_gradient is None else wrap_flat(slope_gradient),
            None if dq is None else wrap_flat(dq),
            None if df is None else wrap_flat(df),
            rows=_row_array(side.rows),
        )
    return [dq, df]


def evaluate(sides, options, *tensors):
    """Values, and slopes if asked for, of query rows (R, D); see ``_MovingLeastSquares``."""
    return _MovingLeastSquares.apply(sides, options, *tensors)


def make_side(points, geometry, queries_per_sample, heads=1, *, rows=None, forest=None):
    """A ``Side`` from points (N, D) or (B, N, D), or from the geometry that was built for exactly that tensor."""
    count = points.shape[-2]
    if geometry is not None:
        forest = geometry.validate(points).bvh[FOREST]
    elif forest is None:
        flat = points.detach().reshape(-1, points.shape[-1])
        forest = make_forest(flat, list(range(0, flat.shape[0] + 1, count)))
    layout = Layout(max(queries_per_sample, 1), count, heads, forest.samples)
    return Side(forest, points_in_order(forest), layout, rows)


def check_options(k, return_grad, regularization):
    check_k(k)
    check_bool(return_grad, "return_grad")
    if regularization not in kernels.RIDGES:
        raise ValueError(f"regularization must be one of {sorted(kernels.RIDGES)}, got {regularization!r}")
    return Options(k, return_grad, regularization)


def check_geometry(geometry, name):
    if geometry is not None and not isinstance(geometry, PointGeometry):
        raise TypeError(f"{name} must be a PointGeometry or None, got {type(geometry).__name__}")


def _check_set(points, queries, features, k, forms, names):
    """Ranks first, then sizes, dtypes and devices; ``forms`` and ``names`` are for points, queries, features."""
    for tensor, name, form in zip((points, queries, features), names, forms, strict=True):
        check_rank(tensor, name, (form.count(",") + 1,), form)
    check_points(points, names[0])
    dim = points.shape[-1]
    check_dim(dim, names[0])
    check_size(queries.shape[-1], names[1], "last dimension", dim)
    if points.ndim == 3:
        check_size(queries.shape[0], names[1], "batch size", points.shape[0])
        check_size(features.shape[0], names[2], "batch size", points.shape[0])
    check_size(features.shape[points.ndim - 2], names[2], "number of points", points.shape[-2])
    if features.shape[-1] < 1:
        raise ValueError(f"{names[2]} must have shape {forms[2]} with C >= 1, got {tuple(features.shape)}")
    check_enough([points.shape[-2]], k, names[0])
    for tensor, name in zip((queries, features), names[1:], strict=True):
        check_float32(tensor, name)
        check_device(tensor, name, points.device)


_NAMES = ("points", "displaced_points", "features")


def _finish(results, options, value_shape, slope_shape):
    if options.slopes:
        return results[0].reshape(value_shape), results[1].reshape(slope_shape)
    return results.reshape(value_shape)


_FORMS = {2: ("(N, D)", "(M, D)", "(N, C)"), 3: ("(B, N, D)", "(B, M, D)", "(B, N, C)")}


def _interpolate(points, queries, features, options, rank, *, geometry=None, forest=None):
    _check_set(points, queries, features, options.k, _FORMS[rank], _NAMES)
    rows, dim = queries.shape[-2:]
    channels = features.shape[-1]
    side = make_side(points, geometry, rows, forest=forest)
    results = evaluate((side,), options, queries.reshape(-1, dim), features)
    lead = tuple(queries.shape[:-1])
    return _finish(results, options, (*lead, channels), (*lead, dim, channels))


def interpolate_built(forest, batched, displaced_points, features, k, return_grad, regularization):
    """``mls_interpolate`` on a forest of one set or a batch that is built already."""
    options = check_options(k, return_grad, regularization)
    points = points_in_order(forest)
    if batched:
        points = points.reshape(forest.samples, -1, forest.dim)
    return _interpolate(points, displaced_points, features, options, points.ndim, forest=forest)


def bvh_mls_interpolate(
    points, displaced_points, features, k=8, *, return_grad=False, geometry=None, regularization="absolute"
):
    """``mls_interpolate`` of one set: (N, D), (M, D), (N, C) -> (M, C) [, (M, D, C)]."""
    options = check_options(k, return_grad, regularization)
    check_geometry(geometry, "geometry")
    return _interpolate(points, displaced_points, features, options, 2, geometry=geometry)


def bvh_mls_interpolate_batched(
    points, displaced_points, features, k=8, *, return_grad=False, geometry=None, regularization="absolute"
):
    """``mls_interpolate`` of a batch: (B, N, D), (B, M, D), (B, N, C) -> (B, M, C) [, (B, M, D, C)]."""
    options = check_options(k, return_grad, regularization)
    check_geometry(geometry, "geometry")
    return _interpolate(points, displaced_points, features, options, 3, geometry=geometry)


def mls_interpolate(
    points, displaced_points, features, k=8, *, return_grad=False, geometry=None, regularization="absolute"
):
    """Interpolate features given at points to other places, by a linear fit over the k nearest points.

    Parameters
    ----------
    points : Tensor, float32, (N, D) or (B, N, D)
        Where the features are. Never differentiated: ``points.grad`` stays None.
    displaced_points : Tensor, float32, (M, D) or (B, M, D)
        Where values are wanted. Differentiable.
    features : Tensor, float32, (N, C) or (B, N, C)
        Differentiable; gradients are summed in a fixed order.
    k : int, 1 to 64
        Neighbours a fit; needs N >= k.
    return_grad : bool
        Return the slopes too.
    geometry : PointGeometry, optional
        Made from this very ``points`` tensor; saves building its tree again.
    regularization : "absolute" or "relative"
        "absolute" adds 1e-6 to the diagonal of the normal matrix, whatever the spacing: on clouds of small spacing it
        flattens slopes. "relative" adds 1e-8 h to the slopes' part of the diagonal, which reproduces fields that are
        linear on the points' span at any scale; h then has no floor, and an exact hit is one within 1e-12 h.

    Returns
    -------
    values : (M, C) or (B, M, C)
    slopes : (M, D, C) or (B, M, D, C), with ``return_grad``
        Coefficients of *query minus neighbour* in the fit: **minus** the usual spatial gradient of the field. Zero at
        an exact hit. An ordinary differentiable output.

    Notes
    -----
    With the neighbours p_j in ascending order, d_j = q - p_j, h = max(|d_m|^2, 1e-12) for the lower median m, the fit
    minimises sum_j w_j (f_j - x . (1, d_j))^2 with w_j = exp(-|d_j|^2 / 2h); the value is x_0. Where neighbours lie
    within a squared distance of 1e-12, the value is their mean and the gradient to the query is zero. The choice of
    neighbours is not differentiated, the bandwidth h is. First-order gradients only.

    Raises
    ------
    ValueError
        k, shapes, sizes (N < k), dtypes, devices, ``regularization``; a geometry of another or of a changed tensor.
    TypeError
        ``geometry`` of another type.
    RuntimeError
        A destroyed geometry; in backward, a query or feature tensor changed in place since.
    """
    check_k(k)
    check_tensor(points, "points")
    form = bvh_mls_interpolate_batched if points.ndim == 3 else bvh_mls_interpolate
    check_rank(points, "points", (2, 3), "(N, D) or (B, N, D)")
    return form(
        points,
        displaced_points,
        features,
        k,
        return_grad=return_grad,
        geometry=geometry,
        regularization=regularization,
    )


def bvh_mls_interpolate_batched_heads(
    points, displaced_points, features, k=8, *, return_grad=False, geometry=None, regularization="absolute"
):
    """``mls_interpolate`` with H queries a row, head h of the queries reading head h of the features.

    (B, N, D), (B, M, H, D), (B, N, H, C) -> (B, M, H, C) [, (B, M, H, D, C)]. ValueError for different H.
    """
    options = check_options(k, return_grad, regularization)
    check_geometry(geometry, "geometry")
    _check_set(points, displaced_points, features, k, ("(B, N, D)", "(B, M, H, D)", "(B, N, H, C)"), _NAMES)
    batch, queries, heads, dim = displaced_points.shape
    check_size(features.shape[2], "features", "number of heads", heads)
    side = make_side(points, geometry, queries * heads, max(heads, 1))
    results = evaluate((side,), options, displaced_points.reshape(-1, dim), features)
    channels = features.shape[-1]
    return _finish(results, options, (batch, queries, heads, channels), (batch, queries, heads, dim, channels))


def conditional_mls_interpolate(
    mask,
    *,
    true_points,
    true_queries,
    true_features,
    false_points,
    false_queries,
    false_features,
    k=4,
    return_grad=False,
    true_geometry=None,
    false_geometry=None,
    regularization="absolute",
):
    """Per row and head, interpolate from one of two sets of points.

    mask (B, M, H) bool; points (B, N_side, D); both queries (B, M, H, D); features (B, N_side, H, C). Returns
    (B, M, H, C) [, (B, M, H, D, C)]: the heads form of the true side where the mask is set, else of the false side.

    Rows of the side that is not chosen are never read, so they may hold anything, NaN included: their gradients are
    zeros. Gradients flow to both query tensors and both feature tensors, never to points.

    Raises ValueError, in this order, for a mask that is not bool, query branches of different or wrong shape, feature
    branches that do not share C; then as ``mls_interpolate``.
    """
    options = check_options(k, return_grad, regularization)
    check_tensor(mask, "mask")
    if mask.dtype != torch.bool:
        raise ValueError(f"mask must be bool, got {mask.dtype}")
    check_rank(mask, "mask", (3,), "(B, M, H)")
    for tensor, name in (
        (true_queries, "true_queries"),
        (false_queries, "false_queries"),
        (true_features, "true_features"),
        (false_features, "false_features"),
    ):
        check_tensor(tensor, name)
    lead = tuple(mask.shape)
    if true_queries.ndim != 4 or true_queries.shape != false_queries.shape or tuple(true_queries.shape[:3]) != lead:
        raise ValueError(
            f"query branches must both have shape (B, M, H, D) with (B, M, H) = {lead},"
            f" got {tuple(true_queries.shape)} and {tuple(false_queries.shape)}"
        )
    if true_features.shape[-1:] != false_features.shape[-1:]:
        raise ValueError(
            f"feature branches must share C, got {tuple(true_features.shape)} and {tuple(false_features.shape)}"
        )
    check_geometry(true_geometry, "true_geometry")
    check_geometry(false_geometry, "false_geometry")
    batch, queries, heads, dim = true_queries.shape
    chosen = mask.reshape(-1)
    sides, tensors = [], []
    for branch, points, q, f, geometry, rows in (
        ("true", true_points, true_queries, true_features, true_geometry, chosen),
        ("false", false_points, false_queries, false_features, false_geometry, ~chosen),
    ):
        names = tuple(f"{branch}_{what}" for what in ("points", "queries", "features"))
        _check_set(points, q, f, k, ("(B, N, D)", "(B, M, H, D)", "(B, N, H, C)"), names)
        check_size(f.shape[2], names[2], "number of heads", heads)
        check_device(points, names[0], mask.device)
        rows = rows.nonzero().reshape(-1).to(torch.int32)
        sides.append(make_side(points, geometry, queries * heads, max(heads, 1), rows=rows))
        tensors += [q.reshape(-1, dim), f]
    results = evaluate(tuple(sides), options, *tensors)
    channels = true_features.shape[-1]
    return _finish(results, options, (batch, queries, heads, channels), (batch, queries, heads, dim, channels))
