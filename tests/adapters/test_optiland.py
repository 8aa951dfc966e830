"""Scenes of Optiland's in this tracer: the same numbers, the same types, the physics, and gradients."""

import warnings

import numpy as np
import pytest
import torch

peer = pytest.importorskip("optiland.nonsequential", reason="needs the extra optiland: make test-optiland")

import optiland.backend as be  # noqa: E402
from optiland.coordinate_system import CoordinateSystem as At  # noqa: E402
from optiland.nonsequential.backends.torch_backend import TorchBackend  # noqa: E402

import nsq  # noqa: E402
from nsq.adapters.optiland import WarpBackend, from_optiland  # noqa: E402

from . import scenes  # noqa: E402

LEDGER = (
    "num_rays_total", "num_rays_absorbed", "num_rays_escaped", "num_rays_flux_killed", "num_rays_depth_killed",
    "total_flux_in", "total_flux_detected", "total_flux_tapped", "total_flux_absorbed", "total_flux_bulk_absorbed",
    "total_flux_escaped", "total_flux_lost", "flux_conservation_error",
)  # fmt: skip


@pytest.fixture(autouse=True)
def numpy_active():
    be.set_backend("numpy")
    yield
    be.set_backend("numpy")


@pytest.fixture
def torch_active():
    be.set_backend("torch")
    be.set_precision("float64")
    be.grad_mode.enable()
    yield
    be.grad_mode.disable()
    be.set_precision("float32")


def readings(result):
    """Every array and number of every detector, by its name."""
    out = {}
    for name, read in result.detectors.items():
        for attribute in ("irradiance", "intensity", "wavelengths", "x_coords", "y_coords", "theta", "phi"):
            if hasattr(read, attribute):
                out[f"{name}.{attribute}"] = np.asarray(getattr(read, attribute))
        for attribute in ("total_flux", "num_rays_hit", "num_rays"):
            if hasattr(read, attribute):
                out[f"{name}.{attribute}"] = np.asarray(getattr(read, attribute), dtype=float)
    return out


@pytest.mark.parametrize("name", scenes.SCENES)
def test_totals_and_maps_are_optilands(name):
    """Far inside the 3 sigma that independent rays would have: the random numbers have the same keys."""
    build, rays, seed, depth = scenes.SCENES[name]
    theirs = build().trace(rays, seed=seed, max_depth=depth, backend=peer.NumpyBackend())
    ours = build().trace(rays, seed=seed, max_depth=depth, backend=WarpBackend())
    assert type(ours) is peer.SimulationResult
    assert sum(read.num_rays_hit for read in ours.detectors.values() if hasattr(read, "num_rays_hit")) > 200
    # Optiland books flux that dies in roulette and not what the survivors gain; here both are
    skipped = {"total_flux_lost", "flux_conservation_error"} if name == "ghosts" else set()
    for key in LEDGER:
        if key not in skipped:
            assert getattr(ours, key) == pytest.approx(getattr(theirs, key), rel=1e-9, abs=1e-10), key
    expected, found = readings(theirs), readings(ours)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key].shape == values.shape, key
        assert np.abs(found[key] - values).max() <= 1e-9 * max(1e-3, np.abs(values).max()), key
    for key, read in theirs.detectors.items():
        assert type(ours.detectors[key]) is type(read)


def test_rays_and_paths_are_optilands():
    build, rays, seed, _ = scenes.SCENES["detectors"]
    theirs = build().trace(rays, seed=seed, backend=peer.NumpyBackend()).detectors["rays"]
    ours = build().trace(rays, seed=seed, backend=WarpBackend()).detectors["rays"]
    a, b = (np.array(sorted(zip(*(getattr(r, k) for k in "xyzLMN"), strict=True))) for r in (theirs, ours))
    assert np.abs(a - b).max() < 1e-9

    theirs, ours = (
        scenes.singlet().trace(2000, seed=1, backend=backend, record_paths=50).ray_paths["events"]
        for backend in (peer.NumpyBackend(), WarpBackend())
    )
    assert ours.dtype.names == theirs.dtype.names
    order = ("ray_id", "bounce", "event_type")
    theirs, ours = np.sort(theirs, order=order), np.sort(ours, order=order)
    assert np.array_equal(ours["ray_id"], theirs["ray_id"])
    named = np.isin(theirs["component_name"], ("lens.front", "lens.back", "lens.edge", "escaped"))
    assert np.array_equal(ours["component_name"][named], theirs["component_name"][named])
    assert set(ours["component_name"][~named]) == {"beam", "film"}  # Optiland writes "source_0" and ""
    assert np.abs(ours["x"] - theirs["x"]).max() < 1e-9


