"""How eight boxes and eight primitives are tested against a ray in float32; see ``rays``."""

import warp as wp

from kernels.points.launch import VECTORS
from kernels.points.native import FLOATS, KEYS, twin

# Planes of an axis are picked by the direction's sign, so an unused slot, whose box is inside out, is never entered.
_SLABS = (
    """
        F8 enter = {0, 0, 0, 0, 0, 0, 0, 0}, leave = enter + limit;
        for (wp::int32 c = 0; c < DIM; ++c) {
            const wp::int32 flip = inverse[c] < 0.0f ? 8 : 0;
            F8 u = (LOAD8(b + 16 * c + flip) - o[c]) * inverse[c];
            F8 v = (LOAD8(b + 16 * c + 8 - flip) - o[c]) * inverse[c];
            enter = u > enter ? u : enter;
            leave = v < leave ? v : leave;
        }
        wp::int32 mask = MASK8(enter <= leave * 1.000001f);
        enter *= 0.999999f;
        __builtin_memcpy(near, &enter, 32);
""",
    """
        wp::int32 mask = 0;
        for (wp::int32 j = 0; j < 8; ++j) {
            wp::float32 enter = 0.0f, leave = limit;
            for (wp::int32 c = 0; c < DIM; ++c) {
                const wp::int32 flip = inverse[c] < 0.0f ? 8 : 0;
                wp::float32 u = (b[16 * c + flip + j] - o[c]) * inverse[c];
                wp::float32 v = (b[16 * c + 8 - flip + j] - o[c]) * inverse[c];
                enter = u > enter ? u : enter;
                leave = v < leave ? v : leave;
            }
            mask |= (enter <= leave * 1.000001f) << j;
            near[j] = enter * 0.999999f;
        }
""",
)

# The nearest child is gone to at once; of the others the nearest is pushed last, the rest as they come.
_NEXT_LEAF = """
    wp::uint64 *s = stack.data;
    wp::int32 depth = (wp::int32)s[0], link = 0;
    while (depth > 0 && link >= 0) {
        const wp::uint64 entry = s[depth--];
        if (!(BITS_FLOAT((wp::uint32)(entry >> 32)) <= limit)) continue;
        link = (wp::int32)(wp::uint32)entry;
        while (link >= 0) {
            const wp::float32 *b = nodes.data + (size_t)link * (16 * DIM + 16);
            const wp::int32 *links = (const wp::int32 *)(b + 16 * DIM);
            wp::float32 near[8];
            SLABS
            if (mask == 0) break;
            wp::int32 j = LOWEST_BIT(mask);
            mask &= mask - 1;
            if (mask == 0) { link = links[j]; continue; }
            wp::uint64 first = KEY(j);
            j = LOWEST_BIT(mask);
            wp::uint64 second = KEY(j), low = first < second ? first : second;
            second = first < second ? second : first;
            first = low;
            for (mask &= mask - 1; mask != 0; mask &= mask - 1) {
                const wp::uint64 key = KEY(LOWEST_BIT(mask));
                const wp::uint64 far = key > first ? key : first;
                first = key > first ? first : key;
                s[++depth] = far > second ? far : second;
                second = far > second ? second : far;
            }
            s[++depth] = second;
            link = (wp::int32)(wp::uint32)first;
        }
    }
    s[0] = depth;
    return link < 0 ? link : 0;
"""


def next_leaf(dim):
    """The next leaf within ``limit`` that a ray meets, nearest boxes first: its link, or 0 where there is none.

    ``stack`` holds the number of its entries and then the entries, see ``start``.
    """
    cpu, cuda = (_NEXT_LEAF.replace("SLABS", slabs).replace("DIM", str(dim)) for slabs in _SLABS)
    key = "#define KEY(j) (((wp::uint64)FLOAT_BITS(near[j]) << 32) | (wp::uint32)links[j])\n"
    snippet = twin(
        key + "#define BITS_FLOAT(u) __builtin_bit_cast(wp::float32, u)\n" + cpu,
        key + "#define BITS_FLOAT(u) __uint_as_float(u)\n" + cuda,
        "#undef KEY\n#undef BITS_FLOAT\n",
    )
    vector = VECTORS[dim]

    @wp.func_native(snippet)
    def find(nodes: FLOATS, o: vector, inverse: vector, limit: wp.float32, stack: KEYS) -> int: ...

    return find


