"""Light pipes: total reflection bounce after bounce, by planes, by triangles, and by the edge of a lens.

Light that enters a pipe of index 1.5 from air through its end runs at most 41.81 degrees from the axis, so it meets a
side at 48.19 degrees at least, beyond the critical 41.81: none of it leaves through a side.
"""

import numpy as np
import pytest
import torch

import nsq
from nsq.geometries_mesh import MeshGeometry

from .tools import CS, GREEN, IDEAL, OFF, columns, extinction, glass, pencil

N, LENGTH = 1.5, 100.0
DEPTH = 80  # 65 side bounces at most, two ends, and the detector


def sheet(corner, u, v, m, k):
    """Triangles (2 m k, 3, 3) of a parallelogram; their normals are along u x v."""
    corner, u, v = (np.asarray(a, dtype=np.float64) for a in (corner, u, v))
    s, t = np.meshgrid(np.arange(m + 1) / m, np.arange(k + 1) / k, indexing="ij")
    p = corner + s[..., None] * u + t[..., None] * v
    a, b, c, d = p[:-1, :-1], p[1:, :-1], p[1:, 1:], p[:-1, 1:]
    return np.stack([np.stack([a, b, c], axis=2), np.stack([a, c, d], axis=2)], axis=2).reshape(-1, 3, 3)


def mesh(*sheets):
    corners = np.concatenate(sheets)
    vertices, faces = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    return MeshGeometry((torch.from_numpy(vertices), faces.reshape(-1, 3)))


def planes():
    end = nsq.FinitePlaneGeometry(2.0, 2.0)
    parts = {"in": (end, CS()), "out": (end, CS(z=LENGTH))}
    for i, (x, y) in enumerate(((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))):
        size = (LENGTH, 2.0) if x else (2.0, LENGTH)
        turn = {"ry": x * np.pi / 2} if x else {"rx": -y * np.pi / 2}
        parts[f"side {i}"] = (nsq.FinitePlaneGeometry(*size), CS(x=x, y=y, z=0.5 * LENGTH, **turn))
    return parts


def triangles(m, k):
    """Each end of 2 m^2 triangles and each side of 2 m k, all of them cut at the same corners."""
    along = (0.0, 0.0, LENGTH)
    sides = mesh(
        sheet((1.0, -1.0, 0.0), (0.0, 2.0, 0.0), along, m, k),
        sheet((1.0, 1.0, 0.0), (-2.0, 0.0, 0.0), along, m, k),
        sheet((-1.0, 1.0, 0.0), (0.0, -2.0, 0.0), along, m, k),
        sheet((-1.0, -1.0, 0.0), (2.0, 0.0, 0.0), along, m, k),
    )
    ends = [mesh(sheet((-1.0, -1.0, z), (2.0, 0.0, 0.0), (0.0, 2.0, 0.0), m, m)) for z in (0.0, LENGTH)]
    return {"in": (ends[0], CS()), "out": (ends[1], CS()), "sides": (sides, CS())}


SHAPES = {"planes": planes, "12 triangles": lambda: triangles(1, 1), "12096 triangles": lambda: triangles(12, 120)}


def pipe(shape, shift=0.0):
    """Ends that let everything through, as the law of refraction sends it."""
    scene, frame = nsq.NSQScene(), CS(x=shift, y=shift, z=shift)
    for name, (geometry, cs) in SHAPES[shape]().items():
        cs.reference_cs = frame
        media = (nsq.VACUUM, glass(N)) if name == "in" else (glass(N), nsq.VACUUM)
        coating = IDEAL if name in ("in", "out") else None
        scene.add_component(name, nsq.RefractiveComponent(cs, geometry, *media, coating=coating, name=name))
    screen = nsq.IrradianceDetectorConfig(2.1, 2.1, num_pixels_x=4, num_pixels_y=4)
    scene.add_detector("D", CS(z=LENGTH + 1e-6, reference_cs=frame), screen)
    scene.sampling_policy = OFF
    return scene, frame


def arrives(result, rays, flux):
    """Every ray and all of the flux, at the far end and nowhere else."""
    detector = result.detectors["D"]
    leaked = result.num_rays_escaped + result.num_rays_depth_killed
    assert (detector.num_rays_hit, leaked) == (rays, 0)
    assert detector.total_flux_float == pytest.approx(flux, abs=1e-6)


@pytest.mark.parametrize(
    ("shape", "shift", "rays"),
    [
        ("planes", 0.0, 1_000_000), ("planes", 1000.0, 400_000), ("12 triangles", 0.0, 150_000),
        ("12 triangles", 1000.0, 150_000), ("12096 triangles", 0.0, 40_000), ("12096 triangles", 1000.0, 40_000),
    ],
)  # fmt: skip
def test_no_light_leaves_through_a_side(shape, shift, rays):
    scene, frame = pipe(shape, shift)
    # Lambertian from air close before the end, so that even grazing light enters it
    source = nsq.ExtendedSourceConfig(spectrum=GREEN, width=1.8, height=1.8)
    scene.add_source("S", CS(z=-1e-7, reference_cs=frame), source)
    arrives(scene.trace(rays, max_depth=DEPTH, min_flux_fraction=0.0, seed=1), rays, 1.0)


