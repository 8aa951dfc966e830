"""k-NN against brute force, index by index, on every kind of set."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial import cKDTree

import bvh
from tests.bvh.clouds import CLOUDS, brute_knn, clustered, generator, lattice, uniform


def agrees(points, queries, k, **options):
    indices, squared = bvh.query_knn(bvh.build_bvh(points), queries, k, **options)
    want_indices, want_squared = brute_knn(points, queries, k)
    assert indices.dtype == torch.int64
    assert squared.dtype == torch.float32
    assert torch.equal(squared, want_squared)
    assert torch.equal(indices, want_indices)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("k", [1, 4, 7, 8, 16, 33, 64])
def test_every_kind_of_set(name, dim, k):
    points = CLOUDS[name](900, dim)
    queries = torch.cat([points[:150], CLOUDS[name](150, dim, seed=5) + 1e-3])
    agrees(points, queries, k)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 9, 16, 17, 18, 33, 129, 1000])
def test_every_size(dim, count):
    points = uniform(count, dim, seed=count)
    for k in {1, min(4, count), min(count, 64)}:
        agrees(points, uniform(70, dim, seed=1), k)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("cloud", [uniform, clustered])
def test_large_sets_match_a_kd_tree(dim, cloud):
    points, queries = cloud(20_000, dim), cloud(5_000, dim, seed=9)
    indices, squared = bvh.query_knn(bvh.build_bvh(points), queries, 8)
    distances, _ = cKDTree(points.double().numpy()).query(queries.double().numpy(), k=8)
    np.testing.assert_allclose(squared.double().sqrt().numpy(), distances, rtol=1e-5, atol=2e-7)
    rows = torch.arange(0, 5_000, 25)
    assert torch.equal(indices[rows], brute_knn(points, queries[rows], 8)[0])


def test_distances_are_differences_squared():
    points, queries = clustered(3000, 3), clustered(400, 3, seed=2)
    indices, squared = bvh.query_knn(bvh.build_bvh(points), queries, 16)
    torch.testing.assert_close(squared, ((points[indices] - queries[:, None]) ** 2).sum(-1))
    assert (squared.diff(dim=1) >= 0).all()


@pytest.mark.parametrize("k", [4, 8, 16, 64])
def test_sorting_queries_changes_nothing(k):
    points, queries = clustered(5000, 3), clustered(3000, 3, seed=4)
    handle = bvh.build_bvh(points)
    for sorted_, unsorted in zip(
        bvh.query_knn(handle, queries, k), bvh.query_knn(handle, queries, k, sort_queries=False), strict=True
    ):
        assert torch.equal(sorted_, unsorted)


def test_a_point_is_its_own_nearest():
    points = uniform(4000, 2)
    indices, squared = bvh.query_knn(bvh.build_bvh(points), points, 4)
    assert torch.equal(indices[:, 0], torch.arange(4000))
    assert (squared[:, 0] == 0).all()


def test_many_coinciding_points_stay_cheap_and_ordered():
    """A box of duplicates can only offer higher indices, so all but one leaf are pruned."""
    points = torch.zeros((200_000, 3))
    indices, squared = bvh.query_knn(bvh.build_bvh(points), torch.zeros((2000, 3)), 16)
    assert torch.equal(indices, torch.arange(16).expand(2000, 16))
    assert (squared == 0).all()


@pytest.mark.parametrize("dim", [2, 3])
def test_batches_are_independent(dim):
    points = torch.stack([cloud(700, dim, seed=i) for i, cloud in enumerate((uniform, clustered, uniform))])
    queries = uniform(3 * 260, dim, seed=8).reshape(3, 260, dim)
    handle = bvh.build_bvh(points)
    indices, squared = bvh.query_knn(handle, queries, 8)
    for b in range(3):
        want_indices, want_squared = brute_knn(points[b], queries[b], 8)
        assert torch.equal(indices[b], want_indices)
        assert torch.equal(squared[b], want_squared)
        assert torch.equal(handle["sorted_indices"][b], bvh.build_bvh(points[b])["sorted_indices"])
    assert torch.equal(bvh.query_knn_batched(handle, queries, 8)[0], indices)
    assert torch.equal(bvh.query_knn(handle, queries, 8, sort_queries=False)[0], indices)


def test_more_samples_than_a_sort_key_holds():
    points = uniform(5000 * 6, 2).reshape(5000, 6, 2)
    queries = uniform(5000 * 2, 2, seed=1).reshape(5000, 2, 2)
    indices, _ = bvh.query_knn(bvh.build_bvh(points), queries, 4)
    delta = ((queries[:, :, None] - points[:, None]) ** 2).sum(-1)
    assert torch.equal(indices, torch.sort(delta, dim=-1, stable=True)[1][..., :4])


def test_ragged_sets_match_single_ones():
    sizes, counts = [37, 4, 900, 16], [5, 1, 600, 33]
    points, queries = uniform(sum(sizes), 3), uniform(sum(counts), 3, seed=3)
    offsets = torch.tensor([0, *np.cumsum(sizes)])
    query_offsets = torch.tensor([0, *np.cumsum(counts)])
    handle = bvh.build_bvh(points, batch_offsets=offsets)
    indices, squared, positions = bvh.query_knn_ragged(handle, queries, query_offsets, 4, source_points=points)
    for i in range(4):
        own = points[offsets[i] : offsets[i + 1]]
        rows = slice(int(query_offsets[i]), int(query_offsets[i + 1]))
        want_indices, want_squared = brute_knn(own, queries[rows], 4)
        assert torch.equal(indices[rows], want_indices)
        assert torch.equal(squared[rows], want_squared)
        assert torch.equal(positions[rows], own[want_indices])
        inner = handle._handles[i]
        assert torch.equal(bvh.query_knn(inner, queries[rows], 4)[0], want_indices)
        assert torch.equal(inner["sorted_indices"], bvh.build_bvh(own)["sorted_indices"])
        torch.testing.assert_close(inner["scene_min"], own.amin(0))


def test_no_queries_and_one_point():
    handle = bvh.build_bvh(torch.rand(1, 3))
    indices, squared = bvh.query_knn(handle, torch.empty((0, 3)), 1)
    assert indices.shape == (0, 1)
    assert squared.shape == (0, 1)
    batched = bvh.build_bvh(torch.rand(2, 5, 2))
    assert bvh.query_knn(batched, torch.empty((2, 0, 2)), 4)[0].shape == (2, 0, 4)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("per_axis", [(1e-7, 1e8), (1e8, 1e-7)])
def test_extents_of_every_size(dim, per_axis):
    scale = torch.tensor([*per_axis, 1.0])[:dim]
    points = uniform(2000, dim) * scale
    agrees(points, points[:300] + 0.01 * scale, 8)


def test_a_deep_tree():
    """Points that halve their distance to the origin again and again use every bit of the codes."""
    steps = 0.5 ** torch.arange(0, 21, dtype=torch.float32)
    axes = torch.eye(3)
    deep = (steps[:, None, None] * axes).reshape(-1, 3)
    points = torch.cat([deep + 1e-9 * i for i in range(40)] + [torch.zeros((500, 3))])
    queries = torch.cat([deep, uniform(64, 3)])
    for k in (4, 64):
        agrees(points, queries, k)


def test_field_case_lattice_far_from_origin():
    """H11: spacing 1/128 on a base of thousands, where expanded squares get nearly all neighbours wrong."""
    axis = torch.arange(8, dtype=torch.float32) / 128
    points = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    points = points + torch.tensor([1000.0, 2000.0, 3000.0])
    indices, squared = bvh.query_knn(bvh.build_bvh(points), points, 2)
    assert torch.equal(indices[:, 0], torch.arange(512))
    assert (squared[:, 1] == (1 / 128) ** 2).all()
    assert float(squared[:, 1].sqrt().sum()) == 4.0


def test_field_case_ties_go_to_the_lowest_index():
    """H11: the unit lattice of five, in C order."""
    axis = torch.arange(5, dtype=torch.float32)
    points = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    indices, _ = bvh.query_knn(bvh.build_bvh(points), points, 4)
    assert indices[62].tolist() == [62, 37, 57, 61]
    assert indices[0].tolist() == [0, 1, 5, 25]


@pytest.mark.parametrize("sizes", [[3, 0, 1, 5], [3, 1, 5, 0]])
def test_field_case_ragged_sets_and_too_few_points(sizes):
    """H12: missing neighbours are -1 at distance inf, and no index belongs to another set."""
    points = uniform(9, 3)
    offsets = torch.tensor([0, *np.cumsum(sizes)])
    queries, query_offsets = uniform(8, 3, seed=1), torch.tensor([0, 2, 4, 6, 8])
    handle = bvh.build_bvh(points, batch_offsets=offsets, allow_empty=True)
    indices, squared, positions = bvh.query_knn(
        handle, queries, 4, query_offsets=query_offsets, source_points=points, pad=True
    )
    for i, size in enumerate(sizes):
        rows = slice(2 * i, 2 * i + 2)
        real = min(size, 4)
        own = points[int(offsets[i]) : int(offsets[i + 1])]
        want_indices, want_squared = brute_knn(own, queries[rows], real)
        assert torch.equal(indices[rows, :real], want_indices)
        assert torch.equal(squared[rows, :real], want_squared)
        assert torch.equal(positions[rows, :real], own[want_indices])
        assert (indices[rows, real:] == -1).all()
        assert torch.isinf(squared[rows, real:]).all()
        assert torch.isnan(positions[rows, real:]).all()
    first_small = next(i for i, size in enumerate(sizes) if size < 4)
    with pytest.raises(ValueError, match=rf"set {first_small} has {sizes[first_small]} points.*at least k"):
        bvh.query_knn(handle, queries, 4, query_offsets=query_offsets)
    empty = sizes.index(0)
    with pytest.raises(ValueError, match=rf"strictly increasing.*set {empty} "):
        bvh.build_bvh(points, batch_offsets=offsets)


def test_padding_single_and_batched():
    points = uniform(3, 2)
    indices, squared = bvh.query_knn(bvh.build_bvh(points), uniform(6, 2, seed=2), 16, pad=True)
    assert torch.equal(indices[:, :3].sort(-1)[0], torch.arange(3).expand(6, 3))
    assert (indices[:, 3:] == -1).all()
    assert torch.isinf(squared[:, 3:]).all()
    source = uniform(2 * 3, 2).reshape(2, 3, 2).requires_grad_()
    found, _, positions = bvh.query_knn(bvh.build_bvh(source), source.detach(), 4, source_points=source, pad=True)
    positions[found >= 0].sum().backward()
    assert torch.equal(source.grad, torch.full((2, 3, 2), 3.0))


@pytest.mark.parametrize("batched", [False, True])
def test_positions_give_gradients_to_the_source_alone(batched):
    shape = (2, 50, 3) if batched else (50, 3)
    points = torch.rand(shape, generator=generator(1)).requires_grad_()
    queries = torch.rand(shape, generator=generator(2)).requires_grad_()
    source = points.detach().clone().requires_grad_()
    indices, squared, positions = bvh.query_knn(bvh.build_bvh(points), queries, 4, source_points=source)
    assert not indices.requires_grad
    assert not squared.requires_grad
    weight = torch.rand(positions.shape, generator=generator(3))
    (positions * weight).sum().backward()
    want = torch.zeros_like(source)
    flat = want.reshape(-1, 3)
    rows = indices + (50 * torch.arange(2)[:, None, None] if batched else 0)
    flat.index_add_(0, rows.reshape(-1), weight.reshape(-1, 3))
    torch.testing.assert_close(source.grad, want)
    assert points.grad is None
    assert queries.grad is None


@pytest.mark.parametrize("function", [bvh.BVHQuery, bvh.BatchedBVHQuery])
def test_query_functions_are_detached(function):
    shape = (60, 3) if function is bvh.BVHQuery else (2, 60, 3)
    points = torch.rand(shape, generator=generator(1)).requires_grad_()
    queries = torch.rand(shape, generator=generator(2)).requires_grad_()
    results = function.apply(points, queries, 8)
    assert [tuple(r.shape[-2:]) for r in results[:2]] == [(60, 8)] * 2
    assert results[2].shape == (*shape[:-1], 8, 3)
    assert not any(r.requires_grad for r in results)
    rows = results[0] if len(shape) == 2 else results[0][1]
    source, own = (points, results[2]) if len(shape) == 2 else (points[1], results[2][1])
    assert torch.equal(own, source.detach()[rows])


def test_non_contiguous_inputs_are_copied():
    points = uniform(3 * 500, 3).reshape(3, 500, 3).transpose(0, 1).reshape(500, 9)[:, ::3]
    queries = uniform(400, 6, seed=2)[::2, 1::2]
    assert not points.is_contiguous()
    assert not queries.is_contiguous()
    agrees(points, queries, 8)


finite = st.floats(-1e4, 1e4, width=32, allow_subnormal=False)
coarse = st.integers(-3, 3).map(float)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    data=st.data(),
    dim=st.sampled_from([2, 3]),
    count=st.integers(1, 120),
    queries=st.integers(0, 20),
    k=st.integers(1, 64),
)
def test_property_equals_brute_force(data, dim, count, queries, k):
    elements = data.draw(st.sampled_from([finite, coarse]))
    points = torch.from_numpy(data.draw(hnp.arrays(np.float32, (count, dim), elements=elements)))
    q = torch.from_numpy(data.draw(hnp.arrays(np.float32, (queries, dim), elements=elements)))
    indices, squared = bvh.query_knn(bvh.build_bvh(points), q, k, pad=True)
    want_indices, want_squared = brute_knn(points, q, k)
    real = min(k, count)
    assert torch.equal(indices[:, :real], want_indices)
    assert torch.equal(squared[:, :real], want_squared)
    assert (indices[:, real:] == -1).all()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_property_ragged_equals_single(sizes, seed):
    if sum(sizes) == 0:
        sizes[0] = 1
    points = lattice(sum(sizes) * 4, 3, seed)[: sum(sizes)]
    offsets = [0, *np.cumsum(sizes).tolist()]
    queries = uniform(3 * len(sizes), 3, seed=seed) * 4
    handle = bvh.build_bvh(points, batch_offsets=torch.tensor(offsets), allow_empty=True)
    query_offsets = torch.arange(0, 3 * len(sizes) + 1, 3)
    indices, _ = bvh.query_knn(handle, queries, 8, query_offsets=query_offsets, pad=True)
    for i, (start, stop) in enumerate(pairwise(offsets)):
        want, _ = brute_knn(points[start:stop], queries[3 * i : 3 * i + 3], min(8, stop - start))
        assert torch.equal(indices[3 * i : 3 * i + 3, : stop - start], want)