@wp.func_native("stack.data[0] = 1; stack.data[1] = (wp::uint32)root;")
def start(stack: KEYS, root: int):
    """Begin at the node ``root``."""
    ...


@wp.func
def first_block(link: int) -> int:
    """Of a leaf."""
    return ~link >> 3


@wp.func
def stop_block(link: int) -> int:
    """One past the last block of a leaf."""
    return (~link >> 3) + (~link & 7)


# Slack: a small number times the sum of the magnitudes that enter a product, well above what a handful of operations
# can round off. One text serves eight lanes on a CPU and one at a time on CUDA.
TRIANGLES = """
    REAL sx = o[0] - AT(0), sy = o[1] - AT(1), sz = o[2] - AT(2);
    REAL bx = AT(3) - AT(0), by = AT(4) - AT(1), bz = AT(5) - AT(2);
    REAL cx = AT(6) - AT(0), cy = AT(7) - AT(1), cz = AT(8) - AT(2);
    REAL hx = d[1] * cz - d[2] * cy, hy = d[2] * cx - d[0] * cz, hz = d[0] * cy - d[1] * cx;
    REAL det = bx * hx + by * hy + bz * hz, size = SIZE(det), sign = det < 0.0f ? ZERO - 1.0f : ZERO + 1.0f;
    REAL qx = sy * bz - sz * by, qy = sz * bx - sx * bz, qz = sx * by - sy * bx;
    REAL u = (sx * hx + sy * hy + sz * hz) * sign;
    REAL v = (d[0] * qx + d[1] * qy + d[2] * qz) * sign;
    REAL t = (cx * qx + cy * qy + cz * qz) * sign;
    REAL away = SIZE(sx) + SIZE(sy) + SIZE(sz);
    REAL edge = SIZE(bx) + SIZE(by) + SIZE(bz) + SIZE(cx) + SIZE(cy) + SIZE(cz);
    REAL slack = 1.0e-6f * (size + (away + edge) * reach * edge), ahead = 1.0e-6f * away * edge * edge;
    TRUTH ok = (u >= -slack) & (v >= -slack) & (u + v <= size + 3.0f * slack) & (t >= -ahead)
        & (t <= limit * (size + slack) + ahead);
"""

_SEGMENTS = """
    REAL sx = AT(0) - o[0], sy = AT(1) - o[1], ex = AT(2) - AT(0), ey = AT(3) - AT(1);
    REAL den = d[0] * ey - d[1] * ex, size = SIZE(den), sign = den < 0.0f ? ZERO - 1.0f : ZERO + 1.0f;
    REAL u = (sx * d[1] - sy * d[0]) * sign, t = (sx * ey - sy * ex) * sign;
    REAL away = SIZE(sx) + SIZE(sy), edge = SIZE(ex) + SIZE(ey);
    REAL slack = 1.0e-6f * (size + (away + edge) * reach), ahead = 1.0e-6f * away * edge;
    TRUTH ok = (u >= -slack) & (u <= size + 2.0f * slack) & (t >= -ahead) & (t <= limit * (size + slack) + ahead);
"""


def _candidates(test, dim):
    """Mask of a block's primitives that a ray may hit within ``limit``."""
    reach = " + ".join(f"(d[{c}] < 0.0f ? -d[{c}] : d[{c}])" for c in range(dim))
    head = f"""
    const wp::float32 *p = cells.data + (size_t)block * {8 * (dim * dim + 1)};
    const wp::float32 reach = {reach};
"""
    cpu = """
#define REAL F8
#define TRUTH I8
#define ZERO ((F8){0, 0, 0, 0, 0, 0, 0, 0})
#define AT(row) LOAD8(p + 8 * (row))
#define SIZE(x) ((x) < 0.0f ? -(x) : (x))
"""
    cuda = """
#define REAL wp::float32
#define TRUTH wp::int32
#define ZERO 0.0f
#define AT(row) p[8 * (row) + j]
#define SIZE(x) ((x) < 0.0f ? -(x) : (x))
    wp::int32 mask = 0;
    for (wp::int32 j = 0; j < 8; ++j) {
"""
    return twin(
        head + cpu + test + "    return MASK8(ok);\n",
        head + cuda + test + "        mask |= ok << j;\n    }\n    return mask;\n",
        "\n#undef REAL\n#undef TRUTH\n#undef ZERO\n#undef AT\n#undef SIZE\n",
    )


CANDIDATES = {2: _candidates(_SEGMENTS, 2), 3: _candidates(TRIANGLES, 3)}
