"""Scatter lobes as the trace samples them: distributions, energy, reciprocity, and scenes with known answers."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import nsq

CS = nsq.CoordinateSystem
GREEN = nsq.Spectrum.monochromatic(0.55)
SLOT = nsq.EventSlot
MANY = 60_000
TILTED = np.array([0.3, -0.5, 0.8]) / math.sqrt(0.98)
RADIAL = {
    "harvey-shack": nsq.HarveyShackBSDF(0.1, 0.3, 1.5),
    "abg": nsq.ABgBSDF(0.01, 0.05, 2.0),
    "gaussian": nsq.GaussianBSDF(0.2),
}


def frame(normal):
    """Two unit vectors across a normal."""
    side = np.cross(normal, [0.0, 1.0, 0.0])
    side /= np.linalg.norm(side)
    return side, np.cross(normal, side)


def sample(lobe, beta, normal=TILTED, n=MANY, seed=5):
    """Scattered beta (n, 2) in the frame of the normal, the cosine to it, weights, and whether transmitted.

    ``beta`` (2,) is the arriving ray's component in the surface.
    """
    a, b = frame(normal)
    arriving = beta[0] * a + beta[1] * b - math.sqrt(1.0 - beta[0] ** 2 - beta[1] ** 2) * normal
    rays = np.tile(arriving, (n, 1)), np.tile(normal, (n, 1))
    directions, weights, transmitted = lobe.sample(n, *rays, np.full(n, 0.55), nsq.NSQRng(seed), np.arange(n), 2)
    assert directions.shape == (n, 3)
    assert np.linalg.norm(directions, axis=1) == pytest.approx(np.ones(n), abs=1e-12)
    assert transmitted.dtype == bool
    across = np.stack([directions @ a, directions @ b], axis=1)
    return across, directions @ normal, np.asarray(weights), transmitted


def p_value(counts, expected):
    """Of a chi-square test; cells that expect little are taken together."""
    counts, expected = np.ravel(counts), np.ravel(expected)
    few = expected < 20.0
    if few.any():
        counts, expected = (np.append(v[~few], v[few].sum()) for v in (counts, expected))
        if expected[-1] < 20.0:
            counts, expected = counts[:-1], expected[:-1]
    return stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(expected))


def radial_lobe(lobe, beta0, edges):
    """Probability of each cell of beta, on a grid of ``edges`` in both directions, for unit weight in the unit disk."""
    fine = 16
    width = edges[1] - edges[0]
    points = (edges[:-1, None] + width * (np.arange(fine) + 0.5) / fine).ravel()
    x, y = np.meshgrid(points, points, indexing="ij")
    density = lobe.value(np.hypot(x - beta0[0], y - beta0[1])) * (x**2 + y**2 <= 1.0)
    density *= np.hypot(x - beta0[0], y - beta0[1]) <= lobe.reach
    cells = len(edges) - 1
    total = lobe.cumulative()[-1]
    return density.reshape(cells, fine, cells, fine).sum(axis=(1, 3)) * (width / fine) ** 2 / total


# ---- distributions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.0, 0.35, 1.0])
def test_lambertian_is_even_in_squared_sine_and_azimuth(fraction):
    lobe = nsq.LambertianBSDF(0.7, fraction)
    across, cosine, weights, transmitted = sample(lobe, (0.4, -0.2))
    assert np.all(weights == 0.7)
    assert np.all((cosine < 0.0) == transmitted)
    behind = stats.binom(MANY, fraction)
    assert behind.ppf(1e-4) <= transmitted.sum() <= behind.ppf(1.0 - 1e-4)
    for side in (transmitted, ~transmitted):
        if side.any():
            squared, azimuth = np.sum(across[side] ** 2, axis=1), np.arctan2(across[side, 1], across[side, 0])
            counts, _, _ = np.histogram2d(squared, azimuth, bins=(20, 12), range=((0.0, 1.0), (-np.pi, np.pi)))
            assert p_value(counts, np.full(240, side.sum() / 240)) > 1e-3


@pytest.mark.parametrize("name", RADIAL)
@pytest.mark.parametrize("beta0", [(0.0, 0.0), (0.5, -0.3), (0.0, 0.95)])
def test_radial_lobes_have_the_density_of_their_bsdf(name, beta0):
    lobe = RADIAL[name]
    across, cosine, weights, transmitted = sample(lobe, beta0)
    assert set(np.unique(weights)) <= {0.0, 1.0}
    assert not transmitted.any()
    assert np.all(cosine[weights > 0.0] >= 0.0)
    assert across[weights == 0.0] == pytest.approx(np.tile(beta0, (np.count_nonzero(weights == 0.0), 1)), abs=1e-12)
    edges = np.linspace(-1.0, 1.0, 21)
    kept = across[weights > 0.0]
    counts, _, _ = np.histogram2d(kept[:, 0], kept[:, 1], bins=(edges, edges))
    expected = MANY * radial_lobe(lobe, beta0, edges)
    lost = MANY - len(kept)
    assert p_value(np.append(counts, lost), np.append(expected, MANY - expected.sum())) > 1e-3


@pytest.mark.parametrize("name", RADIAL)
def test_radial_lobes_behind_a_surface_lie_about_the_ray_straight_on(name):
    lobe = type(RADIAL[name])(**{k: v for k, v in vars(RADIAL[name]).items() if k != "transmissive_fraction"})
    lobe.transmissive_fraction = 1.0
    across, cosine, weights, transmitted = sample(lobe, (0.5, -0.3))
    front = sample(RADIAL[name], (0.5, -0.3))
    assert transmitted.all()
    # the same draws, mirrored at the surface
    assert across == pytest.approx(front[0], abs=1e-12)
    assert cosine == pytest.approx(-front[1], abs=1e-9)
    assert np.array_equal(weights, front[2])


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "lobe.csv"
    theta_i, theta_s = [0.0, 30.0, 60.0, 90.0], [0.0, 5.0, 10.0, 20.0, 40.0, 65.0, 90.0]
    rows = [(i, s, 0.9 * math.exp(-s / 12.0) + 0.1 * (1.0 - i / 180.0)) for i in theta_i for s in theta_s]
    path.write_text("\n".join(",".join(map(repr, row)) for row in rows))
    return path


@pytest.mark.parametrize("theta_i", [10.0, 45.0])
def test_a_density_sampler_follows_the_table(table, theta_i):
    lobe = nsq.TabulatedBSDF(table, sampler="density")
    across, cosine, weights, _ = sample(lobe, (math.sin(math.radians(theta_i)), 0.0))
    share = lobe.reflectance(*one_ray(theta_i), None)[0]
    assert weights == pytest.approx(np.full(MANY, share), rel=1e-9)
    assert share < 1.0
    edges = np.linspace(0.0, 90.0, 31)
    theta = np.linspace(0.0, 90.0, 30 * 400 + 1)
    density = lobe.value(theta_i, theta) * np.sin(2.0 * np.radians(theta))
    running = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])[::400]
    expected = np.repeat(np.diff(running) / running[-1] / 8.0, 8) * MANY
    azimuth = np.arctan2(across[:, 1], across[:, 0])
    counts, _, _ = np.histogram2d(
        np.degrees(np.arccos(cosine)), azimuth, bins=(edges, 8), range=((0.0, 90.0), (-np.pi, np.pi))
    )
    assert p_value(counts, expected) > 1e-3


@pytest.mark.parametrize("theta_i", [10.0, 45.0])
def test_a_cosine_sampler_weighs_by_the_table(table, theta_i):
    lobe = nsq.TabulatedBSDF(table)
    across, cosine, weights, _ = sample(lobe, (math.sin(math.radians(theta_i)), 0.0))
    wanted = np.minimum(math.pi * lobe.value(theta_i, np.degrees(np.arccos(cosine))), 1.0)
    assert weights == pytest.approx(wanted, abs=1e-9)
    counts, _ = np.histogram(np.sum(across**2, axis=1), bins=20, range=(0.0, 1.0))
    assert p_value(counts, np.full(20, MANY / 20)) > 1e-3


def one_ray(theta_i):
    angle = math.radians(theta_i)
    return np.array([[math.sin(angle), 0.0, -math.cos(angle)]]), np.array([[0.0, 0.0, 1.0]])


def test_both_samplers_of_a_table_make_the_same_light(tmp_path):
    """Where nothing is clipped the two estimate one integral; the density's is the one without noise."""
    path = tmp_path / "dim.csv"
    rows = [(i, s, 0.25 * math.exp(-s / 30.0)) for i in (0.0, 90.0) for s in (0.0, 15.0, 45.0, 90.0)]
    path.write_text("\n".join(",".join(map(repr, row)) for row in rows))
    beta = (math.sin(math.radians(20.0)), 0.0)
    inside = math.radians(25.0)
    parts = []
    for sampler in ("cosine", "density"):
        _, cosine, weights, _ = sample(nsq.TabulatedBSDF(path, sampler=sampler), beta)
        flux = weights * (cosine > math.cos(inside))
        parts.append((flux.mean(), flux.std() / math.sqrt(MANY)))
    (a, sigma_a), (b, sigma_b) = parts
    assert abs(a - b) < 4.0 * math.hypot(sigma_a, sigma_b)
    assert a > 0.01


