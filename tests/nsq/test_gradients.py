"""Gradients of a detector map against central differences, closed forms and each other."""

import functools

import numpy as np
import pytest
import torch

import nsq

from . import scenes
from .gradient_scenes import CASES

NUM_RAYS = 1500
PARAMETERS = [(case, name) for case, (nominal, _) in CASES.items() for name in nominal]
# No sampling probability moves with a parameter, so a difference at fixed random numbers sees the same derivative.
STILL = nsq.SamplingPolicy(reflect_prob=0.3, rr_start_flux=0.0)


def functional(detector):
    """A smooth weighting of the map, as different in x and y as can be."""
    ny, nx = detector.irradiance.shape
    y, x = torch.meshgrid(
        torch.linspace(-1.0, 1.0, ny, dtype=torch.float64),
        torch.linspace(-1.0, 1.0, nx, dtype=torch.float64),
        indexing="ij",
    )
    weights = torch.sin(2.1 * x + 0.4) + torch.cos(1.3 * y - 0.2) + 0.7 * x * y + 1.5
    return torch.sum(detector.data * weights.reshape(-1).to(detector.data.dtype))


def evaluate(case, values, seed=3, policy=STILL, mode="prb", num_rays=NUM_RAYS, **options):
    scene = CASES[case][1](values)
    scene.sampling_policy = policy
    # a difference at the same random numbers sees no ray change its fate, so the boundary terms are left out
    backend = nsq.TorchBackend(gradient_mode=mode, visibility="off")
    result = scene.trace(num_rays, max_depth=8, min_flux_fraction=0.0, seed=seed, backend=backend, **options)
    return functional(result.detectors["D"])


def leaves(case):
    return {
        name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in CASES[case][0].items()
    }


@functools.cache
def gradients(case, mode="prb"):
    values = leaves(case)
    grads = torch.autograd.grad(evaluate(case, values, mode=mode), list(values.values()))
    return {name: g.item() for name, g in zip(values, grads, strict=True)}


def difference(case, name, relative_step=1e-6, **options):
    sides = []
    for sign in (1.0, -1.0):
        values = dict(CASES[case][0])
        values[name] *= 1.0 + sign * relative_step
        sides.append((values[name], evaluate(case, values, **options).item()))
    (high, f_high), (low, f_low) = sides
    return (f_high - f_low) / (high - low)


@pytest.mark.parametrize(("case", "name"), PARAMETERS)
def test_central_difference(case, name):
    expected = difference(case, name)
    assert abs(expected) > 1e-7  # the scene does depend on the number
    assert gradients(case)[name] == pytest.approx(expected, rel=1e-5, abs=0.0)


@pytest.mark.parametrize("case", CASES)
def test_path_replay_equals_autograd(case):
    replayed, taped = gradients(case), gradients(case, "autograd")
    for name in replayed:
        assert replayed[name] == pytest.approx(taped[name], rel=1e-10, abs=0.0), name


@pytest.mark.parametrize("mode", ["prb", "autograd"])
def test_two_backward_calls_give_exactly_twice(mode):
    values = leaves("lens")
    value = evaluate("lens", values, mode=mode)
    value.backward(retain_graph=True)
    once = {name: v.grad.clone() for name, v in values.items()}
    value.backward()
    for name, v in values.items():
        assert v.grad.item() == 2.0 * once[name].item() != 0.0, name


@pytest.mark.parametrize("mode", ["prb", "autograd"])
def test_a_reused_output_gradient_gives_the_same_each_time(mode):
    seen = []
    cotangent = None
    for _ in range(3):
        r1 = torch.tensor(60.0, dtype=torch.float64, requires_grad=True)
        scene = CASES["lens"][1]({**CASES["lens"][0], "r1": r1})
        backend = nsq.TorchBackend(gradient_mode=mode)
        data = scene.trace(NUM_RAYS, seed=3, backend=backend).detectors["D"].data
        if cotangent is None:
            cotangent = torch.linspace(0.5, 2.0, data.numel(), dtype=data.dtype)
        kept = cotangent.clone()
        data.backward(cotangent)
        assert torch.equal(cotangent, kept)
        seen.append(r1.grad.item())
    assert seen[0] == seen[1] == seen[2] != 0.0


@pytest.mark.parametrize("mode", ["prb", "autograd"])
def test_a_number_changed_in_place_after_the_trace_raises(mode):
    leaf = torch.tensor(60.0, dtype=torch.float64, requires_grad=True)
    r1 = leaf * 1.0
    value = evaluate("lens", {**CASES["lens"][0], "r1": r1}, mode=mode)
    with torch.no_grad():
        r1.add_(5.0)
    with pytest.raises(RuntimeError, match="inplace"):
        value.backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_gradient_takes_the_type_of_its_parameter(dtype):
    r1 = torch.tensor(CASES["lens"][0]["r1"], dtype=dtype, requires_grad=True)
    evaluate("lens", {**CASES["lens"][0], "r1": r1}).backward()
    assert r1.grad.dtype == dtype
    assert r1.grad.item() == pytest.approx(gradients("lens")["r1"], rel=1e-6)


def test_float32_traces_have_the_same_gradients():
    values = leaves("lens")
    evaluate("lens", values, precision="float32").backward()
    for name, value in values.items():
        assert value.grad.item() == pytest.approx(gradients("lens")[name], rel=5e-3), name


def test_no_graph_without_a_tensor_that_requires_grad():
    assert not evaluate("lens", CASES["lens"][0]).requires_grad
    values = leaves("lens")
    with torch.no_grad():
        assert not evaluate("lens", values).requires_grad


