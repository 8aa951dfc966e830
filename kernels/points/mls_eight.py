"""Moving least squares on a CPU, eight queries at a time; ``mls`` has the definition and what other devices run.

Lane l of every vector is query l of eight, so that differences, weights, normal matrices and their solutions go without
a branch. With the solutions ``x_m = A^-1 e_m`` of the parts m that are wanted (the value, or the value and the slopes),
a neighbour's feature counts ``w_j x_m . b_j`` in part m. With ``s_m = A^-1 sum_j E_jm w_j b_j``, the same fit of what
arrives, the gradient to the query needs no other solution:

    t_jm = x_m . b_j,   r_jm = E_jm - s_m . b_j,   u_j = sum_m t_jm r_jm
    dq = sum_j w_j (sum_m (x_m r_jm - t_jm s_m) - b_j u_j / h)
"""

from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points import mls_native
from kernels.points.blend import INDICES
from kernels.points.knn_native import MAX_K
from kernels.points.launch import VECTORS, launch, once
from kernels.points.native import FLOATS, INTS, twin

_GRAIN = 256  # groups of eight

# What both directions begin with. In: group, total, rows, queries, points, indices, features. Out: row[8], live, k,
# feature[8 j + l] (where a row of features begins), d[j] = q - p, square[j], w[j], x[m], share[j][m].
_FIT = """
#define CONVERT8(v) __builtin_convertvector(v, D8)
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
    typedef wp::float64 D8 __attribute__((vector_size(64)));
    typedef wp::float64 D8U __attribute__((vector_size(64), aligned(8)));
    typedef wp::int64 L8 __attribute__((vector_size(64)));
    const D8 zero = {0, 0, 0, 0, 0, 0, 0, 0};
    const L8 none = {0, 0, 0, 0, 0, 0, 0, 0};
    const wp::int32 begin = 8 * group, live = total - begin < 8 ? total - begin : 8, k = indices.shape[1];
    wp::int32 row[8];
    wp::int64 feature[8 * MOST];
    wp::float32 place[8 * DIM], site[8 * DIM * MOST];
    for (wp::int32 l = 0; l < 8; ++l) {
        const wp::int32 t = begin + (l < live ? l : live - 1), r = use_rows ? rows.data[t] : t;
        const wp::int64 start = (wp::int64)(r / rows_per_sample) * points_per_sample, head = r % heads;
        const wp::float32 *q = (const wp::float32 *)queries.data + (wp::int64)r * DIM;
        const wp::int64 *found = indices.data + (wp::int64)r * k;
        row[l] = r;
        for (wp::int32 c = 0; c < DIM; ++c) place[8 * c + l] = q[c];
        for (wp::int32 j = 0; j < k; ++j) {
            const wp::int64 n = start + (found[j] > 0 ? found[j] : 0);
            const wp::float32 *p = (const wp::float32 *)points.data + n * DIM;
            feature[8 * j + l] = (n * heads + head) * channels;
            __builtin_prefetch(features.data + feature[8 * j + l]);
            for (wp::int32 c = 0; c < DIM; ++c) site[8 * (DIM * j + c) + l] = p[c];
        }
    }
    D8 d[MOST][DIM], square[MOST], w[MOST];
    for (wp::int32 j = 0; j < k; ++j) {
        D8 sum = zero;
        for (wp::int32 c = 0; c < DIM; ++c) {
            const D8 u = CONVERT8(LOAD8(place + 8 * c)) - CONVERT8(LOAD8(site + 8 * (DIM * j + c)));
            d[j][c] = u;
            sum += u * u;
        }
        square[j] = sum;
    }
    const wp::int32 middle = (k - 1) / 2;
    const D8 median = square[middle], hit = relative ? EXACT_HIT * median : zero + EXACT_HIT;
    const D8 least = zero + (relative ? LEAST_BANDWIDTH : EXACT_HIT), h = LARGER(median, least);
    const D8 rate = 1.0 / h, half_rate = 0.5 * rate;
    D8 a[PARTS][PARTS], hits = zero;
    for (wp::int32 i = 0; i < PARTS; ++i)
        for (wp::int32 m = 0; m <= i; ++m) a[i][m] = zero;
    for (wp::int32 i = 0; i < PARTS; ++i)
        a[i][i] = relative ? (i == 0 ? zero : RELATIVE_RIDGE * h) : zero + RIDGE;
    for (wp::int32 j = 0; j < k; ++j) {
        hits += square[j] <= hit ? zero + 1.0 : zero;
        const D8 y = square[j] * -half_rate, shifted = y * 1.4426950408889634 + 6755399441055744.0;
        const D8 n = shifted - 6755399441055744.0;
        const D8 r = (y - n * 0.6931471803691238) - n * 1.9082149292705877e-10;
        // exp by a power of two and a Taylor polynomial on [-ln2/2, ln2/2], to an ulp or two
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
        e = y > -708.0 ? (D8)((L8)e + ((L8)shifted << 52)) : zero;
        w[j] = e;
        a[0][0] += e;
        for (wp::int32 c = 0; c < DIM; ++c) {
            const D8 wd = e * d[j][c];
            a[c + 1][0] += wd;
            for (wp::int32 m = 0; m <= c; ++m) a[c + 1][m + 1] += wd * d[j][m];
        }
    }
    // L D L^T; a pivot that rounding has eaten is replaced by the smallest that the entry can still resolve
    D8 low[PARTS][PARTS], pivot[PARTS], inverse[PARTS];
    for (wp::int32 i = 0; i < PARTS; ++i) {
        for (wp::int32 c = 0; c < i; ++c) {
            D8 s = a[i][c];
            for (wp::int32 m = 0; m < c; ++m) s -= low[i][m] * low[c][m] * pivot[m];
            low[i][c] = s * inverse[c];
        }
        D8 p = a[i][i];
        for (wp::int32 m = 0; m < i; ++m) p -= low[i][m] * low[i][m] * pivot[m];
        const D8 floor = a[i][i] * PIVOT_FLOOR, tiny = zero + TINY, bound = LARGER(floor, tiny);
        pivot[i] = LARGER(p, bound);
        inverse[i] = 1.0 / pivot[i];
    }
    const auto solve = [&](D8 *v) {
        for (wp::int32 i = 1; i < PARTS; ++i)
            for (wp::int32 m = 0; m < i; ++m) v[i] -= low[i][m] * v[m];
        for (wp::int32 i = 0; i < PARTS; ++i) v[i] *= inverse[i];
        for (wp::int32 i = PARTS - 2; i >= 0; --i)
            for (wp::int32 m = i + 1; m < PARTS; ++m) v[i] -= low[m][i] * v[m];
    };
    const auto fitted = [&](const D8 *v, wp::int32 j) {
        D8 s = v[0];
        for (wp::int32 c = 0; c < DIM; ++c) s += v[c + 1] * d[j][c];
        return s;
    };
    D8 x[WANTED][PARTS], share[MOST][WANTED];
    for (wp::int32 m = 0; m < WANTED; ++m) {
        for (wp::int32 i = 0; i < PARTS; ++i) x[m][i] = i == m ? zero + 1.0 : zero;
        solve(x[m]);
    }
    const D8 equal = 1.0 / hits;
    const L8 on_points = hits > 0.0;
    for (wp::int32 j = 0; j < k; ++j) {
        for (wp::int32 m = 0; m < WANTED; ++m) {
            const D8 mean = m == 0 ? (square[j] <= hit ? equal : zero) : zero;
            share[j][m] = on_points ? mean : w[j] * fitted(x[m], j);
        }
    }
"""

