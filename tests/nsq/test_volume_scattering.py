"""Scatter inside media: free paths, the phase function, slabs of known reflectance, and derivatives of all of it."""

import math

import numpy as np
import pytest
import torch
from scipy.special import exp1, expn

import nsq

from . import scenes
from .validation.tools import (
    CS,
    GREEN,
    IDEAL,
    OFF,
    agree,
    chi_square,
    columns,
    enclose,
    extinction,
    glass,
    near,
    pencil,
)

Haze = nsq.HenyeyGreenstein


def medium(g=0.0, path=1.0, albedo=1.0, n=1.0, k=0.0):
    return nsq.NSQMaterial.constant(n, k, scattering=Haze(g, path, albedo))


def slab(inside, thickness, front=0.0, shift=0.0):
    """Light along the axis onto an infinite layer without surfaces of its own, between two readers of all rays."""
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=1e-9)
    scene.add_source("S", CS(x=shift, z=-1.0), beam)
    for name, z, media in (("a", front, (nsq.VACUUM, inside)), ("b", thickness, (inside, nsq.VACUUM))):
        scene.add_component(name, nsq.RefractiveComponent(CS(z=z), nsq.PlaneGeometry(), *media, coating=IDEAL))
    scene.detector_registry.add("T", nsq.RayDatabaseDetector(CS(z=50.0), nsq.PlaneGeometry(), name="T"))
    scene.detector_registry.add("R", nsq.RayDatabaseDetector(CS(z=-2.0), nsq.PlaneGeometry(), name="R"))
    scene.sampling_policy = OFF
    return scene


def traced(scene, rays, seed=1, **options):
    return scene.trace(rays, min_flux_fraction=0.0, seed=seed, **{"max_depth": 2000, **options})


def totals(result):
    return tuple(result.detectors[name].total_flux for name in ("R", "T"))


def exact_slab(depth, albedo, cells=500):
    """(R, T) of a layer of isotropic scatterers for light along the axis, T with the direct beam.

    The source function per steradian solves J = albedo / 2 (E1 * J) + albedo / 4 pi exp(-tau), here piecewise constant
    on even cells; what leaves is 2 pi times its integral with E2.
    """
    edges = np.linspace(0.0, depth, cells + 1)
    middle = 0.5 * (edges[1:] + edges[:-1])
    # the integral of E1(|t|) from 0 to x is 1 - E2(x)
    running = np.sign(edges - middle[:, None]) * (1.0 - expn(2, np.abs(edges - middle[:, None])))
    kernel = np.diff(running, axis=1)
    beam = -np.diff(np.exp(-edges)) / np.diff(edges)
    source = np.linalg.solve(np.eye(cells) - 0.5 * albedo * kernel, albedo / (4.0 * np.pi) * beam)
    out = -np.diff(expn(3, edges)), np.diff(expn(3, depth - edges))
    reflected, through = (2.0 * np.pi * source @ weight for weight in out)
    return float(reflected), float(through) + math.exp(-depth)


def test_the_reference_slab_is_right():
    """It loses no light where nothing absorbs, and for one collision at most it is the integral of that."""
    assert sum(exact_slab(2.0, 1.0)) == pytest.approx(1.0, abs=1e-5)
    # to first order in the albedo, R = albedo / 2 times the integral of exp(-t) E2(t), 1 - ln 2 for a deep layer
    assert exact_slab(15.0, 1e-6, 1500)[0] / 1e-6 == pytest.approx(0.5 * (1.0 - math.log(2.0)), rel=1e-4)
    assert exp1(1.0) == pytest.approx(expn(1, 1.0))


# ---- one collision ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(("path", "thickness"), [(1.0, 2.0), (0.3, 0.1)])
def test_light_that_meets_nothing_goes_on_as_it_was(path, thickness, precision):
    """exp(-d / mean free path) of it, within 3 sigma; with an albedo of 0 the medium has the rest."""
    rays = 200_000
    result = traced(slab(medium(0.5, path, 0.0), thickness), rays, precision=precision)
    direct = math.exp(-thickness / path)
    lit = result.detectors["T"].flux.numpy() > 0.0
    near(lit.sum() / rays, direct, rays, sigmas=3.0)
    near(result.total_flux_detected, direct, rays, sigmas=3.0)
    assert result.total_flux_bulk_absorbed == pytest.approx(1.0 - result.total_flux_detected, abs=1e-6)
    assert result.detectors["R"].total_flux_float == 0.0


