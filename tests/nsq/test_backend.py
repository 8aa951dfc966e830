"""The backend's own settings, and what a trace does around its rays: progress, precision, warnings, files."""

import math
import warnings

import numpy as np
import pytest
import torch

import nsq

from . import scenes


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"seed": 1.5}, ValueError, ["seed", "1.5", "whole number"]),
        ({"seed": "1"}, TypeError, ["seed", "str"]),
        ({"gradient_mode": "tape"}, ValueError, ["gradient_mode", "'tape'", "prb", "autograd"]),
        ({"gradient_mode": None}, TypeError, ["gradient_mode"]),
        ({"precision": "float16"}, ValueError, ["precision", "'float16'", "float64", "float32"]),
        ({"precision": torch.float32}, TypeError, ["precision"]),
        ({"device": "gpu7"}, ValueError, ["device", "'gpu7'", "cuda:0"]),
        ({"device": "meta"}, ValueError, ["device", "'meta'"]),
        ({"device": 0}, TypeError, ["device", "int"]),
    ],
)
def test_bad_settings(arguments, error, words):
    with pytest.raises(error) as caught:
        nsq.TorchBackend(**arguments)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"max_depth": 0}, ValueError, ["max_depth", "0"]),
        ({"max_depth": 2.5}, ValueError, ["max_depth", "2.5", "whole number"]),
        ({"max_depth": 70_000}, ValueError, ["max_depth", "70000", "65535"]),
        ({"min_flux_fraction": -0.1}, ValueError, ["min_flux_fraction", "-0.1"]),
        ({"min_flux_fraction": math.nan}, ValueError, ["min_flux_fraction", "nan"]),
        ({"batch_size": 0}, ValueError, ["batch_size", "0"]),
        ({"batch_size": "many"}, TypeError, ["batch_size", "str"]),
        ({"seed": 0.5}, ValueError, ["seed", "0.5"]),
        ({"precision": "double"}, ValueError, ["precision", "'double'"]),
        ({"progress": 1}, TypeError, ["progress", "int"]),
        ({"backend": "torch"}, TypeError, ["backend", "'torch'", "TorchBackend"]),
    ],
)
def test_bad_arguments_of_a_trace(arguments, error, words):
    with pytest.raises(error) as caught:
        scenes.singlet().trace(100, **arguments)
    for word in words:
        assert word in str(caught.value)


def test_a_tracer_takes_a_scene():
    with pytest.raises(TypeError, match="scene got str"):
        nsq.NSQTracer("scene")


def test_settings_are_kept_and_shown():
    backend = nsq.TorchBackend(seed=np.int64(3), gradient_mode="autograd", precision="float32", device="cpu")
    assert (backend.seed, backend.gradient_mode, backend.precision, backend.device) == (3, "autograd", "float32", "cpu")
    assert "seed=3" in repr(backend)
    default = nsq.TorchBackend()
    assert (default.seed, default.gradient_mode, default.precision) == (None, "prb", "float64")


@pytest.mark.parametrize("seed", [-1, -(2**63), 2**40, 2**64 - 1])
def test_seeds_of_any_sign_and_size_are_their_own(seed):
    one, other = (scenes.singlet().trace(500, seed=s).detectors["D"].irradiance for s in (seed, seed + 1))
    assert not np.array_equal(one, other)
    assert np.array_equal(one, scenes.singlet().trace(500, seed=seed).detectors["D"].irradiance)


def test_progress_is_shown_where_it_is_asked_for(capsys):
    shown = scenes.singlet().trace(20_000, seed=1, progress=True)
    bar = capsys.readouterr().err
    assert "trace: 100%" in bar
    assert "ray/s" in bar
    silent = scenes.singlet().trace(20_000, seed=1)
    assert "trace:" not in capsys.readouterr().err
    assert np.array_equal(shown.detectors["D"].irradiance, silent.detectors["D"].irradiance)
    assert shown.trace_time_sec > 0.0


