"""Small cases with known answers, of the kinds that ray tracers have been seen to get wrong."""

import numpy as np
import pytest
import torch

import nsq

from . import scenes

STILL = nsq.SamplingPolicy(reflect_prob=0.3, rr_start_flux=0.0)
KEEP = 0.7  # probability of transmission under STILL


def pencil(scene, cs, **config):
    """A collimated beam of no width."""
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=1e-12, **config)
    scene.add_source("S", cs, beam)


def glass(n):
    return nsq.NSQMaterial.constant(n)


def ruler(alpha):
    """A medium that leaves exp(-alpha t) of the flux after t mm, in the light of `pencil`."""
    return nsq.NSQMaterial.constant(1.0, alpha * 0.55e-3 / (4.0 * np.pi))


def database(scene, name, z, absorb=True, size=60.0):
    scene.add_detector(name, nsq.CoordinateSystem(z=z), nsq.RayDatabaseConfig(size, size, absorb=absorb))


# --- a cemented face and an air gap ------------------------------------------------------------------------------


def cemented():
    scene = nsq.NSQScene()
    doublet = nsq.DoubletConfig(
        r1=60.0, r2=-45.0, r3=-130.0, thickness1=6.0, thickness2=2.5, material1=glass(1.5168), material2=glass(1.6727),
        aperture_radius=12.0,
    )  # fmt: skip
    scene.add_doublet("DB", nsq.CoordinateSystem(), doublet)
    return scene, 3


def air_gap():
    scene = nsq.NSQScene()
    crown = nsq.LensConfig(60.0, -45.0, 6.0, glass(1.5168), front_aperture_radius=12.0)
    flint = nsq.LensConfig(-45.0, -130.0, 2.5, glass(1.6727), front_aperture_radius=12.0)
    scene.add_lens("crown", nsq.CoordinateSystem(), crown)
    scene.add_lens("flint", nsq.CoordinateSystem(z=6.001), flint)
    return scene, 4


@pytest.mark.parametrize(
    ("build", "crossing", "transmittance"), [(cemented, 102.1501, 0.89501), (air_gap, 102.1473, 0.8048)]
)
def test_cemented_face_and_air_gap(build, crossing, transmittance):
    scene, faces = build()
    pencil(scene, nsq.CoordinateSystem(y=5.0, z=-10.0))
    database(scene, "D", 50.0)
    scene.sampling_policy = STILL
    rays = scene.trace(400, max_depth=faces + 1, min_flux_fraction=0.0).detectors["D"]
    y, z, m, n, flux = (np.asarray(getattr(rays, c)) for c in ("y", "z", "M", "N", "flux"))
    assert len(y) > 40
    assert z - y * n / m == pytest.approx(crossing, abs=1e-3)
    # every ray that arrives was let through at each face, and was paid for it by 1 / KEEP
    assert flux * 400 * KEEP**faces == pytest.approx(transmittance, abs=5e-5)


# --- the root of a conic -----------------------------------------------------------------------------------------

ANGLE = np.deg2rad(42.0)


@pytest.mark.parametrize(
    ("radius", "conic", "origin", "direction", "t", "point"),
    [
        (-100.0, -1.0, (10.0, 0.0, -50.0), (0.0, 0.0, 1.0), 49.5, (10.0, 0.0, -0.5)),
        (2.944641, -2.5073, (0.0, 0.0, -5.0), (0.0, np.sin(ANGLE), np.cos(ANGLE)), 16.43863, (0.0, 10.99959, 7.21629)),
        (-2.944641, -2.5073, (0.0, 0.0, -5.0), (0.0, np.sin(ANGLE), np.cos(ANGLE)), 4.90280, None),
    ],
)
def test_root_of_a_conic_is_on_its_own_sheet(radius, conic, origin, direction, t, point):
    geometry = nsq.ConicGeometry(radius, conic, 50.0)
    found, normals, hit, n_geom = (
        np.asarray(v) for v in geometry.ray_intersect(np.array([origin]), np.array([direction]))
    )
    assert hit.tolist() == [True]
    assert found[0] == pytest.approx(t, rel=1e-5)
    landed = np.array(origin) + found[0] * np.array(direction)
    if point is not None:
        assert landed == pytest.approx(np.array(point), rel=1e-5, abs=1e-9)
    c, (x, y, z) = 1.0 / radius, landed
    residual = c * (x * x + y * y + (1.0 + conic) * z * z) - 2.0 * z
    assert abs(residual) < 1e-12 * (abs(z) + 1.0)
    gradient = np.array([-c * x, -c * y, 1.0 - c * (1.0 + conic) * z])
    assert n_geom[0] == pytest.approx(gradient / np.linalg.norm(gradient), abs=1e-12)
    assert normals[0] @ np.array(direction) < 0.0

    # the trace finds the same root: what is absorbed on the way says how long the way was
    alpha = 0.5 / t
    scene = nsq.NSQScene()
    pencil(scene, nsq.CoordinateSystem(*origin, rx=-np.arcsin(direction[1])), medium=ruler(alpha))
    scene.add_component("A", nsq.AbsorbingComponent(nsq.CoordinateSystem(), geometry))
    far = nsq.CoordinateSystem(z=-60.0)
    scene.add_detector("D", far, nsq.IrradianceDetectorConfig(1.0, 1.0, num_pixels_x=1, num_pixels_y=1))
    result = scene.trace(1)
    assert result.num_rays_absorbed == 1
    assert -np.log(result.total_flux_absorbed) / alpha == pytest.approx(found[0], rel=1e-10)


