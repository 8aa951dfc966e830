"""Sources made of luminaire files and of ray files: what they emit, and the way there and back through files."""

import math

import numpy as np
import pytest
import torch

import nsq
from nsq import formats

from .scenes import FDC, GREEN, ledger

SIGMAS = 4.0  # chance of a wrong alarm 3e-5, at fixed seeds


def lopsided(top=180.0, num_phi=7, first=20.0, seed=3):
    """A distribution without symmetry that does not begin at phi = 0, with dark cells."""
    rng = np.random.default_rng(seed)
    theta = np.concatenate([[0.0, 1.0, 7.5], np.linspace(20.0, top, 9)])
    phi = first + np.sort(rng.uniform(0.0, 330.0, num_phi))
    values = rng.uniform(0.0, 500.0, (len(theta), num_phi))
    values[0] = values[0, 0]  # a pole is one direction
    values[5:7, 2:4] = 0.0
    return formats.AngularDistribution(theta, phi, values, "lopsided")


def by_revolution():
    theta = np.linspace(0.0, 90.0, 19)
    return formats.AngularDistribution(theta, [0.0], 100.0 * np.cos(np.radians(theta))[:, None] ** 3, "round")


def expected_counts(lamp, theta_edges, phi_edges, total, fine=24):
    """Rays in each cell of directions, by the midpoint rule of the interpolated intensity."""
    n, m = len(theta_edges) - 1, len(phi_edges) - 1
    theta = theta_edges[0] + (np.arange(n * fine) + 0.5) * (theta_edges[-1] - theta_edges[0]) / (n * fine)
    phi = phi_edges[0] + (np.arange(m * fine) + 0.5) * (phi_edges[-1] - phi_edges[0]) / (m * fine)
    weight = lamp.at(theta[:, None], phi[None, :]) * np.sin(np.radians(theta))[:, None]
    cells = weight.reshape(n, fine, m, fine).sum(axis=(1, 3))
    return cells * (total / cells.sum())


def chi_square(counts, expected):
    """Pearson's statistic in standard deviations from its mean, over cells with at least 10 expected rays."""
    many = expected >= 10.0
    counts = np.append(counts[many], counts[~many].sum())
    expected = np.append(expected[many], expected[~many].sum())
    assert counts[expected == 0.0].sum() == 0
    counts, expected = counts[expected > 0.0], expected[expected > 0.0]
    freedom = len(expected) - 1
    assert freedom > 20
    return (np.sum((counts - expected) ** 2 / expected) - freedom) / math.sqrt(2.0 * freedom)


def directions(rays):
    return np.degrees(np.arccos(np.clip(rays.N, -1.0, 1.0))), np.degrees(np.arctan2(rays.M, rays.L)) % 360.0


@pytest.mark.parametrize("lamp", [lopsided(), lopsided(top=75.0, num_phi=2), by_revolution()])
def test_directions_follow_the_table(lamp):
    count = 300_000
    source = nsq.LuminaireSource(nsq.CoordinateSystem(), lamp, GREEN)
    rays = source.generate(np.arange(count), nsq.NSQRng(8))
    assert np.sqrt(rays.L**2 + rays.M**2 + rays.N**2) == pytest.approx(1.0, abs=1e-14)
    edges = np.linspace(0.0, 180.0, 37), np.linspace(0.0, 360.0, 25)
    theta, phi = directions(rays)
    counts = np.histogram2d(theta, phi, bins=edges)[0]
    assert counts.sum() == count
    assert abs(chi_square(counts, expected_counts(lamp, *edges, count))) < SIGMAS
    finer = np.linspace(0.0, 10.0, 41), np.linspace(0.0, 360.0, 13)  # within the first cells, about the pole
    counts = np.histogram2d(theta, phi, bins=finer)[0]
    assert abs(chi_square(counts, expected_counts(lamp, *finer, counts.sum()))) < SIGMAS