def aimed(scene, frame, targets):
    """Light that, refracted at the middle of the end, runs straight to each target."""
    count = 0
    for target in targets:
        inside = np.asarray(target) / np.linalg.norm(target)
        x, y = N * inside[:2]
        if x * x + y * y >= 0.9999:
            continue
        direction = np.array([x, y, np.sqrt(1.0 - x * x - y * y)])
        pencil(scene, f"S{count}", -0.01 * direction, direction, frame)
        count += 1
    return count


@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_light_at_the_lines_between_triangles_stays_inside(shape, shift):
    """Rays to corners of triangles, to points between them and on their diagonals, that keep off the pipe's own edges.

    A ray of slopes x : y meets an edge of the pipe where odd multiples of the two are equal; with one of them even they
    never are.
    """
    step = LENGTH / 120.0
    targets = [(1.0, y, k * step) for k in (2, 9, 40, 77, 119) for y in (0.0, 0.5, 0.25, -0.75)]
    targets += [(y, -1.0, (k + 0.5) * step) for k in (3, 40, 90) for y in (1.0 / 12.0, 0.25, 0.0)]
    scene, frame = pipe(shape, shift)
    count = aimed(scene, frame, targets)
    assert count >= 27
    rays = 8 * count
    arrives(scene.trace(rays, max_depth=DEPTH, min_flux_fraction=0.0, seed=1), rays, float(count))


# ---- a rod made by the lens builder ----------------------------------------------------------------------------------


def rod(k=0.0, radius=1.0, length=40.0):
    refracts = nsq.InteractionType.REFRACTIVE
    face, edge = nsq.SurfaceConfig(coating=IDEAL), nsq.SurfaceConfig(interaction=refracts)
    config = nsq.LensConfig(np.inf, np.inf, length, glass(N, k), radius, front=face, back=face, edge=edge)
    scene = nsq.NSQScene()
    scene.add_lens("rod", CS(), config)
    detector = nsq.detectors.RayDatabaseDetector(
        CS(z=length + 1e-6), nsq.FinitePlaneGeometry(aperture_radius=1.01 * radius), name="D"
    )
    scene.detector_registry.add("D", detector)
    scene.sampling_policy = OFF
    return scene


def test_a_rod_keeps_meridional_light():
    """A point on the axis: every ray stays in a plane of the axis and meets the edge every 2 R / tan mm."""
    rays, length, alpha = 50_000, 40.0, 0.01
    scene = rod(extinction(alpha), length=length)
    scene.add_source("S", CS(z=-1e-7), nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=89.9))
    result = scene.trace(rays, max_depth=60, min_flux_fraction=0.0, seed=1)
    position, direction, flux, ids = columns(result.detectors["D"])
    assert len(ids) == rays
    assert result.num_rays_escaped == result.num_rays_depth_killed == 0
    # unfolded, a ray is a straight line: its length and where it ends say how steep it was
    inside = np.sqrt(1.0 - (1.0 - direction[:, 2] ** 2) / N**2)
    assert np.abs(flux * rays / np.exp(-alpha * length / inside) - 1.0).max() < 1e-9
    assert result.flux_conservation_error < 1e-12
    # the axis lies in the plane of each ray's direction: no skewness arises
    skew = position[:, 0] * direction[:, 1] - position[:, 1] * direction[:, 0]
    assert np.abs(skew).max() < 1e-9


def test_a_rod_keeps_skew_light():
    """From all over the end: the smallest incidence at the edge is that of meridional light, so all of it stays.

    A ray that hugs the edge meets it thousands of times; rays from the inner 90 % of the radius at most some dozen.
    """
    rays = 50_000
    scene = rod()
    disk = nsq.ExtendedSourceConfig(spectrum=GREEN, aperture_radius=0.9)
    scene.add_source("S", CS(z=-1e-7), disk)
    result = scene.trace(rays, max_depth=200, min_flux_fraction=0.0, seed=1)
    # a chord of a circle from within r crosses at least 2 sqrt(R^2 - r^2): 40 tan(41.81) / 0.872 = 41 meetings at most
    assert result.num_rays_depth_killed == 0
    assert result.num_rays_escaped == 0
    position, direction, _, _ = columns(result.detectors["D"])
    assert len(position) == rays
    # skewness and the angle to the axis are kept: what leaves the far end is Lambertian as what entered
    assert np.hypot(position[:, 0], position[:, 1]).max() <= 1.0 + 1e-9
    inner = np.abs(position[:, 0] * direction[:, 1] - position[:, 1] * direction[:, 0])
    assert inner.max() <= 0.9 + 1e-6


def test_an_absorbing_edge_is_the_default():
    """The same rod with its edge as it comes keeps only what never meets the edge."""
    scene = nsq.NSQScene()
    config = nsq.LensConfig(np.inf, np.inf, 40.0, glass(N), 1.0)
    scene.add_lens("rod", CS(), config)
    scene.add_source("S", CS(z=-1e-7), nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=89.9))
    scene.add_detector("D", CS(z=41.0), nsq.RayDatabaseConfig(100.0, 100.0))
    result = scene.trace(4000, seed=1)
    angle = np.arcsin(N * np.sin(np.arctan(1.0 / 40.0)))
    share = (1.0 - np.cos(angle)) / (1.0 - np.cos(np.radians(89.9)))
    assert result.total_flux_detected < 4.0 * share
    assert result.total_flux_absorbed > 0.5
