"""Every sampler against its density, by chi-square: the rays of sources, and the directions of scatter lobes."""

import numpy as np
import pytest

import nsq
from nsq.bsdfs import ABgBSDF, GaussianBSDF, HarveyShackBSDF, LambertianBSDF, SpecularBRDF, TabulatedBSDF

from .. import scenes
from .tools import CS, GREEN, chi_square, near, uniform

RAYS = 200_000
IDS = np.arange(RAYS)


def born(source, seed=21):
    rays = source.generate(IDS, nsq.NSQRng(seed))
    table = {c: np.asarray(getattr(rays, c)) for c in ("x", "y", "z", "L", "M", "N", "wavelength")}
    return {**table, "rho2": table["x"] ** 2 + table["y"] ** 2, "azimuth": turns(table["M"], table["L"])}


def turns(y, x):
    return np.arctan2(y, x) / (2.0 * np.pi) + 0.5


# ---- sources: what should be even between 0 and 1 --------------------------------------------------------------------


@pytest.mark.parametrize("half_angle", [10.0, 90.0, 120.0, 180.0])
def test_a_point_source_is_even_in_solid_angle(half_angle):
    rays = born(nsq.PointSource(CS(), GREEN, half_angle_deg=half_angle))
    uniform((1.0 - rays["N"]) / (1.0 - np.cos(np.radians(half_angle))))
    uniform(rays["azimuth"])
    independent((1.0 - rays["N"]) / (1.0 - np.cos(np.radians(half_angle))), rays["azimuth"])


def independent(u, v):
    """Two numbers, even between 0 and 1, have an even density on the square."""
    counts, *_ = np.histogram2d(u, v, bins=16, range=[[0.0, 1.0], [0.0, 1.0]])
    chi_square(counts, np.full(256, 1.0 / 256.0))


def test_a_disk_is_even_in_area():
    rays = born(nsq.CollimatedSource(CS(), GREEN, aperture_radius=3.0))
    independent(rays["rho2"] / 9.0, turns(rays["y"], rays["x"]))
    assert np.all(rays["N"] == 1.0)


@pytest.mark.parametrize(("sigma", "radius"), [(0.3, 2.0), (0.5, 2.0), (1.0, 2.0)])
def test_a_gaussian_beam_is_cut_at_its_rim(sigma, radius):
    rays = born(nsq.CollimatedSource(CS(), GREEN, 1.0, radius, "gaussian", sigma))
    within = -np.expm1(-0.5 * rays["rho2"] / sigma**2) / -np.expm1(-0.5 * (radius / sigma) ** 2)
    independent(within, turns(rays["y"], rays["x"]))


@pytest.mark.parametrize("half_angle", [25.0, 90.0])
@pytest.mark.parametrize("disk", [None, 1.5])
def test_an_extended_source(half_angle, disk):
    """Even over its area; a cone even in solid angle, and from 90 degrees on Lambertian, even in sin^2."""
    rays = born(nsq.ExtendedSource(CS(), GREEN, 1.0, 3.0, 2.0, disk, half_angle))
    if disk is None:
        u, v = rays["x"] / 3.0 + 0.5, rays["y"] / 2.0 + 0.5
    else:
        u, v = rays["rho2"] / disk**2, turns(rays["y"], rays["x"])
    independent(u, v)
    if half_angle < 90.0:
        w = (1.0 - rays["N"]) / (1.0 - np.cos(np.radians(half_angle)))
    else:
        w = 1.0 - rays["N"] ** 2
    independent(w, rays["azimuth"])
    independent(u, w)  # where and whereto have nothing to do with each other
    independent(v, rays["azimuth"])


def test_lines_come_as_often_as_they_weigh():
    weights = np.array([3.0, 0.5, 1.0, 0.0, 2.0, 5.0, 1.0, 4.0])
    lines = np.linspace(0.4, 0.7, 8)
    rays = born(nsq.PointSource(CS(), nsq.Spectrum(lines, weights)))
    counts = np.array([np.count_nonzero(rays["wavelength"] == w) for w in lines])
    assert counts.sum() == RAYS
    assert counts[3] == 0
    chi_square(counts[weights > 0.0], weights[weights > 0.0] / weights.sum())


# ---- scatter lobes ---------------------------------------------------------------------------------------------------


