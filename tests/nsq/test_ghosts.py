"""The ghost table: against brute force over all two-bounce sequences, and what its rows mean."""

import csv
import itertools
import math

import numpy as np
import pytest

import nsq

from . import sequential_ghosts as brute
from .scenes import GREEN, singlet

RADII = (-120.0, 108.0, 41.0, 139.0, -175.0, -131.0)
VERTICES = np.cumsum([0.0, 4.0, 7.0, 5.0, 5.0, 7.0])
INDICES = (1.52, 1.86, 1.79)
APERTURE, BEAM, HALF_WIDTH = 9.0, 5.0, 12.0
SCREEN = VERTICES[-1] + 30.0
FACES = [f"L{k}.{face}" for k in (1, 2, 3) for face in ("front", "back")]


def three_lenses(policy):
    scene = nsq.NSQScene()
    scene.sampling_policy = policy
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=BEAM)
    scene.add_source("sun", nsq.CoordinateSystem(z=-50.0), beam)
    for k, n in enumerate(INDICES):
        lens = nsq.LensConfig(
            r1=RADII[2 * k],
            r2=RADII[2 * k + 1],
            thickness=float(VERTICES[2 * k + 1] - VERTICES[2 * k]),
            material=nsq.NSQMaterial.constant(n),
            front_aperture_radius=APERTURE,
        )
        scene.add_lens(f"L{k + 1}", nsq.CoordinateSystem(z=float(VERTICES[2 * k])), lens)
    film = nsq.IrradianceDetectorConfig(width=2 * HALF_WIDTH, height=2 * HALF_WIDTH, num_pixels_x=8, num_pixels_y=8)
    scene.add_detector("film", nsq.CoordinateSystem(z=float(SCREEN)), film)
    return scene


def signature(sequence):
    steps = [f"{FACES[surface]}:{'reflect' if reflects else 'refract'}" for surface, reflects in sequence]
    return " > ".join(["sun", *steps, "film:detect"])


def expected():
    """{signature: flux} of all two-bounce ghosts, and of the direct light."""
    heights = BEAM * np.sqrt((np.arange(4000) + 0.5) / 4000)
    media = (1.0, INDICES[0], 1.0, INDICES[1], 1.0, INDICES[2], 1.0)
    place = (VERTICES, RADII, (APERTURE,) * 6, media, heights, SCREEN, HALF_WIDTH)
    ghosts = {signature(s): brute.along(s, *place) for s in brute.two_bounces(6).values()}
    return ghosts, brute.along([(k, False) for k in range(6)], *place)


@pytest.fixture(scope="module")
def brute_force():
    return expected()


@pytest.mark.parametrize(("reflect_prob", "num_rays"), [("fresnel", 300_000), (0.2, 400_000)])
def test_ghosts_of_three_lenses_agree_with_brute_force(brute_force, reflect_prob, num_rays):
    """Each of the 15 fluxes within 3 sigma, in the order of brute force wherever that is 3 sigma clear."""
    ghosts, direct = brute_force
    policy = nsq.SamplingPolicy(reflect_prob=reflect_prob, rr_start_flux=0.0)
    result = three_lenses(policy).trace(num_rays, max_depth=18, min_flux_fraction=0.0, seed=5)
    table = result.ghosts("film")
    found = {group.signature: group for group in table}
    assert set(ghosts) <= set(found)
    for path, flux in ghosts.items():
        assert abs(found[path].flux - flux) < 3.0 * found[path].standard_error, path
        assert found[path].standard_error < 0.1 * flux
        assert found[path].order == 2
    ranked = [group for group in table if group.signature in ghosts]
    for one, other in itertools.pairwise(ranked):
        clear = 3.0 * math.hypot(one.standard_error, other.standard_error)
        assert ghosts[other.signature] < ghosts[one.signature] + clear
    # all other ghosts are far fainter: more bounces, and rays that miss a face on their way
    assert max(g.flux for g in table if g.signature not in ghosts) < 0.2 * min(ghosts.values())
    straight = result.paths().to("film")[0]
    assert abs(straight.flux - direct) < 3.0 * straight.standard_error
    assert table.detector_flux == pytest.approx(result.detectors["film"].total_flux_float, rel=1e-9)


def test_another_policy_finds_the_same_ghosts_with_less_noise(brute_force):
    """Asked of one plain trace: rays that are made to reflect more often, or that split, say more about ghosts."""
    ghosts, _ = brute_force
    result = three_lenses(nsq.SamplingPolicy(rr_start_flux=0.0)).trace(30_000, min_flux_fraction=0.0, seed=1)
    plain = {g.signature: g for g in result.ghosts("film")}
    near = signature(brute.two_bounces(6)[1, 0])
    split = nsq.SamplingPolicy(split_depth=8, split_budget=16.0, rr_start_flux=0.0)
    for policy, gain in ((nsq.SamplingPolicy(reflect_prob=0.25, rr_start_flux=0.0), 1.8), (split, 5.0)):
        better = {g.signature: g for g in result.ghosts("film", policy=policy)}
        assert better[near].standard_error < plain[near].standard_error / gain
        assert abs(better[near].flux - ghosts[near]) < 3.0 * better[near].standard_error


