"""Scatter towards targets: the mixture is sampled as it says, moves no mean, and lowers the error where it should."""

import math

import numpy as np
import pytest
import torch

import nsq
from nsq.bsdfs import ABgBSDF, GaussianBSDF, HarveyShackBSDF, LambertianBSDF, SpecularBRDF, TabulatedBSDF

from . import scenes
from .validation.tools import CS, GREEN, OFF, chi_square, columns, enclose, glass, pencil

Target = nsq.ImportanceTarget
RAYS = 100_000
SURE = 1.0 - 1e-6  # the largest probability of scattering
ARRIVING = np.array([0.4, 0.0, math.sqrt(0.84)])
BALL = (np.array([2.0, 1.0, -6.0]), 1.0)  # before the mirror, beside the specular direction
BEHIND = (np.array([1.0, -1.0, 7.0]), 1.5)


def write_table(path):
    rows = [
        (i, s, 0.25 * math.exp(-(((s - 0.5 * i) / 30.0) ** 2))) for i in (0, 30, 60, 90) for s in (0, 10, 30, 60, 90)
    ]
    path.write_text("\n".join(",".join(map(repr, row)) for row in rows))
    return path


def lobe_named(name, path):
    if name.startswith("tabulated"):
        fraction = 0.3 if "behind" in name else 0.0
        return TabulatedBSDF(write_table(path / "t.csv"), fraction, "density" if "density" in name else "cosine")
    return {
        "lambertian": LambertianBSDF(0.8),
        "lambertian behind": LambertianBSDF(0.8, 0.35),
        "harvey-shack": HarveyShackBSDF(0.1, 0.3, 1.5),
        "abg": ABgBSDF(0.02, 0.05, 2.0),
        "abg behind": ABgBSDF(0.02, 0.05, 2.0, 0.4),
        "gaussian": GaussianBSDF(0.3),
        "gaussian behind": GaussianBSDF(0.3, 1.0),
    }[name]


NAMES = (
    "lambertian", "lambertian behind", "harvey-shack", "abg", "abg behind", "gaussian", "gaussian behind",
    "tabulated cosine", "tabulated density", "tabulated density behind",
)  # fmt: skip


def scattered(lobe, importance, rays=RAYS, seed=3, **options):
    """Directions and weights of light that a flat mirror, or an interface in one medium, scatters at the origin."""
    scene = nsq.NSQScene()
    pencil(scene, "S", -0.5 * ARRIVING, ARRIVING)
    surface = {"bsdf": lobe, "importance": importance, "name": "M"}
    if float(lobe.transmissive_fraction):
        part = nsq.RefractiveComponent(CS(), nsq.PlaneGeometry(), nsq.VACUUM, nsq.VACUUM, **surface)
    else:
        part = nsq.ReflectiveComponent(CS(), nsq.PlaneGeometry(), 1.0, **surface)
    scene.add_component("M", part)
    enclose(scene, "D", 20.0)
    scene.sampling_policy = OFF
    result = scene.trace(rays, min_flux_fraction=0.0, seed=seed, max_depth=2, **options)
    assert result.flux_conservation_error < 1e-12
    _, direction, flux, ids = columns(result.detectors["D"])
    assert len(ids) == rays
    return direction, flux * rays * SURE, result


def lobe_value(lobe, out):
    """Flux per steradian (n,) of a unit that arrives, by the lobe's own BSDF, and the sampler's probability of it."""
    cosine, front = np.abs(out[:, 2]), out[:, 2] < 0.0
    behind = float(lobe.transmissive_fraction)
    chance = np.where(front, 1.0 - behind, behind)
    if isinstance(lobe, LambertianBSDF):
        return lobe.reflectance_value * chance * cosine / np.pi, chance * cosine / np.pi
    if isinstance(lobe, TabulatedBSDF):
        theta_i = math.degrees(math.asin(ARRIVING[0]))
        value = chance * lobe.value(theta_i, np.degrees(np.arccos(cosine))) * cosine
        if lobe.sampler == "cosine":
            return value, chance * cosine / np.pi
        total = float(lobe.reflectance(-ARRIVING[None] * [-1, -1, 1], np.array([[0.0, 0.0, 1.0]]), None)[0])
        return value, value / total
    value = lobe.value(np.hypot(out[:, 0] - ARRIVING[0], out[:, 1])) / lobe.cumulative()[-1]
    value = np.where(np.hypot(out[:, 0] - ARRIVING[0], out[:, 1]) <= lobe.reach, value, 0.0)
    return value * chance * cosine, value * chance * cosine


