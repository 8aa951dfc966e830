"""An eight-wide tree over items in Morton order: points for k-NN, primitives for rays.

A binary tree first: a range of sorted items is split where the highest differing bit of its codes changes (in the
middle where all codes are equal), until at most ``leaf_size`` items are left. The two children are neighbours in
memory. Boxes are then joined bottom-up, and every wide node takes eight descendants by opening the most populous one
again and again.

All samples of a batch share one set of arrays, a forest; ``roots`` says where each begins, -1 for an empty one. On a
CPU one sequential program splits and another collapses. On CUDA the same functions run level by level; the numbering of
nodes then depends on the scheduling, the answers of a query do not.
"""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points import morton
from kernels.points.launch import VECTORS, launch, launch_serial, once
from kernels.points.leaves import pack_leaves
from kernels.points.native import FLOATS, INTS

LEAF_SIZE = 40
_BIG = wp.constant(wp.float32(3.4028234e38))
_INFINITE = wp.constant(wp.float32(float("inf")))
_NO_INDEX = wp.constant(wp.int32(0x7FFFFFFF))
KEYS = wp.array(dtype=wp.int64)
SLOTS = wp.types.vector(length=8, dtype=wp.int32)


@dataclass(frozen=True)
class Nodes:
    """The wide tree. A slot ``8 * node + j`` is child j of a node.

    children   (8 W,) a node, or -1 - the first block of a leaf
    ends       (8 W,) one past the last block of a leaf; an unused slot is a leaf without blocks
    cells      blocks of eight items, see ``leaves``
    lowest     (8 W,) lowest item index below the slot
    boxes      (16 D W,) per node and axis: eight lower and eight upper bounds
    roots      (B,)
    aabbs      (W, 2 D) lower and upper corner of every node
    sample_of  (W,)
    """

    children: wp.array
    ends: wp.array
    cells: wp.array
    lowest: wp.array
    boxes: wp.array
    roots: wp.array
    aabbs: wp.array
    sample_of: wp.array


@dataclass(frozen=True)
class Forest:
    """Points in Morton order with their tree, for one sample or many.

    order      (N,) index, within its sample, of every sorted point
    items      (N,) sorted points
    offsets    (B + 1,) where the samples begin among the sorted points
    """

    dim: int
    count: int
    samples: int
    order: wp.array
    items: wp.array
    offsets: wp.array
    frame: morton.Frames
    nodes: Nodes

    @property
    def device(self):
        return self.order.device


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


@wp.func
def open_children(root: int, first_child: INTS, starts: INTS, ends: INTS) -> SLOTS:
    """Up to eight descendants of a binary node that cover it; -1 where there are fewer."""
    slots = SLOTS(-1)
    slots[0] = root
    filled = int(1)
    searching = int(1)
    while filled < 8 and searching == 1:
        widest = int(-1)
        most = int(0)
        for j in range(filled):
            node = slots[j]
            if first_child[node] >= 0:
                items = ends[node] - starts[node]
                if items > most:
                    most = items
                    widest = j
        if widest < 0:
            searching = int(0)
        else:
            child = first_child[slots[widest]]
            slots[widest] = child
            slots[filled] = child + 1
            filled = filled + 1
    return slots


