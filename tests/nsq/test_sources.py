"""Every ray of every source against its formula in the keyed random numbers, alone and inside a trace."""

import math

import numpy as np
import pytest
import torch

import nsq

from . import scenes

SEED = 12
FDC = scenes.FDC
POSE = {"x": 1.0, "y": -2.0, "z": 3.0, "rx": 0.3, "ry": -0.2, "rz": 0.5}
Slot = nsq.EventSlot


def cone(half_angle):
    """Directions from the cosine's and the azimuth's random number."""
    span = 1.0 - math.cos(math.radians(half_angle))
    return lambda u, v: polar(1.0 - u * span, v)


def polar(cosine, v):
    sine, phi = np.sqrt(np.clip(1.0 - cosine**2, 0.0, None)), 2.0 * math.pi * v
    return np.stack([sine * np.cos(phi), sine * np.sin(phi), cosine], axis=1)


def disk(radius, u, v):
    r, phi = radius * np.sqrt(u), 2.0 * math.pi * v
    return np.stack([r * np.cos(phi), r * np.sin(phi), 0.0 * r], axis=1)


def gaussian(sigma, radius, ids, draw):
    """Redrawn with the next offset until inside the radius."""
    points = np.zeros((len(ids), 3))
    waiting = np.arange(len(ids))
    for attempt in range(32):
        u = draw(ids[waiting], Slot.SOURCE_U1, attempt)
        v = draw(ids[waiting], Slot.SOURCE_U2, attempt)
        r, phi = sigma * np.sqrt(-2.0 * np.log(u)), 2.0 * math.pi * v
        points[waiting] = np.stack([r * np.cos(phi), r * np.sin(phi), 0.0 * r], axis=1)
        waiting = waiting[r > radius]
    assert len(waiting) == 0
    return points


def ahead(ids):
    return np.tile([0.0, 0.0, 1.0], (len(ids), 1))


def rectangle(u, v):
    return np.stack([(u - 0.5) * 3.0, (v - 0.5) * 2.0, 0.0 * u], axis=1)


# (config, local positions and directions from the ids and u1 to u4)
SOURCES = {
    "point": (
        nsq.PointSourceConfig(spectrum=FDC, total_flux=2.0, half_angle_deg=25.0),
        lambda ids, u, draw: (np.zeros((len(ids), 3)), cone(25.0)(u[0], u[1])),
    ),
    "sphere": (
        nsq.PointSourceConfig(spectrum=FDC, half_angle_deg=180.0),
        lambda ids, u, draw: (np.zeros((len(ids), 3)), cone(180.0)(u[0], u[1])),
    ),
    "tophat": (
        nsq.CollimatedSourceConfig(spectrum=FDC, aperture_radius=4.0),
        lambda ids, u, draw: (disk(4.0, u[0], u[1]), ahead(ids)),
    ),
    "gaussian": (
        nsq.CollimatedSourceConfig(spectrum=FDC, aperture_radius=2.0, profile="gaussian", gaussian_sigma=1.5),
        lambda ids, u, draw: (gaussian(1.5, 2.0, ids, draw), ahead(ids)),
    ),
    "gaussian of default width": (
        nsq.CollimatedSourceConfig(spectrum=FDC, aperture_radius=2.0, profile="gaussian"),
        lambda ids, u, draw: (gaussian(1.0, 2.0, ids, draw), ahead(ids)),
    ),
    "rectangle": (
        nsq.ExtendedSourceConfig(spectrum=FDC, width=3.0, height=2.0, half_angle_deg=40.0),
        lambda ids, u, draw: (rectangle(u[0], u[1]), cone(40.0)(u[2], u[3])),
    ),
    "Lambertian disk": (
        nsq.ExtendedSourceConfig(spectrum=FDC, width=3.0, height=2.0, aperture_radius=2.5),
        lambda ids, u, draw: (disk(2.5, u[0], u[1]), polar(np.sqrt(u[2]), u[3])),
    ),
}


def rotation():
    cx, cy, cz = (math.cos(POSE[a]) for a in ("rx", "ry", "rz"))
    sx, sy, sz = (math.sin(POSE[a]) for a in ("rx", "ry", "rz"))
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def draw(ids, slot, offset=0):
    return nsq.NSQRng(SEED).uniform(ids, 0, slot, offset)


def expected(name, ids):
    """World positions and directions, and wavelengths."""
    local = SOURCES[name][1](ids, [draw(ids, slot) for slot in list(Slot)[:4]], draw)
    turn, shift = rotation(), np.array([POSE[a] for a in "xyz"])
    line = np.searchsorted(np.array([0.25, 0.75, 1.0]), draw(ids, Slot.SOURCE_WAVELENGTH))
    return local[0] @ turn.T + shift, local[1] @ turn.T, FDC.wavelengths[line]


def scene_of(name):
    scene = nsq.NSQScene()
    first = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, total_flux=0.3, aperture_radius=1e-9)
    scene.add_source("first", nsq.CoordinateSystem(x=500.0), first)  # so that ids do not begin at 0
    scene.add_source("S", nsq.CoordinateSystem(**POSE), SOURCES[name][0])
    scene.add_detector("D", nsq.CoordinateSystem(z=40.0), nsq.RayDatabaseConfig(800.0, 800.0))
    return scene


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_gives_the_rays_of_its_formula(name):
    source = scene_of(name).sources[1]
    ids = np.array([0, 5, 6, 1000, 123_456_789_012, *range(2000, 2400)])
    rays = source.generate(ids, nsq.NSQRng(SEED))
    positions, directions, wavelengths = expected(name, ids)
    assert rays.positions.numpy() == pytest.approx(positions, abs=1e-13)
    assert rays.directions.numpy() == pytest.approx(directions, abs=1e-13)
    assert np.array_equal(rays.wavelength, wavelengths)
    assert rays.flux == pytest.approx(source.total_flux / len(ids), rel=1e-15)
    assert (rays.num_rays, rays.num_rays_alive) == (len(ids), len(ids))
    assert len(np.unique(wavelengths)) == 3


