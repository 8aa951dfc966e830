"""An integrating sphere: light spreads evenly over a Lambertian wall, and adds up to 1 / (1 - rho (1 - f)).

Of light from a Lambertian wall of a sphere, every part of the sphere receives its share of the area, wherever it came
from. With all of the light first on the wall, the wall receives 1 / (1 - rho (1 - f)) times the flux, f being the share
of the sphere that is a port, and the port rho f times that.
"""

import numpy as np
import pytest

import nsq
from nsq.bsdfs import LambertianBSDF

from .tools import CS, columns, near, pencil, uniform

RADIUS = 50.0


def share(aperture):
    """Of a cap of this aperture radius in the whole sphere."""
    return 0.5 * (1.0 - np.sqrt(1.0 - (aperture / RADIUS) ** 2))


def aperture(part):
    return RADIUS * np.sqrt(1.0 - (1.0 - 2.0 * part) ** 2)


def sphere(rho, ports, mirror=False):
    """A wall of reflectance rho, the mirror's own or its lobe's, with ports (share, rx) that stop light.

    A port lies a millionth of the radius before the wall, for a wall takes what it meets at the same place.
    """
    scene = nsq.NSQScene()
    bsdf = LambertianBSDF(1.0 if mirror else rho)
    wall = nsq.ReflectiveComponent(CS(), nsq.SphereGeometry(RADIUS), rho if mirror else 1.0, bsdf=bsdf)
    scene.add_component("wall", wall)
    for i, (part, rx) in enumerate(ports):
        inner = RADIUS * (1.0 - 1e-6)
        frame = CS(rx=rx)
        cap = nsq.ConicGeometry(inner, 0.0, aperture(part))
        detector = nsq.detectors.RayDatabaseDetector(CS(z=-inner, reference_cs=frame), cap, name=f"port {i}")
        scene.detector_registry.add(f"port {i}", detector)
    pencil(scene, "S", (0.0, 0.0, 0.0), (1.0, 0.0, 0.1))
    scene.sampling_policy = nsq.SamplingPolicy(rr_start_flux=0.0)
    return scene


@pytest.mark.parametrize(("rho", "part", "mirror"), [(0.5, 0.05, False), (0.9, 0.02, True), (0.98, 0.01, False)])
def test_the_multiplier_of_a_sphere(rho, part, mirror):
    rays = 20_000
    kept = rho * (1.0 - part)
    depth = int(np.ceil(np.log(1e-10) / np.log(kept)))
    result = sphere(rho, [(part, 0.0)], mirror).trace(rays, max_depth=depth, min_flux_fraction=0.0, seed=1)
    multiplier = 1.0 / (1.0 - kept)
    port = result.detectors["port 0"].total_flux_float
    near(port, rho * part * multiplier, rays)
    # the wall keeps 1 - rho of all that it receives
    near(result.total_flux_coating, (1.0 - rho) * multiplier, rays)
    assert result.total_flux_escaped == 0.0
    assert result.total_flux_lost < 1e-9
    assert port + result.total_flux_coating == pytest.approx(1.0, abs=2e-9)


def test_a_sphere_of_very_high_reflectance():
    """A thousand bounces on the average, some thousands for many rays; each port in proportion to its area.

    Light meets a port after k bounces with probability f (1 - f)^(k - 1), and carries rho^k.
    """
    rays, rho, parts = 3000, 0.9995, (0.0003, 0.0002)
    f = sum(parts)
    depth = 12_000
    scene = sphere(rho, [(parts[0], 0.0), (parts[1], 2.0)])
    result = scene.trace(rays, max_depth=depth, min_flux_fraction=0.0, seed=3)
    multiplier = 1.0 / (1.0 - rho * (1.0 - f))
    assert multiplier == pytest.approx(1000.0, rel=1e-3)
    assert result.total_flux_escaped == 0.0
    assert result.total_flux_lost < 1.1 * (rho * (1.0 - f)) ** depth + 1e-5
    found = [result.detectors[f"port {i}"].total_flux_float for i in (0, 1)]
    for part, flux in zip(parts, found, strict=True):
        near(flux, rho * part * multiplier, rays)
    near(result.total_flux_coating / (1.0 - rho) / multiplier / 2.0, 0.5, rays)
    hits = sum(result.detectors[f"port {i}"].num_rays for i in (0, 1))
    near(hits / rays, 1.0 - (1.0 - f) ** (depth - 1), rays)
    weights = np.concatenate([columns(result.detectors[f"port {i}"])[2] * rays for i in (0, 1)])
    # one ray in a million bounces is not scattered, and worth nothing; the others are worth so much more
    bounces = np.log(weights[weights > 0.0]) / np.log(rho / (1.0 - 1e-6))
    assert len(bounces) > len(weights) - 25
    assert bounces == pytest.approx(np.rint(bounces), abs=1e-6)
    # geometric: mean 1 / f, standard deviation sqrt(1 - f) / f
    assert np.mean(bounces) == pytest.approx(1.0 / f, abs=4.0 / f / np.sqrt(rays) + depth * (1.0 - f) ** (depth - 1))
    assert np.max(bounces) > 8000.0


