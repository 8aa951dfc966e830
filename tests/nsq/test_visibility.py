"""Gradients of visibility: closed forms, differences of traces, and that the two modes agree."""

import math

import numpy as np
import pytest
import torch

import nsq

from . import visibility_scenes as at
from .scenes import GREEN


def leaves(values):
    return {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in values.items()}


def flux_gradient(build, values, num_rays, seed=0, **options):
    v = leaves(values)
    mode = options.pop("mode", "prb")
    result = build(v).trace(num_rays, seed=seed, backend=nsq.TorchBackend(gradient_mode=mode), **options)
    found = torch.autograd.grad(result.detectors["D"].total_flux, list(v.values()), allow_unused=True)
    return {name: 0.0 if g is None else g.item() for name, g in zip(v, found, strict=True)}


@pytest.mark.parametrize("name", at.CLOSED)
def test_closed_forms(name):
    """Within 3 %, at a million rays and a band of 0.1: the standard error is at most 1 %, at the baffle."""
    values, build, expected = at.CLOSED[name]
    found = flux_gradient(build, values, 1_000_000, visibility_width=0.1)
    scale = max(abs(e) for e in expected.values() if e is not None)
    for parameter, value in expected.items():
        if value is not None:
            assert abs(found[parameter] - value) < 0.03 * (abs(value) or scale), parameter


@pytest.mark.parametrize("name", ["knife edge", "sphere", "mesh"])
def test_without_visibility_nothing_flows(name):
    values, build, expected = at.CLOSED[name]
    found = flux_gradient(build, values, 2_000, visibility="off")
    assert all(found[parameter] == 0.0 for parameter in expected)


def vignetting(v):
    """A lens that is narrower than the beam, and a detector that is narrower than what it bends."""
    scene = at.bench(width=1.6)
    glass = nsq.NSQMaterial.constant(1.5)
    config = nsq.LensConfig(30.0, -30.0, 1.0, glass, front_aperture_radius=v["a"])
    scene.add_lens("L", at.CS(x=v["x"], rx=v["rx"]), config)
    return scene


VIGNETTING = {"a": 1.5, "x": 0.3, "rx": 0.1}


def test_a_moved_and_tilted_lens_rim():
    """Against differences of traces at other random numbers.

    Both sides see the same births, so the noise is that of the rays that change their fate.
    """
    found = flux_gradient(vignetting, VIGNETTING, 1_000_000)
    off = flux_gradient(vignetting, VIGNETTING, 100_000, visibility="off")
    for name, step in (("a", 0.05), ("rx", 0.05)):
        sides = []
        for sign in (1.0, -1.0):
            values = {**VIGNETTING, name: VIGNETTING[name] + sign * step}
            sides.append(vignetting(values).trace(1_000_000, seed=9).detectors["D"].total_flux.item())
        expected = (sides[0] - sides[1]) / (2.0 * step)
        error = 1.5 * math.sqrt(abs(sides[0] - sides[1]) / 1e6) / (2.0 * step)
        assert error < 0.025 * abs(expected)
        assert abs(found[name] - expected) < 4.0 * error, name
        assert abs(off[name] - expected) > 0.2 * abs(expected), name


def test_both_modes_and_repeated_calls_agree():
    replayed = flux_gradient(vignetting, VIGNETTING, 40_000)
    again = flux_gradient(vignetting, VIGNETTING, 40_000)
    taped = flux_gradient(vignetting, VIGNETTING, 40_000, mode="autograd")
    for name, value in replayed.items():
        assert again[name] == value != 0.0
        assert taped[name] == pytest.approx(value, rel=1e-10), name


def test_float32_traces_agree():
    double = flux_gradient(vignetting, VIGNETTING, 100_000)
    single = flux_gradient(vignetting, VIGNETTING, 100_000, precision="float32")
    for name, value in double.items():
        assert single[name] == pytest.approx(value, rel=0.02), name


