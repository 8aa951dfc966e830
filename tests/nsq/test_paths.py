"""Recorded paths: what each event says, which rays are chosen, and that it depends on nothing else."""

import math
import time

import numpy as np
import pytest
import torch

import nsq
from nsq import engine
from nsq.paths import EVENT_DTYPE

from .scenes import FDC, GREEN, gauss_point_doublet, singlet


def events(scene, num_rays=1000, record=True, **options):
    return scene.trace(num_rays, record_paths=record, **{"seed": 3, **options}).ray_paths["events"]


def collimated(name="S", radius=1.0, **pose):
    scene = nsq.NSQScene()
    scene.add_source(name, nsq.CoordinateSystem(**pose), nsq.CollimatedSourceConfig(GREEN, aperture_radius=radius))
    return scene


def plate(scene, name, z, n=1.5, k=0.0, thickness=4.0):
    lens = nsq.LensConfig(
        r1=math.inf,
        r2=math.inf,
        thickness=thickness,
        material=nsq.NSQMaterial.constant(n, k),
        front_aperture_radius=20.0,
    )
    scene.add_lens(name, nsq.CoordinateSystem(z=z), lens)


def film(scene, name, z, absorb=True, size=50.0):
    config = nsq.IrradianceDetectorConfig(width=size, height=size, num_pixels_x=4, num_pixels_y=4, absorb=absorb)
    scene.add_detector(name, nsq.CoordinateSystem(z=z), config)


def test_nothing_is_recorded_unless_asked_for():
    assert singlet().trace(100).ray_paths is None
    assert singlet().trace(100, record_paths=False).ray_paths is None
    assert singlet().trace(100, record_paths=0).ray_paths is None


def test_the_table_has_exactly_the_agreed_columns():
    fields = [("ray_id", "<i8"), ("event_type", "<U10")]
    fields += [(name, "<f8") for name in ("x", "y", "z", "L", "M", "N", "flux", "wavelength")]
    fields += [("bounce", "<i4"), ("component_name", "<U64")]
    recorded = singlet().trace(100, record_paths=True).ray_paths
    assert recorded["events"].dtype == np.dtype(fields) == EVENT_DTYPE
    assert list(recorded) == ["events"]


def test_the_events_of_a_ray_are_what_happens_to_it():
    """Through an absorbing plate and a tap onto a detector; every number is known."""
    scene = collimated(z=-7.0)
    plate(scene, "P", z=5.0, k=2e-6)
    film(scene, "tap", 15.0, absorb=False)
    film(scene, "D", 20.0)
    rows = events(scene, 4000)
    straight = [
        ray for ray in np.split(rows, np.flatnonzero(np.diff(rows["ray_id"])) + 1)
        if ray["component_name"].tolist() == ["S", "P.front", "P.back", "tap", "D"]
    ]  # fmt: skip
    assert len(straight) > 3000
    ray = straight[0]
    assert ray["event_type"].tolist() == ["birth", "hit", "hit", "hit", "hit"]
    assert ray["bounce"].tolist() == [0, 0, 1, 2, 3]
    assert ray["z"] == pytest.approx([-7.0, 5.0, 9.0, 15.0, 20.0], abs=1e-12)
    assert np.ptp(ray["x"]) < 1e-12
    assert ray["N"].tolist() == [1.0] * 5
    assert np.all(ray["wavelength"] == 0.55)
    inside = math.exp(-4.0 * math.pi * 2e-6 / 0.55e-3 * 4.0)
    born = 1.0 / 4000
    assert ray["flux"] == pytest.approx([born, born, born * inside, born * inside, born * inside], rel=1e-12)
    assert np.hypot(rows["x"], rows["y"]).max() <= 1.0


