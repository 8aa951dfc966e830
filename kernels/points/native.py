"""Small native pieces, eight lanes wide.

On a CPU they are written with the compiler's vector types: left to itself it unrolls loops of eight and packs the
pieces badly. The twin for CUDA says the same as plain loops. Both round every operation alike, without fused
multiply-adds. Indexing a Warp array goes through a negative-index rule that costs a branch an access; what is here
does without.
"""

import warp as wp

from kernels.points.launch import VECTORS

FLOATS = wp.array(dtype=wp.float32)
INTS = wp.array(dtype=wp.int32)
KEYS = wp.array(dtype=wp.uint64)

INFINITY = wp.constant(wp.float32(float("inf")))
NO_NEIGHBOUR = wp.constant(wp.uint64(0x7F800000FFFFFFFF))  # distance inf, index -1
STACK = wp.constant(192)

_CPU_TYPES = """
    typedef wp::float32 F8 __attribute__((vector_size(32)));
    typedef wp::float32 F8U __attribute__((vector_size(32), aligned(4)));
    typedef wp::int32 I8 __attribute__((vector_size(32)));
    typedef wp::int32 I8U __attribute__((vector_size(32), aligned(4)));
    typedef bool B8 __attribute__((ext_vector_type(8)));
#define LOAD8(p) ((F8)*(const F8U *)(p))
#define LOAD8I(p) ((I8)*(const I8U *)(p))
#define MASK8(m) ((wp::int32)__builtin_bit_cast(unsigned char, __builtin_convertvector(m, B8)))
"""

_PUSH = """
    wp::uint64 *s = stack.data;
    wp::int32 top = depth;
    while (mask != 0) {
        const wp::int32 j = LOWEST_BIT(mask);
        mask &= mask - 1;
        const wp::uint64 key = ((wp::uint64)FLOAT_BITS(near[j]) << 32) | (wp::uint32)(8 * node + j);
        wp::int32 t = top++;
        for (; t > depth && s[t - 1] < key; --t) s[t] = s[t - 1];
        s[t] = key;
    }
    return top;
"""


def twin(cpu, cuda, after=""):
    """A snippet of two bodies, and a common end that may use LOWEST_BIT and FLOAT_BITS."""
    return (
        "#if defined(__CUDA_ARCH__)\n#define LOWEST_BIT(m) (__ffs(m) - 1)\n#define FLOAT_BITS(f) __float_as_uint(f)\n"
        + cuda
        + "\n#else\n#define LOWEST_BIT(m) __builtin_ctz(m)\n#define FLOAT_BITS(f) __builtin_bit_cast(wp::uint32, f)\n"
        + _CPU_TYPES
        + cpu
        + "\n#endif\n"
        + after
        + "\n#undef LOWEST_BIT\n#undef FLOAT_BITS\n#undef LOAD8\n#undef LOAD8I\n#undef MASK8\n"
    )


def push_twin(cpu, cuda):
    """A snippet whose bodies leave distances in ``near[8]`` and name slots in ``mask``: pushed, the nearest last."""
    return twin(cpu, cuda, _PUSH)


@wp.func_native("return a.data[i];")
def load_int(a: wp.array(dtype=wp.int32), i: int) -> int: ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    return __ffs(mask) - 1;
#else
    return __builtin_ctz(mask);
#endif
""")
def lowest_bit(mask: int) -> int: ...


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


_PUSH_BOXES = push_twin(
    """
    const wp::float32 *b = boxes.data + (size_t)node * (16 * DIM);
    F8 acc = {0, 0, 0, 0, 0, 0, 0, 0};
    for (wp::int32 c = 0; c < DIM; ++c) {
        F8 u = LOAD8(b + 16 * c) - x[c], v = x[c] - LOAD8(b + 16 * c + 8);
        u = u > v ? u : v;
        u = u > 0.0f ? u : (F8){0, 0, 0, 0, 0, 0, 0, 0};
        acc += u * u;
    }
    wp::int32 mask = MASK8(acc <= limit);
    wp::float32 near[8];
    *(F8U *)near = acc;
""",
    """
    const wp::float32 *b = boxes.data + (size_t)node * (16 * DIM);
    wp::float32 near[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    wp::int32 mask = 0;
    for (wp::int32 j = 0; j < 8; ++j) {
        for (wp::int32 c = 0; c < DIM; ++c) {
            wp::float32 u = b[16 * c + j] - x[c], v = x[c] - b[16 * c + 8 + j];
            u = u > v ? u : v;
            u = u > 0.0f ? u : 0.0f;
            near[j] += u * u;
        }
        mask |= (near[j] <= limit) << j;
    }
""",
)


def push_near_boxes(dim):
    """Push the children of a node whose boxes are not farther than ``limit``; the new depth of the stack.

    Boxes and points go through the same sequence of rounded operations, each of them monotone, so a box is never
    farther than a point in it, not even by rounding: pruning with these numbers loses no neighbour.
    """
    vector = VECTORS[dim]
    snippet = _PUSH_BOXES.replace("DIM", str(dim))

    @wp.func_native(snippet)
    def push(boxes: FLOATS, node: int, x: vector, limit: wp.float32, stack: KEYS, depth: int) -> int: ...

    return push