def cone_of(centre, radius):
    far = np.linalg.norm(centre)
    return centre / far, 1.0 - math.sqrt(1.0 - (radius / far) ** 2)


def mixture(lobe, out, targets):
    value, chance = lobe_value(lobe, out)
    total = (1.0 - sum(share for *_, share in targets)) * chance
    for centre, radius, share in targets:
        axis, versine = cone_of(centre, radius)
        total = total + np.where(1.0 - out @ axis <= versine, share / (2.0 * np.pi * versine), 0.0)
    return value, total


AIMS = ((*BALL, 0.3), (*BEHIND, 0.2))
AIMED = tuple(Target(centre=centre, radius=radius, share=share) for centre, radius, share in AIMS)


# ---- the sampler -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_is_the_bsdf_over_the_mixtures_probability(name, tmp_path):
    """Ray by ray, to the steps of the lobe's table; at most twice the lobe's own, since half of all follow it."""
    lobe = lobe_named(name, tmp_path)
    out, weight, _ = scattered(lobe, AIMED, rays=20_000)
    value, chance = mixture(lobe, out, AIMS)
    value, chance = np.maximum(value, 1e-300), np.maximum(chance, 1e-300)
    lit = weight > 0.0
    assert lit.mean() > 0.3
    exact = isinstance(lobe, LambertianBSDF) or (isinstance(lobe, TabulatedBSDF) and lobe.sampler == "cosine")
    near = np.hypot(out[:, 0] - ARRIVING[0], out[:, 1]) < 0.01  # some steps of a radial table from its peak
    compared = lit & ~(near & (not exact))
    assert np.abs(weight / (value / chance) - 1.0)[compared].max() < (1e-9 if exact else 2e-2)
    assert weight.max() <= 2.0 * (0.8 if isinstance(lobe, LambertianBSDF) else 1.0) * (1.0 + 1e-3)


