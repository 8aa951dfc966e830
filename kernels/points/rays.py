"""Rays against segments (2-D) and triangles (3-D): the closest hit, or every hit.

Eight boxes and eight primitives are tested at a time in float32, with slack for what rounding can do, so that no true
hit is lost; whatever passes is decided by the primitive's equation in float64 from its float32 vertices. Edges shared
by two primitives leave no gap.

With EPS = 8 * 2^-23, a primitive is missed where |det| <= EPS |d| |n| (parallel, degenerate, zero direction). A
triangle is hit for u, v >= -EPS and u + v <= 1 + EPS (Moller and Trumbore), a segment for u in [0, 1].
Hits whose t differ by no more than EPS * max(1, |t|) coincide, and the lowest index of them counts.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import warp as wp

from kernels.modules import kernel_module
from kernels.points import morton
from kernels.points.launch import VECTORS, launch, once
from kernels.points.leaves import link_nodes, load_bits
from kernels.points.native import (
    FLOATS,
    INFINITY,
    INTS,
    STACK,
    load_int,
    lowest_bit,
)
from kernels.points.ray_native import CANDIDATES, first_block, start, stop_block
from kernels.points.ray_native import next_leaf as find_leaf
from kernels.points.tree import build_nodes

EPS = 8.0 * 2.0**-23
VERTICES = {2: 2, 3: 3}  # of a primitive, by dimension
LEAF_SIZE = 32
_GRAIN = 2048
_EPS64 = wp.constant(wp.float64(EPS))
# a shared end of two segments must not fall between them by the rounding of u in float64
_END_SLACK = wp.constant(wp.float64(1.0e-9))
_NO_HIT = wp.constant(wp.float64(-1.0))  # a hit has t >= 0
_HUGE = wp.constant(wp.float32(3.0e38))
NAN = wp.constant(wp.float32(float("nan")))
DOUBLES = wp.array(dtype=wp.float64)


@dataclass(frozen=True)
class RayForest:
    """Primitives of one scene or of many, sorted, with their tree.

    The blocks of its leaves hold the vertices as they were given, and the primitives' indices within their scene.
    ``nodes`` are boxes and links, see ``leaves``; ``roots`` says where each scene begins.
    """

    dim: int
    roots: wp.array
    nodes: wp.array
    cells: wp.array


@wp.func_native("const wp::float32 *p = cells.data + place; return wp::vec_t<3, wp::float64>(p[0], p[8], p[16]);")
def corner3(cells: FLOATS, place: wp.int64) -> wp.vec3d:
    """One vertex of the primitive in one lane of a block."""
    ...


@wp.func_native("const wp::float32 *p = cells.data + place; return wp::vec_t<2, wp::float64>(p[0], p[8]);")
def corner2(cells: FLOATS, place: wp.int64) -> wp.vec2d: ...


@wp.func
def triangle_hit(o: wp.vec3, d: wp.vec3, cells: FLOATS, place: wp.int64) -> wp.float64:
    """t, or -1 for a miss; t below 0 is a miss too."""
    a = corner3(cells, place)
    e1 = corner3(cells, place + wp.int64(24)) - a
    e2 = corner3(cells, place + wp.int64(48)) - a
    direction = wp.vec3d(d)
    h = wp.cross(direction, e2)
    det = wp.dot(e1, h)
    n = wp.cross(e1, e2)
    result = _NO_HIT
    if wp.abs(det) > _EPS64 * wp.sqrt(wp.dot(direction, direction) * wp.dot(n, n)):
        f = wp.float64(1.0) / det
        s = wp.vec3d(o) - a
        u = f * wp.dot(s, h)
        q = wp.cross(s, e1)
        v = f * wp.dot(direction, q)
        if u >= -_EPS64 and v >= -_EPS64 and u + v <= wp.float64(1.0) + _EPS64:
            result = f * wp.dot(e2, q)
    return result


@wp.func
def segment_hit(o: wp.vec2, d: wp.vec2, cells: FLOATS, place: wp.int64) -> wp.float64:
    """t, or -1 for a miss; t below 0 is a miss too."""
    a = corner2(cells, place)
    e = corner2(cells, place + wp.int64(16)) - a
    direction = wp.vec2d(d)
    s = a - wp.vec2d(o)
    den = direction[0] * e[1] - direction[1] * e[0]
    result = _NO_HIT
    if wp.abs(den) > _EPS64 * wp.sqrt(wp.dot(direction, direction) * wp.dot(e, e)):
        u = (s[0] * direction[1] - s[1] * direction[0]) / den
        if u >= -_END_SLACK and u <= wp.float64(1.0) + _END_SLACK:
            result = (s[0] * e[1] - s[1] * e[0]) / den
    return result


@wp.func
def tolerance(t: wp.float64) -> wp.float64:
    return _EPS64 * wp.max(wp.float64(1.0), wp.abs(t))


@wp.func
def reciprocal(x: wp.float32) -> wp.float32:
    """1 / x, or a huge number of x's sign where that is no finite number."""
    r = wp.float32(1.0) / x
    if not (wp.abs(r) < _HUGE):
        r = wp.where(x < wp.float32(0.0), -_HUGE, _HUGE)
    return r