def test_a_hit_has_the_direction_of_arrival():
    """A mirror at 45 degrees: the beam arrives along z and leaves along y."""
    scene = collimated()
    mirror = nsq.MirrorConfig(radius=math.inf, reflectance=0.5)
    scene.add_mirror("M", nsq.CoordinateSystem(z=10.0, rx=math.pi / 4), mirror)
    film(scene, "D", -50.0)
    rows = events(scene, 10)
    hit, death = rows[rows["component_name"] == "M.surface"], rows[rows["event_type"] == "death"]
    assert np.all(hit["N"] == 1.0)
    assert hit["flux"] == pytest.approx(np.full(10, 0.1))
    assert np.all(death["component_name"] == "escaped")
    assert np.abs(death["M"]) == pytest.approx(np.ones(10))
    assert death["flux"] == pytest.approx(np.full(10, 0.05))
    assert np.all(death["bounce"] == 1)


def test_only_lost_rays_die():
    """Births for all; deaths for the escaped, the depth-killed and the flux-killed, and they are the ledger's."""
    scene = singlet(k=1e-7)
    result = scene.trace(20_000, seed=4, max_depth=4, min_flux_fraction=0.0, record_paths=True)
    rows = result.ray_paths["events"]
    assert np.array_equal(rows["ray_id"][rows["event_type"] == "birth"], np.arange(20_000))
    deaths = rows[rows["event_type"] == "death"]
    for cause, count, flux in (
        ("escaped", result.num_rays_escaped, result.total_flux_escaped),
        ("depth_killed", result.num_rays_depth_killed, result.total_flux_depth_killed),
    ):
        mine = deaths[deaths["component_name"] == cause]
        assert len(mine) == count > 0
        assert mine["flux"].sum() == pytest.approx(flux, rel=1e-12)
    assert len(deaths) == result.num_rays_escaped + result.num_rays_depth_killed
    assert np.all(deaths["bounce"][deaths["component_name"] == "depth_killed"] == 4)
    hits = rows[rows["event_type"] == "hit"]
    for name, books in result.surfaces.items():
        assert np.sum(hits["component_name"] == name) == books.num_hits
        assert hits["flux"][hits["component_name"] == name].sum() == pytest.approx(books.incident_flux, rel=1e-9)
    detected = hits[hits["component_name"] == "D"]
    assert len(detected) == result.detectors["D"].num_rays_hit
    assert detected["flux"].sum() == pytest.approx(result.total_flux_detected, rel=1e-9)


def test_rays_ended_by_roulette_say_so_with_the_flux_they_had():
    scene = collimated()
    scene.add_mirror("M", nsq.CoordinateSystem(z=10.0), nsq.MirrorConfig(radius=math.inf, reflectance=0.2))
    film(scene, "D", -5.0)
    result = scene.trace(2000, min_flux_fraction=0.5, seed=2, record_paths=True)
    deaths = result.ray_paths["events"]
    deaths = deaths[deaths["event_type"] == "death"]
    assert np.all(deaths["component_name"] == "flux_killed")
    assert len(deaths) == result.num_rays_flux_killed > 0
    assert deaths["flux"] == pytest.approx(np.full(len(deaths), 0.2 / 2000))
    assert deaths["flux"].sum() == pytest.approx(result.total_flux_roulette_killed, rel=1e-12)


def test_a_number_chooses_about_so_many_rays_by_their_own_draw():
    scene = singlet()
    rows = events(scene, 20_000, record=400)
    chosen = np.unique(rows["ray_id"])
    assert 200 < len(chosen) < 600
    draws = nsq.pcg32_uint32(3, np.arange(20_000), 0, nsq.EventSlot.PATH_SAMPLE)
    assert np.array_equal(chosen, np.flatnonzero(draws < 400 / 20_000 * 2**32))
    assert len(np.unique(events(scene, 300, record=300)["ray_id"])) == 300
    assert len(np.unique(events(scene, 300, record=10_000)["ray_id"])) == 300


@pytest.mark.parametrize("gap", [1, 1024, 100_000])
@pytest.mark.parametrize("build", [singlet, gauss_point_doublet])
def test_chosen_rays_are_the_rays_of_the_whole_trace(monkeypatch, build, gap):
    """Whatever is born together: one source or two with several lines, near ids or far ones."""
    from kernels.trace import wavefront

    whole = events(build(), 3000)
    monkeypatch.setattr(wavefront, "GAP", gap)
    some = events(build(), 3000, record=200)
    assert np.array_equal(some, whole[np.isin(whole["ray_id"], some["ray_id"])])


