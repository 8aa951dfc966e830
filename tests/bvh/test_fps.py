"""Farthest point sampling against a loop, element by element."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bvh
from kernels.points import buckets
from tests.bvh.clouds import CLOUDS, generator, uniform

EXACT = ["exact_bucketed", "exact_full_scan"]


def loop(points, wanted, seed):
    count = points.shape[0]
    gaps = torch.full((count,), float("inf"))
    anchors = torch.zeros(count, dtype=torch.int32)
    free = torch.ones(count, dtype=torch.bool)
    chosen, current = [], seed
    for i in range(wanted):
        chosen.append(current)
        free[current] = False
        delta = points - points[current]
        squared = delta[:, 0] * delta[:, 0]
        for c in range(1, points.shape[1]):
            squared = squared + delta[:, c] * delta[:, c]
        nearer = squared < gaps
        gaps = torch.where(nearer, squared, gaps)
        anchors[nearer] = i
        open_gaps = torch.where(free, gaps, torch.full_like(gaps, -1))
        current = int((open_gaps == open_gaps.max()).nonzero()[0])
    return torch.tensor(chosen), anchors, gaps


def check(points, result, wanted, seed):
    indices, anchors, gaps = loop(points, wanted, seed)
    assert torch.equal(result.indices, indices)
    assert torch.equal(result.selection_order_indices, indices)
    assert torch.equal(result.points, points[indices])
    assert torch.equal(result.nearest_anchor, anchors)
    assert torch.equal(result.nearest_anchor_dist_sq, gaps)
    counts = torch.bincount(anchors.long(), minlength=wanted)
    radius = torch.zeros(wanted).scatter_reduce_(0, anchors.long(), gaps, "amax")
    assert torch.equal(result.anchor_counts, counts.int())
    assert torch.equal(result.anchor_radius, radius)
    ranks = torch.empty(points.shape[0], dtype=torch.int64)
    ranks[bvh.build_bvh(points)["sorted_indices"]] = torch.arange(points.shape[0])
    assert torch.equal(result.coarse_order, torch.argsort(ranks[indices], stable=True))


@pytest.mark.parametrize("mode", EXACT)
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", CLOUDS)
def test_every_kind_of_set(mode, dim, name):
    points = CLOUDS[name](700, dim)
    wanted = min(300, points.shape[0])
    check(points, bvh.fps(points, wanted, mode=mode, seed=11), wanted, 11)


@pytest.mark.parametrize("mode", EXACT)
@pytest.mark.parametrize(("count", "wanted"), [(1, 1), (2, 2), (7, 3), (49, 49), (1024, 512)])
def test_every_size(mode, count, wanted):
    points = uniform(count, 3, seed=count)
    check(points, bvh.fps(points, wanted, mode=mode), wanted, 0)


def test_many_buckets():
    points = CLOUDS["clustered"](20_000, 3)
    check(points, bvh.fps(points, 400, seed=77), 400, 77)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("dim", [2, 3])
def test_stage_by_stage_equals_one_launch(name, dim, monkeypatch):
    """What sets of many points go through."""
    points = torch.stack([CLOUDS[name](700, dim, seed=seed)[:600] for seed in range(3)])
    whole = bvh.fps(points, 90, seed=5)
    monkeypatch.setattr(buckets, "_SMALL", 0)
    stages = bvh.fps(points, 90, seed=5)
    for field in dataclasses.fields(whole):
        assert torch.equal(getattr(whole, field.name), getattr(stages, field.name)), field.name


def test_types():
    result = bvh.fps(uniform(40, 2), 7)
    want = {
        "indices": ((7,), torch.int64),
        "points": ((7, 2), torch.float32),
        "nearest_anchor": ((40,), torch.int32),
        "nearest_anchor_dist_sq": ((40,), torch.float32),
        "anchor_radius": ((7,), torch.float32),
        "anchor_counts": ((7,), torch.int32),
        "coarse_order": ((7,), torch.int64),
        "selection_order_indices": ((7,), torch.int64),
    }
    assert set(bvh.FPSResult.__dataclass_fields__) == set(want)
    for name, (shape, dtype) in want.items():
        assert getattr(result, name).shape == shape
        assert getattr(result, name).dtype == dtype


@pytest.mark.parametrize("mode", EXACT)
@pytest.mark.parametrize("seed", [0, 5, -1])
def test_batches(mode, seed):
    points = torch.stack([uniform(90, 3, seed=i) for i in range(3)])
    result = bvh.fps(points, 33, mode=mode, seed=seed)
    for b in range(3):
        alone = bvh.fps(points[b], 33, mode=mode, seed=seed)
        for name in bvh.FPSResult.__dataclass_fields__:
            assert torch.equal(getattr(result, name)[b], getattr(alone, name)), name
        if seed == -1:
            middle = (points[b].amin(0) + points[b].amax(0)) / 2
            assert int(alone.indices[0]) == int(((points[b] - middle) ** 2).sum(-1).argmin())


def test_the_middle_goes_to_the_lowest_index():
    points = torch.tensor([[0.0, 0.0], [2.0, 1.0], [0.0, 1.0], [2.0, 0.0]])
    assert bvh.fps(points, 1, seed=-1).indices.tolist() == [0]


@pytest.mark.parametrize("options", [{"bucket_size": 8}, {"bucket_size": 4096}, {"r": 7, "c": 9}, {"use_graph": False}])
def test_tuning_changes_nothing(options):
    points = uniform(600, 3)
    plain, tuned = bvh.fps(points, 100), bvh.fps(points, 100, **options)
    for name in bvh.FPSResult.__dataclass_fields__:
        assert torch.equal(getattr(plain, name), getattr(tuned, name))


@pytest.mark.parametrize("dim", [2, 3])
def test_approximate_mode_keeps_its_bounds(dim):
    points = uniform(1500, dim)
    result = bvh.fps(points, 400, mode="approx_bucketed", bucket_size=256, seed=3)
    assert result.indices[0] == 3
    assert result.indices.unique().numel() == 400
    delta = torch.cdist(points.double(), result.points.double()) ** 2
    nearest, index = delta.min(1)
    torch.testing.assert_close(result.nearest_anchor_dist_sq.double(), nearest, rtol=1e-5, atol=1e-9)
    assert torch.equal(result.nearest_anchor.long(), index)
    exact = bvh.fps(points, 400, seed=3).nearest_anchor_dist_sq
    assert result.nearest_anchor_dist_sq.sqrt().mean() < 1.25 * exact.sqrt().mean()
    assert result.nearest_anchor_dist_sq.max().sqrt() < 1.35 * exact.max().sqrt()


@pytest.mark.parametrize("mode", EXACT)
def test_field_case_duplicates(mode):
    """H13: a point is never chosen twice, and twins never move to each other."""
    four = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 4]])
    points = four.repeat(3, 1)
    assert bvh.fps(points, 4, mode=mode).indices.tolist() == [0, 3, 2, 1]
    all_of_them = bvh.fps(points, 12, mode=mode)
    assert sorted(all_of_them.indices.tolist()) == list(range(12))
    assert all_of_them.anchor_counts.tolist() == [3] * 4 + [0] * 8
    with pytest.raises(ValueError, match="target token count"):
        bvh.fps(points, 13, mode=mode)


@pytest.mark.parametrize("mode", EXACT)
def test_field_case_grid(mode):
    """H13: a grid exact in float32 gives the same choices moved and scaled."""
    axis = (torch.arange(65, dtype=torch.float32) - 32) / 64
    points = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    result = bvh.fps(points, 500, mode=mode)
    assert result.indices[:5].tolist() == [0, 4224, 64, 4160, 2112]
    assert torch.equal(bvh.fps(points + 2, 500, mode=mode).indices, result.indices)
    assert torch.equal(bvh.fps(points / 32, 500, mode=mode).indices, result.indices)
    assert float(result.nearest_anchor_dist_sq.max()) == 8 / 64**2


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data(), dim=st.sampled_from([2, 3]), count=st.integers(1, 150), batch=st.integers(1, 3))
def test_property_equals_the_loop(data, dim, count, batch):
    steps = data.draw(hnp.arrays(np.int8, (batch, count, dim), elements=st.integers(-4, 4)))
    points = torch.from_numpy(steps.astype(np.float32)) / 4
    wanted, seed = data.draw(st.integers(1, count)), data.draw(st.integers(0, count - 1))
    result = bvh.fps(points, wanted, seed=seed)
    for b in range(batch):
        indices, anchors, gaps = loop(points[b], wanted, seed)
        assert torch.equal(result.indices[b], indices)
        assert torch.equal(result.nearest_anchor[b], anchors)
        assert torch.equal(result.nearest_anchor_dist_sq[b], gaps)


def test_nothing_is_differentiable():
    points = uniform(50, 3).requires_grad_()
    result = bvh.fps(points, 10)
    assert not any(getattr(result, name).requires_grad for name in bvh.FPSResult.__dataclass_fields__)
    assert points.grad is None


def test_non_contiguous():
    points = torch.rand((3, 400), generator=generator(2)).T
    assert torch.equal(bvh.fps(points, 60).indices, bvh.fps(points.contiguous(), 60).indices)