def test_every_draw_is_the_keyed_one():
    """phi = 2 pi u1 and cos = sqrt(u2) of a diffuser; the radius from u1 and the azimuth 2 pi u2 of a radial lobe."""
    rng, ids, n = nsq.NSQRng(11), np.arange(50), 50
    u1, u2 = (rng.uniform(ids, 3, slot) for slot in (SLOT.BSDF_U1, SLOT.BSDF_U2))
    branch = rng.uniform(ids, 3, SLOT.BSDF_LOBE_BRANCH)
    rays = np.tile([0.0, 0.0, -1.0], (n, 1)), np.tile([0.0, 0.0, 1.0], (n, 1)), None, rng, ids, 3
    directions, _, transmitted = nsq.LambertianBSDF(1.0, 0.4).sample(n, *rays)
    assert np.array_equal(transmitted, branch < 0.4)
    assert np.abs(directions[:, 2]) == pytest.approx(np.sqrt(u2), abs=1e-12)
    front = directions[~transmitted]
    wanted = np.exp(2j * np.pi * u1[~transmitted]) * np.sqrt(1.0 - u2[~transmitted])
    assert front[:, 0] + 1j * front[:, 1] == pytest.approx(wanted, abs=1e-12)
    lobe = nsq.HarveyShackBSDF(0.1, 0.05, 2.0)
    directions, weights, _ = lobe.sample(n, *rays)
    cumulative = lobe.table()[1:]
    radius = np.interp(u1, cumulative, np.linspace(0.0, 2.0, 4096))
    assert np.array_equal(weights, (radius <= 1.0).astype(float))
    kept = weights > 0.0
    wanted = (radius * np.exp(2j * np.pi * u2))[kept]
    assert directions[kept, 0] + 1j * directions[kept, 1] == pytest.approx(wanted, abs=1e-12)


