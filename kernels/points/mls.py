"""Moving least squares over k neighbours: value, slopes, and their gradient to queries and features.

Everything is linear in the features: with basis ``b = (1, q - p)``, weights ``w_j`` and normal matrix ``A`` the result
is ``sum_j c_j f_j`` with the coefficient vector ``c_j = w_j A^-1 b_j`` (one part for the value, D for the slopes). So
the number of channels enters only in dot products: the gradient to a query is a function of ``E_j = sum_c f_jc g_c``,
where g_c is the gradient arriving at the parts of channel c, and the gradient to a feature is ``c_j . g_c``.

Differences are taken in float64 from the float32 coordinates, and so is the solve. The kernels here take one query a
thread; a CPU takes eight at a time, see ``mls_eight``.
"""

from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points import mls_eight, mls_native
from kernels.points.blend import INDICES, V16, add_row, dot_rows, feature_row, store_row, transpose_blend
from kernels.points.knn_native import MAX_K
from kernels.points.launch import VECTORS, launch, once
from kernels.points.mls_native import DOUBLES, NORMAL, PULL, SHARES, to_weights
from kernels.points.native import FLOATS, INTS

RIDGES = {"absolute": 0, "relative": 1}
ROOMS = (16, MAX_K)
_RIDGE = wp.constant(wp.float64(mls_native.RIDGE))
_RELATIVE_RIDGE = wp.constant(wp.float64(mls_native.RELATIVE_RIDGE))
_EXACT_HIT = wp.constant(wp.float64(mls_native.EXACT_HIT))
_LEAST_BANDWIDTH = wp.constant(wp.float64(mls_native.LEAST_BANDWIDTH))
_PIVOT_FLOOR = wp.constant(wp.float64(mls_native.PIVOT_FLOOR))
_TINY = wp.constant(wp.float64(mls_native.TINY))
_CHANNELS = wp.constant(16)
_GRAIN = 1024


def _linear_algebra(parts):
    """``inverse`` of a symmetric positive definite matrix, with pivots kept above rounding."""
    vector = wp.types.vector(length=parts, dtype=wp.float64)
    matrix = wp.types.matrix(shape=(parts, parts), dtype=wp.float64)

    @wp.func
    def inverse(a: matrix) -> matrix:
        # L D L^T; a pivot that rounding has eaten is replaced by the smallest that the entry can still resolve
        low = matrix(wp.float64(0.0))
        pivots = vector(wp.float64(0.0))
        for i in range(wp.static(parts)):
            for j in range(wp.static(parts)):
                if j < i:
                    s = a[i, j]
                    for m in range(wp.static(parts)):
                        if m < j:
                            s = s - low[i, m] * low[j, m] * pivots[m]
                    low[i, j] = s / pivots[j]
            p = a[i, i]
            for m in range(wp.static(parts)):
                if m < i:
                    p = p - low[i, m] * low[i, m] * pivots[m]
            pivots[i] = wp.max(p, wp.max(a[i, i] * _PIVOT_FLOOR, _TINY))
        result = matrix(wp.float64(0.0))
        for c in range(wp.static(parts)):
            x = vector(wp.float64(0.0))
            for i in range(wp.static(parts)):
                s = wp.where(i == c, wp.float64(1.0), wp.float64(0.0))
                for m in range(wp.static(parts)):
                    if m < i:
                        s = s - low[i, m] * x[m]
                x[i] = s
            for i in range(wp.static(parts)):
                x[i] = x[i] / pivots[i]
            for back in range(wp.static(parts)):
                i = wp.static(parts - 1) - back
                s = x[i]
                for m in range(wp.static(parts)):
                    if m > i:
                        s = s - low[m, i] * x[m]
                x[i] = s
            for i in range(wp.static(parts)):
                result[i, c] = x[i]
        return result

    return vector, matrix, inverse


