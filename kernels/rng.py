"""Keyed random numbers: PCG32 (XSH-RR 64/32) as a pure function of (seed, ray id, bounce, slot, offset).

A key picks the stream (seed, ray id, slot) and jumps ``bounce + offset`` steps ahead in it, so nothing is ever advanced
and any ray can be traced again. Source of the generator: O'Neill, "PCG: A Family of Simple Fast Space-Efficient
Statistically Good Algorithms for Random Number Generation", 2014; of the mixing: Steele, Lea, Flood, "Fast Splittable
Pseudorandom Number Generators", 2014 (the SplitMix64 finaliser).
"""

import functools

import numpy as np
import warp as wp

from kernels.modules import kernel_module

_MASK = (1 << 64) - 1
_MULTIPLIER = 6364136223846793005
SLOT_STEP = 0xC2B2AE3D27D4EB4F

_MIX = """
    z = z + 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    z = z ^ (z >> 31);
"""
_PCG = (
    "    wp::uint64 z = (id * 0x9E3779B97F4A7C15ull) ^ slot_key;\n"
    + _MIX
    + """
    wp::uint64 inc = (z << 1) | 1ull;
    wp::uint64 s = (inc + init) * 6364136223846793005ull + inc;
    s = s * jump_a + inc * jump_c;
    wp::uint32 x = (wp::uint32)(((s >> 18) ^ s) >> 27);
    wp::uint32 r = (wp::uint32)(s >> 59);
    return (x >> r) | (x << ((0u - r) & 31u));
"""
)


@wp.func_native(_PCG, adj_snippet="")
def pcg32(id: wp.uint64, init: wp.uint64, slot_key: wp.uint64, jump_a: wp.uint64, jump_c: wp.uint64) -> wp.uint32: ...


@wp.func_native(
    "return ((wp::uint64)(wp::uint32)high << 32) | (wp::uint64)(wp::uint32)low;",
    adj_snippet="",
)
def join_key(low: wp.int32, high: wp.int32) -> wp.uint64:
    """A 64-bit key from its halves."""
    ...


@wp.func_native("return (wp::int32)(wp::uint32)(key >> (high ? 32 : 0));", adj_snippet="")
def half_of_key(key: wp.uint64, high: wp.bool) -> wp.int32: ...


_CHILD = "    wp::uint64 z = id * 0xD1342543DE82EF95ull + turn * 0xA0761D6478BD642Full;\n" + _MIX + "    return z;\n"


@wp.func_native(_CHILD, adj_snippet="")
def child_key(id: wp.uint64, turn: wp.uint64) -> wp.uint64:
    """The key of the ray that is split off a ray at a bounce: a function of both, of nothing else."""
    ...


def mix(z):
    """SplitMix64's finaliser of ``z`` plus the golden ratio, modulo 2**64."""
    z = (z + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


@functools.lru_cache(maxsize=4096)
def jump(steps):
    """``(a, c)`` such that ``steps`` LCG steps take state s to ``a s + c inc``, modulo 2**64 (Brown 1994)."""
    a, c, step_a, step_c = 1, 0, _MULTIPLIER, 1
    while steps:
        if steps & 1:
            a, c = (a * step_a) & _MASK, (c * step_a + step_c) & _MASK
        step_a, step_c = (step_a * step_a) & _MASK, (step_c * (step_a + 1)) & _MASK
        steps >>= 1
    return a, c


def slot_key(slot):
    """The part of the key that belongs to an event slot."""
    return (int(slot) * SLOT_STEP) & _MASK


@functools.cache
def uniform_of(precision):
    """A Warp function that turns 32 random bits into a number in [0, 1); float32 keeps the upper 24."""
    if precision == "float64":

        @wp.func_native("return (double)bits * 2.3283064365386963e-10;", adj_snippet="")
        def uniform(bits: wp.uint32) -> wp.float64: ...

    else:

        @wp.func_native("return (float)(bits >> 8) * 5.9604644775390625e-08f;", adj_snippet="")
        def uniform(bits: wp.uint32) -> wp.float32: ...

    return uniform


@functools.cache
def draw_kernel():
    @wp.kernel(module=kernel_module("kernels.rng"), enable_backward=False)
    def draw(
        ids: wp.array(dtype=wp.uint64),
        jumps_a: wp.array(dtype=wp.uint64),
        jumps_c: wp.array(dtype=wp.uint64),
        init: wp.uint64,
        key: wp.uint64,
        out: wp.array(dtype=wp.uint32),
    ):
        i = wp.tid()
        out[i] = pcg32(ids[i], init, key, jumps_a[i], jumps_c[i])

    return draw


def draw(seed, ray_ids, steps, slot):
    """Random bits for arrays of ray ids and steps (bounce + offset) of one shape: a uint32 array of that shape."""
    ids, steps = np.broadcast_arrays(np.asarray(ray_ids), np.asarray(steps))
    out = np.zeros(ids.size, dtype=np.uint32)
    if not ids.size:
        return out.reshape(ids.shape)
    distinct, where = np.unique(steps.ravel(), return_inverse=True)
    constants = np.array([jump(int(s)) for s in distinct], dtype=np.uint64)[where.ravel()]
    inputs = [
        wp.array(np.ascontiguousarray(column), dtype=wp.uint64, device="cpu")
        for column in (ids.ravel().astype(np.uint64), constants[:, 0], constants[:, 1])
    ]
    drawn = wp.array(out, dtype=wp.uint32, device="cpu", copy=False)
    wp.launch(
        draw_kernel(),
        ids.size,
        inputs=[*inputs, wp.uint64(mix(int(seed) & _MASK)), wp.uint64(slot_key(slot)), drawn],
        device="cpu",
        record_tape=False,
    )
    return out.reshape(ids.shape)


__all__ = ["draw", "jump", "mix", "pcg32", "slot_key", "uniform_of"]