@pytest.mark.parametrize("g", [-0.4, 0.0, 0.6, 0.95])
def test_the_angle_of_scatter_follows_the_phase_function(g):
    """In a ball of a two-hundredth of a mean free path: one ray in two hundred collides once, hardly any more often."""
    rays, radius = 2_000_000, 0.005
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), medium=medium(g))
    enclose(scene, "D", radius)
    _, direction, flux, _ = columns(traced(scene, rays, seed=3).detectors["D"])
    turned = direction[direction[:, 2] < 1.0 - 1e-12]
    near(len(turned) / rays, 1.0 - math.exp(-radius), rays, sigmas=4.0)
    assert np.all(flux == flux[0])
    cosine, azimuth = turned[:, 2], np.arctan2(turned[:, 1], turned[:, 0])
    # one ray in four hundred collided twice
    assert cosine.mean() == pytest.approx(g, abs=4.0 * cosine.std() / math.sqrt(len(cosine)) + 0.0025)
    edges = np.linspace(-1.0, 1.0, 26)
    inner = 1.0 / np.sqrt(1.0 + g * g - 2.0 * g * edges)
    shares = np.diff((1.0 - g * g) / (2.0 * g) * inner) if g else np.diff(edges) / 2.0
    counts, *_ = np.histogram2d(cosine, azimuth, bins=(edges, 8), range=((-1.0, 1.0), (-np.pi, np.pi)))
    chi_square(counts, np.repeat(shares / 8.0, 8))


# ---- slabs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "albedo"), [(0.5, 1.0), (2.0, 1.0), (8.0, 1.0), (2.0, 0.8)])
def test_an_isotropic_slab(depth, albedo):
    rays = 60_000
    result = traced(slab(medium(0.0, 0.25, albedo), 0.25 * depth), rays)
    reflected, through = (float(total) for total in totals(result))
    for found, expected in zip((reflected, through), exact_slab(depth, albedo), strict=True):
        near(found, expected, rays, sigmas=4.0)
    assert result.total_flux_bulk_absorbed == pytest.approx(1.0 - reflected - through, abs=1e-9)
    assert result.flux_conservation_error < 1e-12
    assert result.num_rays_depth_killed == 0


def test_a_half_space_reflects_by_chandrasekhars_function():
    """R = 1 - H(1) sqrt(1 - albedo), H of isotropic scatter from its own equation."""
    albedo, rays = 0.9, 60_000
    x, w = (0.5 * (v + shift) for v, shift in zip(np.polynomial.legendre.leggauss(64), (1.0, 0.0), strict=True))
    h = np.ones(64)
    for _ in range(200):
        # the form that converges: 1 / H = sqrt(1 - albedo) + albedo / 2 int mu' H(mu') / (mu + mu')
        h = 1.0 / (math.sqrt(1.0 - albedo) + 0.5 * albedo * ((w * x * h) / (x[:, None] + x)).sum(axis=1))
    at_1 = 1.0 / (math.sqrt(1.0 - albedo) + 0.5 * albedo * np.sum(w * x * h / (1.0 + x)))
    assert at_1 == pytest.approx(1.9, abs=0.1)
    result = traced(slab(medium(0.0, 1.0, albedo), 1e4), rays)
    near(result.total_flux_detected, 1.0 - at_1 * math.sqrt(1.0 - albedo), rays, sigmas=4.0)


def test_absorption_by_albedo_and_by_extinction_are_one():
    """mu_s = 1.5 and mu_a = 0.3 per mm either way, g = 0.7: the same light on the average, 4 sigma."""
    readings = {}
    for name, inside in {
        "albedo": medium(0.7, 1.0 / 1.8, 1.5 / 1.8),
        "extinction": medium(0.7, 1.0 / 1.5, 1.0, k=extinction(0.3)),
    }.items():
        rows = []
        for seed in range(12):
            result = traced(slab(inside, 2.0), 10_000, seed=seed + 100 * len(readings))
            rows.append([*(float(total) for total in totals(result)), result.total_flux_bulk_absorbed])
            assert result.flux_conservation_error < 1e-12
        readings[name] = np.array(rows)
    a, b = readings.values()
    error = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / 12)
    assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4.0 * error)
    assert np.all(error < 0.02 * a.mean(axis=0))


