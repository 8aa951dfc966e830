"""Nearest surface among many: a tree of boxes in float32 gives candidates, the trace's precision decides.

The nearest boxes are opened first, and what lies beyond the best distance so far is never opened. No candidate is lost
to float32 (see ``boxes``). A triangle is a plane row with three vertices. Whether a ray passes inside an edge is the
sign of one triple product of the edge's ends, which for the two triangles at an edge is the same number with opposite
sign: no ray slips between them.
"""

import functools

import warp as wp

from kernels.modules import kernel_module
from kernels.points.leaves import load_bits
from kernels.points.native import FLOATS, STACK, load_int, lowest_bit
from kernels.points.ray_native import first_block, start, stop_block
from kernels.points.rays import reciprocal
from kernels.precision import INT, bundle, ldi, sti
from kernels.shapes.quadric import ANY, hit_of
from kernels.trace import layout as at
from kernels.trace.boxes import BLOCK_CELLS, BOX, candidates, next_leaf
from kernels.trace.search import FAR

# cells an axis that rays are sorted by, over the tree's boxes
SIDE = 16
CELLS = SIDE**3


@functools.cache
def triangle_of(precision):
    """A Warp function: distance to a triangle beyond ``near``, or far."""
    b = bundle(precision)
    real, array, ld_plain = b.real, b.array, b.ld_plain
    vec3 = wp.types.vector(length=3, dtype=real)

    @wp.func
    def edge(d: vec3, p: vec3, q: vec3):
        # d . (p x q), written so that swapping p and q flips the sign and nothing else
        return (
            d[0] * (p[1] * q[2] - p[2] * q[1]) + d[1] * (p[2] * q[0] - p[0] * q[2]) + d[2] * (p[0] * q[1] - p[1] * q[0])
        )

    @wp.func
    def span(p: vec3, q: vec3):
        return wp.abs(q[0] - p[0]) + wp.abs(q[1] - p[1]) + wp.abs(q[2] - p[2])

    @wp.func
    def hit(o: vec3, d: vec3, triangles: array, triangle: int, eps: real, near: real, far: real):
        k = triangle * 9
        p = vec3(ld_plain(triangles, k), ld_plain(triangles, k + 1), ld_plain(triangles, k + 2)) - o
        q = vec3(ld_plain(triangles, k + 3), ld_plain(triangles, k + 4), ld_plain(triangles, k + 5)) - o
        r = vec3(ld_plain(triangles, k + 6), ld_plain(triangles, k + 7), ld_plain(triangles, k + 8)) - o
        a = edge(d, p, q)
        c = edge(d, q, r)
        e = edge(d, r, p)
        # a product is a length of edge times a distance from it; triangles reach eps beyond their edges, so that a ray
        # on an edge is known to be on both
        ta = -eps * span(p, q)
        tc = -eps * span(q, r)
        te = -eps * span(r, p)
        t = far
        if (a >= ta and c >= tc and e >= te) or (-a >= ta and -c >= tc and -e >= te):
            n = wp.cross(q - p, r - p)
            along = wp.dot(n, d)
            # a ray along the plane (to 1e-12) misses
            if along * along > real(1.0e-24) * wp.dot(n, n):
                at_plane = wp.dot(n, p) / along
                if at_plane > near:
                    t = at_plane
        return t

    return hit


# The lists of rays by cell: the cell that comes next, the first ray of each, the ray after each ray. A launch on a CPU
# goes through its rays in order, so each takes the next one of the lists, which are empty again at its end.
_TAKE = f"""
    wp::int32 *first = lists.data + 1;
    wp::int32 cell = turn == 0 ? 0 : lists.data[0];
    while (cell < {CELLS - 1} && first[cell] < 0) ++cell;
    const wp::int32 ray = first[cell];
    lists.data[0] = cell;
    first[cell] = first[{CELLS} + ray];
    return ray;
"""


@wp.func_native(_TAKE)
def take(lists: INT, turn: int) -> int:
    """The next ray in the order of the cells."""
    ...