def scattered(lobe, degrees, seed=8, normal=(0.0, 0.0, 1.0)):
    """Directions in the frame of the normal (z) and the plane of incidence (x), weights, and whether transmitted."""
    normal = np.asarray(normal) / np.linalg.norm(normal)
    along = np.cross([0.3, 0.9, 0.1], normal)
    along /= np.linalg.norm(along)
    angle = np.radians(degrees)
    incident = np.sin(angle) * along - np.cos(angle) * normal
    d, weight, transmitted = lobe.sample(
        RAYS, np.tile(incident, (RAYS, 1)), np.tile(normal, (RAYS, 1)), np.full(RAYS, 0.55), nsq.NSQRng(seed), IDS, 2
    )
    d = np.asarray(d)
    assert np.abs(np.linalg.norm(d, axis=1) - 1.0).max() < 1e-12
    frame = np.stack([along, np.cross(normal, along), normal], axis=1)
    return d @ frame, np.asarray(weight), np.asarray(transmitted)


NORMALS = [(0.0, 0.0, 1.0), (0.2, -0.7, -0.4)]


@pytest.mark.parametrize("normal", NORMALS)
@pytest.mark.parametrize("degrees", [0.0, 70.0])
def test_a_lambertian_lobe_is_even_in_its_projection(degrees, normal):
    d, weight, transmitted = scattered(LambertianBSDF(0.7), degrees, normal=normal)
    assert np.all(d[:, 2] >= 0.0)
    independent(1.0 - d[:, 2] ** 2, turns(d[:, 1], d[:, 0]))
    assert np.all(weight == 0.7)
    assert not transmitted.any()


@pytest.mark.parametrize("fraction", [0.3, 1.0])
def test_a_lobe_behind_the_surface(fraction):
    d, _, transmitted = scattered(LambertianBSDF(1.0, fraction), 30.0)
    assert np.array_equal(d[:, 2] < 0.0, transmitted)
    assert transmitted.all() if fraction == 1.0 else not transmitted.all()
    if fraction < 1.0:
        near(transmitted.mean(), fraction, RAYS)
    for side in {True, bool(fraction == 1.0)}:
        chosen = d[transmitted == side]
        independent(1.0 - chosen[:, 2] ** 2, turns(chosen[:, 1], chosen[:, 0]))


def harvey_shack(b):
    """Of b0 = 10, l0 = sqrt(0.001), s = 2: the ABg curve of a = 0.01, b = 0.001, g = 2."""
    return np.pi * 0.01 * np.log1p(b**2 / 0.001)


RADIAL = {
    "ABg": (ABgBSDF(0.01, 0.001, 2.0), harvey_shack),
    "ABg, g = 1": (ABgBSDF(0.02, 0.05, 1.0), lambda b: 2.0 * np.pi * 0.02 * (b - 0.05 * np.log1p(b / 0.05))),
    "Gaussian": (GaussianBSDF(0.15), lambda b: -np.expm1(-0.5 * (b / 0.15) ** 2)),
    "Harvey-Shack": (HarveyShackBSDF(10.0, np.sqrt(1e-3), 2.0), harvey_shack),
}


@pytest.mark.parametrize("normal", NORMALS)
@pytest.mark.parametrize("degrees", [0.0, 35.0, 80.0])
@pytest.mark.parametrize("name", RADIAL)
def test_a_radial_lobe_by_the_distance_from_its_reference(name, degrees, normal):
    """beta - beta0 has the density BSDF(b) 2 pi b in b, and an even azimuth, wherever the direction exists."""
    lobe, cumulative = RADIAL[name]
    d, weight, transmitted = scattered(lobe, degrees, normal=normal)
    assert set(np.unique(weight)) <= {0.0, 1.0}
    assert not transmitted.any()
    lit = weight == 1.0
    assert np.all(d[:, 2] >= -1e-12)
    offset = d[lit, :2] - [np.sin(np.radians(degrees)), 0.0]
    distance = np.hypot(offset[:, 0], offset[:, 1])
    # even in F(b) and azimuth, but cut by the unit disk: the share of each cell that lies inside, by counting points
    bins, points = 12, 100
    fine = (np.arange(bins * points) + 0.5) / (bins * points)
    steps = np.linspace(0.0, lobe.reach, 200_001)
    radius = np.interp(fine * cumulative(lobe.reach), cumulative(steps), steps)
    azimuth = 2.0 * np.pi * (fine - 0.5)
    x = np.sin(np.radians(degrees)) + radius[:, None] * np.cos(azimuth)
    y = radius[:, None] * np.sin(azimuth)
    inside = (x**2 + y**2 <= 1.0).reshape(bins, points, bins, points).mean(axis=(1, 3)) / bins**2
    if inside.sum() > 1.0 - 1e-9:
        assert lit.mean() > 1.0 - 1e-4
    else:
        near(lit.mean(), inside.sum(), RAYS)
    where = cumulative(distance) / cumulative(lobe.reach), turns(offset[:, 1], offset[:, 0])
    counts, *_ = np.histogram2d(*where, bins=bins, range=[[0.0, 1.0], [0.0, 1.0]])
    # a sliver of a cell without any of the points counts as empty
    assert counts[inside == 0.0].sum() < 10.0
    chi_square(counts[inside > 0.0], inside[inside > 0.0] / inside.sum())