# ---- energy, reciprocity, degenerate input ---------------------------------------------------------------------------


def every_lobe(table):
    return [
        nsq.SpecularBRDF(),
        nsq.LambertianBSDF(0.6, 0.3),
        *RADIAL.values(),
        nsq.TabulatedBSDF(table),
        nsq.TabulatedBSDF(table, sampler="density"),
    ]


@pytest.mark.parametrize("theta_i", [0.0, 40.0, 85.0])
def test_weights_are_at_most_1_and_their_mean_is_the_reflectance(table, theta_i):
    for lobe in every_lobe(table):
        _, _, weights, _ = sample(lobe, (math.sin(math.radians(theta_i)), 0.0), n=20_000)
        assert weights.min() >= 0.0
        assert weights.max() <= 1.0
        mean = lobe.reflectance(*one_ray(theta_i), None)[0]
        assert weights.mean() == pytest.approx(mean, abs=4.0 * weights.std() / math.sqrt(20_000) + 1e-9)


@pytest.mark.parametrize("name", ["lambertian", *RADIAL])
def test_reciprocity(name):
    """Light from i to s is as bright as light from s to i: flux into a cell of beta, for the same cell either way."""
    lobe = RADIAL.get(name, nsq.LambertianBSDF(0.6))
    first, second, half = np.array([0.45, 0.1]), np.array([0.15, 0.25]), 0.06
    counts = []
    for arriving, leaving in ((first, second), (-second, -first)):
        across, _, weights, _ = sample(lobe, arriving, n=200_000, seed=int(1e3 * arriving[0]) % 97)
        inside = np.all(np.abs(across - leaving) < half, axis=1)
        counts.append(weights[inside].sum())
    assert min(counts) > 500.0
    assert abs(counts[0] - counts[1]) < 4.0 * math.sqrt(sum(counts))


