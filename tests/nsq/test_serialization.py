"""Scenes in files: exact round trips, and what happens with files that are no scenes."""

import json
import os
import stat
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import torch

import nsq
from nsq.lower import lower
from nsq.thinfilm import AngularCoating, ThinFilmCoating

from .generated_scenes import generated
from .scenes import FDC, GREEN, gauss_point_doublet, ledger, singlet

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


def through_a_file(scene, tmp_path):
    scene.to_json(tmp_path / "scene.json")
    return nsq.NSQScene.from_json(tmp_path / "scene.json")


def through_text(scene, **options):
    return nsq.scene_from_dict(json.loads(json.dumps(nsq.scene_to_dict(scene, **options))))


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


def full_scene():
    """One of everything, by hand."""
    scene = nsq.NSQScene()
    bench = nsq.CoordinateSystem(z=10, rx=0.1)
    water = nsq.NSQMaterial.constant(1.33)
    point = nsq.PointSourceConfig(spectrum=FDC, total_flux=3, half_angle_deg=25.0, medium=water)
    scene.add_source("P", nsq.CoordinateSystem(z=-50), point)
    coated = nsq.SurfaceConfig(coating=nsq.SimpleCoating(0.98, 0.01))
    lens = nsq.LensConfig(50, np.inf, 5, "N-BK7", front_aperture_radius=10, front=coated, ambient=water)
    scene.add_lens("L", nsq.CoordinateSystem(x=1.5, reference_cs=bench), lens)
    doublet = nsq.DoubletConfig(60, -45, -130, 6, 2.5, "N-BK7", "N-SF5", aperture_radius=9)
    scene.add_doublet("DB", nsq.CoordinateSystem(z=30, reference_cs=bench), doublet)
    scene.add_mirror("M", nsq.CoordinateSystem(z=90), nsq.MirrorConfig(-200, 0.95, conic=-1))
    screen = nsq.IrradianceDetectorConfig(20, 10, num_pixels_x=7, num_pixels_y=5, splat="gaussian", splat_sigma=0.75)
    scene.add_detector("D", nsq.CoordinateSystem(z=60), screen)
    scene.add_detector("R", nsq.CoordinateSystem(z=61), nsq.RayDatabaseConfig(5, 5, max_rays=17, absorb=False))
    return scene


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


def mesh_scene():
    """One mesh in two places, and a group of surfaces about it."""
    scene = singlet()
    corners = [(0, 0, 0), (9, 0, 0), (0, 9, 0), (0, 0, 9.1)]
    mesh = nsq.MeshGeometry((corners, [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]))
    glass = nsq.NSQMaterial.constant(1.5)
    scene.add_component("A", nsq.RefractiveComponent(nsq.CoordinateSystem(z=60), mesh, glass, nsq.VACUUM))
    group = nsq.CompoundComponent("G", nsq.CoordinateSystem(z=70), None)
    shape = nsq.EvenAsphereGeometry(50.0, -1.0, 9.0, (1e-5, 0.0, -2e-9))
    group.surfaces = [
        nsq.RefractiveComponent(nsq.CoordinateSystem(z=70), mesh, nsq.VACUUM, glass, name="G.1"),
        nsq.AbsorbingComponent(nsq.CoordinateSystem(z=75), shape, name="G.2"),
    ]
    scene.add_component("G", group)
    return scene


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


def test_single_surfaces_are_written_when_asked_for():
    with pytest.raises(TypeError, match=r"component 'A' of class RefractiveComponent.*surfaces=True"):
        nsq.scene_to_dict(mesh_scene())
    with pytest.raises(TypeError, match=r"^surfaces got 1"):
        nsq.scene_to_dict(mesh_scene(), surfaces=1)
    scene = singlet()
    scene.add_component("I", nsq.ReflectiveComponent(nsq.CoordinateSystem(), nsq.PlaneGeometry(), lambda wl: 0.5))
    with pytest.raises(TypeError, match=r"Cannot serialize component 'I'\.reflectance: it got function"):
        nsq.scene_to_dict(scene, surfaces=True)
    odd = nsq.AbsorbingComponent(nsq.CoordinateSystem(), nsq.PlaneGeometry())
    odd.bsdf = nsq.LambertianBSDF()
    scene = singlet()
    scene.add_component("I", odd)
    with pytest.raises(ValueError, match=r"component 'I': bsdf was set, which a AbsorbingComponent does not take"):
        nsq.scene_to_dict(scene, surfaces=True)


