"""Light takes the same way back: the flux from a patch A into a cone onto a patch B equals that from B onto A.

The flux that two Lambertian patches exchange is their etendue times the transmittance times the radiance, and a patch
of one watt has a radiance of 1 / (pi area): F(A to B) area(A) = F(B to A) area(B).
"""

import numpy as np
import pytest

import nsq

from .tools import CS, GREEN, IDEAL, database, glass, near, pencil

RAYS = 300_000


def doublet(scene):
    config = nsq.DoubletConfig(
        60.0, -45.0, -130.0, 6.0, 2.5, glass(1.5168), glass(1.6727, 5e-6), 12.0,
        front=nsq.SurfaceConfig(coating=nsq.SimpleCoating(0.8, 0.1)),
    )  # fmt: skip
    scene.add_doublet("DB", CS(x=0.5, rx=0.1), config)


def ball(scene):
    sphere = nsq.SphereGeometry(9.0)
    scene.add_component("B", nsq.RefractiveComponent(CS(y=1.0), sphere, nsq.VACUUM, glass(1.6, 1e-5)))


def mirrors(scene):
    """Two concave mirrors, each in the way of the light that comes from the other."""
    scene.add_mirror("M1", CS(z=12.0, ry=0.35), nsq.MirrorConfig(-90.0, 0.9, aperture_radius=14.0))
    scene.add_mirror("M2", CS(x=-24.0, z=-14.0, ry=0.35), nsq.MirrorConfig(70.0, 0.7, aperture_radius=12.0))


SYSTEMS = {"doublet": doublet, "ball": ball, "mirrors": mirrors}
PLACES = {
    "doublet": ({"x": 2.0, "z": -40.0, "rx": 0.1}, {"y": -3.0, "z": 35.0, "rx": np.pi - 0.15}),
    "ball": ({"x": 2.0, "z": -15.0, "rx": 0.1}, {"y": -1.0, "z": 16.0, "rx": np.pi - 0.15}),
    "mirrors": ({"x": 2.0, "z": -40.0, "rx": 0.1}, {"x": -20.0, "y": 1.0, "z": 40.0, "rx": np.pi}),
}
A, B = (20.0, 16.0), (9.0, 13.0)  # sizes of the two patches


def exchange(system, forwards, seed, frames):
    scene = nsq.NSQScene()
    SYSTEMS[system](scene)
    one, other = frames
    emits, size_e, catches, size_c = (one, A, other, B) if forwards else (other, B, one, A)
    source = nsq.ExtendedSourceConfig(spectrum=GREEN, width=size_e[0], height=size_e[1])
    scene.add_source("S", CS(**emits), source)
    scene.add_detector("D", CS(**catches), nsq.IrradianceDetectorConfig(*size_c, num_pixels_x=2, num_pixels_y=2))
    scene.sampling_policy = nsq.SamplingPolicy(rr_start_flux=0.0)
    return scene.trace(RAYS, max_depth=25, min_flux_fraction=0.0, seed=seed).total_flux_detected


@pytest.mark.parametrize("system", SYSTEMS)
def test_source_and_detector_may_change_places(system):
    """Patches that face each other, off axis and tilted; both readings are sums of numbers from 0 to 1 a ray."""
    ahead, behind = PLACES[system]
    there = exchange(system, True, 1, (ahead, behind)) * A[0] * A[1]
    back = exchange(system, False, 2, (ahead, behind)) * B[0] * B[1]
    sigma = np.sqrt(there * A[0] * A[1] / RAYS + back * B[0] * B[1] / RAYS)  # binomial, p of the order of some percent
    assert abs(there - back) < 4.0 * sigma
    assert sigma < 0.06 * there


@pytest.mark.parametrize("angle", [0.0, 30.0, 65.0])
def test_an_interface_transmits_alike_from_both_sides(angle):
    """T is the same along a path and back, also where the path is in glass on one side."""
    n = 1.7
    inside = np.arcsin(np.sin(np.radians(angle)) / n)
    found = []
    for medium, theta, z in ((None, np.radians(angle), -1.0), (glass(n), inside, 1.0)):
        scene = nsq.NSQScene()
        direction = np.array([np.sin(theta), 0.0, -np.sign(z) * np.cos(theta)])
        pencil(scene, "S", (0.0, 0.0, z), direction, medium=medium)
        plane = nsq.RefractiveComponent(CS(), nsq.PlaneGeometry(), nsq.VACUUM, glass(n))
        scene.add_component("I", plane)
        database(scene, "D", CS(z=-z), 1e4)
        scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.5)
        flux = scene.trace(50, seed=1).detectors["D"].flux.numpy()
        assert len(flux) > 10
        found.append(flux[0])
    assert found[0] == pytest.approx(found[1], rel=1e-13)


def test_radiance_over_n_squared_is_kept():
    """Of Lambertian light in glass the share 1 / n^2 lies within the critical angle; out of an ideal face all of that
    comes, Lambertian again."""
    n = 1.5
    scene = nsq.NSQScene()
    source = nsq.ExtendedSourceConfig(spectrum=GREEN, width=1e-6, height=1e-6, medium=glass(n))
    scene.add_source("S", CS(), source)
    face = nsq.RefractiveComponent(CS(z=5.0), nsq.PlaneGeometry(), glass(n), nsq.VACUUM, coating=IDEAL)
    scene.add_component("I", face)
    scene.add_detector("F", CS(z=6.0), nsq.configs.FarFieldDetectorConfig(num_theta=30, num_phi=1))
    result = scene.trace(RAYS, max_depth=3, seed=1)
    pattern = result.detectors["F"]
    near(pattern.total_flux_float, 1.0 / n**2, RAYS)
    for degrees in (15, 45, 75):
        bins = degrees // 3
        near(pattern.flux[:bins].sum().item(), np.sin(np.radians(degrees)) ** 2 / n**2, RAYS)