@pytest.mark.parametrize("name", ["lambertian behind", "abg", "tabulated density"])
def test_directions_follow_the_mixture(name, tmp_path):
    """By chi-square: in each target's cone on a grid even in solid angle, outside of both on one even in projection."""
    lobe = lobe_named(name, tmp_path)
    out, weight, _ = scattered(lobe, AIMED, rays=200_000, seed=11)
    inside = np.zeros(len(out), dtype=bool)
    counts, shares = [], []
    # what a cone should hold: points even in solid angle, a hundred by eighty in each cell, weighed by the mixture
    low, phi = np.meshgrid((np.arange(600) + 0.5) / 600, (np.arange(640) + 0.5) / 320 - 1.0, indexing="ij")
    for centre, radius, _ in AIMS:
        axis, versine = cone_of(centre, radius)
        side = np.cross(axis, [0.0, 1.0, 0.0])
        side /= np.linalg.norm(side)
        frame = np.stack([side, np.cross(axis, side), axis])
        lit = (1.0 - out @ axis <= versine) & (weight > 0.0)
        inside |= lit
        local = out[lit] @ frame.T
        where = (1.0 - local[:, 2]) / versine, np.arctan2(local[:, 1], local[:, 0]) / np.pi
        counts.append(np.histogram2d(*where, bins=(6, 8), range=((0.0, 1.0), (-1.0, 1.0)))[0].ravel())
        sine = np.sqrt(versine * low * (2.0 - versine * low))
        points = np.stack([sine * np.cos(np.pi * phi), sine * np.sin(np.pi * phi), 1.0 - versine * low], axis=-1)
        value, chance = mixture(lobe, points.reshape(-1, 3) @ frame, AIMS)
        # a draw that weighs nothing goes on along the specular ray
        chance = np.where(value > 0.0, chance, 0.0).reshape(6, 100, 8, 80).mean(axis=(1, 3))
        shares.append((chance * 2.0 * np.pi * versine / 48.0).ravel())
    rest = (weight > 0.0) & ~inside
    _, chance = lobe_value(lobe, out[rest])
    assert np.all(chance > 0.0)
    counts, shares = np.concatenate(counts), np.concatenate(shares)
    leftover = len(out) - counts.sum()
    chi_square(np.append(counts, leftover), np.append(shares, 1.0 - shares.sum()))
    # the lobe's part, outside of the cones: half of what the lobe draws on its own
    alone, alone_weight, _ = scattered(lobe, None, rays=200_000, seed=12)
    keep = alone_weight > 0.0
    for centre, radius, _ in AIMS:
        axis, versine = cone_of(centre, radius)
        keep &= 1.0 - alone @ axis > versine
    grid = {"bins": (8, 8), "range": ((-1.0, 1.0), (-1.0, 1.0))}
    found = np.histogram2d(out[rest, 0], out[rest, 1], **grid)[0].ravel()
    wanted = np.histogram2d(alone[keep, 0], alone[keep, 1], **grid)[0].ravel()
    seen = found + wanted > 40.0
    z = (found - 0.5 * wanted)[seen] / np.sqrt(found + 0.25 * wanted)[seen]
    assert np.sum(z**2) < seen.sum() + 4.0 * math.sqrt(2.0 * seen.sum())


@pytest.mark.parametrize("name", NAMES)
def test_targets_move_no_mean(name, tmp_path):
    """The flux in every patch of beta on either side, and in the cones, with targets and without: 4.5 sigma each."""
    lobe = lobe_named(name, tmp_path)
    sums = []
    for importance, seed in ((AIMED, 21), (None, 22)):
        out, weight, _ = scattered(lobe, importance, seed=seed)
        patch = np.floor((out[:, 0] + 1.0) * 2.5) * 5 + np.floor((out[:, 1] + 1.0) * 2.5) + 100.0 * (out[:, 2] > 0.0)
        for place, (centre, radius, _) in enumerate(AIMS):
            axis, versine = cone_of(centre, radius)
            patch = np.where(1.0 - out @ axis <= versine, 200.0 + place, patch)
        sums.append({
            key: (weight[patch == key].sum() / RAYS, np.sum(weight[patch == key] ** 2) / RAYS**2)
            for key in [*range(25), *range(100, 125), 200, 201]
        })  # fmt: skip
    tested = 0
    for key, (with_targets, variance) in sums[0].items():
        without, other = sums[1][key]
        if max(with_targets, without) * RAYS > 50.0:
            tested += 1
            assert abs(with_targets - without) < 4.5 * math.sqrt(variance + other), key
    assert tested > 5