@once
def _kernels(dim, room):
    """Kernels with local memory for ``room`` neighbours."""
    parts = dim + 1
    position = VECTORS[dim]
    positions = wp.array(dtype=position)
    vector, matrix, inverse = _linear_algebra(parts)
    module = kernel_module(f"kernels.points.mls_{dim}d_{room}")
    memory = wp.constant(4 * room)  # four numbers a neighbour, in two dimensions the last is zero
    neighbours = wp.constant(room)

    normal_snippet, share_snippet, pull_snippet = (
        snippet.replace("PARTS", str(parts)) for snippet in (NORMAL, SHARES, PULL)
    )

    @wp.func_native(normal_snippet)
    def normal_matrix(bases: DOUBLES, weights: DOUBLES, count: int) -> matrix: ...

    @wp.func_native(share_snippet)
    def solved_shares(inverse: matrix, bases: DOUBLES, weights: DOUBLES, count: int, out: DOUBLES): ...

    @wp.func_native(pull_snippet)
    def pull_query(
        inverse: matrix,
        bases: DOUBLES,
        weights: DOUBLES,
        products: DOUBLES,
        shares: DOUBLES,
        count: int,
        rate: wp.float64,
        out: DOUBLES,
    ): ...

    @wp.struct
    class Fit:
        inverse: matrix
        bandwidth: wp.float64
        hits: int
        hit_square: wp.float64
        median: vector
        median_square: wp.float64

    @wp.func
    def basis(bases: DOUBLES, j: int, first: wp.float64) -> vector:
        b = vector(first)
        for c in range(wp.static(dim)):
            b[c + 1] = bases[4 * j + c + 1]
        return b

    @wp.func
    def square(b: vector) -> wp.float64:
        s = wp.float64(0.0)
        for c in range(wp.static(dim)):
            s = s + b[c + 1] * b[c + 1]
        return s

    @wp.func
    def fit_row(
        x: position,
        points: positions,
        first: int,
        indices: INDICES,
        row: int,
        ridge: int,
        bases: DOUBLES,
        weights: DOUBLES,
    ) -> Fit:
        k = indices.shape[1]
        fit = Fit()
        for j in range(k):
            p = points[first + wp.int32(wp.max(indices[row, j], wp.int64(0)))]
            bases[4 * j] = wp.float64(1.0)
            for c in range(wp.static(dim)):
                bases[4 * j + c + 1] = wp.float64(x[c]) - wp.float64(p[c])
            weights[j] = square(basis(bases, j, wp.float64(1.0)))
        fit.median = basis(bases, (k - 1) // 2, wp.float64(1.0))
        fit.median_square = weights[(k - 1) // 2]
        fit.hit_square = _EXACT_HIT
        fit.bandwidth = wp.max(fit.median_square, _EXACT_HIT)
        if ridge == 1:
            fit.hit_square = _EXACT_HIT * fit.median_square
            fit.bandwidth = wp.max(fit.median_square, _LEAST_BANDWIDTH)
        fit.hits = 0
        for j in range(k):
            if weights[j] <= fit.hit_square:
                fit.hits = fit.hits + 1
        if fit.hits > 0:
            share = wp.float64(1.0) / wp.float64(fit.hits)
            for j in range(k):
                weights[j] = wp.where(weights[j] <= fit.hit_square, share, wp.float64(0.0))
        else:
            to_weights(weights, k, wp.float64(0.5) / fit.bandwidth)
            a = normal_matrix(bases, weights, k)
            for i in range(wp.static(parts)):
                if ridge == 0:
                    a[i, i] = a[i, i] + _RIDGE
                elif i > 0:
                    a[i, i] = a[i, i] + _RELATIVE_RIDGE * fit.bandwidth
            fit.inverse = inverse(a)
        return fit

    @wp.func
    def set_shares(fit: Fit, bases: DOUBLES, weights: DOUBLES, k: int, out: DOUBLES):
        """What every neighbour's feature counts for in the value and in each slope, four numbers a neighbour."""
        if fit.hits == 0:
            solved_shares(fit.inverse, bases, weights, k, out)
        else:
            for j in range(k):
                out[4 * j] = weights[j]
                for c in range(1, 4):
                    out[4 * j + c] = wp.float64(0.0)

    @wp.kernel(module=module)
    def forward(
        offset: int,
        queries: positions,
        rows: INTS,
        use_rows: int,
        points: positions,
        indices: INDICES,
        features: FLOATS,
        channels: int,
        ridge: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        slopes_wanted: int,
        values: FLOATS,
        slopes: FLOATS,
    ):
        row = offset + wp.tid()
        if use_rows == 1:
            row = rows[row]
        k = indices.shape[1]
        first = (row // rows_per_sample) * points_per_sample
        bases = wp.zeros(shape=(memory,), dtype=wp.float64)
        weights = wp.zeros(shape=(neighbours,), dtype=wp.float64)
        fit = fit_row(queries[row], points, first, indices, row, ridge, bases, weights)
        set_shares(fit, bases, weights, k, bases)  # in place: the bases are not needed again
        last = wp.where(slopes_wanted == 1, wp.static(parts), 1)
        for e in range(last):
            for c in range(0, channels, _CHANNELS):
                acc = V16(wp.float64(0.0))
                for j in range(k):
                    f = feature_row(row, indices[row, j], rows_per_sample, points_per_sample, heads)
                    start = f * wp.int64(channels) + wp.int64(c)
                    acc = add_row(acc, bases[4 * j + e], features, start, channels - c)
                if e == 0:
                    store_row(values, wp.int64(row) * wp.int64(channels) + wp.int64(c), acc, channels - c)
                else:
                    part = wp.int64(row) * wp.int64(wp.static(dim)) + wp.int64(e - 1)
                    store_row(slopes, part * wp.int64(channels) + wp.int64(c), acc, channels - c)

    @wp.kernel(module=module)
    def backward(
        offset: int,
        queries: positions,
        rows: INTS,
        use_rows: int,
        points: positions,
        indices: INDICES,
        features: FLOATS,
        channels: int,
        ridge: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        arriving_parts: int,
        value_gradient: FLOATS,
        slope_gradient: FLOATS,
        coefficients: FLOATS,
        queries_wanted: int,
        query_gradient: FLOATS,
    ):
        row = offset + wp.tid()
        if use_rows == 1:
            row = rows[row]
        k = indices.shape[1]
        first = (row // rows_per_sample) * points_per_sample
        bases = wp.zeros(shape=(memory,), dtype=wp.float64)
        weights = wp.zeros(shape=(neighbours,), dtype=wp.float64)
        fit = fit_row(queries[row], points, first, indices, row, ridge, bases, weights)
        shares = wp.zeros(shape=(memory,), dtype=wp.float64)
        set_shares(fit, bases, weights, k, shares)
        for j in range(k):
            pair = (wp.int64(row) * wp.int64(k) + wp.int64(j)) * wp.int64(arriving_parts)
            for e in range(arriving_parts):
                coefficients[pair + wp.int64(e)] = wp.float32(shares[4 * j + e])
        if queries_wanted == 1:
            gradient = vector(wp.float64(0.0))
            if fit.hits == 0:
                products = wp.zeros(shape=(memory,), dtype=wp.float64)
                for j in range(k):
                    f = feature_row(row, indices[row, j], rows_per_sample, points_per_sample, heads)
                    start = f * wp.int64(channels)
                    product = vector(wp.float64(0.0))
                    product[0] = dot_rows(features, start, value_gradient, wp.int64(row) * wp.int64(channels), channels)
                    for e in range(1, arriving_parts):
                        part = wp.int64(row) * wp.int64(wp.static(dim)) + wp.int64(e - 1)
                        product[e] = dot_rows(features, start, slope_gradient, part * wp.int64(channels), channels)
                    for e in range(wp.static(parts)):
                        products[4 * j + e] = product[e]
                rate = wp.float64(1.0) / fit.bandwidth
                pulled = wp.zeros(shape=(6,), dtype=wp.float64)
                pull_query(fit.inverse, bases, weights, products, shares, k, rate, pulled)
                for e in range(wp.static(parts)):
                    gradient[e] = pulled[e]
                # the bandwidth is the squared distance to the median neighbour, and moves by twice the difference
                half_bandwidth_gradient = pulled[4]
                if ridge == 1:
                    half_bandwidth_gradient = half_bandwidth_gradient - wp.float64(2.0) * _RELATIVE_RIDGE * pulled[5]
                if fit.median_square >= fit.bandwidth:  # the floor does not move with the query
                    gradient = gradient + fit.median * half_bandwidth_gradient
            for c in range(wp.static(dim)):
                query_gradient[row * wp.static(dim) + c] = wp.float32(gradient[c + 1])

    return SimpleNamespace(forward=forward, backward=backward)


def _room(indices):
    return next(room for room in ROOMS if indices.shape[1] <= room)


def _inputs(queries, points, indices, features, channels, ridge, layout, rows):
    """How many rows there are, and what every kernel takes first."""
    use_rows = rows is not None
    inputs = [queries, rows, int(use_rows), points, indices, features, channels, RIDGES[ridge], *layout.arguments]
    return (rows if use_rows else queries).shape[0], inputs


def forward(
    dim, queries, points, indices, features, channels, ridge, layout, values, slopes, *, rows=None, by_eight=None
):
    """Values (R, C), and slopes (R, D, C) unless None, of the rows in ``rows`` (all by default).

    ``by_eight``: eight queries at a time, which is what a CPU does by default.
    """
    device = queries.device
    total, inputs = _inputs(queries, points, indices, features, channels, ridge, layout, rows)
    if device.is_cpu if by_eight is None else by_eight:
        mls_eight.forward(dim, 1 if slopes is None else dim + 1, total, inputs, values, slopes, device)
        return
    kernel = _kernels(dim, _room(indices)).forward
    launch(kernel, total, [*inputs, int(slopes is not None), values, slopes], device, grain=_GRAIN)


def backward(
    dim,
    queries,
    points,
    indices,
    features,
    channels,
    ridge,
    layout,
    value_gradient,
    slope_gradient,
    query_gradient,
    feature_gradient,
    *,
    rows=None,
    by_eight=None,
):
    """Gradients for those of ``query_gradient`` (R, D) and ``feature_gradient`` (feature rows, C) that are not None.

    ``slope_gradient`` may be None. Query rows outside ``rows`` are left alone; every feature row is written.
    """
    device = queries.device
    arriving = 1 if slope_gradient is None else dim + 1
    coefficients = wp.empty(indices.size * arriving, dtype=wp.float32, device=device)
    total, inputs = _inputs(queries, points, indices, features, channels, ridge, layout, rows)
    gradients = [value_gradient, slope_gradient, coefficients, int(query_gradient is not None), query_gradient]
    if device.is_cpu if by_eight is None else by_eight:
        mls_eight.backward(dim, arriving, total, inputs, gradients, device)
    else:
        kernel = _kernels(dim, _room(indices)).backward
        launch(kernel, total, [*inputs, arriving, *gradients], device, grain=_GRAIN)
    if feature_gradient is not None:
        transpose_blend(
            indices,
            coefficients,
            arriving,
            value_gradient,
            slope_gradient,
            layout,
            channels,
            feature_gradient,
            rows=rows,
        )
