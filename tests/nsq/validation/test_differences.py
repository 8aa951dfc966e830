"""Derivatives of every kind of output against central differences, with the random numbers held.

The policy's branch probability does not move with any parameter, so a difference sees the derivative that the weights
carry. Where a probability does move, as that of scattering does, the derivative is right on the average: by z-tests.
"""

import numpy as np
import pytest
import torch

import nsq
from nsq.bsdfs import ABgBSDF, GaussianBSDF, LambertianBSDF
from nsq.configs import FarFieldDetectorConfig, SpectralDetectorConfig
from nsq.geometries_mesh import MeshGeometry

from .tools import CS, GREEN, agree, glass, pencil

STILL = nsq.SamplingPolicy(reflect_prob=0.3, rr_start_flux=0.0)
LINES = nsq.Spectrum(np.array([0.45, 0.55, 0.65]), np.array([1.0, 2.0, 1.5]))
TOLERANCE = 1e-5


def trace(scene, rays=600, seed=7, mode="prb", depth=8):
    scene.sampling_policy = STILL
    # a difference at the same random numbers sees no ray change its fate
    backend = nsq.TorchBackend(gradient_mode=mode, visibility="off")
    return scene.trace(rays, max_depth=depth, min_flux_fraction=0.0, seed=seed, backend=backend).detectors["D"]


def weighted(detector):
    """One smooth number of any detector's result, as different in its cells or rays as can be."""
    if hasattr(detector, "data"):
        cells = torch.linspace(0.3, 3.0, detector.data.numel(), dtype=torch.float64)
        return torch.dot(torch.sin(2.3 * cells) + 1.5, detector.data)
    ids = torch.cos(0.7 * detector.ray_id.to(torch.float64)) + 0.4
    columns = (detector.x, detector.y, detector.L, detector.M)
    return torch.dot(ids, detector.flux) + sum(
        torch.dot(ids * detector.flux, c) * (i + 1) for i, c in enumerate(columns)
    )


def beam(scene, **config):
    options = {"spectrum": LINES, "total_flux": 1.3, "aperture_radius": 5.0, **config}
    scene.add_source("S", CS(x=0.3, y=-0.2, rx=0.02), nsq.CollimatedSourceConfig(**options))


def lens(scene, v, **surfaces):
    medium = nsq.NSQMaterial.constant(v.get("n", 1.53), v.get("k", 0.0))
    config = nsq.LensConfig(v.get("r1", 45.0), -60.0, 5.0, medium, 9.0, **surfaces)
    scene.add_lens("L", CS(z=15.0, rx=v.get("rx", 0.03)), config)


def far_field(v, mode="prb"):
    scene = nsq.NSQScene()
    beam(scene)
    lens(scene, v)
    far = FarFieldDetectorConfig(num_theta=40, num_phi=16, splat="bilinear")
    scene.add_detector("D", CS(z=60.0, ry=0.4), far)
    return trace(scene, mode=mode)


def spectral(v, mode="prb"):
    scene = nsq.NSQScene()
    beam(scene)
    lens(scene, v)
    config = SpectralDetectorConfig(20.0, 20.0, num_pixels_x=12, num_pixels_y=12, num_bins=6)
    scene.add_detector("D", CS(z=50.0), config)
    return trace(scene, mode=mode)


def coated(v, mode="prb"):
    """R and T of a coating, both in the transmitted light and its ghosts; and of one by callables with parameters."""
    scene = nsq.NSQScene()
    beam(scene)
    front = nsq.SurfaceConfig(coating=nsq.SimpleCoating(v["t"], v["r"]))
    coating = nsq.SimpleCoating(lambda wl: 0.9 - v["slope"] * wl, lambda wl: v["slope"] * wl * 0.5)
    lens(scene, {"k": 2e-6}, front=front, back=nsq.SurfaceConfig(coating=coating))
    scene.add_detector("D", CS(z=50.0), nsq.RayDatabaseConfig(60.0, 60.0))
    return trace(scene, mode=mode)


def diffuser(v, mode="prb"):
    """A mirror that scatters all of its light as its lobe does, onto a ray database; the mirror turns."""
    scene = nsq.NSQScene()
    beam(scene)
    lobe = {"Lambert": lambda: LambertianBSDF(v["rho"]), "ABg": lambda: ABgBSDF(0.01, 0.001, 2.0)}
    lobe["Gauss"] = lambda: GaussianBSDF(0.1)
    own = nsq.SurfaceConfig(bsdf=lobe[v["lobe"]]())
    config = nsq.MirrorConfig(-80.0, v["reflectance"], aperture_radius=12.0, surface=own)
    scene.add_mirror("M", CS(z=20.0, rx=v["tilt"], ry=0.1), config)
    scene.add_detector("D", CS(y=30.0, rx=np.pi / 2.0), nsq.RayDatabaseConfig(400.0, 400.0))
    return trace(scene, mode=mode)