def test_a_small_lambertian_patch_and_a_far_disk():
    """sin^2 of the disk's half angle, 9.9990e-5: with importance sampling and without, and what it is worth."""
    expected, found = 1.0 / (1.0 + 100.0**2), {}
    assert expected == pytest.approx(9.9990e-5, rel=1e-5)
    for name, importance, rays in (("plain", None, 800_000), ("aimed", Target("D", share=0.8), 50_000)):
        scene = nsq.NSQScene()
        pencil(scene, "S", (0.0, 0.0, -0.5), (0.0, 0.0, 1.0))
        patch = nsq.ReflectiveComponent(CS(), nsq.PlaneGeometry(), 1.0, bsdf=LambertianBSDF(1.0), importance=importance)
        scene.add_component("patch", patch)
        disk = nsq.FinitePlaneGeometry(aperture_radius=1.0)
        scene.detector_registry.add("D", nsq.RayDatabaseDetector(CS(z=-100.0), disk, name="D"))
        result = scene.trace(rays, seed=5)  # the default policy: roulette must not undo it
        flux = result.detectors["D"].flux.numpy() * rays
        mean = flux.sum() / rays
        assert mean == pytest.approx(result.total_flux_detected, rel=1e-9)
        found[name] = mean, math.sqrt((np.sum(flux**2) / rays - mean**2) / rays), rays
        assert result.flux_conservation_error < 1e-12
    (plain, plain_error, n), (aimed, aimed_error, m) = found["plain"], found["aimed"]
    assert abs(plain - expected) < 3.0 * plain_error
    assert abs(aimed - expected) < 3.0 * aimed_error
    assert abs(plain - aimed) < 3.0 * math.hypot(plain_error, aimed_error)
    assert aimed_error < 0.01 * expected
    # per ray: a hundred times lower, ten thousand times fewer rays
    assert plain_error * math.sqrt(n) > 100.0 * aimed_error * math.sqrt(m)


def test_total_integrated_scatter_stays(tmp_path):
    """A = 0.01, B = 0.001, g = 2: pi A ln(1 + 1/B), whatever is aimed at."""
    lobe = ABgBSDF(0.01, 0.001, 2.0)
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -5.0), (0.0, 0.0, 1.0))
    fraction = lobe.total_integrated_scatter
    aim = Target(centre=(5.0, 0.0, -5.0), radius=1.0)
    surface = {"bsdf": lobe, "scatter_fraction": fraction, "importance": aim}
    scene.add_component("M", nsq.ReflectiveComponent(CS(), nsq.PlaneGeometry(), 1.0, **surface))
    enclose(scene, "D", 10.0)
    scene.sampling_policy = OFF
    rays = 400_000
    result = scene.trace(rays, min_flux_fraction=0.0, seed=4)
    _, direction, flux, _ = columns(result.detectors["D"])
    off = flux[np.hypot(direction[:, 0], direction[:, 1]) > 1e-12] * rays
    error = math.sqrt((np.sum(off**2) / rays - fraction**2) / rays)
    assert fraction == pytest.approx(0.217045, rel=5e-6)
    assert abs(off.sum() / rays - fraction) < 3.0 * error
    # half of the rays may carry up to twice what came, the other half next to nothing: one balances the other
    assert result.total_flux_coating == pytest.approx(1.0 - flux.sum(), abs=1e-9)


# ---- what must not change --------------------------------------------------------------------------------------------


def room(importance, **surface):
    """A rough lens before a rough mirror, with a screen beside the lamp."""
    scene = nsq.NSQScene()
    scene.add_source("S", CS(z=-30.0), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=3.0))
    front = nsq.SurfaceConfig(bsdf=LambertianBSDF(0.8, 0.7), scatter_fraction=0.5, importance=importance)
    scene.add_lens("L", CS(), nsq.LensConfig(60.0, -60.0, 5.0, glass(1.5, 1e-6), 10.0, front=front))
    mirror = nsq.MirrorConfig(
        -80.0, 0.9, surface=nsq.SurfaceConfig(bsdf=GaussianBSDF(0.2), importance=importance, **surface)
    )
    scene.add_mirror("M", CS(z=40.0), mirror)
    scene.add_detector("D", CS(y=12.0, z=-20.0), nsq.IrradianceDetectorConfig(8.0, 8.0, 8, 8))
    return scene


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_batches_and_threads_give_the_same_bits(precision):
    results = []
    for threads, batch in ((1, 16384), (2, 7), (2, 5000)):
        nsq.set_num_threads(threads)
        try:
            results.append(room((Target("D"), Target("L.front", share=0.2))).trace(
                20_000, seed=6, batch_size=batch, precision=precision
            ))  # fmt: skip
        finally:
            nsq.set_num_threads(None)
    for other in results[1:]:
        assert scenes.ledger(other) == scenes.ledger(results[0])
        assert np.array_equal(other.detectors["D"].irradiance, results[0].detectors["D"].irradiance)
    plain = room(None).trace(200_000, seed=7).total_flux_detected
    assert results[0].total_flux_detected == pytest.approx(plain, rel=0.1)