@pytest.mark.parametrize("radius", [1e9, -1e9, np.inf, 0.0])
def test_a_nearly_flat_face_is_flat(radius):
    origins, directions = np.array([[3.0, -4.0, -7.0]]), np.array([[0.0, 0.6, 0.8]])
    t, _, hit, n_geom = nsq.ConicGeometry(radius, 0.0, 50.0).ray_intersect(origins, directions)
    assert bool(np.asarray(hit)[0])
    assert float(np.asarray(t)[0]) == pytest.approx(8.75, abs=1e-7)
    assert np.asarray(n_geom)[0] == pytest.approx(np.array([0.0, 0.0, 1.0]), abs=1e-7)


# --- restart on a surface, at any scale ----------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "tolerance"), [("float64", 1e-12), ("float32", 2e-5)])
@pytest.mark.parametrize("radius", [1e-4, 1.0, 1e4])
def test_restart_inside_a_mirror_sphere(radius, precision, tolerance):
    """The flux left after m hits is exp(-alpha times the length of m chords)."""
    chord = 1.6 * radius
    alpha = 0.1 / chord  # 1/mm
    medium = ruler(alpha)
    scene = nsq.NSQScene()
    source = nsq.PointSourceConfig(spectrum=scenes.GREEN, half_angle_deg=1e-7, medium=medium)
    scene.add_source("S", nsq.CoordinateSystem(x=0.6 * radius, rx=-np.arcsin(0.6)), source)
    sphere = nsq.SphereGeometry(radius)
    mirror = nsq.ReflectiveComponent(nsq.CoordinateSystem(), sphere, reflectance=1.0, material_front=medium)
    scene.add_component("M", mirror)
    far = nsq.CoordinateSystem(z=10.0 * radius)
    scene.add_detector("D", far, nsq.IrradianceDetectorConfig(radius, radius, num_pixels_x=1, num_pixels_y=1))
    scene.sampling_policy = nsq.SamplingPolicy(rr_start_flux=0.0)
    left = []
    for depth in range(1, 52):
        result = scene.trace(1, max_depth=depth, min_flux_fraction=0.0, precision=precision)
        assert result.num_rays_depth_killed == 1
        left.append(result.total_flux_lost)
    chords = -np.diff(np.log(left)) / alpha
    assert len(chords) == 50
    assert chords == pytest.approx(chord, rel=tolerance)


# --- ledger and batches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [10_000, 3000, 1])
def test_a_tap_a_mirror_and_an_absorber(batch_size):
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=2.0)
    scene.add_source("S", nsq.CoordinateSystem(), beam)
    tap = nsq.IrradianceDetectorConfig(10.0, 10.0, num_pixels_x=8, num_pixels_y=8, absorb=False)
    scene.add_detector("tap", nsq.CoordinateSystem(z=10.0), tap)
    mirror = nsq.MirrorConfig(radius=np.inf, reflectance=0.5, aperture_radius=20.0)
    scene.add_mirror("M", nsq.CoordinateSystem(z=20.0, rx=np.pi / 4), mirror)
    stop = nsq.FinitePlaneGeometry(30.0, 30.0)
    for name, y in (("up", 20.0), ("down", -20.0)):
        cs = nsq.CoordinateSystem(y=y, z=20.0, rx=np.pi / 2)
        scene.add_component(name, nsq.AbsorbingComponent(cs, stop))
    result = scene.trace(10_000, seed=1, batch_size=batch_size)
    assert result.num_rays_total == result.num_rays_absorbed == 10_000
    assert result.total_flux_tapped == pytest.approx(1.0, abs=1e-12)
    assert result.total_flux_detected == pytest.approx(1.0, abs=1e-12)
    assert result.total_flux_absorbed == pytest.approx(0.5, abs=1e-12)
    assert result.total_flux_coating == pytest.approx(0.5, abs=1e-12)
    assert result.total_flux_escaped == 0.0
    assert result.total_flux_lost == 0.0
    assert result.flux_conservation_error < 1e-12
    assert scenes.closure(result) < 1e-12


