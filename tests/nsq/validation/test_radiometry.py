"""Light in empty space: the inverse square law, cos^4, far fields, and how fast a trace converges."""

import numpy as np
import pytest

import nsq
from nsq.configs import FarFieldDetectorConfig

from .tools import CS, GREEN, agree, chi_square, near

ISOTROPIC = nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=180.0)
LAMBERTIAN = nsq.ExtendedSourceConfig(spectrum=GREEN, width=1e-9, height=1e-9)


def square(scene, name, z, side, absorb=True, **options):
    config = {"num_pixels_x": 1, "num_pixels_y": 1, **options}
    scene.add_detector(name, CS(z=z), nsq.IrradianceDetectorConfig(side, side, absorb=absorb, **config))


def test_inverse_square():
    """The solid angle of a square of side a at distance d is 4 atan(a^2 / (2 d sqrt(4 d^2 + 2 a^2)))."""
    scene, rays, side = nsq.NSQScene(), 1_000_000, 5.0
    scene.add_source("S", CS(), ISOTROPIC)
    distances = (10.0, 20.0, 40.0, 80.0)
    for d in distances:
        square(scene, f"at {d:g}", d, side, absorb=d == distances[-1])
    result = scene.trace(rays, seed=3)
    for d in distances:
        detector = result.detectors[f"at {d:g}"]
        omega = 4.0 * np.arctan(side**2 / (2.0 * d * np.sqrt(4.0 * d**2 + 2.0 * side**2)))
        near(detector.total_flux_float, omega / (4.0 * np.pi), rays)
        # from far away, irradiance times distance squared is the intensity, less a share of a^2 / (4 d^2)
        if d >= 40.0:
            sigma = np.sqrt(4.0 * np.pi / rays) * d / side
            slack = 4.0 * sigma + 0.25 * (side / d) ** 2
            assert detector.irradiance[0, 0] * d**2 * 4.0 * np.pi == pytest.approx(1.0, abs=slack)


@pytest.mark.parametrize(("source", "power", "scale"), [(LAMBERTIAN, 4, 1.0), (ISOTROPIC, 3, 0.25)])
def test_cosines_off_axis(source, power, scale):
    """A plane at distance d sees cos^4 / (pi d^2) of a Lambertian patch, and cos^3 / (4 pi d^2) of a point."""
    scene, rays, d, side, pixels = nsq.NSQScene(), 400_000, 10.0, 40.0, 24
    scene.add_source("S", CS(), source)
    square(scene, "D", d, side, num_pixels_x=pixels, num_pixels_y=pixels, splat="hard")
    detector = scene.trace(rays, seed=5).detectors["D"]
    nodes, weights = np.polynomial.legendre.leggauss(6)
    half = 0.5 * side / pixels
    points = (detector.x_coords[:, None] + half * nodes).ravel()
    x, y = np.meshgrid(points, points)
    irradiance = scale / (np.pi * d**2) * (d / np.sqrt(x**2 + y**2 + d**2)) ** power
    w = np.tile(half * weights, pixels)
    shares = (irradiance * np.outer(w, w)).reshape(pixels, 6, pixels, 6).sum(axis=(1, 3))
    counts = np.rint(detector.data.numpy() * rays)
    assert np.abs(counts - detector.data.numpy() * rays).max() < 1e-6
    near(detector.total_flux_float, shares.sum(), rays)
    chi_square(counts, shares.ravel() / shares.sum())


# ---- far fields ------------------------------------------------------------------------------------------------------


def far_field(source, rays, **config):
    scene = nsq.NSQScene()
    scene.add_source("S", CS(), source)
    scene.add_detector("F", CS(z=1.0), FarFieldDetectorConfig(**config))
    return scene.trace(rays, seed=1).detectors["F"]


def exact_solid_angle(pattern):
    edges = np.cos(np.radians(pattern.theta_edges))
    return (edges[:-1] - edges[1:])[:, None] * np.radians(np.diff(pattern.phi_edges))