def test_an_empty_list_of_targets_is_none():
    a, b = (room(importance).trace(5000, seed=8) for importance in (None, ()))
    assert scenes.ledger(a) == scenes.ledger(b)


def test_a_point_within_the_target_follows_the_lobe(tmp_path):
    lobe = LambertianBSDF(0.8)
    within, weight, _ = scattered(lobe, Target(centre=(0.0, 0.0, 0.5), radius=2.0), rays=5000)
    without, plain, _ = scattered(lobe, None, rays=5000)
    assert within == pytest.approx(without, abs=1e-12)
    assert weight == pytest.approx(plain, rel=1e-12)


def test_splitting_goes_with_targets():
    scene = room(Target("D"))
    scene.sampling_policy = nsq.SamplingPolicy(split_depth=3, split_budget=8.0)
    found = [scene.trace(20_000, seed=seed) for seed in range(6)]
    assert all(result.flux_conservation_error < 1e-9 for result in found)
    plain = [room(Target("D")).trace(20_000, seed=50 + seed).total_flux_detected for seed in range(6)]
    split = [result.total_flux_detected for result in found]
    error = math.hypot(np.std(plain, ddof=1), np.std(split, ddof=1)) / math.sqrt(6)
    assert abs(np.mean(plain) - np.mean(split)) < 4.0 * error


# ---- gradients -------------------------------------------------------------------------------------------------------


def facing_ball(lobe, tilt, fraction=1.0, share=0.9):
    """A pencil onto a tilted mirror that scatters towards a ball, which reads what it gets."""
    scene = nsq.NSQScene()
    pencil(scene, "S", -0.5 * ARRIVING, ARRIVING)
    surface = {"bsdf": lobe, "importance": Target("D", share=share), "scatter_fraction": fraction}
    scene.add_component("M", nsq.ReflectiveComponent(CS(ry=tilt), nsq.PlaneGeometry(), 1.0, **surface))
    x, y, z = BALL[0]
    ball = nsq.RayDatabaseDetector(CS(x=x, y=y, z=z), nsq.SphereGeometry(BALL[1]), name="D")
    scene.detector_registry.add("D", ball)
    scene.sampling_policy = OFF
    return scene


def flux_by_quadrature(lobe, tilt):
    """What the ball gets, with the lobe's BSDF summed over the cone that it fills."""
    axis, versine = cone_of(*BALL)
    low, phi = np.meshgrid((np.arange(300) + 0.5) / 300 * versine, (np.arange(300) + 0.5) / 150 * np.pi)
    sine = np.sqrt(low * (2.0 - low)).ravel()
    side = np.cross(axis, [0.0, 1.0, 0.0])
    side /= np.linalg.norm(side)
    out = (
        sine[:, None] * (np.cos(phi).ravel()[:, None] * side + np.sin(phi).ravel()[:, None] * np.cross(axis, side))
        + (1.0 - low.ravel()[:, None]) * axis
    )
    normal = -np.array([math.sin(tilt), 0.0, math.cos(tilt)])  # towards the light
    cosine = out @ normal
    if isinstance(lobe, LambertianBSDF):
        value = float(lobe.reflectance_value) / np.pi
    elif isinstance(lobe, TabulatedBSDF):
        value = lobe.value(np.degrees(np.arccos(-ARRIVING @ normal)), np.degrees(np.arccos(cosine)))
    else:
        offset = out - ARRIVING
        across = offset - (offset @ normal)[:, None] * normal
        value = lobe.value(np.linalg.norm(across, axis=1)) / lobe.cumulative()[-1]
    return float(np.mean(value * cosine) * 2.0 * np.pi * versine)