def test_diagnostics_are_optilands():
    scene = scenes.components()
    spare = peer.AbsorbingComponent(At(x=500.0), peer.FinitePlaneGeometry(1.0, 1.0))
    scene.add_component("spare", spare)
    theirs = scene.trace(5000, seed=3, max_depth=4, backend=peer.NumpyBackend()).diagnostics
    ours = scene.trace(5000, seed=3, max_depth=4, backend=WarpBackend()).diagnostics
    assert type(ours) is type(theirs)
    assert theirs.unreached_geometry == ours.unreached_geometry
    assert "component" in ours.unreached_geometry[-1]
    assert theirs.depth_truncated_flux_fraction > 1e-3
    assert ours.depth_truncated_flux_fraction == pytest.approx(theirs.depth_truncated_flux_fraction, rel=1e-9)
    assert ours.detectors == theirs.detectors
    assert len(ours.warnings()) == len(theirs.warnings())


def optimised(backend, num_rays=3000):
    """Second moment of a map, and its gradient by the radius, the conic, n, and the flux."""
    r1 = torch.tensor(45.0, dtype=torch.float64, requires_grad=True)
    conic = torch.tensor(-0.5, dtype=torch.float64, requires_grad=True)
    n = torch.tensor(1.6, dtype=torch.float64, requires_grad=True)
    flux = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    scene = peer.NSQScene()
    scene.add_source("beam", At(), peer.CollimatedSourceConfig(scenes.GREEN, total_flux=flux, aperture_radius=5.0))
    material = scenes.glass(1.6)
    material.optiland_material.index = n.reshape(1)
    lens = peer.LensConfig(
        r1=r1, r2=float("inf"), conic1=conic, thickness=5.0, material=material, front_aperture_radius=12.0
    )
    scene.add_lens("lens", At(z=20.0), lens)
    scene.add_detector("film", At(z=60.0), scenes.screen(20.0))
    scene.sampling_policy = type(scene.sampling_policy)(reflect_prob=0.1, rr_start_flux=0.0)
    read = scene.trace(num_rays, seed=4, max_depth=6, min_flux_fraction=0.0, backend=backend).detectors["film"]
    square = torch.linspace(-1.0, 1.0, 16, dtype=torch.float64) ** 2
    loss = (read.data * (square[:, None] + square).reshape(-1)).sum() + 0.1 * read.total_flux
    loss.backward()
    return loss.item(), [leaf.grad.item() for leaf in (r1, conic, n, flux)]


@pytest.mark.usefixtures("torch_active")
def test_gradients_are_those_of_optilands_autograd():
    loss, gradient = optimised(WarpBackend(visibility="off"))  # Optiland's autograd has no visibility
    expected_loss, expected = optimised(TorchBackend())
    assert loss == pytest.approx(expected_loss, rel=1e-9)
    assert gradient == pytest.approx(expected, rel=1e-6)
    assert all(value != 0.0 for value in gradient)


def test_data_follow_the_active_backend():
    arrays = scenes.singlet().trace(500, seed=1, backend=WarpBackend()).detectors["film"]
    assert type(arrays.data) is np.ndarray
    be.set_backend("torch")  # float32 until told otherwise
    tensors = scenes.singlet().trace(500, seed=1, backend=WarpBackend()).detectors["film"]
    assert tensors.data.dtype == torch.float32
    assert tensors.data.numpy() == pytest.approx(arrays.data, abs=1e-6)
    assert tensors.total_flux_float == pytest.approx(arrays.total_flux_float, abs=1e-6)


# ---- physics, from Optiland's names and closed forms ----------------------------------------------------------------


def trace(scene, rays=40_000, **options):
    return scene.trace(rays, seed=11, backend=WarpBackend(), **{"max_depth": 60, **options})