_HITS = {2: segment_hit, 3: triangle_hit}


@once
def _build_kernels(dim):
    vector = VECTORS[dim]
    vectors = wp.array(dtype=vector)
    corners = VERTICES[dim]
    module = kernel_module(f"kernels.points.ray_build_{dim}d")

    @wp.kernel(module=module)
    def primitive_boxes(offset: int, vertices: vectors, lower: vectors, upper: vectors, centre: vectors):
        i = offset + wp.tid()
        low = vertices[i * wp.static(corners)]
        high = low
        for c in range(1, wp.static(corners)):
            low = wp.min(low, vertices[i * wp.static(corners) + c])
            high = wp.max(high, vertices[i * wp.static(corners) + c])
        centre[i] = (low + high) * wp.float32(0.5)
        # room for hits that the tolerance lets in beyond an edge, and for rounding in the box test
        size = wp.max(wp.max(wp.abs(low)), wp.max(wp.abs(high)))
        pad = wp.max(high - low) * wp.float32(4.0e-6) + size * wp.float32(4.0e-7) + wp.float32(1.0e-20)
        lower[i] = low - vector(pad)
        upper[i] = high + vector(pad)

    @wp.kernel(module=module)
    def gather_primitives(
        offset: int,
        vertices: vectors,
        rows: INTS,
        per_scene: int,
        lower: vectors,
        upper: vectors,
        order: INTS,
        sorted_lower: vectors,
        sorted_upper: vectors,
        sorted_vertices: vectors,
    ):
        i = offset + wp.tid()
        r = rows[i]
        order[i] = r % per_scene
        sorted_lower[i] = lower[r]
        sorted_upper[i] = upper[r]
        for v in range(wp.static(corners)):
            sorted_vertices[i * wp.static(corners) + v] = vertices[r * wp.static(corners) + v]

    return SimpleNamespace(primitive_boxes=primitive_boxes, gather_primitives=gather_primitives)


