"""Rays against a dense reference; edges, vertices, degenerate cases; gradients."""

import gc
import math
import weakref

import numpy as np
import pytest
import torch
import warp as wp

import bvh
from bvh._bridge import wrap, wrap_vectors
from kernels.points import rays
from kernels.points.native import STACK
from tests.bvh.clouds import generator

EPS = 8 * 2.0**-23


def dense(primitives, o, d, t_min=1e-7, t_max=math.inf):
    """(hit (R, F), t (R, F)) by the equations, in float64; differentiable."""
    p, o, d = primitives.double()[None], o.double()[:, None], d.double()[:, None]
    if p.shape[-1] == 2:
        a, e = p[:, :, 0], p[:, :, 1] - p[:, :, 0]
        s = a - o
        det = d[..., 0] * e[..., 1] - d[..., 1] * e[..., 0]
        t = (s[..., 0] * e[..., 1] - s[..., 1] * e[..., 0]) / det
        u = (s[..., 0] * d[..., 1] - s[..., 1] * d[..., 0]) / det
        flat = det.abs() <= EPS * torch.sqrt((d**2).sum(-1) * (e**2).sum(-1))
        inside = (u >= 0) & (u <= 1)
    else:
        a = p[:, :, 0]
        e1, e2 = p[:, :, 1] - a, p[:, :, 2] - a
        h = torch.linalg.cross(d.expand(-1, p.shape[1], -1), e2.expand(d.shape[0], -1, -1))
        det = (e1 * h).sum(-1)
        s = o - a
        u = (s * h).sum(-1) / det
        q = torch.linalg.cross(s, e1.expand_as(s))
        v = (d * q).sum(-1) / det
        t = (e2 * q).sum(-1) / det
        n = torch.linalg.cross(e1, e2)
        flat = det.abs() <= EPS * torch.sqrt((d**2).sum(-1) * (n**2).sum(-1))
        inside = (u >= -EPS) & (v >= -EPS) & (u + v <= 1 + EPS)
    return ~flat & inside & (t >= t_min) & (t <= t_max), t


def dense_closest(primitives, o, d, **limits):
    hit, t = dense(primitives, o, d, **limits)
    t = torch.where(hit, t, torch.inf)
    best = t.min(1, keepdim=True).values
    near = hit & (t <= best + EPS * best.abs().clamp_min(1))
    index = torch.where(near.any(1), near.to(torch.int8).argmax(1), -1)
    return index, torch.where(index >= 0, t.gather(1, index.clamp_min(0)[:, None])[:, 0], torch.inf)


def scene(dim, count, rays=1500, seed=0):
    g = generator(seed)
    centre = 2 * torch.rand((count, 1, dim), generator=g) - 1
    primitives = centre + 0.25 * torch.randn((count, dim, dim), generator=g)
    o = 2 * torch.randn((rays, dim), generator=g)
    d = 2 * torch.rand((rays, dim), generator=g) - 1 - 0.6 * o
    return primitives, o, d


KIND = {2: "segment", 3: "triangle"}


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 7, 40, 2000])
def test_random_scenes(dim, count):
    primitives, o, d = scene(dim, count)
    result = bvh.raytrace(primitives, o, d, primitive_type=KIND[dim])
    index, t = dense_closest(primitives, o, d)
    assert torch.equal(result.primitive_indices, index)
    assert torch.equal(result.mask, index >= 0)
    assert 0 < result.mask.sum() < 1500
    torch.testing.assert_close(result.t.double(), t, rtol=2e-5, atol=2e-5)
    hit = result.mask
    assert torch.equal(result.points[hit], (o + result.t[:, None] * d)[hit])
    assert torch.isnan(result.points[~hit]).all()
    assert torch.isinf(result.t[~hit]).all()
    assert result.primitive_indices.dtype == torch.int64
    assert result.t.dtype == result.points.dtype == torch.float32
    assert result.mask.dtype == torch.bool