def test_the_bias_falls_with_the_square_of_the_width():
    """A beam that is brighter towards its middle: the slope of irradiance at the rim makes no bias of first order.

    With E = E0 exp(-r^2 / 2 s^2), dF/da = 2 pi a E(a). The kernel's second moment is 1/7, so the relative bias is
    h^2 / 14 of the second derivative of r E(r), divided by a E(a).
    """
    sigma, a = 1.0, 1.2
    norm = 1.0 / (2.0 * math.pi * sigma**2) / (1.0 - math.exp(-((4.0 / sigma) ** 2) / 2.0))
    exact = 2.0 * math.pi * a * norm * math.exp(-(a**2) / 2.0)
    curved = (a**3 - 3.0 * a) / a  # second derivative of r exp(-r^2/2), divided by a exp(-a^2/2)

    def found(width):
        value = torch.tensor(a, dtype=torch.float64, requires_grad=True)
        scene = at.obstacle(nsq.AnnularPlaneGeometry(value, 9.0))
        scene.remove_source("S")
        beam = nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=4.0, profile="gaussian", gaussian_sigma=sigma)
        scene.add_source("S", at.CS(z=-10.0), beam)
        scene.trace(1_000_000, seed=2, visibility_width=width).detectors["D"].total_flux.backward()
        return value.grad.item()

    # at this width the noise is 0.15 % and the bias of first order would be 12 %
    h = 0.5 * a
    assert found(0.5) / exact - 1.0 == pytest.approx(h**2 / 14.0 * curved, abs=0.006)


def test_a_tap_and_a_moment_count_too():
    """What lies behind the edge may be any loss: here the flux of a tap, and a weighted map."""
    x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    scene = at.obstacle(nsq.FinitePlaneGeometry(20.0, 20.0), at.CS(x=x + 10.0))
    tap = nsq.RayDatabaseConfig(10.0, 10.0, absorb=False)
    scene.add_detector("T", at.CS(z=10.0), tap)
    detectors = scene.trace(1_000_000, seed=4, visibility_width=0.1).detectors
    (of_tap,) = torch.autograd.grad(detectors["T"].total_flux, x, retain_graph=True)
    chord = 2.0 * math.sqrt(at.RADIUS**2 - 0.25) * at.E
    assert of_tap.item() == pytest.approx(chord, rel=0.03)
    # moment of x over the map: what appears does so at x = 0.5
    data = detectors["D"].data
    centres = torch.as_tensor((np.arange(8) + 0.5) * 10.0 / 8.0 - 5.0)
    (moment,) = torch.autograd.grad((data.reshape(8, 8) * centres).sum(), x)
    assert moment.item() == pytest.approx(0.5 * chord, rel=0.04)


def test_more_events_than_there_is_room_for():
    """Every ray of a narrow beam passes four sides closely: the events of a batch are traced in several parts."""
    x = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    scene = nsq.NSQScene()
    scene.add_source("S", at.CS(z=-5.0), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=1.0))
    for k in range(3):
        plate = nsq.FinitePlaneGeometry(2.0, 2.0)
        scene.add_component(f"O{k}", nsq.AbsorbingComponent(at.CS(x=x + 1.0, y=1.0, z=0.1 * k), plate))
    scene.add_detector("D", at.CS(z=5.0), nsq.IrradianceDetectorConfig(8.0, 8.0))
    scene.trace(400_000, seed=1, visibility_width=0.5).detectors["D"].total_flux.backward()
    # the plates stand one behind another; their common side at x = 0 is lit over a radius
    assert x.grad.item() == pytest.approx(1.0 / math.pi, rel=0.04)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"visibility": "on"}, "visibility got 'on'"),
        ({"visibility_width": 0.0}, "visibility_width got 0"),
        ({"visibility_width": 0.7}, "visibility_width got 0.7"),
    ],
)
def test_bad_settings_are_named(options, error):
    scene = at.bench()
    with pytest.raises(ValueError, match=error):
        scene.trace(10, **options)
    with pytest.raises(ValueError, match=error):
        nsq.TorchBackend(**options)
