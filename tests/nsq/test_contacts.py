"""Faces that lie on each other are one interface; a micrometre between them is a gap."""

import math
import warnings

import numpy as np
import pytest
import torch

import nsq
from nsq.lower import lower

from .scenes import GREEN
from .validation.tools import CS, IDEAL, columns, enclose, glass, pencil

CROWN, FLINT = nsq.NSQMaterial.constant(1.5168, 1e-6), nsq.NSQMaterial.constant(1.6727, 2e-6)


def bench(aperture_radius=11.0):
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=aperture_radius)
    scene.add_source("S", nsq.CoordinateSystem(z=-10.0), beam)
    screen = nsq.IrradianceDetectorConfig(width=24.0, height=24.0, num_pixels_x=16, num_pixels_y=16)
    scene.add_detector("D", nsq.CoordinateSystem(z=100.0), screen)
    return scene


def cemented():
    scene = bench()
    config = nsq.DoubletConfig(
        r1=62.8, r2=-45.7, r3=-128.2, thickness1=4.0, thickness2=2.5, material1=CROWN, material2=FLINT,
        aperture_radius=12.0,
    )  # fmt: skip
    scene.add_doublet("DB", nsq.CoordinateSystem(), config)
    return scene


def touching(gap=0.0, flint_first=False, flint_radius=12.0, scene=None):
    scene = scene or bench()
    parts = [
        ("crown", 0.0, nsq.LensConfig(r1=62.8, r2=-45.7, thickness=4.0, material=CROWN, front_aperture_radius=12.0)),
        ("flint", 4.0 + gap, nsq.LensConfig(r1=-45.7, r2=-128.2, thickness=2.5, material=FLINT,
                                            front_aperture_radius=flint_radius)),
    ]  # fmt: skip
    for name, z, config in reversed(parts) if flint_first else parts:
        scene.add_lens(name, nsq.CoordinateSystem(z=z), config)
    return scene


@pytest.mark.parametrize("flint_first", [False, True])
def test_two_lenses_in_contact_are_a_cemented_doublet(flint_first):
    one, two = cemented().trace(20000, seed=1), touching(flint_first=flint_first).trace(20000, seed=1)
    assert torch.equal(two.detectors["D"].data, one.detectors["D"].data)
    assert two.total_flux_absorbed == one.total_flux_absorbed
    assert two.num_rays_escaped == one.num_rays_escaped


def test_a_gap_of_a_micrometre_is_a_gap():
    """Per-surface Fresnel transmittances of the 1 um air gap, for light near the axis, within 4 sigma."""

    def through(n1, n2):
        return 1.0 - ((n1 - n2) / (n1 + n2)) ** 2

    num_rays, chances = 100000, {}
    crown, flint = 1.5168, 1.6727
    ends = through(1.0, crown) * through(flint, 1.0)
    chances[0.0] = ends * through(crown, flint)
    chances[1e-3] = ends * through(crown, 1.0) * through(1.0, flint)
    for gap, chance in chances.items():
        scene = touching(gap, scene=bench(aperture_radius=0.05))
        # four or five surfaces and the detector, no ghosts
        result = scene.trace(num_rays, max_depth=3 + (gap > 0.0) + 1, seed=3)
        direct = result.detectors["D"].num_rays_hit / num_rays
        bulk = math.sqrt(chance * (1.0 - chance) / num_rays)
        assert abs(direct - chance) < 4.0 * bulk


def test_what_only_one_face_covers_stays_as_it_is():
    """The flint is smaller: outside it the crown's back looks into air, a ring of its own."""
    ir = lower(touching(flint_radius=9.0), 100)
    owners = [ir.surface_names[k] for k in ir.geometry.owner[:-1]]
    assert owners == ["crown.front", "crown.back", "crown.back", "crown.edge", "flint.back", "flint.edge"]
    assert ir.geometry.domain[1, 6:8] == pytest.approx([0.0, 81.0])
    assert ir.geometry.domain[2, 6:8] == pytest.approx([81.0, 144.0])
    media = ir.rows[:, 1:3]
    assert media[1].tolist() == [1, 2]
    assert media[2].tolist() == [1, 0]
    result = touching(flint_radius=9.0).trace(20000)
    assert result.flux_conservation_error < 1e-12


def plate(scene, name, z, thickness, glass, **config):
    shape = nsq.LensConfig(
        r1=math.inf, r2=math.inf, thickness=thickness, material=glass, front_aperture_radius=20.0, **config
    )
    scene.add_lens(name, nsq.CoordinateSystem(z=z), shape)