@pytest.mark.parametrize("split_depth", [0, 3])
def test_events_do_not_depend_on_batches_threads_or_the_run(monkeypatch, split_depth):
    policy = nsq.SamplingPolicy(split_depth=split_depth)
    scene = gauss_point_doublet()
    scene.sampling_policy = policy
    first = scene.trace(3000, record_paths=True, seed=1).ray_paths
    monkeypatch.setattr(engine, "_LEAST_BATCH", 1)
    try:
        for threads, batch in ((1, 37), (2, 1000)):
            nsq.set_num_threads(threads)
            again = scene.trace(3000, record_paths=True, seed=1, batch_size=batch).ray_paths
            assert again.keys() == first.keys()
            for name in first:
                assert np.array_equal(again[name], first[name])
    finally:
        nsq.set_num_threads(None)


def test_recording_changes_nothing_in_the_result():
    plain, recorded = singlet().trace(5000, seed=2), singlet().trace(5000, seed=2, record_paths=100)
    assert torch.equal(plain.detectors["D"].data, recorded.detectors["D"].data)
    assert plain.report() == recorded.report()


def test_two_hundred_thousand_rays_with_five_hundred_recorded_take_seconds():
    started = time.perf_counter()
    rows = events(singlet(), 200_000, record=500)
    assert time.perf_counter() - started < 20.0
    assert 250 < len(np.unique(rows["ray_id"])) < 750


def test_split_off_rays_have_a_birth_of_their_own_and_a_parent():
    """Normal incidence on a plate: the reflected part keeps the id, the transmitted one is new, and no flux is lost."""
    scene = collimated()
    scene.sampling_policy = nsq.SamplingPolicy(split_depth=2, split_budget=8.0)
    plate(scene, "P", z=10.0)
    film(scene, "D", 20.0)
    recorded = scene.trace(100, record_paths=True, min_flux_fraction=0.0, seed=1).ray_paths
    rows, splits = recorded["events"], recorded["splits"]
    births = rows[rows["event_type"] == "birth"]
    own = births[births["ray_id"] < 100]
    born = births[births["ray_id"] >= 100]
    assert len(own) == 100
    assert np.array_equal(np.sort(splits["ray_id"]), born["ray_id"])
    assert np.array_equal(born["ray_id"], 100 + np.arange(len(born)))
    # two generations: at the front every ray, at the back every part that came through
    assert np.sum(splits["bounce"] == 1) == np.sum(splits["bounce"] == 2) == 100
    assert np.all(splits["parent_id"][splits["bounce"] == 1] < 100)
    first = born[born["bounce"] == 1]
    assert np.all(first["component_name"] == "P.front")
    assert first["flux"] == pytest.approx(np.full(100, 0.96 / 100))
    ends = rows[(rows["component_name"] == "D") | (rows["event_type"] == "death")]
    assert ends["flux"].sum() == pytest.approx(1.0, rel=1e-9)
    assert np.array_equal(rows["ray_id"], np.sort(rows["ray_id"]))


def test_scatter_mirrors_and_total_reflection_are_told_apart():
    """Shares of each action against their probabilities, 4 sigma of the binomial; draws of 5000 rays."""
    scene = collimated(radius=0.5)
    half = nsq.SurfaceConfig(bsdf=nsq.LambertianBSDF(1.0), scatter_fraction=0.3)
    mirror = nsq.MirrorConfig(radius=math.inf, reflectance=0.9, surface=half)
    scene.add_mirror("M", nsq.CoordinateSystem(z=10.0), mirror)
    film(scene, "D", -10.0)
    result = scene.trace(5000, seed=1, min_flux_fraction=0.0)
    counts = {"scatter": 0, "reflect": 0}
    for group in result.paths():
        counts[group.steps[0].action] += group.num_rays
    assert sum(counts.values()) == 5000
    assert counts["scatter"] == pytest.approx(1500, abs=4 * math.sqrt(5000 * 0.3 * 0.7))
    # what was not scattered went straight back
    (straight,) = result.paths().filter("M:reflect")
    assert straight.signature == "S > M.surface:reflect > D:detect"
    assert torch.all(straight.rays().N == -1.0)
    assert straight.rays().total_flux_float == pytest.approx(straight.flux, rel=1e-12)


