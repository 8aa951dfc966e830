"""What a result says about itself: thresholds, texts and numbers of the diagnostics."""

import math
import re

import pytest

import nsq

from .scenes import GREEN, singlet


def test_no_finding_no_warning():
    clean = nsq.Diagnostics()
    assert clean.warnings() == []
    assert clean.report().splitlines()[-1] == "No warnings."
    assert "  - " not in clean.report()


FEW = nsq.DetectorDiagnostic("film", 50, 100, 0.5, True, 1234, 0.25)
MANY = nsq.DetectorDiagnostic("sink", 5000, 100, 50.0, False, 8000, 0.25)
RAYS = nsq.DetectorDiagnostic("rays", 5, None, None, False, None, 0.25)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"depth_truncated_flux_fraction": 1.1e-3}, ["max_depth", "0.11%"]),
        ({"depth_truncated_flux_fraction": 0.9e-3}, None),
        ({"rr_killed_flux_fraction": 1.1e-3}, ["roulette", "rr_start_flux"]),
        ({"rr_killed_flux_fraction": 0.9e-3}, None),
        ({"flux_conservation_error": 0.051}, ["flux_conservation_error", "5.10%"]),
        ({"flux_conservation_error": 0.049}, None),
        ({"unreached_geometry": ("L.edge", "component_3")}, ["L.edge", "component_3"]),
        ({"detectors": (MANY, FEW, RAYS)}, ["film", "undersampled", "1,234"]),
        ({"medium_stack_underflows": 3}, ["underflow", "3"]),
        ({"split_budget_saturated": True}, ["split_budget"]),
        ({"medium_mismatches": ("L.front: 7 rays came through n = 1.5",)}, ["L.front", "medium mismatch"]),
        ({"coating_loss_flux_fraction": 0.5}, None),
    ],
)
def test_each_finding_is_one_entry_past_its_threshold(fields, words):
    found = nsq.Diagnostics(**fields)
    report = found.report()
    if words is None:
        assert found.warnings() == []
        assert report.endswith("No warnings.")
        return
    (entry,) = found.warnings()
    assert all(word in entry for word in words), entry
    assert report.splitlines()[-2:] == ["Warnings:", f"  - {entry}"]
    assert report.count("  - ") == 1


def test_all_findings_together():
    found = nsq.Diagnostics(0.5, 0.5, 0.5, ("A",), (FEW,), 1, True)
    assert len(found.warnings()) == 7
    assert found.report().count("  - ") == 7


def test_a_well_sampled_trace_of_a_good_scene_has_no_warnings():
    scene = singlet()
    scene.add_source("lamp", nsq.CoordinateSystem(z=52.0), nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=180.0))
    # inside the glass and emitting everywhere, so that the edge is met as well
    scene.source_registry.get("lamp").medium = nsq.NSQMaterial.constant(1.5187)
    result = scene.trace(60_000, max_depth=64, seed=1)
    assert result.diagnostics.warnings() == []
    assert result.report().endswith("No warnings.")
    assert "diagnostic warning" not in repr(result)
    assert result.report() == result.diagnostics.report()


def test_unreached_parts_and_undersampling_are_named_with_the_cure():
    scene = singlet()
    far = nsq.CoordinateSystem(x=500.0)
    scene.add_component("a", nsq.AbsorbingComponent(far, nsq.FinitePlaneGeometry()))
    scene.surfaces[-1].name = ""
    scene.add_component("b", nsq.AbsorbingComponent(far, nsq.FinitePlaneGeometry(), name="baffle"))
    scene.add_detector("rays", nsq.CoordinateSystem(z=-20.0), nsq.RayDatabaseConfig(width=1.0, height=1.0))
    dark = nsq.IrradianceDetectorConfig(width=1.0, height=1.0, num_pixels_x=4, num_pixels_y=4)
    scene.add_detector("dark", nsq.CoordinateSystem(x=700.0), dark)
    result = scene.trace(1000, seed=1)
    found = result.diagnostics
    # a collimated beam meets no edge; surfaces without a name are called after their place
    assert found.unreached_geometry == ("L.edge", "component_3", "baffle")
    film, rays, nothing = found.detectors
    hits = result.detectors["D"].num_rays_hit
    assert (film.name, film.num_rays_hit, film.num_pixels) == ("D", hits, 256)
    assert film.mean_hits_per_pixel == hits / 256
    assert film.undersampled
    assert film.rays_needed_for_5pct == int(1000 * 400 * 256 / hits)
    assert (rays.num_pixels, rays.mean_hits_per_pixel, rays.undersampled, rays.rays_needed_for_5pct) == (
        None, None, False, None,
    )  # fmt: skip
    assert (nothing.mean_hits_per_pixel, nothing.undersampled, nothing.rays_needed_for_5pct) == (0.0, True, None)
    texts = found.warnings()
    assert sum("component_3" in text and "baffle" in text and "L.edge" in text for text in texts) == 1
    assert [text for text in texts if "'D'" in text and "undersampled" in text]
    assert re.search(r", 3 diagnostic warnings\)$", repr(result))
    assert "\n" not in repr(result)


