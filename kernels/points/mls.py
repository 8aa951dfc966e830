"""Moving least squares over k neighbours: value, slopes, and their gradient to queries and features.

Everything is linear in the features: with basis ``b = (1, q - p)``, weights ``w_j`` and normal matrix ``A`` the result
is ``sum_j c_j f_j`` with the coefficient vector ``c_j = w_j A^-1 b_j`` (one part for the value, D for the slopes). So
the number of channels enters only in dot products: the gradient to a query is a function of ``E_j = sum_c f_jc g_c``,
where g_c is the gradient arriving at the parts of channel c, and the gradient to a feature is ``c_j . g_c``.

Differences are taken in float64 from the float32 coordinates, and so is the solve.
"""

from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points.blend import INDICES, V16, add_row, dot_rows, feature_row, store_row, transpose_blend
from kernels.points.launch import VECTORS, launch, once
from kernels.points.native import FLOATS, INTS, twin
from kernels.points.search import MAX_K

RIDGES = {"absolute": 0, "relative": 1}
ROOMS = (16, MAX_K)
_RIDGE = wp.constant(wp.float64(1.0e-6))
_RELATIVE_RIDGE = wp.constant(wp.float64(1.0e-8))
_EXACT_HIT = wp.constant(wp.float64(1.0e-12))  # times the squared median distance where the ridge is relative
_LEAST_BANDWIDTH = wp.constant(wp.float64(1.0e-100))
_PIVOT_FLOOR = wp.constant(wp.float64(1.0e-14))
_TINY = wp.constant(wp.float64(1.0e-290))
_CHANNELS = wp.constant(16)
_GRAIN = 1024


DOUBLES = wp.array(dtype=wp.float64)

# exp by a power of two and a Taylor polynomial on [-ln2/2, ln2/2], to an ulp or two; library calls do not vectorise
_WEIGHTS = twin(
    """
    typedef wp::float64 D8 __attribute__((vector_size(64)));
    typedef wp::float64 D8U __attribute__((vector_size(64), aligned(8)));
    typedef wp::int64 L8 __attribute__((vector_size(64)));
    for (wp::int32 i = 0; i < count; i += 8) {
        D8 *p = (D8 *)(D8U *)(w.data + i), zero = {0, 0, 0, 0, 0, 0, 0, 0};
        const D8 x = *(const D8U *)p * -rate, shifted = x * 1.4426950408889634 + 6755399441055744.0;
        const D8 n = shifted - 6755399441055744.0;
        const D8 r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
        D8 e = zero + 1.0 / 6227020800.0;
        e = e * r + 1.0 / 479001600.0;
        e = e * r + 1.0 / 39916800.0;
        e = e * r + 1.0 / 3628800.0;
        e = e * r + 1.0 / 362880.0;
        e = e * r + 1.0 / 40320.0;
        e = e * r + 1.0 / 5040.0;
        e = e * r + 1.0 / 720.0;
        e = e * r + 1.0 / 120.0;
        e = e * r + 1.0 / 24.0;
        e = e * r + 1.0 / 6.0;
        e = e * r + 0.5;
        e = e * r + 1.0;
        e = e * r + 1.0;
        const D8 scaled = (D8)((L8)e + ((L8)shifted << 52));
        *(D8U *)p = x > -708.0 ? scaled : zero;
    }
""",
    """
    for (wp::int32 j = 0; j < count; ++j) w.data[j] = exp(-w.data[j] * rate);
""",
)

