"""Moving least squares: values, slopes, and every statement about gradients, both ways."""

import pytest
import torch

import bvh
from tests.bvh.clouds import CLOUDS, generator, mls_reference, uniform


def rand(*shape, seed=0):
    return torch.rand(shape, generator=generator(seed))


def setup(dim=3, count=300, queries=120, channels=5, seed=0):
    points = uniform(count, dim, seed=seed)
    q = uniform(queries, dim, seed=seed + 1).requires_grad_()
    f = torch.randn((count, channels), generator=generator(seed + 2)).requires_grad_()
    return points, q, f


def neighbours(points, queries, k):
    return bvh.query_knn(bvh.build_bvh(points), queries.detach(), k)[0]


def double(tensor):
    return tensor.detach().double().requires_grad_()


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("k", [4, 8, 16, 11])
@pytest.mark.parametrize("ridge", ["absolute", "relative"])
@pytest.mark.parametrize("channels", [1, 5, 16, 37])
def test_values_slopes_and_gradients_match_the_definition(dim, k, ridge, channels):
    points, q, f = setup(dim, channels=channels)
    value, slopes = bvh.mls_interpolate(points, q, f, k, return_grad=True, regularization=ridge)
    assert value.shape == (120, channels)
    assert slopes.shape == (120, dim, channels)
    qd, fd = double(q), double(f)
    want_value, want_slopes = mls_reference(points, qd, fd, neighbours(points, q, k), ridge)
    torch.testing.assert_close(value.double(), want_value, rtol=8e-4, atol=2e-4)
    torch.testing.assert_close(slopes.double(), want_slopes, rtol=8e-4, atol=2e-4)
    gv, gs = torch.randn_like(value), torch.randn_like(slopes)
    for outputs, want_outputs in (
        ((value * gv).sum(), (want_value * gv).sum()),
        ((slopes * gs).sum(), (want_slopes * gs).sum()),
        ((value * gv).sum() + (slopes * gs).sum(), (want_value * gv).sum() + (want_slopes * gs).sum()),
    ):
        got = torch.autograd.grad(outputs, (q, f), retain_graph=True)
        want = torch.autograd.grad(want_outputs, (qd, fd), retain_graph=True)
        for g, w in zip(got, want, strict=True):
            assert g.dtype == torch.float32
            torch.testing.assert_close(g.double(), w, rtol=3e-3, atol=3e-3 * float(w.abs().mean()))


@pytest.mark.parametrize("dim", [2, 3])
def test_well_placed_neighbours_to_rounding(dim):
    axes = torch.arange(6, dtype=torch.float32)
    points = torch.stack(torch.meshgrid(*[axes] * dim, indexing="ij"), -1).reshape(-1, dim)
    q = (1.5 + 2 * rand(40, dim)).requires_grad_()
    f = torch.randn((points.shape[0], 3), generator=generator(4)).requires_grad_()
    value, slopes = bvh.mls_interpolate(points, q, f, 16, return_grad=True)
    qd, fd = double(q), double(f)
    want_value, want_slopes = mls_reference(points, qd, fd, neighbours(points, q, 16))
    torch.testing.assert_close(value.double(), want_value, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(slopes.double(), want_slopes, rtol=2e-5, atol=2e-5)
    weights = torch.randn_like(value)
    got = torch.autograd.grad((value * weights).sum(), (q, f))
    want = torch.autograd.grad((want_value * weights).sum(), (qd, fd))
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g.double(), w, rtol=5e-5, atol=5e-5)