def test_a_plate_has_the_textbook_ghost():
    """At normal incidence T R R T of n = 1.5; rays that split leave nothing of it to chance."""
    scene = nsq.NSQScene()
    scene.sampling_policy = nsq.SamplingPolicy(split_depth=4, split_budget=16.0, rr_start_flux=0.0)
    scene.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=1.0))
    plate = nsq.LensConfig(
        r1=math.inf, r2=math.inf, thickness=3.0, material=nsq.NSQMaterial.constant(1.5), front_aperture_radius=10.0
    )
    scene.add_lens("P", nsq.CoordinateSystem(z=10.0), plate)
    scene.add_detector("D", nsq.CoordinateSystem(z=20.0), nsq.RayDatabaseConfig(width=30.0, height=30.0))
    ghost = scene.trace(1000, min_flux_fraction=0.0).ghosts("D")[0]
    assert ghost.ghosts == ("P.back", "P.front")
    assert ghost.flux == pytest.approx(0.96**2 * 0.04**2, rel=1e-9)
    assert ghost.standard_error < 1e-9 * ghost.flux
    assert (ghost.num_rays, ghost.order, ghost.source) == (1000, 2, "S")


def test_mirrors_and_total_reflections_are_no_ghosts():
    """A right-angle prism on its hypotenuse sends the beam back by two total reflections, a mirror once more."""
    scene = nsq.NSQScene()
    scene.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=1.0))
    glass = nsq.NSQMaterial.constant(1.5)
    plane = nsq.FinitePlaneGeometry(width=40.0, height=40.0)
    window = nsq.CoordinateSystem(z=10.0)
    scene.add_component("window", nsq.RefractiveComponent(window, plane, nsq.VACUUM, glass, name="window"))
    for name, x, turn in (("one", 5.0, math.pi / 4), ("other", -5.0, -math.pi / 4)):
        pose = nsq.CoordinateSystem(x=x, z=20.0, ry=turn)
        face = nsq.FinitePlaneGeometry(width=14.0, height=14.0)
        scene.add_component(name, nsq.RefractiveComponent(pose, face, glass, nsq.VACUUM, name=name))
    scene.sources[0].cs = nsq.CoordinateSystem(x=4.0)
    scene.add_detector("D", nsq.CoordinateSystem(z=-5.0), nsq.IrradianceDetectorConfig(width=50.0, height=50.0))
    result = scene.trace(4000, seed=2)
    main = result.paths().to("D").filter("one", "other")[0]
    assert [step.action for step in main.steps] == ["refract", "total", "total", "refract", "detect"]
    assert main.order == 0
    assert all(group.order >= 2 for group in result.ghosts("D"))
    assert main.flux == pytest.approx(0.96**2, abs=0.02)


def test_a_table_can_be_read_filtered_and_written(tmp_path):
    result = singlet().trace(20_000, seed=1)
    table = result.paths(policy=nsq.SamplingPolicy(reflect_prob="auto"))
    assert len(table) == len(list(table)) == len(table.groups) > 10
    fluxes = [group.flux for group in table]
    assert fluxes == sorted(fluxes, reverse=True)
    twice = table.filter("L.back:reflect", "L.front:reflect")
    assert twice.groups
    assert all("L.back:reflect" in g.signature and "L.front:reflect" in g.signature for g in twice)
    assert not set(twice) - set(table)
    # the order counts
    assert all(g.signature.index("L.back:reflect") < g.signature.rindex("L.front:reflect") for g in twice)
    assert len(table.filter("L")) == sum(any(s.part.startswith("L.") for s in g.steps) for g in table)
    assert len(table.filter(":escape")) == sum(g.end.action == "escape" for g in table)
    assert len(table.filter("L:reflect", "D:detect")) < len(table.filter("L:reflect"))
    assert [g.share for g in table.to("D")] == pytest.approx([g.flux / table.to("D").total_flux for g in table.to("D")])
    array = table.to_numpy()
    assert array["flux_w"].tolist() == fluxes
    with open(table.to_csv(tmp_path / "paths.csv"), newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["flux_w"]) for row in rows] == fluxes
    assert rows[0]["signature"] == table[0].signature
    text = result.ghosts("D").table()
    assert text.startswith("ghosts on D: ")
    assert "L.back, L.front" in text
    assert str(table).count("\n") == 1 + len(table)
    assert table.table(limit=3).splitlines()[-1].endswith(f"in {len(table) - 3} more groups")


def test_what_is_wrong_is_named():
    result = singlet().trace(1000)
    with pytest.raises(ValueError, match="detector got 'E'.*'D'"):
        result.ghosts("E")
    with pytest.raises(ValueError, match=r"'L\.bakc'.*Did you mean 'L\.back'"):
        result.paths().filter("L.bakc:reflect")
    with pytest.raises(ValueError, match="'reflects'.*Did you mean 'reflect'"):
        result.paths().filter("L.back:reflects")
    with pytest.raises(TypeError, match="step got 3"):
        result.paths().filter(3)
    with pytest.raises(ValueError, match="part got 'M'"):
        result.paths().to("M")
    with pytest.raises(TypeError, match="policy got 'auto'"):
        result.paths(policy="auto")
    with pytest.raises(ValueError, match="num_rays got 0"):
        result.ghosts("D", num_rays=0)
    with pytest.raises(RuntimeError, match="trace again"):
        nsq.SimulationResult().paths()