@pytest.mark.parametrize("dim", [2, 3])
def test_many_rays(dim):
    primitives, o, d = scene(dim, 60, rays=9000)
    o[17], d[18], d[19] = float("nan"), float("inf"), 0.0
    result = bvh.raytrace(primitives, o, d, primitive_type=KIND[dim])
    rest = torch.cat([torch.arange(17), torch.arange(20, 9000)])
    index, t = dense_closest(primitives, o[rest], d[rest])
    assert torch.equal(result.primitive_indices[rest], index)
    torch.testing.assert_close(result.t[rest].double(), t, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dim", [2, 3])
def test_all_hits(dim):
    primitives, o, d = scene(dim, 300)
    with bvh.RayBVH(primitives, primitive_type=KIND[dim]) as tree:
        hits = tree.trace_all(o, d, merge_coincident=False)
        closest = tree.trace(o, d)
    hit, t = dense(primitives, o, d)
    assert torch.equal(hits.ray_offsets.diff(), hit.sum(1))
    assert int(hits.ray_offsets[-1]) > 1500
    got = torch.zeros_like(hit)
    got[hits.ray_indices, hits.primitive_indices] = True
    assert torch.equal(got, hit)
    torch.testing.assert_close(hits.t.double(), t[hits.ray_indices, hits.primitive_indices], rtol=2e-5, atol=2e-5)
    same_ray = hits.ray_indices.diff() == 0
    assert (hits.t.diff()[same_ray] >= 0).all()
    assert torch.equal(hits.points, o[hits.ray_indices] + hits.t[:, None] * d[hits.ray_indices])
    first = hits.ray_offsets[:-1][closest.mask]
    assert torch.equal(hits.primitive_indices[first], closest.primitive_indices[closest.mask])


@pytest.mark.parametrize("dim", [2, 3])
def test_limits_are_inclusive(dim):
    primitives, o, d = scene(dim, 200)
    tree = bvh.RayBVH(primitives, primitive_type=KIND[dim])
    free = tree.trace(o, d)
    ray = int(free.mask.nonzero()[0])
    t = float(free.t[ray])
    one = {"origins": o[ray], "directions": d[ray]}
    assert int(tree.trace(**one, t_max=t).primitive_indices) == int(free.primitive_indices[ray])
    assert int(tree.trace(**one, t_min=t).primitive_indices) == int(free.primitive_indices[ray])
    below, above = (math.nextafter(t, s * math.inf) for s in (-1, 1))
    step = abs(t) * 2.0**-23
    assert int(tree.trace(**one, t_max=below - step).primitive_indices) != int(free.primitive_indices[ray])
    assert int(tree.trace(**one, t_min=above + step).primitive_indices) != int(free.primitive_indices[ray])
    limited = tree.trace(o, d, t_min=0.2, t_max=0.9)
    index, _ = dense_closest(primitives, o, d, t_min=0.2, t_max=0.9)
    assert torch.equal(limited.primitive_indices, index)


def test_directions_are_not_normalised():
    triangle = torch.tensor([[[-1.0, -1, 2], [3, -1, 2], [-1, 3, 2]]])
    result = bvh.raytrace(triangle, torch.zeros(1, 3), torch.tensor([[0.0, 0, 4]]), primitive_type="triangle")
    assert float(result.t) == 0.5
    assert result.points.tolist() == [[0.0, 0.0, 2.0]]


@pytest.mark.parametrize("lead", [(), (5,), (2, 3, 4), (0,), (3, 0)])
def test_ray_shapes(lead):
    primitives, _, _ = scene(3, 30)
    o = torch.randn((*lead, 3), generator=generator(1))
    result = bvh.raytrace(primitives, o, -o, primitive_type="triangle")
    assert result.t.shape == result.mask.shape == result.primitive_indices.shape == lead
    assert result.points.shape == (*lead, 3)


@pytest.mark.parametrize("dim", [2, 3])
def test_batches(dim):
    scenes = [scene(dim, 60, rays=150, seed=i) for i in range(3)]
    primitives, o, d = (torch.stack(x) for x in zip(*scenes, strict=True))
    shape = (3, 10, 15, dim)
    tree = bvh.RayBVH(primitives, primitive_type=KIND[dim])
    result = tree.trace(o.reshape(shape), d.reshape(shape))
    assert result.t.shape == (3, 10, 15)
    hits = tree.trace_all(o, d)
    for b in range(3):
        alone = bvh.raytrace(primitives[b], o[b], d[b], primitive_type=KIND[dim])
        assert torch.equal(result.primitive_indices[b].reshape(-1), alone.primitive_indices)
        assert torch.equal(result.t[b].reshape(-1), alone.t)
        single = bvh.RayBVH(primitives[b], primitive_type=KIND[dim]).trace_all(o[b], d[b])
        rows = hits.ray_indices // 150 == b
        assert torch.equal(hits.primitive_indices[rows], single.primitive_indices)


@pytest.mark.parametrize("dim", [2, 3])
def test_what_is_missed(dim):
    """Parallel, collinear, coplanar, degenerate, zero direction, behind."""
    if dim == 2:
        segments = torch.tensor([[[0.0, 0], [1, 0]], [[2.0, 2], [2, 2]]])
        rays = [
            ((-1.0, 0.0), (1.0, 0.0)),
            ((-1.0, 1.0), (1.0, 0.0)),
            ((2.0, 0.0), (0.0, 1.0)),
            ((0.5, 1.0), (0.0, 0.0)),
            ((0.5, 1.0), (0.0, 1.0)),
        ]
        primitives = segments
    else:
        primitives = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]], [[2.0, 2, 0], [3, 3, 0], [4, 4, 0]]])
        rays = [
            ((-1.0, 0.2, 0.0), (1.0, 0.0, 0.0)),
            ((-1.0, 0.2, 1.0), (1.0, 0.0, 0.0)),
            ((3.0, 3.0, 1.0), (0.0, 0.0, -1.0)),
            ((0.2, 0.2, 1.0), (0.0, 0.0, 0.0)),
            ((0.2, 0.2, 1.0), (0.0, 0.0, 1.0)),
        ]
    o, d = torch.tensor(rays).unbind(1)
    result = bvh.raytrace(primitives, o, d, primitive_type=KIND[dim])
    assert not result.mask.any()
    assert (result.primitive_indices == -1).all()


