"""What moving least squares does to all neighbours of one query, in plain loops; see ``mls``."""

import warp as wp

DOUBLES = wp.array(dtype=wp.float64)

RIDGE = 1.0e-6
RELATIVE_RIDGE = 1.0e-8
EXACT_HIT = 1.0e-12  # times the squared median distance where the ridge is relative
LEAST_BANDWIDTH = 1.0e-100
PIVOT_FLOOR = 1.0e-14
TINY = 1.0e-290

WEIGHTS = """
    for (wp::int32 j = 0; j < count; ++j) w.data[j] = exp(-w.data[j] * rate);
"""

# the normal matrix, row by row: sum of w b b^T over the neighbours
NORMAL = """
    wp::mat_t<PARTS, PARTS, wp::float64> r;
    for (wp::int32 j = 0; j < count; ++j)
        for (wp::int32 i = 0; i < PARTS; ++i)
            for (wp::int32 e = 0; e < PARTS; ++e)
                r.data[i][e] += weights.data[j] * bases.data[4 * j + i] * bases.data[4 * j + e];
    return r;
"""

# A^-1 b w of every neighbour, in place of its basis
SHARES = """
    for (wp::int32 j = 0; j < count; ++j) {
        wp::float64 share[PARTS] = {};
        for (wp::int32 i = 0; i < PARTS; ++i)
            for (wp::int32 e = 0; e < PARTS; ++e)
                share[e] += inverse.data[i][e] * bases.data[4 * j + i] * weights.data[j];
        for (wp::int32 e = 0; e < PARTS; ++e) out.data[4 * j + e] = share[e];
    }
"""


# The gradient to the query from the products E_j of ``mls``, with P = A^-1 sum_j E_j c_j^T: out[0:4] the gradient with
# the bandwidth held, out[4] that to half the bandwidth, out[5] the trace of P over the slopes.
PULL = """
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
"""


@wp.func_native(WEIGHTS)
def to_weights(w: DOUBLES, count: int, rate: wp.float64):
    """Squared distances to ``exp(-rate * square)``, in place."""
    ...