@pytest.mark.parametrize("name", ["lambertian", "abg", "gaussian", "tabulated cosine", "tabulated density"])
def test_the_gradient_of_a_tilt(name, tmp_path):
    """The direction is a number and the weight is attached: d/d(tilt) of the integral over the cone, 4 sigma."""
    lobe, tilt = lobe_named(name, tmp_path), 0.13
    h = 1e-4
    flux = flux_by_quadrature(lobe, tilt)
    slope = (flux_by_quadrature(lobe, tilt + h) - flux_by_quadrature(lobe, tilt - h)) / (2.0 * h)
    values, slopes = [], []
    for seed in range(8):
        angle = torch.tensor(tilt, dtype=torch.float64, requires_grad=True)
        total = facing_ball(lobe, angle).trace(20_000, seed=seed).detectors["D"].total_flux
        total.backward()
        values.append(total.item())
        slopes.append(angle.grad.item())
    for found, expected in ((values, flux), (slopes, slope)):
        error = np.std(found, ddof=1) / math.sqrt(len(found))
        assert abs(np.mean(found) - expected) < 4.0 * error + 1e-4 * abs(expected), (found, expected)
        assert error < 0.02 * abs(expected)


def test_gradients_of_reflectance_and_share_are_those_of_what_was_drawn():
    """At the same random numbers the flux is linear in the reflectance; its derivative to the share has its mean."""
    numbers = {"rho": 0.6, "fraction": 0.3}

    def flux(rho, fraction):
        scene = facing_ball(LambertianBSDF(rho), 0.1, fraction)
        return scene.trace(20_000, seed=2).detectors["D"].total_flux

    leaves = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in numbers.items()}
    flux(**leaves).backward()
    difference = (flux(0.65, 0.3) - flux(0.55, 0.3)).item() / 0.1
    assert leaves["rho"].grad.item() == pytest.approx(difference, rel=1e-9)
    assert leaves["fraction"].grad.item() == pytest.approx(flux_by_quadrature(LambertianBSDF(0.6), 0.1), rel=0.05)


# ---- scatter on a sag ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("importance", [None, Target(centre=(0.0, 5.0, -20.0), radius=3.0)])
def test_an_asphere_scatters_about_its_own_normal(importance):
    """A conic given by its sag scatters ray by ray as the quadric does, with the same gradient."""
    found = []
    for shape in (nsq.ConicGeometry, nsq.EvenAsphereGeometry):
        radius = torch.tensor(-30.0, dtype=torch.float64, requires_grad=True)
        scene = nsq.NSQScene()
        scene.add_source("S", CS(z=-10.0), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=6.0))
        surface = {"bsdf": GaussianBSDF(0.1), "importance": importance}
        scene.add_component("M", nsq.ReflectiveComponent(CS(), shape(radius, -0.5, 8.0), 1.0, **surface))
        scene.add_detector("D", CS(z=-15.0), nsq.RayDatabaseConfig(60.0, 60.0))
        rays = scene.trace(2000, seed=3).detectors["D"]
        (rays.flux * (rays.x**2 + rays.y)).sum().backward()
        found.append((np.stack([rays.x.detach(), rays.y.detach(), rays.flux.detach() * 2000]), radius.grad.item()))
    assert found[0][0].shape[1] > 1500
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-7)
    assert found[0][1] == pytest.approx(found[1][1], rel=1e-6)


# ---- names and errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["D", "L", "L.front", "M", "M.surface"])
def test_a_target_is_whatever_has_a_name(target):
    result = room(Target(target)).trace(2000, seed=1)
    assert result.flux_conservation_error < 1e-9