def test_query_gradient_is_a_finite_difference():
    """Of the operator itself, in float32, with steps small enough to keep the neighbours."""
    points, q, f = setup(2, count=60, queries=8, channels=2)
    value = bvh.mls_interpolate(points, q, f, 8)
    weights = torch.randn_like(value)
    (grad,) = torch.autograd.grad((value * weights).sum(), q)
    step = 2.0**-10
    for axis in range(2):
        move = torch.zeros_like(q)
        move[:, axis] = step
        kept = (neighbours(points, q + move, 8) == neighbours(points, q - move, 8)).all(1)
        high, low = (bvh.mls_interpolate(points, (q + s * move).detach(), f.detach(), 8) for s in (1, -1))
        difference = ((high - low).double() * weights / (2 * step)).sum(1)
        assert kept.sum() >= 4
        torch.testing.assert_close(grad[kept, axis].double(), difference[kept], rtol=1e-2, atol=2e-2)


def test_the_bandwidth_is_differentiated():
    """Holding it constant would be off by far more than this tolerance."""
    points = torch.tensor([[0.0, 0.0], [1.0, 0.1], [0.2, 1.1], [-1.3, 0.4]])
    q = torch.tensor([[0.3, 0.2]], requires_grad=True)
    f = torch.tensor([[0.0], [3.0], [-2.0], [7.0]])
    (got,) = torch.autograd.grad(bvh.mls_interpolate(points, q, f, 4).sum(), q)
    qd = double(q)
    index = neighbours(points, q, 4)
    (want,) = torch.autograd.grad(mls_reference(points, qd, f, index)[0].sum(), qd)
    torch.testing.assert_close(got.double(), want, rtol=1e-3, atol=1e-3)
    delta = qd[:, None] - points.double()[index]
    squared = (delta**2).sum(-1)
    basis = torch.cat([torch.ones_like(squared)[..., None], delta], -1)
    weights = torch.exp(-squared / (2 * squared[:, 1:2].detach()))
    matrix = torch.einsum("nk,nki,nkj->nij", weights, basis, basis) + 1e-6 * torch.eye(3, dtype=torch.float64)
    right = torch.einsum("nk,nki,nkc->nic", weights, basis, f.double()[index])
    (frozen,) = torch.autograd.grad(torch.linalg.solve(matrix, right)[:, 0].sum(), qd)
    assert (frozen - want).abs().max() > 0.1


def test_slopes_are_minus_the_gradient_of_the_field():
    points = uniform(400, 3)
    gradient = torch.tensor([1.0, -2.0, 0.5])
    features = (points @ gradient)[:, None]
    _, slopes = bvh.mls_interpolate(points, uniform(20, 3, seed=1), features, 8, return_grad=True)
    torch.testing.assert_close(slopes[..., 0], -gradient.expand(20, 3), rtol=0, atol=2e-2)


@pytest.mark.parametrize("scale", [1.0, 1 / 128, 1e-4, 2.0**-40, 1e3])
@pytest.mark.parametrize("span", [1, 2, 3])
def test_relative_ridge_reproduces_linear_fields_on_the_span_at_any_scale(scale, span):
    axes = torch.linalg.qr(torch.randn((3, 3), generator=generator(3)))[0]
    points = (uniform(200, span) @ axes[:span]) * scale
    queries = (0.1 + 0.8 * uniform(50, span, seed=1)) @ axes[:span] * scale
    gradient = axes[0] * 2 + axes[span - 1]

    def field(x):
        return ((x / scale) @ gradient + 3.0)[:, None]

    value, slopes = bvh.mls_interpolate(points, queries, field(points), 8, return_grad=True, regularization="relative")
    torch.testing.assert_close(value, field(queries), rtol=0, atol=2e-5)
    along = slopes[..., 0] @ axes[:span].T * scale
    torch.testing.assert_close(along, -(axes[:span] @ gradient).expand(50, span), rtol=0, atol=2e-3)


def test_the_absolute_ridge_flattens_small_clouds():
    """What the relative one is for."""
    points, queries = uniform(500, 3) / 128, (0.1 + 0.8 * uniform(50, 3, seed=1)) / 128
    errors = {}
    for ridge in ("absolute", "relative"):
        value = bvh.mls_interpolate(points, queries, points[:, :1] * 128, 8, regularization=ridge)
        errors[ridge] = float((value[:, 0] - queries[:, 0] * 128).abs().max())
    assert errors["absolute"] > 1e-3
    assert errors["relative"] < 1e-5


