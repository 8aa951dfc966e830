"""Shapes, coatings and books that only a trace shows: aspheres, toroids, meshes, thin films, per-surface flux."""

import math

import numpy as np
import pytest
import torch

import nsq

from .scenes import GREEN

STILL = nsq.SamplingPolicy(reflect_prob=0.3, rr_start_flux=0.0)
SHAPES = {
    "even asphere": lambda v: nsq.EvenAsphereGeometry(v["radius"], v["conic"], 8.0, (v["a"], v["b"])),
    "odd asphere": lambda v: nsq.AsphereGeometry(v["radius"], v["conic"], 8.0, {2: 100.0 * v["b"], 3: v["a"]}),
    "biconic": lambda v: nsq.BiconicGeometry(v["radius"], v["radius_y"], v["conic"], 1e3 * v["a"], aperture_radius=8.0),
    "toroid": lambda v: nsq.ToroidGeometry(v["radius"], v["radius_y"], v["conic"], aperture_radius=8.0),
}
NUMBERS = {"radius": 40.0, "radius_y": 70.0, "conic": -0.6, "a": 1e-4, "b": 2e-6, "x": 0.4, "rz": 0.4, "n": 1.5}
USED = {
    "even asphere": {"radius", "conic", "a", "b"},
    "odd asphere": {"radius", "conic", "a", "b"},
    "biconic": {"radius", "radius_y", "conic", "a"},
    "toroid": {"radius", "radius_y", "conic"},
}


def lens(front, n=1.5, x=0.0, rz=0.0, coating=None, source=None):
    """A front of any shape and a spherical back, before a detector that is wider than the beam."""
    scene = nsq.NSQScene()
    scene.sampling_policy = STILL
    scene.add_source(
        "S",
        nsq.CoordinateSystem(rx=0.02),
        source or nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=4.0, total_flux=1.5),
    )
    glass = nsq.NSQMaterial.constant(n, 1e-6)
    frame = nsq.CoordinateSystem(x=x, z=20.0, rx=0.03, ry=0.05, rz=rz)
    scene.add_component(
        "front", nsq.RefractiveComponent(frame, front, nsq.VACUUM, glass, name="front", coating=coating)
    )
    back = nsq.ConicGeometry(-60.0, 0.0, 12.0)
    scene.add_component(
        "back", nsq.RefractiveComponent(nsq.CoordinateSystem(z=27.0), back, glass, nsq.VACUUM, name="back")
    )
    screen = nsq.IrradianceDetectorConfig(width=60.0, height=60.0, num_pixels_x=40, num_pixels_y=40)
    scene.add_detector("D", nsq.CoordinateSystem(z=50.0), screen)
    return scene


def functional(scene, num_rays=1500):
    # what differences at the same random numbers are compared with: no ray changes its fate
    result = scene.trace(num_rays, max_depth=6, min_flux_fraction=0.0, seed=5, visibility="off")
    data = result.detectors["D"].data
    return torch.sum(data * torch.cos(0.03 * torch.arange(len(data), dtype=torch.float64)))


def derivative(build, values, name, relative_step):
    sides = []
    for sign in (1.0, -1.0):
        moved = dict(values)
        moved[name] *= 1.0 + sign * relative_step
        sides.append((moved[name], functional(build(moved)).item()))
    (high, f_high), (low, f_low) = sides
    return (f_high - f_low) / (high - low)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_sags_match_central_differences(shape):
    def build(v):
        return lens(SHAPES[shape](v), n=v["n"], x=v["x"], rz=v["rz"])

    leaves = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in NUMBERS.items()}
    names = [name for name in NUMBERS if name in USED[shape] | {"x", "rz", "n"}]
    gradients = torch.autograd.grad(functional(build(leaves)), [leaves[name] for name in names])
    for name, gradient in zip(names, gradients, strict=True):
        expected = derivative(build, NUMBERS, name, 1e-5)
        assert gradient.item() == pytest.approx(expected, rel=1e-5), name