# --- a plate and small Fresnel terms ---------------------------------------------------------------------------------


def plate():
    scene = nsq.NSQScene()
    pencil(scene, nsq.CoordinateSystem())
    config = nsq.LensConfig(np.inf, np.inf, 4.0, glass(1.5), front_aperture_radius=5.0)
    scene.add_lens("P", nsq.CoordinateSystem(z=10.0), config)
    return scene


def test_direct_light_and_first_ghost_of_a_plate_are_exact():
    scene = plate()
    database(scene, "D", 20.0)
    scene.sampling_policy = STILL
    rays = scene.trace(4000, max_depth=5, min_flux_fraction=0.0, seed=3).detectors["D"]
    flux = np.sort(np.asarray(rays.flux)) * 4000
    ghosts, direct = flux[flux < 0.1], flux[flux >= 0.1]
    assert direct * KEEP**2 == pytest.approx(0.9216, rel=1e-12)
    assert ghosts * KEEP**2 * (1.0 - KEEP) ** 2 == pytest.approx(0.00147456, rel=1e-10)
    # how many of each: binomial, four sigma
    for found, p in ((len(direct), KEEP**2), (len(ghosts), KEEP**2 * (1.0 - KEEP) ** 2)):
        assert abs(found - 4000 * p) < 4.0 * np.sqrt(4000 * p * (1.0 - p))


def test_reflectance_and_transmittance_of_a_plate():
    scene = plate()
    database(scene, "T", 20.0)
    database(scene, "R", -5.0)
    result = scene.trace(200_000, max_depth=40, min_flux_fraction=0.0, seed=4)
    r, t = (float(result.detectors[name].total_flux) for name in "RT")
    sigma = np.sqrt(0.076923 * 0.923077 / 200_000)
    assert abs(r - 0.076923) < 3.0 * sigma
    assert abs(t - 0.923077) < 3.0 * sigma
    assert r + t == pytest.approx(1.0, abs=1e-12)


def test_one_weak_interface():
    scene = nsq.NSQScene()
    pencil(scene, nsq.CoordinateSystem())
    interface = nsq.RefractiveComponent(
        nsq.CoordinateSystem(z=5.0), nsq.PlaneGeometry(), material_front=nsq.VACUUM, material_back=glass(1.2)
    )
    scene.add_component("I", interface)
    database(scene, "R", -5.0)
    database(scene, "T", 15.0)
    result = scene.trace(1_000_000, seed=0)
    assert abs(result.detectors["R"].num_rays - 8264) <= 272  # three sigma
    assert result.detectors["R"].num_rays + result.detectors["T"].num_rays == 1_000_000


def test_no_light_passes_beyond_the_critical_angle():
    scene = nsq.NSQScene()
    pencil(scene, nsq.CoordinateSystem(), medium=glass(1.5))
    interface = nsq.RefractiveComponent(
        nsq.CoordinateSystem(z=5.0, rx=np.deg2rad(42.0)), nsq.PlaneGeometry(), glass(1.5), nsq.VACUUM
    )
    scene.add_component("I", interface)
    database(scene, "T", 10.0, size=1000.0)
    scene.sampling_policy = STILL
    result = scene.trace(2000)
    assert result.total_flux_detected == 0.0
    assert result.total_flux_escaped == pytest.approx(1.0, abs=1e-12)  # weight one for each reflected ray


# --- an operator that wraps Warp for torch ---------------------------------------------------------------------------


def test_finite_differences_through_a_ray_database():
    def spread(radius):
        scene = nsq.NSQScene()
        beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=4.0)
        scene.add_source("S", nsq.CoordinateSystem(), beam)
        lens = nsq.LensConfig(radius, -80.0, 4.0, glass(1.5), front_aperture_radius=10.0)
        scene.add_lens("L", nsq.CoordinateSystem(z=10.0), lens)
        database(scene, "D", 60.0)
        scene.sampling_policy = STILL
        rays = scene.trace(1000, max_depth=3, min_flux_fraction=0.0, seed=8).detectors["D"]
        # z and N would only add large constants, in whose rounding a difference drowns
        columns = (rays.x, rays.y, rays.z - 60.0, rays.L, rays.M, 1.0 - rays.N)
        return sum(torch.sum(rays.flux * c * c * (i + 1)) for i, c in enumerate(columns))

    radius = torch.tensor(70.0, dtype=torch.float64, requires_grad=True)
    spread(radius).backward()
    h = 7e-5
    expected = (spread(70.0 + h) - spread(70.0 - h)).item() / (2.0 * h)
    assert radius.grad.item() == pytest.approx(expected, rel=1e-7)
