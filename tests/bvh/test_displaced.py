"""Displaced queries, gathered values, weighted means."""

import pytest
import torch

import bvh
from tests.bvh.clouds import generator


def inputs(dim=3, count=60, heads=4, channels=19):
    g = generator(3)
    pos = torch.rand((2, count, dim), generator=g).requires_grad_()
    q = (pos.detach()[:, :, None] + 0.1 * torch.randn((2, count, heads, dim), generator=g)).requires_grad_()
    values = torch.randn((2, count, heads, channels), generator=g).requires_grad_()
    return pos, q, values


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("k", [4, 8, 16, 5])
def test_neighbours_equal_a_batched_query(dim, k):
    pos, q, _ = inputs(dim)
    indices, squared, positions = bvh.query_displaced_knn(pos, q, k)
    assert indices.shape == (2, 60, 4, k)
    assert positions.shape == (2, 60, 4, k, dim)
    want = bvh.query_knn(bvh.build_bvh(pos), q.reshape(2, 240, dim), k, source_points=pos)
    for got, w in zip((indices, squared, positions), want, strict=True):
        assert torch.equal(got.reshape(w.shape), w)
        assert not got.requires_grad
    short = bvh.query_displaced_knn(pos, q, k, return_positions=False)
    assert len(short) == 2
    assert torch.equal(short[0], indices)


def test_gathering_takes_the_head_of_the_query():
    _, _, values = inputs()
    indices = torch.randint(0, 60, (2, 60, 4, 8), generator=generator(1))
    got = bvh.gather_neighbor_values(values, indices)
    want = torch.stack([torch.stack([values[b, indices[b, :, h], h] for h in range(4)], 1) for b in range(2)])
    assert torch.equal(got, want)
    weights = torch.randn(got.shape, generator=generator(2))
    (g,) = torch.autograd.grad((got * weights).sum(), values)
    (w,) = torch.autograd.grad((want * weights).sum(), values)
    torch.testing.assert_close(g, w)
    assert bvh.gather_neighbor_values(values, indices[:, :7]).shape == (2, 7, 4, 8, 19)


@pytest.mark.parametrize("k", [4, 8, 16])
@pytest.mark.parametrize("channels", [1, 19])
def test_weighted_mean(k, channels):
    pos, q, values = inputs(channels=channels)
    out = bvh.interpolate_displaced(pos, q, values, k)
    indices, squared = bvh.query_displaced_knn(pos, q, k, return_positions=False)
    weights = 1 / (squared.double() + 1e-12)
    weights = weights / weights.sum(-1, keepdim=True)
    want = (weights[..., None] * bvh.gather_neighbor_values(values, indices).double()).sum(3)
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-5)
    arriving = torch.randn(out.shape, generator=generator(7))
    (g,) = torch.autograd.grad((out * arriving).sum(), values, retain_graph=True)
    (w,) = torch.autograd.grad((want * arriving).sum(), values)
    torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-5)
    out.sum().backward()
    assert pos.grad is None
    assert q.grad is None
    assert values.grad is not None


def test_exact_hits_are_plain_means():
    pos, _, values = inputs()
    with torch.no_grad():
        pos[:, 30:] = pos[:, :30]  # every point twice
    out = bvh.interpolate_displaced(pos, pos.detach()[:, :, None].expand(2, 60, 4, 3), values, 4)
    half = (values[:, :30] + values[:, 30:]) / 2
    torch.testing.assert_close(out, torch.cat([half, half], 1))


def test_gradient_runs_alike_and_twice():
    """H14."""
    pos, q, values = inputs()
    out = bvh.interpolate_displaced(pos, q, values, 8)
    out.sum().backward(retain_graph=True)
    once = values.grad.clone()
    out.sum().backward()
    assert torch.equal(values.grad, 2 * once)
    again = bvh.interpolate_displaced(pos, q, values, 8).square().sum()
    (grad,) = torch.autograd.grad(again, values, create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(grad.sum(), values)


def test_zero_heads_and_non_contiguous():
    pos, q, values = inputs()
    got = bvh.interpolate_displaced(pos, q.transpose(1, 2).contiguous().transpose(1, 2), values, 8)
    assert torch.equal(got, bvh.interpolate_displaced(pos, q, values, 8))
    none = bvh.interpolate_displaced(pos, q[:, :, :0], values[:, :, :0], 8)
    assert none.shape == (2, 60, 0, 19)
