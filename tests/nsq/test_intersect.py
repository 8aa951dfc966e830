"""Rays against single surfaces: what is found, on which side, and every derivative by finite differences."""

import math

import numpy as np
import pytest
import torch

import nsq

from . import scenes

# a shape from its numbers, the numbers, and rays (origin, direction) that meet it away from its limits
SHAPES = {
    "plane": (
        lambda v: nsq.PlaneGeometry(),
        [],
        [((1.0, 2.0, -3.0), (0.2, -0.1, 0.9)), ((0.0, 0.0, 2.0), (0.0, 0.0, -1.0))],
    ),
    "conic": (
        lambda v: nsq.ConicGeometry(v[0], v[1], 9.0),
        [25.0, -0.6],
        [((1.0, -2.0, -5.0), (0.1, 0.2, 0.95)), ((3.0, 4.0, 12.0), (-0.1, 0.1, -1.0))],
    ),
    "concave conic": (
        lambda v: nsq.ConicGeometry(v[0], v[1], 9.0),
        [-18.0, 0.7],
        [((1.0, -2.0, -8.0), (0.1, 0.2, 0.95)), ((3.0, 4.0, 6.0), (-0.1, 0.1, -1.0))],
    ),
    "hyperboloid": (
        lambda v: nsq.ConicGeometry(v[0], v[1], 30.0),
        [2.944641, -2.5073],
        [((0.0, 0.0, -5.0), (0.0, 0.669130606, 0.743144825)), ((1.0, 1.0, 9.0), (0.1, -0.2, -1.0))],
    ),
    "sphere": (
        lambda v: nsq.SphereGeometry(v[0]),
        [7.0],
        [((1.0, -2.0, -20.0), (0.05, 0.1, 0.95)), ((1.0, 2.0, 0.5), (0.3, -0.2, 0.8))],
    ),
    "frustum": (
        lambda v: nsq.CylindricalFrustumGeometry(v[0], v[1], v[2], v[3]),
        [4.0, 6.0, -3.0, 5.0],
        [((-12.0, 1.0, 0.3), (1.0, 0.05, 0.1)), ((0.5, 0.2, 0.0), (0.4, 0.9, 0.1))],
    ),
    "annulus": (
        lambda v: nsq.AnnularPlaneGeometry(1.0, 8.0, v[0]),
        [0.7],
        [((3.0, 2.0, -3.0), (0.2, -0.1, 0.9)), ((0.0, 4.0, 2.0), (0.1, 0.0, -1.0))],
    ),
}


def unit(directions):
    return directions / torch.linalg.norm(directions, dim=1, keepdim=True)


def tensor(values, grad=True):
    return torch.tensor(values, dtype=torch.float64, requires_grad=grad)


@pytest.mark.parametrize("name", SHAPES)
def test_hits_lie_on_the_surface_and_have_their_derivatives(name):
    build, numbers, rays = SHAPES[name]
    origins, directions = tensor([o for o, _ in rays]), tensor([d for _, d in rays])
    values = [tensor(v) for v in numbers]

    def find(o, d, *v):
        t, normals, hit, n_geom = build(v).ray_intersect(o, unit(d))
        assert bool(hit.all())
        return t, normals, n_geom

    assert torch.autograd.gradcheck(find, (origins, directions, *values), eps=1e-6, atol=1e-8, rtol=1e-6)
    t, normals, n_geom = find(origins, directions, *values)
    assert torch.linalg.norm(n_geom, dim=1).detach().numpy() == pytest.approx(1.0, abs=1e-14)
    assert bool(((normals * directions).sum(dim=1) < 0.0).all())
    assert bool((t > 0.0).all())
    # the same from NumPy arrays, as arrays
    plain = build(numbers).ray_intersect(origins.detach().numpy(), unit(directions).detach().numpy())
    assert all(isinstance(part, np.ndarray) for part in plain)
    assert plain[0] == pytest.approx(t.detach().numpy(), rel=1e-15)
    assert plain[3] == pytest.approx(n_geom.detach().numpy(), abs=1e-15)


