"""Where light comes together: paraxial formulas of thin, thick and ball lenses, and surfaces without aberration."""

import numpy as np
import pytest

import nsq

from .tools import CS, GREEN, columns, database, enclose, fresnel, glass, pencil

STILL = nsq.SamplingPolicy(reflect_prob=0.3, rr_start_flux=0.0)
N = 1.5


def straight_through(scene, surfaces, num_rays=400, name="D", **options):
    """Rays of the first pass: those that met each surface once and then the database."""
    scene.sampling_policy = STILL
    result = scene.trace(num_rays, max_depth=surfaces + 1, min_flux_fraction=0.0, seed=1, **options)
    return columns(result.detectors[name])


def crossing(position, direction):
    """z where rays in the meridional plane meet the axis."""
    return position[:, 2] - position[:, 1] * direction[:, 2] / direction[:, 1]


def lens(r1, r2, thickness, ambient=1.0, aperture=12.0):
    config = nsq.LensConfig(r1, r2, thickness, glass(N), front_aperture_radius=aperture, ambient=glass(ambient))
    scene = nsq.NSQScene()
    scene.add_lens("L", CS(), config)
    return scene


def focal_length(r1, r2, thickness, n):
    """The lensmaker's equation: f, and the back focal distance from the last vertex."""
    c1, c2 = 1.0 / r1, 1.0 / r2
    power = (n - 1.0) * (c1 - c2 + (n - 1.0) * thickness * c1 * c2 / n)
    return 1.0 / power, (1.0 - (n - 1.0) * thickness * c1 / n) / power


@pytest.mark.parametrize(
    ("r1", "r2", "thickness", "ambient"),
    [(100.0, -100.0, 6.0, 1.0), (60.0, np.inf, 4.0, 1.0), (40.0, 90.0, 5.0, 1.0), (70.0, -50.0, 8.0, 1.33)],
)
def test_the_back_focus_of_a_thick_lens(r1, r2, thickness, ambient):
    """A ray at height h crosses the axis at the paraxial focus but for a share of about (h / f)^2."""
    height = 1e-3
    _, back = focal_length(r1, r2, thickness, N / ambient)
    scene = lens(r1, r2, thickness, ambient=ambient)
    pencil(scene, "S", (0.0, height, -10.0), (0.0, 0.0, 1.0), medium=glass(ambient))
    database(scene, "D", CS(z=30.0))
    position, direction, *_ = straight_through(scene, 2)
    assert len(position) > 100
    # the height is a small difference of large numbers: 1e-15 of some mm, over a height of 1e-3
    assert crossing(position, direction) == pytest.approx(thickness + back, rel=1e-8)


def test_a_thin_lens_images_by_the_thin_lens_equation():
    """1 / s + 1 / s' = 1 / f, f = R / (2 (n - 1)), in the limit of no thickness, for real and virtual images."""
    radius, thickness = 100.0, 1e-6
    f = radius / (2.0 * (N - 1.0))
    for s in (150.0, 200.0, 400.0, 60.0):
        scene = lens(radius, -radius, thickness, aperture=0.008)  # as wide as so thin a lens can be
        for i, angle in enumerate((5e-6, 1e-5)):
            pencil(scene, f"{i}", (0.0, 0.0, -s), (0.0, np.sin(angle), np.cos(angle)))
        database(scene, "D", CS(z=20.0))
        position, direction, *_ = straight_through(scene, 2)
        image = 1.0 / (1.0 / f - 1.0 / s)
        assert crossing(position, direction) == pytest.approx(image, rel=1e-6)


@pytest.mark.parametrize("n", [1.3, 1.5, 1.9])
def test_the_focus_of_a_ball_lens(n):
    """EFL = n D / (4 (n - 1)), from the centre; one sphere, hit twice."""
    diameter, height = 10.0, 1e-3
    scene = nsq.NSQScene()
    ball = nsq.SphereGeometry(0.5 * diameter)
    # a sphere's normal points to its centre, so the glass is at the back
    scene.add_component("B", nsq.RefractiveComponent(CS(), ball, nsq.VACUUM, glass(n)))
    pencil(scene, "S", (0.0, height, -20.0), (0.0, 0.0, 1.0))
    database(scene, "D", CS(z=40.0))
    position, direction, flux, _ = straight_through(scene, 2, num_rays=300)
    efl = n * diameter / (4.0 * (n - 1.0))
    assert crossing(position, direction) == pytest.approx(efl, rel=1e-6)
    t = 1.0 - float(fresnel(1.0, 1.0, n))
    assert flux * 300.0 == pytest.approx(t * t / 0.7**2, rel=1e-6)