_FORWARD = (
    _FIT
    + """
    typedef wp::float64 D16 __attribute__((vector_size(128)));
    typedef wp::float32 F16 __attribute__((vector_size(64)));
    typedef wp::float32 F16U __attribute__((vector_size(64), aligned(4)));
    for (wp::int32 l = 0; l < live; ++l) {
        for (wp::int32 m = 0; m < WANTED; ++m) {
            const wp::int64 part = m == 0 ? row[l] : (wp::int64)row[l] * DIM + m - 1;
            wp::float32 *out = (m == 0 ? values.data : slopes.data) + part * channels;
            const wp::float64 *weight = (const wp::float64 *)&share[0][m] + l;
            wp::int32 c = 0;
            for (; c + 16 <= channels; c += 16) {
                D16 sum = {};
                for (wp::int32 j = 0; j < k; ++j)
                    sum += weight[8 * WANTED * j]
                        * __builtin_convertvector(*(const F16U *)(features.data + feature[8 * j + l] + c), D16);
                *(F16U *)(out + c) = __builtin_convertvector(sum, F16);
            }
            for (; c < channels; ++c) {
                wp::float64 sum = 0;
                for (wp::int32 j = 0; j < k; ++j)
                    sum += weight[8 * WANTED * j] * (wp::float64)features.data[feature[8 * j + l] + c];
                out[c] = (wp::float32)sum;
            }
        }
    }
"""
)

