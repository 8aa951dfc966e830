"""An eight-wide tree over items in Morton order: points for k-NN, primitives for rays.

A binary tree comes first (see ``binary``); then every wide node takes up to eight descendants as children (see
``openings``).

All samples of a batch share one set of arrays, a forest; ``roots`` says where each begins, -1 for an empty one. On a
CPU one sequential program splits and another collapses. On CUDA the same functions run level by level; the numbering of
nodes then depends on the scheduling, the answers of a query do not.
"""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points import binary, morton
from kernels.points.binary import NO_INDEX
from kernels.points.launch import VECTORS, launch, launch_serial, once
from kernels.points.leaves import pack_leaves
from kernels.points.native import FLOATS, INTS
from kernels.points.openings import open_cheapest, open_populous, waiting_more

LEAF_SIZE = 40
_INFINITE = wp.constant(wp.float32(float("inf")))


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

    @wp.func
    def open_children(root: int, waiting: int, first_child: INTS, starts: INTS, ends: INTS, choices: INTS):
        if choices.shape[0] > 0:
            slots = open_cheapest(root, first_child, choices, waiting)
        else:
            slots = open_populous(root, first_child, starts, ends)
        return slots

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
        least = NO_INDEX
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
        choices: INTS,
        roots: INTS,
        source: INTS,
        waiting: INTS,
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
                waiting[used] = 0
                used = used + 1
        w = int(0)
        while w < used:
            write_node(w, source[w], owner, lower, upper, aabbs, sample_of)
            slots = open_children(source[w], waiting[w], first_child, starts, ends, choices)
            left = waiting[w] + waiting_more(slots)
            for j in range(8):
                b = slots[j]
                child = int(-1)
                if b >= 0:
                    child = used
                    source[used] = b
                    waiting[used] = left
                    used = used + 1
                if b < -1:
                    b = -2 - b
                write_slot(
                    w, j, b, child, starts, ends, lower, upper, lowest,
                    wide_child, wide_end, wide_lowest, boxes,
                )  # fmt: skip
            w = w + 1
        count[0] = used

    @wp.kernel(module=module)
    def collapse_roots(offset: int, starts: INTS, ends: INTS, roots: INTS, source: INTS, waiting: INTS, count: INTS):
        s = offset + wp.tid()
        roots[s] = -1
        if ends[s] > starts[s]:
            w = wp.atomic_add(count, 0, 1)
            roots[s] = w
            source[w] = s
            waiting[w] = 0

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
        choices: INTS,
        source: INTS,
        waiting: INTS,
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
        slots = open_children(source[w], waiting[w], first_child, starts, ends, choices)
        left = waiting[w] + waiting_more(slots)
        for j in range(8):
            b = slots[j]
            child = int(-1)
            if b >= 0:
                child = wp.atomic_add(count, 0, 1)
                source[child] = b
                waiting[child] = left
            if b < -1:
                b = -2 - b
            write_slot(
                w, j, b, child, starts, ends, lower, upper, lowest,
                wide_child, wide_end, wide_lowest, boxes,
            )  # fmt: skip

    return SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, wp.Kernel)})


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
    for_rays=False,
    by_level=None,
):
    """The wide tree over sorted items with boxes ``item_lower`` to ``item_upper`` and indices ``item_index``.

    ``contents`` holds the ``corners`` vectors that each item is made of, for the leaves' blocks.

    ``for_rays`` cuts it for the least expected cost of a ray instead of evenly, with leaves of at most ``leaf_size``.

    ``by_level`` chooses how: None is a sequential program on a CPU and level by level elsewhere.
    """
    by_level = (not device.is_cpu) if by_level is None else by_level
    kernels = _kernels(dim)
    total = item_lower.shape[0]
    finest = 8 if for_rays else leaf_size
    tree = binary.split(keys, offsets, samples, finest, total, dim, device, by_level=by_level)
    lower, upper, lowest = binary.join(tree, item_lower, item_upper, item_index, dim, device, by_level=by_level)
    choices = wp.empty(0, dtype=wp.int32, device=device)
    if for_rays:
        choices = binary.weigh(tree, lower, upper, leaf_size, dim, device, by_level=by_level)
    # a wide node is the root of a sample or an inner binary node, and of those there are fewer than half
    capacity = (tree.count - samples) // 2 + samples + 1

    def ints(size):
        return wp.empty(size, dtype=wp.int32, device=device)

    source, waiting, sample_of, roots = ints(capacity), ints(capacity), ints(capacity), ints(samples)
    child, end_of, lowest_of = (ints(8 * capacity) for _ in range(3))
    boxes = wp.empty(16 * dim * capacity, dtype=wp.float32, device=device)
    aabbs = wp.empty(2 * dim * capacity, dtype=wp.float32, device=device)
    count = wp.zeros(1, dtype=wp.int32, device=device)
    narrow = [tree.first_child, tree.starts, tree.ends, tree.owner, lower, upper, lowest, choices]
    wide = [source, waiting, child, end_of, lowest_of, boxes, aabbs, sample_of, count]
    if by_level:
        launch(kernels.collapse_roots, samples, [tree.starts, tree.ends, roots, source, waiting, count], device)
        start, stop = 0, int(count.numpy()[0])
        while start < stop:
            wp.launch(
                kernels.collapse_level,
                stop - start,
                inputs=[0, start, *narrow, *wide],
                device=device,
                record_tape=False,
            )
            start, stop = stop, int(count.numpy()[0])
        used = stop
    else:
        launch_serial(kernels.collapse_all, [samples, *narrow, roots, *wide], device)
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