def test_light_straight_on_is_the_reference_behind_a_surface():
    lobe = ABgBSDF(0.01, 0.001, 2.0, transmissive_fraction=1.0)
    d, weight, transmitted = scattered(lobe, 35.0)
    assert transmitted.all()
    assert np.all(d[weight > 0.0, 2] <= 1e-12)
    offset = np.hypot(d[:, 0] - np.sin(np.radians(35.0)), d[:, 1])[weight > 0.0]
    inner = offset < 1.0 - np.sin(np.radians(35.0))  # the largest circle that lies whole in the disk
    cut = np.log1p((1.0 - np.sin(np.radians(35.0))) ** 2 / 0.001)
    uniform(np.log1p(offset[inner] ** 2 / 0.001) / cut)


def write(path, theta_i, theta_s, function):
    lines = [f"{i},{s},{function(i, s)!r}" for i in theta_i for s in theta_s]
    path.write_text("\n".join(lines) + "\n")
    return path


def bright(i, s):
    return float(0.3 * np.exp(-(((s - 0.4 * i) / 25.0) ** 2)) * (1.0 - i / 400.0))


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "t.csv", [0.0, 30.0, 60.0, 90.0], [0.0, 5.0, 12.0, 25.0, 40.0, 60.0, 90.0], bright)


@pytest.mark.parametrize("degrees", [0.0, 20.0, 30.0, 77.0])
@pytest.mark.parametrize("sampler", ["cosine", "density"])
def test_a_table_scatters_its_own_bsdf(table, degrees, sampler):
    """The flux in every ring is the integral of BSDF cos: as counts of one weight, or as weights of even counts."""
    lobe = TabulatedBSDF(table, sampler=sampler)
    d, weight, transmitted = scattered(lobe, degrees)
    assert not transmitted.any()
    theta = np.degrees(np.arctan2(np.hypot(d[:, 0], d[:, 1]), d[:, 2]))
    edges = np.linspace(0.0, 90.0, 19)
    fine = np.linspace(0.0, 90.0, 18_001)
    angle = np.radians(0.5 * (fine[1:] + fine[:-1]))
    density = 2.0 * np.pi * lobe.value(degrees, np.degrees(angle)) * np.cos(angle) * np.sin(angle) * np.radians(0.005)
    rings = density.reshape(18, 1000).sum(axis=1)
    uniform(turns(d[:, 1], d[:, 0]))
    if sampler == "density":
        assert np.abs(weight / rings.sum() - 1.0).max() < 1e-6
        counts, _ = np.histogram(theta, bins=edges)
        chi_square(counts, rings / rings.sum())
        return
    assert np.abs(weight - np.pi * lobe.value(degrees, theta)).max() < 1e-9
    flux, _ = np.histogram(theta, bins=edges, weights=weight)
    square, _ = np.histogram(theta, bins=edges, weights=weight**2)
    sigma = np.sqrt(square) / RAYS  # at most this: the mean's own square is left out
    assert np.all(np.abs(flux / RAYS - rings) < 4.5 * sigma)


LOBES = {
    "specular": SpecularBRDF(),
    "lambertian": LambertianBSDF(0.8, 0.25),
    **{name: lobe for name, (lobe, _) in RADIAL.items()},
}


@pytest.mark.parametrize("degrees", [0.0, 45.0, 85.0])
@pytest.mark.parametrize("name", [*LOBES, "cosine", "density"])
def test_no_lobe_makes_light(name, degrees, table):
    """No weight above one, and the mean weight is the reflectance that the lobe states."""
    lobe = LOBES[name] if name in LOBES else TabulatedBSDF(table, sampler=name)
    _, weight, _ = scattered(lobe, degrees)
    assert weight.min() >= 0.0
    assert weight.max() <= 1.0 + 1e-9
    angle = np.radians([degrees])
    incident = np.stack([np.sin(angle), 0.0 * angle, -np.cos(angle)], axis=1)
    stated = float(lobe.reflectance(incident, np.array([[0.0, 0.0, 1.0]]), np.array([0.55]))[0])
    assert stated <= 1.0 + 1e-12
    sigma = max(np.std(weight) / np.sqrt(RAYS), 1e-4)  # a table in steps: the stated value is known to 1e-4
    assert np.mean(weight) == pytest.approx(stated, abs=4.0 * sigma)