def test_the_draws_are_those_of_their_slots():
    """Position by U1 and U2; theta and phi by the cumulative distributions at U3 and U4, here in closed form."""
    bowl = formats.AngularDistribution([0.0, 90.0], [0.0], [[1.0], [1.0]])  # even over a hemisphere
    ids = np.arange(1000, 3000)
    u1, u2, u3, u4 = (nsq.NSQRng(5).uniform(ids, 0, slot) for slot in list(nsq.EventSlot)[:4])
    rays = nsq.LuminaireSource(nsq.CoordinateSystem(), bowl, GREEN, width=3.0, height=2.0).generate(ids, nsq.NSQRng(5))
    assert np.abs(rays.N - 1.0 + u3).max() < 1e-12
    sine = np.sqrt(1.0 - rays.N**2)
    assert np.abs(rays.L - sine * np.cos(2.0 * math.pi * u4)).max() < 1e-12
    assert np.abs(rays.M - sine * np.sin(2.0 * math.pi * u4)).max() < 1e-12
    assert rays.x == pytest.approx(3.0 * (u1 - 0.5), abs=1e-12)
    assert rays.y == pytest.approx(2.0 * (u2 - 0.5), abs=1e-12)
    disk = nsq.LuminaireSource(nsq.CoordinateSystem(), bowl, GREEN, aperture_radius=4.0).generate(ids, nsq.NSQRng(5))
    assert np.hypot(disk.x, disk.y) == pytest.approx(4.0 * np.sqrt(u1), abs=1e-12)
    point = nsq.LuminaireSource(nsq.CoordinateSystem(z=7.0), bowl, GREEN).generate(ids, nsq.NSQRng(5))
    assert not point.x.any()
    assert not point.y.any()
    assert np.all(point.z == 7.0)


def test_cumulative_distributions_are_inverted_to_rounding():
    """Of a table with a slope in theta and in phi: the share of light below a ray's theta is its U3."""
    lamp = lopsided()
    ids = np.arange(400)
    rays = nsq.LuminaireSource(nsq.CoordinateSystem(), lamp, GREEN).generate(ids, nsq.NSQRng(5))
    theta, _ = directions(rays)
    u3 = nsq.NSQRng(5).uniform(ids, 0, nsq.EventSlot.SOURCE_U3)
    for t, u in zip(theta, u3, strict=True):
        below = np.append(lamp.theta[lamp.theta < t], t)
        part = lamp.resampled(below, lamp.phi) if len(below) > 1 else None
        assert (part.total_lumens() if part else 0.0) / lamp.total_lumens() == pytest.approx(u, abs=1e-11)


def far_scene(lamp, frame=None, **config):
    """A lamp in a corner of the room, its far field to both sides."""
    scene = nsq.NSQScene()
    frame = frame or nsq.CoordinateSystem(x=2.0, y=-1.0, z=3.0, rx=0.4, ry=-0.3, rz=1.0)
    scene.add_source("S", frame, nsq.LuminaireSourceConfig(lamp, GREEN, **config))
    below = nsq.CoordinateSystem(z=5.0, reference_cs=frame)
    scene.add_detector("D", below, nsq.FarFieldDetectorConfig(num_theta=30, num_phi=24))
    return scene


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("sampler", [None, nsq.Sobol()])
def test_a_far_field_reads_the_file_back(precision, sampler):
    lamp, rays = lopsided(top=75.0), 1 << 17
    scene = far_scene(lamp, width=4.0, height=2.0)
    scene.sampling_policy = nsq.SamplingPolicy(sampler=sampler)
    pattern = scene.trace(rays, seed=4, precision=precision).detectors["D"]
    counts = pattern.data.numpy().reshape(30, 24) * (rays / pattern.total_flux_float)
    edges = pattern.theta_edges, pattern.phi_edges
    spread = chi_square(counts, expected_counts(lamp, *edges, rays))
    assert abs(spread) < SIGMAS if sampler is None else spread < -3.0  # Sobol points: far more even than chance
    lumens = pattern.total_flux_float * nsq.luminous_efficacy_of_spectrum([0.55], [1.0])
    assert lumens == pytest.approx(lamp.total_lumens(), rel=1e-6 if precision == "float32" else 1e-12)