@once
def _kernels(dim):
    vector = VECTORS[dim]
    vectors = wp.array(dtype=vector)
    module = kernel_module(f"kernels.points.tree_{dim}d")

    @wp.kernel(module=module)
    def gather_points(
        offset: int,
        points: vectors,
        rows: INTS,
        offsets: INTS,
        samples: int,
        order: INTS,
        items: vectors,
    ):
        i = offset + wp.tid()
        r = rows[i]
        items[i] = points[r]
        order[i] = r - offsets[morton.sample_at(offsets, samples, r)]

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
    def leaf_boxes(
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
            least = _NO_INDEX
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

    @wp.func
    def write_slot(
        node: int,
        j: int,
        source: int,
        child: int,
        starts: INTS,
        ends: INTS,
        lower: vectors,
        upper: vectors,
        lowest: INTS,
        wide_child: INTS,
        wide_end: INTS,
        wide_lowest: INTS,
        boxes: FLOATS,
    ):
        slot = node * 8 + j
        low = vector(_INFINITE)
        high = vector(-_INFINITE)
        first = int(0)
        last = int(0)
        least = _NO_INDEX
        if source >= 0:
            low = lower[source]
            high = upper[source]
            first = starts[source]
            last = ends[source]
            least = lowest[source]
        wide_child[slot] = wp.where(child >= 0, child, -1 - first)
        wide_end[slot] = last
        wide_lowest[slot] = least
        for c in range(wp.static(dim)):
            boxes[node * wp.static(16 * dim) + 16 * c + j] = low[c]
            boxes[node * wp.static(16 * dim) + 16 * c + 8 + j] = high[c]

    @wp.func
    def write_node(node: int, source: int, owner: INTS, lower: vectors, upper: vectors, aabbs: FLOATS, sample_of: INTS):
        low = lower[source]
        high = upper[source]
        for c in range(wp.static(dim)):
            aabbs[node * wp.static(2 * dim) + c] = low[c]
            aabbs[node * wp.static(2 * dim) + wp.static(dim) + c] = high[c]
        sample_of[node] = owner[source]

    @wp.kernel(module=module)
    def collapse_all(
        samples: int,
        first_child: INTS,
        starts: INTS,
        ends: INTS,
        owner: INTS,
        lower: vectors,
        upper: vectors,
        lowest: INTS,
        roots: INTS,
        source: INTS,
        wide_child: INTS,
        wide_end: INTS,
        wide_lowest: INTS,
        boxes: FLOATS,
        aabbs: FLOATS,
        sample_of: INTS,
        count: INTS,
    ):
        used = int(0)
        for s in range(samples):
            roots[s] = -1
            if ends[s] > starts[s]:
                roots[s] = used
                source[used] = s
                used = used + 1
        w = int(0)
        while w < used:
            write_node(w, source[w], owner, lower, upper, aabbs, sample_of)
            slots = open_children(source[w], first_child, starts, ends)
            for j in range(8):
                b = slots[j]
                child = int(-1)
                if b >= 0:  # noqa: SIM102 (Warp would read both sides of an `and`)
                    if first_child[b] >= 0:
                        child = used
                        source[used] = b
                        used = used + 1
                write_slot(
                    w, j, b, child, starts, ends, lower, upper, lowest,
                    wide_child, wide_end, wide_lowest, boxes,
                )  # fmt: skip
            w = w + 1
        count[0] = used

    @wp.kernel(module=module)
    def collapse_roots(offset: int, starts: INTS, ends: INTS, roots: INTS, source: INTS, count: INTS):
        s = offset + wp.tid()
        roots[s] = -1
        if ends[s] > starts[s]:
            w = wp.atomic_add(count, 0, 1)
            roots[s] = w
            source[w] = s

    @wp.kernel(module=module)
    def collapse_level(
        offset: int,
        start: int,
        first_child: INTS,
        starts: INTS,
        ends: INTS,
        owner: INTS,
        lower: vectors,
        upper: vectors,
        lowest: INTS,
        source: INTS,
        wide_child: INTS,
        wide_end: INTS,
        wide_lowest: INTS,
        boxes: FLOATS,
        aabbs: FLOATS,
        sample_of: INTS,
        count: INTS,
    ):
        w = start + offset + wp.tid()
        write_node(w, source[w], owner, lower, upper, aabbs, sample_of)
        slots = open_children(source[w], first_child, starts, ends)
        for j in range(8):
            b = slots[j]
            child = int(-1)
            if b >= 0:  # noqa: SIM102 (Warp would read both sides of an `and`)
                if first_child[b] >= 0:
                    child = wp.atomic_add(count, 0, 1)
                    source[child] = b
            write_slot(
                w, j, b, child, starts, ends, lower, upper, lowest,
                wide_child, wide_end, wide_lowest, boxes,
            )  # fmt: skip

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Kernel)})