@pytest.mark.parametrize("name", ["lambertian", "ABg", "Gaussian"])
def test_lobes_are_reciprocal(name):
    """Light from angle a within a cell about angle b against light from b within the cell about a.

    A cell is a patch of projected solid angle, so the flux in it is BSDF x patch on both sides. The patches lie in the
    plane of incidence, on the specular side.
    """
    lobe = LOBES[name]
    size = 0.05
    pairs = [(0.2, 0.35), (0.6, 0.5), (0.0, 0.1)]
    for one, other in pairs:
        found = []
        for a, b in ((one, other), (other, one)):
            d, weight, transmitted = scattered(lobe, np.degrees(np.arcsin(a)), seed=17)
            cell = (np.abs(d[:, 0] - b) < size) & (np.abs(d[:, 1]) < size) & ~transmitted
            found.append((weight[cell].sum(), np.sum(weight[cell] ** 2)))
        (f, v), (g, w) = found
        assert f > 50.0
        assert abs(f - g) < 4.0 * np.sqrt(v + w)


@pytest.mark.parametrize("sampler", ["cosine", "density"])
def test_a_table_is_reciprocal_where_its_numbers_are(sampler, tmp_path):
    """The same value at (i, s) and (s, i): as much flux in a ring of projected solid angle either way."""
    angles = [0.0, 20.0, 40.0, 60.0, 90.0]
    path = write(tmp_path / "even.csv", angles, angles, lambda i, s: float(0.2 * np.exp(-(((s - i) / 30.0) ** 2))))
    lobe, size = TabulatedBSDF(path, sampler=sampler), 0.05
    one, other = 0.25, 0.6  # sin^2 of the two angles
    found = []
    for a, b in ((one, other), (other, one)):
        d, weight, _ = scattered(lobe, np.degrees(np.arcsin(np.sqrt(a))), seed=23)
        ring = np.abs(1.0 - d[:, 2] ** 2 - b) < size
        found.append((weight[ring].sum(), np.sum(weight[ring] ** 2)))
    (f, v), (g, w) = found
    assert f > 500.0
    # a ring is not thin: its mean over the width is off by less than a two-hundredth
    assert abs(f - g) < 4.0 * np.sqrt(v + w) + 0.005 * f


def test_the_trace_draws_what_the_lobe_draws():
    """Ray for ray: the direction of a ray in a scene is `sample` at the keys of that ray and bounce."""
    lobe, count = LambertianBSDF(0.5), 500
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=1.0)
    scene.add_source("S", CS(z=5.0), beam)
    mirror = nsq.ReflectiveComponent(CS(z=10.0, rx=0.3), nsq.PlaneGeometry(), 0.9, bsdf=lobe)
    scene.add_component("M", mirror)
    detector = nsq.detectors.RayDatabaseDetector(CS(z=10.0), nsq.SphereGeometry(9.0), name="D")
    scene.detector_registry.add("D", detector)
    rays = scene.trace(count, seed=5).detectors["D"]
    ids = rays.ray_id.numpy()
    normal = np.array([0.0, np.sin(0.3), -np.cos(0.3)])
    tile = np.ones((len(ids), 1))
    d, w, _ = lobe.sample(len(ids), tile * [0.0, 0.0, 1.0], tile * normal, None, nsq.NSQRng(5), ids, 0)
    back = rays.N.numpy() < 1.0
    assert back.all()
    assert len(ids) > 0.9 * count
    found = np.stack([rays.L.numpy(), rays.M.numpy(), rays.N.numpy()], axis=1)
    assert found[back] == pytest.approx(d[back], abs=1e-12)
    assert rays.flux.numpy()[back] * count == pytest.approx(0.9 * w[back] / (1.0 - 1e-6), rel=1e-12)


@pytest.mark.parametrize(("sigma", "radius"), [(4.0, 2.0), (20.0, 2.0)])
def test_a_gaussian_beam_wider_than_its_aperture(sigma, radius):
    """Nearly even over the disk, and nothing gathers on the rim."""
    rays = born(nsq.CollimatedSource(CS(), GREEN, 1.0, radius, "gaussian", sigma))
    within = -np.expm1(-0.5 * rays["rho2"] / sigma**2) / -np.expm1(-0.5 * (radius / sigma) ** 2)
    independent(np.minimum(within, 1.0), turns(rays["y"], rays["x"]))
    assert np.mean(np.sqrt(rays["rho2"]) > radius * (1.0 - 1e-9)) < 1e-3
