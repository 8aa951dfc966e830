"""Owen-scrambled Sobol points for the draws of a ray's birth, as pure functions of (seed, ray id, slot).

Directions numbers of the first five dimensions: Joe and Kuo, "Constructing Sobol sequences with better two-dimensional
projections", 2008. The scrambling is that of Laine and Karras, "Stratified sampling for stochastic transparency", 2011,
with the constants of Burley, "Practical hash-based Owen scrambling", 2020: a hash in which every bit depends on the
higher bits alone, which is a nested uniform (Owen) scramble.
"""

import functools

import numpy as np
import warp as wp

from kernels.rng import pcg32, slot_key

# (degree, coefficients, initial direction numbers) of the primitive polynomials of dimensions 2 to 5
_POLYNOMIALS = ((1, 0, (1,)), (2, 1, (1, 3)), (3, 1, (1, 3, 1)), (3, 2, (1, 1, 1)))
DIMENSIONS = 1 + len(_POLYNOMIALS)


def direction_numbers():
    """(dimensions, 32) uint32."""
    table = np.zeros((DIMENSIONS, 32), dtype=np.uint64)
    table[0] = [1 << (31 - k) for k in range(32)]
    for d, (degree, coefficients, first) in enumerate(_POLYNOMIALS, start=1):
        v = [m << (31 - k) for k, m in enumerate(first)]
        for k in range(degree, 32):
            value = v[k - degree] ^ (v[k - degree] >> degree)
            for j in range(1, degree):
                if (coefficients >> (degree - 1 - j)) & 1:
                    value ^= v[k - j]
            v.append(value)
        table[d] = v
    return table.astype(np.uint32)


def _snippet(dimension):
    rows = ", ".join(f"{v}u" for v in direction_numbers()[dimension])
    return f"""
    const wp::uint32 v[32] = {{ {rows} }};
    wp::uint32 i = (wp::uint32)index;
    wp::uint32 x = 0u;
    for (int k = 0; k < 32; ++k) x ^= (i >> k) & 1u ? v[k] : 0u;
    // scramble from the highest bit down: reversed, so that carries run towards the lower bits
    x = (x >> 16) | (x << 16);
    x = ((x & 0xff00ff00u) >> 8) | ((x & 0x00ff00ffu) << 8);
    x = ((x & 0xf0f0f0f0u) >> 4) | ((x & 0x0f0f0f0fu) << 4);
    x = ((x & 0xccccccccu) >> 2) | ((x & 0x33333333u) << 2);
    x = ((x & 0xaaaaaaaau) >> 1) | ((x & 0x55555555u) << 1);
    x ^= x * 0x3d20adeau;
    x += scramble;
    x *= (scramble >> 16) | 1u;
    x ^= x * 0x05526c56u;
    x ^= x * 0x53a22864u;
    x = (x >> 16) | (x << 16);
    x = ((x & 0xff00ff00u) >> 8) | ((x & 0x00ff00ffu) << 8);
    x = ((x & 0xf0f0f0f0u) >> 4) | ((x & 0x0f0f0f0fu) << 4);
    x = ((x & 0xccccccccu) >> 2) | ((x & 0x33333333u) << 2);
    x = ((x & 0xaaaaaaaau) >> 1) | ((x & 0x55555555u) << 1);
    return x;
"""


@functools.cache
def bits_of(slot, sobol):
    """A Warp function (ray id, seed's key) -> 32 bits for a slot of a ray's birth.

    Plain draws come from the keyed generator. Sobol points take the slot for the dimension and the id for the index;
    the seed picks the scramble.
    """
    key = wp.uint64(slot_key(slot))
    if not sobol:

        @wp.func
        def bits(id: wp.uint64, init: wp.uint64):
            return pcg32(id, init, wp.static(key), wp.uint64(1), wp.uint64(0))

        return bits

    @wp.func_native(_snippet(slot), adj_snippet="")
    def point(index: wp.uint64, scramble: wp.uint32) -> wp.uint32: ...

    @wp.func
    def scrambled(id: wp.uint64, init: wp.uint64):
        # a scramble for each dimension and seed: the generator's draw for no ray in particular
        return point(id, pcg32(wp.uint64(0xFFFFFFFFFFFFFFFF), init, wp.static(key), wp.uint64(1), wp.uint64(0)))

    return scrambled
