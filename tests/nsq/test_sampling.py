"""Random choices do not move a mean: branch probabilities and Russian roulette against closed forms.

Each comparison is a z-test over independent seeds: it fails beyond 3.5 standard errors, and asks that the standard
error be small enough to tell. With the seeds fixed it always gives the same answer.
"""

import numpy as np
import pytest
import torch

import nsq

from . import scenes

POLICIES = {
    "fresnel": nsq.SamplingPolicy(),
    "auto": nsq.SamplingPolicy(reflect_prob="auto"),
    "number": nsq.SamplingPolicy(reflect_prob=0.4),
    "roulette": nsq.SamplingPolicy(reflect_prob=0.6, rr_start_flux=0.9),
}


def agree(samples, expected, share):
    """Mean of the samples within 3.5 standard errors, which are below the given share of what is expected."""
    error = np.std(samples, ddof=1) / np.sqrt(len(samples))
    assert abs(np.mean(samples) - expected) < 3.5 * error
    assert error < share * abs(expected)


def pencil(scene, **config):
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=1e-12, **config)
    scene.add_source("S", nsq.CoordinateSystem(), beam)


def database(scene, name, z, absorb=True):
    scene.add_detector(name, nsq.CoordinateSystem(z=z), nsq.RayDatabaseConfig(20.0, 20.0, absorb=absorb))


# --- a plate whose faces carry coatings that reflect r and transmit t ----------------------------------------------


def coated_plate(r, t):
    scene = nsq.NSQScene()
    pencil(scene)
    coated = nsq.SurfaceConfig(coating=nsq.SimpleCoating(t, r))
    glass = nsq.NSQMaterial.constant(1.5)
    plate = nsq.LensConfig(np.inf, np.inf, 3.0, glass, front_aperture_radius=5.0, front=coated, back=coated)
    scene.add_lens("P", nsq.CoordinateSystem(z=5.0), plate)
    database(scene, "T", 12.0)
    database(scene, "R", -1.0)
    return scene


def plate_shares(r, t):
    """Transmitted, reflected and lost shares, with all reflections between the faces."""
    through = t * t / (1.0 - r * r)
    back = r + r * t * t / (1.0 - r * r)
    return through, back, 1.0 - through - back


@pytest.mark.parametrize("name", POLICIES)
def test_a_coated_plate(name):
    r, t = 0.3, 0.6
    found, killed = [], 0
    for seed in range(24):
        scene = coated_plate(r, t)
        scene.sampling_policy = POLICIES[name]
        result = scene.trace(3000, max_depth=60, min_flux_fraction=0.0, seed=seed)
        fluxes = [result.detectors[d].total_flux_float for d in "TR"]
        found.append([*fluxes, result.total_flux_coating])
        killed += result.num_rays_flux_killed
        assert result.total_flux_escaped == result.total_flux_absorbed == 0.0
        assert result.num_rays_depth_killed == 0
    for samples, expected in zip(np.transpose(found), plate_shares(r, t), strict=True):
        agree(samples, expected, 0.02)
    assert (killed > 1000) == (name == "roulette")  # 3.5 % of the rays at least: roulette does happen


@pytest.mark.parametrize("name", POLICIES)
def test_gradients_of_a_coated_plate(name):
    """d/dr and d/dt of the transmitted share sit in the weights of every branch."""
    r, t = 0.3, 0.6
    grads = []
    for seed in range(24):
        numbers = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (r, t)]
        scene = coated_plate(*numbers)
        scene.sampling_policy = POLICIES[name]
        total = scene.trace(3000, max_depth=60, min_flux_fraction=0.0, seed=seed).detectors["T"].total_flux
        grads.append([g.item() for g in torch.autograd.grad(total, numbers)])
    slopes = (2.0 * r * t * t / (1.0 - r * r) ** 2, 2.0 * t / (1.0 - r * r))
    for samples, expected in zip(np.transpose(grads), slopes, strict=True):
        agree(samples, expected, 0.06)


# --- two weak mirrors with a tap between them ------------------------------------------------------------------------