def test_a_sag_without_terms_is_the_conic():
    conic = functional(lens(nsq.ConicGeometry(40.0, -0.6, 8.0)))
    assert functional(lens(nsq.EvenAsphereGeometry(40.0, -0.6, 8.0))).item() == pytest.approx(conic.item(), rel=1e-12)
    turned = functional(lens(nsq.BiconicGeometry(40.0, 40.0, -0.6, -0.6, aperture_radius=8.0)))
    assert turned.item() == pytest.approx(conic.item(), rel=1e-12)


def test_a_toroid_of_equal_radii_is_the_sphere():
    sphere = functional(lens(nsq.ConicGeometry(40.0, 0.0, 8.0)))
    toroid = functional(lens(nsq.ToroidGeometry(40.0, 40.0, aperture_radius=8.0)))
    assert toroid.item() == pytest.approx(sphere.item(), rel=1e-12)


def test_a_ray_meets_an_asphere_where_its_sag_says():
    shape = nsq.EvenAsphereGeometry(30.0, -1.3, 9.0, (2e-5, -3e-7))
    scene = nsq.NSQScene()
    scene.add_source("S", nsq.CoordinateSystem(z=-30.0), nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=20.0))
    scene.add_detector("far", nsq.CoordinateSystem(z=60.0), nsq.RayDatabaseConfig(width=400.0, height=400.0))
    hits = nsq.RayDatabaseDetector(nsq.CoordinateSystem(), shape, name="on it", absorb=False)
    scene.detector_registry.add("on it", hits)
    rays = scene.trace(3000, seed=2).detectors["on it"]
    assert rays.num_rays > 1000
    sag = shape.sag(rays.x, rays.y)
    assert torch.max(torch.abs(rays.z - sag)).item() < 1e-12
    assert torch.max(torch.hypot(rays.x, rays.y)).item() <= 9.0


def film(values):
    layers = [
        (nsq.NSQMaterial.constant(values["index"], 1e-3), values["thickness"]),
        (nsq.NSQMaterial.constant(2.1), 0.07),
    ]
    return nsq.ThinFilmCoating(layers)


def test_gradients_of_a_thin_film_match_central_differences():
    cone = nsq.PointSourceConfig(spectrum=nsq.Spectrum([0.5, 0.6], [1.0, 1.0]), half_angle_deg=10.0)

    def build(v):
        return lens(nsq.ConicGeometry(v["radius"], 0.0, 8.0), coating=film(v), source=cone)

    values = {"index": 1.38, "thickness": 0.1, "radius": 40.0}
    leaves = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in values.items()}
    gradients = torch.autograd.grad(functional(build(leaves)), list(leaves.values()))
    for name, gradient in zip(leaves, gradients, strict=True):
        assert gradient.item() == pytest.approx(derivative(build, values, name, 1e-6), rel=1e-5), name


@pytest.mark.parametrize("angle", [0.0, 30.0, 55.0])
def test_a_film_reflects_in_the_trace_what_its_matrix_says(angle):
    """The direct reflection off a coated half space, to the table's interpolation."""
    coating = film({"index": 1.38, "thickness": 0.1})
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=1.0)
    scene.add_source("S", nsq.CoordinateSystem(), beam)
    glass = nsq.NSQMaterial.constant(1.5)
    face = nsq.RefractiveComponent(
        nsq.CoordinateSystem(z=20.0, rx=math.radians(angle)), nsq.FinitePlaneGeometry(60.0, 60.0), nsq.VACUUM, glass,
        name="face", coating=coating,
    )  # fmt: skip
    scene.add_component("face", face)
    scene.add_detector("behind", nsq.CoordinateSystem(z=40.0), nsq.IrradianceDetectorConfig(width=80.0, height=80.0))
    num_rays = 20000
    result = scene.trace(num_rays, seed=4)
    cosine = torch.tensor([math.cos(math.radians(angle))], dtype=torch.float64)
    media = (torch.ones(1, dtype=torch.float64), torch.full((1,), 1.5, dtype=torch.float64))
    wavelength = torch.tensor(GREEN.wavelengths.tolist(), dtype=torch.float64)
    reflectance, transmittance = (v.item() for v in coating.angular_table(wavelength, cosine, *media))
    reflected, lost = result.num_rays_escaped, result.total_flux_coating
    # the branch is drawn with the reflectance itself: binomial, within 4 sigma
    sigma = math.sqrt(num_rays * reflectance * (1.0 - reflectance))
    assert abs(reflected - num_rays * reflectance) < 4.0 * sigma
    # of a transmitted ray the film takes the same share every time
    share = (1.0 - reflectance - transmittance) / (1.0 - reflectance)
    assert lost == pytest.approx(share * (1.0 - reflected / num_rays), rel=2e-5)
    assert result.flux_conservation_error < 1e-12