_BACKWARD = (
    _FIT
    + """
    for (wp::int32 l = 0; l < live; ++l) {
        wp::float32 *out = coefficients.data + (wp::int64)row[l] * k * WANTED;
        const wp::float64 *in = (const wp::float64 *)share + l;
        for (wp::int32 i = 0; i < k * WANTED; ++i) out[i] = (wp::float32)in[8 * i];
    }
    if (!queries_wanted) return;
    D8 product[MOST][WANTED], s[WANTED][PARTS];
    for (wp::int32 m = 0; m < WANTED; ++m) {
        const wp::float32 *arriving[8];
        for (wp::int32 l = 0; l < 8; ++l) {
            const wp::int64 part = m == 0 ? row[l] : (wp::int64)row[l] * DIM + m - 1;
            arriving[l] = (m == 0 ? value_gradient.data : slope_gradient.data) + part * channels;
        }
        for (wp::int32 j = 0; j < k; ++j) product[j][m] = zero;
        wp::int32 c = 0;
        for (; c + 8 <= channels; c += 8) {
            D8 g[8];
            for (wp::int32 l = 0; l < 8; ++l) g[l] = CONVERT8(LOAD8(arriving[l] + c));
            for (wp::int32 j = 0; j < k; ++j) {
                D8 v[8];
                for (wp::int32 l = 0; l < 8; ++l)
                    v[l] = g[l] * CONVERT8(LOAD8(features.data + feature[8 * j + l] + c));
                // the sums of eight vectors, one a lane
                for (wp::int32 i = 0; i < 4; ++i)
                    v[i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 8, 2, 10, 4, 12, 6, 14)
                        + __builtin_shufflevector(v[2 * i], v[2 * i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
                for (wp::int32 i = 0; i < 2; ++i)
                    v[i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 1, 8, 9, 4, 5, 12, 13)
                        + __builtin_shufflevector(v[2 * i], v[2 * i + 1], 2, 3, 10, 11, 6, 7, 14, 15);
                product[j][m] += __builtin_shufflevector(v[0], v[1], 0, 1, 2, 3, 8, 9, 10, 11)
                    + __builtin_shufflevector(v[0], v[1], 4, 5, 6, 7, 12, 13, 14, 15);
            }
        }
        for (; c < channels; ++c)
            for (wp::int32 j = 0; j < k; ++j)
                for (wp::int32 l = 0; l < 8; ++l)
                    product[j][m][l] += (wp::float64)arriving[l][c]
                        * (wp::float64)features.data[feature[8 * j + l] + c];
        for (wp::int32 i = 0; i < PARTS; ++i) s[m][i] = zero;
        for (wp::int32 j = 0; j < k; ++j) {
            const D8 e = product[j][m] * w[j];
            s[m][0] += e;
            for (wp::int32 i = 0; i < DIM; ++i) s[m][i + 1] += e * d[j][i];
        }
        solve(s[m]);
    }
    D8 gradient[DIM], to_bandwidth = zero;
    for (wp::int32 c = 0; c < DIM; ++c) gradient[c] = zero;
    for (wp::int32 j = 0; j < k; ++j) {
        D8 u = zero, pull[DIM];
        for (wp::int32 c = 0; c < DIM; ++c) pull[c] = zero;
        for (wp::int32 m = 0; m < WANTED; ++m) {
            const D8 t = fitted(x[m], j), r = product[j][m] - fitted(s[m], j);
            u += t * r;
            for (wp::int32 c = 0; c < DIM; ++c) pull[c] += x[m][c + 1] * r - t * s[m][c + 1];
        }
        const D8 uw = u * w[j];
        for (wp::int32 c = 0; c < DIM; ++c) gradient[c] += pull[c] * w[j] - d[j][c] * (uw * rate);
        to_bandwidth += uw * square[j];
    }
    // the bandwidth is the squared distance to the median neighbour, and moves by twice the difference
    D8 half = to_bandwidth * (rate * rate);
    if (relative)
        for (wp::int32 m = 0; m < WANTED; ++m)
            for (wp::int32 c = 1; c < PARTS; ++c) half -= 2.0 * RELATIVE_RIDGE * (x[m][c] * s[m][c]);
    half = median >= h ? half : zero;  // its floor does not move with the query
    for (wp::int32 c = 0; c < DIM; ++c) {
        const D8 total = gradient[c] + half * d[middle][c], held = on_points ? zero : total;
        for (wp::int32 l = 0; l < live; ++l) query_gradient.data[(wp::int64)row[l] * DIM + c] = (wp::float32)held[l];
    }
"""
)