# the normal matrix, row by row: sum of w b b^T over the neighbours
_NORMAL = twin(
    """
    typedef wp::float64 D4 __attribute__((vector_size(32)));
    typedef wp::float64 D4U __attribute__((vector_size(32), aligned(8)));
    wp::mat_t<PARTS, PARTS, wp::float64> r;
    D4 rows[PARTS];
    for (wp::int32 i = 0; i < PARTS; ++i) rows[i] = (D4){0, 0, 0, 0};
    for (wp::int32 j = 0; j < count; ++j) {
        const D4 b = *(const D4U *)(bases.data + 4 * j), wb = b * weights.data[j];
        for (wp::int32 i = 0; i < PARTS; ++i) rows[i] += wb * b[i];
    }
    for (wp::int32 i = 0; i < PARTS; ++i)
        for (wp::int32 j = 0; j < PARTS; ++j) r.data[i][j] = rows[i][j];
    return r;
""",
    """
    wp::mat_t<PARTS, PARTS, wp::float64> r;
    for (wp::int32 j = 0; j < count; ++j)
        for (wp::int32 i = 0; i < PARTS; ++i)
            for (wp::int32 e = 0; e < PARTS; ++e)
                r.data[i][e] += weights.data[j] * bases.data[4 * j + i] * bases.data[4 * j + e];
    return r;
""",
)

# A^-1 b w of every neighbour, in place of its basis
_SHARES = twin(
    """
    typedef wp::float64 D4 __attribute__((vector_size(32)));
    typedef wp::float64 D4U __attribute__((vector_size(32), aligned(8)));
    D4 rows[PARTS];
    for (wp::int32 i = 0; i < PARTS; ++i) {
        rows[i] = (D4){0, 0, 0, 0};
        for (wp::int32 j = 0; j < PARTS; ++j) rows[i][j] = inverse.data[i][j];
    }
    for (wp::int32 j = 0; j < count; ++j) {
        const D4 b = *(const D4U *)(bases.data + 4 * j) * weights.data[j];
        D4 share = {0, 0, 0, 0};
        for (wp::int32 i = 0; i < PARTS; ++i) share += rows[i] * b[i];
        *(D4U *)(out.data + 4 * j) = share;
    }
""",
    """
    for (wp::int32 j = 0; j < count; ++j) {
        wp::float64 share[PARTS] = {};
        for (wp::int32 i = 0; i < PARTS; ++i)
            for (wp::int32 e = 0; e < PARTS; ++e)
                share[e] += inverse.data[i][e] * bases.data[4 * j + i] * weights.data[j];
        for (wp::int32 e = 0; e < PARTS; ++e) out.data[4 * j + e] = share[e];
    }
""",
)