def test_a_scene_too_large_for_a_file_is_refused(tmp_path):
    side = 700
    x, y = np.meshgrid(np.linspace(0, 1, side), np.linspace(0, 1, side))
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    vertices = np.stack([x.ravel(), y.ravel(), np.sin(x * y).ravel()], axis=1)
    scene = singlet()
    mesh = nsq.MeshGeometry((vertices, np.stack([corner, corner + 1, corner + side], axis=1)))
    scene.add_component("M", nsq.AbsorbingComponent(nsq.CoordinateSystem(), mesh))
    scene.to_json(tmp_path / "large.json", surfaces=True)
    scene.add_component("N", nsq.AbsorbingComponent(nsq.CoordinateSystem(), nsq.MeshGeometry(mesh)))
    with pytest.raises(ValueError, match=r"s\.json: the scene takes \d+ bytes.*meshes"):
        scene.to_json(tmp_path / "s.json", surfaces=True)
    assert not (tmp_path / "s.json").exists()


def nested(levels):
    """A surface's config in a surface's config, and so on."""
    text = '{"type": "SurfaceConfig", "bsdf": ' * levels + "null" + "}" * levels
    data = json.loads(json.dumps(nsq.scene_to_dict(singlet())))
    data["components"][0]["config"]["front"] = json.loads(text)
    return data


@pytest.mark.parametrize("levels", [3, 150, 300])
def test_objects_within_objects(levels):
    with pytest.raises(ValueError, match=r"components\[0\]\.config\.front.*(more than 100 deep|bsdf)"):
        nsq.scene_from_dict(nested(levels))


def test_a_key_that_occurs_twice_among_many_is_found_at_once(tmp_path):
    keys = ",".join(f'"k{i}":0' for i in range(100_000))
    (tmp_path / "s.json").write_text(f'{{{keys},"k99999":1}}')
    with pytest.raises(ValueError, match=r"'k99999' occurs twice"):
        nsq.NSQScene.from_json(tmp_path / "s.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": "|O"}, "dtype: got '|O'"),
        ({"dtype": "<f4"}, "bytes"),
        ({"shape": [4, 4]}, "shape"),
        ({"shape": [2**31, 3]}, "shape: got"),
        ({"shape": [-4, 3]}, "shape: got"),
        ({"crc32": 1}, "checksum"),
        ({"base64": "AAA"}, "base64"),
        ({"base64": 5}, "base64"),
        ({"type": "object"}, "takes an object of type 'array'"),
    ],
)
def test_arrays_that_are_not_whole(change, words):
    data = json.loads(json.dumps(nsq.scene_to_dict(mesh_scene(), surfaces=True)))
    data["components"][1]["geometry"]["vertices"].update(change)
    with pytest.raises(ValueError, match=r"components\[1\]\.geometry\.vertices") as caught:
        nsq.scene_from_dict(data)
    assert words in str(caught.value)


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
    broken.add_component("I", plane())
    with pytest.raises(TypeError, match="Cannot serialize"):
        broken.to_json(path)
    assert path.read_bytes() == old
    full_scene().to_json(path)
    assert path.read_bytes() != old
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]
    with pytest.raises(OSError, match=r"nowhere"):
        singlet().to_json(tmp_path / "nowhere" / "s.json")


def plane():
    return nsq.AbsorbingComponent(nsq.CoordinateSystem(), nsq.PlaneGeometry())


def mirror_of(reflectance):
    return nsq.Mirror("M", nsq.CoordinateSystem(), nsq.MirrorConfig(100.0, reflectance))


class Odd:
    def n(self, wavelength):
        return 1.5

    def k(self, wavelength):
        return 0.0


class OddSource(nsq.PointSource):
    pass


def lens_of(material):
    return nsq.Lens("M", nsq.CoordinateSystem(), nsq.LensConfig(50.0, -50.0, 5.0, material, 5.0))


def coated(coating):
    config = nsq.LensConfig(50.0, -50.0, 5.0, "N-BK7", 5.0, front=nsq.SurfaceConfig(coating=coating))
    return nsq.Lens("M", nsq.CoordinateSystem(), config)