def frosted(v, mode="prb"):
    """A lens of which one face scatters forwards into absorbing glass."""
    scene = nsq.NSQScene()
    beam(scene)
    front = nsq.SurfaceConfig(bsdf=GaussianBSDF(0.05, 1.0), coating=nsq.SimpleCoating(1.0))
    lens(scene, v, front=front)
    scene.add_detector("D", CS(z=50.0), nsq.RayDatabaseConfig(60.0, 60.0))
    return trace(scene, mode=mode)


CASES = {
    "far field": (far_field, {"r1": 45.0, "n": 1.53, "rx": 0.03, "k": 2e-6}),
    "spectral": (spectral, {"r1": 45.0, "n": 1.53, "rx": 0.03, "k": 2e-6}),
    "coated": (coated, {"t": 0.7, "r": 0.2, "slope": 0.4}),
    "Lambert": (diffuser, {"lobe": "Lambert", "rho": 0.8, "reflectance": 0.9, "tilt": 0.5}),
    "ABg": (diffuser, {"lobe": "ABg", "reflectance": 0.9, "tilt": 0.5}),
    "Gauss": (diffuser, {"lobe": "Gauss", "reflectance": 0.9, "tilt": 0.5}),
    "frosted": (frosted, {"r1": 45.0, "n": 1.53, "rx": 0.03, "k": 2e-6}),
}
PARAMETERS = [(case, name) for case, (_, v) in CASES.items() for name, value in v.items() if isinstance(value, float)]


