"""What k-NN does to one leaf, and the look ahead to other queries; see ``search`` and, for the layout, ``leaves``.

A candidate is a key, distance bits above index. Sizes with a list in registers take it without a branch: lanes from its
place on move up by one, and the largest falls out. The list in memory (size 0) has ``k`` keys and looks first.
"""

import warp as wp

from kernels.points.launch import VECTORS
from kernels.points.native import FLOATS, INTS, twin

MAX_K = 64

_HOLD_IN_REGISTERS = (
    """
    typedef wp::uint64 K __attribute__((vector_size(8 * SIZE)));
    K list, zero = {};
    __builtin_memcpy(&list, &best, sizeof(K));
#define WORST list[SIZE - 1]
#define TAKE(key) { \\
        K wide = zero + (key), low = list < wide ? list : wide, shifted = __builtin_shufflevector(list, zero, LANES); \\
        list = shifted > low ? shifted : low; \\
    }
""",
    """
#define WORST best.c[SIZE - 1]
#define TAKE(key) { \\
        for (wp::int32 t = SIZE - 1; t > 0; --t) { \\
            wp::uint64 low = (key) < best.c[t] ? (key) : best.c[t]; \\
            best.c[t] = best.c[t - 1] > low ? best.c[t - 1] : low; \\
        } \\
        best.c[0] = (key) < best.c[0] ? (key) : best.c[0]; \\
    }
""",
    "__builtin_memcpy(&best, &list, sizeof(K));",
)

_HOLD_IN_MEMORY = (
    """
#define WORST best.c[k - 1]
#define TAKE(key) if ((key) < WORST) { \\
        wp::int32 t = k - 1; \\
        for (; t > 0 && best.c[t - 1] > (key); --t) best.c[t] = best.c[t - 1]; \\
        best.c[t] = (key); \\
    }
""",
) * 2 + ("",)

# the keys of up to 64 points first, then the list: one loop whose end is hard to foresee, instead of one a block
_SCAN_CPU = """
    typedef wp::uint64 K8 __attribute__((vector_size(64)));
    for (; first < last; first += 8) {
        const wp::int32 blocks = last - first < 8 ? last - first : 8;
        wp::uint64 mask = 0, keys[64];
        for (wp::int32 b = 0; b < blocks; ++b) {
            const wp::float32 *cell = cells.data + (size_t)(first + b) * (8 * (DIM + 1));
            F8 acc = {0, 0, 0, 0, 0, 0, 0, 0};
            for (wp::int32 c = 0; c < DIM; ++c) {
                F8 u = LOAD8(cell + 8 * c) - x[c];
                acc += u * u;
            }
            mask |= (wp::uint64)MASK8(acc <= limit) << (8 * b);
            I8 index = LOAD8I(cell + 8 * DIM);
            K8 eight = __builtin_bit_cast(
                K8, __builtin_shufflevector(index, (I8)acc, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
            __builtin_memcpy(keys + 8 * b, &eight, sizeof(K8));
        }
        for (; mask != 0; mask &= mask - 1) TAKE(keys[__builtin_ctzll(mask)])
        const wp::float32 worst = __builtin_bit_cast(wp::float32, (wp::uint32)(WORST >> 32));
        limit = worst < limit ? worst : limit;
    }
"""

_SCAN_CUDA = """
    for (; first < last; ++first) {
        const wp::float32 *cell = cells.data + (size_t)first * (8 * (DIM + 1));
        for (wp::int32 j = 0; j < 8; ++j) {
            wp::float32 d = 0.0f;
            for (wp::int32 c = 0; c < DIM; ++c) { wp::float32 u = cell[8 * c + j] - x[c]; d += u * u; }
            if (!(d <= limit)) continue;
            const wp::uint64 key = ((wp::uint64)FLOAT_BITS(d) << 32) | FLOAT_BITS(cell[8 * DIM + j]);
            TAKE(key)
            const wp::float32 worst = __uint_as_float((wp::uint32)(WORST >> 32));
            limit = worst < limit ? worst : limit;
        }
    }
"""

# Queries come in the order of their cells, so their own rows and those of their results are all over memory. Beyond the
# last row lies what the sort left there, and a wrong address does no harm here.
_PREFETCH = """
#if !defined(__CUDA_ARCH__)
    const wp::int32 *row = rows.data + place;
    __builtin_prefetch(queries.data + row[16]);
    const char *a = (const char *)(out_indices.data + (wp::int64)row[4] * k);
    for (wp::int32 i = 0; i < k; i += 8) __builtin_prefetch(a + 8 * i, 1);
    __builtin_prefetch(out_distances.data + (wp::int64)row[4] * k, 1);
#endif
"""


def list_type(size):
    """The type of a list of keys; that in memory has room for the largest k."""
    return wp.types.vector(length=size or MAX_K, dtype=wp.uint64)


def scan_leaf(dim, size):
    """The best keys after blocks ``first`` to ``last``, whose points count if not farther than ``limit``."""
    vector, keys = VECTORS[dim], list_type(size)
    cpu, cuda, end = _HOLD_IN_REGISTERS if size else _HOLD_IN_MEMORY
    snippet = twin(cpu + _SCAN_CPU + end, cuda + _SCAN_CUDA, "    return best;\n#undef WORST\n#undef TAKE\n")
    lanes = ", ".join(["SIZE", *map(str, range(size - 1))])
    snippet = snippet.replace("LANES", lanes).replace("DIM", str(dim)).replace("SIZE", str(size))

    @wp.func_native(snippet)
    def scan(best: keys, cells: FLOATS, first: int, last: int, x: vector, limit: wp.float32, k: int) -> keys: ...

    return scan


def worst_key(size):
    """The last key of a list of ``size``, or of one of ``k`` in memory."""
    keys = list_type(size)

    @wp.func_native(f"return best.c[{size or 'k'} - 1];")
    def worst(best: keys, k: int) -> wp.uint64: ...

    return worst


def prefetch_rows(dim):
    """Bring the queries and results of rows a little further on into the cache."""
    vector = VECTORS[dim]

    @wp.func_native(_PREFETCH)
    def prefetch(
        rows: INTS,
        place: int,
        k: int,
        queries: wp.array(dtype=vector),
        out_indices: wp.array2d(dtype=wp.int64),
        out_distances: wp.array2d(dtype=wp.float32),
    ): ...

    return prefetch
