"""Sequential prescriptions as scenes: focal lengths, what is reported, what is refused."""

import math
import warnings

import numpy as np
import pytest
import torch

import nsq
from nsq.formats import read_zmx, scene_from_zmx

# radius, thickness, glass, semi-diameter, then further lines of the surface
COOKE = [
    (math.inf, math.inf, "", 0.0),
    (22.01359, 3.25896, "SK16", 9.5),
    (-435.76044, 6.00755, "", 9.5),
    (-22.21328, 0.99997, "F2", 5.0),
    (20.29192, 4.75041, "", 5.0, "STOP"),
    (79.68360, 2.95208, "SK16", 7.5),
    (-18.39533, 42.20778, "", 7.5),
    (math.inf, 0.0, "", 18.2),
]
TESSAR = [
    (math.inf, math.inf, "", 0.0),
    (1.3329, 0.2791, "N-SK15", 0.5),
    (-9.9754, 0.2054, "", 0.5),
    (-2.0917, 0.09, "F2", 0.4),
    (1.2123, 0.0709, "", 0.35),
    (math.inf, 0.1534, "", 0.33, "STOP"),
    (-7.5205, 0.09, "K10", 0.4),
    (1.3010, 0.3389, "N-SK15", 0.45),
    (-1.5218, 3.4025, "", 0.45),
    (math.inf, 0.0, "", 1.7),
]


def zmx(surfaces, unit="MM", aperture="ENPD 10", wavelengths=((0.4861327, 1), (0.5875618, 1), (0.6562725, 1)), more=()):
    """The text of a file."""
    rows = [
        "VERS 140124 258 36214",
        "MODE SEQ",
        "NAME A LENS",
        f"UNIT {unit} X W X CM MR CPMM",
        aperture,
        "GCAT SCHOTT",
    ]
    rows += [f"FTYP 0 0 2 {len(wavelengths)} 0 0 0", "XFLN 0 0", "YFLN 0 14", "PWAV 2", *more]
    rows += [f"WAVM {i} {wl} {weight}" for i, (wl, weight) in enumerate(wavelengths, start=1)]
    rows += [f"WAVM {i} 0.55 1" for i in range(len(wavelengths) + 1, 25)]  # not in use
    for number, (radius, thickness, glass, semi, *extra) in enumerate(surfaces):
        rows += [f"SURF {number}", *([] if any("TYPE" in e for e in extra) else ["  TYPE STANDARD"])]
        rows += [f'  CURV {0.0 if math.isinf(radius) else 1.0 / radius!r} 0 0 0 0 ""']
        rows += [f"  DISZ {'INFINITY' if math.isinf(thickness) else thickness}", f'  DIAM {semi} 1 0 0 1 ""']
        rows += [f"  GLAS {glass} 0 0 1.5 40.0 0 0 0 0 0 0"] if glass else []
        rows += [f"  {line}" for line in extra]
    return "\n".join(rows) + "\n"


def written(text, tmp_path, name="lens.zmx", encoding="utf-8"):
    (tmp_path / name).write_text(text, encoding=encoding)
    return tmp_path / name


def quiet(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return scene_from_zmx(path, **options)


def paraxial(surfaces, glasses, line):
    """Focal length by the matrices of refraction and translation."""
    system, before = np.eye(2), 1.0
    for radius, thickness, glass, *_ in surfaces[1:-1]:
        after = float(glasses[glass].n(line)) if glass else 1.0
        power = 0.0 if math.isinf(radius) else (after - before) / radius
        system = np.array([[1.0, 0.0], [-power, 1.0]]) @ system
        system = np.array([[1.0, thickness / after], [0.0, 1.0]]) @ system
        before = after
    return -1.0 / system[1, 0]


def traced_focal_length(scene, radius=0.02, rays=400):
    """Of rays close to the axis, from where they start and how they arrive."""
    beam = scene.sources[0]
    beam.aperture_radius, beam.spectrum = radius, nsq.Spectrum.monochromatic(0.5875618)
    screen = scene.detectors[0].cs
    scene.remove_detector("image")
    scene.add_detector("R", screen, nsq.RayDatabaseConfig(1.0, 1.0))
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=1e-9)  # transmitted light alone
    with torch.no_grad():
        seen = scene.trace(rays, seed=1).detectors["R"].to_numpy()
    start = beam.generate(seen["ray_id"], nsq.NSQRng(1))
    assert len(seen["x"]) == rays
    moment = np.sum(start.x * seen["L"] / seen["N"] + start.y * seen["M"] / seen["N"])
    return -np.sum(start.x**2 + start.y**2) / moment