def test_rays_that_hit_nothing_stay_finite(table):
    nothing = np.zeros((64, 3))
    with np.errstate(all="raise"):
        for lobe in every_lobe(table):
            directions, weights, _ = lobe.sample(
                64, nothing, nothing, np.full(64, 0.55), nsq.NSQRng(1), np.arange(64), 0
            )
            assert np.isfinite(directions).all()
            assert np.isfinite(weights).all()


def test_a_mirror_lobe_needs_no_keys():
    arriving = np.array([[0.6, 0.0, -0.8], [0.0, 0.0, -1.0]])
    normals = np.array([[0.0, 0.0, 1.0]] * 2)
    directions, weights, transmitted = nsq.SpecularBRDF().sample(2, arriving, normals, None)
    assert directions == pytest.approx(np.array([[0.6, 0.0, 0.8], [0.0, 0.0, 1.0]]), abs=1e-15)
    assert weights.tolist() == [1.0, 1.0]
    assert not transmitted.any()


def test_a_weight_is_attached_to_the_reflectance():
    share = torch.tensor(0.6, requires_grad=True)
    rays = np.tile([0.0, 0.0, -1.0], (5, 1)), np.tile([0.0, 0.0, 1.0], (5, 1))
    _, weights, _ = nsq.LambertianBSDF(share).sample(5, *rays, None, nsq.NSQRng(1), np.arange(5), 0)
    weights.sum().backward()
    assert share.grad.item() == 5.0


# ---- scenes ----------------------------------------------------------------------------------------------------------


def target(lobe, fraction=1.0, cs=None, reflectance=1.0, **source):
    """A pencil along +z onto a mirror at z = 50 that scatters."""
    scene = nsq.NSQScene()
    scene.add_source("S", CS(), nsq.CollimatedSourceConfig(GREEN, aperture_radius=1e-9, **source))
    surface = nsq.SurfaceConfig(bsdf=lobe, scatter_fraction=fraction)
    mirror = nsq.MirrorConfig(0.0, reflectance, aperture_radius=5.0, surface=surface)
    scene.add_mirror("M", CS(z=50.0) if cs is None else cs, mirror)
    return scene


def test_a_diffuser_has_the_far_field_of_a_cosine():
    """I(0) = 1 / pi and a quarter of the light within 30 degrees."""
    scene = target(nsq.LambertianBSDF(1.0))
    scene.add_detector("far", CS(z=45.0), nsq.FarFieldDetectorConfig(90, 4))
    scene.remove_source("S")
    scene.add_source("S", CS(z=48.0), nsq.CollimatedSourceConfig(GREEN, aperture_radius=1e-9))
    pattern = scene.trace(MANY, seed=3).detectors["far"]
    # light scattered through more than 89.999 degrees is all that the disk does not see
    assert pattern.total_flux_float == pytest.approx(1.0, abs=1e-4)
    within = pattern.flux.numpy()[:30].sum()
    assert within == pytest.approx(0.25, abs=3.0 * math.sqrt(0.25 * 0.75 / MANY))
    rings = pattern.flux.numpy().sum(axis=1)
    squares = np.sin(np.radians(pattern.theta_edges)) ** 2
    assert p_value(rings * MANY, np.diff(squares) * MANY) > 1e-3
    near_axis = pattern.flux.numpy()[:10].sum() / (np.pi * squares[10])
    assert near_axis == pytest.approx(1.0 / math.pi, abs=3.0 / math.pi / math.sqrt(MANY * squares[10]))


def test_an_isotropic_source_has_one_intensity():
    scene = nsq.NSQScene()
    scene.add_source("S", CS(), nsq.PointSourceConfig(GREEN, half_angle_deg=180.0))
    for name, z in (("ahead", 1.0), ("behind", -1.0)):
        scene.add_detector(name, CS(z=z), nsq.FarFieldDetectorConfig(18, 12))
    result = scene.trace(MANY, seed=4)
    ahead, behind = (result.detectors[name] for name in ("ahead", "behind"))
    assert ahead.total_flux_float == pytest.approx(0.5, abs=3.0 * 0.5 / math.sqrt(MANY))
    whole = ahead.flux.numpy() + behind.flux.numpy()
    assert whole.sum() == pytest.approx(1.0, abs=1e-5)
    solid = 2.0 * np.diff(-np.cos(np.radians(ahead.theta_edges))) / 12.0 * (2.0 * np.pi)
    assert p_value(whole * MANY, np.repeat(solid / (4.0 * np.pi), 12).reshape(18, 12) * MANY) > 1e-3
    assert whole.sum() / (4.0 * math.pi) == pytest.approx(0.0795775, rel=1e-4)