@pytest.mark.parametrize(
    ("read", "write"),
    [(formats.read_ies, formats.write_ies), (formats.read_eulumdat, formats.write_eulumdat)],
)
def test_a_file_goes_through_a_trace_into_a_file(read, write, tmp_path):
    theta, phi = np.linspace(0.0, 90.0, 31), np.arange(24) * 15.0
    table = 200.0 * np.cos(np.radians(theta))[:, None] ** 2 * (1.5 + np.cos(np.radians(phi - 40.0)))
    table[0] = table[0].mean()
    write(formats.AngularDistribution(theta, phi, table, "lamp"), tmp_path / "lamp")
    lamp = read(tmp_path / "lamp")
    rays = 300_000
    pattern = far_scene(lamp).trace(rays, seed=6).detectors["D"]
    seen = formats.AngularDistribution.from_far_field(pattern, 0.55, name="lamp")
    write(seen.resampled(theta, phi), tmp_path / "seen")
    twin = read(tmp_path / "seen")
    # the grid's own integral is off by the curvature of the table over a bin of 3 degrees
    assert twin.total_lumens() == pytest.approx(lamp.total_lumens(), rel=2e-3)
    bins = pattern.theta[:-3], (pattern.phi % 360.0)
    true = lamp.at(bins[0][:, None], bins[1][None, :])
    expected = expected_counts(lamp, pattern.theta_edges, pattern.phi_edges, rays)[:-3]
    error = (seen.at(bins[0][:, None], bins[1][None, :]) - true) / (true / np.sqrt(expected))
    assert np.sqrt(np.mean(error**2)) == pytest.approx(1.0, abs=0.15)
    assert np.abs(error).max() < 5.0


def test_batches_and_lanes_do_not_matter():
    scene = far_scene(lopsided(), aperture_radius=2.0)
    scene.add_source("R", nsq.CoordinateSystem(x=1.0), nsq.RayFileSourceConfig(table(50)))
    before = nsq.get_num_threads()
    results = []
    try:
        for threads, batch in ((1, 1), (2, 4096), (3, 20_000)):
            nsq.set_num_threads(threads)
            results.append(scene.trace(30_000, seed=2, batch_size=batch))
    finally:
        nsq.set_num_threads(before)
    for other in results[1:]:
        assert ledger(other) == ledger(results[0])
        assert torch.equal(other.detectors["D"].data, results[0].detectors["D"].data)