@dataclass(frozen=True)
class _Binary:
    """The binary tree: ``count`` nodes in ``levels`` of consecutive ones (one level where a program split it whole)."""

    count: int
    levels: tuple
    first_child: wp.array
    starts: wp.array
    ends: wp.array
    owner: wp.array


def _split(kernels, keys, total, offsets, samples, leaf_size, device, by_level):
    # every split of a range of more than leaf_size items adds two nodes; a leaf may hold a single item
    capacity = 2 * total + samples + 2
    first_child, starts, ends, owner = (wp.empty(capacity, dtype=wp.int32, device=device) for _ in range(4))
    launch(kernels.seed_roots, samples, [offsets, starts, ends, owner], device)
    if not by_level:
        count = wp.empty(1, dtype=wp.int32, device=device)
        launch_serial(kernels.split_all, [keys, samples, leaf_size, first_child, starts, ends, owner, count], device)
        used = int(count.numpy()[0])
        return _Binary(used, ((0, used),), first_child, starts, ends, owner)
    count = wp.full(1, samples, dtype=wp.int32, device=device)
    levels, start, stop = [], 0, samples
    while start < stop:
        levels.append((start, stop))
        inputs = [start, keys, leaf_size, first_child, starts, ends, owner, count]
        wp.launch(kernels.split_level, stop - start, inputs=inputs, device=device, record_tape=False)
        start, stop = stop, int(count.numpy()[0])
    return _Binary(stop, tuple(levels), first_child, starts, ends, owner)


def _join(kernels, binary, item_lower, item_upper, item_index, vector, device, by_level):
    lower, upper = (wp.empty(binary.count, dtype=vector, device=device) for _ in range(2))
    lowest = wp.empty(binary.count, dtype=wp.int32, device=device)
    launch(
        kernels.leaf_boxes,
        binary.count,
        [binary.first_child, binary.starts, binary.ends, item_lower, item_upper, item_index, lower, upper, lowest],
        device,
    )
    if by_level:
        for start, stop in reversed(binary.levels):
            inputs = [0, start, binary.first_child, lower, upper, lowest]
            wp.launch(kernels.join_level, stop - start, inputs=inputs, device=device, record_tape=False)
    else:
        launch_serial(kernels.join_all, [binary.count, binary.first_child, lower, upper, lowest], device)
    return lower, upper, lowest


