"""Scenes of thousands of surfaces: the tree of boxes finds what trying every surface finds."""

import numpy as np
import pytest

import nsq
from nsq.lowering import surfaces

from .tools import CS, GREEN, columns, glass


def crowd(count, seed, kind, half):
    """Spheres, plates or other faces, of glass and mirrors, all over a box of half side ``half`` with a lamp inside."""
    rng = np.random.default_rng(seed)
    scene = nsq.NSQScene()
    medium = glass(1.5)
    for i in range(count):
        pose = dict(zip(("x", "y", "z", "rx", "ry", "rz"), rng.uniform(-1.0, 1.0, 6), strict=True))
        cs = CS(**{name: value * (half if name in "xyz" else 3.0) for name, value in pose.items()})
        size = rng.uniform(0.3, 1.2)
        shapes = {
            "spheres": lambda size=size: nsq.SphereGeometry(size),
            "plates": lambda size=size: nsq.FinitePlaneGeometry(2.0 * size, size),
            "mixed": lambda size=size, i=i: (
                nsq.ConicGeometry(1.5 * size, -0.5, size),
                nsq.CylindricalFrustumGeometry(size, 0.6 * size, -size, size),
                nsq.AnnularPlaneGeometry(0.3 * size, size),
                nsq.SphereGeometry(size, 0.7 * size),
            )[i % 4],
        }
        geometry = shapes[kind]()
        if i % 3:
            part = nsq.RefractiveComponent(cs, geometry, nsq.VACUUM, medium, name=f"{i}")
        else:
            part = nsq.ReflectiveComponent(cs, geometry, 0.9, name=f"{i}")
        scene.add_component(f"{i}", part)
    lamp = nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=180.0)
    scene.add_source("S", CS(x=0.2, y=-0.1, z=0.3), lamp)
    shell = nsq.detectors.RayDatabaseDetector(CS(), nsq.SphereGeometry(200.0), name="shell")
    scene.detector_registry.add("shell", shell)
    scene.add_detector("plane", CS(z=10.0), nsq.IrradianceDetectorConfig(40.0, 40.0, 8, 8, absorb=False))
    return scene


@pytest.mark.parametrize(
    ("kind", "count", "half"), [("spheres", 3000, 20.0), ("plates", 600, 8.0), ("mixed", 600, 8.0)]
)
def test_a_tree_finds_what_a_search_of_all_finds(kind, count, half, monkeypatch):
    """The same bits in every ray, every map and the whole ledger."""
    found, rays = [], 1500
    for threshold in (24, 10**9):
        monkeypatch.setattr(surfaces, "TREE_FROM", threshold)
        result = crowd(count, 3, kind, half).trace(rays, max_depth=30, min_flux_fraction=0.0, seed=1)
        found.append(result)
    tree, brute = found
    assert tree.total_flux_coating > 0.02
    for name in ("detected", "tapped", "coating", "escaped", "lost", "absorbed"):
        assert getattr(tree, f"total_flux_{name}") == getattr(brute, f"total_flux_{name}"), name
    a, b = (columns(r.detectors["shell"]) for r in found)
    assert len(a[3]) > 0.8 * rays
    for one, other in zip(a, b, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(*(r.detectors["plane"].data.numpy() for r in found))


def test_the_same_crowd_far_from_the_origin():
    """The boxes are float32: they must still hold their spheres where a coordinate is large."""
    results = []
    for shift in (0.0, 4096.0):
        scene = crowd(400, 5, "spheres", 30.0)
        for item in (*scene.surfaces, *scene.sources, *scene.detectors):
            item.cs.x = item.cs.x + shift
        results.append(scene.trace(2000, max_depth=30, min_flux_fraction=0.0, seed=1))
    near, far = results
    # the same paths but for rounding, which a ray that meets many balls multiplies: nearly all of them end the same
    a, b = (columns(r.detectors["shell"]) for r in results)
    common, i, j = np.intersect1d(a[3], b[3], return_indices=True)
    assert len(common) > 0.995 * len(a[3])
    same = np.abs(a[1][i] - b[1][j]).max(axis=1) < 1e-6
    assert np.mean(same) > 0.99
    assert far.total_flux_escaped == near.total_flux_escaped == 0.0


def far_beam(distance, far_field):
    """A beam from far off on a cube of triangles among balls, with a disk as wide as a far field's behind all."""
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=6.0)
    scene.add_source("S", CS(z=-distance), beam)
    corners = 1.7 * np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
    faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6],
             [0, 6, 4], [1, 5, 7], [1, 7, 3]]  # fmt: skip
    mesh = nsq.geometries_mesh.MeshGeometry((corners, np.array(faces)))
    scene.add_component("cube", nsq.AbsorbingComponent(CS(), mesh, name="cube"))
    for i in range(30):
        angle = 2.0 * np.pi * i / 30.0
        cs = CS(x=5.0 * np.cos(angle), y=5.0 * np.sin(angle))
        scene.add_component(f"{i}", nsq.AbsorbingComponent(cs, nsq.SphereGeometry(0.3), name=f"{i}"))
    if far_field:
        scene.add_detector("D", CS(z=50.0), nsq.FarFieldDetectorConfig(num_theta=4, num_phi=4))
    else:
        scene.add_detector("D", CS(z=50.0), nsq.IrradianceDetectorConfig(20.0, 20.0, 4, 4))
    return scene


@pytest.mark.parametrize("far_field", [False, True])
@pytest.mark.parametrize("distance", [1e3, 1e5])
def test_a_tree_far_from_the_source(distance, far_field):
    """The cube's shadow is its square and each ball's a disk, for every ray, from wherever it comes."""
    rays = 20_000
    scene = far_beam(distance, far_field)
    near = far_beam(10.0, far_field).trace(rays, seed=4)
    result = scene.trace(rays, seed=4)
    assert near.surfaces["cube"].num_hits > 0.09 * rays
    for name, books in near.surfaces.items():
        # the same rays but for one on a rim
        assert abs(result.surfaces[name].num_hits - books.num_hits) <= 1, name