@once
def _trace_kernel(dim, mode):
    """The traversal, as "closest", "count" (hits a ray) or "fill" (their indices and t from ``out_offsets`` on)."""
    vector = VECTORS[dim]
    vectors = wp.array(dtype=vector)
    exact_hit = _HITS[dim]
    next_leaf = find_leaf(dim)
    test_snippet = CANDIDATES[dim]
    module = kernel_module(f"kernels.points.rays_{mode}_{dim}d")

    @wp.func_native(test_snippet)
    def candidates(cells: FLOATS, block: int, o: vector, d: vector, limit: wp.float32) -> int: ...

    @wp.kernel(module=module)
    def trace(
        offset: int,
        origins: vectors,
        directions: vectors,
        rays_per_scene: int,
        t_min: wp.float32,
        t_max: wp.float32,
        roots: INTS,
        nodes: FLOATS,
        cells: FLOATS,
        out_indices: wp.array(dtype=wp.int64),
        out_t: wp.array(dtype=wp.float64),
        out_offsets: wp.array(dtype=wp.int64),
        out_single: FLOATS,
        out_points: vectors,
    ):
        ray = offset + wp.tid()
        scene = ray // rays_per_scene
        o = origins[ray]
        d = directions[ray]
        inverse = vector(0.0)
        for c in range(wp.static(dim)):
            inverse[c] = reciprocal(d[c])
        limit = t_max
        nearest = wp.float64(INFINITY)
        hit = int(-1)
        hit_t = wp.float64(INFINITY)
        passed_over = int(0)
        again = int(0)
        hits = wp.int64(0)
        target = wp.int64(0)
        if wp.static(mode == "fill"):
            target = out_offsets[ray]
        stack = wp.zeros(shape=(STACK,), dtype=wp.uint64)
        root = load_int(roots, scene)
        start(stack, root)
        link = next_leaf(nodes, o, inverse, limit, stack)
        while link < 0:
            for block in range(first_block(link), stop_block(link)):
                mask = candidates(cells, block, o, d, limit)
                base = wp.int64(block) * wp.int64(wp.static(8 * (dim * dim + 1)))
                while mask != 0:
                    place = base + wp.int64(lowest_bit(mask))
                    mask = mask & (mask - 1)
                    index = load_bits(cells, place + wp.int64(wp.static(8 * dim * dim)))
                    t = exact_hit(o, d, cells, place)
                    rounded = wp.float32(t)
                    if t >= wp.float64(0.0) and rounded >= t_min and rounded <= t_max:
                        if wp.static(mode == "closest"):
                            if t < nearest:
                                nearest = t
                                limit = wp.min(t_max, wp.float32(t + tolerance(t) * wp.float64(1.5)))
                            within = nearest + tolerance(nearest)
                            if t <= within:
                                farther = hit_t > within
                                if not farther:
                                    passed_over = 1
                                elif passed_over == 1:
                                    again = 1
                                if farther or index < hit:
                                    hit = index
                                    hit_t = t
                        if wp.static(mode == "count"):
                            hits = hits + wp.int64(1)
                        if wp.static(mode == "fill"):
                            out_indices[target] = wp.int64(index)
                            out_t[target] = t
                            target = target + wp.int64(1)
            link = next_leaf(nodes, o, inverse, limit, stack)
            if link == 0 and again == 1:
                # a hit was passed over for one that coincided with it, but not with the nearest: look once more
                again = 0
                passed_over = 0
                hit_t = wp.float64(INFINITY)
                start(stack, root)
                link = next_leaf(nodes, o, inverse, limit, stack)
        if wp.static(mode == "closest"):
            out_indices[ray] = wp.int64(hit)
            single = wp.float32(hit_t)
            out_single[ray] = single
            point = vector(NAN)
            if hit >= 0:
                point = o + d * single
            out_points[ray] = point
        if wp.static(mode == "count"):
            out_offsets[ray] = hits

    return trace


@once
def _merge_kernel():
    module = kernel_module("kernels.points.ray_merge")

    @wp.kernel(module=module)
    def sort_and_merge(
        offset: int,
        offsets: wp.array(dtype=wp.int64),
        merge: int,
        indices: wp.array(dtype=wp.int64),
        t: wp.array(dtype=wp.float64),
    ):
        # hits of one ray by t, then index; of coinciding ones all but the lowest index become -1
        ray = offset + wp.tid()
        start = wp.int32(offsets[ray])
        stop = wp.int32(offsets[ray + 1])
        for i in range(start + 1, stop):
            ti = t[i]
            index = indices[i]
            at = int(i)
            while at > start and (
                t[wp.max(at - 1, 0)] > ti or (t[wp.max(at - 1, 0)] == ti and indices[wp.max(at - 1, 0)] > index)
            ):
                t[at] = t[at - 1]
                indices[at] = indices[at - 1]
                at = at - 1
            t[at] = ti
            indices[at] = index
        if merge == 1:
            keep = int(start)
            group_t = wp.float64(-1.0e300)
            for i in range(start, stop):
                if t[i] <= group_t + tolerance(group_t) and i > start:
                    if indices[i] < indices[keep]:
                        indices[keep] = wp.int64(-1)
                        keep = i
                    else:
                        indices[i] = wp.int64(-1)
                else:
                    keep = i
                    group_t = t[i]

    return sort_and_merge