@pytest.mark.parametrize("ridge", ["absolute", "relative"])
def test_exact_hits(ridge):
    points = torch.cat([uniform(50, 2), uniform(50, 2)[:10]])  # ten of them twice
    f = torch.randn((60, 3), generator=generator(1)).requires_grad_()
    q = points[:20].clone().requires_grad_()
    value, slopes = bvh.mls_interpolate(points, q, f, 8, return_grad=True, regularization=ridge)
    want = f[:20].clone()
    want[:10] = (f[:10] + f[50:]) / 2
    torch.testing.assert_close(value, want)
    assert (slopes == 0).all()
    (value.sum() + slopes.sum()).backward()
    assert (q.grad == 0).all()
    expected = torch.zeros_like(f)
    expected[:10], expected[10:20], expected[50:] = 0.5, 1.0, 0.5
    torch.testing.assert_close(f.grad, expected)


def test_points_get_no_gradient():
    points, q, f = setup()
    points.requires_grad_()
    value, slopes = bvh.mls_interpolate(points, q, f, 8, return_grad=True)
    (value.sum() + slopes.sum()).backward()
    assert points.grad is None
    assert q.grad is not None
    assert f.grad is not None


@pytest.mark.parametrize("which", ["queries", "features"])
def test_only_the_gradient_that_is_asked_for(which):
    points, q, f = setup()
    both = torch.autograd.grad(bvh.mls_interpolate(points, q, f, 8).square().sum(), (q, f))
    live = (q, f.detach()) if which == "queries" else (q.detach(), f)
    wanted = q if which == "queries" else f
    (alone,) = torch.autograd.grad(bvh.mls_interpolate(points, *live, 8).square().sum(), wanted)
    assert torch.equal(alone, both[0] if which == "queries" else both[1])


def test_unused_queries_get_exactly_zero():
    points, q, f = setup()
    bvh.mls_interpolate(points, q, f, 8)[::2].sum().backward()
    assert (q.grad[1::2] == 0).all()
    assert (q.grad[::2] != 0).any(1).all()


def test_feature_gradients_are_the_same_on_every_run():
    points, q, f = setup(queries=3000)
    runs = [torch.autograd.grad(bvh.mls_interpolate(points, q, f, 16).square().sum(), f)[0] for _ in range(3)]
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])


@pytest.mark.parametrize("name", ["queries", "features"])
def test_changing_an_input_in_place_is_noticed(name):
    points, q, f = setup()
    q2, f2 = q * 1, f * 1
    value = bvh.mls_interpolate(points, q2, f2, 8)
    with torch.no_grad():
        (q2 if name == "queries" else f2).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.sum().backward()


def test_changing_the_points_leaves_the_gradient_alone():
    """Points are no differentiable input: the operator keeps a copy of its own."""
    points, q, f = setup()
    (want,) = torch.autograd.grad(bvh.mls_interpolate(points, q, f, 8).sum(), q)
    value = bvh.mls_interpolate(points, q, f, 8)
    points.zero_()
    assert torch.equal(torch.autograd.grad(value.sum(), q)[0], want)


def test_field_case_reentrant_backward():
    """H14."""
    points, q, f = setup()
    value = bvh.mls_interpolate(points, q, f, 8)
    value.sum().backward(retain_graph=True)
    once = q.grad.clone(), f.grad.clone()
    value.sum().backward()
    assert torch.equal(q.grad, 2 * once[0])
    assert torch.equal(f.grad, 2 * once[1])
    weight = torch.randn(value.shape, generator=generator(9))
    kept = weight.clone()
    runs = [torch.autograd.grad(bvh.mls_interpolate(points, q, f, 8), (q, f), grad_outputs=weight) for _ in range(3)]
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(run, runs[0], strict=True))
    assert all((g != 0).any() for g in runs[0])
    assert torch.equal(weight, kept)


