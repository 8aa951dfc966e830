"""The sieve before the search for events keeps every ray that has one: gradients have the bits of a search of all."""

import numpy as np
import pytest
import torch
import warp as wp

import nsq
from kernels.trace import layout as at
from kernels.trace import rims, suspects
from kernels.trace.command import Command

RAYS = 4000


def silhouettes():
    """A ball, a half-open tube, a bowl and a ring in a diverging beam, then a lens off axis: all edges are passed."""
    size = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    scene = nsq.NSQScene()
    spectrum = nsq.Spectrum.monochromatic(0.55)
    scene.add_source("S", nsq.CoordinateSystem(z=-30.0), nsq.PointSourceConfig(spectrum=spectrum, half_angle_deg=14.0))
    for name, frame, geometry in (
        ("ball", nsq.CoordinateSystem(x=-2.0, z=0.0), nsq.SphereGeometry(1.5 * size)),
        ("tube", nsq.CoordinateSystem(x=3.0, rx=0.4), nsq.CylindricalFrustumGeometry(size, 1.5 * size, -1.0, 2.0)),
        ("bowl", nsq.CoordinateSystem(x=-3.0, y=-3.0, z=3.0, rx=0.3), nsq.ConicGeometry(4.0 * size, -0.5, 1.5)),
        ("ring", nsq.CoordinateSystem(z=4.0, ry=0.3), nsq.AnnularPlaneGeometry(2.0 * size, 5.0)),
        ("plate", nsq.CoordinateSystem(x=1.0, y=3.0, z=6.0, rz=0.5), nsq.FinitePlaneGeometry(2.0 * size, 3.0)),
    ):
        scene.add_component(name, nsq.AbsorbingComponent(frame, geometry))
    lens = nsq.LensConfig(
        r1=30.0 * size, r2=-40.0, thickness=3.0, material=nsq.NSQMaterial.constant(1.5), front_aperture_radius=4.0
    )
    scene.add_lens("L", nsq.CoordinateSystem(x=-2.0, z=12.0), lens)
    plate = nsq.IrradianceDetectorConfig(width=18.0, height=18.0, num_pixels_x=8, num_pixels_y=8)
    scene.add_detector("D", nsq.CoordinateSystem(z=25.0), plate)
    return scene, size


def gradient(precision):
    scene, size = silhouettes()
    data = scene.trace(RAYS, seed=3, precision=precision).detectors["D"].data
    (data * torch.linspace(0.0, 1.0, data.numel(), dtype=torch.float64).reshape(data.shape)).sum().backward()
    return size.grad.item()


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_sieve_keeps_every_ray_that_has_an_event(precision, monkeypatch):
    threads = nsq.get_num_threads()
    nsq.set_num_threads(1)  # rays that share out differently would be summed in another order
    try:
        kept = []
        plain = suspects.Suspects.find

        def watched(self, count, where):
            kept.append((plain(self, count, where), count))
            return kept[-1][0]

        monkeypatch.setattr(suspects.Suspects, "find", watched)
        sieved = gradient(precision)

        def every(self, count, where):
            self.cells.assign(np.arange(len(self.cells), dtype=np.int32))
            return count

        monkeypatch.setattr(suspects.Suspects, "find", every)
        assert gradient(precision) == sieved != 0.0
    finally:
        nsq.set_num_threads(threads)
    near, rays = np.sum(kept, axis=0)
    # and it is one: here the bands cover about a third
    assert 0.02 * rays < near < 0.7 * rays


INF = np.inf
# numbers a, d, g, e; range of the distance from the axis, half widths, range of height, the band, and whether there is
# one at the silhouette
ROWS = {
    "plane": [((0, 0, 1, 0), (0.5, 2.0), (INF, INF), (-INF, INF), 0.1, False),
              ((0, 0, 1, 0), (0.0, INF), (1.5, 2.5), (-INF, INF), 0.2, False)],
    "cap": [((0.2, 0, 1, 0), (0.0, 2.0), (INF, INF), (-INF, INF), 0.1, True),
            ((0.5, 0, 0, -2.0), (0.0, INF), (INF, INF), (-INF, INF), 0.2, True),
            ((-0.1, 0, 1, 0), (0.0, 0.8), (INF, INF), (-INF, INF), 0.9, False)],
    "tube": [((0.5, -0.5, 0, -2.0), (0.0, INF), (INF, INF), (-1.5, 1.0), 0.1, True)],
    "conic": [((-0.2, 0.2, 1, 0), (0.4, 2.5), (INF, INF), (-INF, INF), 0.1, True)],
    "any": [((0.2, 0.1, 1, 0), (0.0, 2.5), (1.5, INF), (-INF, INF), 0.1, True),
            ((0.4, -0.7, 0, -1.0), (0.0, INF), (INF, 1.0), (-1.0, 2.0), 0.1, True)],
}  # fmt: skip