def test_total_flux_is_attached_and_equals_the_sum_of_the_map():
    values = leaves("mirror")
    scene = CASES["mirror"][1](values)
    detector = scene.trace(NUM_RAYS, seed=3).detectors["D"]
    (from_total,) = torch.autograd.grad(detector.total_flux, values["reflectance"], retain_graph=True)
    (from_map,) = torch.autograd.grad(detector.data.sum(), values["reflectance"])
    assert from_total.item() == pytest.approx(from_map.item(), rel=1e-12)
    assert from_total.item() == pytest.approx(1.3, rel=1e-12)  # the whole beam of 1.3 W reaches the map


@pytest.mark.parametrize("name", ["r1", "n", "thickness", "k"])
def test_default_policy_agrees_with_a_fixed_probability_in_expectation(name):
    """With p = R the derivative of the sampling probability is left out and that of the weight is attached."""

    def sample(policy, seeds):
        out = []
        for seed in seeds:
            value = torch.tensor(CASES["lens"][0][name], dtype=torch.float64, requires_grad=True)
            evaluate("lens", {**CASES["lens"][0], name: value}, seed, policy, num_rays=6000).backward()
            out.append(value.grad.item())
        return np.mean(out), np.std(out, ddof=1) / np.sqrt(len(out))

    default, default_error = sample(nsq.SamplingPolicy(), range(24))
    fixed, fixed_error = sample(STILL, range(100, 124))
    error = np.hypot(default_error, fixed_error)
    assert abs(default - fixed) < 3.5 * error
    assert error < 0.1 * abs(fixed)  # sharp enough to tell


@pytest.mark.parametrize("policy", [nsq.SamplingPolicy(), nsq.SamplingPolicy(reflect_prob="auto"), STILL])
def test_transmission_of_a_plate_has_its_closed_derivative(policy):
    """T = 2n / (n^2 + 1) with all internal reflections: the whole derivative sits in the weights of the branches."""
    grads, totals = [], []
    for seed in range(24):
        n = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
        scene = nsq.NSQScene()
        beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=1.0)
        scene.add_source("S", nsq.CoordinateSystem(), beam)
        glass = nsq.NSQMaterial.constant(n)
        plate = nsq.LensConfig(r1=np.inf, r2=0.0, thickness=3.0, material=glass, front_aperture_radius=5.0)
        scene.add_lens("P", nsq.CoordinateSystem(z=10.0), plate)
        scene.add_detector("D", nsq.CoordinateSystem(z=20.0), nsq.IrradianceDetectorConfig(width=8.0, height=8.0))
        scene.sampling_policy = policy
        total = scene.trace(4000, max_depth=40, min_flux_fraction=0.0, seed=seed).detectors["D"].total_flux
        total.backward()
        grads.append(n.grad.item())
        totals.append(total.item())
    for values, expected in ((totals, 3.0 / 3.25), (grads, -2.5 / 3.25**2)):
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 3.5 * error
        assert error < 0.05 * abs(expected)


def gaussian_moment(sigma, radius):
    """Mean square distance from the axis of a Gaussian cut at a radius."""
    a = radius**2 / (2.0 * sigma**2)
    return 2.0 * sigma**2 - radius**2 * np.exp(-a) / (1.0 - np.exp(-a))


@pytest.mark.parametrize(("sigma", "radius"), [(1.0, 2.0), (3.0, 2.0), (0.4, 2.0)])
def test_truncated_gaussian_is_differentiable_in_sigma(sigma, radius):
    moments, grads = [], []
    for seed in range(20):
        value = torch.tensor(sigma, dtype=torch.float64, requires_grad=True)
        scene = nsq.NSQScene()
        beam = nsq.CollimatedSourceConfig(
            spectrum=scenes.GREEN, aperture_radius=radius, profile="gaussian", gaussian_sigma=value
        )
        scene.add_source("S", nsq.CoordinateSystem(), beam)
        scene.add_detector("D", nsq.CoordinateSystem(z=5.0), nsq.RayDatabaseConfig(width=10.0, height=10.0))
        rays = scene.trace(5000, seed=seed).detectors["D"]
        moment = torch.sum(rays.flux * (rays.x**2 + rays.y**2)) / torch.sum(rays.flux)
        moment.backward()
        moments.append(moment.item())
        grads.append(value.grad.item())
    h = 1e-5 * sigma
    slope = (gaussian_moment(sigma + h, radius) - gaussian_moment(sigma - h, radius)) / (2.0 * h)
    if sigma == 1.0:
        assert slope == pytest.approx(1.10, abs=0.005)
    for values, expected in ((moments, gaussian_moment(sigma, radius)), (grads, slope)):
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 3.5 * error
        assert error < 0.02 * abs(expected)


@pytest.mark.parametrize("r2", [np.inf, 0.0, -100.0])
def test_gradients_stay_finite_for_flat_faces_and_missed_detectors(r2):
    r1 = torch.tensor(80.0, dtype=torch.float64, requires_grad=True)
    back = torch.tensor(r2, dtype=torch.float64, requires_grad=True)
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=12.0)
    scene.add_source("S", nsq.CoordinateSystem(), beam)  # wider than the lens: rays meet its rim and pass it by
    glass = nsq.NSQMaterial.constant(1.5)
    lens = nsq.LensConfig(r1=r1, r2=back, thickness=4.0, material=glass, front_aperture_radius=8.0)
    scene.add_lens("L", nsq.CoordinateSystem(z=10.0), lens)
    scene.add_detector("D", nsq.CoordinateSystem(z=40.0), nsq.IrradianceDetectorConfig(width=4.0, height=4.0))
    result = scene.trace(3000, seed=1)
    assert 0.0 < result.total_flux_detected < 0.9
    functional(result.detectors["D"]).backward()
    assert np.isfinite(r1.grad.item())
    assert r1.grad.item() != 0.0
    assert np.isfinite(back.grad.item())