def test_a_cooke_triplet(tmp_path):
    path = written(zmx(COOKE), tmp_path)
    scene, report = quiet(path)
    assert scene.component_names == ["L1", "L2", "L3"]
    assert report.parts == {"L1": (1, 2), "L2": (3, 4), "L3": (5, 6), "image": (7,)}
    glasses = {"SK16": nsq.Material("N-SK16"), "F2": nsq.Material("F2", "Schott")}
    focal = paraxial(COOKE, glasses, 0.5875618)
    assert focal == pytest.approx(50.0, rel=2e-3)  # as it was published
    assert report.focal_length == pytest.approx(focal, rel=1e-12)
    assert traced_focal_length(scene) == pytest.approx(focal, rel=1e-3)
    assert scene.sources[0].spectrum.wavelengths.tolist() != []
    texts = [str(e) for e in report.entries]
    assert any("'SK16' was taken to be N-SK16" in t for t in texts)
    assert any("surface 4" in t and "stop" in t for t in texts)
    assert any("fields off the axis" in t for t in texts)
    assert report.of("unsupported") == []
    assert str(report).count("\n") == len(report.entries)


def test_a_tessar_in_centimetres(tmp_path):
    path = written(zmx(TESSAR, unit="CM", aperture="FNUM 5 0"), tmp_path)
    scene, report = quiet(path)
    assert scene.component_names == ["L1", "L2", "stop", "L3"]
    assert isinstance(scene.component_registry.get("L3"), nsq.Doublet)
    glasses = {"N-SK15": nsq.Material("N-SK15"), "F2": nsq.Material("F2", "Schott"), "K10": nsq.Material("K10")}
    focal = 10.0 * paraxial(TESSAR, glasses, 0.5875618)
    assert focal == pytest.approx(40.0, rel=0.01)
    assert report.focal_length == pytest.approx(focal, rel=1e-12)
    assert scene.sources[0].aperture_radius == pytest.approx(focal / 10.0, rel=1e-12)
    assert traced_focal_length(scene) == pytest.approx(focal, rel=1e-3)
    stop = scene.component_registry.get("stop")
    assert stop.geometry.inner_radius == pytest.approx(3.3)
    assert float(stop.cs.z) == pytest.approx(10.0 * (0.2791 + 0.2054 + 0.09 + 0.0709))


def test_the_scene_traces_and_is_saved(tmp_path):
    path = written(zmx(TESSAR, unit="CM", aperture="ENPD 0.4"), tmp_path)
    scene, report = quiet(path, stop=False, num_pixels=16)
    assert any("stop was left out" in e.text for e in report.of("dropped"))
    scene.to_json(tmp_path / "scene.json")
    twin = nsq.NSQScene.from_json(tmp_path / "scene.json")
    with torch.no_grad():
        results = [s.trace(2000, seed=2) for s in (scene, twin)]
    assert results[0].total_flux_detected == results[1].total_flux_detected > 0.6
    assert scene.sources[0].spectrum.wavelengths.tolist() == [0.4861327, 0.5875618, 0.6562725]


def test_a_mirror_turns_the_light_round(tmp_path):
    telescope = [
        (math.inf, math.inf, "", 0.0),
        (math.inf, 80.0, "", 30.0),
        (-200.0, -60.0, "MIRROR", 30.0, "CONI -1.0", "STOP"),
        (-40.0, -3.0, "N-BK7", 13.0),
        (math.inf, -30.0, "", 13.0),
        (math.inf, 0.0, "", 5.0),
    ]
    scene, report = quiet(written(zmx(telescope, aperture="ENPD 50"), tmp_path))
    assert scene.component_names == ["M1", "L1"]
    lens = scene.component_registry.get("L1")
    assert float(lens.cs.z) == 17.0  # the face that light leaves by is nearer the origin
    assert (lens.config.r1, lens.config.r2, lens.config.thickness) == (math.inf, -40.0, 3.0)
    mirror = scene.component_registry.get("M1")
    assert (mirror.config.radius, mirror.config.conic, mirror.config.reflectance) == (-200.0, -1.0, 1.0)
    assert any("reflectance" in e.text for e in report.of("guessed"))
    assert any(e.surface == 1 and e.kind == "dropped" for e in report.entries)