def build(vertices, scenes, per_scene, dim, device, *, by_level=None):
    """A ``RayForest`` over ``vertices`` (B F V,)."""
    kernels = _build_kernels(dim)
    vector = VECTORS[dim]
    total = scenes * per_scene

    def vectors():
        return wp.empty(total, dtype=vector, device=device)

    lower, upper, centre = vectors(), vectors(), vectors()
    launch(kernels.primitive_boxes, total, [vertices, lower, upper, centre], device)
    offsets = wp.array([i * per_scene for i in range(scenes + 1)], dtype=wp.int32, device=device)
    frame = morton.frames(centre, offsets, scenes, per_scene, dim, device)
    keys, rows = morton.sort_points(centre, offsets, scenes, frame, dim, device)
    order = wp.empty(total, dtype=wp.int32, device=device)
    sorted_lower, sorted_upper = vectors(), vectors()
    sorted_vertices = wp.empty(total * VERTICES[dim], dtype=vector, device=device)
    launch(
        kernels.gather_primitives,
        total,
        [vertices, rows, per_scene, lower, upper, order, sorted_lower, sorted_upper, sorted_vertices],
        device,
    )
    nodes = build_nodes(
        keys,
        sorted_lower,
        sorted_upper,
        order,
        sorted_vertices,
        VERTICES[dim],
        offsets,
        scenes,
        dim,
        device,
        leaf_size=LEAF_SIZE,
        for_rays=True,
        by_level=by_level,
    )
    return RayForest(dim, nodes.roots, link_nodes(nodes.children, nodes.ends, nodes.boxes, dim, device), nodes.cells)


def _arguments(forest, rays_per_scene, t_min, t_max, **outputs):
    """What the traversal takes after the rays."""
    names = ("indices", "t", "offsets", "single", "points")
    return [
        max(rays_per_scene, 1),
        t_min,
        t_max,
        forest.roots,
        forest.nodes,
        forest.cells,
        *(outputs.get(name) for name in names),
    ]


def closest(forest, origins, directions, rays_per_scene, t_min, t_max, indices, t, points):
    """Closest hits into ``indices`` (R,) int64, ``t`` (R,) float32 and ``points`` (R,); a miss is -1, inf and NaN."""
    arguments = _arguments(forest, rays_per_scene, t_min, t_max, indices=indices, single=t, points=points)
    kernel = _trace_kernel(forest.dim, "closest")
    launch(kernel, origins.shape[0], [origins, directions, *arguments], origins.device, grain=_GRAIN)


def count(forest, origins, directions, rays_per_scene, t_min, t_max, counts):
    """Number of hits of every ray into ``counts`` (R,) int64."""
    arguments = _arguments(forest, rays_per_scene, t_min, t_max, offsets=counts)
    launch(
        _trace_kernel(forest.dim, "count"),
        origins.shape[0],
        [origins, directions, *arguments],
        origins.device,
        grain=_GRAIN,
    )


def fill(forest, origins, directions, rays_per_scene, t_min, t_max, offsets, indices, t, *, merge):
    """All hits of ray r into ``indices`` (int64) and ``t`` (float64) from ``offsets[r]`` on, ordered by t.

    Where hits coincide and ``merge`` is set, all but one get index -1.
    """
    arguments = _arguments(forest, rays_per_scene, t_min, t_max, indices=indices, t=t, offsets=offsets)
    launch(
        _trace_kernel(forest.dim, "fill"),
        origins.shape[0],
        [origins, directions, *arguments],
        origins.device,
        grain=_GRAIN,
    )
    launch(_merge_kernel(), origins.shape[0], [offsets, int(merge), indices, t], origins.device)
