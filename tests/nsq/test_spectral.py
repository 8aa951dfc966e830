"""Spectral detectors and their results as data."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import nsq
from nsq.configs import SpectralDetectorConfig
from nsq.detectors import SpectralDetector, build_detector
from nsq.results import SpectralResult

CS = nsq.CoordinateSystem


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def make(data=None, **changes):
    data = torch.arange(24, dtype=torch.float64) if data is None else data
    numbers = {"width": 6.0, "height": 4.0, "num_pixels_x": 3, "num_pixels_y": 2, "num_rays_hit": 7}
    numbers |= {"wavelength_bins": np.linspace(0.4, 0.8, 5), **changes}
    return SpectralResult(name="D", data=data, total_flux=data.sum(), **numbers)


def test_the_config_makes_equal_bins():
    config = SpectralDetectorConfig(4.0, 6.0, 12, 8, 0.4, 0.7, 30, "gaussian", 0.7, absorb=False)
    made = build_detector(CS(), config, "D")
    assert isinstance(made, SpectralDetector)
    assert np.array_equal(made.wavelength_bins, np.linspace(0.4, 0.7, 31))
    assert (made.num_bins, made.num_pixels_x, made.num_pixels_y, made.name) == (30, 12, 8, "D")
    assert (made.splat, made.splat_sigma, made.absorb) == ("gaussian", 0.7, False)
    assert made.geometry.numbers()[:2] == (4.0, 6.0)
    usual = SpectralDetectorConfig(1.0, 1.0)
    assert (usual.num_pixels_x, usual.num_pixels_y, usual.wl_min, usual.wl_max) == (256, 256, 0.4, 0.7)
    assert (usual.num_bins, usual.splat, usual.splat_sigma, usual.absorb) == (100, "bilinear", 0.5, True)


def test_lines_on_an_edge_belong_to_the_bin_that_begins_there():
    made = build_detector(CS(), SpectralDetectorConfig(1.0, 1.0, 1, 1, 0.4, 0.7, 30))
    found = made.bins_of(np.array([0.45, 0.55, 0.65]))
    assert found.tolist() == [5, 15, 25]
    assert found.dtype.kind == "i"


def test_lines_outside_belong_to_the_end_bins():
    made = SpectralDetector(CS(), 1.0, 1.0, 1, 1, [0.4, 0.5, 0.7])
    assert made.bins_of([0.2, 0.4, 0.4999, 0.5, 0.7, 1.1]).tolist() == [0, 0, 0, 1, 1, 1]
    assert made.bins_of([[0.45], [0.6]]).shape == (2, 1)
    assert made.bins_of(0.6) == 1


def config(**changes):
    return SpectralDetectorConfig(**{"width": 1.0, "height": 1.0, **changes})


def detector(**changes):
    usual = {"width": 1.0, "height": 1.0, "num_pixels_x": 2, "num_pixels_y": 2, "wavelength_bins": [0.4, 0.7]}
    return SpectralDetector(CS(), **{**usual, **changes})


@pytest.mark.parametrize(
    ("build", "changes", "error", "words"),
    [
        (config, {"wl_min": 400.0, "wl_max": 700.0}, ValueError, ["must be in µm"]),
        (config, {"wl_min": 0.7, "wl_max": 0.4}, ValueError, ["wl_min", "0.7", "0.4"]),
        (config, {"wl_min": float("nan")}, ValueError, ["wl_min", "nan"]),
        (config, {"wl_max": torch.tensor(0.7, requires_grad=True)}, ValueError, ["wl_max", "not differentiated"]),
        (config, {"num_bins": 0}, ValueError, ["num_bins", ">= 1"]),
        (config, {"num_pixels_x": 0}, ValueError, ["num_pixels_x"]),
        (config, {"splat": "soft"}, ValueError, ["splat", "'soft'"]),
        (detector, {"wavelength_bins": [400.0, 500.0]}, ValueError, ["wavelength_bins", "must be in µm"]),
        (detector, {"wavelength_bins": [0.4]}, ValueError, ["wavelength_bins", "shape (1,)"]),
        (detector, {"wavelength_bins": [0.5, 0.4]}, ValueError, ["wavelength_bins", "rise"]),
        (detector, {"wavelength_bins": [0.4, float("nan")]}, ValueError, ["wavelength_bins", "finite"]),
        (detector, {"wavelength_bins": "visible"}, TypeError, ["wavelength_bins", "visible"]),
        (detector, {"width": 0.0}, ValueError, ["width", "> 0"]),
    ],
)
def test_bad_arguments(build, changes, error, words):
    with pytest.raises(error) as caught:
        build(**changes)
    for word in words:
        assert word in str(caught.value)


def test_irradiance_is_per_pixel_and_bin():
    made = make()
    assert made.irradiance.shape == (2, 3, 4)
    # data is bin after bin, row after row
    assert made.irradiance == pytest.approx(np.arange(24.0).reshape(4, 2, 3).transpose(1, 2, 0) / 4.0)
    assert made.irradiance[1, 2, 3] == pytest.approx(23.0 / 4.0)
    assert made.to_numpy() == pytest.approx(made.irradiance)
    assert made.wavelengths == pytest.approx([0.45, 0.55, 0.65, 0.75])
    assert made.x_coords == pytest.approx([-2.0, 0.0, 2.0])
    assert made.y_coords == pytest.approx([-1.0, 1.0])
    assert (made.num_rays_hit, made.total_flux_float, made.num_bins) == (7, 276.0, 4)
    assert made.irradiance.sum() * made.pixel_area == pytest.approx(276.0)
    assert made.spectrum.tolist() == [15.0, 51.0, 87.0, 123.0]
    assert "276 W" in repr(made)


def test_the_result_stays_attached():
    leaf = torch.arange(24, dtype=torch.float64, requires_grad=True)
    made = make(leaf * 2.0, width=torch.tensor(6.0, requires_grad=True))
    assert isinstance(made.irradiance, np.ndarray)
    (made.flux[3, 1, 2] + made.spectrum[0]).backward()
    assert leaf.grad.tolist() == [2.0] * 6 + [0.0] * 17 + [2.0]


def test_wavelengths_may_be_assigned():
    made = make()
    made.wavelengths = [0.41, 0.52, 0.63, 0.74]
    assert isinstance(made.wavelengths, np.ndarray)
    assert made.wavelengths.tolist() == [0.41, 0.52, 0.63, 0.74]
    with pytest.raises(ValueError, match=r"^wavelengths got shape \(2,\); it takes \(4,\)"):
        made.wavelengths = [0.4, 0.5]


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match=r"^data got shape \(5,\); it takes \(24,\)"):
        make(torch.ones(5))
    with pytest.raises(ValueError, match=r"^wavelength_bins got shape \(1,\)"):
        make(wavelength_bins=[0.4])


def test_plots():
    made = make()
    ax = made.plot()
    (image,) = ax.images
    assert np.asarray(image.get_array()) == pytest.approx(made.irradiance.sum(axis=2))
    assert image.get_extent() == [-3.0, 3.0, -2.0, 2.0]
    assert image.colorbar.ax.get_ylabel() == "W/mm²"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (mm)", "y (mm)")
    assert ax.get_title().startswith("D ")
    beside = ax.figure.axes[1]
    assert beside.get_xlabel() == "wavelength (µm)"
    values, edges, _ = beside.patches[0].get_data()
    assert values == pytest.approx([15.0, 51.0, 87.0, 123.0])
    assert edges == pytest.approx(made.wavelength_bins)
    _, own = plt.subplots()
    assert made.plot(ax=own, cmap="gray") is own
    assert len(own.figure.axes) == 2  # the map and its colour bar
    assert made.plot_spectrum().get_ylabel() == "flux in a bin (W)"


def test_a_result_survives_a_file(tmp_path):
    leaf = torch.rand(24, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    made = make(leaf)
    made.wavelengths = [0.41, 0.52, 0.63, 0.74]
    twin = SpectralResult.load(made.save(tmp_path / "spectral"))
    assert torch.equal(twin.data, leaf.detach())
    assert twin.total_flux == made.total_flux.detach()
    for field in ("name", "width", "height", "num_pixels_x", "num_pixels_y", "num_rays_hit"):
        assert getattr(twin, field) == getattr(made, field)
    for field in ("wavelength_bins", "wavelengths", "irradiance", "x_coords"):
        assert np.array_equal(getattr(twin, field), getattr(made, field))
    with pytest.raises(ValueError, match="holds SpectralResult; it takes a file that IrradianceMap.save wrote"):
        nsq.IrradianceMap.load(tmp_path / "spectral.npz")