def test_numbers_may_depend_on_the_wavelength():
    """Blue light has half the mean free path of red: each line attenuates by its own."""
    rays = 100_000
    spectrum = nsq.Spectrum([0.45, 0.65], [1.0, 1.0])
    inside = nsq.NSQMaterial(scattering=Haze(0.0, lambda w: np.where(np.asarray(w) < 0.5, 1.0, 2.0), 0.0))
    scene = slab(inside, 1.0)
    scene.remove_source("S")
    scene.add_source("S", CS(z=-1.0), nsq.CollimatedSourceConfig(spectrum=spectrum, aperture_radius=1e-9))
    rows = traced(scene, rays).detectors["T"]
    flux, blue = rows.flux.numpy(), rows.wavelength.numpy() < 0.5
    near(flux[blue].sum(), 0.5 * math.exp(-1.0), rays)
    near(flux[~blue].sum(), 0.5 * math.exp(-0.5), rays)


# ---- in solids, and with the rest of the trace -----------------------------------------------------------------------


def opal(path=0.4, albedo=0.98, g=0.8):
    """A milky lens before a screen."""
    scene = nsq.NSQScene()
    scene.add_source("S", CS(z=-30.0), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=4.0))
    edge = nsq.SurfaceConfig(interaction=nsq.InteractionType.REFRACTIVE)
    config = nsq.LensConfig(40.0, -40.0, 4.0, medium(g, path, albedo, 1.5, 1e-7), 8.0, edge=edge)
    scene.add_lens("L", CS(), config)
    scene.add_detector("D", CS(z=15.0), nsq.IrradianceDetectorConfig(40.0, 40.0, 16, 16))
    return scene


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_nothing_leaks_from_a_dense_solid(precision):
    """A mean free path of a 200th of the ball: every ray leaves through the face that it meets, refracted there."""
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -12.0), (0.0, 0.0, 1.0))
    ball = nsq.RefractiveComponent(CS(), nsq.SphereGeometry(2.0), medium(0.0, 0.02, 1.0, 1.5), nsq.VACUUM, name="ball")
    ball.material_front, ball.material_back = nsq.VACUUM, ball.material_front
    scene.add_component("ball", ball)
    enclose(scene, "D", 20.0)
    scene.sampling_policy = OFF
    result = traced(scene, 200, max_depth=60_000, precision=precision)
    books = result.surfaces["ball"]
    assert (books.num_medium_mismatches, result.medium_stack_underflows) == (0, 0)
    assert books.num_hits > 500
    assert result.total_flux_detected == pytest.approx(1.0, abs=1e-5 if precision == "float32" else 1e-9)


def test_batches_and_threads_give_the_same_bits():
    results = []
    for threads, batch in ((1, 16384), (2, 7), (2, 5000)):
        nsq.set_num_threads(threads)
        try:
            results.append(opal().trace(12_000, seed=6, batch_size=batch, max_depth=200))
        finally:
            nsq.set_num_threads(None)
    for other in results[1:]:
        assert scenes.ledger(other) == scenes.ledger(results[0])
        assert np.array_equal(other.detectors["D"].irradiance, results[0].detectors["D"].irradiance)
    assert results[0].flux_conservation_error < 1e-12


def test_splitting_and_roulette_move_no_mean():
    policies = {
        "plain": nsq.SamplingPolicy(rr_start_flux=0.0),
        "split": nsq.SamplingPolicy(rr_start_flux=0.0, split_depth=4, split_budget=6.0),
        "roulette": nsq.SamplingPolicy(rr_start_flux=0.8),
    }
    found = {}
    for place, (name, policy) in enumerate(policies.items()):
        rows = []
        for seed in range(10):
            scene = opal(albedo=0.9)
            scene.sampling_policy = policy
            result = scene.trace(4000, seed=seed + 100 * place, max_depth=400, min_flux_fraction=0.0)
            assert result.flux_conservation_error < 1e-9
            assert result.num_rays_depth_killed < 5
            rows.append([result.total_flux_detected, result.total_flux_bulk_absorbed, result.total_flux_escaped])
        found[name] = np.array(rows)
    for name in ("split", "roulette"):
        error = np.sqrt((found[name].var(axis=0, ddof=1) + found["plain"].var(axis=0, ddof=1)) / 10)
        assert np.all(np.abs(found[name].mean(axis=0) - found["plain"].mean(axis=0)) < 4.0 * error), name


