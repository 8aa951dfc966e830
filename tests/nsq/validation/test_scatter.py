"""Scatter inside a trace: how much light a lobe sends where, and into which medium."""

import numpy as np
import pytest
from scipy.special import expn

import nsq
from nsq.bsdfs import ABgBSDF, GaussianBSDF, LambertianBSDF, SpecularBRDF
from nsq.configs import FarFieldDetectorConfig

from .tools import (
    CS,
    IDEAL,
    OFF,
    agree,
    chi_square,
    columns,
    database,
    enclose,
    extinction,
    fresnel,
    glass,
    near,
    pencil,
    plane,
)

RAYS = 100_000
SURE = 1.0 - 1e-6  # the largest probability of scattering: the rest keeps the other branch open


def mirror(bsdf, fraction=1.0, degrees=0.0, reflectance=1.0):
    """A beam from -z onto a mirror in the plane z = 0, at an angle of incidence in the x-z plane, inside a reader."""
    scene = nsq.NSQScene()
    angle = np.radians(degrees)
    direction = np.array([np.sin(angle), 0.0, np.cos(angle)])
    pencil(scene, "S", -5.0 * direction, direction)
    surface = nsq.ReflectiveComponent(
        CS(), nsq.PlaneGeometry(), reflectance, bsdf=bsdf, scatter_fraction=fraction, name="M"
    )
    scene.add_component("M", surface)
    enclose(scene, "D", 10.0)
    return scene


def trace(scene, rays=RAYS, **options):
    scene.sampling_policy = OFF
    return scene.trace(rays, min_flux_fraction=0.0, seed=4, **options)


# ---- total integrated scatter ----------------------------------------------------------------------------------------


def test_abg_scatters_its_tis_by_closed_form():
    """A = 0.01, B = 0.001, g = 2 at normal incidence: pi A ln(1 + 1 / B) = 0.217045 of the light."""
    lobe = ABgBSDF(0.01, 0.001, 2.0)
    tis = np.pi * 0.01 * np.log(1001.0)
    assert lobe.total_integrated_scatter == pytest.approx(0.217045, rel=5e-6)
    result = trace(mirror(lobe, lobe.total_integrated_scatter), rays=400_000)
    position, direction, flux, _ = columns(result.detectors["D"])
    beta = np.hypot(direction[:, 0], direction[:, 1])
    specular = beta < 1e-12
    # the bound that the case asks for is 0.5 %, the binomial sigma of these rays 0.3 %
    near(flux[~specular].sum(), tis, 400_000, sigmas=3.0)
    near(flux[specular].sum(), 1.0 - tis, 400_000, sigmas=3.0)
    assert result.total_flux_coating == pytest.approx(0.0, abs=1e-9)
    # and by angle: within beta lies the share ln(1 + beta^2 / B) / ln(1 + 1 / B)
    edges = np.sin(np.radians([0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 45.0, 60.0, 75.0, 90.0]))
    counts, _ = np.histogram(beta[~specular], bins=edges)
    chi_square(counts, np.diff(np.log1p(edges**2 / 0.001)) / np.log(1001.0))
    assert np.all(position[:, 2] < 0.0)


@pytest.mark.parametrize("degrees", [0.0, 40.0, 75.0])
def test_what_leaves_the_hemisphere_is_lost_and_booked(degrees):
    """A ray whose beta would leave the unit disk weighs nothing; the surface books it."""
    lobe = GaussianBSDF(0.25)
    result = trace(mirror(lobe, degrees=degrees))
    angle = np.radians([degrees])
    incident = np.stack([np.sin(angle), 0.0 * angle, -np.cos(angle)], axis=1)
    kept = float(lobe.reflectance(incident, np.array([[0.0, 0.0, 1.0]]), np.array([0.55]))[0])
    if degrees == 0.0:
        assert kept == pytest.approx(1.0, abs=1e-6)
        assert result.total_flux_detected == pytest.approx(1.0, abs=1e-4)
    else:
        near(result.total_flux_detected, kept, RAYS)
    assert result.flux_conservation_error < 1e-12


def test_a_small_lambertian_patch_and_a_far_disk():
    """9.9990e-5 = sin^2 of the disk's half angle, for a disk of radius 1 at distance 100."""
    rays = 2_000_000
    scene = nsq.NSQScene()
    patch = nsq.ExtendedSourceConfig(nsq.Spectrum.monochromatic(0.55), width=1e-6, height=1e-6)
    scene.add_source("S", CS(), patch)
    disk = nsq.FinitePlaneGeometry(aperture_radius=1.0)
    scene.detector_registry.add("D", nsq.detectors.RayDatabaseDetector(CS(z=100.0), disk, name="D"))
    expected = 1.0 / (1.0 + 100.0**2)
    assert expected == pytest.approx(9.9990e-5, rel=1e-5)
    near(scene.trace(rays, seed=2).total_flux_detected, expected, rays, sigmas=3.0)


