"""Threads, worker processes, inference mode, tapes, devices: the surroundings a call may find."""

import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import warp as wp

import bvh
from bvh import warp as door
from kernels import lanes
from kernels.points import (
    binary,
    blend,
    bucket_kernels,
    farthest,
    leaves,
    mls,
    mls_eight,
    morton,
    rays,
    scatter,
    search,
    tree,
)
from tests.bvh.clouds import CLOUDS, brute_knn, clustered, generator, uniform


def modules():
    """Every Warp module of the point kernels."""
    for dim in (2, 3):
        yield morton._kernels(dim).point_codes.module
        yield binary._kernels(dim).split_all.module
        yield tree._kernels(dim).collapse_all.module
        yield leaves._kernels(dim).pack.module
        for size in (*search.SIZES, 0):
            yield search._kernels(dim, size).query.module
        yield farthest._kernels(dim).scan.module
        yield bucket_kernels.kernels_of(dim).select.module
        for room in mls.ROOMS:
            yield mls._kernels(dim, room).forward.module
        for wanted in (1, dim + 1):
            yield mls_eight._kernels(dim, wanted).forward.module
        yield rays._build_kernels(dim).primitive_boxes.module
        for mode in ("closest", "count", "fill"):
            yield rays._trace_kernel(dim, mode).module
    yield blend._kernels().blend.module
    yield scatter._kernels().count.module
    yield rays._merge_kernel().module


@pytest.mark.parametrize("module", list(modules()), ids=lambda module: module.name)
def test_compiles_for_cuda(module):
    with tempfile.TemporaryDirectory() as folder:
        wp.compile_aot_module(module, arch=90, module_dir=folder, use_ptx=True)
        text = "".join(path.read_text() for path in Path(folder).rglob("*.ptx"))
    assert ".target sm_90" in text
    assert text.count(".entry") >= len(module.kernels) > 0


