"""Plane interfaces: Fresnel's equations, Snell's law, total reflection, absorption in a slab, coatings, a prism."""

import numpy as np
import pytest

import nsq

from .tools import (
    CS,
    IDEAL,
    WAVELENGTH,
    columns,
    database,
    enclose,
    extinction,
    fresnel,
    glass,
    near,
    pencil,
    plane,
    snell,
)

HALF = nsq.SamplingPolicy(reflect_prob=0.5, rr_start_flux=0.0)  # each branch is worth twice its share
N = 1.5


def fan(scene, angles, medium, rays_each=16):
    """One pencil an angle (radians), all through the origin; the number of rays, and the angle of each of them."""
    for i, angle in enumerate(angles):
        direction = np.array([np.sin(angle), 0.0, np.cos(angle)])
        pencil(scene, f"{i}", -5.0 * direction, direction, medium=medium)
    return rays_each * len(angles), np.repeat(angles, rays_each)


def interface(angles, front, back, coating=None):
    """Fluxes (as a share of a ray's) and directions of what leaves the plane z = 0, by reflected or not."""
    scene = nsq.NSQScene()
    count, angle = fan(scene, angles, front)
    plane(scene, "I", 0.0, front, back, coating=coating)
    enclose(scene, "D", 20.0)
    scene.sampling_policy = HALF
    result = scene.trace(count, min_flux_fraction=0.0, seed=2)
    assert result.detectors["D"].num_rays == count
    position, direction, flux, ids = columns(result.detectors["D"])
    share = flux * count / len(angles)
    reflected = position[:, 2] < 0.0
    return {"angle": angle[ids], "share": share, "direction": direction, "reflected": reflected}


DEGREES = np.arange(90.0)


@pytest.mark.parametrize(("front", "back"), [(1.0, N), (N, 1.0), (1.33, 1.8), (2.4, 1.5)])
def test_fresnel_from_0_to_89_degrees(front, back):
    """Every ray carries exactly R or T of its flux, and goes where Snell's law sends it."""
    out = interface(np.radians(DEGREES), glass(front), glass(back))
    expected = fresnel(np.cos(out["angle"]), front, back)
    total = expected == 1.0
    assert total.any() == (front > back)
    mirrored = out["reflected"]
    assert np.all(mirrored[total])  # nothing passes beyond the critical angle
    assert np.all(out["share"][total] == pytest.approx(1.0, abs=1e-14))  # and the weight there is one
    partial = ~total
    for side, share in ((mirrored, expected), (~mirrored, 1.0 - expected)):
        chosen = side & partial
        assert len(np.unique(out["angle"][chosen])) == len(np.unique(out["angle"][partial]))
        assert out["share"][chosen] == pytest.approx(2.0 * share[chosen], rel=1e-11)
    incident = np.stack([np.sin(out["angle"]), 0.0 * out["angle"], np.cos(out["angle"])], axis=1)
    assert out["direction"][mirrored] == pytest.approx(incident[mirrored] * [1.0, 1.0, -1.0], abs=1e-13)
    bent = snell(incident[~mirrored], [[0.0, 0.0, 1.0]], front / back)
    assert out["direction"][~mirrored] == pytest.approx(bent, abs=1e-13)


def test_brewsters_angle_reflects_s_alone():
    angle = np.arctan(N)
    out = interface([angle], glass(1.0), glass(N))
    s = ((1.0 - N**2) / (1.0 + N**2)) ** 2
    assert out["share"][out["reflected"]] == pytest.approx(s, rel=1e-12)  # twice one half of s


@pytest.mark.parametrize("offset", [1e-3, 1e-6, 1e-9])
def test_the_critical_angle_is_sharp(offset):
    """Just inside there is a little light beyond the interface, 4 n cos(i) cos(t) (s) and the like; outside none."""
    critical = np.arcsin(1.0 / N)
    out = interface([critical - offset, critical + offset], glass(N), glass(1.0))
    beyond = out["angle"] > critical
    assert np.all(out["reflected"][beyond])
    assert np.all(out["share"][beyond] == 1.0)
    passed = out["share"][~out["reflected"]]
    assert len(passed) > 0
    # T goes with the root of the offset; the angle itself is known to some 1e-16
    expected = 2.0 * (1.0 - fresnel(np.cos(critical - offset), N, 1.0))
    assert passed == pytest.approx(float(expected), rel=1e-14 / offset + 1e-9)
    assert 0.0 < passed[0] < 30.0 * np.sqrt(offset)


def test_a_coating_does_not_break_total_reflection():
    angles = np.radians([0.0, 30.0, 41.0, 42.0, 60.0, 85.0])
    out = interface(angles, glass(N), glass(1.0), coating=nsq.SimpleCoating(0.7, 0.2))
    total = out["angle"] > np.arcsin(1.0 / N)
    assert np.all(out["reflected"][total])
    assert np.all(out["share"][total] == 1.0)
    inside = ~total
    assert out["share"][inside & out["reflected"]] == pytest.approx(2.0 * 0.2, rel=1e-14)
    assert out["share"][inside & ~out["reflected"]] == pytest.approx(2.0 * 0.7, rel=1e-14)