def test_path_lengths_are_distances_along_the_ray():
    scene = nsq.NSQScene()
    scene.add_source("S", nsq.CoordinateSystem(), nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=10.0))
    scene.add_mirror("M", nsq.CoordinateSystem(z=50.0), nsq.MirrorConfig(radius=0.0, reflectance=1.0))
    scene.add_detector("D", nsq.CoordinateSystem(z=-30.0), nsq.RayDatabaseConfig(width=200.0, height=200.0))
    rays = scene.trace(500).detectors["D"]
    # unfolded, every ray goes straight from the origin to the plane 130 mm away
    assert torch.allclose(rays.path_length, 130.0 / torch.abs(rays.N), rtol=1e-13)


def test_books_of_surfaces_add_up_to_the_ledger():
    scene = nsq.NSQScene()
    scene.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=5.0))
    scene.add_lens(
        "L", nsq.CoordinateSystem(z=20.0),
        nsq.LensConfig(r1=60.0, r2=-60.0, thickness=4.0, material=nsq.NSQMaterial.constant(1.6),
                       front_aperture_radius=4.0,
                       front=nsq.SurfaceConfig(coating=nsq.SimpleCoating(transmittance=0.9, reflectance=0.05))),
    )  # fmt: skip
    scene.add_mirror("M", nsq.CoordinateSystem(z=60.0, rx=0.7), nsq.MirrorConfig(radius=-200.0, reflectance=0.8))
    scene.add_detector("D", nsq.CoordinateSystem(y=60.0, z=60.0, rx=1.3), nsq.IrradianceDetectorConfig(80.0, 80.0))
    result = scene.trace(5000)
    books = result.surfaces
    assert set(books) == {"L.front", "L.back", "L.edge", "M.surface"}
    assert sum(b.coating_flux for b in books.values()) == pytest.approx(result.total_flux_coating, rel=1e-12)
    assert sum(b.absorbed_flux for b in books.values()) == pytest.approx(result.total_flux_absorbed, rel=1e-12)
    assert books["M.surface"].coating_flux == pytest.approx(0.2 * books["M.surface"].incident_flux, rel=1e-9)
    assert books["L.edge"].absorbed_flux == books["L.edge"].incident_flux


def box(half, num_splits):
    """A cube of triangles, each face split ``num_splits`` times into four."""
    corners = half * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
    faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6],
             [0, 6, 4], [1, 5, 7], [1, 7, 3]]  # fmt: skip
    vertices, faces = list(corners), list(map(tuple, faces))
    for _ in range(num_splits):
        middle, split = {}, []
        for a, b, c in faces:
            ends = []
            for i, j in ((a, b), (b, c), (c, a)):
                key = (min(i, j), max(i, j))
                if key not in middle:
                    middle[key] = len(vertices)
                    vertices.append((vertices[i] + vertices[j]) / 2.0)
                ends.append(middle[key])
            ab, bc, ca = ends
            split += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = split
    return np.array(vertices), np.array(faces)


@pytest.mark.parametrize("num_splits", [0, 3])
def test_a_cube_of_triangles_holds_every_ray_that_starts_inside(num_splits):
    """Rays from the centre through every vertex, edge and face: each meets the cube once, wherever it is cut."""
    vertices, faces = box(5.0, num_splits)
    scene = nsq.NSQScene()
    scene.add_source("S", nsq.CoordinateSystem(), nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=180.0))
    cube = nsq.MeshGeometry((vertices, faces))
    scene.add_component("cube", nsq.AbsorbingComponent(nsq.CoordinateSystem(rx=0.3, ry=0.2), cube, name="cube"))
    scene.add_detector("D", nsq.CoordinateSystem(z=100.0), nsq.IrradianceDetectorConfig(width=1.0, height=1.0))
    result = scene.trace(20000)
    assert result.num_rays_absorbed == 20000
    assert result.surfaces["cube"].num_hits == 20000