def test_double_backward_raises():
    points, q, f = setup()
    (grad,) = torch.autograd.grad(bvh.mls_interpolate(points, q, f, 8).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError):
        grad.sum().backward()


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("k", [4, 8])
@pytest.mark.parametrize("ridge", ["absolute", "relative"])
def test_bad_neighbourhoods_stay_finite(name, dim, k, ridge):
    points = CLOUDS[name](120, dim)
    extent = float((points.amax(0) - points.amin(0)).max())
    q = (points[:60] + (0.05 * extent + 1e-3) * torch.randn((60, dim), generator=generator(2))).requires_grad_()
    f = torch.randn((points.shape[0], 3), generator=generator(1)).requires_grad_()
    value, slopes = bvh.mls_interpolate(points, q, f, k, return_grad=True, regularization=ridge)
    (value.sum() + 1e-3 * slopes.sum()).backward()
    for tensor in (value, slopes, q.grad, f.grad):
        assert torch.isfinite(tensor).all()
    assert f.grad.abs().sum() > 0
    assert q.grad.abs().sum() > 0


def test_batched_and_heads_equal_loops():
    points = uniform(3 * 90, 3).reshape(3, 90, 3)
    q = uniform(3 * 40 * 2, 3, seed=1).reshape(3, 40, 2, 3).requires_grad_()
    f = torch.randn((3, 90, 2, 17), generator=generator(2)).requires_grad_()
    value, slopes = bvh.bvh_mls_interpolate_batched_heads(points, q, f, 8, return_grad=True)
    assert value.shape == (3, 40, 2, 17)
    assert slopes.shape == (3, 40, 2, 3, 17)
    weights = torch.randn_like(value), torch.randn_like(slopes)
    got = torch.autograd.grad((value * weights[0]).sum() + (slopes * weights[1]).sum(), (q, f))
    total = 0.0
    for h in range(2):
        v, s = bvh.mls_interpolate(points, q[:, :, h], f[:, :, h], 8, return_grad=True)
        torch.testing.assert_close(value[:, :, h], v, rtol=2e-5, atol=2e-5)
        torch.testing.assert_close(slopes[:, :, h], s, rtol=2e-5, atol=2e-5)
        total = total + (v * weights[0][:, :, h]).sum() + (s * weights[1][:, :, h]).sum()
    for g, w in zip(got, torch.autograd.grad(total, (q, f)), strict=True):
        torch.testing.assert_close(g, w, rtol=5e-5, atol=5e-5)
    for b in range(3):
        single = bvh.bvh_mls_interpolate(points[b], q[b, :, 0], f[b, :, 0], 8)
        torch.testing.assert_close(value[b, :, 0], single, rtol=2e-5, atol=2e-5)
        pair = bvh.bvh_mls_interpolate_batched(points, q[:, :, 0], f[:, :, 0], 8)
        torch.testing.assert_close(pair[b], single, rtol=2e-5, atol=2e-5)


def test_non_contiguous_and_zero_size():
    points, q, f = setup(channels=6)
    wide_q = torch.stack([q.detach()] * 2, -1)[..., 0].requires_grad_()
    wide_f = torch.stack([f.detach()] * 2, -1)[..., 1].requires_grad_()
    wide_p = points.T.contiguous().T
    assert not wide_q.is_contiguous()
    assert not wide_f.is_contiguous()
    got = torch.autograd.grad(bvh.mls_interpolate(wide_p, wide_q, wide_f, 8).square().sum(), (wide_q, wide_f))
    want = torch.autograd.grad(bvh.mls_interpolate(points, q, f, 8).square().sum(), (q, f))
    for g, w in zip(got, want, strict=True):
        assert torch.equal(g, w)
    empty = torch.empty((0, 3), requires_grad=True)
    value, slopes = bvh.mls_interpolate(points, empty, f, 8, return_grad=True)
    assert value.shape == (0, 6)
    assert slopes.shape == (0, 3, 6)
    (value.sum() + slopes.sum()).backward()
    assert empty.grad.shape == (0, 3)
    assert (f.grad == 0).all()


