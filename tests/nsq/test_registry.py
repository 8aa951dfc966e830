"""Scenes hold things by name, in order."""

import pytest

import nsq

CS = nsq.CoordinateSystem
BEAM = nsq.CollimatedSourceConfig(nsq.Spectrum.monochromatic(0.55))
SCREEN = nsq.IrradianceDetectorConfig(10.0, 10.0)
LENS = nsq.LensConfig(50.0, -50.0, 5.0, nsq.NSQMaterial.constant(1.5), 10.0)
MIRROR = nsq.MirrorConfig(-100.0, 0.9)


@pytest.fixture
def scene():
    made = nsq.NSQScene()
    made.add_source("beam", CS(), BEAM)
    made.add_lens("L", CS(z=20.0), LENS)
    made.add_component("stop", nsq.AbsorbingComponent(CS(z=30.0), nsq.AnnularPlaneGeometry(5.0, 20.0)))
    made.add_mirror("M", CS(z=60.0), MIRROR)
    made.add_detector("D", CS(z=50.0), SCREEN)
    made.add_detector("R", CS(z=-5.0), nsq.RayDatabaseConfig(4.0, 6.0, max_rays=10, absorb=False))
    return made


def test_lists_in_the_order_of_registration(scene):
    assert scene.component_names == ["L", "stop", "M"]
    assert scene.source_names == ["beam"]
    assert scene.detector_names == ["D", "R"]
    assert [s.name for s in scene.surfaces] == ["L.front", "L.back", "L.edge", "stop", "M.surface"]
    assert [type(s).__name__ for s in scene.sources] == ["CollimatedSource"]
    assert [d.name for d in scene.detectors] == ["D", "R"]
    assert [c.name for c in scene.component_registry.compounds] == ["L", "M"]
    assert scene.component_registry.surfaces == scene.surfaces
    assert scene.source_registry.sources == scene.sources
    assert scene.detector_registry.detectors == scene.detectors
    assert repr(scene) == "NSQScene(sources=['beam'], components=['L', 'stop', 'M'], detectors=['D', 'R'])"
    scene.validate()


def test_registries_answer_by_name(scene):
    registry = scene.component_registry
    assert "L" in registry
    assert "l" not in registry
    assert list(registry) == ["L", "stop", "M"]
    assert len(registry) == 3
    assert registry.get("M").config is MIRROR
    registry.remove("L")
    assert scene.component_names == ["stop", "M"]


def test_removing(scene):
    scene.remove_component("L")
    scene.remove_component("stop")
    scene.remove_detector("D")
    scene.remove_source("beam")
    assert [s.name for s in scene.surfaces] == ["M.surface"]
    assert scene.detector_names == ["R"]
    scene.add_source("beam", CS(), BEAM)  # the name is free again


@pytest.mark.parametrize(
    "add",
    [
        lambda scene, name: scene.add_source(name, CS(), BEAM),
        lambda scene, name: scene.add_detector(name, CS(), SCREEN),
        lambda scene, name: scene.add_lens(name, CS(), LENS),
        lambda scene, name: scene.add_mirror(name, CS(), MIRROR),
        lambda scene, name: scene.add_component(name, nsq.AbsorbingComponent(CS(), nsq.PlaneGeometry())),
    ],
)
def test_names_are_taken_once_and_are_texts(scene, add):
    add(scene, "new")
    with pytest.raises(KeyError, match=r"^name got 'new', which another \w+ has; it takes a new name$"):
        add(scene, "new")
    with pytest.raises(ValueError, match="'new'"):  # a KeyError for those who look names up, a ValueError for others
        add(scene, "new")
    for name in ("", "  "):
        with pytest.raises(ValueError, match=r"^name got ' *'; it takes a non-empty str"):
            add(scene, name)
    for name in (None, 3, ["x"]):
        with pytest.raises(TypeError, match=r"^name got .*; it takes a non-empty str"):
            add(scene, name)


@pytest.mark.parametrize("method", ["remove_source", "remove_detector", "remove_component"])
def test_unknown_names_are_key_errors(scene, method):
    with pytest.raises(KeyError, match="'nothing'.*it takes one of"):
        getattr(scene, method)("nothing")