def test_a_mirror_alone_has_half_its_radius(tmp_path):
    mirror = [(math.inf, math.inf, "", 0.0), (-200.0, -100.0, "MIRROR", 20.0, "CONI -1"), (math.inf, 0.0, "", 1.0)]
    scene, report = quiet(written(zmx(mirror, aperture="ENPD 20"), tmp_path))
    assert report.focal_length == pytest.approx(100.0)
    assert report.back_focal_distance == pytest.approx(-100.0)
    scene.detectors[0].absorb = False
    with torch.no_grad():
        seen = scene.trace(2000, seed=1).detectors["image"]
    # on its way out only the beam's middle meets the small screen, and all of it does at the focus
    assert seen.irradiance[126:130, 126:130].sum() * seen.pixel_area == pytest.approx(1.0, rel=0.01)
    assert seen.total_flux_float == pytest.approx(1.0 + (2.0 / 20.0) ** 2, rel=0.01)


def test_a_finite_object(tmp_path):
    relay = [(math.inf, 100.0, "", 5.0), (50.0, 5.0, "N-BK7", 10.0), (-50.0, 90.0, "", 10.0), (math.inf, 0.0, "", 5.0)]
    scene, _ = quiet(written(zmx(relay, aperture="OBNA 0.05 0"), tmp_path))
    source = scene.sources[0]
    assert isinstance(source, nsq.PointSource)
    assert source.half_angle_deg == pytest.approx(math.degrees(math.asin(0.05)))
    assert float(source.cs.z) == -100.0
    scene, report = quiet(written(zmx(relay), tmp_path))
    assert scene.sources[0].half_angle_deg == pytest.approx(math.degrees(math.atan(0.1)))
    assert any("cone" in e.text for e in report.of("guessed"))


def singlet(*extra, glass="N-BK7", semi=10.0):
    face = (50.0, 5.0, glass, semi, *extra)
    return [(math.inf, math.inf, "", 0.0), face, (-50.0, 45.0, "", semi), (math.inf, 0.0, "", 5.0)]


def test_aspheres(tmp_path):
    asphere = singlet("TYPE EVENASPH", "PARM 1 1e-4", "PARM 2 1.5e-6", "CONI -0.5")
    scene, report = quiet(written(zmx(asphere, unit="CM", aperture="ENPD 4"), tmp_path))
    lens = scene.component_registry.get("L1")
    assert [s.name for s in lens.surfaces] == ["L1.face1", "L1.face2", "L1.edge1"]
    front = lens.surfaces[0].geometry
    assert front.coefficients == {2: pytest.approx(1e-5), 4: pytest.approx(1.5e-9)}
    assert float(front.sag(100.0, 0.0)) == pytest.approx(
        10.0 * (0.02 * 100.0 / (1.0 + math.sqrt(1.0 - 0.5 * 0.04)) + 1e-4 * 100.0 + 1.5e-6 * 1e4)
    )
    assert nsq.Volume("L1", lens.surfaces, "N-BK7").boundary == lens.surfaces
    # the power of the vertex curvature 1/500 + 2e-5 and the back's -1/500, 50 mm apart, by the lensmaker's equation
    n = float(nsq.Material("N-BK7").n(0.5875618))
    c1, c2 = 1.0 / 500.0 + 2e-5, -1.0 / 500.0
    power = (n - 1.0) * (c1 - c2 + (n - 1.0) * 50.0 * c1 * c2 / n)
    assert report.focal_length == pytest.approx(1.0 / power, rel=1e-12)
    assert traced_focal_length(scene) == pytest.approx(1.0 / power, rel=1e-3)
    assert report.of("unsupported") == []
    mirror = [
        (math.inf, math.inf, "", 0.0),
        (-200.0, -100.0, "MIRROR", 20.0, "TYPE EVENASPH", "PARM 2 1e-9"),
        asphere[-1],
    ]
    scene, _ = quiet(written(zmx(mirror), tmp_path))
    assert scene.component_registry.get("M1").geometry.coefficients == {4: 1e-9}


