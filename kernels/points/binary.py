"""The binary tree under the wide one.

A range of sorted items is split where the highest differing bit of its codes changes (in the middle where all codes are
equal), until at most ``leaf_size`` items are left. The two children are neighbours in memory. Boxes are joined
bottom-up. On a CPU each is one sequential program; on CUDA the same functions run level by level.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points.launch import VECTORS, launch, launch_serial, once
from kernels.points.native import FLOATS, INTS
from kernels.points.openings import weigher

_BIG = wp.constant(wp.float32(3.4028234e38))
NO_INDEX = wp.constant(wp.int32(0x7FFFFFFF))
KEYS = wp.array(dtype=wp.int64)


@wp.func
def split_at(keys: KEYS, start: int, stop: int) -> int:
    """First item of the upper half of a range of at least two."""
    difference = wp.uint64(keys[start]) ^ wp.uint64(keys[stop - 1])
    result = (start + stop) // 2
    if difference != wp.uint64(0):
        mask = difference
        mask = mask | (mask >> wp.uint64(1))
        mask = mask | (mask >> wp.uint64(2))
        mask = mask | (mask >> wp.uint64(4))
        mask = mask | (mask >> wp.uint64(8))
        mask = mask | (mask >> wp.uint64(16))
        mask = mask | (mask >> wp.uint64(32))
        bit = mask ^ (mask >> wp.uint64(1))
        low = int(start)
        high = int(stop - 1)
        while high - low > 1:
            middle = (low + high) // 2
            if (wp.uint64(keys[middle]) & bit) != wp.uint64(0):
                high = middle
            else:
                low = middle
        result = high
    return result


@once
def _kernels(dim):
    vector = VECTORS[dim]
    vectors = wp.array(dtype=vector)
    module = kernel_module(f"kernels.points.binary_{dim}d")

    @wp.kernel(module=module)
    def seed_roots(offset: int, offsets: INTS, starts: INTS, ends: INTS, owner: INTS):
        s = offset + wp.tid()
        starts[s] = offsets[s]
        ends[s] = offsets[s + 1]
        owner[s] = s

    @wp.kernel(module=module)
    def split_all(
        keys: KEYS, samples: int, leaf: int, first_child: INTS, starts: INTS, ends: INTS, owner: INTS, count: INTS
    ):
        used = int(samples)
        i = int(0)
        while i < used:
            a = starts[i]
            b = ends[i]
            first_child[i] = -1
            if b - a > leaf:
                m = split_at(keys, a, b)
                first_child[i] = used
                starts[used] = a
                ends[used] = m
                starts[used + 1] = m
                ends[used + 1] = b
                owner[used] = owner[i]
                owner[used + 1] = owner[i]
                used = used + 2
            i = i + 1
        count[0] = used

    @wp.kernel(module=module)
    def split_level(
        offset: int,
        keys: KEYS,
        leaf: int,
        first_child: INTS,
        starts: INTS,
        ends: INTS,
        owner: INTS,
        count: INTS,
    ):
        i = offset + wp.tid()
        a = starts[i]
        b = ends[i]
        first_child[i] = -1
        if b - a > leaf:
            m = split_at(keys, a, b)
            child = wp.atomic_add(count, 0, 2)
            first_child[i] = child
            starts[child] = a
            ends[child] = m
            starts[child + 1] = m
            ends[child + 1] = b
            owner[child] = owner[i]
            owner[child + 1] = owner[i]

    @wp.kernel(module=module)
    def box_leaves(
        offset: int,
        first_child: INTS,
        starts: INTS,
        ends: INTS,
        item_lower: vectors,
        item_upper: vectors,
        item_index: INTS,
        lower: vectors,
        upper: vectors,
        lowest: INTS,
    ):
        i = offset + wp.tid()
        if first_child[i] < 0:
            low = vector(_BIG)
            high = vector(-_BIG)
            least = NO_INDEX
            for s in range(starts[i], ends[i]):
                low = wp.min(low, item_lower[s])
                high = wp.max(high, item_upper[s])
                least = wp.min(least, item_index[s])
            lower[i] = low
            upper[i] = high
            lowest[i] = least

    @wp.func
    def join(node: int, first_child: INTS, lower: vectors, upper: vectors, lowest: INTS):
        c = first_child[node]
        if c >= 0:
            lower[node] = wp.min(lower[c], lower[c + 1])
            upper[node] = wp.max(upper[c], upper[c + 1])
            lowest[node] = wp.min(lowest[c], lowest[c + 1])

    @wp.kernel(module=module)
    def join_all(count: int, first_child: INTS, lower: vectors, upper: vectors, lowest: INTS):
        for j in range(count):
            join(count - 1 - j, first_child, lower, upper, lowest)

    @wp.kernel(module=module)
    def join_level(offset: int, start: int, first_child: INTS, lower: vectors, upper: vectors, lowest: INTS):
        join(start + offset + wp.tid(), first_child, lower, upper, lowest)

    weigh = weigher(dim)

    @wp.kernel(module=module)
    def weigh_all(
        count: int,
        largest_leaf: int,
        first_child: INTS,
        starts: INTS,
        ends: INTS,
        lower: vectors,
        upper: vectors,
        costs: FLOATS,
        choices: INTS,
    ):
        for j in range(count):
            weigh(count - 1 - j, largest_leaf, first_child, starts, ends, lower, upper, costs, choices)

    @wp.kernel(module=module)
    def weigh_level(
        offset: int,
        start: int,
        largest_leaf: int,
        first_child: INTS,
        starts: INTS,
        ends: INTS,
        lower: vectors,
        upper: vectors,
        costs: FLOATS,
        choices: INTS,
    ):
        weigh(start + offset + wp.tid(), largest_leaf, first_child, starts, ends, lower, upper, costs, choices)

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Kernel)})


@dataclass(frozen=True)
class Binary:
    """The binary tree: ``count`` nodes in ``levels`` of consecutive ones (one level where a program split it whole)."""

    count: int
    levels: tuple
    first_child: wp.array
    starts: wp.array
    ends: wp.array
    owner: wp.array


def split(keys, offsets, samples, leaf_size, total, dim, device, *, by_level):
    """Split the sorted items of every sample down to ``leaf_size``; node s is the root of sample s."""
    kernels = _kernels(dim)
    # every split of a range of more than leaf_size items adds two nodes; a leaf may hold a single item
    capacity = 2 * total + samples + 2
    first_child, starts, ends, owner = (wp.empty(capacity, dtype=wp.int32, device=device) for _ in range(4))
    launch(kernels.seed_roots, samples, [offsets, starts, ends, owner], device)
    if not by_level:
        count = wp.empty(1, dtype=wp.int32, device=device)
        launch_serial(kernels.split_all, [keys, samples, leaf_size, first_child, starts, ends, owner, count], device)
        used = int(count.numpy()[0])
        return Binary(used, ((0, used),), first_child, starts, ends, owner)
    count = wp.full(1, samples, dtype=wp.int32, device=device)
    levels, start, stop = [], 0, samples
    while start < stop:
        levels.append((start, stop))
        inputs = [start, keys, leaf_size, first_child, starts, ends, owner, count]
        wp.launch(kernels.split_level, stop - start, inputs=inputs, device=device, record_tape=False)
        start, stop = stop, int(count.numpy()[0])
    return Binary(stop, tuple(levels), first_child, starts, ends, owner)


def join(binary, item_lower, item_upper, item_index, dim, device, *, by_level):
    """Boxes of all nodes, and the lowest item index below each: ``(lower, upper, lowest)``."""
    kernels = _kernels(dim)
    lower, upper = (wp.empty(binary.count, dtype=VECTORS[dim], device=device) for _ in range(2))
    lowest = wp.empty(binary.count, dtype=wp.int32, device=device)
    tree = [binary.first_child, binary.starts, binary.ends]
    items = [item_lower, item_upper, item_index]
    launch(kernels.box_leaves, binary.count, [*tree, *items, lower, upper, lowest], device, grain=1024)
    if by_level:
        for start, stop in reversed(binary.levels):
            inputs = [0, start, binary.first_child, lower, upper, lowest]
            wp.launch(kernels.join_level, stop - start, inputs=inputs, device=device, record_tape=False)
    else:
        launch_serial(kernels.join_all, [binary.count, binary.first_child, lower, upper, lowest], device)
    return lower, upper, lowest


def weigh(binary, lower, upper, largest_leaf, dim, device, *, by_level):
    """Choices (N,) that cut the tree into wide nodes and leaves of up to ``largest_leaf`` items; see ``openings``."""
    kernels = _kernels(dim)
    costs = wp.empty(8 * binary.count, dtype=wp.float32, device=device)
    choices = wp.empty(binary.count, dtype=wp.int32, device=device)
    inputs = [largest_leaf, binary.first_child, binary.starts, binary.ends, lower, upper, costs, choices]
    if by_level:
        for start, stop in reversed(binary.levels):
            wp.launch(kernels.weigh_level, stop - start, inputs=[0, start, *inputs], device=device, record_tape=False)
    else:
        launch_serial(kernels.weigh_all, [binary.count, *inputs], device)
    return choices
