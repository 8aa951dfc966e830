"""Far-field detectors and their patterns as data."""

import math

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import nsq
from nsq.configs import FarFieldDetectorConfig
from nsq.detectors import FarFieldDetector, build_detector
from nsq.results import FarFieldPattern

CS = nsq.CoordinateSystem


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def make(data=None, **changes):
    data = torch.arange(12, dtype=torch.float64) if data is None else data
    numbers = {"num_bins_theta": 3, "num_bins_phi": 4, "num_rays_hit": 7, **changes}
    return FarFieldPattern(name="F", data=data, total_flux=data.sum(), **numbers)


def test_the_config_covers_a_hemisphere():
    made = build_detector(CS(), FarFieldDetectorConfig(9, 12, absorb=False, splat="bilinear"), "F")
    assert isinstance(made, FarFieldDetector)
    assert (made.theta_max_deg, made.num_bins_theta, made.num_bins_phi) == (90.0, 9, 12)
    assert (made.aperture_radius, made.absorb, made.splat, made.name) == (1e6, False, "bilinear", "F")
    assert made.geometry.numbers()[2] == 1e6
    usual = FarFieldDetectorConfig()
    assert (usual.num_theta, usual.num_phi, usual.absorb, usual.splat) == (90, 360, True, "hard")
    assert FarFieldDetector(CS(), 30.0, 9, 12, 5.0, "F", False).geometry.numbers()[2] == 5.0


def detector(**changes):
    return FarFieldDetector(**{"cs": CS(), "theta_max_deg": 90.0, "num_bins_theta": 9, "num_bins_phi": 12, **changes})


@pytest.mark.parametrize(
    ("build", "changes", "error", "words"),
    [
        (FarFieldDetectorConfig, {"num_theta": 0}, ValueError, ["num_theta", ">= 1"]),
        (FarFieldDetectorConfig, {"num_phi": 2.5}, ValueError, ["num_phi", "whole number"]),
        (FarFieldDetectorConfig, {"splat": "gaussian"}, ValueError, ["splat", "'gaussian'", "bilinear"]),
        (FarFieldDetectorConfig, {"absorb": 1}, TypeError, ["absorb", "True or False"]),
        (detector, {"theta_max_deg": 0.0}, ValueError, ["theta_max_deg", "> 0"]),
        (detector, {"theta_max_deg": 91.0}, ValueError, ["theta_max_deg", "<= 90"]),
        (detector, {"num_bins_phi": 0}, ValueError, ["num_bins_phi", ">= 1"]),
        (detector, {"num_bins_theta": True}, TypeError, ["num_bins_theta", "True"]),
        (detector, {"aperture_radius": -1.0}, ValueError, ["aperture_radius", "> 0"]),
        (
            detector,
            {"theta_max_deg": torch.tensor(60.0, requires_grad=True)},
            ValueError,
            ["theta_max_deg", "not differentiated"],
        ),
    ],
)
def test_bad_arguments(build, changes, error, words):
    with pytest.raises(error) as caught:
        build(**changes)
    for word in words:
        assert word in str(caught.value)


def test_the_grid():
    made = make()
    assert made.theta == pytest.approx([15.0, 45.0, 75.0])
    assert made.phi == pytest.approx([-135.0, -45.0, 45.0, 135.0])
    assert made.theta_edges == pytest.approx([0.0, 30.0, 60.0, 90.0])
    assert made.solid_angle == pytest.approx(np.sin(np.radians([15.0, 45.0, 75.0])) * math.pi / 6.0 * math.pi / 2.0)
    fine = make(torch.ones(90 * 360), num_bins_theta=90, num_bins_phi=360)
    assert fine.solid_angle.sum() * 360 == pytest.approx(2.0 * math.pi, rel=2e-5)
    narrow = make(theta_max_deg=30.0)
    assert narrow.theta == pytest.approx([5.0, 15.0, 25.0])


def test_intensity_is_flux_by_solid_angle():
    made = make()
    assert made.intensity.shape == (3, 4)
    assert isinstance(made.intensity, np.ndarray)
    assert made.intensity * made.solid_angle[:, None] == pytest.approx(np.arange(12.0).reshape(3, 4))
    assert (made.intensity * made.solid_angle[:, None]).sum() == pytest.approx(made.total_flux_float)
    assert made.to_numpy() == pytest.approx(made.intensity)
    assert (made.num_rays_hit, made.total_flux_float) == (7, 66.0)
    assert "66 W" in repr(made)


