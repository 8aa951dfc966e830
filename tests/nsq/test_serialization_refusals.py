"""What a scene file cannot hold, and files that are no scenes: refused by name."""

import json

import numpy as np
import pytest

import nsq
from nsq.thinfilm import AngularCoating

from .saved_scenes import full_scene, mesh_scene
from .scenes import GREEN, singlet


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