def test_a_wall_is_lit_evenly():
    """Light that has met the wall once, on a tap that lies just inside it: even in area, Lambertian in direction."""
    rays = 40_000
    scene = sphere(1.0, [])
    inner = nsq.SphereGeometry(RADIUS * (1.0 - 1e-6))
    scene.detector_registry.add("tap", nsq.detectors.RayDatabaseDetector(CS(), inner, name="tap", absorb=False))
    # the way there passes the tap, then come the wall, the tap on the way out, and the tap again across the sphere
    result = scene.trace(rays, max_depth=4, min_flux_fraction=0.0, seed=5)
    position, direction, _, ids = columns(result.detectors["tap"])
    assert len(ids) == 3 * rays
    position, direction = position[2::3], direction[2::3]
    outward = position / np.linalg.norm(position, axis=1, keepdims=True)
    uniform(0.5 * (outward[:, 2] + 1.0))
    uniform(np.arctan2(outward[:, 1], outward[:, 0]) / (2.0 * np.pi) + 0.5)
    # a chord meets both of its ends at the same angle, so directions on arrival are Lambertian as well
    uniform(1.0 - np.sum(outward * direction, axis=1) ** 2)


@pytest.mark.parametrize("rho", [0.6, 0.97])
def test_maps_on_the_wall_and_in_the_port_of_a_sphere(rho):
    """Irradiance on a cap of pixels: rho times the multiplier times the flux over the sphere's area, evenly.

    A tap just inside both reads light on its way there, and again on its way back from the wall. A ray in some hundred
    thousand goes along between wall and tap.
    """
    rays, part = 40_000, 0.04
    scene = sphere(rho, [])
    inner = RADIUS * (1.0 - 1e-6)
    port = nsq.IrradianceDetectorConfig(
        shape=nsq.ConicGeometry(inner, 0.0, aperture(part)), num_pixels_x=3, num_pixels_y=3, splat="hard"
    )
    scene.add_detector("port", CS(z=-inner, reference_cs=CS(rx=0.3)), port)
    tap = nsq.IrradianceDetectorConfig(
        shape=nsq.SphereGeometry(RADIUS * (1.0 - 3e-6)), num_pixels_x=6, num_pixels_y=4, absorb=False
    )
    scene.add_detector("tap", CS(), tap)
    depth = 3 * int(np.ceil(np.log(1e-9) / np.log(rho * (1.0 - part))))
    result = scene.trace(rays, max_depth=depth, min_flux_fraction=0.0, seed=2)
    multiplier = 1.0 / (1.0 - rho * (1.0 - part))
    found = result.detectors["port"]
    near(found.total_flux_float, rho * part * multiplier, rays)
    areas = found.pixel_areas.reshape(3, 3).numpy()
    cap = 2.0 * np.pi * inner * (inner - np.sqrt(inner**2 - aperture(part) ** 2))
    assert areas.sum() == pytest.approx(cap, rel=1e-10)
    even = rho * multiplier / (4.0 * np.pi * inner**2)
    # each pixel by the binomial sigma of what a ray may bring there, 1 at most
    share = areas * even
    assert np.all(np.abs(found.data.reshape(3, 3).numpy() - share) < 4.5 * np.sqrt(share / rays))
    # the wall takes 1 - rho of what it receives
    incident = result.total_flux_coating / (1.0 - rho)
    assert incident == pytest.approx(result.surfaces["wall"].incident_flux, rel=1e-4)
    near((1.0 - rho) * incident, 1.0 - rho * part * multiplier, rays)
    read = result.detectors["tap"]
    assert read.total_flux_float == pytest.approx((1.0 + rho) * incident + found.total_flux_float, rel=1e-4)
