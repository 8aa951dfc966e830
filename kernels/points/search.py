"""Exact k nearest neighbours on a ``Forest``.

A query keeps its k best as one sorted list of 64-bit keys, distance bits above the point's index, so that equal
distances fall to the lowest index by themselves. The sizes 4, 8 and 16 have kernels of their own whose list lives in
registers; a k between them takes the first columns of the next size; larger ones keep the list in memory.
"""

from types import SimpleNamespace

import warp as wp

from kernels import lanes
from kernels.modules import kernel_module
from kernels.points import morton
from kernels.points.knn_native import list_type, prefetch_rows, scan_leaf, worst_key
from kernels.points.launch import VECTORS, launch, once, ready, run_pieces
from kernels.points.native import (
    FLOATS,
    INFINITY,
    INTS,
    NO_NEIGHBOUR,
    STACK,
    key_distance,
    key_index,
    load_int,
    load_key,
    pack,
    push_near_boxes,
)

SIZES = (4, 8, 16)
_GRAIN = 2048
_SORT_FROM = 512


@once
def _kernels(dim, size):
    vector = VECTORS[dim]
    keys = list_type(size)
    scan = scan_leaf(dim, size)
    worst = worst_key(size)
    push_near = push_near_boxes(dim)
    prefetch = prefetch_rows(dim)
    module = kernel_module(f"kernels.points.knn_{dim}d_{size or 'any'}")

    @wp.func
    def reach(
        x: vector,
        queries: wp.array(dtype=vector),
        other: int,
        k: int,
        out_distances: wp.array2d(dtype=wp.float32),
    ) -> wp.float32:
        """A squared distance within which k points lie, from what a nearby query found (with room for rounding)."""
        radius = wp.sqrt(out_distances[other, k - 1]) + wp.length(x - queries[other])
        result = radius * radius * wp.float32(1.00001) + wp.float32(1.0e-37)
        if not (result < INFINITY):  # too few points, or coordinates that are not finite
            result = INFINITY
        return result

    @wp.func
    def sample_of_row(row: int, rows_per_sample: int, sample_of: INTS) -> int:
        sample = int(0)
        if rows_per_sample > 0:
            sample = row // rows_per_sample
        else:
            sample = load_int(sample_of, row)
        return sample

    @wp.kernel(module=module)
    def query(
        offset: int,
        queries: wp.array(dtype=vector),
        rows: INTS,
        use_rows: int,
        in_turn: int,
        rows_per_sample: int,
        sample_of: INTS,
        roots: INTS,
        children: INTS,
        ends: INTS,
        lowest: INTS,
        boxes: FLOATS,
        cells: FLOATS,
        k: int,
        out_indices: wp.array2d(dtype=wp.int64),
        out_distances: wp.array2d(dtype=wp.float32),
    ):
        row = offset + wp.tid()
        if use_rows == 1:
            row = load_int(rows, row)
        sample = sample_of_row(row, rows_per_sample, sample_of)
        x = queries[row]
        best = keys(NO_NEIGHBOUR)
        limit_key = NO_NEIGHBOUR
        limit = INFINITY
        if in_turn == 1:
            prefetch(rows, offset + wp.tid(), k, queries, out_indices, out_distances)
            if wp.tid() > 0:
                other = load_int(rows, offset + wp.tid() - 1)
                if sample_of_row(other, rows_per_sample, sample_of) == sample:
                    limit = reach(x, queries, other, k, out_distances)
                    limit_key = pack(limit, -1)
        stack = wp.zeros(shape=(STACK,), dtype=wp.uint64)
        depth = int(0)
        node = load_int(roots, sample)
        last = int(0)
        going = int(1)
        if node < 0:
            going = int(0)
        while going == 1:
            if node >= 0:
                depth = push_near(boxes, node, x, limit, stack, depth)
            else:
                best = scan(best, cells, -1 - node, last, x, limit, k)
                limit_key = wp.min(limit_key, worst(best, k))
                limit = key_distance(limit_key)
            going = int(0)
            while depth > 0 and going == 0:
                depth = depth - 1
                entry = load_key(stack, depth)
                slot = key_index(entry)
                distance = key_distance(entry)
                if distance < limit:
                    going = int(1)
                if distance == limit:  # noqa: SIM102 (Warp would read both sides of an `and`)
                    # only a lower index can still get in, and a box of duplicates mostly has none
                    if load_int(lowest, slot) <= key_index(limit_key) or key_index(limit_key) < 0:
                        going = int(1)
                if going == 1:
                    node = load_int(children, slot)
                    last = load_int(ends, slot)
        for j in range(k):
            out_indices[row, j] = wp.int64(key_index(best[j]))
            out_distances[row, j] = key_distance(best[j])

    return SimpleNamespace(query=query)


def kernel_size(k):
    """The kernel that serves ``k``: 4, 8, 16, or 0 for the one of run-time size."""
    return next((size for size in SIZES if k <= size), 0)


def query_rows(forest, queries, k, indices, distances, *, rows_per_sample, sample_of, rows=None, sort=True):
    """Neighbours of every query into ``indices`` (M, k) int64 and ``distances`` (M, k) float32, squared.

    ``rows_per_sample`` > 0: query r looks in sample ``r // rows_per_sample``; 0: in ``sample_of[r]``. ``rows`` (int32)
    restricts the call to some rows and leaves the others alone. Where a sample has fewer than k points, the last
    entries are -1 and inf. ``sort`` visits the queries in the order of their cells.
    """
    device = forest.device
    total = queries.shape[0] if rows is None else rows.shape[0]
    if total == 0:
        return
    kernel = _kernels(forest.dim, kernel_size(k)).query
    nodes = forest.nodes
    nothing = forest.order

    def inputs(rows, use_rows, in_turn=0):
        return [
            queries, rows, use_rows, in_turn, rows_per_sample, sample_of if sample_of is not None else nothing,
            nodes.roots, nodes.children, nodes.ends, nodes.lowest, nodes.boxes,
            nodes.cells, k, indices, distances,
        ]  # fmt: skip

    sort = sort and rows is None and total >= _SORT_FROM
    if not sort:
        launch(
            kernel, total, inputs(rows if rows is not None else nothing, int(rows is not None)), device, grain=_GRAIN
        )
        return

    # a CPU lane answers its queries one after the other, so each can begin with what the last one found
    in_turn = int(device.is_cpu)
    for needed in (kernel, morton.query_kernel(forest.dim)):
        ready(needed, device)

    def work(start, stop):
        ordered = morton.sort_queries(
            queries,
            start,
            stop - start,
            rows_per_sample,
            sample_of if sample_of is not None else nothing,
            forest.samples,
            forest.frame,
            forest.dim,
            device,
        )
        first, arguments = (start, inputs(nothing, 0)) if ordered is None else (0, inputs(ordered, 1, in_turn))
        wp.launch(kernel, stop - start, inputs=[first, *arguments], device=device, record_tape=False)

    threads = lanes.get_num_threads() if device.is_cpu else 1
    # a piece is sorted whole, so pieces are few: one a lane, and more only for sets whose sort leaves the cache
    pieces = lanes.split_range(total, threads, _GRAIN)
    run_pieces(work, pieces, threads)