def test_gradients_reach_the_vertices_of_a_mesh():
    """A triangle mirror: the derivative inside the triangle, against differences."""
    corners = torch.tensor([[-9.0, -9.0, 40.0], [9.0, -8.0, 41.0], [0.5, 12.0, 40.5]], dtype=torch.float64)

    def value(vertices):
        scene = nsq.NSQScene()
        scene.sampling_policy = STILL
        scene.add_source("S", nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=2.0))
        mirror = nsq.MeshGeometry((vertices, np.array([[0, 1, 2]])))
        scene.add_component("M", nsq.ReflectiveComponent(nsq.CoordinateSystem(), mirror, 0.9, name="M"))
        screen = nsq.IrradianceDetectorConfig(width=60.0, height=60.0, num_pixels_x=40, num_pixels_y=40)
        scene.add_detector("D", nsq.CoordinateSystem(z=-20.0), screen)
        return functional(scene)

    leaf = corners.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(value(leaf), leaf)
    for i in range(3):
        for j in range(3):
            sides = []
            for sign in (1.0, -1.0):
                moved = corners.clone()
                moved[i, j] += sign * 1e-5
                sides.append(value(moved).item())
            expected = (sides[0] - sides[1]) / 2e-5
            assert gradient[i, j].item() == pytest.approx(expected, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_ray_intersect_of_a_sag_has_its_derivatives(shape):
    rng = np.random.default_rng(4)
    origins = torch.tensor(np.c_[rng.uniform(-3, 3, (4, 2)), np.full(4, -20.0)], requires_grad=True)
    tilt = rng.uniform(-0.05, 0.05, (4, 2))
    directions = torch.tensor(np.c_[tilt, np.sqrt(1.0 - (tilt**2).sum(axis=1))], requires_grad=True)
    names = [name for name in NUMBERS if name in USED[shape]]
    leaves = [torch.tensor(NUMBERS[name], dtype=torch.float64, requires_grad=True) for name in names]

    def meet(o, d, *values):
        geometry = SHAPES[shape]({**NUMBERS, **dict(zip(names, values, strict=True))})
        t, _, hit, n_geom = geometry.ray_intersect(o, d)
        assert bool(hit.all())
        return t, n_geom

    t, n_geom = meet(origins, directions, *leaves)
    point = (origins + t[:, None] * directions).detach()
    geometry = SHAPES[shape](NUMBERS)
    assert torch.max(torch.abs(geometry.implicit(point))).item() < 1e-12
    assert torch.allclose(torch.linalg.vector_norm(n_geom, dim=1), torch.ones(4, dtype=torch.float64))
    assert torch.autograd.gradcheck(meet, (origins, directions, *leaves), eps=1e-7, atol=1e-6)


def test_ray_intersect_of_a_mesh_and_of_several_surfaces():
    vertices, faces = box(5.0, 1)
    cube = nsq.MeshGeometry((vertices, faces))
    origins = np.array([[0.0, 0.0, -20.0], [4.9, -4.9, -20.0], [6.0, 0.0, -20.0]])
    directions = np.tile([0.0, 0.0, 1.0], (3, 1))
    t, normals, hit, n_geom = cube.ray_intersect(origins, directions)
    assert hit.tolist() == [True, True, False]
    assert t[:2] == pytest.approx([15.0, 15.0])
    assert np.isinf(t[2])
    assert normals[0] == pytest.approx([0.0, 0.0, -1.0])
    assert np.abs(n_geom[0]) == pytest.approx([0.0, 0.0, 1.0])
    bundle = nsq.NSQRayBundle(*origins.T, *directions.T, flux=np.ones(3), wavelength=np.full(3, 0.55))
    plane = nsq.AbsorbingComponent(nsq.CoordinateSystem(z=-16.0), nsq.FinitePlaneGeometry(8.0, 8.0), name="plane")
    solid = nsq.AbsorbingComponent(nsq.CoordinateSystem(), cube, name="cube")
    t_min, _, index, _ = nsq.TorchBackend().intersect_scene(bundle, [solid, plane])
    assert index.tolist() == [1, 0, -1]
    assert t_min[:2].tolist() == pytest.approx([4.0, 15.0])