def test_a_compound_is_a_sphere_around_all_of_it():
    from nsq.lowering.targets import lower_targets

    scene = room(Target("L"))
    starts, table = lower_targets(scene)
    names = [surface.name for surface in scene.surfaces]
    assert [start >= 0 for start in starts] == [name in ("L.front", "M.surface") for name in names]
    centre, radius, share = table[1:4], table[4], table[5]
    assert (table[0], share) == (1.0, 0.5)
    # the rims of the faces, 10 mm from the axis, and the vertices at 0 and 5
    for point in ((10.0, 0.0, 0.8), (0.0, -10.0, 4.2), (0.0, 0.0, 0.0), (0.0, 0.0, 5.0)):
        assert np.linalg.norm(centre - point) <= radius
    assert radius < 12.2
    assert nsq.lowering.surfaces.bounding_sphere(nsq.SphereGeometry(3.0))[1] == 3.0
    assert nsq.lowering.surfaces.bounding_sphere(nsq.FinitePlaneGeometry(6.0, 8.0))[1] == 5.0
    assert nsq.lowering.surfaces.bounding_sphere(nsq.FinitePlaneGeometry(aperture_radius=2.0))[1] == 2.0


def test_targets_are_saved(tmp_path):
    importance = (Target("D", share=0.25), Target(centre=(1.0, -2.0, 0.1), radius=3.0, share=0.3))
    scene = room(importance)
    scene.to_json(tmp_path / "scene.json")
    again = nsq.NSQScene.from_json(tmp_path / "scene.json")
    assert again.surfaces[0].importance == importance
    assert scenes.ledger(again.trace(2000, seed=3)) == scenes.ledger(scene.trace(2000, seed=3))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Target(), ValueError, ["target, centre and radius", "a name alone"]),
        (lambda: Target("D", radius=1.0), ValueError, ["a name alone"]),
        (lambda: Target(centre=(0, 0, 0)), ValueError, ["a centre and a radius"]),
        (lambda: Target(3), TypeError, ["target", "3", "name"]),
        (lambda: Target("D", share=1.0), ValueError, ["share", "1.0", "between 0 and 1"]),
        (lambda: Target("D", share=torch.tensor(0.5, requires_grad=True)), ValueError, ["share", "not differentiated"]),
        (lambda: Target(centre=(0, 0), radius=1.0), ValueError, ["centre", "three"]),
        (lambda: Target(centre="here", radius=1.0), TypeError, ["centre", "here"]),
        (lambda: Target(centre=(0, 0, 0), radius=-1.0), ValueError, ["radius", "> 0"]),
        (lambda: nsq.SurfaceConfig(importance=Target("D")), ValueError, ["importance", "without a bsdf"]),
        (lambda: nsq.SurfaceConfig(bsdf=SpecularBRDF(), importance=Target("D")), ValueError, ["SpecularBRDF"]),
        (lambda: nsq.SurfaceConfig(bsdf=LambertianBSDF(), importance="D"), TypeError, ["importance", "'D'"]),
        (lambda: nsq.SurfaceConfig(bsdf=LambertianBSDF(), importance=("D",)), TypeError, ["importance[0]", "'D'"]),
        (
            lambda: nsq.SurfaceConfig(bsdf=LambertianBSDF(), importance=[Target("D"), Target("E")]),
            ValueError,
            ["importance", "sum to 1", "below 1"],
        ),
        (lambda: room(Target("Ls")).trace(10), ValueError, ["importance of 'L.front'", "'Ls'", "Did you mean 'L'?"]),
    ],
)
def test_bad_targets(make, error, words):
    with pytest.raises(error) as caught:
        make()
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_a_target_needs_bounds_and_one_meaning():
    scene = room(Target("wall"))
    scene.add_component("wall", nsq.AbsorbingComponent(CS(z=90.0), nsq.PlaneGeometry()))
    with pytest.raises(ValueError, match=r"'wall', which has no bounds"):
        scene.trace(10)
    scene.add_detector("wall", CS(z=80.0), nsq.RayDatabaseConfig(1.0, 1.0))
    with pytest.raises(ValueError, match=r"'wall', which several parts have"):
        scene.trace(10)
