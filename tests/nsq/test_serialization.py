"""Scenes in files: exact round trips."""

import json
import os
import stat
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch

import nsq
from nsq.lower import lower
from nsq.thinfilm import ThinFilmCoating

from .generated_scenes import generated
from .saved_scenes import full_scene, mesh_scene, through_a_file, through_text
from .scenes import FDC, gauss_point_doublet, ledger, singlet

NUM_SCENES = 200


def plain(value):
    """Everything in a lowered scene as values that compare, arrays by their bits."""
    if isinstance(value, torch.Tensor):
        return plain(value.detach().numpy())
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    assert isinstance(value, str | int | float | None), type(value)
    return value


def tables(scene):
    """Everything that a trace sees of a scene."""
    with torch.no_grad():
        return plain(lower(scene, 1000))


def same_trace(scene, twin, rays=200):
    """Whether two scenes give the same result to the last bit."""
    with torch.no_grad():
        one, other = (s.trace(rays, seed=5) for s in (scene, twin))
    assert ledger(one) == ledger(other)
    for name, seen in one.detectors.items():
        for field in ("data", "x", "flux", "path_length", "ray_id"):
            if hasattr(seen, field):
                assert torch.equal(getattr(seen, field), getattr(other.detectors[name], field))


@pytest.mark.filterwarnings("ignore:.*lie on each other", "ignore:light came to surfaces")
@pytest.mark.parametrize("start", range(0, NUM_SCENES, 50))
def test_generated_scenes_lower_to_the_same_bits(start, tmp_path):
    """What a trace sees of a scene and of its twin is the same; some of them are traced, to see that it is."""
    for seed in range(start, start + 50):
        scene = generated(seed, everything=True)
        if seed % 50 == 0:
            scene.to_json(tmp_path / "scene.json", surfaces=True)
            twin = nsq.NSQScene.from_json(tmp_path / "scene.json")
            same_trace(scene, twin)
        else:
            twin = through_text(scene, surfaces=True)
        assert tables(twin) == tables(scene), seed
        assert twin.sampling_policy == scene.sampling_policy
        assert nsq.scene_to_dict(twin, surfaces=True) == nsq.scene_to_dict(scene, surfaces=True)