def test_unknown_names_come_with_the_nearest_one(scene):
    with pytest.raises(KeyError, match=r"which no component has; .* Did you mean 'stop'\?"):
        scene.component_registry.get("Stop")
    with pytest.raises(KeyError, match="which no source has"):
        scene.source_registry.get(3)


def test_only_things_of_a_kind(scene):
    with pytest.raises(TypeError, match="component 'X' got PlaneGeometry; it takes a SurfaceComponent or CompoundComp"):
        scene.add_component("X", nsq.PlaneGeometry())
    with pytest.raises(TypeError, match="config got LensConfig; a source takes one of PointSourceConfig"):
        scene.add_source("X", CS(), LENS)
    with pytest.raises(TypeError, match="config got CollimatedSourceConfig; a detector takes one of Irradiance"):
        scene.add_detector("X", CS(), BEAM)
    with pytest.raises(TypeError, match="config of 'X' got MirrorConfig; it takes a LensConfig"):
        scene.add_lens("X", CS(), MIRROR)
    with pytest.raises(TypeError, match="config of 'X' got LensConfig; it takes a DoubletConfig"):
        scene.add_doublet("X", CS(), LENS)
    with pytest.raises(TypeError, match="cs of 'X' got tuple; it takes a CoordinateSystem"):
        scene.add_lens("X", (0, 0, 0), LENS)
    with pytest.raises(TypeError, match="cs got NoneType; it takes a CoordinateSystem"):
        scene.add_source("X", None, BEAM)


def test_a_component_keeps_a_name_of_its_own(scene):
    scene.add_component("baffle", nsq.AbsorbingComponent(CS(), nsq.PlaneGeometry(), name="black foil"))
    assert scene.surfaces[-1].name == "black foil"


def test_configs_arrive_whole():
    scene = nsq.NSQScene()
    spectrum = nsq.Spectrum([0.5, 0.6], [1, 2])
    medium = nsq.NSQMaterial.constant(1.33)
    scene.add_source("P", CS(), nsq.PointSourceConfig(spectrum, 2.0, half_angle_deg=6.0, medium=medium))
    gaussian = nsq.CollimatedSourceConfig(spectrum, 3.0, aperture_radius=8.0, profile="gaussian", gaussian_sigma=3.0)
    scene.add_source("G", CS(), gaussian)
    scene.add_source("E", CS(), nsq.ExtendedSourceConfig(spectrum, 4.0, width=2.0, height=3.0, half_angle_deg=20.0))
    scene.add_source("K", CS(), nsq.ExtendedSourceConfig(spectrum, aperture_radius=2.5, medium="N-BK7"))
    point, beam, panel, disk = scene.sources
    assert (point.spectrum, point.total_flux, point.half_angle_deg, point.medium) == (spectrum, 2.0, 6.0, medium)
    assert (beam.total_flux, beam.aperture_radius, beam.profile, beam.gaussian_sigma) == (3.0, 8.0, "gaussian", 3.0)
    assert (panel.width, panel.height, panel.aperture_radius, panel.half_angle_deg) == (2.0, 3.0, None, 20.0)
    assert (disk.aperture_radius, disk.half_angle_deg, disk.medium.name) == (2.5, 90.0, "N-BK7")
    assert [s.name for s in scene.sources] == ["P", "G", "E", "K"]

    scene.add_detector("D", CS(), nsq.IrradianceDetectorConfig(24.0, 16.0, 12, 8, "gaussian", 0.7, absorb=False))
    scene.add_detector("R", CS(), nsq.RayDatabaseConfig(4.0, 6.0, max_rays=10))
    screen, table = scene.detectors
    assert (screen.width, screen.height, screen.num_pixels_x, screen.num_pixels_y) == (24.0, 16.0, 12, 8)
    assert (screen.splat, screen.splat_sigma, screen.absorb) == ("gaussian", 0.7, False)
    assert screen.geometry.numbers()[:2] == (24.0, 16.0)
    assert (table.max_rays, table.store_rays, table.absorb) == (10, True, True)
    assert table.geometry.numbers()[:2] == (4.0, 6.0)


def test_a_collimated_source_of_its_own_is_wider_than_its_config():
    assert nsq.CollimatedSource(CS(), nsq.Spectrum.monochromatic(0.55)).aperture_radius == 5.0
    assert BEAM.aperture_radius == 1.0
