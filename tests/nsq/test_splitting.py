"""Splitting: both parts of a ray go on; less noise, the same mean, and nothing depends on batches or threads."""

import math

import numpy as np
import pytest
import torch

import nsq
from nsq import engine

from .scenes import GREEN


def pair(policy, k=0.0, coating=None, bsdf=None):
    """Two lenses that send ghosts back and forth, with a detector on either side."""
    scene = nsq.NSQScene()
    scene.sampling_policy = policy
    scene.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=5.0))
    shape = {"r1": 60.0, "r2": -80.0, "thickness": 5.0, "front_aperture_radius": 12.0}
    glass = nsq.NSQMaterial.constant(1.6, k)
    front = nsq.SurfaceConfig(coating=coating, bsdf=bsdf, scatter_fraction=0.4 if bsdf else 1.0)
    scene.add_lens("L", nsq.CoordinateSystem(z=20.0), nsq.LensConfig(material=glass, front=front, **shape))
    scene.add_lens("K", nsq.CoordinateSystem(z=30.0), nsq.LensConfig(material=glass, **shape))
    pixels = {"width": 60.0, "height": 60.0, "num_pixels_x": 8, "num_pixels_y": 8}
    scene.add_detector("ahead", nsq.CoordinateSystem(z=60.0), nsq.IrradianceDetectorConfig(**pixels))
    scene.add_detector("behind", nsq.CoordinateSystem(z=-5.0), nsq.IrradianceDetectorConfig(**pixels))
    return scene


def fluxes(policy, seeds=10, num_rays=20000, **options):
    traces = [pair(policy, **options).trace(num_rays, seed=seed).detectors for seed in range(seeds)]
    return np.array([[t["ahead"].total_flux_float, t["behind"].total_flux_float] for t in traces])


@pytest.mark.parametrize("coating", [None, nsq.SimpleCoating(transmittance=0.7, reflectance=0.2)])
def test_splitting_has_the_same_mean_and_less_noise(coating):
    """z-test of the means over 10 seeds at 4 sigma of their difference; the spread falls by more than a third."""
    plain = fluxes(nsq.SamplingPolicy(), k=2e-6, coating=coating)
    split = fluxes(nsq.SamplingPolicy(split_depth=2), k=2e-6, coating=coating)
    sigma = np.sqrt((plain.var(axis=0, ddof=1) + split.var(axis=0, ddof=1)) / 10.0)
    assert np.all(np.abs(plain.mean(axis=0) - split.mean(axis=0)) < 4.0 * sigma)
    assert np.all(split.std(axis=0) < 0.66 * plain.std(axis=0))


FILM = nsq.ThinFilmCoating([(nsq.NSQMaterial.constant(1.38), 0.1), (nsq.NSQMaterial.constant(2.1, 0.05), 0.06)])


@pytest.mark.parametrize("coating", [None, nsq.SimpleCoating(transmittance=0.7, reflectance=0.2), FILM])
def test_the_ledger_closes_exactly_when_rays_split(coating):
    # without roulette, which closes in expectation only
    policy = nsq.SamplingPolicy(split_depth=2, split_budget=8.0, rr_start_flux=0.0)
    result = pair(policy, k=2e-6, coating=coating).trace(20000, min_flux_fraction=0.0)
    assert result.flux_conservation_error < 1e-9
    assert not result.split_budget_saturated
    if coating is not None:
        assert result.total_flux_coating > (0.05 if coating is not FILM else 0.005)


def test_two_generations_of_a_plate_are_exact():
    """At normal incidence each part's flux is known: nothing is random in the first two surfaces."""
    scene = nsq.NSQScene()
    scene.sampling_policy = nsq.SamplingPolicy(split_depth=2)
    scene.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=1.0))
    plate = nsq.LensConfig(
        r1=math.inf, r2=math.inf, thickness=3.0, material=nsq.NSQMaterial.constant(1.5), front_aperture_radius=10.0
    )
    scene.add_lens("P", nsq.CoordinateSystem(z=10.0), plate)
    scene.add_detector("D", nsq.CoordinateSystem(z=20.0), nsq.RayDatabaseConfig(width=30.0, height=30.0))
    direct = scene.trace(500, max_depth=3).detectors["D"]
    r = ((1.5 - 1.0) / (1.5 + 1.0)) ** 2
    assert direct.num_rays == 500
    assert direct.total_flux_float == pytest.approx((1.0 - r) ** 2, rel=1e-12)


def test_a_tight_budget_saturates_and_a_wide_one_does_not():
    scene = pair(nsq.SamplingPolicy(split_depth=3, split_budget=1.05))
    assert scene.trace(20000).split_budget_saturated
    for budget in (4.0, 8.0):
        assert not pair(nsq.SamplingPolicy(split_depth=2, split_budget=budget)).trace(20000).split_budget_saturated


def test_splitting_does_not_depend_on_batches_or_threads(monkeypatch):
    policy = nsq.SamplingPolicy(split_depth=3, split_budget=6.0)
    first = pair(policy).trace(5000)
    monkeypatch.setattr(engine, "_LEAST_BATCH", 1)
    try:
        for threads, batch in ((1, 37), (2, 1000)):
            nsq.set_num_threads(threads)
            again = pair(policy).trace(5000, batch_size=batch)
            for name in ("ahead", "behind"):
                assert torch.equal(again.detectors[name].data, first.detectors[name].data)
            assert again.total_flux_escaped == first.total_flux_escaped
    finally:
        nsq.set_num_threads(None)


def test_a_scattering_surface_does_not_split():
    """The scattering face still scatters, and the mean is that of a plain trace (4 sigma over 10 seeds)."""
    lobe = nsq.LambertianBSDF(0.9)
    plain = fluxes(nsq.SamplingPolicy(), num_rays=5000, bsdf=lobe)
    split = fluxes(nsq.SamplingPolicy(split_depth=3), num_rays=5000, bsdf=lobe)
    sigma = np.sqrt((plain.var(axis=0, ddof=1) + split.var(axis=0, ddof=1)) / 10.0)
    assert np.all(np.abs(plain.mean(axis=0) - split.mean(axis=0)) < 4.0 * sigma)


def test_a_trace_with_gradients_ignores_splitting_with_a_warning():
    policy = nsq.SamplingPolicy(split_depth=2)
    scene = pair(policy)
    flux = torch.tensor(1.0, requires_grad=True)
    scene.sources[0].total_flux = flux
    with pytest.warns(UserWarning, match="split_depth"):
        attached = scene.trace(1000).detectors["ahead"].total_flux
    scene.sources[0].total_flux = 1.0
    scene.sampling_policy = nsq.SamplingPolicy()
    assert attached.item() == scene.trace(1000).detectors["ahead"].total_flux.item()