def beam(scene, radius=1.0, spectrum=scenes.GREEN):
    scene.add_source("beam", At(z=-10.0), peer.CollimatedSourceConfig(spectrum, aperture_radius=radius))


def test_a_plate_passes_what_all_its_reflections_leave():
    """T = 2 n / (n^2 + 1) of a lossless plate; exp(-4 pi k d / lambda) where it absorbs once."""
    scene = peer.NSQScene()
    beam(scene)
    plate = peer.LensConfig(0.0, 0.0, thickness=4.0, material=scenes.glass(1.5), front_aperture_radius=20.0)
    scene.add_lens("plate", At(), plate)
    scene.add_detector("film", At(z=20.0), scenes.screen(20.0))
    passed = trace(scene).total_flux_detected
    expected = 2.0 * 1.5 / (1.5**2 + 1.0)
    assert abs(passed - expected) < 3.0 * np.sqrt(expected * (1.0 - expected) / 40_000)

    dark = peer.NSQScene()
    beam(dark)
    slab = peer.LensConfig(0.0, 0.0, thickness=4.0, material=scenes.glass(1.0, 1e-5), front_aperture_radius=20.0)
    dark.add_lens("slab", At(), slab)
    dark.add_detector("film", At(z=20.0), scenes.screen(20.0))
    result = trace(dark, 1000)
    assert result.total_flux_detected == pytest.approx(np.exp(-4.0 * np.pi * 1e-5 / 0.55 * 4e3), rel=1e-6)
    assert result.total_flux_bulk_absorbed == pytest.approx(1.0 - result.total_flux_detected, rel=1e-9)


def test_nothing_leaves_beyond_the_critical_angle():
    scene = peer.NSQScene()
    dense = scenes.glass(1.5)
    scene.add_source("beam", At(), peer.CollimatedSourceConfig(scenes.GREEN, medium=dense))
    face = peer.RefractiveComponent(At(z=5.0, ry=0.75), peer.PlaneGeometry(), dense, peer.VACUUM)
    scene.add_component("face", face)
    scene.add_detector("beyond", At(z=30.0), peer.FarFieldDetectorConfig())
    result = trace(scene, 2000)
    assert result.total_flux_detected == 0.0
    assert result.total_flux_escaped == pytest.approx(1.0, rel=1e-9)


def test_a_sphere_lights_a_disk_and_a_lambertian_plate_its_neighbour():
    """Isotropic: (1 - cos a) / 2 of the flux within a; Lambertian: sin^2 a."""
    cone = 0.5 * (1.0 - np.cos(np.arctan(1.0)))
    lit = np.sin(np.arctan(1.0)) ** 2
    configs = {
        cone: peer.PointSourceConfig(scenes.GREEN, half_angle_deg=180.0),
        lit: peer.ExtendedSourceConfig(scenes.GREEN, width=1e-6, height=1e-6),
    }
    for expected, config in configs.items():
        scene = peer.NSQScene()
        scene.add_source("lamp", At(), config)
        stop = peer.AbsorbingComponent(At(z=10.0), peer.AnnularPlaneGeometry(10.0, 1e5))
        scene.add_component("stop", stop)
        scene.add_detector("film", At(z=10.001), scenes.screen(30.0))
        found = trace(scene).total_flux_detected
        assert abs(found - expected) < 3.0 * np.sqrt(expected * (1.0 - expected) / 40_000)