def test_a_scattering_patch_and_a_disk():
    """The same of a lit patch: rho sin^2, here for a wider disk beside the beam's own source."""
    rays, rho = 400_000, 0.8
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -1.0), (0.0, 0.0, 1.0))
    surface = nsq.ReflectiveComponent(CS(), nsq.PlaneGeometry(), 1.0, bsdf=LambertianBSDF(rho))
    scene.add_component("M", surface)
    disk = nsq.FinitePlaneGeometry(aperture_radius=20.0)
    scene.detector_registry.add("D", nsq.detectors.RayDatabaseDetector(CS(z=-100.0), disk, name="D"))
    result = scene.trace(rays, seed=2)
    near(result.total_flux_detected, rho * 400.0 / (1e4 + 400.0), rays, weight=rho)
    assert result.total_flux_coating == pytest.approx(1.0 - rho, abs=3e-6)


# ---- where and how much ----------------------------------------------------------------------------------------------


def test_a_lambertian_mirror_in_the_far_field():
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -1.0), (0.3, 0.0, 1.0))
    surface = nsq.ReflectiveComponent(CS(), nsq.PlaneGeometry(), 0.9, bsdf=LambertianBSDF(0.7))
    scene.add_component("M", surface)
    scene.add_detector("F", CS(z=-2.0), FarFieldDetectorConfig(num_theta=18, num_phi=12))
    pattern = trace(scene).detectors["F"]
    assert pattern.total_flux_float == pytest.approx(0.63, abs=5e-6)
    counts = np.rint(pattern.flux.numpy() * RAYS / 0.63 * SURE)
    shares = np.diff(np.sin(np.radians(pattern.theta_edges)) ** 2)[:, None] / 12.0 * np.ones(12)
    chi_square(counts, shares)


@pytest.mark.parametrize("fraction", [0.0, 0.2, 0.9, 1.0])
def test_the_share_that_is_scattered(fraction):
    """The weights of the two branches: fraction / p and (1 - fraction) / (1 - p) with p near the fraction."""
    result = trace(mirror(LambertianBSDF(0.5), fraction, degrees=30.0, reflectance=0.8))
    _, direction, flux, _ = columns(result.detectors["D"])
    specular = np.abs(direction[:, 0] - 0.5) + np.abs(direction[:, 1]) < 1e-9
    p = np.clip(fraction, 1e-6, SURE)
    if fraction > 0.0:
        assert flux[~specular] * RAYS == pytest.approx(0.8 * 0.5 * fraction / p, rel=1e-12)
    if fraction < 1.0:
        assert flux[specular] * RAYS == pytest.approx(0.8 * (1.0 - fraction) / (1.0 - p), rel=1e-12)
    if 0.0 < fraction < 1.0:
        near(np.mean(~specular), fraction, RAYS)
    assert result.flux_conservation_error < 1e-12


def test_a_specular_lobe_changes_nothing():
    still = trace(mirror(None, degrees=25.0), rays=500)
    lobed = trace(mirror(SpecularBRDF(), degrees=25.0), rays=500)
    a, b = (columns(r.detectors["D"])[1] for r in (still, lobed))
    assert a == pytest.approx(b, abs=1e-15)


def test_refraction_comes_before_scatter():
    """On a glass face the lobe sits about the ray that the Fresnel choice made: narrow, so the two sides tell."""
    n, sigma, degrees = 1.5, 1e-3, 40.0
    scene = nsq.NSQScene()
    angle = np.radians(degrees)
    direction = np.array([np.sin(angle), 0.0, np.cos(angle)])
    pencil(scene, "S", -5.0 * direction, direction)
    plane(scene, "I", 0.0, nsq.VACUUM, glass(n), bsdf=GaussianBSDF(sigma, 1.0), coating=IDEAL)
    enclose(scene, "D", 10.0)
    _, out, _, _ = columns(trace(scene, rays=20_000).detectors["D"])
    assert np.all(out[:, 2] > 0.0)
    centre = np.array([np.sin(angle) / n, 0.0])
    offset = (out[:, :2] - centre) / sigma
    assert np.mean(offset, axis=0) == pytest.approx(np.zeros(2), abs=4.0 / np.sqrt(20_000))
    agree(0.5 * np.sum(offset**2, axis=1), 1.0, within=0.01)  # cut at six sigma: 1.5e-8 is missing