def test_kernels_have_no_adjoint_and_round_alike_everywhere():
    for module in modules():
        assert module.options["enable_backward"] is False
        assert module.options["fuse_fp"] is False


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("dim", [2, 3])
def test_the_tree_built_level_by_level_answers_alike(name, dim):
    """What a CUDA device runs: one launch a level, with counters."""
    points = CLOUDS[name](800, dim)
    queries = CLOUDS[name](100, dim, seed=3)[:100]
    count = points.shape[0]
    vectors = {2: wp.vec2, 3: wp.vec3}[dim]
    forest = tree.build_forest(
        wp.array(points.numpy(), dtype=vectors, device="cpu"),
        wp.array([0, count // 3, count // 3, count], dtype=wp.int32, device="cpu"),
        3,
        count,
        dim,
        wp.get_device("cpu"),
        by_level=True,
    )
    indices, squared = door.knn(
        forest, wp.array(queries.numpy(), dtype=vectors, device="cpu"), 8, query_offsets=[0, 40, 50, 100]
    )
    for rows, part in ((slice(0, 40), points[: count // 3]), (slice(50, 100), points[count // 3 :])):
        want_indices, want_squared = brute_knn(part, queries[rows], 8)
        assert np.array_equal(indices.numpy()[rows], want_indices.numpy())
        assert np.array_equal(squared.numpy()[rows], want_squared.numpy())
    assert (indices.numpy()[40:50] == -1).all()


def test_pairs_sorted_by_radix_give_the_same_sums():
    """What a CUDA device runs for the gradient to features."""
    indices = torch.randint(0, 50, (200, 8), generator=generator(1))
    weights = torch.rand((200, 8, 3), generator=generator(2))
    first = torch.rand((200, 5), generator=generator(3))
    other = torch.rand((200, 2, 5), generator=generator(4))
    layout = blend.Layout(100, 50, 2, 2)
    results = []
    for in_buckets in (True, False):
        out = torch.empty((2 * 50 * 2, 5))
        blend.transpose_blend(
            wp.from_torch(indices),
            wp.from_torch(weights.reshape(-1)),
            3,
            wp.from_torch(first.reshape(-1)),
            wp.from_torch(other.reshape(-1)),
            layout,
            5,
            wp.from_torch(out.reshape(-1)),
            in_buckets=in_buckets,
        )
        results.append(out)
    assert torch.equal(*results)
    want = torch.zeros((200, 5), dtype=torch.float64)
    for r in range(200):
        for j in range(8):
            row = ((r // 100) * 50 + int(indices[r, j])) * 2 + r % 2
            parts = torch.cat([first[r][None], other[r]]).double()
            want[row] += (weights[r, j].double()[:, None] * parts).sum(0)
    torch.testing.assert_close(results[0].double(), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("ridge", mls.RIDGES)
@pytest.mark.parametrize(("k", "channels"), [(8, 16), (5, 3), (23, 41)])
@pytest.mark.parametrize("slopes", [False, True])
def test_interpolation_one_query_at_a_time_agrees(dim, ridge, k, channels, slopes):
    """What a CUDA device runs, against eight at a time; some queries lie on points, and some rows are left out."""
    heads, count, total = 2, 150, 2 * 44
    points = uniform(2 * count, dim).reshape(2, count, dim)
    queries = uniform(2 * total, dim, seed=1)
    queries[:9] = points[0, :9]
    indices = torch.cat([brute_knn(points[b], queries[b * total : (b + 1) * total], k)[0] for b in range(2)])
    features = torch.randn((2 * count * heads, channels), generator=generator(2))
    arriving = torch.randn((2 * total, channels), generator=generator(3))
    arriving_slopes = torch.randn((2 * total, dim, channels), generator=generator(4)) if slopes else None
    rows = torch.arange(2 * total, dtype=torch.int32)[torch.arange(2 * total) % 5 != 3]
    layout = blend.Layout(total, count, heads, 2)

    def flat(tensor):
        return None if tensor is None else wp.from_torch(tensor.reshape(-1))

    def vectors(tensor):
        return wp.from_torch(tensor.reshape(-1, dim), dtype={2: wp.vec2, 3: wp.vec3}[dim])

    results = []
    for by_eight in (True, False):
        first = (
            dim,
            vectors(queries),
            vectors(points),
            wp.from_torch(indices),
            flat(features),
            channels,
            ridge,
            layout,
        )
        value, to_queries = torch.zeros((2 * total, channels)), torch.zeros((2 * total, dim))
        slope = torch.zeros((2 * total, dim, channels)) if slopes else None
        to_features = torch.zeros_like(features)
        options = {"rows": wp.from_torch(rows), "by_eight": by_eight}
        mls.forward(*first, flat(value), flat(slope), **options)
        mls.backward(*first, flat(arriving), flat(arriving_slopes), flat(to_queries), flat(to_features), **options)
        results.append([t for t in (value, slope, to_queries, to_features) if t is not None])
    for eight, one in zip(*results, strict=True):
        assert (eight[3::5] == 0).all() or eight is results[0][-1]
        torch.testing.assert_close(eight, one, rtol=1e-5, atol=1e-5 * float(one.abs().max()))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_lanes_gives_the_same_bits(threads):
    points, queries = clustered(30_000, 3), clustered(20_000, 3, seed=2)
    features = torch.randn((30_000, 3), generator=generator(1)).requires_grad_()

    def everything():
        indices, squared = bvh.query_knn(bvh.build_bvh(points), queries, 8)
        value = bvh.mls_interpolate(points, queries, features, 8)
        return indices, squared, value, torch.autograd.grad(value.square().sum(), features)[0]

    want = everything()
    lanes.set_num_threads(threads)
    try:
        got = everything()
    finally:
        lanes.set_num_threads(None)
    for g, w in zip(got, want, strict=True):
        assert torch.equal(g, w)


def test_two_python_threads_at_once():
    points, queries = uniform(5000, 3), uniform(3000, 3, seed=1)
    handle = bvh.build_bvh(points)
    want = [bvh.query_knn(handle, queries, k)[0] for k in (4, 8)]
    wrong = []

    def work(k, expected):
        q = queries.clone().requires_grad_()
        f = torch.rand((5000, 2), generator=generator(3)).requires_grad_()
        for _ in range(15):
            if not torch.equal(bvh.query_knn(handle, queries, k)[0], expected):
                wrong.append(k)
            if not torch.equal(bvh.query_knn(bvh.build_bvh(points), queries, k)[0], expected):
                wrong.append(k)
            bvh.mls_interpolate(points, q, f, k).sum().backward()
            if bvh.fps(points, 20).indices.unique().numel() != 20:
                wrong.append("fps")

    threads = [threading.Thread(target=work, args=pair) for pair in zip((4, 8), want, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Neighbourhoods(torch.utils.data.Dataset):
    def __init__(self, points):
        self.points = points

    def __len__(self):
        return 6

    def __getitem__(self, i):
        points = self.points + i
        indices, _ = bvh.query_knn(bvh.build_bvh(points), points[:50], 4)
        return indices, bvh.fps(points, 5).indices


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_data_loader_workers(context):
    data = Neighbourhoods(uniform(2000, 3))
    want = [data[i] for i in range(6)]  # the parent has its lanes and kernels by now
    loader = torch.utils.data.DataLoader(
        data, batch_size=None, num_workers=2, multiprocessing_context=context, timeout=120
    )
    for got, (indices, chosen) in zip(loader, want, strict=True):
        assert torch.equal(got[0], indices)
        assert torch.equal(got[1], chosen)


def test_inference_mode():
    with torch.inference_mode():
        points, queries = torch.rand(200, 3), torch.rand(30, 3)
        features = torch.rand(200, 4)
        indices, squared, positions = bvh.query_knn(bvh.build_bvh(points), queries, 4, source_points=points)
        assert torch.equal(indices, brute_knn(points, queries, 4)[0])
        assert positions.shape == (30, 4, 3)
        assert bvh.mls_interpolate(points, queries, features, 8).shape == (30, 4)
        assert bvh.fps(points, 10).indices.shape == (10,)
        assert bvh.raytrace(torch.rand(5, 3, 3), queries, queries, primitive_type="triangle").t.shape == (30,)
        pos, q = points[None], queries[None, :, None].expand(1, 30, 2, 3)
        assert bvh.query_displaced_knn(pos[:, :30], q, 4)[0].shape == (1, 30, 2, 4)
    assert squared.is_inference()


def test_no_grad_and_inputs_that_require_grad():
    points, queries = torch.rand(50, 3, requires_grad=True), torch.rand(9, 3, requires_grad=True)
    _, squared = bvh.query_knn(bvh.build_bvh(points), queries, 4)
    assert not squared.requires_grad
    with torch.no_grad():
        value = bvh.mls_interpolate(points, queries, torch.rand(50, 1, requires_grad=True), 4)
    assert not value.requires_grad
    assert points.grad is None
    assert queries.grad is None


@wp.kernel
def _cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


def test_an_enclosing_tape_is_left_alone():
    x = wp.array([2.0], dtype=float, requires_grad=True, device="cpu")
    y = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    points = wp.array(uniform(700, 3).numpy(), dtype=wp.vec3, requires_grad=True, device="cpu")
    torch_points, queries = uniform(700, 3), uniform(600, 3).requires_grad_()
    features = torch.rand((700, 2), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(_cube, 1, inputs=[x, y], device="cpu")
        forest = door.build(points)
        door.knn(forest, points, 5)
        door.fps(points, 10)
        bvh.mls_interpolate(torch_points, queries, features, 8).sum().backward()
        bvh.raytrace(torch.rand(9, 3, 3), queries, queries, primitive_type="triangle")
        bvh.fps(torch_points, 10, mode="exact_full_scan")
    assert len(tape.launches) == 1
    tape.backward(grads={y: wp.ones(1, dtype=float, device="cpu")})
    assert float(x.grad.numpy()[0]) == 12.0
    assert (points.grad.numpy() == 0).all()


class TestDoor:
    @pytest.mark.parametrize("dim", [2, 3])
    @pytest.mark.parametrize("k", [1, 5, 16, 64])
    def test_neighbours(self, dim, k):
        vectors = {2: wp.vec2, 3: wp.vec3}[dim]
        points, queries = uniform(500, dim), uniform(90, dim, seed=1)
        forest = door.build(wp.array(points.numpy(), dtype=vectors, device="cpu"))
        indices, squared = door.knn(forest, wp.array(queries.numpy(), dtype=vectors, device="cpu"), k)
        want_indices, want_squared = brute_knn(points, queries, k)
        assert isinstance(indices, wp.array)
        assert np.array_equal(indices.numpy(), want_indices.numpy())
        assert np.array_equal(squared.numpy(), want_squared.numpy())

    def test_batches_and_ragged(self):
        points = uniform(3 * 100, 3).reshape(3, 100, 3)
        array = wp.array(points.numpy(), dtype=wp.vec3, device="cpu")
        indices, _ = door.knn(door.build(array), array, 4)
        assert np.array_equal(indices.numpy().reshape(3, 100, 4), bvh.query_knn(bvh.build_bvh(points), points, 4)[0])
        flat = wp.array(points.reshape(-1, 3).numpy(), dtype=wp.vec3, device="cpu")
        offsets = [0, 10, 10, 300]
        forest = door.build(flat, offsets=wp.array(offsets, dtype=wp.int32, device="cpu"))
        indices, squared = door.knn(forest, flat, 4, query_offsets=offsets)
        assert np.array_equal(indices.numpy()[:10], brute_knn(points[0, :10], points[0, :10], 4)[0])
        missing, _ = door.knn(forest, flat, 16, query_offsets=offsets)
        assert (missing.numpy()[:10, 10:] == -1).all()
        assert (squared.numpy()[:, 0] == 0).all()

    def test_strided_arrays(self):
        wide = wp.array(uniform(200, 3).numpy(), dtype=wp.vec3, device="cpu")
        points = wide[::2]
        assert not points.is_contiguous
        indices, _ = door.knn(door.build(points), points, 4)
        dense = torch.from_numpy(points.numpy())
        assert np.array_equal(indices.numpy(), brute_knn(dense, dense, 4)[0])

    def test_farthest_points(self):
        points = torch.stack([uniform(120, 2), uniform(120, 2, seed=1)])
        chosen, anchors, gaps = door.fps(wp.array(points.numpy(), dtype=wp.vec2, device="cpu"), 30, seed=7)
        want = bvh.fps(points, 30, seed=7)
        assert np.array_equal(chosen.numpy(), want.indices)
        assert np.array_equal(anchors.numpy().reshape(2, 120), want.nearest_anchor)
        assert np.array_equal(gaps.numpy().reshape(2, 120), want.nearest_anchor_dist_sq)

    @pytest.mark.parametrize(
        ("call", "kind", "words"),
        [
            (lambda p, f: door.build(np.zeros((3, 3))), TypeError, "points must be a wp.array"),
            (lambda p, f: door.build(wp.zeros(3, dtype=float, device="cpu")), TypeError, "wp.vec2 or wp.vec3"),
            (lambda p, f: door.build(p[:0]), ValueError, "points must hold"),
            (lambda p, f: door.build(p, offsets=[0, 30, 20, 40]), ValueError, "offsets must rise"),
            (lambda p, f: door.knn(3, p, 4), TypeError, "forest must be a Forest"),
            (lambda p, f: door.knn(f, p, 65), ValueError, "k must be an integer from 1 to 64"),
            (lambda p, f: door.knn(f, wp.zeros(3, dtype=wp.vec2, device="cpu"), 4), ValueError, "dimension 3"),
            (lambda p, f: door.knn(f, p.reshape((2, 20)), 4), ValueError, "queries must hold 1 samples"),
            (lambda p, f: door.fps(p, 41), ValueError, "count must be"),
            (lambda p, f: door.fps(p, 4, seed=40), ValueError, "seed must be"),
        ],
    )
    def test_errors(self, call, kind, words):
        points = wp.array(uniform(40, 3).numpy(), dtype=wp.vec3, device="cpu")
        with pytest.raises(kind, match=words):
            call(points, door.build(points))


def test_sets_without_any_point():
    handle = bvh.build_bvh(torch.empty((0, 3)), batch_offsets=torch.tensor([0, 0, 0]), allow_empty=True)
    indices, squared, positions = bvh.query_knn(
        handle,
        torch.rand(3, 3),
        4,
        query_offsets=torch.tensor([0, 1, 3]),
        source_points=torch.empty((0, 3)),
        pad=True,
    )
    assert (indices == -1).all()
    assert torch.isinf(squared).all()
    assert torch.isnan(positions).all()


def test_values_that_are_not_finite_break_nothing():
    """Their results mean nothing, but they neither crash nor spoil the others."""
    points = uniform(500, 3)
    points[7] = float("nan")
    queries = uniform(1000, 3, seed=1)
    queries[3] = float("inf")
    queries[4::50] = float("nan")
    indices, _ = bvh.query_knn(bvh.build_bvh(points), queries, 4)
    assert indices.max() < 500
    sound = queries.isfinite().all(1)
    kept = torch.arange(500) != 7
    want = brute_knn(points[kept], queries[sound], 4)[0]
    assert torch.equal(indices[sound], torch.arange(500)[kept][want])
    features = torch.rand(500, 2, requires_grad=True)
    bvh.mls_interpolate(points, queries.requires_grad_(), features, 4)[5:].sum().backward()
    bvh.raytrace(uniform(27, 3).reshape(9, 3, 3), queries, queries, primitive_type="triangle")
    bvh.fps(points, 20)