def test_the_cure_for_undersampling_cures_it():
    """As many rays as it says bring a pixel of the lit part to the mean that 5 % takes, within 3 sigma."""
    scene = singlet()
    scene.detectors[0].num_pixels_x = scene.detectors[0].num_pixels_y = 2
    needed = scene.trace(500, seed=1).diagnostics.detectors[0].rays_needed_for_5pct
    assert scene.trace(needed, seed=2).diagnostics.detectors[0].mean_hits_per_pixel == pytest.approx(400, abs=3 * 10)


def test_far_field_and_spectral_detectors_count_their_directions_and_pixels():
    scene = singlet()
    scene.add_detector("far", nsq.CoordinateSystem(), nsq.FarFieldDetectorConfig(num_theta=9, num_phi=10))
    spectral = nsq.SpectralDetectorConfig(width=20.0, height=20.0, num_pixels_x=4, num_pixels_y=3, num_bins=7)
    scene.add_detector("spectral", nsq.CoordinateSystem(z=160.0), spectral)
    pixels = [d.num_pixels for d in scene.trace(1000).diagnostics.detectors]
    assert pixels == [256, 90, 12]


def test_depth_roulette_and_splitting_are_told():
    scene = singlet()
    cut = scene.trace(20_000, max_depth=2, seed=1)
    assert cut.diagnostics.depth_truncated_flux_fraction == pytest.approx(cut.total_flux_lost, abs=1e-12)
    assert any("max_depth" in text for text in cut.diagnostics.warnings())
    # a mirror so dark that nearly all rays play
    dark = nsq.NSQScene()
    dark.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=GREEN))
    dark.add_mirror("M", nsq.CoordinateSystem(z=10.0), nsq.MirrorConfig(radius=math.inf, reflectance=0.2))
    dark.add_detector("D", nsq.CoordinateSystem(z=-10.0), nsq.IrradianceDetectorConfig(width=9.0, height=9.0))
    result = dark.trace(20_000, min_flux_fraction=0.5, seed=1)
    # 0.2 < 0.5: a ray survives with 0.4, and the others' flux is what roulette ended; 4 sigma of the binomial
    ended = 0.2 * 0.6
    assert result.diagnostics.rr_killed_flux_fraction == pytest.approx(ended, abs=0.2 * 4 * math.sqrt(0.24 / 20_000))
    assert any("roulette" in text for text in result.diagnostics.warnings())
    assert result.diagnostics.coating_loss_flux_fraction == pytest.approx(0.8, abs=1e-9)
    assert "lost in coatings 80.0000%" in result.report()
    # the survivors carry it on
    assert abs(result.total_flux_lost) < 0.01
    scene.sampling_policy = nsq.SamplingPolicy(split_depth=3, split_budget=1.05)
    assert scene.trace(2000).diagnostics.split_budget_saturated


def test_a_turned_face_underflows_and_is_told():
    scene = nsq.NSQScene()
    scene.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=GREEN))
    plane = nsq.PlaneGeometry()
    glass = nsq.NSQMaterial.constant(1.5)
    face = nsq.RefractiveComponent(nsq.CoordinateSystem(z=5.0), plane, glass, nsq.VACUUM, name="turned")
    scene.add_component("turned", face)
    scene.add_detector("D", nsq.CoordinateSystem(z=10.0), nsq.IrradianceDetectorConfig(width=9.0, height=9.0))
    with pytest.warns(UserWarning, match="turned"):
        result = scene.trace(1000, seed=1)
    assert result.diagnostics.medium_stack_underflows == result.medium_stack_underflows > 900
    texts = result.diagnostics.warnings()
    assert any("underflow" in text for text in texts)
    assert any("turned" in text and "medium mismatch" in text for text in texts)


def test_a_face_that_another_one_lies_on_counts_as_reached():
    """Two lenses in contact: the second's front is part of one interface, and its ring outside is not alone."""
    glass = nsq.NSQMaterial.constant(1.5)
    scene = nsq.NSQScene()
    scene.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=3.0))
    for name, z, aperture in (("A", 10.0, 8.0), ("B", 14.0, 12.0)):
        plate = nsq.LensConfig(r1=math.inf, r2=math.inf, thickness=4.0, material=glass, front_aperture_radius=aperture)
        scene.add_lens(name, nsq.CoordinateSystem(z=z), plate)
    scene.add_detector("D", nsq.CoordinateSystem(z=30.0), nsq.IrradianceDetectorConfig(width=9.0, height=9.0))
    result = scene.trace(2000, seed=1)
    assert result.diagnostics.unreached_geometry == ("A.edge", "B.edge")
    assert result.surfaces["B.front"].num_hits == 0
    assert result.surfaces["B.front"].num_shared_hits == result.surfaces["A.back"].num_hits > 1000


def test_the_surface_table_has_every_watt():
    result = singlet(k=1e-6).trace(5000, seed=1)
    text = result.report()
    row = next(line for line in text.splitlines() if line.startswith("L.front")).split()
    books = result.surfaces["L.front"]
    assert float(row[1]) == pytest.approx(books.incident_flux, rel=1e-5)
    assert int(row[-1]) == books.num_hits
    assert "L.edge" not in text.split("Warnings:")[0]