def square():
    """The square [-1, 1]^2 at z = 0, cut along its diagonal."""
    a, b, c, d = [-1.0, -1, 0], [1.0, -1, 0], [1.0, 1, 0], [-1.0, 1, 0]
    return torch.tensor([[a, b, c], [a, c, d]])


def cube(divisions):
    """The surface of [-1, 1]^3 with every face cut into squares and those along a diagonal."""
    line = torch.linspace(-1, 1, divisions + 1)
    triangles = []
    for axis in range(3):
        for side in (-1.0, 1.0):
            for i in range(divisions):
                for j in range(divisions):
                    corners = []
                    for u, v in ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)):
                        p = [0.0, 0.0, 0.0]
                        p[axis], p[(axis + 1) % 3], p[(axis + 2) % 3] = side, float(line[u]), float(line[v])
                        corners.append(p)
                    triangles += [[corners[0], corners[1], corners[2]], [corners[0], corners[2], corners[3]]]
    return torch.tensor(triangles)


def test_field_case_diagonal_of_a_square():
    """H10: one hit on the shared edge, the lower index, and one crossing."""
    o, d = torch.tensor([[0.0, 0, 1]]), torch.tensor([[0.0, 0, -1]])
    tree = bvh.RayBVH(square(), primitive_type="triangle")
    result = tree.trace(o, d)
    assert result.t.tolist() == [1.0]
    assert result.primitive_indices.tolist() == [0]
    hits = tree.trace_all(o, d)
    assert hits.ray_offsets.tolist() == [0, 1]
    assert hits.primitive_indices.tolist() == [0]
    assert tree.trace_all(o, d, merge_coincident=False).primitive_indices.tolist() == [0, 1]