def test_a_group_of_three_glasses(tmp_path):
    scene, report = quiet(written(zmx(TRIPLE), tmp_path))
    group = scene.component_registry.get("L1")
    assert len(group.surfaces) == 7
    assert report.parts["L1"] == (1, 2, 3, 4)
    with torch.no_grad():
        result = scene.trace(2000, seed=1)
    assert result.total_flux_detected > 0.85


def test_what_does_not_exist_yet_is_reported(tmp_path):
    odd = singlet("TYPE ODDASPHE", "PARM 1 0.01", "PARM 2 1.5e-6")
    with pytest.warns(UserWarning, match=r"surface 1: type ODDASPHE") as caught:
        scene, report = scene_from_zmx(written(zmx(odd), tmp_path))
    assert caught[0].filename == __file__
    (entry,) = report.of("unsupported")
    assert (entry.surface, "2: 1.5e-06" in entry.text) == (1, True)
    assert isinstance(scene.component_registry.get("L1"), nsq.Lens)
    scene, report = quiet(written(zmx(singlet("TYPE EVENASPH", "PARM 2 0.0", "CONI -0.5")), tmp_path))
    assert isinstance(scene.component_registry.get("L1"), nsq.Lens)
    tilt = [*singlet()[:3], (math.inf, 5.0, "", 0.0, "TYPE COORDBRK", "PARM 3 10"), singlet()[3]]
    with pytest.warns(UserWarning, match="COORDBRK"):
        scene_from_zmx(written(zmx(tilt), tmp_path))
    _, report = quiet(written(zmx(singlet("SQAP 3 4", "COAT AR")), tmp_path))
    unknown = [e.text.split(" (")[0] for e in report.of("dropped") if "known" in e.text]
    assert unknown == ["SQAP is not known", "COAT is not known"]


def test_glasses(tmp_path):
    scene, report = quiet(written(zmx(singlet(glass="XYZ-99")), tmp_path))
    assert scene.component_registry.get("L1").config.material.n(0.5) == 1.5
    assert any("'XYZ-99' is not known" in e.text for e in report.of("guessed"))
    path = written(zmx(singlet(glass="XYZ-99")).replace(" 1.5 40.0", " 0 0"), tmp_path)
    with pytest.raises(ValueError, match=r"lens\.zmx, surface 1.*XYZ-99"):
        scene_from_zmx(path)


def test_numbers_that_a_file_lacks(tmp_path):
    bare = singlet(semi=0.0)
    scene, report = quiet(written(zmx(bare, wavelengths=()), tmp_path))
    assert scene.component_registry.get("L1").config.front_aperture_radius == 5.0
    assert sum("semi-diameter" in e.text for e in report.of("guessed")) == 2
    with pytest.raises(ValueError, match=r"lens\.zmx: has no semi-diameter"):
        scene_from_zmx(written(zmx(bare, aperture="FLOA 0"), tmp_path))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_encodings(encoding, tmp_path):
    text = zmx(COOKE).replace("NAME A LENS", "NAME Objektiv für Außen")
    p = read_zmx(written(text, tmp_path, encoding=encoding))
    assert p.name == "Objektiv für Außen"
    assert len(p.surfaces) == 8
    assert p.surfaces[1].curvature == 1.0 / 22.01359
    assert (p.wavelengths, p.primary) == ([0.4861327, 0.5875618, 0.6562725], 1)
    assert (p.fields, p.catalogues, p.aperture) == ([(0.0, 0.0), (0.0, 14.0)], ["SCHOTT"], 10.0)


def test_old_lists_of_wavelengths(tmp_path):
    text = zmx(COOKE, wavelengths=(), more=["WAVL 0.45 0.55 0.65", "WWGT 1 0 2"])
    text = "\n".join(line for line in text.splitlines() if not line.startswith("WAVM"))
    p = read_zmx(written(text, tmp_path))
    assert (p.wavelengths, p.weights) == ([0.45, 0.65], [1.0, 2.0])