def resonator(rho, rr_start_flux):
    """The tap reads 1 + rho + rho^2 + ... of the flux; every pass is fainter than the one before."""
    scene = nsq.NSQScene()
    pencil(scene, total_flux=2.0)
    for name, z, rx in (("far", 10.0, 0.0), ("near", -10.0, np.pi)):
        mirror = nsq.MirrorConfig(np.inf, rho, aperture_radius=5.0)
        scene.add_mirror(name, nsq.CoordinateSystem(z=z, rx=rx), mirror)
    config = nsq.IrradianceDetectorConfig(4.0, 4.0, num_pixels_x=2, num_pixels_y=2, absorb=False)
    scene.add_detector("tap", nsq.CoordinateSystem(z=5.0), config)
    database(scene, "rays", 6.0, absorb=False)
    scene.sampling_policy = nsq.SamplingPolicy(rr_start_flux=rr_start_flux)
    return scene


def passes(rho, mode="prb", seed=0, rr_start_flux=0.3, rays=1000):
    backend = nsq.TorchBackend(gradient_mode=mode)
    return resonator(rho, rr_start_flux).trace(rays, max_depth=120, min_flux_fraction=0.0, seed=seed, backend=backend)


def test_roulette_keeps_the_mean_and_its_gradient():
    rho = 0.4
    totals, grads, columns = [], [], []
    for seed in range(10):
        value = torch.tensor(rho, dtype=torch.float64, requires_grad=True)
        result = passes(value, seed=seed, rays=2000)
        assert result.num_rays_flux_killed == 2000  # every ray ends so
        detectors = result.detectors
        totals.append(detectors["tap"].total_flux_float)
        (g,) = torch.autograd.grad(detectors["tap"].total_flux, value, retain_graph=True)
        grads.append(g.item())
        (g,) = torch.autograd.grad(detectors["rays"].flux.sum(), value)
        columns.append(g.item())
    agree(totals, 2.0 / (1.0 - rho), 0.005)
    agree(grads, 2.0 / (1.0 - rho) ** 2, 0.02)
    # the database lies behind the tap, and meets the same rays once on each way
    agree(columns, 2.0 / (1.0 - rho) ** 2, 0.02)


def test_no_roulette_where_it_is_turned_off():
    result = passes(0.4, rr_start_flux=0.0)
    assert result.num_rays_flux_killed == 0
    assert result.num_rays_depth_killed == 1000
    assert result.detectors["tap"].total_flux_float == pytest.approx(2.0 / 0.6, rel=1e-12)


def test_path_replay_equals_autograd_through_roulette_and_taps():
    grads = []
    for mode in ("prb", "autograd"):
        value = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
        result = passes(value, mode)
        rays = result.detectors["rays"]
        weights = torch.sin(rays.ray_id.to(torch.float64)) + rays.N  # tells the ways there from the ways back
        (torch.dot(weights, rays.flux) + 0.7 * result.detectors["tap"].data.square().sum()).backward()
        grads.append(value.grad.item())
    assert grads[0] == pytest.approx(grads[1], rel=1e-10)
    assert abs(grads[0]) > 0.1


def test_survivors_carry_flux_over_their_probability():
    """After a mirror all rays have 0.4 of their flux, half of the threshold: one in two goes on, with twice as much."""
    rays = passes(0.4, rr_start_flux=0.8).detectors["rays"]
    back = rays.N < 0.0
    assert (rays.flux[back] * 500.0).numpy() == pytest.approx(0.8, rel=1e-12)
    survivors = len(torch.unique(rays.ray_id[back]))
    assert abs(survivors - 500) < 4.0 * np.sqrt(250.0)  # binomial, four sigma


def test_every_branch_is_drawn_by_the_ray_it_belongs_to():
    """The share that reflects under a fixed probability is binomial; the draws of neighbours are independent."""
    scene = coated_plate(0.3, 0.6)
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.4)
    rays = scene.trace(20_000, max_depth=2, min_flux_fraction=0.0, seed=1).detectors["R"]
    reflected = np.zeros(20_000)
    reflected[rays.ray_id.numpy()] = 1.0
    assert abs(reflected.sum() - 8000.0) < 4.0 * np.sqrt(20_000 * 0.4 * 0.6)  # four sigma
    correlation = np.corrcoef(reflected[:-1], reflected[1:])[0, 1]
    assert abs(correlation) < 4.0 / np.sqrt(20_000)  # four sigma
    draws = nsq.NSQRng(1).uniform(np.arange(20_000), 0, nsq.EventSlot.FRESNEL_BRANCH)
    assert np.array_equal(reflected == 1.0, draws < 0.4)