@pytest.mark.parametrize("divisions", [1, 2, 5, 7])
def test_field_case_edges_and_vertices_of_a_cube(divisions):
    """H10: from the centre, one crossing each, at the point aimed at."""
    triangles = cube(divisions)
    vertices = triangles.reshape(-1, 3).unique(dim=0)
    middles = ((triangles + triangles.roll(1, 1)) / 2).reshape(-1, 3).unique(dim=0)
    targets = torch.cat([vertices, middles])
    tree = bvh.RayBVH(triangles, primitive_type="triangle")
    origin = torch.zeros_like(targets)
    result = tree.trace(origin, targets)
    assert result.mask.all()
    torch.testing.assert_close(result.t, torch.ones(len(targets)), rtol=0, atol=1e-6)
    hits = tree.trace_all(origin, targets)
    assert torch.equal(hits.ray_offsets, torch.arange(len(targets) + 1))
    assert torch.equal(hits.primitive_indices, result.primitive_indices)
    apart = tree.trace_all(origin, targets, merge_coincident=False)
    assert (apart.ray_offsets.diff() >= 2).all()


def test_joints_of_a_polyline():
    """A ray through a vertex that two segments share crosses once, also where float32 cannot hold the angle."""
    angle = torch.arange(401) * (2 * math.pi / 400)
    ring = torch.stack([angle.cos(), angle.sin()], 1)
    ring[-1] = ring[0]
    segments = torch.stack([ring[:-1], ring[1:]], 1)
    tree = bvh.RayBVH(segments, primitive_type="segment")
    hits = tree.trace_all(torch.zeros(400, 2), ring[:-1])
    assert torch.equal(hits.ray_offsets, torch.arange(401))
    torch.testing.assert_close(hits.t, torch.ones(400), rtol=1e-6, atol=1e-6)
    start = torch.tensor([0.3, -0.2]).expand(400, 2)
    assert torch.equal(tree.trace_all(start, ring[:-1] - start).ray_offsets, torch.arange(401))


def test_axis_aligned_rays_along_box_faces():
    """Rays in the planes that bound the boxes of the tree."""
    triangles = cube(4)
    tree = bvh.RayBVH(triangles, primitive_type="triangle")
    grid = torch.linspace(-1, 1, 9)
    u, v = (x.reshape(-1) for x in torch.meshgrid(grid, grid, indexing="ij"))
    for axis in range(3):
        o = torch.zeros((81, 3))
        o[:, axis], o[:, (axis + 1) % 3], o[:, (axis + 2) % 3] = -5.0, u, v
        d = torch.zeros((81, 3))
        d[:, axis] = 1.0
        result = tree.trace(o, d)
        index, _ = dense_closest(triangles, o, d)
        assert torch.equal(result.primitive_indices, index)
        assert result.mask.all()
        assert (result.t == 4).all()


def test_coinciding_primitives_go_to_the_lowest_index():
    triangle = torch.tensor([[[-1.0, -1, 0], [2, -1, 0], [-1, 2, 0]]])
    copies = torch.cat([triangle + torch.tensor([0.0, 0, 1e-3])] * 3 + [triangle] * 40)
    o, d = torch.tensor([[0.0, 0, -2]]), torch.tensor([[0.0, 0, 1]])
    tree = bvh.RayBVH(copies, primitive_type="triangle")
    assert tree.trace(o, d).primitive_indices.tolist() == [3]
    assert tree.trace_all(o, d).primitive_indices.tolist() == [3, 0]
    assert tree.trace_all(o, d, merge_coincident=False).primitive_indices.tolist() == [*range(3, 43), 0, 1, 2]


def waiting(nodes, dim):
    """The most entries that a search of the tree may have on its stack."""
    nodes = nodes.reshape(-1, 16 * (dim + 1))
    links = nodes.view(np.int32)[:, 16 * dim : 16 * dim + 8]
    used = nodes[:, :8] <= nodes[:, 8:16]
    most, before = 0, {0: 0}
    while before:
        node, entries = before.popitem()
        children = links[node][used[node]]
        entries += len(children) - 1
        most = max(most, entries)
        before.update({int(child): entries for child in children if child >= 0})
    return most