def test_float32_follows_float64_ray_by_ray():
    rays = {}
    for precision in ("float64", "float32"):
        scene = scenes.gauss_point_doublet()
        scene.add_detector("rays", nsq.CoordinateSystem(z=90.0), nsq.RayDatabaseConfig(40.0, 40.0, absorb=False))
        scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.05, rr_start_flux=0.0)
        rays[precision] = scene.trace(3000, max_depth=5, seed=7, precision=precision).detectors["rays"]
    double, single = rays["float64"], rays["float32"]
    assert single.num_rays > 2000
    assert torch.equal(double.ray_id, single.ray_id)
    assert torch.equal(double.wavelength, single.wavelength)
    assert single.x.dtype == torch.float64
    # 24 bits of numbers up to 120 mm, over five steps of a trace: a few times 1e-5 mm
    for column, bound in (("x", 2e-4), ("y", 2e-4), ("L", 2e-6), ("M", 2e-6), ("N", 1e-6)):
        gap = (getattr(double, column) - getattr(single, column)).abs().max().item()
        assert 0.0 < gap < bound, column
    assert (single.flux / double.flux - 1.0).abs().max().item() < 2e-5


def lens_scene(front_aperture_radius=10.0, size=20.0):
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=3.0)
    scene.add_source("S", nsq.CoordinateSystem(), beam)
    glass = nsq.NSQMaterial.constant(1.5)
    lens = nsq.LensConfig(50.0, -50.0, 6.0, glass, front_aperture_radius=front_aperture_radius)
    scene.add_lens("L", nsq.CoordinateSystem(z=10.0), lens)
    scene.add_detector("D", nsq.CoordinateSystem(z=40.0), nsq.IrradianceDetectorConfig(size, size))
    return scene


def test_an_aperture_that_wants_a_gradient_is_warned_of_where_visibility_is_off():
    aperture = torch.tensor(10.0, dtype=torch.float64, requires_grad=True)
    with pytest.warns(UserWarning, match="visibility") as caught:
        lens_scene(aperture).trace(100, visibility="off")
    for warning, face in zip(caught, ("L.front", "L.back"), strict=True):
        assert f"{face}: aperture_radius requires a gradient" in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lens_scene(aperture).trace(100)
        lens_scene(aperture.detach()).trace(100, visibility="off")
        lens_scene().trace(100)
        with torch.no_grad():
            lens_scene(aperture).trace(100, visibility="off")


def test_the_size_of_a_detector_has_a_gradient_without_a_warning():
    size = torch.tensor(20.0, dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = lens_scene(size=size).trace(100).detectors["D"].data
    torch.dot(torch.linspace(-1.0, 1.0, data.numel(), dtype=torch.float64) ** 2, data).backward()
    assert size.grad.item() != 0.0


def test_results_of_a_trace_survive_their_files(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    scene = scenes.singlet()
    scene.add_detector("rays", nsq.CoordinateSystem(z=120.0), nsq.RayDatabaseConfig(20.0, 20.0, absorb=False))
    detectors = scene.trace(2000, seed=5).detectors
    loaded = nsq.IrradianceMap.load(detectors["D"].save(tmp_path / "map"))
    assert np.array_equal(loaded.irradiance, detectors["D"].irradiance)
    assert (loaded.name, loaded.num_rays_hit) == ("D", detectors["D"].num_rays_hit)
    assert loaded.total_flux_float == detectors["D"].total_flux_float
    rays = nsq.RayDatabase.load(detectors["rays"].save(tmp_path / "rays"))
    for column, values in detectors["rays"].to_numpy().items():
        assert np.array_equal(rays.to_numpy()[column], values), column
    image = detectors["D"].plot().images[0]
    assert np.array_equal(np.asarray(image.get_array()), detectors["D"].irradiance)
    spots = detectors["rays"].plot().collections[0]
    assert len(spots.get_offsets()) == detectors["rays"].num_rays > 1000
    matplotlib.pyplot.close("all")


def test_a_flux_that_is_not_a_number_stops_the_trace():
    class Broken:
        def n(self, wavelength):
            return 1.5

        def k(self, wavelength):
            return math.nan

    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=3.0)
    scene.add_source("S", nsq.CoordinateSystem(), beam)
    lens = nsq.LensConfig(50.0, -50.0, 6.0, nsq.NSQMaterial(Broken()), front_aperture_radius=9.0)
    scene.add_lens("L", nsq.CoordinateSystem(z=10.0), lens)
    scene.add_detector("D", nsq.CoordinateSystem(z=40.0), nsq.IrradianceDetectorConfig(10.0, 10.0))
    with pytest.raises(ValueError, match=r"\bk\b"):
        scene.trace(100)