@pytest.mark.parametrize(
    ("component", "words"),
    [
        (plane(), ["component 'I'", "AbsorbingComponent", "Only Lens, Mirror, and Doublet are supported"]),
        (mirror_of(lambda wavelength: 0.5), ["component 'I'", "reflectance", "function"]),
        (mirror_of(nsq.SimpleCoating(0.1, lambda wavelength: 0.5)), ["reflectance", "function"]),
        (coated(AngularCoating(lambda wavelength, cosine: (0.1, 0.9))), ["front.coating", "AngularCoating"]),
        (lens_of(Odd()), ["material", "Odd"]),
        (lens_of(nsq.NSQMaterial(Odd())), ["material", "Odd", "NSQMaterial.constant"]),
    ],
)
def test_what_a_file_cannot_hold(component, words):
    scene = singlet()
    scene.add_component("I", component)
    with pytest.raises(TypeError, match="Cannot serialize") as caught:
        nsq.scene_to_dict(scene)
    for word in words:
        assert word in str(caught.value)


def test_a_source_class_of_somebody_elses():
    scene = singlet()
    scene.source_registry.add("O", OddSource(nsq.CoordinateSystem(), GREEN))
    with pytest.raises(TypeError, match=r"Cannot serialize source 'O' of class OddSource"):
        nsq.scene_to_dict(scene)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lens: setattr(lens.surfaces[0].geometry, "radius", 80.0), ["L.front", "100.0", "80.0"]),
        (lambda lens: setattr(lens.surfaces[2].geometry, "r_front", 13.0), ["L.edge", "12.5", "13.0"]),
        (lambda lens: setattr(lens.surfaces[1].cs, "z", 6.0), ["L.back.cs"]),
        (lambda lens: setattr(lens.surfaces[0], "coating", nsq.SimpleCoating(1.0)), ["L.front.coating"]),
        (lambda lens: lens.surfaces.pop(), ["L.edge"]),
    ],
)
def test_a_lens_that_is_no_longer_its_config(change, words):
    scene = singlet()
    change(scene.component_registry.get("L"))
    with pytest.raises(ValueError, match=r"Cannot serialize component 'L'") as caught:
        nsq.scene_to_dict(scene)
    for word in words:
        assert word in str(caught.value)


def test_a_lens_whose_tensor_was_optimised_in_place(tmp_path):
    radius = torch.tensor(100.0, dtype=torch.float64, requires_grad=True)
    scene = singlet()
    scene.add_lens("T", nsq.CoordinateSystem(z=80.0), nsq.LensConfig(radius, -60.0, 4.0, "N-BK7", 5.0))
    with torch.no_grad():
        radius.add_(7.25)
    twin = through_a_file(scene, tmp_path)
    assert twin.component_registry.get("T").surfaces[0].geometry.radius == 107.25