def test_queries_beyond_a_piece():
    points, q, f = setup(queries=4097, channels=16)
    value = bvh.mls_interpolate(points, q, f, 4)
    parts = torch.cat([bvh.mls_interpolate(points, part, f, 4) for part in q.split(500)])
    assert torch.equal(value, parts)


class TestGeometry:
    @pytest.mark.parametrize("batched", [False, True])
    def test_results_agree(self, batched):
        points = uniform(200, 3).reshape(2, 100, 3).transpose(0, 1)[:, 1] if not batched else rand(2, 100, 3)
        shape = points.shape[:-1]
        q, f = rand(*shape, 3, seed=1).requires_grad_(), rand(*shape, 4, seed=2).requires_grad_()
        with bvh.PointGeometry(points) as geometry:
            assert geometry.validate(points) is geometry
            assert isinstance(geometry.bvh, bvh.BatchedBVHHandle)
            assert geometry.bvh["batch_size"] == (2 if batched else 1)
            with_it = bvh.mls_interpolate(points, q, f, 8, geometry=geometry)
        got = torch.autograd.grad(with_it.square().sum(), (q, f))  # after it was destroyed
        without = bvh.mls_interpolate(points, q, f, 8)
        torch.testing.assert_close(with_it, without, rtol=2e-5, atol=2e-5)
        for g, w in zip(got, torch.autograd.grad(without.square().sum(), (q, f)), strict=True):
            torch.testing.assert_close(g, w, rtol=5e-5, atol=5e-5)

    def test_backward_uses_the_snapshot(self):
        points, q, f = setup()
        (want,) = torch.autograd.grad(bvh.mls_interpolate(points, q, f, 8).sum(), q)
        geometry = bvh.PointGeometry(points)
        value = bvh.mls_interpolate(points, q, f, 8, geometry=geometry)
        points.zero_()
        geometry.destroy()
        assert torch.equal(torch.autograd.grad(value.sum(), q)[0], want)

    def test_identity_and_change(self):
        points = uniform(50, 3)
        geometry = bvh.PointGeometry(points, experimental_fast=True)
        assert geometry.experimental_fast is True
        with pytest.raises(ValueError, match="different source"):
            geometry.validate(points.clone())
        with pytest.raises(ValueError, match="different source"):
            bvh.mls_interpolate(points.clone(), points[:3], rand(50, 1), 4, geometry=geometry)
        points.add_(1)
        with pytest.raises(ValueError, match="source changed"):
            geometry.validate(points)
        with pytest.raises(ValueError, match="source changed"):
            _ = geometry.bvh
        geometry.destroy()
        with pytest.raises(RuntimeError, match="destroyed"):
            geometry.validate(points.clone())

    def test_changes_of_storage_and_shape_are_noticed(self):
        points = uniform(50, 3)
        geometry = bvh.PointGeometry(points)
        points.data = points.data.clone()
        with pytest.raises(ValueError, match="source changed"):
            geometry.validate(points)
        points = uniform(48, 3)
        geometry = bvh.PointGeometry(points)
        points.resize_(40, 3)
        with pytest.raises(ValueError, match="source changed"):
            geometry.validate(points)

    def test_inference_tensors_are_refused(self):
        with torch.inference_mode():
            points = torch.rand(20, 3)
        with pytest.raises(ValueError, match="inference"):
            bvh.PointGeometry(points)