def test_generated_scenes_of_tensors_keep_their_numbers():
    for seed in range(40):
        scene = generated(seed, tensors=True)
        twin = through_text(scene)
        assert nsq.scene_to_dict(twin) == nsq.scene_to_dict(scene)
        with torch.no_grad():
            pairs = zip(*(lower(s, 1000).tensors.as_tuple() for s in (twin, scene)), strict=True)
        for read, made in pairs:  # what torch and NumPy derive from the same numbers may differ in the last place
            np.testing.assert_allclose(read.numpy(), made.detach().numpy(), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("make", [singlet, gauss_point_doublet, lambda: generated(3), lambda: generated(11)])
def test_traces_of_a_loaded_scene_are_the_same_bits(make, tmp_path):
    scene = make()
    same_trace(scene, through_a_file(scene, tmp_path), rays=2000)


def test_names_configs_frames_spectra_and_pixels_stay(tmp_path):
    scene = full_scene()
    twin = through_a_file(scene, tmp_path)
    assert twin.component_names == ["L", "DB", "M"]
    assert (twin.source_names, twin.detector_names) == (["P"], ["D", "R"])
    lens, doublet, mirror = (twin.component_registry.get(name) for name in ("L", "DB", "M"))
    assert (lens.config.material, lens.config.r1, lens.config.r2) == ("N-BK7", 50.0, np.inf)
    assert lens.config.front.coating.transmittance == 0.98
    assert (doublet.config.material2, doublet.config.thickness2) == ("N-SF5", 2.5)
    assert (mirror.config.reflectance, mirror.config.conic) == (0.95, -1.0)
    assert float(lens.cs.x) == 1.5
    assert (lens.cs.reference_cs.z, lens.cs.reference_cs.rx) == (10.0, 0.1)
    source, (screen, rays) = twin.sources[0], twin.detectors
    assert source.spectrum == FDC
    assert (source.half_angle_deg, source.total_flux, source.cs.z) == (25.0, 3.0, -50.0)
    assert (screen.num_pixels_x, screen.num_pixels_y, screen.splat, screen.splat_sigma) == (7, 5, "gaussian", 0.75)
    assert (rays.max_rays, rays.absorb, rays.geometry.width) == (17, False, 5.0)
    assert [s.name for s in twin.surfaces] == [s.name for s in scene.surfaces]


def test_coatings_lobes_and_spectral_detectors_stay(tmp_path):
    (tmp_path / "lobe.csv").write_text("0,0,0.3\n0,90,0.1\n60,0,0.2\n60,90,0.05\n")
    measured = nsq.TabulatedBSDF(tmp_path / "lobe.csv", 0.25, sampler="density")
    films = ThinFilmCoating([("N-BK7", 0.1), (nsq.NSQMaterial.constant(2.3), 0.05)])
    scene = singlet()
    front, back = nsq.SurfaceConfig(coating=films, bsdf=measured), nsq.SurfaceConfig(coating=films)
    scene.add_lens("C", nsq.CoordinateSystem(z=70), nsq.LensConfig(50, -50, 5, "N-BK7", 10, front=front, back=back))
    spectral = nsq.SpectralDetectorConfig(8, 4, num_pixels_x=4, num_pixels_y=2, wl_min=0.4, wl_max=0.7, num_bins=30)
    scene.add_detector("W", nsq.CoordinateSystem(z=80), spectral)
    scene.add_detector("F", nsq.CoordinateSystem(z=90), nsq.FarFieldDetectorConfig(num_theta=45, num_phi=90))
    scene.to_json(tmp_path / "s.json")
    (tmp_path / "lobe.csv").unlink()  # the scene has the numbers
    twin = nsq.NSQScene.from_json(tmp_path / "s.json")
    lens = twin.component_registry.get("C")
    assert lens.config.front.coating is lens.config.back.coating
    assert [t for _, t in lens.config.front.coating.layers] == [0.1, 0.05]
    lobe = lens.config.front.bsdf
    assert (lobe.sampler, lobe.transmissive_fraction) == ("density", 0.25)
    assert np.array_equal(lobe.table(), measured.table())
    wavelengths, far = twin.detectors[1:]
    assert np.array_equal(wavelengths.wavelength_bins, scene.detectors[1].wavelength_bins)
    assert (far.num_bins_theta, far.num_bins_phi, far.splat) == (45, 90, "hard")
    assert nsq.scene_to_dict(twin) == nsq.scene_to_dict(scene)


@pytest.mark.parametrize(
    "geometry",
    [
        nsq.PlaneGeometry(),
        nsq.FinitePlaneGeometry(aperture_radius=3),
        nsq.ConicGeometry(50, -0.5, 4),
        nsq.ParaboloidGeometry(50, 4),
        nsq.SphereGeometry(9),
        nsq.CylindricalFrustumGeometry(1, 2, 0, 5),
        nsq.AnnularPlaneGeometry(1, 2, 0.5),
    ],
)
def test_ray_databases_of_every_shape(geometry):
    scene = singlet()
    scene.detector_registry.add("R", nsq.RayDatabaseDetector(nsq.CoordinateSystem(), geometry, name="other"))
    data = nsq.scene_to_dict(scene)
    twin = nsq.scene_from_dict(json.loads(json.dumps(data))).detectors[-1]
    assert type(twin.geometry) is type(geometry)
    assert [float(v) for v in twin.geometry.numbers()] == [float(v) for v in geometry.numbers()]
    assert twin.name == "other"


def test_single_surfaces_and_groups_stay(tmp_path):
    mesh_scene().to_json(tmp_path / "s.json", surfaces=True)
    twin = nsq.NSQScene.from_json(tmp_path / "s.json")
    alone, group = twin.component_registry.get("A"), twin.component_registry.get("G")
    assert (type(alone), type(group)) == (nsq.RefractiveComponent, nsq.CompoundComponent)
    assert alone.geometry is group.surfaces[0].geometry
    assert alone.material_front is group.surfaces[0].material_back
    assert alone.geometry.vertices[3, 2] == 9.1
    assert alone.geometry.is_watertight
    assert group.surfaces[1].geometry.coefficients == (1e-5, 0.0, -2e-9)
    assert [s.name for s in twin.surfaces[3:]] == ["A", "G.1", "G.2"]
    assert (tmp_path / "s.json").read_text().count("base64") == 2  # the two arrays of one mesh


def test_the_edge_of_a_lens_alone_is_a_frustum():
    scene = singlet()
    config = nsq.LensConfig(30.0, -40.0, 5.0, "N-BK7", 6.0, back_aperture_radius=5.0)
    lens = nsq.Lens("loose", nsq.CoordinateSystem(z=20.0), config)
    for surface in lens.surfaces[2:]:
        scene.add_component(surface.name, surface)
    twin = through_text(scene, surfaces=True)
    shapes = [type(s.geometry) for s in twin.surfaces[3:]]
    assert shapes == [nsq.CylindricalFrustumGeometry, nsq.AnnularPlaneGeometry]
    for one, other in zip(scene.surfaces[3:], twin.surfaces[3:], strict=True):
        assert [float(v) for v in one.geometry.numbers()] == [float(v) for v in other.geometry.numbers()]
    same_trace(scene, twin, rays=500)


def test_shared_frames_and_media_stay_shared(tmp_path):
    twin = through_a_file(full_scene(), tmp_path)
    lens, doublet = twin.component_registry.get("L"), twin.component_registry.get("DB")
    assert lens.cs.reference_cs is doublet.cs.reference_cs
    assert twin.sources[0].medium is lens.config.ambient
    lens.cs.reference_cs.z = 12.0
    assert doublet.cs.reference_cs.z == 12.0


def test_the_dictionary_is_plain():
    data = nsq.scene_to_dict(full_scene())
    assert data["nsq_schema_version"] == nsq.NSQ_SCHEMA_VERSION == 1
    assert {"components", "sources", "detectors"} <= set(data)
    lens = data["components"][0]
    assert (lens["type"], lens["name"], lens["cs"]["x"]) == ("Lens", "L", 1.5)
    for field in ("r1", "r2", "thickness", "front_aperture_radius", "conic1"):
        assert isinstance(lens["config"][field], float)
    assert (lens["config"]["material"], lens["config"]["r2"]) == ("N-BK7", np.inf)
    assert isinstance(data["sources"][0]["total_flux"], float)
    assert isinstance(data["detectors"][0]["num_pixels_x"], int)
    assert isinstance(data["detectors"][0]["width"], float)
    assert nsq.scene_to_dict(nsq.scene_from_dict(data)) == data


def test_tensors_become_numbers(tmp_path):
    radius = torch.tensor(0.1, dtype=torch.float32, requires_grad=True)
    scene = singlet()
    lens = nsq.LensConfig(torch.tensor(70.0, requires_grad=True), -60.0, 4.0, "N-BK7", radius)
    scene.add_lens("T", nsq.CoordinateSystem(z=torch.tensor(80.0, requires_grad=True)), lens)
    scene.to_json(tmp_path / "s.json")
    text = (tmp_path / "s.json").read_text()
    assert "torch" not in text
    assert "requires_grad" not in text
    twin = nsq.NSQScene.from_json(tmp_path / "s.json").component_registry.get("T")
    assert twin.config.front_aperture_radius == float(np.float32(0.1))
    assert twin.config.r1 == 70.0


def test_the_file_is_json_by_the_book(tmp_path):
    def refuse(name):
        raise AssertionError(name)

    full_scene().to_json(tmp_path / "s.json")
    data = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert data["components"][0]["config"]["r2"] == "inf"


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "s.json"
    singlet().to_json(path)
    os.chmod(path, 0o640)
    old = path.read_bytes()
    broken = singlet()
    broken.add_component("I", nsq.AbsorbingComponent(nsq.CoordinateSystem(), nsq.PlaneGeometry()))
    with pytest.raises(TypeError, match="Cannot serialize"):
        broken.to_json(path)
    assert path.read_bytes() == old
    full_scene().to_json(path)
    assert path.read_bytes() != old
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]
    with pytest.raises(OSError, match=r"nowhere"):
        singlet().to_json(tmp_path / "nowhere" / "s.json")


def test_a_lens_whose_tensor_was_optimised_in_place(tmp_path):
    radius = torch.tensor(100.0, dtype=torch.float64, requires_grad=True)
    scene = singlet()
    scene.add_lens("T", nsq.CoordinateSystem(z=80.0), nsq.LensConfig(radius, -60.0, 4.0, "N-BK7", 5.0))
    with torch.no_grad():
        radius.add_(7.25)
    twin = through_a_file(scene, tmp_path)
    assert twin.component_registry.get("T").surfaces[0].geometry.radius == 107.25
