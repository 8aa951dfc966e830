"""Solids in solids: what a face says of its two sides counts, and light that comes through another medium is named."""

import warnings

import numpy as np
import pytest

import nsq
from nsq.bsdfs import LambertianBSDF

from .scenes import GREEN
from .validation.tools import CS, IDEAL, columns, enclose, extinction, glass, near, pencil, snell

BLOCK, CROWN = glass(1.4, extinction(0.01)), glass(1.7, extinction(0.03))


def immersed(ambient, spectrum=GREEN):
    """A ball lens of crown glass in the middle of a thick plate, its surroundings as ``ambient`` says."""
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 1.5, -20.0), (0.0, 0.0, 1.0), spectrum=spectrum)
    plate = nsq.LensConfig(np.inf, np.inf, 20.0, BLOCK, 30.0, front=nsq.SurfaceConfig(coating=IDEAL),
                           back=nsq.SurfaceConfig(coating=IDEAL))  # fmt: skip
    scene.add_lens("plate", CS(z=-10.0), plate)
    ball = nsq.RefractiveComponent(CS(), nsq.SphereGeometry(5.0), ambient, CROWN, name="ball", coating=IDEAL)
    scene.add_component("ball", ball)
    enclose(scene, "D", 100.0)
    return scene


def quiet(scene, rays=100, **options):
    """A trace that must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return scene.trace(rays, **options)


def test_a_lens_in_a_block_whose_ambient_is_the_block():
    """By Snell at the ball's two faces and the plate's back, and Beer-Lambert through both glasses."""
    result = quiet(immersed(BLOCK))
    direction, point, lengths = np.array([[0.0, 0.0, 1.0]]), np.array([0.0, 1.5, -np.sqrt(25.0 - 1.5**2)]), {}
    lengths[BLOCK] = 10.0 + point[2]
    direction = snell(direction, -point / 5.0, 1.4 / 1.7)
    lengths[CROWN] = -2.0 * float(direction[0] @ point)
    point = point + lengths[CROWN] * direction[0]
    direction = snell(direction, point / 5.0, 1.7 / 1.4)
    lengths[BLOCK] += (10.0 - point[2]) / direction[0, 2]
    direction = snell(direction, np.array([0.0, 0.0, 1.0]), 1.4)
    _, out, flux, _ = columns(result.detectors["D"])
    assert out == pytest.approx(np.tile(direction, (100, 1)), abs=1e-12)
    expected = np.exp(-0.01 * lengths[BLOCK] - 0.03 * lengths[CROWN])
    assert flux.sum() == pytest.approx(expected, rel=1e-12)
    assert result.medium_mismatches() == []
    assert result.medium_stack_underflows == 0


def test_a_lens_in_a_block_that_says_it_stands_in_vacuum_is_named():
    with pytest.warns(UserWarning, match="ball: 100 rays .* came through n = 1.4, where the surface has vacuum"):
        result = immersed(nsq.VACUUM).trace(100, max_depth=3)
    ball = result.surfaces["ball"]
    # in: through the block instead of vacuum; out: through the ball, as it says
    assert (ball.num_hits, ball.num_medium_mismatches) == (200, 100)
    assert ball.mismatched_media == ("n = 1.4", "vacuum")
    ahead = np.exp(-0.01 * (10.0 - np.sqrt(25.0 - 1.5**2)))
    assert ball.medium_mismatch_flux == pytest.approx(ahead, rel=1e-12)
    assert result.surfaces["plate.front"].num_medium_mismatches == 0
    # on to the plate's back: out of the ball into what it says, but the plate has glass there
    with pytest.warns(UserWarning, match="plate.back: 100 rays .* came through vacuum, where the surface has n = 1.4"):
        result = immersed(nsq.VACUUM).trace(100)
    assert result.medium_stack_underflows == 100
    assert result.flux_conservation_error < 1e-12


def test_solids_that_overlap_are_named_with_their_media():
    """Two thick plates that share 2 mm: light leaves the first one inside the second."""
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -5.0), (0.0, 0.0, 1.0))
    face = nsq.SurfaceConfig(coating=IDEAL)
    for name, z, medium in (("one", 0.0, BLOCK), ("other", 8.0, CROWN)):
        scene.add_lens(name, CS(z=z), nsq.LensConfig(np.inf, np.inf, 10.0, medium, 20.0, front=face, back=face))
    enclose(scene, "D", 100.0)
    with pytest.warns(UserWarning, match="through another medium") as caught:
        result = scene.trace(50)
    (message,) = [str(w.message) for w in caught]
    assert "other.front: 50 rays" in message
    assert "one.back: 50 rays" in message
    assert "other.back" in message
    assert "one.front" not in message
    assert result.surfaces["other.front"].mismatched_media == ("n = 1.4", "vacuum")
    assert result.surfaces["one.back"].mismatched_media == ("n = 1.7", "n = 1.4")
    # vacuum from the first one's back on, although the light is still inside the second one
    assert result.surfaces["other.back"].mismatched_media == ("vacuum", "n = 1.7")
    assert result.medium_stack_underflows == 50


def test_a_source_in_a_solid_starts_in_what_it_says():
    for medium, strays in ((None, 40), (BLOCK, 0)):
        scene = nsq.NSQScene()
        pencil(scene, "S", (0.0, 0.0, 2.0), (0.0, 0.0, 1.0), medium=medium)
        scene.add_lens("L", CS(), nsq.LensConfig(np.inf, np.inf, 5.0, BLOCK, 9.0))
        enclose(scene, "D", 100.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = scene.trace(40, max_depth=2)
        assert len(caught) == (1 if strays else 0)
        assert result.surfaces["L.back"].num_medium_mismatches == strays
        assert (result.medium_stack_underflows > 0) == bool(strays)


def test_media_that_light_cannot_tell_apart_do_not_mismatch():
    """Two objects of one index; a lamp in air of index 1 and lenses in vacuum."""
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -5.0), (0.0, 0.0, 1.0), medium=glass(1.0))
    scene.add_lens("plate", CS(), nsq.LensConfig(np.inf, np.inf, 20.0, glass(1.4), 30.0))
    scene.add_lens("in it", CS(z=5.0), nsq.LensConfig(20.0, -20.0, 6.0, CROWN, 5.0, ambient=glass(1.4)))
    enclose(scene, "D", 100.0)
    assert quiet(scene).medium_mismatches() == []


def test_several_media_at_one_surface_are_not_named_as_one():
    scene = nsq.NSQScene()
    for name, y, medium in (("a", 0.0, BLOCK), ("b", 2.0, CROWN)):
        pencil(scene, name, (0.0, y, -5.0), (0.0, 0.0, 1.0), medium=medium)
    scene.add_lens("L", CS(), nsq.LensConfig(np.inf, np.inf, 5.0, glass(1.5), 9.0))
    enclose(scene, "D", 100.0)
    with pytest.warns(UserWarning, match="L.front: 40 rays .* came through other media"):
        result = scene.trace(40, max_depth=1)
    assert result.surfaces["L.front"].mismatched_media is None
    assert result.surfaces["L.front"].medium_mismatch_flux == pytest.approx(np.exp(-0.05) + np.exp(-0.15))


# ---- the stack of media: going in pushes, vacuum clears, leaving for vacuum with nothing on it is an underflow ------


def from_glass_side(coating=None, **policy):
    """A plane between glass before it and vacuum behind it, which light from vacuum reaches from the glass side."""
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -5.0), (0.0, 0.0, 1.0))
    surface = nsq.RefractiveComponent(CS(), nsq.PlaneGeometry(), glass(1.5), nsq.VACUUM, name="P", coating=coating)
    scene.add_component("P", surface)
    enclose(scene, "D", 100.0)
    scene.sampling_policy = nsq.SamplingPolicy(**policy)
    return scene


def test_a_plane_from_its_glass_side_underflows_for_every_ray_that_passes():
    with pytest.warns(UserWarning, match="came through vacuum, where the surface has n = 1.5"):
        result = from_glass_side().trace(5000)
    assert result.surfaces["P"].num_medium_mismatches == 5000
    passed = int((columns(result.detectors["D"])[1][:, 2] > 0.0).sum())
    assert result.medium_stack_underflows == passed
    near(passed / 5000, 0.96, 5000)


def test_reflections_do_not_touch_the_stack():
    """A mirror on the vacuum side sends light back and forth: each passage out is an underflow, each one in a push."""
    scene = from_glass_side(IDEAL)
    scene.add_mirror("M", CS(z=10.0), nsq.MirrorConfig(np.inf, 1.0))
    scene.add_mirror("N", CS(z=-10.0), nsq.MirrorConfig(np.inf, 1.0))
    with pytest.warns(UserWarning, match="through another medium"):
        # out (nothing to leave), M, in (pushes), N, out (clears), M, in, N, out
        result = scene.trace(10, max_depth=9)
    assert result.surfaces["P"].num_hits == 50
    assert result.medium_stack_underflows == 10
    # only the first passage came through a medium that it should not have
    assert result.surfaces["P"].num_medium_mismatches == 10


def test_split_rays_keep_their_stacks():
    with pytest.warns(UserWarning, match="through another medium"):
        result = from_glass_side(split_depth=2).trace(1000)
    # both parts go on; the transmitted one leaves with an empty stack
    assert result.medium_stack_underflows == 1000
    assert result.surfaces["P"].num_medium_mismatches == 1000


@pytest.mark.parametrize("behind", [0.0, 1.0])
def test_a_lobe_behind_a_surface_is_a_passage(behind):
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -5.0), (0.0, 0.0, 1.0))
    surface = nsq.RefractiveComponent(
        CS(), nsq.PlaneGeometry(), glass(1.5), nsq.VACUUM, name="P", bsdf=LambertianBSDF(1.0, behind)
    )
    scene.add_component("P", surface)
    enclose(scene, "D", 100.0)
    with pytest.warns(UserWarning, match="through another medium"):
        result = scene.trace(1000)
    assert result.surfaces["P"].num_medium_mismatches == 1000
    # one ray in a million is not scattered
    assert abs(result.medium_stack_underflows - 1000 * behind) <= 2


@pytest.mark.parametrize("split_depth", [0, 2])
def test_lenses_and_doublets_never_underflow(split_depth):
    scene = nsq.NSQScene()
    scene.add_source("S", CS(z=-10.0), nsq.ExtendedSourceConfig(spectrum=GREEN, aperture_radius=5.0, half_angle_deg=25))
    scene.add_lens("L", CS(), nsq.LensConfig(40.0, -40.0, 6.0, "N-BK7", 10.0, back_aperture_radius=8.0))
    doublet = nsq.DoubletConfig(60.0, -45.0, -130.0, 6.0, 2.5, "N-BK7", "N-SF5", 10.0)
    scene.add_doublet("DB", CS(z=12.0), doublet)
    scene.add_component("ball", nsq.RefractiveComponent(CS(z=30.0), nsq.SphereGeometry(5.0), nsq.VACUUM, CROWN))
    scene.add_detector("D", CS(z=60.0), nsq.IrradianceDetectorConfig(60.0, 60.0, 8, 8))
    scene.sampling_policy = nsq.SamplingPolicy(split_depth=split_depth)
    result = quiet(scene, 20000)
    assert result.medium_stack_underflows == 0
    assert all(books.num_medium_mismatches == 0 for books in result.surfaces.values())


def test_a_warning_names_the_five_surfaces_with_most_flux():
    scene = nsq.NSQScene()
    for i in range(8):
        pencil(scene, f"S{i}", (3.0 * i, 0.0, -5.0), (0.0, 0.0, 1.0), medium=BLOCK, total_flux=1.0 + i)
        face = nsq.RefractiveComponent(
            CS(x=3.0 * i), nsq.FinitePlaneGeometry(2.0, 2.0), nsq.VACUUM, CROWN, name=f"face {i}", coating=IDEAL
        )
        scene.add_component(f"face {i}", face)
    enclose(scene, "D", 100.0)
    with pytest.warns(UserWarning, match="face 7: .*; face 3: .*; and 3 surfaces more") as caught:
        result = scene.trace(80)
    assert "face 2" not in str(caught[0].message)
    assert len(result.medium_mismatches()) == 8


def test_one_ray_in_many_is_counted_without_a_warning():
    scene = nsq.NSQScene()
    pencil(scene, "bright", (0.0, 0.0, -5.0), (0.0, 0.0, 1.0), total_flux=1.0)
    pencil(scene, "faint", (1.0, 0.0, -5.0), (0.0, 0.0, 1.0), medium=BLOCK, total_flux=5e-5)
    scene.add_lens("L", CS(), nsq.LensConfig(np.inf, np.inf, 5.0, CROWN, 9.0))
    enclose(scene, "D", 100.0)
    assert len(quiet(scene, 10, max_depth=1).medium_mismatches()) == 1


def test_counts_do_not_depend_on_batches_or_threads():
    found = []
    for threads, batch in ((1, 4096), (2, 16384)):
        before = nsq.get_num_threads()
        nsq.set_num_threads(threads)
        try:
            with pytest.warns(UserWarning, match="through another medium"):
                result = immersed(nsq.VACUUM).trace(20000, batch_size=batch)
        finally:
            nsq.set_num_threads(before)
        found.append((result.surfaces, result.medium_stack_underflows))
    assert found[0] == found[1]