# ---- windows ---------------------------------------------------------------------------------------------------------


def window(n, angle=0.0, alpha=0.0, coating=None, thickness=3.0):
    scene = nsq.NSQScene()
    direction = np.array([np.sin(angle), 0.0, np.cos(angle)])
    pencil(scene, "S", -5.0 * direction, direction)
    medium = glass(n, extinction(alpha))
    plane(scene, "front", 0.0, nsq.VACUUM, medium, coating=coating)
    plane(scene, "back", thickness, medium, nsq.VACUUM, coating=coating)
    database(scene, "T", CS(z=thickness + 1.0), 1e4)
    database(scene, "R", CS(z=-6.0), 1e4)
    return scene


@pytest.mark.parametrize("n", [1.2, 1.5, 2.4, 4.0])
def test_a_window_transmits_2n_over_n2_plus_1(n):
    """With all internal reflections, incoherently."""
    rays = 200_000
    result = window(n).trace(rays, max_depth=200, min_flux_fraction=0.0, seed=6)
    near(result.detectors["T"].total_flux_float, 2.0 * n / (n**2 + 1.0), rays)
    assert result.total_flux_detected == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("degrees", [0.0, 56.0, 75.0])
def test_the_orders_of_a_window_are_exact(degrees):
    """(1 - R)^2 R^(2k) beyond, R and (1 - R)^2 R^(2k - 1) before; R is the mean of s and p at each surface."""
    angle, keep = np.radians(degrees), 0.5
    r = float(fresnel(np.cos(angle), 1.0, N))
    scene = window(N, angle)
    scene.sampling_policy = HALF
    count = 3000
    detectors = scene.trace(count, max_depth=12, min_flux_fraction=0.0, seed=1).detectors
    step = 2.0 * 3.0 * np.tan(np.arcsin(np.sin(angle) / N))  # between orders, along the window
    for name, first, z in (("T", (1.0 - r) ** 2, 4.0), ("R", r, 6.0)):
        position, direction, flux, _ = columns(detectors[name])
        origin = position[:, 0] - direction[:, 0] / np.abs(direction[:, 2]) * (z - 3.0 if name == "T" else z)
        shares = np.unique(np.round(np.log(flux * count), 9))[::-1]
        if name == "T":
            hits = 2 + 2 * np.arange(4)
            expected = first * r ** (2 * np.arange(4)) / keep**hits
        else:
            hits = np.concatenate([[1], 3 + 2 * np.arange(3)])
            expected = np.concatenate([[r], (1.0 - r) ** 2 * r ** (2 * np.arange(3) + 1)]) / keep**hits
        assert np.exp(shares[:4]) == pytest.approx(np.sort(expected)[::-1], rel=1e-8)
        assert np.exp(shares[:4]) == pytest.approx(np.sort(expected)[::-1], rel=1e-8)
        if degrees:
            start = 0.5 * step if name == "T" else 0.0
            order = np.rint((origin - start) / step)
            assert origin == pytest.approx(start + order * step, abs=1e-11)
            assert order.min() == 0.0


def test_a_stack_of_plates_by_the_mean_of_s_and_p():
    """N surfaces of reflectance R, every order kept: T = (1 - R) / (1 + (N - 1) R)."""
    angle, rays, surfaces = np.radians(60.0), 200_000, 6
    scene = nsq.NSQScene()
    direction = np.array([np.sin(angle), 0.0, np.cos(angle)])
    pencil(scene, "S", -5.0 * direction, direction)
    for i in range(surfaces):
        media = (nsq.VACUUM, glass(N))[:: 1 if i % 2 == 0 else -1]
        plane(scene, f"{i}", float(i), *media)
    database(scene, "T", CS(z=20.0), 1e4)
    database(scene, "R", CS(z=-6.0), 1e4)
    result = scene.trace(rays, max_depth=400, min_flux_fraction=0.0, seed=9)
    r = float(fresnel(np.cos(angle), 1.0, N))
    near(result.detectors["T"].total_flux_float, (1.0 - r) / (1.0 + (surfaces - 1) * r), rays)


# ---- slabs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("degrees", [0.0, 30.0, 70.0])
def test_a_slab_absorbs_by_its_extinction(degrees):
    """exp(-4 pi k L / (lambda cos)) where nothing reflects."""
    angle, k, thickness = np.radians(degrees), 2e-5, 3.0
    scene = nsq.NSQScene()
    direction = np.array([np.sin(angle), 0.0, np.cos(angle)])
    lines = nsq.Spectrum(wavelengths=np.array([0.45, 0.55, 0.65]), weights=np.ones(3))
    pencil(scene, "S", -5.0 * direction, direction, spectrum=lines)
    plane(scene, "front", 0.0, nsq.VACUUM, glass(N, k), coating=IDEAL)
    plane(scene, "back", thickness, glass(N, k), nsq.VACUUM, coating=IDEAL)
    database(scene, "D", CS(z=4.0))
    result = scene.trace(300, seed=1)
    rays = result.detectors["D"]
    cosine = np.sqrt(1.0 - (np.sin(angle) / N) ** 2)
    wavelength = rays.wavelength.numpy()
    assert len(np.unique(wavelength)) == 3
    expected = np.exp(-4.0 * np.pi * k * thickness * 1e3 / (wavelength * cosine))
    assert rays.flux.numpy() * 300.0 == pytest.approx(expected, rel=1e-12)
    assert result.total_flux_bulk_absorbed == pytest.approx(1.0 - np.sum(expected) / 300.0, rel=1e-12)