@pytest.mark.parametrize("by_level", [False, True])
def test_a_tree_as_deep_as_they_come_fits_the_stack(by_level):
    """Ever smaller crowds about a corner, each a step of the codes, and a heap of equal ones in the corner itself."""
    g = generator(8)
    octants = torch.tensor([[i & 1, i >> 1 & 1, i >> 2] for i in range(1, 8)], dtype=torch.float32)
    crowds = [
        2.0**-step * (octants[:, None, None] + 0.4 + 0.2 * torch.rand((7, 24, 3, 3), generator=g))
        for step in range(1, 21)
    ]
    heap = (1e-9 * torch.rand((1, 3, 3), generator=g)).expand(3000, 3, 3)
    primitives = torch.cat([heap, *(crowd.reshape(-1, 3, 3) for crowd in crowds)])
    count = len(primitives)
    aim = primitives[torch.randint(3000, count, (400,), generator=g)].mean(1)
    o = torch.randn((400, 3), generator=g)
    flat = wrap_vectors(primitives.reshape(-1, 3).contiguous())
    forest = rays.build(flat, 1, count, 3, wp.get_device("cpu"), by_level=by_level)
    assert 90 < waiting(forest.nodes.numpy(), 3) < STACK - 1
    index = torch.empty(400, dtype=torch.int64)
    t, points = torch.empty(400), torch.empty((400, 3))
    outputs = wrap(index), wrap(t), wrap_vectors(points)
    rays.closest(forest, wrap_vectors(o), wrap_vectors(aim - o), 400, 1e-7, math.inf, *outputs)
    want, _ = dense_closest(primitives, o, aim - o)
    assert torch.equal(index, want)
    assert (index >= 0).sum() > 390


def test_far_from_the_origin():
    primitives, o, d = scene(3, 500)
    shift = torch.tensor([4096.0, -8192.0, 2048.0])
    moved = primitives + shift
    index, t = dense_closest(moved, o + shift, d)
    result = bvh.raytrace(moved, o + shift, d, primitive_type="triangle")
    assert torch.equal(result.primitive_indices, index)
    torch.testing.assert_close(result.t.double(), t, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("loss", ["t", "points", "both"])
def test_gradients(dim, loss):
    primitives, o, d = (x.requires_grad_() for x in scene(dim, 80, rays=400))
    result = bvh.raytrace(primitives, o, d, primitive_type=KIND[dim])
    index, mask = result.primitive_indices, result.mask
    wide = [x.detach().double().requires_grad_() for x in (primitives, o, d)]
    _, all_t = dense(wide[0], wide[1], wide[2])
    t = all_t.gather(1, index.clamp_min(0)[:, None])[:, 0]
    points = wide[1] + t[:, None] * wide[2]
    g = generator(4)
    weights = torch.randn(400, generator=g), torch.randn((400, dim), generator=g)

    def total(t, points):
        value = 0.0
        if loss != "points":
            value = value + (t * weights[0])[mask].sum()
        if loss != "t":
            value = value + (points * weights[1])[mask].sum()
        return value

    got = torch.autograd.grad(total(result.t, result.points), (primitives, o, d))
    want = torch.autograd.grad(total(t, points), wide)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-5, atol=2e-5 * float(b.abs().max()))
    assert (got[1][~mask] == 0).all()
    assert (got[2][~mask] == 0).all()
    untouched = torch.ones(80, dtype=torch.bool)
    untouched[index[mask]] = False
    assert (got[0][untouched] == 0).all()


def test_gradients_are_finite_differences():
    triangle = torch.tensor([[[-1.0, -1, 0.3], [2, -1, -0.2], [-1, 2, 0.1]]])
    o, d = torch.tensor([[0.1, 0.05, -2.0]]), torch.tensor([[0.03, 0.02, 1.0]])
    live = [x.requires_grad_() for x in (triangle, o, d)]
    result = bvh.raytrace(*live, primitive_type="triangle")
    grads = torch.autograd.grad(result.t.sum() + result.points.sum(), live)
    for which, grad in enumerate(grads):
        for place in range(grad.numel()):
            ends = []
            for sign in (1, -1):
                moved = [x.detach().clone() for x in live]
                moved[which].reshape(-1)[place] += sign * 2.0**-8
                r = bvh.raytrace(*moved, primitive_type="triangle")
                ends.append(float(r.t.double().sum() + r.points.double().sum()))
            assert (ends[0] - ends[1]) / 2.0**-7 == pytest.approx(float(grad.reshape(-1)[place]), abs=1e-3)