# The gradient to the query from the products E_j (see above), with P = A^-1 sum_j E_j c_j^T: out[0:4] the gradient with
# the bandwidth held, out[4] that to half the bandwidth, out[5] the trace of P over the slopes.
_PULL = twin(
    """
    typedef wp::float64 D4 __attribute__((vector_size(32)));
    typedef wp::float64 D4U __attribute__((vector_size(32), aligned(8)));
    const D4 zero = {0, 0, 0, 0};
    D4 a[PARTS], outer[PARTS], p[PARTS], pt[PARTS];
    for (wp::int32 i = 0; i < PARTS; ++i) {
        a[i] = outer[i] = p[i] = pt[i] = zero;
        for (wp::int32 j = 0; j < PARTS; ++j) a[i][j] = inverse.data[i][j];
    }
    for (wp::int32 j = 0; j < count; ++j) {
        const D4 share = *(const D4U *)(shares.data + 4 * j);
        for (wp::int32 i = 0; i < PARTS; ++i) outer[i] += share * products.data[4 * j + i];
    }
    for (wp::int32 i = 0; i < PARTS; ++i)
        for (wp::int32 m = 0; m < PARTS; ++m) p[i] += outer[m] * a[i][m];
    for (wp::int32 i = 0; i < PARTS; ++i)
        for (wp::int32 j = 0; j < PARTS; ++j) pt[i][j] = p[j][i];
    D4 gradient = zero;
    wp::float64 bandwidth = 0, trace = 0;
    for (wp::int32 j = 0; j < count; ++j) {
        const D4 b = *(const D4U *)(bases.data + 4 * j);
        const wp::float64 w = weights.data[j];
        D4 residual = zero, turned = zero;
        for (wp::int32 i = 0; i < PARTS; ++i) {
            residual += a[i] * products.data[4 * j + i] - pt[i] * b[i];
            turned += p[i] * b[i];
        }
        const D4 bb = b * b, br = b * residual;
        const wp::float64 u = br[0] + br[1] + br[2] + br[3];
        gradient += (residual - turned - b * (u * rate)) * w;
        bandwidth += u * w * (bb[1] + bb[2] + bb[3]);
    }
    for (wp::int32 i = 1; i < PARTS; ++i) trace += p[i][i];
    *(D4U *)out.data = gradient;
    out.data[4] = bandwidth * rate * rate;
    out.data[5] = trace;
""",
    """
    wp::float64 outer[PARTS][PARTS] = {}, p[PARTS][PARTS] = {};
    for (wp::int32 j = 0; j < count; ++j)
        for (wp::int32 i = 0; i < PARTS; ++i)
            for (wp::int32 e = 0; e < PARTS; ++e) outer[i][e] += products.data[4 * j + i] * shares.data[4 * j + e];
    for (wp::int32 i = 0; i < PARTS; ++i)
        for (wp::int32 m = 0; m < PARTS; ++m)
            for (wp::int32 e = 0; e < PARTS; ++e) p[i][e] += inverse.data[i][m] * outer[m][e];
    wp::float64 bandwidth = 0, trace = 0;
    for (wp::int32 i = 0; i < 6; ++i) out.data[i] = 0;
    for (wp::int32 j = 0; j < count; ++j) {
        const wp::float64 *b = bases.data + 4 * j, w = weights.data[j];
        wp::float64 residual[PARTS] = {}, turned[PARTS] = {}, u = 0, square = 0;
        for (wp::int32 i = 0; i < PARTS; ++i)
            for (wp::int32 e = 0; e < PARTS; ++e) {
                residual[i] += inverse.data[i][e] * products.data[4 * j + e] - p[i][e] * b[e];
                turned[i] += p[e][i] * b[e];
            }
        for (wp::int32 i = 0; i < PARTS; ++i) { u += b[i] * residual[i]; square += i > 0 ? b[i] * b[i] : 0.0; }
        for (wp::int32 i = 0; i < PARTS; ++i) out.data[i] += (residual[i] - turned[i] - b[i] * (u * rate)) * w;
        bandwidth += u * w * square;
    }
    for (wp::int32 i = 1; i < PARTS; ++i) trace += p[i][i];
    out.data[4] = bandwidth * rate * rate;
    out.data[5] = trace;
""",
)


@wp.func_native(_WEIGHTS)
def to_weights(w: DOUBLES, count: int, rate: wp.float64):
    """Squared distances to ``exp(-rate * square)``, in place; room for a multiple of eight."""
    ...


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
        snippet.replace("PARTS", str(parts)) for snippet in (_NORMAL, _SHARES, _PULL)
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


def forward(dim, queries, points, indices, features, channels, ridge, layout, values, slopes, *, rows=None):
    """Values (R, C), and slopes (R, D, C) unless None, of the rows in ``rows`` (all by default)."""
    device = queries.device
    launch(
        _kernels(dim, _room(indices)).forward,
        queries.shape[0] if rows is None else rows.shape[0],
        [
            queries,
            rows,
            int(rows is not None),
            points,
            indices,
            features,
            channels,
            RIDGES[ridge],
            *layout.arguments,
            int(slopes is not None),
            values,
            slopes,
        ],
        device,
        grain=_GRAIN,
    )


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
):
    """Gradients for those of ``query_gradient`` (R, D) and ``feature_gradient`` (feature rows, C) that are not None.

    ``slope_gradient`` may be None. Query rows outside ``rows`` are left alone; every feature row is written.
    """
    device = queries.device
    arriving = 1 if slope_gradient is None else dim + 1
    total, k = indices.shape
    coefficients = wp.empty(total * k * arriving, dtype=wp.float32, device=device)
    launch(
        _kernels(dim, _room(indices)).backward,
        total if rows is None else rows.shape[0],
        [
            queries,
            rows,
            int(rows is not None),
            points,
            indices,
            features,
            channels,
            RIDGES[ridge],
            *layout.arguments,
            arriving,
            value_gradient,
            slope_gradient,
            coefficients,
            int(query_gradient is not None),
            query_gradient,
        ],
        device,
        grain=_GRAIN,
    )
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