def test_a_miss_is_infinitely_far_and_has_no_gradient():
    radius, origins = tensor(20.0), tensor([(0.0, 0.0, -5.0), (0.0, 11.0, -5.0), (0.0, 0.0, 5.0)])
    directions = tensor([(0.0, 0.0, 1.0)] * 3, grad=False)
    t, normals, hit, n_geom = nsq.ConicGeometry(radius, 0.0, 9.0).ray_intersect(origins, directions)
    assert hit.tolist() == [True, False, False]
    assert t.tolist() == [5.0, math.inf, math.inf]
    assert normals[1:].tolist() == n_geom[1:].tolist() == [[0.0] * 3] * 2
    (torch.where(hit, t, 0.0).sum() + n_geom.sum() + normals.sum()).backward()
    assert origins.grad[1:].tolist() == [[0.0] * 3] * 2
    assert origins.grad[0, 2].item() == -1.0
    assert radius.grad.item() == 0.0  # at the vertex


def test_a_ray_along_a_plane_misses_it():
    origins, directions = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]), np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0]])
    t, _, hit, _ = nsq.PlaneGeometry().ray_intersect(origins, directions)
    assert hit.tolist() == [False, False]
    assert t.tolist() == [math.inf, math.inf]


@pytest.mark.parametrize(
    ("origins", "directions", "error", "words"),
    [
        ("rays", np.zeros((1, 3)), TypeError, "origins got str"),
        (np.zeros(3), np.zeros((1, 3)), ValueError, r"origins got shape \(3,\)"),
        (np.zeros((2, 3)), np.ones((1, 3)), ValueError, r"directions got shape \(1, 3\); it takes \(2, 3\)"),
        (np.zeros((1, 3)), np.array([[0.0, math.nan, 1.0]]), ValueError, "directions got numbers that are not finite"),
    ],
)
def test_what_is_no_ray_is_refused(origins, directions, error, words):
    with pytest.raises(error, match=words):
        nsq.PlaneGeometry().ray_intersect(origins, directions)


def bundle(positions, directions):
    """Rays for `intersect_scene`."""
    columns = dict(zip("xyz", positions.unbind(1), strict=True)) | dict(zip("LMN", directions.unbind(1), strict=True))
    n = len(positions)
    return nsq.NSQRayBundle(**columns, flux=np.ones(n), wavelength=np.full(n, 0.55))


def two_surfaces(z, rx, radius):
    base = nsq.CoordinateSystem(z=z, rx=rx)
    dish = nsq.ConicGeometry(radius, 0.0, 8.0)
    ball = nsq.SphereGeometry(2.0)
    return [
        nsq.ReflectiveComponent(base, dish, reflectance=0.9),
        nsq.AbsorbingComponent(nsq.CoordinateSystem(y=4.0, z=-3.0, reference_cs=base), ball),
    ]


def test_the_nearest_surface_of_a_scene_with_its_derivatives():
    positions = tensor([(0.5, -3.0, 0.0), (0.3, 4.1, 0.0), (0.0, 30.0, 0.0)])
    directions = tensor([(0.01, 0.02, 0.99), (0.0, -0.05, 1.0), (0.0, 0.0, 1.0)])
    pose = [tensor(v) for v in (20.0, 0.1, -60.0)]

    def find(p, d, *v):
        t, normals, index, n_geom = nsq.TorchBackend().intersect_scene(bundle(p, unit(d)), two_surfaces(*v))
        assert index.tolist() == [0, 1, -1]
        assert t[2].item() == math.inf
        return t[:2], normals, n_geom

    assert torch.autograd.gradcheck(find, (positions, directions, *pose), eps=1e-6, atol=1e-8, rtol=1e-6)
    t, normals, n_geom = find(positions, directions, *pose)
    assert bool(((normals * directions)[:2].sum(dim=1) < 0.0).all())
    assert normals[2].tolist() == n_geom[2].tolist() == [0.0, 0.0, 0.0]
    # the ball's normal points to its centre, with the ray: it is turned against it
    assert normals[1].tolist() == (-n_geom[1]).tolist()
    found = positions[1] + t[1] * unit(directions)[1]
    y, z, c, sine = 4.0, -3.0, math.cos(0.1), math.sin(0.1)
    centre = torch.tensor([0.0, c * y - sine * z, 20.0 + sine * y + c * z], dtype=torch.float64)
    assert torch.linalg.norm(found - centre).item() == pytest.approx(2.0, rel=1e-14)