@functools.cache
def list_kernel(precision):
    """Lists the rays by the cell where they come near the tree, so that rays that go the same way follow each other."""
    b = bundle(precision)
    real, array, ld = b.real, b.array, b.ld
    vec3 = wp.types.vector(length=3, dtype=real)

    @wp.func
    def cell_of(x: real) -> int:
        # a number also for what is none
        shifted = x + real(wp.static(SIDE / 2))
        return wp.where(shifted > real(0.0), wp.int32(wp.min(shifted, real(wp.static(SIDE - 1)))), 0)

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}.tree"), enable_backward=False)
    def list_rays(
        floats: array, mx: real, my: real, mz: real, radius: real, per_length: real, lists: INT, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        p = vec3(
            ld(floats, wp.static(at.X), n, i) - mx, ld(floats, wp.static(at.Y), n, i) - my,
            ld(floats, wp.static(at.Z), n, i) - mz,
        )  # fmt: skip
        d = vec3(
            ld(floats, wp.static(at.L), n, i), ld(floats, wp.static(at.M), n, i), ld(floats, wp.static(at.N), n, i)
        )
        p = (p + wp.max(-wp.dot(p, d) - radius, real(0.0)) * d) * per_length
        cell = 1 + wp.static(SIDE) * (wp.static(SIDE) * cell_of(p[2]) + cell_of(p[1])) + cell_of(p[0])
        lists[wp.static(1 + CELLS) + i] = lists[cell]
        lists[cell] = i

    return list_rays


def tree_kernels(precision, device):
    """The search of a tree; on a CPU the rays are listed first, see ``Lane.lists``."""
    return [list_kernel(precision), tree_kernel(precision)] if device.is_cpu else [tree_kernel(precision)]


def ray_lists(capacity, device):
    """Lists without rays, with room for ``capacity``; none on a GPU, where rays take no turns."""
    if not device.is_cpu:
        return wp.empty(0, dtype=wp.int32, device=device)
    return wp.full(1 + CELLS + capacity, -1, dtype=wp.int32, device=device)


@functools.cache
def tree_kernel(precision):
    """Search of all rows in a tree; a ray keeps what an earlier search found if that is nearer."""
    b = bundle(precision)
    real, array, ld, st = b.real, b.array, b.ld, b.st
    vec3 = wp.types.vector(length=3, dtype=real)
    quadric_hit = hit_of(precision, ANY)
    triangle_hit = triangle_of(precision)

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}.tree"), enable_backward=False)
    def search_tree(
        floats: array, ints: INT, distance: array, row_hit: INT, numbers: array, domain: array, triangles: array,
        triangle_of_row: INT, nodes: FLOATS, cells: FLOATS, root: int, lists: INT,
        mx: real, my: real, mz: real, radius: real, off: wp.float32, kinds: int, first: int, surfaces: int,
        eps: real, n: wp.int64,
    ):  # fmt: skip
        i = int(wp.tid())
        if lists.shape[0] > 0:
            i = take(lists, i)
        best = real(wp.static(FAR))
        second = real(wp.static(FAR))
        best_row = int(-1)
        if first == 0:
            best = ld(distance, wp.static(at.NEAREST), n, i)
            second = ld(distance, wp.static(at.RUNNER_UP), n, i)
            best_row = ldi(row_hit, 0, n, i)
        if ldi(ints, wp.static(at.STATE), n, i) == wp.static(at.ALIVE):
            o = vec3(
                ld(floats, wp.static(at.X), n, i), ld(floats, wp.static(at.Y), n, i), ld(floats, wp.static(at.Z), n, i)
            )
            d = vec3(
                ld(floats, wp.static(at.L), n, i), ld(floats, wp.static(at.M), n, i), ld(floats, wp.static(at.N), n, i)
            )
            last = ldi(ints, wp.static(at.LAST), n, i)
            near = wp.where(last == wp.static(at.AFLOAT), real(0.0), eps)
            # float32 sees a ray from where it comes near the tree, and so no loss from a source a kilometre away
            p = o - vec3(mx, my, mz)
            ahead = wp.max(-wp.dot(p, d) - radius, real(0.0))
            p = p + ahead * d
            o32 = wp.vec3(wp.float32(p[0]), wp.float32(p[1]), wp.float32(p[2]))
            d32 = wp.vec3(wp.float32(d[0]), wp.float32(d[1]), wp.float32(d[2]))
            inverse = wp.vec3(reciprocal(d32[0]), reciprocal(d32[1]), reciprocal(d32[2]))
            # the float32 cut-off lies beyond the best distance by more than its rounding
            # and by more than what counts as landing on two surfaces at once
            limit = wp.float32(best - ahead + real(8.0) * eps) * wp.float32(1.00001)
            stack = wp.zeros(shape=(STACK,), dtype=wp.uint64)
            start(stack, root)
            link = next_leaf(nodes, o32, inverse, limit, stack)
            while link < 0:
                for block in range(first_block(link), stop_block(link)):
                    mask = candidates(cells, block, o32, d32, inverse, limit, off, kinds, last)
                    numbered = wp.int64(block) * wp.int64(BLOCK_CELLS) + wp.int64(wp.static(BLOCK_CELLS - 8))
                    while mask != 0:
                        leaf = load_bits(cells, numbered + wp.int64(lowest_bit(mask)))
                        mask = mask & (mask - 1)
                        row = leaf & wp.static(BOX - 1)
                        t = real(wp.static(FAR))
                        if leaf < wp.static(BOX):
                            triangle = load_int(triangle_of_row, row)
                            t = triangle_hit(o, d, triangles, triangle, eps, near, real(wp.static(FAR)))
                        else:
                            t = quadric_hit(
                                o[0], o[1], o[2], d[0], d[1], d[2], last == row, near, real(wp.static(FAR)),
                                numbers, domain, row,
                            )  # fmt: skip
                        nearer = t < best or (t == best and row < best_row)
                        other = wp.where(nearer, best_row, row)
                        passed = wp.where(nearer, best, t)
                        if other < surfaces and passed < second:
                            second = passed
                        if nearer:
                            best = t
                            best_row = row
                            limit = wp.float32(best - ahead + real(8.0) * eps) * wp.float32(1.00001)
                link = next_leaf(nodes, o32, inverse, limit, stack)
        st(distance, wp.static(at.NEAREST), n, i, best)
        st(distance, wp.static(at.RUNNER_UP), n, i, second)
        sti(row_hit, 0, n, i, best_row)

    return search_tree