@pytest.mark.parametrize("sphere", [nsq.ConicGeometry(radius=50.0, conic=0.0, aperture_radius=10.0),
                                    nsq.EvenAsphereGeometry(radius=50.0, conic=0.0, aperture_radius=10.0)])  # fmt: skip
def test_reflections_are_seen_on_curved_surfaces_and_sags(sphere):
    """Two media of one index but for the line: a share R of the rays reflects, on a quadric and on a sag alike."""
    scene = collimated(radius=0.01)
    face = nsq.RefractiveComponent(
        nsq.CoordinateSystem(z=10.0), sphere, nsq.VACUUM, nsq.NSQMaterial.constant(3.0), name="face"
    )
    scene.add_component("face", face)
    film(scene, "before", -10.0)
    film(scene, "after", 30.0)
    found = {g.signature: g.num_rays for g in scene.trace(4000, seed=2).paths()}
    assert found.keys() == {"S > face:reflect > before:detect", "S > face:refract > after:detect"}
    assert found["S > face:reflect > before:detect"] == pytest.approx(1000, abs=4 * math.sqrt(4000 * 3 / 16))


def test_a_beam_splitter_between_equal_media_reflects_and_passes():
    scene = collimated()
    half = nsq.SimpleCoating(transmittance=0.5, reflectance=0.5)
    face = nsq.RefractiveComponent(
        nsq.CoordinateSystem(z=10.0), nsq.PlaneGeometry(), nsq.VACUUM, nsq.VACUUM, name="face", coating=half
    )
    scene.add_component("face", face)
    film(scene, "before", -10.0)
    film(scene, "after", 30.0)
    found = {g.signature: g.num_rays for g in scene.trace(4000, seed=2).paths()}
    assert found.keys() == {"S > face:reflect > before:detect", "S > face:refract > after:detect"}


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_every_watt_of_a_trace_is_on_some_path(precision):
    scene = gauss_point_doublet()
    result = scene.trace(20_000, seed=5, precision=precision, min_flux_fraction=0.0)
    table = result.paths()
    exact = 1e-9 if precision == "float64" else 1e-6
    assert table.to("D").total_flux == pytest.approx(result.detectors["D"].total_flux_float, rel=exact)
    ends = {"escape": result.total_flux_escaped, "absorb": result.total_flux_absorbed}
    for action, flux in ends.items():
        found = sum(g.flux for g in table if g.end.action == action)
        assert found == pytest.approx(flux, rel=exact)
    assert sum(g.num_rays for g in table) == 20_000


def test_a_sample_of_rays_is_scaled_to_the_whole():
    """Two sources; every large group within 4 of the standard errors that the table states."""
    result = gauss_point_doublet().trace(60_000, seed=5)
    whole = {g.signature: g for g in result.paths()}
    part = result.paths(num_rays=6000)
    assert 5000 < part.num_rays < 7000
    for group in part:
        if group.num_rays > 50:
            assert abs(group.flux - whole[group.signature].flux) < 4.0 * group.standard_error
    assert "of 60000 rays" in str(part)


def test_later_changes_of_the_scene_do_not_reach_a_result():
    scene = singlet()
    radius = torch.tensor(100.0, dtype=torch.float64)
    scene.surfaces[0].geometry.radius = radius
    result = scene.trace(3000, seed=1)
    before = result.paths().to_numpy()
    with torch.no_grad():
        radius.fill_(30.0)
    scene.remove_component("L")
    scene.sampling_policy = nsq.SamplingPolicy(split_depth=3)
    assert np.array_equal(result.paths().to_numpy(), before)