def build_nodes(
    keys,
    item_lower,
    item_upper,
    item_index,
    contents,
    corners,
    offsets,
    samples,
    dim,
    device,
    *,
    leaf_size=LEAF_SIZE,
    by_level=None,
):
    """The wide tree over sorted items with boxes ``item_lower`` to ``item_upper`` and indices ``item_index``.

    ``contents`` holds the ``corners`` vectors that each item is made of, for the leaves' blocks.

    ``by_level`` chooses how: None is a sequential program on a CPU and level by level elsewhere.
    """
    by_level = (not device.is_cpu) if by_level is None else by_level
    kernels = _kernels(dim)
    total = item_lower.shape[0]
    binary = _split(kernels, keys, total, offsets, samples, leaf_size, device, by_level)
    lower, upper, lowest = _join(kernels, binary, item_lower, item_upper, item_index, VECTORS[dim], device, by_level)
    # a wide node is the root of a sample or an inner binary node, and of those there are fewer than half
    capacity = (binary.count - samples) // 2 + samples + 1

    def ints(size):
        return wp.empty(size, dtype=wp.int32, device=device)

    source, sample_of, roots = ints(capacity), ints(capacity), ints(samples)
    child, end_of, lowest_of = (ints(8 * capacity) for _ in range(3))
    boxes = wp.empty(16 * dim * capacity, dtype=wp.float32, device=device)
    aabbs = wp.empty(2 * dim * capacity, dtype=wp.float32, device=device)
    count = wp.zeros(1, dtype=wp.int32, device=device)
    tree = [binary.first_child, binary.starts, binary.ends, binary.owner, lower, upper, lowest]
    wide = [source, child, end_of, lowest_of, boxes, aabbs, sample_of, count]
    if by_level:
        inputs = [0, binary.starts, binary.ends, roots, source, count]
        wp.launch(kernels.collapse_roots, samples, inputs=inputs, device=device, record_tape=False)
        start, stop = 0, int(count.numpy()[0])
        while start < stop:
            wp.launch(
                kernels.collapse_level,
                stop - start,
                inputs=[0, start, *tree, *wide],
                device=device,
                record_tape=False,
            )
            start, stop = stop, int(count.numpy()[0])
        used = stop
    else:
        launch_serial(kernels.collapse_all, [samples, *tree, roots, *wide], device)
        used = int(count.numpy()[0])
    child, end_of = child[: 8 * used], end_of[: 8 * used]
    return Nodes(
        cells=pack_leaves(child, end_of, contents, corners, item_index, dim, device),
        children=child,
        ends=end_of,
        lowest=lowest_of[: 8 * used],
        boxes=boxes[: 16 * dim * used],
        roots=roots,
        aabbs=aabbs[: 2 * dim * used],
        sample_of=sample_of[:used],
    )


def sort_into_arrays(points, offsets, samples, largest, dim, device):
    """Sort the points of every sample: ``(keys, forest without nodes)``."""
    total = points.shape[0]
    frame = morton.frames(points, offsets, samples, largest, dim, device)
    keys, rows = morton.sort_points(points, offsets, samples, frame, dim, device)
    kernels = _kernels(dim)
    order = wp.empty(total, dtype=wp.int32, device=device)
    items = wp.empty(total, dtype=VECTORS[dim], device=device)
    launch(kernels.gather_points, total, [points, rows, offsets, samples, order, items], device)
    return keys, Forest(dim, total, samples, order, items, offsets, frame, None)


def build_forest(points, offsets, samples, largest, dim, device, *, leaf_size=LEAF_SIZE, by_level=None):
    """Sort the points of every sample and build the tree over them.

    ``offsets`` (B + 1,) int32 says where the samples begin among ``points``, ``largest`` how many points the largest
    one has.
    """
    keys, forest = sort_into_arrays(points, offsets, samples, largest, dim, device)
    items = forest.items
    nodes = build_nodes(
        keys,
        items,
        items,
        forest.order,
        items,
        1,
        offsets,
        samples,
        dim,
        device,
        leaf_size=leaf_size,
        by_level=by_level,
    )
    return replace(forest, nodes=nodes)


def leaf_buckets(keys, items, order, offsets, samples, leaf_size, dim, device):
    """Leaves of the binary tree in sorted order: ``(start, stop, owner, lower, upper)`` as NumPy arrays."""
    kernels = _kernels(dim)
    binary = _split(kernels, keys, items.shape[0], offsets, samples, leaf_size, device, not device.is_cpu)
    lower, upper = (wp.empty(binary.count, dtype=VECTORS[dim], device=device) for _ in range(2))
    lowest = wp.empty(binary.count, dtype=wp.int32, device=device)
    tree = [binary.first_child, binary.starts, binary.ends]
    launch(kernels.leaf_boxes, binary.count, [*tree, items, items, order, lower, upper, lowest], device)
    starts, ends = binary.starts.numpy()[: binary.count], binary.ends.numpy()[: binary.count]
    leaves = (binary.first_child.numpy()[: binary.count] < 0).nonzero()[0]
    leaves = leaves[starts[leaves].argsort(kind="stable")]
    return starts[leaves], ends[leaves], binary.owner.numpy()[leaves], lower.numpy()[leaves], upper.numpy()[leaves]