def near_a_border(origins, directions, axes, row):
    """Whether a ray passes a limit, or the silhouette, of a row at the origin within its band, by plain arithmetic."""
    (a, d, g, e), (inner, outer), half, (low, high), band, silhouette = row
    s, nu = origins @ axes[2], directions @ axes[2]
    A = a + d * nu**2
    B = a * (origins * directions).sum(axis=1) + (d * s + g) * nu
    C = a * (origins**2).sum(axis=1) + d * s**2 + 2.0 * g * s + e

    def gap(t):
        p = origins + t[:, None] * directions
        x, y, z = axes @ p.T
        rho = np.hypot(x, y)
        kept = [outer - rho, half[0] - np.abs(x), half[1] - np.abs(y), z - low, high - z]
        gaps = np.array(kept + ([rho - inner] if inner > 0.0 else [])).min(axis=0)
        return p, z, np.where(t > 1e-9, gaps, -INF)

    found = np.zeros(len(origins), dtype=bool)
    with np.errstate(all="ignore"):
        root = np.sqrt(B * B - A * C)
        for t in [-C / (2.0 * B)] if a == d == 0.0 else [(-B - root) / A, (-B + root) / A]:
            found |= np.abs(gap(t)[2]) < band
        if silhouette:
            p, z, rest = gap(-B / A)
            steep = 2.0 * np.linalg.norm(a * p + (d * z + g)[:, None] * axes[2], axis=1)
            found |= (np.abs(C - B * B / A) < band * steep) & (rest > -band)
    return found


@pytest.mark.parametrize("build", suspects.SIEVES)
def test_a_build_keeps_what_comes_near_a_border_and_what_the_general_one_keeps(build):
    rays = 4000
    rng = np.random.default_rng(5)
    directions = rng.normal(size=(3, rays))
    state = np.ones((at.NUM_FLOATS, rays))
    state[:3], state[3:6] = rng.uniform(-3.0, 3.0, (3, rays)), directions / np.linalg.norm(directions, axis=0)
    ints = np.full((at.NUM_INTS, rays), -1, dtype=np.int32)
    for row in ROWS[build]:
        axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        coefficients, radii, half, heights, band, silhouette = row
        numbers = np.array([[0.0, 0.0, 0.0, *axes[2], *coefficients]])
        limits = np.array([[*axes[0], *axes[1], *radii, *half, *heights]])
        ends = np.array([radii[0] > 0.0, *(np.isfinite((radii[1], half[0], half[0], half[1], half[1], *heights)))])
        widths = np.zeros((1, rims.NUM_WIDTHS))
        widths[0, : rims.SIDE_A] = band * np.append(ends, silhouette)
        bounds = suspects.bounds_of(limits, widths)
        assert suspects.sieves_of(numbers, bounds) == [build]
        flagged = []
        for name in (build, "any"):
            flags = wp.zeros(rays, dtype=wp.int32, device="cpu")
            names = {
                "floats": wp.array(state.ravel(), dtype=wp.float64, device="cpu"),
                "ints": wp.array(ints.ravel(), dtype=wp.int32, device="cpu"),
                "numbers": wp.array(numbers.ravel(), dtype=wp.float64, device="cpu"),
                "bounds": wp.array(bounds.ravel(), dtype=wp.float64, device="cpu"),
                "row": 0, "bound": 0, "first": 1, "eps": wp.float64(1e-9), "flags": flags, "n": wp.int64(rays),
            }  # fmt: skip
            Command(suspects.suspect_kernel("float64", 1, name), "cpu", names).run(rays)
            flagged.append(flags.numpy() > 0)
        assert np.array_equal(*flagged)
        wanted = near_a_border(state[:3].T, state[3:6].T, axes, row)
        assert not (wanted & ~flagged[0]).any()
        # it keeps no more than a silhouette's band outside the limits may hold
        assert wanted.sum() > 40
        assert flagged[0].sum() <= (2.0 if silhouette else 1.2) * wanted.sum()