def test_plates_of_one_glass_in_contact_are_one_plate():
    """Nothing reflects where glass meets the same glass, and absorption goes on through it."""
    one, two = bench(3.0), bench(3.0)
    plate(one, "A", 0.0, 5.0, CROWN)
    plate(two, "A", 0.0, 2.0, CROWN)
    plate(two, "B", 2.0, 3.0, CROWN)
    # the contact is an event of its own
    whole, split = one.trace(20000, max_depth=3), two.trace(20000, max_depth=4)
    sigma = math.sqrt(20000 * 0.08 * 0.92)
    assert abs(whole.detectors["D"].num_rays_hit - split.detectors["D"].num_rays_hit) < 6.0 * sigma
    assert two.trace(20000).surfaces["A.back"].num_hits >= split.detectors["D"].num_rays_hit
    per_ray = [r.total_flux_bulk_absorbed / r.num_rays_total for r in (one.trace(20000), two.trace(20000))]
    assert per_ray[0] == pytest.approx(per_ray[1], rel=0.05)


def test_a_mirror_on_the_back_of_a_lens_reflects_inside_the_glass():
    """A Mangin mirror: the light never enters the air behind, and crosses the front twice."""
    scene = nsq.NSQScene()
    scene.add_source(
        "S", nsq.CoordinateSystem(z=-20.0), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=3.0)
    )
    scene.add_lens(
        "L", nsq.CoordinateSystem(),
        nsq.LensConfig(r1=-150.0, r2=-200.0, thickness=4.0, material=CROWN, front_aperture_radius=12.0),
    )  # fmt: skip
    mirror = nsq.MirrorConfig(radius=-200.0, reflectance=1.0, aperture_radius=12.0)
    scene.add_mirror("M", nsq.CoordinateSystem(z=4.0), mirror)
    scene.add_detector("front", nsq.CoordinateSystem(z=-40.0), nsq.IrradianceDetectorConfig(width=80.0, height=80.0))
    result = scene.trace(5000)
    assert result.surfaces["M.surface"].num_hits > 4500
    assert "L.back" not in {name for name, b in result.surfaces.items() if b.num_hits}
    assert result.num_rays_escaped == 0
    assert result.detectors["front"].num_rays_hit == 5000


def test_faces_that_contradict_each_other_are_named():
    scene = bench(3.0)
    glass = nsq.NSQMaterial.constant(1.9)
    flat = nsq.ConicGeometry(0.0, 0.0, 10.0)
    for name, front, back in (("one", CROWN, FLINT), ("other", glass, CROWN)):
        surface = nsq.RefractiveComponent(nsq.CoordinateSystem(z=10.0), flat, front, back, name=name)
        scene.add_component(name, surface)
    scene.detectors[0].cs.z = 60.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # glass | crown | flint has the crown of no thickness between them: no contradiction
        lower(scene, 10)
    scene.component_registry.get("other").material_back = nsq.NSQMaterial.constant(1.3)
    with pytest.warns(UserWarning, match=r"'one' and 'other' lie on each other"):
        result = scene.trace(1000)
    assert result.surfaces["one"].num_hits > 0
    assert result.surfaces["other"].num_hits == 0


def test_many_contacts_lower_quickly_and_all_merge():
    scene = bench(1.0)
    for k in range(40):
        plate(scene, f"P{k}", float(k), 1.0, nsq.NSQMaterial.constant(1.3 + 0.01 * k))
    ir = lower(scene, 10)
    refracting = ir.rows[:, 0] == 0
    # 80 faces, of which 39 pairs are one
    assert int(refracting.sum()) == 80 - 39
    inner = ir.rows[refracting][1:-1, 1:3]
    assert np.array_equal(np.sort(inner, axis=1)[:, 1] - np.sort(inner, axis=1)[:, 0], np.ones(39))


@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-10, 1e-9, 1e-6])
def test_coated_plates_in_contact_pass_light_on(gap):
    """The ideal coating of one of the two faces counts, between glass and glass."""
    angle = np.radians(50.0)
    direction = np.array([np.sin(angle), 0.0, np.cos(angle)])
    face = nsq.SurfaceConfig(coating=IDEAL)
    scene = nsq.NSQScene()
    pencil(scene, "S", -5.0 * direction, direction)
    for name, z in (("P1", 0.0), ("P2", 5.0 + gap)):
        scene.add_lens(name, CS(z=z), nsq.LensConfig(np.inf, np.inf, 5.0, glass(1.5), 30.0, front=face, back=face))
    enclose(scene, "D", 100.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*neither only refracts")
        result = scene.trace(4)
    _, out, flux, _ = columns(result.detectors["D"])
    assert flux.sum() == pytest.approx(1.0, rel=1e-12)
    assert out == pytest.approx(np.tile(direction, (4, 1)), abs=1e-12)