class TestConditional:
    def inputs(self, k=4):
        g = generator(5)
        mask = torch.rand((2, 30, 3), generator=g) < 0.5
        sides = {}
        for name, count in (("true", 40), ("false", 55)):
            sides[f"{name}_points"] = torch.rand((2, count, 3), generator=g).requires_grad_()
            sides[f"{name}_queries"] = torch.rand((2, 30, 3, 3), generator=g).requires_grad_()
            sides[f"{name}_features"] = torch.randn((2, count, 3, 5), generator=g).requires_grad_()
        return mask, sides

    @pytest.mark.parametrize("fill", [None, True, False])
    def test_equals_choosing_between_two_evaluations(self, fill):
        mask, sides = self.inputs()
        if fill is not None:
            mask.fill_(fill)
        value, slopes = bvh.conditional_mls_interpolate(mask, **sides, return_grad=True)
        both = [
            bvh.bvh_mls_interpolate_batched_heads(
                *(sides[f"{n}_{w}"] for w in ("points", "queries", "features")), 4, return_grad=True
            )
            for n in ("true", "false")
        ]
        want_value = torch.where(mask[..., None], both[0][0], both[1][0])
        want_slopes = torch.where(mask[..., None, None], both[0][1], both[1][1])
        torch.testing.assert_close(value, want_value, rtol=2e-5, atol=2e-5)
        torch.testing.assert_close(slopes, want_slopes, rtol=2e-5, atol=2e-5)
        names = ["true_queries", "true_features", "false_queries", "false_features"]
        live = [sides[n] for n in names]
        got = torch.autograd.grad(value.square().sum() + slopes.sum(), live)
        want = torch.autograd.grad(want_value.square().sum() + want_slopes.sum(), live)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, rtol=5e-5, atol=5e-5 * float(w.abs().max() + 1))

    def test_nothing_leaks_from_the_side_that_is_not_chosen(self):
        mask, sides = self.inputs()
        with torch.no_grad():
            sides["true_queries"][~mask] = float("nan")
            sides["false_queries"][mask] = float("nan")
        value, slopes = bvh.conditional_mls_interpolate(mask, **sides, return_grad=True)
        (value.sum() + slopes.sum()).backward()
        assert torch.isfinite(value).all()
        assert torch.isfinite(slopes).all()
        assert (sides["true_queries"].grad[~mask] == 0).all()
        assert (sides["false_queries"].grad[mask] == 0).all()
        assert torch.isfinite(sides["true_queries"].grad).all()
        assert sides["true_points"].grad is None
        assert sides["false_points"].grad is None

    def test_a_side_that_is_never_chosen(self):
        mask, sides = self.inputs()
        mask.fill_(True)
        with torch.no_grad():
            sides["false_queries"].fill_(float("nan"))
            sides["false_features"].fill_(float("nan"))
        value = bvh.conditional_mls_interpolate(mask, **sides)
        value.sum().backward()
        assert torch.isfinite(value).all()
        assert torch.equal(sides["false_features"].grad, torch.zeros((2, 55, 3, 5)))
        assert torch.equal(sides["false_queries"].grad, torch.zeros((2, 30, 3, 3)))
        assert (sides["true_features"].grad != 0).any()

    def test_geometries_and_a_strided_mask(self):
        mask, sides = self.inputs()
        strided = torch.stack([mask, ~mask], -1)[..., 0]
        assert not strided.is_contiguous()
        geometries = {f"{n}_geometry": bvh.PointGeometry(sides[f"{n}_points"]) for n in ("true", "false")}
        got = bvh.conditional_mls_interpolate(strided, **sides, **geometries)
        torch.testing.assert_close(got, bvh.conditional_mls_interpolate(mask, **sides), rtol=2e-5, atol=2e-5)
        with pytest.raises(ValueError, match="different source"):
            bvh.conditional_mls_interpolate(
                mask, **sides, true_geometry=geometries["false_geometry"], false_geometry=None
            )

    @pytest.mark.parametrize("name", ["true_queries", "false_features"])
    def test_changing_an_input_in_place_is_noticed(self, name):
        mask, sides = self.inputs()
        live = {n: (t * 1 if t.requires_grad else t) for n, t in sides.items()}
        value = bvh.conditional_mls_interpolate(mask, **live)
        with torch.no_grad():
            live[name].mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            value.sum().backward()
