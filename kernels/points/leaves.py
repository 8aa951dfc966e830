"""The items of leaves in blocks of eight, all that a test of eight needs in one run of memory.

A block holds, for every vector of its items and every axis, eight coordinates, and then the eight items' indices (the
bits of int32). Every leaf begins a block of its own; lanes to spare hold NaN, which no comparison lets through, and
index -1.
"""

from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points.launch import VECTORS, launch, once
from kernels.points.native import FLOATS, INTS

_NAN = wp.constant(wp.float32(float("nan")))


@wp.func_native("return ((const wp::int32 *)a.data)[i];")
def load_bits(a: FLOATS, i: wp.int64) -> int: ...


@wp.func_native("((wp::int32 *)a.data)[i] = value;")
def store_bits(a: FLOATS, i: wp.int64, value: int): ...


@once
def _kernels(dim):
    vector = VECTORS[dim]
    vectors = wp.array(dtype=vector)
    module = kernel_module(f"kernels.points.leaves_{dim}d")

    @wp.kernel(module=module)
    def count_blocks(offset: int, children: INTS, ends: INTS, counts: INTS):
        slot = offset + wp.tid()
        counts[slot] = 0
        if children[slot] < 0:
            counts[slot] = (ends[slot] + 1 + children[slot] + 7) // 8

    @wp.kernel(module=module)
    def pack(
        offset: int,
        children: INTS,
        ends: INTS,
        block_ends: INTS,
        items: vectors,
        corners: int,
        index: INTS,
        cells: FLOATS,
    ):
        slot = offset + wp.tid()
        if children[slot] < 0:
            start = -1 - children[slot]
            count = ends[slot] - start
            blocks = (count + 7) // 8
            first = block_ends[slot] - blocks
            size = wp.int64(8 * (corners * wp.static(dim) + 1))
            for i in range(8 * blocks):
                base = wp.int64(first + i // 8) * size + wp.int64(i % 8)
                for v in range(corners):
                    x = vector(_NAN)
                    if i < count:
                        x = items[(start + i) * corners + v]
                    for c in range(wp.static(dim)):
                        cells[base + wp.int64(8 * (v * wp.static(dim) + c))] = x[c]
                which = int(-1)
                if i < count:
                    which = index[start + i]
                store_bits(cells, base + wp.int64(8 * corners * wp.static(dim)), which)
            children[slot] = -1 - first
            ends[slot] = first + blocks

    @wp.kernel(module=module)
    def link(offset: int, children: INTS, ends: INTS, boxes: FLOATS, nodes: FLOATS):
        slot = offset + wp.tid()
        node = slot // 8
        j = slot % 8
        size = wp.int64(wp.static(16 * dim + 16))
        base = wp.int64(node) * size + wp.int64(j)
        source = wp.int64(node) * wp.int64(wp.static(16 * dim)) + wp.int64(j)
        for c in range(wp.static(2 * dim)):
            nodes[base + wp.int64(8 * c)] = boxes[source + wp.int64(8 * c)]
        child = children[slot]
        if child < 0:
            first = -1 - child
            child = ~(8 * first + wp.max(ends[slot] - first, 0))
        store_bits(nodes, base + wp.int64(wp.static(16 * dim)), child)
        store_bits(nodes, base + wp.int64(wp.static(16 * dim + 8)), 0)

    return SimpleNamespace(count_blocks=count_blocks, pack=pack, link=link)


def pack_leaves(children, ends, items, corners, index, dim, device):
    """Blocks of all leaves, flattened; ``children`` and ``ends`` of leaves then count blocks instead of items.

    ``items`` holds ``corners`` vectors an item, in the order of the tree, ``index`` one number an item.
    """
    kernels = _kernels(dim)
    slots = children.shape[0]
    block_ends = wp.zeros(max(slots, 1), dtype=wp.int32, device=device)
    if slots:
        launch(kernels.count_blocks, slots, [children, ends, block_ends], device, grain=16384)
        wp.utils.array_scan(block_ends, block_ends, inclusive=True)
    blocks = int(block_ends[-1:].numpy()[0])
    cells = wp.empty(blocks * 8 * (corners * dim + 1), dtype=wp.float32, device=device)
    launch(kernels.pack, slots, [children, ends, block_ends, items, corners, index, cells], device, grain=1024)
    return cells


def link_nodes(children, ends, boxes, dim, device):
    """Nodes in one run of memory each: the boxes of eight children, their links, and eight cells that fill cache lines.

    A link is a node, or for a leaf of at most seven blocks the complement of 8 * its first block + their number.
    """
    slots = children.shape[0]
    nodes = wp.empty(slots // 8 * (16 * dim + 16), dtype=wp.float32, device=device)
    launch(_kernels(dim).link, slots, [children, ends, boxes, nodes], device, grain=4096)
    return nodes