def test_the_pattern_stays_attached():
    leaf = torch.arange(12, dtype=torch.float64, requires_grad=True)
    made = make(leaf * 2.0)
    assert made.intensity_tensor.requires_grad
    (made.intensity_tensor[1, 2] + made.flux[0, 0]).backward()
    wanted = np.zeros(12)
    wanted[0], wanted[6] = 2.0, 2.0 / made.solid_angle[1]
    assert leaf.grad.numpy() == pytest.approx(wanted)


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match=r"^data got shape \(5,\); it takes \(12,\)"):
        make(torch.ones(5))


def test_cuts_go_through_the_axis():
    made = make()
    theta, intensity = made.cut(45.0)
    assert theta.tolist() == [-75.0, -45.0, -15.0, 15.0, 45.0, 75.0]
    assert intensity == pytest.approx([*made.intensity[::-1, 0], *made.intensity[:, 2]])
    assert made.cut(405.0)[1] == pytest.approx(intensity)
    assert made.cut(180.0)[1] == pytest.approx([*made.intensity[::-1, 2], *made.intensity[:, 0]])


def test_plots():
    made = make()
    ax = made.plot()
    assert ax.name == "polar"
    (mesh,) = ax.collections
    assert np.asarray(mesh.get_array()) == pytest.approx(made.intensity)
    assert mesh.colorbar.ax.get_ylabel() == "W/sr"
    assert ax.get_title().startswith("F ")
    ax = made.plot(kind="cartesian")
    assert (ax.get_xlabel(), ax.get_ylabel(), len(ax.lines)) == ("theta (°)", "intensity (W/sr)", 2)
    # azimuth 0 is the border of two of the four bins: half of the strip lies in each
    theta, intensity = ax.lines[0].get_data()
    assert theta == pytest.approx(made.cut(0.0)[0])
    near, far = made.intensity[:, [1, 2]].mean(axis=1), made.intensity[:, [0, 3]].mean(axis=1)
    assert intensity == pytest.approx([*far[::-1], *near])
    ax = made.plot(kind="diagram")
    assert ax.name == "polar"
    assert ax.lines[0].get_ydata() == pytest.approx(intensity)
    _, own = plt.subplots()
    assert made.plot(own, "cartesian", lw=3.0) is own
    with pytest.raises(ValueError, match="takes polar axes"):
        made.plot(own)
    with pytest.raises(ValueError, match=r"^kind got 'round'"):
        made.plot(kind="round")


def test_a_pattern_survives_a_file(tmp_path):
    leaf = torch.rand(12, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    made = make(leaf, theta_max_deg=60.0)
    path = made.save(tmp_path / "far")
    twin = FarFieldPattern.load(path)
    assert torch.equal(twin.data, leaf.detach())
    assert twin.total_flux == made.total_flux.detach()
    for field in ("name", "num_bins_theta", "num_bins_phi", "theta_max_deg", "num_rays_hit"):
        assert getattr(twin, field) == getattr(made, field)
    with np.load(path) as file:
        assert np.array_equal(file["intensity"], made.intensity)
        assert np.array_equal(file["theta"], made.theta)
    with pytest.raises(ValueError, match="holds FarFieldPattern"):
        nsq.RayDatabase.load(path)


def test_cuts_are_as_bright_as_the_pattern():
    flux = torch.tensor(np.cos(np.radians(np.arange(0.5, 90.0)))[:, None] * np.ones(360))
    solid = make(torch.zeros(90 * 360), num_bins_theta=90, num_bins_phi=360).solid_angle
    made = make((flux * torch.tensor(solid)[:, None]).reshape(-1), num_bins_theta=90, num_bins_phi=360)
    for line in made.plot(kind="cartesian").lines:
        theta, intensity = line.get_data()
        assert intensity == pytest.approx(np.cos(np.radians(theta)), rel=1e-12)


def test_a_few_bright_bins_at_the_axis_do_not_darken_the_pattern():
    data = torch.full((90 * 360,), 1e-3, dtype=torch.float64)
    solid = torch.tensor(make(data, num_bins_theta=90, num_bins_phi=360).solid_angle).repeat_interleave(360)
    data = 0.2 * solid
    data[7] = 100.0 * solid[7]
    mesh = make(data, num_bins_theta=90, num_bins_phi=360).plot().collections[0]
    assert mesh.get_clim() == pytest.approx((0.0, 0.2))
    assert mesh.colorbar.extend == "max"