def test_light_beyond_the_grid_counts_in_the_total_alone():
    scene = nsq.NSQScene()
    scene.add_source("S", CS(), nsq.PointSourceConfig(GREEN, half_angle_deg=60.0))
    for splat, z in (("hard", 1.0), ("bilinear", 2.0)):
        scene.detector_registry.add(splat, nsq.FarFieldDetector(CS(z=z), 30.0, 6, 4, absorb=False, splat=splat))
    result = scene.trace(20_000, seed=6)
    for splat in ("hard", "bilinear"):
        pattern = result.detectors[splat]
        assert pattern.total_flux_float == pytest.approx(1.0, abs=1e-9)
        within = (1.0 - math.cos(math.radians(30.0))) / (1.0 - math.cos(math.radians(60.0)))
        found = pattern.flux.numpy().sum()
        assert found == pytest.approx(within, abs=4.0 * math.sqrt(within * (1.0 - within) / 20_000))


def test_a_share_is_scattered_and_the_rest_reflected():
    """30 % of the light into a diffuser of 0.8, 70 % straight back; what the diffuser keeps is booked."""
    scene = target(nsq.LambertianBSDF(0.8), 0.3)
    scene.add_detector("back", CS(z=-1.0), nsq.IrradianceDetectorConfig(1e-3, 1e-3, 1, 1))
    scene.add_detector("wide", CS(z=49.0), nsq.IrradianceDetectorConfig(1e4, 1e4, 1, 1, absorb=False))
    scene.remove_source("S")
    scene.add_source("S", CS(z=49.5), nsq.CollimatedSourceConfig(GREEN, aperture_radius=1e-9))
    n = 40_000
    result = scene.trace(n, seed=8, max_depth=4)
    sigma = math.sqrt(0.21 / n)
    assert result.detectors["back"].total_flux_float == pytest.approx(0.7, abs=4.0 * sigma)
    assert result.total_flux_coating == pytest.approx(0.06, abs=4.0 * 0.2 * sigma)
    assert result.detectors["wide"].total_flux_float == pytest.approx(0.94, abs=4.0 * 0.2 * sigma + 1e-4)
    assert result.flux_conservation_error < 1e-12


def test_a_share_goes_through():
    """A diffusing sheet with the same medium on both sides: 40 % behind, 60 % in front."""
    scene = nsq.NSQScene()
    scene.add_source("S", CS(), nsq.CollimatedSourceConfig(GREEN, aperture_radius=1e-9))
    sheet = nsq.RefractiveComponent(
        CS(z=50.0), nsq.PlaneGeometry(), nsq.VACUUM, nsq.VACUUM, bsdf=nsq.LambertianBSDF(1.0, 0.4), name="sheet"
    )
    scene.add_component("sheet", sheet)
    for name, z in (("behind", 100.0), ("before", -1.0)):
        scene.detector_registry.add(name, nsq.RayDatabaseDetector(CS(z=z), nsq.PlaneGeometry(), name=name))
    n = 20_000
    result = scene.trace(n, seed=9)
    behind, before = (result.detectors[name].total_flux_float for name in ("behind", "before"))
    assert behind == pytest.approx(0.4, abs=4.0 * math.sqrt(0.24 / n))
    assert behind + before == pytest.approx(1.0, abs=2e-6)  # a scatter_fraction of 1 is drawn for with 1 - 1e-6