def test_the_lobe_of_light_reflected_at_glass_is_about_the_reflected_ray():
    """Half of the rays reflect: those scatter about the mirror direction and stay outside, in the medium there."""
    n, sigma, degrees = 1.5, 1e-3, 40.0
    scene = nsq.NSQScene()
    angle = np.radians(degrees)
    direction = np.array([np.sin(angle), 0.0, np.cos(angle)])
    pencil(scene, "S", -5.0 * direction, direction)
    plane(scene, "I", 0.0, nsq.VACUUM, glass(n, extinction(0.3)), bsdf=GaussianBSDF(sigma))
    enclose(scene, "D", 10.0)
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.5, rr_start_flux=0.0)
    rays = 20_000
    _, out, flux, _ = columns(scene.trace(rays, min_flux_fraction=0.0, seed=4).detectors["D"])
    # a lobe before the surface lies on this side whatever the choice: about the reflected ray, or the refracted one's
    assert np.all(out[:, 2] < 0.0)
    mirrored = np.abs(out[:, 0] - direction[0]) < 10.0 * sigma
    near(np.mean(mirrored), 0.5, rays)
    offset = (out[mirrored, :2] - [direction[0], 0.0]) / sigma
    assert np.mean(offset, axis=0) == pytest.approx(np.zeros(2), abs=4.0 / np.sqrt(rays / 2))
    reflected = float(fresnel(np.cos(angle), 1.0, n))
    assert flux[mirrored] * rays * SURE == pytest.approx(reflected / 0.5, rel=1e-9)  # no glass on the way


# ---- media -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.0, 1.0])
@pytest.mark.parametrize("degrees", [0.0, 50.0])
def test_scattered_light_is_in_the_medium_it_goes_into(fraction, degrees):
    """A Lambertian face of glass with its lobe in front of it or behind: what is absorbed on the way to a plane at
    distance d tells the medium, exp(-alpha d / cos) in the glass and nothing outside."""
    alpha, d, rays = 0.3, 2.0, 4000
    medium = glass(1.5, extinction(alpha))
    scene = nsq.NSQScene()
    angle = np.radians(degrees)
    direction = np.array([np.sin(angle), 0.0, np.cos(angle)])
    pencil(scene, "S", -0.5 * direction, direction)
    plane(scene, "I", 0.0, nsq.VACUUM, medium, bsdf=LambertianBSDF(0.9, fraction), coating=IDEAL)
    database(scene, "beyond", CS(z=d), 1e6)
    database(scene, "before", CS(z=-d), 1e6)
    result = trace(scene, rays=rays)
    name = "beyond" if fraction == 1.0 else "before"
    _, out, flux, _ = columns(result.detectors[name])
    assert len(flux) > 0.99 * rays
    path = np.exp(-alpha * d / np.abs(out[:, 2])) if fraction == 1.0 else 1.0
    assert np.abs(flux * rays * SURE / 0.9 / path - 1.0).max() < 1e-9


@pytest.mark.parametrize("start", ["inside", "outside"])
def test_light_scattered_out_of_glass_and_back(start):
    """Light from within glass, scattered across its face, travels outside; and from outside, inside."""
    alpha, d, rays = 0.3, 2.0, 4000
    medium = glass(1.5, extinction(alpha))
    scene = nsq.NSQScene()
    sign = 1.0 if start == "inside" else -1.0
    pencil(scene, "S", (0.0, 0.0, 0.25 * sign), (0.0, 0.0, -sign), medium=medium if start == "inside" else None)
    lobe = LambertianBSDF(1.0, 0.4)  # two fifths cross the face
    plane(scene, "I", 0.0, nsq.VACUUM, medium, bsdf=lobe, coating=IDEAL)
    database(scene, "glass", CS(z=d), 1e6)
    database(scene, "air", CS(z=-d), 1e6)
    detectors = trace(scene, rays=rays).detectors
    first = np.exp(-alpha * 0.25) if start == "inside" else 1.0
    _, out, flux, _ = columns(detectors["glass"])
    assert np.abs(flux * rays * SURE / (first * np.exp(-alpha * d / out[:, 2])) - 1.0).max() < 1e-9
    _, _, bare, _ = columns(detectors["air"])
    assert np.abs(bare * rays * SURE / first - 1.0).max() < 1e-9
    near(len(flux) / rays, 0.6 if start == "inside" else 0.4, rays)


def test_a_diffuser_plate():
    """Both faces scatter forwards only; the mean of exp(-a / mu) over a Lambertian lobe is 2 E3(a)."""
    alpha, d, rho = 0.2, 3.0, 0.9
    medium = glass(1.5, extinction(alpha))
    lobe = LambertianBSDF(rho, 1.0)
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -1.0), (0.0, 0.0, 1.0))
    plane(scene, "front", 0.0, nsq.VACUUM, medium, bsdf=lobe, coating=IDEAL)
    # rays beyond the critical angle of the second face would turn back before they scatter: it has none
    plane(scene, "back", d, medium, glass(1.5), bsdf=lobe, coating=IDEAL)
    database(scene, "D", CS(z=d + 1.0), 1e7)
    result = trace(scene)
    expected = rho**2 * 2.0 * expn(3, alpha * d)
    near(result.total_flux_detected, expected, RAYS, weight=rho**2)
    near(result.total_flux_bulk_absorbed, rho * (1.0 - 2.0 * expn(3, alpha * d)), RAYS, weight=rho)
    assert result.flux_conservation_error < 1e-12