def test_an_absorbing_window_with_all_its_orders():
    """T = (1 - R)^2 a / (1 - R^2 a^2), the reflected share R (1 + T a); the rest stays inside."""
    rays, alpha, thickness, n = 200_000, 0.2, 3.0, 2.4
    result = window(n, alpha=alpha).trace(rays, max_depth=200, min_flux_fraction=0.0, seed=6)
    r, a = ((n - 1.0) / (n + 1.0)) ** 2, np.exp(-alpha * thickness)
    through = (1.0 - r) ** 2 * a / (1.0 - (r * a) ** 2)
    back = r + r * a * through
    near(result.detectors["T"].total_flux_float, through, rays, weight=a)
    near(result.detectors["R"].total_flux_float, back, rays)
    near(result.total_flux_bulk_absorbed, 1.0 - through - back, rays)


def test_transmittance_over_wavelength():
    """k(wavelength) of a user's medium, in a spectral detector: one bin a line."""
    lines = np.array([0.425, 0.485, 0.555, 0.615, 0.685])  # centres of bins
    rays = 5000

    class Tinted:
        def n(self, wavelength):
            return 1.0 + 0.0 * wavelength

        def k(self, wavelength):
            return 1e-5 * (wavelength / WAVELENGTH) ** 3

    tinted = nsq.NSQMaterial(Tinted())
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, -1.0), (0.0, 0.0, 1.0), spectrum=nsq.Spectrum(lines, np.ones(5)))
    plane(scene, "front", 0.0, nsq.VACUUM, tinted)
    plane(scene, "back", 2.0, tinted, nsq.VACUUM)
    config = nsq.configs.SpectralDetectorConfig(
        5.0, 5.0, num_pixels_x=1, num_pixels_y=1, wl_min=0.4, wl_max=0.7, num_bins=30
    )
    scene.add_detector("D", CS(z=3.0), config)
    database(scene, "before", CS(z=-0.5), absorb=False)
    detectors = scene.trace(rays, seed=3).detectors
    born = detectors["before"].wavelength.numpy()
    spectrum = detectors["D"].spectrum.numpy()
    assert np.count_nonzero(spectrum) == 5
    for line in lines:
        place = int(np.argmin(np.abs(detectors["D"].wavelengths - line)))
        kept = np.exp(-4.0e3 * np.pi * Tinted().k(line) * 2.0 / line)
        assert spectrum[place] == pytest.approx(np.mean(born == line) * kept, rel=1e-10)


# ---- antireflection --------------------------------------------------------------------------------------------------


def quarter_wave(n_film, n_glass, design):
    """Reflectance over wavelength (µm) of one film, a quarter of a wave thick at ``design``, at normal incidence."""

    def reflectance(wavelength):
        half = 0.5 * np.pi * design / np.asarray(wavelength)
        a = (1.0 - n_film) / (1.0 + n_film)
        b = (n_film - n_glass) / (n_film + n_glass)
        x = 2.0 * a * b * np.cos(2.0 * half)
        return (a**2 + b**2 + x) / (1.0 + (a * b) ** 2 + x)

    return reflectance


def test_an_antireflection_coating():
    """One film on both faces: R is ((n0 ns - n1^2) / (n0 ns + n1^2))^2 at the design wavelength; at each the window
    reflects 2 R / (1 + R)."""
    film, index, design, rays = 1.38, 1.52, 0.55, 200_000
    law = quarter_wave(film, index, design)
    assert law(design) == pytest.approx(((index - film**2) / (index + film**2)) ** 2)
    coating = nsq.SimpleCoating(lambda wl: 1.0 - law(wl), law)
    bare = ((index - 1.0) / (index + 1.0)) ** 2
    for wavelength in (0.45, design, 0.7):
        scene = window(index, coating=coating)
        scene.sources[0].spectrum = nsq.Spectrum.monochromatic(wavelength)
        result = scene.trace(rays, max_depth=50, min_flux_fraction=0.0, seed=1)
        r = float(law(wavelength))
        assert r < bare
        near(result.detectors["R"].total_flux_float, 2.0 * r / (1.0 + r), rays)
        assert result.total_flux_detected == pytest.approx(1.0, abs=1e-12)
        assert abs(result.total_flux_coating) < 1e-12


def test_a_perfect_coating_leaves_no_ghost():
    result = window(N, np.radians(40.0), coating=IDEAL).trace(2000, seed=1)
    assert result.detectors["R"].num_rays == 0
    assert result.detectors["T"].flux.numpy() * 2000.0 == pytest.approx(1.0, rel=1e-13)