def test_gradients_of_all_hits():
    primitives, o, d = (x.requires_grad_() for x in scene(3, 50, rays=100))
    tree = bvh.RayBVH(primitives, primitive_type="triangle")
    hits = tree.trace_all(o, d)
    got = torch.autograd.grad(hits.t.sum(), (primitives, o, d))
    wide = [x.detach().double().requires_grad_() for x in (primitives, o, d)]
    _, t = dense(*wide)
    want = torch.autograd.grad(t[hits.ray_indices, hits.primitive_indices].sum(), wide)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=2e-5 * float(b.abs().max()))


def test_batched_gradients_reach_their_own_scene():
    a, b = scene(2, 40, rays=60), scene(2, 40, rays=60, seed=1)
    primitives, o, d = (torch.stack(x).requires_grad_() for x in zip(a, b, strict=True))
    result = bvh.raytrace(primitives, o, d, primitive_type="segment")
    (got,) = torch.autograd.grad(result.t[1][result.mask[1]].sum(), primitives)
    assert (got[0] == 0).all()
    alone = b[0].requires_grad_()
    single = bvh.raytrace(alone, b[1], b[2], primitive_type="segment")
    (want,) = torch.autograd.grad(single.t[single.mask].sum(), alone)
    torch.testing.assert_close(got[1], want)


def test_only_misses_have_zero_gradients():
    primitives, o, d = (x.requires_grad_() for x in scene(3, 5, rays=20))
    result = bvh.raytrace(primitives, o, o, primitive_type="triangle", t_min=1e6)
    assert not result.mask.any()
    result.t[result.mask].sum().backward()
    assert (o.grad == 0).all()
    assert (primitives.grad == 0).all()
    assert d.grad is None


def test_traversal_keeps_the_values_and_gradients_reach_the_tensor():
    primitives, o, d = scene(3, 60)
    primitives.requires_grad_()
    before = bvh.raytrace(primitives, o, d, primitive_type="triangle")
    tree = bvh.RayBVH(primitives, primitive_type="triangle")
    (want,) = torch.autograd.grad(before.t[before.mask].sum(), primitives)
    with torch.no_grad():
        primitives.add_(100)
    after = tree.trace(o, d)
    assert torch.equal(after.primitive_indices, before.primitive_indices)
    after.t[after.mask].sum().backward()
    assert torch.equal(primitives.grad, want)


@pytest.mark.parametrize("name", ["origins", "directions"])
def test_changing_rays_in_place_is_noticed(name):
    primitives, o, d = scene(3, 60)
    o, d = o.requires_grad_() * 1, d.requires_grad_() * 1
    result = bvh.raytrace(primitives, o, d, primitive_type="triangle")
    with torch.no_grad():
        (o if name == "origins" else d).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.t[result.mask].sum().backward()


def test_field_case_reentrant_backward():
    """H14."""
    primitives, o, d = (x.requires_grad_() for x in scene(3, 60))
    result = bvh.raytrace(primitives, o, d, primitive_type="triangle")
    total = result.t[result.mask].sum()
    total.backward(retain_graph=True)
    once = [x.grad.clone() for x in (primitives, o, d)]
    total.backward()
    for x, g in zip((primitives, o, d), once, strict=True):
        assert torch.equal(x.grad, 2 * g)
        assert (g != 0).any()


def test_results_are_freed_without_the_collector():
    """No cycle between a result and its graph."""
    primitives, o, d = scene(3, 60)
    gc.collect()
    gc.disable()
    try:
        result = bvh.raytrace(primitives.requires_grad_(), o, d, primitive_type="triangle")
        graph = weakref.ref(result.t.grad_fn.next_functions[0][0])
        assert graph() is not None
        del result
        assert graph() is None
    finally:
        gc.enable()


def test_non_contiguous():
    primitives, o, d = scene(3, 60)
    strided = torch.stack([primitives] * 2, -1)[..., 0]
    got = bvh.raytrace(strided, o.T.contiguous().T, d.flip(0).flip(0), primitive_type="triangle")
    assert torch.equal(got.t, bvh.raytrace(primitives, o, d, primitive_type="triangle").t)


@pytest.mark.parametrize("cls", [bvh.RayHitResult])
def test_result_is_a_dataclass(cls):
    assert set(cls.__dataclass_fields__) == {"primitive_indices", "t", "points", "mask"}