def test_real_rays_through_a_ball_lens():
    """At every height the deviation is 2 (i - t), sin i = h / R = n sin t: nothing paraxial about it."""
    radius, n = 5.0, 1.6
    heights = np.linspace(0.5, 4.9, 12)
    scene = nsq.NSQScene()
    sphere = nsq.SphereGeometry(radius)
    scene.add_component("B", nsq.RefractiveComponent(CS(), sphere, nsq.VACUUM, glass(n)))
    for i, h in enumerate(heights):
        pencil(scene, f"{i}", (0.0, h, -20.0), (0.0, 0.0, 1.0))
    enclose(scene, "D", 50.0)
    scene.sampling_policy = STILL
    result = scene.trace(12 * 40, max_depth=3, min_flux_fraction=0.0, seed=1)
    _, direction, flux, ids = columns(result.detectors["D"])
    h = heights[ids // 40]
    i, t = np.arcsin(h / radius), np.arcsin(h / (n * radius))
    passed = np.abs(np.arctan2(-direction[:, 1], direction[:, 2]) - 2.0 * (i - t)) < 1e-12
    share = (1.0 - fresnel(np.cos(i), 1.0, n)) ** 2 / 0.7**2
    assert flux[passed] * 40.0 == pytest.approx(share[passed], rel=1e-11)
    assert len(np.unique(h[passed])) == 12
    # binomial: two passes at 0.7, or a first reflection at 0.3 and away; the rest still is inside
    assert abs(passed.sum() - 0.49 * 480) < 4.0 * np.sqrt(480 * 0.49 * 0.51)
    away = np.abs(np.arctan2(direction[:, 1], direction[:, 2]) - (np.pi - 2.0 * i)) < 1e-12
    assert np.all(passed | away)


# ---- surfaces without spherical aberration ---------------------------------------------------------------------------


def meridional(scene, heights, z):
    for i, h in enumerate(heights):
        pencil(scene, f"{i}", (0.0, h, z), (0.0, 0.0, 1.0))


HEIGHTS = np.array([-9.0, -4.0, 0.1, 2.0, 7.0, 9.5])


def test_a_paraboloid_gathers_a_beam_in_one_point():
    scene = nsq.NSQScene()
    scene.add_mirror("M", CS(), nsq.MirrorConfig(-100.0, 1.0, conic=-1.0, aperture_radius=12.0))
    meridional(scene, HEIGHTS, -45.0)
    database(scene, "D", CS(z=-60.0))
    position, direction, *_ = columns(scene.trace(6 * 4, seed=1).detectors["D"])
    assert len(position) == 24
    assert crossing(position, direction) == pytest.approx(-50.0, abs=1e-9)


def test_a_sphere_has_longitudinal_aberration():
    """Exactly: a ray at height h crosses at R - R / (2 cos i) from the vertex, sin i = h / R."""
    radius = 100.0
    scene = nsq.NSQScene()
    scene.add_mirror("M", CS(), nsq.MirrorConfig(-radius, 1.0, aperture_radius=12.0))
    meridional(scene, HEIGHTS, -45.0)
    database(scene, "D", CS(z=-60.0))
    position, direction, _, ids = columns(scene.trace(6 * 4, seed=1).detectors["D"])
    cosine = np.sqrt(1.0 - (HEIGHTS[ids // 4] / radius) ** 2)
    assert crossing(position, direction) == pytest.approx(-(radius - radius / (2.0 * cosine)), abs=1e-9)


def test_an_ellipsoid_images_one_focus_onto_the_other():
    """Semi-axes a, b: R = b^2 / a, K = -(1 - b^2 / a^2); foci at a - c and a + c from the vertex."""
    a, b = 50.0, 30.0
    c = np.sqrt(a**2 - b**2)
    scene = nsq.NSQScene()
    mirror = nsq.MirrorConfig(-(b**2) / a, 1.0, conic=-(1.0 - b**2 / a**2), aperture_radius=20.0)
    scene.add_mirror("M", CS(), mirror)
    cone = nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=60.0)
    scene.add_source("S", CS(z=-(a - c)), cone)  # the near focus
    database(scene, "D", CS(z=-(a + c)))
    position, _, flux, _ = columns(scene.trace(2000, seed=1).detectors["D"])
    assert len(flux) == 2000
    assert np.abs(position[:, :2]).max() < 1e-9


def test_a_hyperbolic_face_gathers_a_beam_in_one_point():
    """K = -n^2 on the last face of a lens: a beam inside the glass meets |R| / (n - 1) behind the vertex."""
    radius, n = -20.0, 1.6
    scene = nsq.NSQScene()
    face = nsq.ConicGeometry(radius, -(n**2), 15.0)
    scene.add_component("F", nsq.RefractiveComponent(CS(), face, glass(n), nsq.VACUUM))
    for i, h in enumerate(HEIGHTS):
        pencil(scene, f"{i}", (0.0, h, -80.0), (0.0, 0.0, 1.0), medium=glass(n))
    database(scene, "D", CS(z=5.0))
    position, direction, *_ = straight_through(scene, 1)
    assert len(position) > 100
    assert crossing(position, direction) == pytest.approx(-radius / (n - 1.0), abs=1e-9)


# ---- the way back ----------------------------------------------------------------------------------------------------


def relay():
    """A doublet, a tilted singlet of a catalogue glass and a ball, none of them on a common axis."""
    scene = nsq.NSQScene()
    scene.add_doublet(
        "DB",
        CS(x=0.3, y=-0.2, rx=0.05),
        nsq.DoubletConfig(60.0, -45.0, -130.0, 6.0, 2.5, glass(1.5168), glass(1.6727), aperture_radius=12.0),
    )
    scene.add_lens("L", CS(x=-0.4, z=15.0, ry=-0.06), nsq.LensConfig(80.0, -70.0, 4.0, "N-SF11", 12.0))
    ball = nsq.RefractiveComponent(CS(z=45.0), nsq.SphereGeometry(14.0), nsq.VACUUM, glass(1.4))
    scene.add_component("B", ball)
    return scene, 7


def test_reversed_rays_retrace_their_path():
    """Forward through seven surfaces; from where a ray arrives, turned round, it comes back to where it came from."""
    starts = [(0.0, 0.0), (3.0, 1.0), (-4.0, 2.0), (1.0, -5.0), (5.0, 4.0)]
    towards = [(0.0, 0.0), (0.02, -0.03), (0.05, 0.01), (-0.04, 0.06), (-0.1, -0.08)]
    scene, surfaces = relay()
    begin = []
    for i, ((x, y), (u, v)) in enumerate(zip(starts, towards, strict=True)):
        direction = np.array([u, v, np.sqrt(1.0 - u * u - v * v)])
        pencil(scene, f"{i}", (x, y, -20.0), direction)
        begin.append((np.array([x, y, -20.0]), direction))
    database(scene, "D", CS(z=80.0), 200.0)
    each = 200
    position, direction, flux, ids = straight_through(scene, surfaces, each * 5)
    for i, (origin, sent) in enumerate(begin):
        mine = np.flatnonzero((ids // each == i) & (direction[:, 2] > 0.0))
        # most rays go straight through: a way with two reflections in it is taken by a fifth as many
        _, where, count = np.unique(np.round(np.log(flux[mine]), 9), return_inverse=True, return_counts=True)
        mine = mine[where == np.argmax(count)]
        arrived = mine[0]
        assert np.ptp(position[mine], axis=0) == pytest.approx(0.0, abs=1e-12)  # all of them on the same path
        back, _ = relay()
        pencil(back, "S", position[arrived], -direction[arrived])
        database(back, "D", CS(z=-20.0), 200.0)
        end, came, flux_back, _ = straight_through(back, surfaces, 300)
        # transmittance is the same both ways
        same = np.abs(flux_back * 300.0 / (flux[arrived] * each) - 1.0) < 1e-10
        end, came = end[same], came[same]
        assert len(end) > 5
        assert end == pytest.approx(np.tile(origin, (len(end), 1)), abs=1e-9)
        assert came == pytest.approx(np.tile(-sent, (len(end), 1)), abs=1e-11)