def table(n=200, seed=5, lines=FDC.wavelengths, **extra):
    rng = np.random.default_rng(seed)
    way = rng.normal((0.0, 0.0, 2.0), size=(n, 3))
    way /= np.linalg.norm(way, axis=1)[:, None]
    flux = rng.uniform(0.0, 2.0, n) ** 2
    flux[[0, n // 2, n - 1]] = 0.0
    return formats.RayTable(*rng.normal(0.0, 20.0, (3, n)), *way.T, flux, rng.choice(lines, n), **extra)


def drawn(bundle, rays):
    """Which of the table's rays each ray is."""
    order = np.argsort(rays.x)
    place = order[np.searchsorted(rays.x[order], bundle.x)]
    for name in ("x", "y", "z"):
        assert np.array_equal(getattr(bundle, name), getattr(rays, name)[place])
    for name in ("L", "M", "N"):
        assert getattr(bundle, name) == pytest.approx(getattr(rays, name)[place], abs=1e-15)
    return place


def test_rays_are_drawn_by_their_flux():
    rays, count = table(), 200_000
    source = nsq.RayFileSource(nsq.CoordinateSystem(), rays)
    assert source.total_flux == rays.total_flux
    born = source.generate(np.arange(count), nsq.NSQRng(3))
    place = drawn(born, rays)
    assert np.array_equal(born.wavelength, rays.wavelength[place])
    assert born.flux == pytest.approx(rays.total_flux / count, rel=1e-14)
    counts = np.bincount(place, minlength=rays.num_rays)
    assert counts[rays.flux == 0.0].sum() == 0
    expected = rays.flux * (count / rays.total_flux)
    assert abs(chi_square(counts.astype(float), expected)) < SIGMAS
    u = nsq.NSQRng(3).uniform(np.arange(count), 0, nsq.EventSlot.SOURCE_U1)
    running = np.cumsum(rays.flux) / np.cumsum(rays.flux)[-1]
    assert np.array_equal(place, np.searchsorted(running, u, side="right"))


def database_scene(config, policy=None):
    """Rays in a turned frame onto a screen that keeps them."""
    scene = nsq.NSQScene()
    frame = nsq.CoordinateSystem(x=2.0, y=-1.0, z=3.0, rx=0.4, ry=-0.3, rz=1.0)
    scene.add_source("first", nsq.CoordinateSystem(z=-50.0), nsq.PointSourceConfig(GREEN, half_angle_deg=1.0))
    scene.add_source("S", frame, config)
    sphere = nsq.RayDatabaseDetector(nsq.CoordinateSystem(), nsq.SphereGeometry(500.0), name="R")
    scene.detector_registry.add("R", sphere)
    scene.sampling_policy = policy or nsq.SamplingPolicy()
    return scene


def test_a_trace_emits_the_same_rays():
    rays = table()
    scene = database_scene(nsq.RayFileSourceConfig(rays, total_flux=3.0))
    seen = scene.trace(4002, seed=7).detectors["R"].to_numpy()
    ids = np.arange(4002)[-3001:]  # one each, the rest by flux
    born = scene.sources[1].generate(ids, nsq.NSQRng(7))
    mine = seen["ray_id"] >= ids[0]
    assert mine.sum() == len(ids)
    way = born.directions.numpy()
    for column, expected in zip("LMN", way.T, strict=True):
        assert np.array_equal(seen[column][mine], expected)
    assert np.array_equal(seen["wavelength"][mine], born.wavelength)
    landed = born.positions.numpy() + seen["path_length"][mine, None] * way
    for column, expected in zip("xyz", landed.T, strict=True):
        assert seen[column][mine] == pytest.approx(expected, abs=1e-9)
    assert seen["flux"][mine].sum() == pytest.approx(3.0, rel=1e-12)


def test_sobol_births_spread_over_the_table():
    """A power of two of points has one in each of as many even parts of the running sum."""
    rays, count = table(), 1 << 13
    config = nsq.RayFileSourceConfig(rays)
    scene = database_scene(config, nsq.SamplingPolicy(sampler=nsq.Sobol()))
    scene.remove_source("first")
    seen = scene.trace(count, seed=7).detectors["R"].to_numpy()
    place = [seen[x] - seen["path_length"] * seen[way] for x, way in zip("xyz", "LMN", strict=True)]
    columns = (seen[name] for name in ("L", "M", "N", "flux", "wavelength"))
    local = formats.RayTable(*place, *columns).seen_from(scene.sources[0].cs)
    distance = np.abs(local.x[:, None] - rays.x) + np.abs(local.y[:, None] - rays.y)
    assert distance.min(axis=1).max() < 1e-9
    counts = np.bincount(distance.argmin(axis=1), minlength=rays.num_rays)
    assert counts.sum() == count
    assert np.abs(counts - rays.flux * (count / rays.total_flux)).max() < 2.0


@pytest.mark.parametrize("form", ["zemax", "tm25"])
def test_rays_of_a_trace_start_again_from_a_file(form, tmp_path):
    """What a lens sent out, kept in a file in front of a screen, lights the screen as the lens did."""
    write, read = getattr(formats, f"write_{form}_rays" if form == "zemax" else "write_tm25"), None
    read = formats.read_zemax_rays if form == "zemax" else formats.read_tm25
    scene = nsq.NSQScene()
    scene.add_source("P", nsq.CoordinateSystem(z=-60.0), nsq.PointSourceConfig(FDC, half_angle_deg=8.0, total_flux=2.0))
    scene.add_lens("L", nsq.CoordinateSystem(), nsq.LensConfig(40.0, -40.0, 6.0, "N-BK7", 12.0))
    frame = nsq.CoordinateSystem(z=20.0, rx=0.3)
    scene.add_detector("R", frame, nsq.RayDatabaseConfig(60.0, 60.0, absorb=False))
    screen = nsq.IrradianceDetectorConfig(60.0, 60.0, num_pixels_x=6, num_pixels_y=6, splat="hard")
    scene.add_detector("D", nsq.CoordinateSystem(z=45.0), screen)
    first = scene.trace(60_000, seed=1)
    write(formats.RayTable.from_database(first.detectors["R"], frame), tmp_path / "rays")
    rays = read(tmp_path / "rays")
    second = nsq.NSQScene()
    second.add_source("F", frame, nsq.RayFileSourceConfig(rays))
    second.add_detector("D", nsq.CoordinateSystem(z=45.0), screen)
    again = second.trace(60_000, seed=9)
    assert again.total_flux_in == pytest.approx(first.detectors["R"].total_flux_float, rel=1e-6)
    # the file has 60,000 rays and the second trace draws as many of them with repetition
    share = first.detectors["D"].data / first.total_flux_in
    sigma = first.total_flux_in * torch.sqrt(share * (1.0 - share) / 60_000.0) + 1e-4
    assert ((again.detectors["D"].data - first.detectors["D"].data).abs() < SIGMAS * sigma).all()


def test_wavelengths_of_a_table():
    rays = table()
    source = nsq.RayFileSource(nsq.CoordinateSystem(), rays)
    assert source.spectrum == rays.spectrum()
    red = nsq.RayFileSource(nsq.CoordinateSystem(), rays, replace_spectrum=nsq.Spectrum([0.6, 0.7], [1.0, 3.0]))
    born = red.generate(np.arange(40_000), nsq.NSQRng(1))
    assert sorted(set(born.wavelength)) == [0.6, 0.7]
    assert np.mean(born.wavelength == 0.7) == pytest.approx(0.75, abs=SIGMAS * math.sqrt(0.75 * 0.25 / 40_000))
    many = table(2000, lines=np.linspace(0.4, 0.7, 1000))
    lines, place = many.lines()
    assert len(lines.wavelengths) == 256
    assert np.abs(lines.wavelengths[place] - many.wavelength).max() < 0.3 / 256.0
    assert lines.weights.sum() == pytest.approx(many.total_flux, rel=1e-12)
    mean = many.wavelength @ many.flux / many.total_flux
    assert lines.wavelengths @ lines.weights / lines.weights.sum() == pytest.approx(mean, rel=1e-12)


def test_flux_in_lumens():
    efficacy = nsq.luminous_efficacy_of_spectrum([0.55], [1.0])
    lamp, here = by_revolution(), nsq.CoordinateSystem()
    scene = nsq.NSQScene()
    scene.add_source("own", here, nsq.LuminaireSourceConfig(lamp, GREEN))
    scene.add_source("given", here, nsq.LuminaireSourceConfig(lamp, GREEN, total_flux_lumens=200.0))
    scene.add_source("rays", here, nsq.RayFileSourceConfig(table(lines=[0.55], flux_unit="lm")))
    flux = [source.total_flux * efficacy for source in scene.sources]
    assert flux == pytest.approx([lamp.total_lumens(), 200.0, table().total_flux], rel=1e-12)
    with pytest.warns(UserWarning, match="total_flux_lumens"):
        scene.add_source("both", here, nsq.RayFileSourceConfig(table(), total_flux=2.0, total_flux_lumens=3.0))


DARK = formats.AngularDistribution([0.0, 90.0], [0.0], [[0.0], [0.0]])


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: nsq.LuminaireSourceConfig("lamp.ies", GREEN), TypeError, "distribution got str.*read_ies"),
        (lambda: nsq.LuminaireSourceConfig(DARK, GREEN), ValueError, "distribution got one of 0 lm"),
        (lambda: nsq.LuminaireSourceConfig(by_revolution(), GREEN, width=1.0), ValueError, "height got None"),
        (
            lambda: nsq.LuminaireSourceConfig(by_revolution(), GREEN, width=1.0, height=1.0, aperture_radius=1.0),
            ValueError,
            "aperture_radius",
        ),
        (lambda: nsq.LuminaireSourceConfig(by_revolution(), GREEN, total_flux=-1.0), ValueError, "total_flux got -1"),
        (lambda: nsq.LuminaireSourceConfig(by_revolution(), 0.55), TypeError, "spectrum got 0.55"),
        (
            lambda: nsq.LuminaireSource(nsq.CoordinateSystem(), by_revolution(), nsq.Spectrum.monochromatic(1.5)),
            ValueError,
            "negligible",
        ),
        (lambda: nsq.RayFileSourceConfig("rays.dat"), TypeError, "rays got str.*read_tm25"),
        (lambda: nsq.RayFileSourceConfig(table(3)), ValueError, "0 W"),
        (lambda: nsq.RayFileSource(None, table()), TypeError, "cs got NoneType"),
        (lambda: formats.AngularDistribution([0.0, 90.0], [0.0], torch.ones(2, 1, requires_grad=True)),
         NotImplementedError, "intensity"),
        (lambda: formats.RayTable(*[torch.ones(1, requires_grad=True)] * 8), NotImplementedError, "x"),
    ],
)  # fmt: skip
def test_what_the_sources_do_not_take(make, error, words):
    with pytest.raises(error, match=words):
        make()