@pytest.mark.parametrize("name", SOURCES)
def test_a_trace_emits_the_same_rays(name):
    scene = scene_of(name)
    result = scene.trace(1500, seed=SEED)
    rays = result.detectors["D"]
    ids = rays.ray_id.numpy()
    share = scene.sources[1].total_flux
    mine = np.arange(1500)[-round(1 + 1498 * share / (share + 0.3)) :]  # one ray each, the rest by flux
    chosen = ids >= mine[0]
    assert chosen.sum() > (200 if name == "sphere" else 0.9 * len(mine))
    born = scene.sources[1].generate(mine, nsq.NSQRng(SEED))
    at = ids[chosen] - mine[0]
    o, d = born.positions.numpy()[at], born.directions.numpy()[at]
    landed = o + (40.0 - o[:, 2:]) / d[:, 2:] * d
    found = {c: getattr(rays, c).numpy()[chosen] for c in ("x", "y", "z", "L", "M", "N", "flux", "wavelength")}
    scale = 1.0 + np.abs(landed).max(axis=1)
    for i, column in enumerate("xyz"):
        assert np.abs(found[column] - landed[:, i]) / scale == pytest.approx(0.0, abs=1e-13)
    for i, column in enumerate("LMN"):
        assert np.array_equal(found[column], d[:, i])
    assert np.array_equal(found["wavelength"], born.wavelength[at])
    assert found["flux"] == pytest.approx(born.flux[at], rel=1e-15)


def test_rays_of_a_source_are_attached_to_its_numbers():
    numbers = tuple(torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (25.0, 2.0, 1.0))

    def emit(angle, flux, z):
        source = nsq.PointSource(nsq.CoordinateSystem(z=z, rx=0.2), scenes.GREEN, total_flux=flux, half_angle_deg=angle)
        rays = source.generate(np.arange(5), nsq.NSQRng(1))
        return torch.stack([rays.z, rays.L, rays.M, rays.N, rays.flux])

    assert torch.autograd.gradcheck(emit, numbers, eps=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("ids", "rng", "error", "words"),
    [
        (np.arange(3.0), nsq.NSQRng(0), TypeError, "ray_id got dtype float64"),
        (np.array([-1]), nsq.NSQRng(0), ValueError, "ray_id"),
        (np.zeros((2, 2), dtype=int), nsq.NSQRng(0), ValueError, r"ray_id got shape \(2, 2\)"),
        (np.arange(3), 7, TypeError, "rng got int"),
    ],
)
def test_keys_are_checked(ids, rng, error, words):
    with pytest.raises(error, match=words):
        scene_of("point").sources[1].generate(ids, rng)


def test_rays_start_in_the_medium_of_their_source():
    """With a medium they are absorbed from the start; without one they start in vacuum, also inside a glass."""
    wavelength, k, length = 0.55, 2e-5, 4.0
    glass = nsq.NSQMaterial.constant(1.5, k)
    kept = []
    for medium in (glass, None):
        scene = nsq.NSQScene()
        beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=1e-9, medium=medium)
        scene.add_source("S", nsq.CoordinateSystem(), beam)
        plane = nsq.CoordinateSystem(z=length)
        scene.add_component("exit", nsq.RefractiveComponent(plane, nsq.PlaneGeometry(), glass, nsq.VACUUM))
        scene.add_detector("D", nsq.CoordinateSystem(z=9.0), nsq.RayDatabaseConfig(5.0, 5.0))
        scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.5, rr_start_flux=0.0)
        rays = scene.trace(50, max_depth=2, min_flux_fraction=0.0).detectors["D"]
        kept.append(rays.flux.numpy() * 50.0 * 0.5 / 0.96)  # let through with probability 1/2; T = 0.96
    assert kept[0] == pytest.approx(math.exp(-4.0e3 * math.pi * k * length / wavelength), rel=1e-12)
    assert kept[1] == pytest.approx(1.0, rel=1e-12)


def test_the_budget_is_dealt_by_flux():
    scene = nsq.NSQScene()
    for i, flux in enumerate((1.0, 2.0, 4.0)):
        beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, total_flux=flux, aperture_radius=1.0)
        scene.add_source(f"S{i}", nsq.CoordinateSystem(x=10.0 * i), beam)
    scene.add_detector("D", nsq.CoordinateSystem(z=5.0), nsq.RayDatabaseConfig(100.0, 100.0))
    rays = scene.trace(103).detectors["D"]
    place = np.rint(rays.x.numpy() / 10.0).astype(int)
    assert np.all(np.diff(place) >= 0)  # ids count up over the sources
    # one each and 100 in proportion: 14.29, 28.57, 57.14, the missing one to the largest remainder
    assert np.bincount(place).tolist() == [15, 30, 58]
    for i, flux in enumerate((1.0, 2.0, 4.0)):
        assert rays.flux.numpy()[place == i].sum() == pytest.approx(flux, rel=1e-14)
    with pytest.raises(ValueError, match="num_rays got 2; it takes at least one ray for each of the 3 sources"):
        scene.trace(2)