def test_a_parabola_and_a_lens_have_their_focus():
    mirror = peer.NSQScene()
    beam(mirror, radius=20.0)
    mirror.add_mirror("dish", At(), peer.MirrorConfig(radius=-100.0, reflectance=0.8, conic=-1.0, aperture_radius=25.0))
    mirror.add_detector("spot", At(z=-50.0), peer.RayDatabaseConfig(width=1.0, height=1.0))
    rays = trace(mirror, 2000).detectors["spot"]
    lit = rays.N < 0.0  # the others are on their way to the dish
    assert rays.flux[lit].sum() > 0.79
    assert np.hypot(rays.x, rays.y)[lit].max() < 1e-9

    lens, n = peer.NSQScene(), 1.5
    beam(lens, radius=0.05)
    glass = peer.LensConfig(100.0, -100.0, thickness=5.0, material=scenes.glass(n), front_aperture_radius=10.0)
    lens.add_lens("lens", At(), glass)
    power = (n - 1.0) * (2.0 / 100.0 - (n - 1.0) * 5.0 / (n * 100.0**2))
    back = (1.0 - (n - 1.0) * 5.0 / (n * 100.0)) / power
    lens.add_detector("spot", At(z=5.0 + back), peer.RayDatabaseConfig(width=1.0, height=1.0))
    rays = trace(lens, 2000, max_depth=3).detectors["spot"]
    assert np.hypot(rays.x, rays.y).max() < 1e-4 * 0.05


def test_every_watt_has_a_place():
    """Split, scattered and absorbed light closes Optiland's own ledger where no mirror or coating takes any."""
    result = trace(scenes.light_pipe(), 5000, max_depth=200)
    assert result.flux_conservation_error < 1e-12
    assert result.total_flux_lost == 0.0
    assert result.diagnostics.warnings() == []


# ---- conversion ------------------------------------------------------------------------------------------------------


def test_a_converted_scene_is_one_of_ours():
    theirs = scenes.components()
    scene = from_optiland(theirs)
    assert isinstance(scene, nsq.NSQScene)
    assert scene.component_names == ["doublet", "step", "ball", "ring", "mirror"]
    assert [surface.name for surface in scene.surfaces][:3] == ["doublet.front", "doublet.cemented", "doublet.back"]
    assert scene.source_names == ["beam"]
    assert scene.detector_names == ["film"]
    ours = scene.trace(20_000, seed=3)
    expected = theirs.trace(20_000, seed=3, backend=peer.NumpyBackend())
    assert ours.total_flux_detected == pytest.approx(expected.total_flux_detected, rel=1e-9)
    assert ours.total_flux_coating == pytest.approx(expected.flux_conservation_error, rel=1e-9)
    assert ours.flux_conservation_error < 1e-12


def test_what_is_shared_stays_shared_and_what_was_changed_stays_changed():
    theirs = scenes.components()
    theirs.surfaces[3].geometry.r_front = 9.0
    scene = from_optiland(theirs)
    assert scene.surfaces[3].geometry.r_front == 9.0
    assert scene.surfaces[0].cs is scene.surfaces[3].cs
    assert scene.surfaces[0].cs.reference_cs is scene.sources[0].cs.reference_cs
    assert scene.surfaces[0].material_back is scene.surfaces[1].material_front


def test_a_sequential_system_goes_through_optilands_converter():
    from optiland.samples.objectives import CookeTriplet

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = peer.sequential_to_nonsequential(CookeTriplet(), detector_pixels=(32, 32))
        scene = from_optiland(CookeTriplet(), detector_pixels=(32, 32))
    (name,) = scene.detector_names
    ours, expected = scene.trace(10_000, seed=1), theirs.trace(10_000, seed=1, backend=peer.NumpyBackend())
    a, b = ours.detectors[name].irradiance, expected.detectors[name].irradiance
    assert a.shape == (32, 32)
    assert a.sum() > 0.0
    assert np.abs(a - b).max() <= 1e-9 * b.max()


class Wavy(peer.PlaneGeometry):
    pass


def test_what_cannot_be_converted_is_named():
    with pytest.raises(TypeError, match="scene got NSQScene; it takes an optiland"):
        from_optiland(nsq.NSQScene())
    with pytest.raises(TypeError, match=r"options got \['detector_pixels'\]"):
        from_optiland(scenes.singlet(), detector_pixels=(8, 8))
    scene = scenes.singlet()
    scene.add_component("odd", peer.AbsorbingComponent(At(z=30.0), Wavy()))
    with pytest.raises(TypeError, match="surface 'odd': geometry got Wavy; the adapter takes one of"):
        scene.trace(10, backend=WarpBackend())
    with pytest.raises(ValueError, match="gradient_mode"):
        WarpBackend(gradient_mode="backprop")
    assert repr(WarpBackend(seed=3)).startswith("WarpBackend(seed=3, gradient_mode='prb'")