@pytest.mark.parametrize("theta", [0.0, 25.0])
def test_a_scattered_ray_goes_on_in_the_medium_it_is_in(theta):
    """The lobe of a glass face lies about the refracted ray, in the glass, and refracts again at the flat back."""
    scene = nsq.NSQScene()
    scene.add_source("S", CS(rx=math.radians(theta)), nsq.CollimatedSourceConfig(GREEN, aperture_radius=1e-9))
    clear = nsq.SimpleCoating(1.0)
    lobe = nsq.GaussianBSDF(0.002, transmissive_fraction=1.0)
    config = nsq.LensConfig(
        math.inf, math.inf, 10.0, nsq.NSQMaterial.constant(1.5), 200.0,
        front=nsq.SurfaceConfig(bsdf=lobe, coating=clear), back=nsq.SurfaceConfig(coating=clear),
    )  # fmt: skip
    scene.add_lens("plate", CS(z=20.0), config)
    scene.detector_registry.add("D", nsq.RayDatabaseDetector(CS(z=30.0 + 1e-6), nsq.PlaneGeometry()))
    rays = scene.trace(20_000, seed=10).detectors["D"]
    assert rays.total_flux_float == pytest.approx(1.0, abs=2e-6)  # drawn for with probability 1 - 1e-6
    # direction cosines across a plate multiply by the index: the spread of 0.002 in the glass is 0.003 outside
    along = -math.sin(math.radians(theta))
    assert rays.M.numpy().mean() == pytest.approx(along, abs=4.0 * 0.003 / math.sqrt(20_000))
    assert rays.M.numpy().std() == pytest.approx(0.003, rel=0.03)
    assert rays.L.numpy().std() == pytest.approx(0.003, rel=0.03)


def test_a_spectral_detector_keeps_lines_apart():
    spectrum = nsq.Spectrum([0.45, 0.55, 0.65], [1.0, 1.0, 2.0])
    scene = nsq.NSQScene()
    scene.add_source("S", CS(), nsq.CollimatedSourceConfig(spectrum, aperture_radius=4.0))
    pixels = {"width": 10.0, "height": 8.0, "num_pixels_x": 5, "num_pixels_y": 4}
    scene.add_detector("all", CS(z=10.0), nsq.IrradianceDetectorConfig(**pixels, absorb=False))
    scene.add_detector("by line", CS(z=20.0), nsq.SpectralDetectorConfig(**pixels, num_bins=30))
    n = 20_000
    result = scene.trace(n, seed=12)
    lines = result.detectors["by line"]
    # each bin is rounded to the sums' quantum on its own
    assert lines.irradiance.sum(axis=2) == pytest.approx(result.detectors["all"].irradiance, rel=1e-9, abs=1e-12)
    spectrum = lines.spectrum.numpy()
    assert np.flatnonzero(spectrum).tolist() == [5, 15, 25]
    assert spectrum[[5, 15, 25]] == pytest.approx([0.25, 0.25, 0.5], abs=4.0 * math.sqrt(0.25 / n))
    assert lines.total_flux_float == pytest.approx(1.0, abs=1e-9)
    assert lines.num_rays_hit == n


# ---- gradients -------------------------------------------------------------------------------------------------------


def test_derivatives_of_reflectance_and_scatter_fraction():
    """A pencil onto a diffusing mirror before a screen that sees the share g of the diffuse light and all of the rest.

    Flux = f rho g + (1 - f).
    """
    share = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    fraction = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    scene = target(nsq.LambertianBSDF(share), fraction)
    scene.remove_source("S")
    scene.add_source("S", CS(z=45.0), nsq.CollimatedSourceConfig(GREEN, aperture_radius=1e-9))
    scene.add_detector("D", CS(z=40.0), nsq.IrradianceDetectorConfig(20.0, 20.0, 4, 4))
    n = 40_000
    total = scene.trace(n, seed=13).detectors["D"].total_flux
    total.backward()
    # the share of a cosine lobe inside a centred square of half width a at distance a
    g = 4.0 / math.pi * math.atan(1.0 / math.sqrt(2.0)) / math.sqrt(2.0)
    assert total.item() == pytest.approx(0.3 * 0.6 * g + 0.7, abs=4.0 / math.sqrt(n) * 0.5)
    assert share.grad.item() == pytest.approx(0.3 * g, abs=4.0 * math.sqrt(0.3 * g / n))
    # each ray weighs rho / f or -1 / (1 - f)
    sigma = math.sqrt((0.36 * g / 0.3 + 1.0 / 0.7) / n)
    assert fraction.grad.item() == pytest.approx(0.6 * g - 1.0, abs=4.0 * sigma)