def test_far_field_of_an_isotropic_point():
    """1 / (4 pi) W/sr everywhere; the detector sees one hemisphere, half of the light."""
    rays = 400_000
    pattern = far_field(ISOTROPIC, rays, num_theta=18, num_phi=24)
    near(pattern.total_flux_float, 0.5, rays, sigmas=3.0)
    assert pattern.data.sum().item() == pytest.approx(pattern.total_flux_float, abs=1e-12)
    omega = exact_solid_angle(pattern)
    chi_square(np.rint(pattern.flux.numpy() * rays), omega / (2.0 * np.pi))
    # the nominal solid angle is that of the bin's centre; it is right to (dtheta)^2 / 24
    assert pattern.solid_angle[:, None] * np.ones(24) == pytest.approx(omega, rel=4e-4)
    mean = np.sum(pattern.intensity * omega) / np.sum(omega)
    assert abs(mean / 0.0795775 - 1.0) < 3.0 / np.sqrt(rays) + 4e-4  # half of the rays, binomial
    assert np.sum(pattern.intensity * pattern.solid_angle[:, None]) == pytest.approx(pattern.total_flux_float)


def test_far_field_of_both_hemispheres():
    """Two detectors, one on each side, see all the light, and each the same pattern folded onto its own axis."""
    scene, rays = nsq.NSQScene(), 200_000
    scene.add_source("S", CS(), ISOTROPIC)
    for name, z in (("up", 1.0), ("down", -1.0)):
        scene.add_detector(name, CS(z=z), FarFieldDetectorConfig(num_theta=9, num_phi=12))
    detectors = scene.trace(rays, seed=2).detectors
    total = sum(np.sum(d.intensity * d.solid_angle[:, None]) for d in detectors.values())
    assert total == pytest.approx(1.0, abs=1e-12)
    for pattern in detectors.values():
        chi_square(np.rint(pattern.flux.numpy() * rays), exact_solid_angle(pattern) / (2.0 * np.pi))


def test_far_field_of_a_lambertian_source():
    """I = cos / pi, so that the light within theta is sin^2: a quarter of it within 30 degrees."""
    rays = 400_000
    pattern = far_field(LAMBERTIAN, rays, num_theta=90, num_phi=36)
    assert pattern.total_flux_float == pytest.approx(1.0, abs=1e-12)
    near(pattern.flux[:30].sum().item(), 0.25, rays, sigmas=3.0)
    shares = np.diff(np.sin(np.radians(pattern.theta_edges)) ** 2)[:, None] / 36.0 * np.ones(36)
    chi_square(np.rint(pattern.flux.numpy() * rays), shares)
    within = pattern.flux[:4].sum().item()  # 4 degrees about the axis
    sigma = np.sqrt(np.sin(np.radians(4.0)) ** 2 / rays) / np.sin(np.radians(4.0)) ** 2
    axial = within / (np.pi * np.sin(np.radians(4.0)) ** 2)
    assert axial == pytest.approx(0.318310, rel=3.0 * sigma)


def test_a_bilinear_pattern_holds_the_same_light():
    """Splatting moves light to neighbours and changes no sum."""
    hard, soft = (far_field(LAMBERTIAN, 50_000, num_theta=30, num_phi=12, splat=s) for s in ("hard", "bilinear"))
    assert soft.total_flux_float == hard.total_flux_float
    assert soft.data.sum().item() == pytest.approx(1.0, abs=1e-12)
    a, b = (np.cumsum(p.flux.numpy().sum(axis=1)) for p in (hard, soft))
    assert np.abs(a - b).max() < np.max(hard.flux.numpy().sum(axis=1))


# ---- convergence -----------------------------------------------------------------------------------------------------


def test_errors_fall_as_one_over_the_root_of_the_number_of_rays():
    """Spread over seeds against the binomial sigma at three sizes; a variance of 48 samples is known to 21 %."""
    expected = np.sin(np.radians(20.0)) ** 2
    for rays in (500, 8000, 128_000):
        found = []
        for seed in range(48):
            scene = nsq.NSQScene()
            scene.add_source("S", CS(), LAMBERTIAN)
            detector = nsq.detectors.RayDatabaseDetector(
                CS(z=5.0), nsq.FinitePlaneGeometry(aperture_radius=5.0 * np.tan(np.radians(20.0))), store_rays=False
            )
            scene.detector_registry.add("D", detector)
            found.append(scene.trace(rays, seed=seed).total_flux_detected)
        agree(found, expected)
        sigma2 = expected * (1.0 - expected) / rays
        assert np.var(found, ddof=1) / sigma2 == pytest.approx(1.0, abs=4.0 * np.sqrt(2.0 / 47.0))