_NUMBERS = ("RELATIVE_RIDGE", "RIDGE", "EXACT_HIT", "LEAST_BANDWIDTH", "PIVOT_FLOOR", "TINY")


def _snippet(cpu, dim, wanted):
    """For CUDA there is nothing to run, but the kernels compile."""
    numbers = {name: repr(getattr(mls_native, name)) for name in _NUMBERS}
    constants = {**numbers, "MOST": MAX_K, "PARTS": dim + 1, "DIM": dim, "WANTED": wanted}
    head = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    tail = "".join(f"#undef {name}\n" for name in (*constants, "CONVERT8", "LARGER"))
    return twin("\n" + head + cpu, "") + "\n" + tail


@once
def _kernels(dim, wanted):
    """Kernels for the first ``wanted`` parts: 1, the value, or 1 + D, with the slopes."""
    positions = wp.array(dtype=VECTORS[dim])
    module = kernel_module(f"kernels.points.mls_eight_{dim}d_{wanted}")
    forward_snippet, backward_snippet = (_snippet(cpu, dim, wanted) for cpu in (_FORWARD, _BACKWARD))

    @wp.func_native(forward_snippet)
    def forward_eight(
        group: int,
        total: int,
        queries: positions,
        rows: INTS,
        use_rows: int,
        points: positions,
        indices: INDICES,
        features: FLOATS,
        channels: int,
        relative: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        values: FLOATS,
        slopes: FLOATS,
    ): ...

    @wp.func_native(backward_snippet)
    def backward_eight(
        group: int,
        total: int,
        queries: positions,
        rows: INTS,
        use_rows: int,
        points: positions,
        indices: INDICES,
        features: FLOATS,
        channels: int,
        relative: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        value_gradient: FLOATS,
        slope_gradient: FLOATS,
        coefficients: FLOATS,
        queries_wanted: int,
        query_gradient: FLOATS,
    ): ...

    @wp.kernel(module=module)
    def forward(
        offset: int,
        total: int,
        queries: positions,
        rows: INTS,
        use_rows: int,
        points: positions,
        indices: INDICES,
        features: FLOATS,
        channels: int,
        relative: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        values: FLOATS,
        slopes: FLOATS,
    ):
        forward_eight(
            offset + wp.tid(), total, queries, rows, use_rows, points, indices, features, channels, relative,
            rows_per_sample, points_per_sample, heads, values, slopes,
        )  # fmt: skip

    @wp.kernel(module=module)
    def backward(
        offset: int,
        total: int,
        queries: positions,
        rows: INTS,
        use_rows: int,
        points: positions,
        indices: INDICES,
        features: FLOATS,
        channels: int,
        relative: int,
        rows_per_sample: int,
        points_per_sample: int,
        heads: int,
        value_gradient: FLOATS,
        slope_gradient: FLOATS,
        coefficients: FLOATS,
        queries_wanted: int,
        query_gradient: FLOATS,
    ):
        backward_eight(
            offset + wp.tid(), total, queries, rows, use_rows, points, indices, features, channels, relative,
            rows_per_sample, points_per_sample, heads, value_gradient, slope_gradient, coefficients, queries_wanted,
            query_gradient,
        )  # fmt: skip

    return SimpleNamespace(forward=forward, backward=backward)


def _launch(kernel, total, inputs, device):
    launch(kernel, (total + 7) // 8, [total, *inputs], device, grain=_GRAIN)


def forward(dim, wanted, total, inputs, values, slopes, device):
    """``inputs``: queries to heads, as the kernel takes them, for ``total`` rows."""
    _launch(_kernels(dim, wanted).forward, total, [*inputs, values, slopes], device)


def backward(dim, wanted, total, inputs, gradients, device):
    """As ``forward``, for the parts whose gradients arrive: ``gradients`` are the kernel's last arguments."""
    _launch(_kernels(dim, wanted).backward, total, [*inputs, *gradients], device)