def edited(path, value, delete=False):
    """The full scene's dictionary with one entry set or deleted."""
    data = json.loads(json.dumps(nsq.scene_to_dict(full_scene())))
    at = data
    for key in path[:-1]:
        at = at[key]
    if delete:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (edited(["nsq_schema_version"], 2), ["schema version", "2", "1"]),
        (edited(["nsq_schema_version"], "1"), ["schema version"]),
        (edited(["nsq_schema_version"], True), ["schema version"]),
        (edited(["nsq_schema_version"], None, delete=True), ["nsq_schema_version"]),
        ({"version": 3}, ["nsq_schema_version"]),
        ([1, 2], ["list", "nsq_schema_version"]),
        (edited(["components"], {}), ["components", "dict", "list"]),
        (edited(["components", 0], 5), ["components[0]", "int"]),
        (edited(["components", 0, "type"], "System"), ["components[0].type", "'System'", "Only Lens"]),
        (edited(["components", 0, "type"], ["Lens"]), ["components[0].type"]),
        (edited(["components", 0, "config", "r1"], "os.system"), ["components[0].config", "r1", "os.system"]),
        (edited(["components", 0, "config", "r1"], {"type": "NSQScene"}), ["config.r1", "unknown class", "NSQScene"]),
        (edited(["components", 0, "config", "thickness"], -5.0), ["components[0].config", "thickness", "-5.0"]),
        (edited(["components", 0, "config", "r1"], None, delete=True), ["components[0].config", "r1"]),
        (edited(["components", 0, "config", "r9"], 1.0), ["components[0].config", "r9"]),
        (edited(["components", 0, "config", "ambient", "n"], "1.3"), ["ambient.n", "'1.3'"]),
        (edited(["components", 0, "config", "ambient", "medium"], []), ["ambient.medium"]),
        (edited(["components", 0, "config", "material"], "N-BK8"), ["components[0]", "N-BK8"]),
        (edited(["components", 0, "cs"], None), ["components[0].cs", "NoneType"]),
        (edited(["components", 0, "cs", "x"], True), ["components[0].cs.x", "True"]),
        (edited(["components", 0, "cs", "x"], 10**400), ["components[0].cs.x", "range"]),
        (edited(["components", 0, "cs", "x"], "inf"), ["components[0].cs", "x", "inf"]),
        (edited(["components", 0, "cs", "reference_cs", "x"], 3.0), ["components", "same id"]),
        (edited(["components", 0, "name"], 7), ["components[0].name", "7"]),
        (edited(["components", 1, "name"], "L"), ["components[1].name", "'L'"]),
        (edited(["sources", 0, "type"], "eval"), ["sources[0].type", "eval"]),
        (edited(["sources", 0, "spectrum", "weights"], [1.0]), ["sources[0].spectrum", "weights"]),
        (edited(["sources", 0, "spectrum"], 0.55), ["sources[0]", "spectrum", "0.55"]),
        (edited(["detectors", 0, "num_pixels_x"], 2.5), ["detectors[0]", "num_pixels_x", "2.5"]),
        (edited(["detectors", 0, "splat"], "blob"), ["detectors[0]", "splat", "blob"]),
        (edited(["detectors", 1, "geometry", "type"], "Path"), ["detectors[1].geometry", "'Path'"]),
        (edited(["sampling_policy", "reflect_prob"], 0.0), ["sampling_policy", "reflect_prob"]),
        (edited(["extra"], 0), ["extra"]),
    ],
)
def test_dictionaries_that_are_no_scene(data, words):
    with pytest.raises(ValueError, match=".") as caught:
        nsq.scene_from_dict(data)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", ["s.json", "JSON"]),
        (b"\x93NUMPY\x01\x00", ["s.json", "byte 0"]),
        (b"[" * 100_000, ["s.json", "nested too deep"]),
        (b'{"nsq_schema_version": NaN}', ["s.json", "NaN"]),
        (b'{"nsq_schema_version": 1, "nsq_schema_version": 1}', ["s.json", "twice"]),
        (b'{"nsq_schema_version": 99}', ["s.json", "schema version", "99"]),
        (b'{"nsq_schema_version": 1' + b"0" * 9000 + b"}", ["s.json"]),
    ],
)
def test_files_that_are_no_scene(text, words, tmp_path):
    path = tmp_path / "s.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=".") as caught:
        nsq.NSQScene.from_json(path)
    for word in words:
        assert word in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        nsq.NSQScene.from_json(tmp_path / "none.json")


def test_corrupted_files(tmp_path):
    scene = full_scene()
    for name in ("A", "G"):
        scene.add_component(name, mesh_scene().component_registry.get(name))
    scene.to_json(tmp_path / "good.json", surfaces=True)
    good = (tmp_path / "good.json").read_bytes()
    rng, path, refused, read = np.random.default_rng(18), tmp_path / "bad.json", 0, 0
    words = [b"NaN", b"-1e999", b"null", b"[[[[", b"{}", b"99999999999999999999", b'"x"', b"true", b"\xff\x00", b""]
    for _ in range(500):
        a = int(rng.integers(len(good)))
        b = min(len(good), a + int(rng.integers(1, 40)))
        cut = good[:a] if rng.random() < 0.3 else good[:a] + words[rng.integers(len(words))] + good[b:]
        path.write_bytes(cut)
        try:
            scene = nsq.NSQScene.from_json(path)
        except ValueError as error:
            refused += "bad.json" in str(error)
        else:
            scene.validate()  # a change that happens to say something sensible
            read += 1
    assert refused + read == 500
    assert refused > 400