@pytest.mark.parametrize("name", ["lambertian", *RADIAL])
def test_a_lobe_turns_with_its_mirror(name):
    """Central differences of the same random numbers: no choice depends on the tilt."""
    lobe = RADIAL.get(name, nsq.LambertianBSDF(0.6))

    def moment(tilt):
        scene = target(lobe, 0.5, CS(z=50.0, rx=tilt))
        rays = nsq.RayDatabaseDetector(CS(z=-1.0), nsq.FinitePlaneGeometry(400.0, 400.0), name="D")
        scene.detector_registry.add("D", rays)
        found = scene.trace(2_000, seed=14).detectors["D"]
        return (found.flux * torch.exp(-((found.y - 20.0) ** 2 + found.x**2) / 800.0)).sum()

    tilt = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(moment(tilt), tilt)
    h = 1e-6
    with torch.no_grad():
        change = (moment(0.1 + h) - moment(0.1 - h)) / (2.0 * h)
    assert slope.item() != 0.0
    assert slope.item() == pytest.approx(change.item(), rel=1e-4)


def test_a_bilinear_far_field_is_differentiable():
    """The mean angle of a narrow cone against the tilt of the detector that reads it."""

    def mean(tilt):
        scene = nsq.NSQScene()
        source = nsq.PointSourceConfig(GREEN, half_angle_deg=4.0)
        scene.add_source("S", CS(ry=0.35), source)
        scene.add_detector("far", CS(z=10.0, rx=tilt), nsq.FarFieldDetectorConfig(30, 24, splat="bilinear"))
        pattern = scene.trace(4_000, seed=15).detectors["far"]
        theta = torch.as_tensor(np.radians(pattern.theta))
        phi = torch.as_tensor(np.radians(pattern.phi))
        return (pattern.flux * theta[:, None] ** 2).sum() + 0.1 * (pattern.flux * torch.sin(phi)).sum()

    tilt = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(mean(tilt), tilt)
    h = 1e-6
    with torch.no_grad():
        change = (mean(0.2 + h) - mean(0.2 - h)) / (2.0 * h)
    assert slope.item() == pytest.approx(change.item(), rel=1e-4)
    assert abs(slope.item()) > 0.01


def test_a_spectral_map_is_differentiable():
    def moment(height):
        scene = nsq.NSQScene()
        spectrum = nsq.Spectrum([0.45, 0.65], [1.0, 1.0])
        scene.add_source("S", CS(y=height), nsq.CollimatedSourceConfig(spectrum, aperture_radius=2.0))
        scene.add_detector("D", CS(z=20.0), nsq.SpectralDetectorConfig(12.0, 12.0, 6, 6, num_bins=6))
        lines = scene.trace(4_000, seed=16).detectors["D"]
        y = torch.as_tensor(lines.y_coords)
        weights = torch.arange(1.0, 7.0, dtype=torch.float64)
        return (lines.flux * weights[:, None, None] * y[:, None] ** 2).sum()

    height = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(moment(height), height)
    h = 1e-6
    with torch.no_grad():
        change = (moment(0.7 + h) - moment(0.7 - h)) / (2.0 * h)
    assert slope.item() == pytest.approx(change.item(), rel=1e-4)
    assert abs(slope.item()) > 0.1


@pytest.mark.parametrize("sampler", ["cosine", "density"])
def test_a_table_behind_a_surface_is_read_at_the_same_incidence(tmp_path, sampler):
    path = tmp_path / "lobe.csv"
    rows = [(i, s, 0.25 * (1.0 - i / 180.0)) for i in (0.0, 30.0, 60.0, 90.0) for s in (0.0, 45.0, 90.0)]
    path.write_text("\n".join(",".join(map(repr, row)) for row in rows))
    rays = np.tile([0.5, 0.0, -math.sqrt(0.75)], (100, 1)), np.tile([0.0, 0.0, 1.0], (100, 1)), None
    rest = nsq.NSQRng(3), np.arange(100), 0
    front = nsq.TabulatedBSDF(path, 0.0, sampler).sample(100, *rays, *rest)
    behind = nsq.TabulatedBSDF(path, 1.0, sampler).sample(100, *rays, *rest)
    assert behind[2].all()
    assert behind[1] == pytest.approx(front[1], abs=1e-12)
    assert behind[0][:, 2] == pytest.approx(-front[0][:, 2], abs=1e-12)
