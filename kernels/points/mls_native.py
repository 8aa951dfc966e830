"""What moving least squares does to all neighbours of one query, in vectors of four or eight; see ``mls``."""

import warp as wp

from kernels.points.native import twin

DOUBLES = wp.array(dtype=wp.float64)

# exp by a power of two and a Taylor polynomial on [-ln2/2, ln2/2], to an ulp or two; library calls do not vectorise
WEIGHTS = twin(
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
NORMAL = twin(
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
SHARES = twin(
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


# The gradient to the query from the products E_j of ``mls``, with P = A^-1 sum_j E_j c_j^T: out[0:4] the gradient with
# the bandwidth held, out[4] that to half the bandwidth, out[5] the trace of P over the slopes.
PULL = twin(
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


@wp.func_native(WEIGHTS)
def to_weights(w: DOUBLES, count: int, rate: wp.float64):
    """Squared distances to ``exp(-rate * square)``, in place; room for a multiple of eight."""
    ...