def test_a_traced_gradient_still_has_paths():
    scene = singlet()
    scene.surfaces[0].geometry.radius = torch.tensor(100.0, dtype=torch.float64, requires_grad=True)
    result = scene.trace(2000, seed=1, record_paths=10)
    assert len(result.ray_paths["events"]) > 0
    assert result.paths().to("D").total_flux == pytest.approx(result.detectors["D"].total_flux_float)
    assert result.detectors["D"].data.requires_grad


def test_one_group_can_be_traced_on_its_own_and_further():
    """Its own rays are those of the table; fresh ones estimate the same flux, within 4 sigma of both."""
    scene = gauss_point_doublet()
    result = scene.trace(40_000, seed=1)
    table = result.paths()
    ghost = table.filter("DB.back:reflect", "DB.front:reflect", "D")[0]
    rows = ghost.events()
    assert np.array_equal(np.unique(rows["ray_id"]), ghost.ids)
    whole = scene.trace(40_000, seed=1, record_paths=True).ray_paths["events"]
    assert np.array_equal(rows, whole[np.isin(whole["ray_id"], ghost.ids)])
    rays = ghost.rays()
    assert np.array_equal(rays.ray_id.numpy(), ghost.ids)
    hits = rows[rows["component_name"] == "D"]
    assert np.array_equal(rays.x.numpy(), hits["x"])
    assert np.array_equal(rays.wavelength.numpy(), hits["wavelength"])
    assert rays.total_flux_float == pytest.approx(ghost.flux)
    more = ghost.rays(50)
    assert more.num_rays >= 50
    assert len(np.unique(more.ray_id)) == more.num_rays
    assert int(more.ray_id.min()) >= 40_000
    sigma = math.hypot(ghost.standard_error, more.total_flux_float / math.sqrt(more.num_rays))
    assert abs(more.total_flux_float - ghost.flux) < 4.0 * sigma
    again = ghost.rays(50)
    assert torch.equal(again.x, more.x)
    # their optical path is longer than that of the direct light
    direct = next(g for g in table.to("D") if g.source == ghost.source).rays()
    assert more.path_length.min() > direct.path_length.min()


def test_paths_that_end_elsewhere_can_be_followed_too():
    scene = singlet(k=1e-7)
    result = scene.trace(5000, seed=4, max_depth=3, min_flux_fraction=0.0)
    for action in ("escape", "depth", "detect"):
        group = next(g for g in result.paths() if g.end.action == action)
        rays = group.rays()
        assert np.array_equal(rays.ray_id.numpy(), group.ids)
        assert rays.total_flux_float == pytest.approx(group.flux)


def test_groups_of_rays_that_split_can_be_followed():
    scene = gauss_point_doublet()
    scene.sampling_policy = nsq.SamplingPolicy(split_depth=3, split_budget=8.0)
    table = scene.trace(3000, seed=4, min_flux_fraction=0.0).paths()
    for group in table.groups[:8]:
        assert group.rays().num_rays == group.num_rays
        assert group.rays().total_flux_float == pytest.approx(group.flux)
    assert table.to("D").total_flux == pytest.approx(
        scene.trace(3000, seed=4, min_flux_fraction=0.0).total_flux_detected
    )


def test_spectral_lines_and_sobol_births_are_replayed():
    scene = nsq.NSQScene()
    scene.sampling_policy = nsq.SamplingPolicy(sampler=nsq.Sobol())
    scene.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(FDC, aperture_radius=2.0))
    scene.add_detector("D", nsq.CoordinateSystem(z=10.0), nsq.RayDatabaseConfig(width=9.0, height=9.0))
    result = scene.trace(512, seed=6, record_paths=True)
    rows = result.ray_paths["events"]
    hits = rows[rows["event_type"] == "hit"]
    kept = result.detectors["D"].to_numpy()
    for column in ("x", "y", "flux", "wavelength", "ray_id"):
        assert np.array_equal(hits[column], kept[column])


@pytest.mark.parametrize(
    ("value", "error"), [(-1, ValueError), (2.5, ValueError), ("all", TypeError), (None, TypeError)]
)
def test_what_record_paths_takes(value, error):
    with pytest.raises(error, match="record_paths got"):
        singlet().trace(10, record_paths=value)