def test_float32_agrees_with_float64():
    """Draws of 24 bits against 32: other rays, the same light."""
    double, single = (opal().trace(40_000, seed=4, max_depth=300, precision=p) for p in ("float64", "float32"))
    error = math.sqrt(2.0 * 0.25 / 40_000)
    assert double.total_flux_detected == pytest.approx(single.total_flux_detected, abs=4.0 * error)


def test_a_medium_that_never_scatters_changes_nothing():
    """An infinite mean free path is none, to the bit."""
    clear, never = opal(), opal(path=math.inf)
    config = nsq.LensConfig(40.0, -40.0, 4.0, glass(1.5, 1e-7), 8.0, edge=clear.component_registry.get("L").config.edge)
    clear.remove_component("L")
    clear.add_lens("L", CS(), config)
    assert scenes.ledger(clear.trace(5000, seed=2)) == scenes.ledger(never.trace(5000, seed=2))


def test_recorded_rays_know_their_collisions():
    """Between two hits of a recorded ray the direction turns, and a path lists what scattered it."""
    scene = slab(medium(0.0, 0.5, 1.0), 1.0)
    result = traced(scene, 400, record_paths=True)
    events = result.ray_paths["events"]
    hits = events[events["event_type"] == "hit"]
    assert set(hits["component_name"]) == {"a", "b", "R", "T", "medium"}
    inside = hits[hits["component_name"] == "medium"]
    assert inside["z"].min() > hits["z"][hits["component_name"] == "a"].max()
    assert inside["z"].max() < hits["z"][hits["component_name"] == "b"].min()
    assert len(hits[hits["component_name"] == "a"]) > 400  # some come back through the face they came by
    assert "a:refract > medium:scatter > medium:scatter > b:refract > T:detect" in str(result.paths())
    for name in ("R", "T"):
        read = result.detectors[name].total_flux_float
        assert result.paths().to(name).total_flux == pytest.approx(read, rel=1e-9)
    assert all(np.isfinite(events[c]).all() for c in "xyzLMN")


# ---- gradients -------------------------------------------------------------------------------------------------------


def attached(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("name", ["path", "albedo", "thickness", "front"])
def test_derivatives_of_a_slab(name):
    """Reflectance and transmittance of an isotropic layer against differences of the exact solution, 4 sigma."""
    numbers = {"path": 0.5, "albedo": 0.9, "thickness": 0.8, "front": 0.0}

    def exact(**changes):
        v = {**numbers, **changes}
        return np.array(exact_slab((v["thickness"] - v["front"]) / v["path"], v["albedo"]))

    h = 1e-4
    expected = (exact(**{name: numbers[name] + h}) - exact(**{name: numbers[name] - h})) / (2.0 * h)
    slopes = []
    for seed in range(8):
        v = {**numbers, name: attached(numbers[name])}
        scene = slab(medium(0.0, v["path"], v["albedo"]), v["thickness"], v["front"])
        reflected, through = totals(traced(scene, 8000, seed=seed))
        slopes.append(
            [torch.autograd.grad(total, v[name], retain_graph=True)[0].item() for total in (reflected, through)]
        )
    for found, slope in zip(np.array(slopes).T, expected, strict=True):
        agree(found, slope, within=0.08)


def test_the_derivative_of_the_mean_cosine():
    """Of the light that collided once: d(flux) / dg = 0 and d(flux cos) / dg = the flux, at any g."""
    radius, rays = 0.05, 300_000
    for g in (0.0, 0.5):
        values = []
        for seed in range(6):
            asymmetry = attached(g)
            scene = nsq.NSQScene()
            pencil(scene, "S", (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), medium=medium(asymmetry))
            enclose(scene, "D", radius)
            scene.sampling_policy = OFF
            got = traced(scene, rays, seed=seed, max_depth=2).detectors["D"]  # a collision, and the reader
            turned = got.N.detach() < 1.0 - 1e-12
            flux, cosine = got.flux[turned], got.N.detach()[turned]
            once = flux.sum().item()
            slopes = [torch.autograd.grad(s, asymmetry, retain_graph=True)[0].item() for s in
                      (flux.sum(), (flux * cosine).sum())]  # fmt: skip
            values.append([slopes[0] / once, slopes[1] / once])
        constant, cosine = np.array(values).T
        agree(constant, 0.0)
        agree(cosine, 1.0, within=0.05)


def test_derivatives_at_the_same_draws():
    """Albedo and k decide nothing, so a central difference at the same random numbers sees the same rays."""

    def loss(albedo, k):
        scene = opal()
        lens = scene.component_registry.get("L").config
        scene.remove_component("L")
        inside = medium(0.8, 0.4, albedo, 1.5, k)
        scene.add_lens("L", CS(), nsq.LensConfig(40.0, -40.0, 4.0, inside, 8.0, edge=lens.edge))
        scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.2, rr_start_flux=0.0)
        data = scene.trace(3000, seed=3, max_depth=60, min_flux_fraction=0.0).detectors["D"].data
        return (data * torch.arange(data.numel(), dtype=data.dtype).reshape(data.shape)).sum()

    at = {"albedo": 0.95, "k": 2e-6}
    leaves = {name: attached(value) for name, value in at.items()}
    loss(**leaves).backward()
    for name, step in (("albedo", 1e-5), ("k", 1e-9)):
        up, down = (loss(**{**at, name: at[name] + sign * step}).item() for sign in (1.0, -1.0))
        assert leaves[name].grad.item() == pytest.approx((up - down) / (2.0 * step), rel=1e-5)


