"""Small native pieces that the compiler turns into eight-wide code.

Indexing a Warp array goes through a negative-index rule that costs a branch an access; the accessors here do without.
Every snippet is plain C++ that both the CPU compiler and NVRTC take, with a twin where a built-in differs.
"""

import warp as wp

V8 = wp.types.vector(length=8, dtype=wp.float32)
FLOATS = wp.array(dtype=wp.float32)
INTS = wp.array(dtype=wp.int32)

INFINITY = wp.constant(wp.float32(float("inf")))
NO_NEIGHBOUR = wp.constant(wp.uint64(0x7F800000FFFFFFFF))  # distance inf, index -1
STACK = wp.constant(192)
LEAF = -1


@wp.func_native("return a.data[i];")
def load_int(a: wp.array(dtype=wp.int32), i: int) -> int: ...


@wp.func_native("return a.data[i];")
def load_float(a: wp.array(dtype=wp.float32), i: int) -> wp.float32: ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return __ffs(mask) - 1;
#else
    return __builtin_ctz(mask);
#endif
""")
def lowest_bit(mask: int) -> int: ...


@wp.func_native("return a.c[i];")
def lane8(a: V8, i: int) -> wp.float32: ...


@wp.func_native("""
    wp::int32 mask = 0;
    for (wp::int32 j = 0; j < 8; ++j) mask |= (d[j] <= limit) << j;
    return mask;
""")
def not_above(d: V8, limit: wp.float32) -> int: ...


KEYS = wp.array(dtype=wp.uint64)


@wp.func_native("""
#if defined(__CUDA_ARCH__)
#define LOWEST_BIT(m) (__ffs(m) - 1)
#define FLOAT_BITS(f) __float_as_uint(f)
#else
#define LOWEST_BIT(m) __builtin_ctz(m)
#define FLOAT_BITS(f) __builtin_bit_cast(wp::uint32, f)
#endif
    wp::uint64 *s = stack.data;
    wp::int32 top = depth;
    while (mask != 0) {
        const wp::int32 j = LOWEST_BIT(mask);
        mask &= mask - 1;
        const wp::uint64 key = ((wp::uint64)FLOAT_BITS(d.c[j]) << 32) | (wp::uint32)(8 * node + j);
        wp::int32 t = top++;
        for (; t > depth && s[t - 1] < key; --t) s[t] = s[t - 1];
        s[t] = key;
    }
    return top;
#undef LOWEST_BIT
#undef FLOAT_BITS
""")
def push_children(stack: KEYS, depth: int, d: V8, mask: int, node: int) -> int:
    """Push the slots of a node that ``mask`` names, the nearest last; the new depth of the stack."""
    ...


@wp.func_native("return stack.data[i];")
def load_key(stack: KEYS, i: int) -> wp.uint64: ...


@wp.func
def pack(distance: wp.float32, index: int) -> wp.uint64:
    """Distance in the high bits, index in the low: comparing keys compares distances and then indices."""
    return (wp.uint64(wp.cast(distance, wp.uint32)) << wp.uint64(32)) | wp.uint64(wp.uint32(index))


@wp.func
def key_distance(key: wp.uint64) -> wp.float32:
    return wp.cast(wp.uint32(key >> wp.uint64(32)), wp.float32)


@wp.func
def key_index(key: wp.uint64) -> int:
    return wp.int32(wp.uint32(key & wp.uint64(0xFFFFFFFF)))


_BOX8 = """
    wp::vec_t<8, wp::float32> r;
    const wp::float32 *b = boxes.data + (size_t)node * (16 * DIM);
    wp::float32 acc[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (wp::int32 c = 0; c < DIM; ++c)
        for (wp::int32 j = 0; j < 8; ++j) {
            wp::float32 u = b[16 * c + j] - x[c], v = x[c] - b[16 * c + 8 + j];
            u = u > v ? u : v;
            u = u > 0.0f ? u : 0.0f;
            acc[j] += u * u;
        }
    for (wp::int32 j = 0; j < 8; ++j) r[j] = acc[j];
    return r;
"""

_POINTS8 = """
    wp::vec_t<8, wp::float32> r;
    wp::float32 acc[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (wp::int32 c = 0; c < DIM; ++c) {
        const wp::float32 *a = coords.data + (size_t)c * stride + start;
        for (wp::int32 j = 0; j < 8; ++j) { wp::float32 u = a[j] - x[c]; acc[j] += u * u; }
    }
    for (wp::int32 j = 0; j < 8; ++j) r[j] = acc[j];
    return r;
"""


def box_distances(dim):
    """Squared distances from a point to the eight boxes of a node.

    Boxes and points go through the same sequence of rounded operations, each of them monotone, so a box is never
    farther than a point in it, not even by rounding: pruning with these numbers loses no neighbour.
    """
    vector = {2: wp.vec2, 3: wp.vec3}[dim]
    snippet = _BOX8.replace("DIM", str(dim))

    @wp.func_native(snippet)
    def box8(boxes: FLOATS, node: int, x: vector) -> V8: ...

    return box8


def point_distances(dim):
    """Squared distances from a point to eight consecutive points of a structure of arrays."""
    vector = {2: wp.vec2, 3: wp.vec3}[dim]
    snippet = _POINTS8.replace("DIM", str(dim))

    @wp.func_native(snippet)
    def points8(coords: FLOATS, start: int, stride: int, x: vector) -> V8: ...

    return points8