def test_a_group_has_a_map_of_its_own():
    """The maps of all groups add up to the detector's, and the ghosts' are the rays' own pixels."""
    scene = gauss_point_doublet()
    result = scene.trace(5000, seed=4)
    groups = result.paths().to("D")
    total = sum(group.map().irradiance for group in groups)
    assert total == pytest.approx(result.detectors["D"].irradiance, rel=1e-9, abs=1e-15)
    ghost = groups.filter(":reflect")[0]
    alone = ghost.map()
    assert type(alone) is type(result.detectors["D"])
    assert alone.num_rays_hit == ghost.num_rays
    assert alone.total_flux_float == pytest.approx(ghost.flux)
    assert float(alone.data.sum()) == pytest.approx(ghost.flux)
    fresh = ghost.map(20)
    assert fresh.num_rays_hit >= 20
    assert fresh.total_flux_float == pytest.approx(ghost.rays(20).total_flux_float)
    with pytest.raises(ValueError, match="'escape'.*rays"):
        next(g for g in result.paths() if g.end.action == "escape").map()


def test_escaped_light_is_told_by_direction_and_part():
    """A lamp that shines everywhere, above a mirror that takes half of it: what goes up is 1/2 + 1/2 R."""
    scene = nsq.NSQScene()
    lamp = nsq.PointSourceConfig(GREEN, half_angle_deg=180.0, total_flux=2.0)
    scene.add_source("lamp", nsq.CoordinateSystem(), lamp)
    mirror = nsq.ReflectiveComponent(nsq.CoordinateSystem(z=10.0), nsq.PlaneGeometry(), reflectance=0.6, name="mirror")
    scene.add_component("mirror", mirror)
    film(scene, "D", -5.0, size=1e-6)
    result = scene.trace(40_000, seed=1)
    escaped = result.escaped()
    assert escaped.total_flux == pytest.approx(result.total_flux_escaped, rel=1e-9)
    up, down = escaped.pattern.flux.numpy()[:18].sum(), escaped.pattern.flux.numpy()[18:].sum()
    assert up == 0.0
    assert down == pytest.approx(escaped.total_flux, rel=1e-12)
    # 4 sigma of 40,000 rays over two halves
    sigma = 2.0 / math.sqrt(40_000) * 0.5
    assert list(escaped.parts) == ["lamp", "mirror"]
    assert escaped.parts["lamp"] == pytest.approx(1.0, abs=4 * sigma)
    assert escaped.parts["mirror"] == pytest.approx(0.6, abs=4 * sigma)
    # uniform over directions: 1.6 W over 2 pi; 4 sigma of a band of 5 degrees
    bands = escaped.pattern.flux.numpy()[18:].sum(axis=1)
    expected = 1.6 * -np.diff(np.cos(np.radians(np.arange(90, 181, 5))))
    assert np.all(np.abs(bands - expected) < 4.0 * np.sqrt(expected * 2.0 / 40_000))
    part = result.escaped(num_rays=10_000)
    assert part.total_flux == pytest.approx(escaped.total_flux, abs=8 * sigma)
    assert "last at mirror" in str(part)


def test_a_sample_without_rays_and_a_scene_without_light_are_empty_and_no_errors():
    scene = collimated()
    film(scene, "D", 5.0)
    # the one ray that is asked for has no luck with its draw
    seed = next(s for s in range(9) if np.all(nsq.pcg32_uint32(s, np.arange(4), 0, nsq.EventSlot.PATH_SAMPLE) >= 2**30))
    result = scene.trace(4, seed=seed, record_paths=1)
    assert result.ray_paths["events"].dtype == EVENT_DTYPE
    assert len(result.ray_paths["events"]) == len(result.paths(num_rays=1)) == 0
    assert result.escaped(num_rays=1).total_flux == 0.0
    scene.sources[0].total_flux = 0.0
    dark = scene.trace(100)
    assert dark.paths()[0].flux == dark.paths()[0].share == dark.paths()[0].rays().total_flux_float == 0.0
    assert len(dark.ghosts("D")) == 0