def test_light_moves_with_its_source():
    """A layer is the same everywhere, so what comes out moves by what the source moves, in either gradient mode."""
    slopes = []
    for mode in ("prb", "autograd"):
        x = attached(0.3)
        scene = slab(medium(0.6, 0.5, 0.9), 1.0, shift=x)
        got = traced(scene, 4000, backend=nsq.TorchBackend(gradient_mode=mode), batch_size=4096).detectors["T"]
        mean = (got.flux.detach() * got.x).sum() / got.flux.detach().sum()
        slopes.append(torch.autograd.grad(mean, x)[0].item())
    assert slopes[0] == pytest.approx(1.0, abs=1e-9)
    assert slopes[1] == pytest.approx(slopes[0], rel=1e-10)


def test_the_end_of_a_segment_moves_with_a_sag_too():
    """A flat asphere at the back of the layer gives the derivative that a plane gives, ray by ray."""
    slopes = []
    for geometry in (nsq.FinitePlaneGeometry(aperture_radius=40.0), nsq.EvenAsphereGeometry(math.inf, 0.0, 40.0)):
        z = attached(1.0)
        scene = slab(medium(0.5, 0.5, 0.9), z)
        scene.surfaces[1].geometry = geometry
        got = totals(traced(scene, 3000, max_depth=40))
        slopes.append([torch.autograd.grad(total, z, retain_graph=True)[0].item() for total in got])
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-7)
    assert abs(slopes[0][0]) > 0.01


def test_it_is_saved(tmp_path):
    scene = opal()
    scene.to_json(tmp_path / "scene.json")
    again = nsq.NSQScene.from_json(tmp_path / "scene.json")
    assert scenes.ledger(again.trace(1000, seed=3, max_depth=50)) == scenes.ledger(
        scene.trace(1000, seed=3, max_depth=50)
    )


# ---- input -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Haze(1.0, 1.0), ValueError, ["g", "1.0", "between -1 and 1"]),
        (lambda: Haze("0.5", 1.0), TypeError, ["g", "'0.5'"]),
        (lambda: Haze(0.5, 0.0), ValueError, ["mean_free_path", "> 0"]),
        (lambda: Haze(0.5, math.nan), ValueError, ["mean_free_path", "nan"]),
        (lambda: Haze(0.5, 1.0, 1.5), ValueError, ["albedo", "1.5", "<= 1"]),
        (lambda: nsq.NSQMaterial(scattering=0.5), TypeError, ["scattering", "0.5", "HenyeyGreenstein"]),
        (
            lambda: slab(medium(path=lambda wavelength: -1.0), 1.0).trace(10),
            ValueError,
            ["scattering of n = 1", "mean_free_path", "-1", "0.55"],
        ),
        (lambda: slab(medium(g=lambda wavelength: 1.0), 1.0).trace(10), ValueError, ["g", "between -1 and 1"]),
    ],
)
def test_bad_numbers(make, error, words):
    with pytest.raises(error) as caught:
        make()
    for word in words:
        assert word in str(caught.value), str(caught.value)
