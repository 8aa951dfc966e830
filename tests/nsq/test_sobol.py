"""Births at Sobol points: the right sequence, the same means, errors that fall faster, gradients as ever."""

import numpy as np
import pytest
import torch
from scipy.stats import qmc

import nsq
import nsq.engine
from kernels.sobol import DIMENSIONS, direction_numbers

from .scenes import FDC, GREEN

POLICY = {None: nsq.SamplingPolicy(), "sobol": nsq.SamplingPolicy(sampler=nsq.Sobol())}


def lamp(policy, spectrum=GREEN, **numbers):
    scene = nsq.NSQScene()
    scene.sampling_policy = policy
    config = nsq.ExtendedSourceConfig(
        **{"spectrum": spectrum, "width": 4.0, "height": 3.0, "half_angle_deg": 20.0, **numbers}
    )
    scene.add_source("S", nsq.CoordinateSystem(), config)
    screen = nsq.IrradianceDetectorConfig(width=60.0, height=60.0, num_pixels_x=8, num_pixels_y=8)
    scene.add_detector("D", nsq.CoordinateSystem(z=50.0), screen)
    return scene


def maps(sampler, num_rays, seeds):
    scene = lamp(POLICY[sampler])
    return np.array([scene.trace(num_rays, seed=seed).detectors["D"].irradiance for seed in seeds])


def test_the_points_are_those_of_joe_and_kuo():
    numbers = direction_numbers().astype(np.uint64)
    count = 512
    points = np.zeros((count, DIMENSIONS), dtype=np.uint64)
    for k in range(9):
        points ^= np.where((np.arange(count)[:, None] >> k) & 1, numbers[:, k][None, :], np.uint64(0))
    reference = qmc.Sobol(DIMENSIONS, scramble=False).random(count)
    ours = points / 2.0**32
    # the same points; the reference lists them in the order of a Gray code
    assert np.array_equal(ours[np.lexsort(ours.T)], reference[np.lexsort(reference.T)])


@pytest.mark.parametrize("kind", ["collimated", "gaussian", "point", "disk"])
def test_every_quarter_of_a_source_gets_its_share(kind):
    """Scrambled nets: of 4096 births the share in a quarter of azimuths is exact but for a few."""
    config = {
        "collimated": nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=3.0),
        "gaussian": nsq.CollimatedSourceConfig(
            spectrum=GREEN, aperture_radius=30.0, profile="gaussian", gaussian_sigma=2.0
        ),
        "point": nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=30.0),
        "disk": nsq.ExtendedSourceConfig(spectrum=GREEN, aperture_radius=2.0, half_angle_deg=1e-3),
    }[kind]
    scene = nsq.NSQScene()
    scene.sampling_policy = POLICY["sobol"]
    scene.add_source("S", nsq.CoordinateSystem(), config)
    scene.add_detector("D", nsq.CoordinateSystem(z=1.0), nsq.RayDatabaseConfig(width=500.0, height=500.0))
    rays = scene.trace(4096, seed=5).detectors["D"]
    quarter = ((rays.x > 0) & (rays.y > 0)).sum().item()
    # at random the count would scatter by 28
    assert abs(quarter - 1024) <= 4


def test_lines_of_a_spectrum_get_their_shares():
    rays = nsq.NSQScene()
    rays.sampling_policy = POLICY["sobol"]
    rays.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=FDC, aperture_radius=1.0))
    rays.add_detector("D", nsq.CoordinateSystem(z=1.0), nsq.RayDatabaseConfig(width=50.0, height=50.0))
    found = rays.trace(4096).detectors["D"].wavelength.numpy()
    shares = FDC.weights / np.sum(FDC.weights)
    for line, share in zip(FDC.wavelengths, shares, strict=True):
        assert abs(np.sum(found == line) - 4096 * share) <= 4


def test_the_mean_is_the_same():
    """z-test at 4.5 sigma of every pixel with a hundred rays or more; sigma from 32 seeds of a plain trace."""
    plain, sobol = maps(None, 16384, range(32)), maps("sobol", 16384, range(8))
    bright = plain.mean(axis=0) > 100.0 / 16384.0 / 7.5**2
    assert bright.sum() > 20
    sigma = plain.std(axis=0, ddof=1) / np.sqrt(32.0)
    assert np.all((np.abs(plain.mean(axis=0) - sobol.mean(axis=0)) <= 4.5 * sigma)[bright])


def test_errors_fall_faster_than_at_random():
    """Sixteen times the rays: four times less error at random, more than ten times less with Sobol points."""
    errors = {
        sampler: [maps(sampler, n, range(8)).std(axis=0).mean() for n in (1024, 16384)] for sampler in (None, "sobol")
    }
    assert 2.5 < errors[None][0] / errors[None][1] < 6.0
    assert errors["sobol"][0] / errors["sobol"][1] > 10.0
    assert errors["sobol"][1] < 0.1 * errors[None][1]


def test_another_seed_is_another_scramble_and_the_same_seed_the_same():
    scene = lamp(POLICY["sobol"])
    first, again, other = (scene.trace(1000, seed=seed).detectors["D"].data for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_batches_and_threads_change_nothing(monkeypatch):
    scene = lamp(POLICY["sobol"], spectrum=FDC)
    whole = scene.trace(5000, seed=3).detectors["D"].data
    monkeypatch.setattr(nsq.engine, "_LEAST_BATCH", 1)
    try:
        nsq.set_num_threads(1)
        assert torch.equal(scene.trace(5000, batch_size=77, seed=3).detectors["D"].data, whole)
    finally:
        nsq.set_num_threads(None)


@pytest.mark.parametrize("name", ["width", "height", "half_angle_deg", "total_flux"])
def test_gradients_match_differences(name):
    nominal = {"width": 4.0, "height": 3.0, "half_angle_deg": 20.0, "total_flux": 1.3}

    def value(number):
        data = lamp(POLICY["sobol"], **{**nominal, name: number}).trace(2048, seed=2).detectors["D"].data
        return torch.sum(data * torch.cos(0.4 * torch.arange(64, dtype=torch.float64)))

    leaf = torch.tensor(nominal[name], dtype=torch.float64, requires_grad=True)
    value(leaf).backward()
    h = 1e-5 * nominal[name]
    expected = (value(nominal[name] + h) - value(nominal[name] - h)).item() / (2.0 * h)
    assert leaf.grad.item() == pytest.approx(expected, rel=1e-5)


def test_only_a_sobol_is_a_sampler():
    with pytest.raises(TypeError, match="sampler got 'sobol'"):
        nsq.SamplingPolicy(sampler="sobol")