@pytest.mark.parametrize(("case", "name"), PARAMETERS)
def test_central_differences(case, name):
    build, nominal = CASES[case]
    leaf = torch.tensor(nominal[name], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(weighted(build({**nominal, name: leaf})), leaf)
    step = 1e-6 * nominal[name]
    sides = [weighted(build({**nominal, name: nominal[name] + s * step})).item() for s in (1.0, -1.0)]
    expected = (sides[0] - sides[1]) / (2.0 * step)
    assert abs(expected) > 1e-6
    assert gradient.item() == pytest.approx(expected, rel=TOLERANCE)


@pytest.mark.parametrize("case", ["far field", "spectral", "Lambert", "frosted"])
def test_path_replay_equals_autograd(case):
    build, nominal = CASES[case]
    names = [name for name, value in nominal.items() if isinstance(value, float)]
    found = []
    for mode in ("prb", "autograd"):
        leaves = {name: torch.tensor(nominal[name], dtype=torch.float64, requires_grad=True) for name in names}
        value = weighted(build({**nominal, **leaves}, mode))
        found.append([g.item() for g in torch.autograd.grad(value, list(leaves.values()))])
    assert found[0] == pytest.approx(found[1], rel=1e-9)


# ---- meshes ----------------------------------------------------------------------------------------------------------


def dome():
    """Vertices and faces of a bumpy cap of glass, wound so that its normals point along the light."""
    rng = np.random.default_rng(4)
    x, y = np.meshgrid(np.linspace(-8.0, 8.0, 9), np.linspace(-8.0, 8.0, 9), indexing="ij")
    z = -np.sqrt(20.0**2 - x**2 - y**2) + 20.0 + 0.02 * rng.standard_normal(x.shape)
    vertices = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    faces = []
    for i in range(8):
        for j in range(8):
            a, b, c, d = 9 * i + j, 9 * (i + 1) + j, 9 * (i + 1) + j + 1, 9 * i + j + 1
            faces += [[a, b, c], [a, c, d]]
    return vertices, np.array(faces)


def through_dome(vertices, mirror=False):
    scene = nsq.NSQScene()
    pencils = nsq.CollimatedSourceConfig(spectrum=GREEN, total_flux=1.3, aperture_radius=6.0)
    scene.add_source("S", CS(z=-10.0), pencils)
    geometry = MeshGeometry((vertices, dome()[1]))
    cs = CS(z=5.0, rx=0.1, ry=-0.05)
    if mirror:
        scene.add_component("M", nsq.ReflectiveComponent(cs, geometry, 0.9))
        scene.add_detector("D", CS(z=-20.0), nsq.RayDatabaseConfig(100.0, 100.0))
    else:
        scene.add_component("M", nsq.RefractiveComponent(cs, geometry, nsq.VACUUM, glass(1.5, 2e-6)))
        scene.add_detector("D", CS(z=30.0), nsq.IrradianceDetectorConfig(30.0, 30.0, 10, 10))
    return weighted(trace(scene, depth=3))


@pytest.mark.parametrize("mirror", [False, True])
def test_vertices_of_a_mesh(mirror):
    """Along random directions of all vertices, and for single ones; steps so small that no ray changes its triangle."""
    plain = torch.from_numpy(dome()[0])
    leaf = plain.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(through_dome(leaf, mirror), leaf)
    assert torch.count_nonzero(gradient) > 100
    rng = np.random.default_rng(1)
    directions = [torch.from_numpy(rng.standard_normal(plain.shape)) for _ in range(3)]
    for vertex, axis in ((40, 0), (40, 2), (31, 2)):
        single = torch.zeros_like(plain)
        single[vertex, axis] = 1.0
        directions.append(single)
    step = 1e-6
    for d in directions:
        high, low = (through_dome(plain + s * step * d, mirror).item() for s in (1.0, -1.0))
        expected = (high - low) / (2.0 * step)
        found = torch.sum(gradient * d).item()
        assert abs(expected) > 1e-6
        assert found == pytest.approx(expected, rel=1e-5)


# ---- where the probability moves -------------------------------------------------------------------------------------


def test_scatter_fraction_on_the_average():
    """A mirror of which the share s scatters: the specular spot holds 1 - s, a disk of sin^2 = F the share s rho F."""
    s, rho, disk = 0.3, 0.8, 0.2
    reach = 10.0 * np.sqrt(disk / (1.0 - disk))
    direction = np.array([0.7, 0.0, 1.0])  # the specular ray passes the disk by
    grads, values = [], []
    for seed in range(24):
        share = torch.tensor(s, dtype=torch.float64, requires_grad=True)
        scene = nsq.NSQScene()
        pencil(scene, "S", -5.0 * direction, direction)
        lobe = LambertianBSDF(rho)
        mirror = nsq.ReflectiveComponent(CS(), nsq.PlaneGeometry(), 1.0, bsdf=lobe, scatter_fraction=share)
        scene.add_component("M", mirror)
        scene.add_detector("spot", CS(x=7.0, z=-10.0), nsq.IrradianceDetectorConfig(1e-6, 1e-6, 1, 1))
        shape = nsq.FinitePlaneGeometry(aperture_radius=reach)
        scene.detector_registry.add("disk", nsq.detectors.RayDatabaseDetector(CS(z=-10.0), shape, name="disk"))
        # the beam comes through neither of them: it starts beyond the disk's rim
        detectors = scene.trace(4000, max_depth=5, min_flux_fraction=0.0, seed=seed).detectors
        totals = [detectors[name].total_flux for name in ("spot", "disk")]
        values.append([total.item() for total in totals])
        grads.append([torch.autograd.grad(total, share, retain_graph=True)[0].item() for total in totals])
    for samples, expected in ((grads, (-1.0, rho * disk)), (values, (1.0 - s, s * rho * disk))):
        for column, value in zip(np.transpose(samples), expected, strict=True):
            agree(column, value, within=0.02)


def test_reflectance_of_an_integrating_sphere():
    """d/d rho of rho f / (1 - rho (1 - f)) is f / (1 - rho (1 - f))^2: through dozens of bounces of each ray."""
    rho, f, radius = 0.7, 0.1, 20.0
    grads, values = [], []
    for seed in range(8):
        leaf = torch.tensor(rho, dtype=torch.float64, requires_grad=True)
        scene = nsq.NSQScene()
        wall = nsq.ReflectiveComponent(CS(), nsq.SphereGeometry(radius), 1.0, bsdf=LambertianBSDF(leaf))
        scene.add_component("wall", wall)
        inner = radius * (1.0 - 1e-6)
        cap = nsq.ConicGeometry(inner, 0.0, inner * np.sqrt(1.0 - (1.0 - 2.0 * f) ** 2))
        port = nsq.detectors.RayDatabaseDetector(CS(z=-inner), cap, name="D")
        scene.detector_registry.add("D", port)
        pencil(scene, "S", (0.0, 0.0, 0.0), (1.0, 0.0, 0.1))
        total = trace(scene, rays=3000, seed=seed, depth=80).flux.sum()
        (g,) = torch.autograd.grad(total, leaf)
        grads.append(g.item())
        values.append(total.item())
    kept = 1.0 - rho * (1.0 - f)
    agree(values, rho * f / kept, within=0.02)
    agree(grads, f / kept**2, within=0.05)