def test_on_a_tie_the_first_surface_counts():
    plane = [nsq.AbsorbingComponent(nsq.CoordinateSystem(z=5.0), nsq.PlaneGeometry()) for _ in range(3)]
    rays = bundle(torch.zeros(1, 3, dtype=torch.float64), torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64))
    t, _, index, _ = nsq.TorchBackend().intersect_scene(rays, plane)
    assert (t.tolist(), index.tolist()) == ([5.0], [0])


def test_no_surface_is_met_where_there_is_none():
    rays = bundle(torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64))
    t, normals, index, n_geom = nsq.TorchBackend().intersect_scene(rays, [])
    assert t.tolist() == [math.inf] * 2
    assert index.tolist() == [-1] * 2
    assert normals.tolist() == n_geom.tolist() == [[0.0] * 3] * 2


def test_only_surfaces_can_be_met():
    rays = bundle(torch.zeros(1, 3, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"components\[0\] got PlaneGeometry"):
        nsq.TorchBackend().intersect_scene(rays, [nsq.PlaneGeometry()])


def test_the_trace_finds_the_same_points():
    """Rays from a source, met by `intersect_scene`, against the hits of a database in the same place."""
    radius = 30.0
    cs = nsq.CoordinateSystem(x=0.4, z=25.0, rx=0.3, ry=-0.1)
    scene = nsq.NSQScene()
    source = nsq.PointSourceConfig(spectrum=scenes.GREEN, half_angle_deg=20.0)
    scene.add_source("S", nsq.CoordinateSystem(y=0.2), source)
    curved = nsq.RayDatabaseDetector(cs, nsq.ConicGeometry(radius, -0.5, 6.0), name="D")
    scene.detector_registry.add("D", curved)
    rays = scene.trace(500, seed=3).detectors["D"]
    born = scene.sources[0].generate(np.arange(500), nsq.NSQRng(3))
    wall = nsq.AbsorbingComponent(cs, nsq.ConicGeometry(radius, -0.5, 6.0))
    t, _, index, _ = nsq.TorchBackend().intersect_scene(born, [wall])
    hit = index == 0
    assert 100 < hit.sum() < 500
    assert np.array_equal(np.flatnonzero(hit), rays.ray_id.numpy())
    landed = born.positions + t[:, None] * born.directions
    expected = torch.stack([rays.x, rays.y, rays.z], dim=1)
    assert landed[torch.from_numpy(hit)].numpy() == pytest.approx(expected.numpy(), abs=1e-12)


def test_a_direction_may_have_any_length():
    geometry = nsq.ConicGeometry(25.0, 0.0, 9.0)
    origins, direction = np.array([[1.0, -2.0, -5.0]]), np.array([[0.1, 0.2, 0.95]])
    unit = direction / np.linalg.norm(direction)
    t, _, _, normal = geometry.ray_intersect(origins, unit)
    for scale in (0.5, 1.0, 3.0):
        longer, _, hit, same = geometry.ray_intersect(origins, scale * unit)
        assert hit.all()
        assert scale * longer == pytest.approx(t, rel=1e-14)
        assert same == pytest.approx(normal, abs=1e-14)
    with pytest.raises(ValueError, match="length 0"):
        geometry.ray_intersect(origins, 0.0 * unit)