TRIPLE = [*singlet()[:2], (30.0, 2.0, "F2", 10.0), (60.0, 2.0, "N-BK7", 10.0), *singlet()[2:]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["0 surfaces"]),
        ("SURF 0\nSURF 1\n", ["2 surfaces"]),
        ("SURF 1\n", ["line 1", "SURF is 1", "takes 0"]),
        ("MODE NSC\n", ["line 1", "NSC", "SEQ"]),
        ("UNIT FURLONG\n", ["line 1", "FURLONG"]),
        ("  CURV 0.1\n", ["line 1", "CURV", "before any SURF"]),
        (zmx(COOKE).replace("CURV 0.04", "CURV x", 1), ["line", "curvature", "'x"]),
        (zmx(COOKE).replace("DISZ 3.25896", "DISZ nan"), ["thickness", "nan"]),
        (zmx(COOKE).replace("DISZ 3.25896", "DISZ"), ["lacks the thickness"]),
        (zmx(COOKE).replace("DISZ 3.25896", "DISZ INFINITY"), ["surface 1", "infinite"]),
        (zmx(COOKE).replace("DISZ 3.25896", "DISZ 0"), ["surface 1", "thickness is 0"]),
        (zmx(COOKE).replace("DISZ 3.25896", "DISZ 0.1"), ["surface 1", "'L1'", "faces"]),
        (zmx(COOKE).replace("DIAM 9.5", "DIAM 90", 1), ["surface 1", "aperture_radius", "90"]),
        (zmx(COOKE).replace("SURF 3", "SURF 1e9"), ["SURF", "1e9"]),
        (zmx(COOKE).replace("WAVM 2 0.5875618", "WAVM 2 587.5"), ["WAVM", "587.5", "µm"]),
        (zmx(singlet("PARM 9999 1")), ["PARM", "9999"]),
        (zmx(TRIPLE).replace("DISZ 2.0", "DISZ 0.1"), ["surface 2", "z_back"]),
        (zmx([*singlet()[:2], (-50.0, -5.0, "MIRROR", 10.0), *singlet()[3:]]), ["surface 1", "mirror on it"]),
        (zmx(singlet()[:2] + singlet()[3:]), ["surface 1", "image"]),
        ("\0\0\0\0", ["byte 0"]),
        ("\n".join(f"WORD{i}" for i in range(300)), ["line 201", "WORD200", "not known"]),
        ("A " * 3_000_000, ["longer than"]),
    ],
)
def test_files_that_are_wrong(text, words, tmp_path):
    path = written(text, tmp_path, "bad.zmx")
    with pytest.raises(ValueError, match=r"bad\.zmx") as caught:
        scene_from_zmx(path)
    for word in words:
        assert word in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        read_zmx(tmp_path / "none.zmx")
    (tmp_path / "odd.zmx").write_bytes(b"\xff\xfeabc")
    with pytest.raises(ValueError, match=r"odd\.zmx: no UTF-16"):
        read_zmx(tmp_path / "odd.zmx")


@pytest.mark.filterwarnings("ignore:.*see the report")
def test_corrupted_files(tmp_path):
    good = zmx(TESSAR, unit="CM").encode()
    rng, path, refused = np.random.default_rng(140), tmp_path / "bad.zmx", 0
    words = [
        b"NaN",
        b"-1e999",
        b"1e9",
        b"INFINITY",
        b"x",
        b"\x00",
        b"\xff\xfe",
        b"",
        b"\nSURF 5\n",
        b"9" * 5000,
        b" -0 ",
    ]
    body = good.index(b"SURF 0")
    for turn in range(500):
        a = int(rng.integers(body, len(good)) if turn % 2 else rng.integers(len(good)))
        b = min(len(good), a + int(rng.integers(1, 20)))
        path.write_bytes(good[:a] if turn % 4 == 0 else good[:a] + words[rng.integers(len(words))] + good[b:])
        try:
            scene, _ = scene_from_zmx(path, num_pixels=4)
        except ValueError as error:
            refused += "bad.zmx" in str(error)
        else:
            scene.validate()
    assert refused > 200
