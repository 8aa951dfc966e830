"""Composed scenes in which edges cut light off, each with parameters that move them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import nsq

CS = nsq.CoordinateSystem
GREEN = nsq.Spectrum.monochromatic(0.55)
# branches that do not move with a parameter, and no roulette: differences are less noisy
STILL = nsq.SamplingPolicy(reflect_prob=0.3, rr_start_flux=0.0)


@dataclass(frozen=True)
class Scene:
    """Parameters and their values, what builds a scene with the detector "D" of them, and steps of differences.

    The steps are wide enough that many rays change their fate within them, and narrow enough that the flux is nearly a
    parabola.
    """

    values: dict[str, float]
    build: Callable[[dict], nsq.NSQScene]
    steps: dict[str, float]

    def check(self, num_rays, num_seeds, **options):
        """The gradients of the detector's flux against differences."""
        params = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in self.values.items()}
        return nsq.check_gradients(
            lambda: self.build(params), params, lambda result: result.detectors["D"].total_flux,
            num_rays=num_rays, num_seeds=num_seeds, step=self.steps, **options,
        )  # fmt: skip


def bench(source, cs, detector, where):
    """A scene of a source and a detector "D" that collects flux on 8 x 8 pixels."""
    scene = nsq.NSQScene()
    scene.sampling_policy = STILL
    scene.add_source("S", cs, source)
    scene.add_detector("D", where, nsq.IrradianceDetectorConfig(*detector, num_pixels_x=8, num_pixels_y=8))
    return scene


def beam(radius):
    return nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=radius)


def cone(half_angle):
    return nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=half_angle)


def block(scene, name, cs, shape):
    scene.add_component(name, nsq.AbsorbingComponent(cs, shape))


def relay(v):
    """Two lenses with a field stop between them, which a tilted beam meets off its centre."""
    scene = bench(beam(4.0), CS(z=-10.0, ry=0.02), (12.0, 12.0), CS(z=120.0))
    lens = nsq.LensConfig(60.0, -60.0, 3.0, nsq.NSQMaterial.constant(1.5), front_aperture_radius=6.0)
    scene.add_lens("L1", CS(), lens)
    block(scene, "stop", CS(x=v["shift"], z=35.0), nsq.AnnularPlaneGeometry(v["stop"], 20.0))
    scene.add_lens("L2", CS(z=80.0), lens)
    return scene


def luminaire(v):
    """A point source in a parabolic reflector with a rim, seen through a round port beside its axis."""
    scene = bench(cone(70.0), CS(z=-5.0, rx=0.15), (50.0, 50.0), CS(z=-60.0))
    scene.add_mirror("M", CS(), nsq.MirrorConfig(-10.0, 0.9, conic=-1.0, aperture_radius=v["rim"]))
    block(scene, "port", CS(x=2.0, z=-30.0), nsq.AnnularPlaneGeometry(v["port"], 60.0))
    return scene


def chipped(v):
    """A square light pipe of which a plate covers part of the end, met after reflections at its sides."""
    scene = bench(cone(25.0), CS(z=-0.5), (12.0, 12.0), CS(z=14.0))
    for k in range(4):
        sign = 1.0 - 2.0 * (k // 2)
        if k % 2:
            cs, side = CS(x=sign, z=6.0, ry=0.5 * math.pi), nsq.FinitePlaneGeometry(12.0, 2.0)
        else:
            cs, side = CS(y=sign, z=6.0, rx=0.5 * math.pi), nsq.FinitePlaneGeometry(2.0, 12.0)
        scene.add_component(f"side{k}", nsq.ReflectiveComponent(cs, side, 0.95))
    chip = CS(x=v["chip"] + 2.0, z=12.01, rz=v["turn"])
    block(scene, "chip", chip, nsq.FinitePlaneGeometry(4.0, 4.0))
    return scene


def hexagon(v):
    """A mirror of six triangles, whose corners lie inside the beam; the detector takes half of what it reflects."""
    ring = [[math.cos(k * math.pi / 3.0), math.sin(k * math.pi / 3.0), -0.004] for k in range(6)]
    vertices = v["size"] * torch.tensor([[0.0, 0.0, 0.0], *ring], dtype=torch.float64)
    faces = np.array([[0, k + 1, (k + 1) % 6 + 1] for k in range(6)])
    scene = bench(beam(2.0), CS(z=-20.0), (16.0, 9.0), CS(z=-22.0, y=12.0))
    mirror = nsq.MeshGeometry((vertices, faces))
    scene.add_component("M", nsq.ReflectiveComponent(CS(rx=0.32), mirror, 0.9))
    return scene


def telescope(v):
    """A paraboloid and a flat secondary that shadows it, is too small for its light, and hangs on a spider."""
    scene = bench(beam(5.0), CS(z=-40.0), (1.4, 1.4), CS(z=-10.0))
    scene.add_mirror("primary", CS(), nsq.MirrorConfig(-80.0, 1.0, conic=-1.0, aperture_radius=5.0))
    flat = nsq.FinitePlaneGeometry(aperture_radius=v["secondary"])
    scene.add_component("secondary", nsq.ReflectiveComponent(CS(z=-25.0), flat, 1.0))
    for k in range(2):
        vane = nsq.FinitePlaneGeometry(12.0, v["vane"])
        block(scene, f"vane{k}", CS(z=-25.1 - 0.1 * k, rz=0.5 * math.pi * k + 0.3), vane)
    return scene


def corner(v):
    """A plate that covers a corner of the beam, turned, before a lens that is narrower than the beam."""
    scene = bench(beam(3.0), CS(z=-20.0), (3.0, 3.0), CS(z=25.0))
    shape = nsq.FinitePlaneGeometry(4.0, v["height"])
    block(scene, "plate", CS(x=3.0, y=-3.2, z=-5.0, rz=v["turn"]), shape)
    glass = nsq.NSQMaterial.constant(1.5)
    scene.add_lens("L", CS(), nsq.LensConfig(40.0, -40.0, 2.0, glass, front_aperture_radius=v["rim"]))
    return scene


def splitter(v):
    """A plate of glass, a mesh, that stands askew and covers part of the beam; what its faces reflect is read."""
    away = 2.0 * 0.6
    where = CS(x=-12.0 * math.sin(away), z=-12.0 * math.cos(away), ry=away)
    scene = bench(beam(2.0), CS(z=-15.0), (10.0, 10.0), where)
    corners = np.array([[x, y, z] for z in (-0.5, 0.5) for y in (-4.0, 4.0) for x in (-3.0, 3.0)])
    sides = ((0, 2, 3, 1), (4, 5, 7, 6), (0, 1, 5, 4), (2, 6, 7, 3), (0, 4, 6, 2), (1, 3, 7, 5))
    faces = np.array([f for a, b, c, d in sides for f in ((a, b, c), (a, c, d))])
    plate = nsq.MeshGeometry((corners, faces))
    glass = nsq.NSQMaterial.constant(1.5)
    cs = CS(x=v["x"] + 2.5, ry=v["turn"])
    scene.add_component("plate", nsq.RefractiveComponent(cs, plate, glass, nsq.VACUUM))
    return scene


def eclipse(v):
    """A black ball in a cone of light, its shadow across the border of a tilted detector."""
    scene = bench(cone(10.0), CS(), (v["width"], 6.0), CS(z=30.0, ry=v["tilt"]))
    block(scene, "ball", CS(x=1.0, y=0.3, z=15.0), nsq.SphereGeometry(v["radius"]))
    return scene


def anamorph(v):
    """A toroid as a mirror, narrower than the beam, whose focal line crosses the detector's border."""
    scene = bench(beam(3.0), CS(z=-30.0), (3.0, 2.0), CS(y=17.3, z=-39.0))
    shape = nsq.ToroidGeometry(-160.0, -300.0, aperture_radius=v["rim"])
    scene.add_component("M", nsq.ReflectiveComponent(CS(rx=v["tilt"]), shape, 0.9))
    return scene


def star(v):
    """The shadow of a star of five points, thick and askew, in a cone of light."""
    angles = np.arange(10) * math.pi / 5.0
    radii = np.where(np.arange(10) % 2, 0.5, 1.2)
    outline = np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)
    vertices = np.concatenate([np.column_stack([outline, np.full(10, z)]) for z in (0.0, 0.4)])
    vertices = np.concatenate([vertices, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.4]]])
    faces = []
    for k in range(10):
        n = (k + 1) % 10
        faces += [[20, n, k], [21, 10 + k, 10 + n], [k, n, 10 + n], [k, 10 + n, 10 + k]]
    scene = bench(cone(9.0), CS(), (8.0, 8.0), CS(z=20.0))
    mesh = nsq.MeshGeometry((v["size"] * torch.as_tensor(vertices), np.array(faces)))
    block(scene, "star", CS(x=v["x"], z=10.0, rx=0.5, ry=0.3), mesh)
    return scene


def slit(v):
    """A disk that shines into a cone, a slit, and a detector narrower than what comes through."""
    source = nsq.ExtendedSourceConfig(spectrum=GREEN, aperture_radius=v["source"], half_angle_deg=15.0)
    scene = bench(source, CS(), (3.0, 3.0), CS(z=12.0))
    for k, sign in enumerate((-1.0, 1.0)):
        block(scene, f"blade{k}", CS(x=sign * (10.0 + 0.5 * v["gap"]), z=5.0), nsq.FinitePlaneGeometry(20.0, 20.0))
    return scene


SCENES = {
    "relay": Scene({"stop": 1.3, "shift": 0.0}, relay, {"stop": 0.03, "shift": 0.05}),
    "luminaire": Scene({"rim": 4.5, "port": 3.0}, luminaire, {"rim": 0.1, "port": 0.1}),
    "light pipe": Scene({"chip": -0.3, "turn": 0.2}, chipped, {"chip": 0.03, "turn": 0.05}),
    "hexagon": Scene({"size": 1.4}, hexagon, {"size": 0.03}),
    "telescope": Scene({"secondary": 1.6, "vane": 0.4}, telescope, {"secondary": 0.05, "vane": 0.1}),
    "corner": Scene({"height": 8.0, "turn": 0.1, "rim": 2.4}, corner, {"height": 0.2, "turn": 0.05, "rim": 0.05}),
    "splitter": Scene({"x": 0.0, "turn": 0.6}, splitter, {"x": 0.1, "turn": 0.04}),
    "eclipse": Scene({"radius": 1.0, "width": 6.0, "tilt": 0.5}, eclipse, {"radius": 0.05, "width": 0.2, "tilt": 0.08}),
    "anamorph": Scene({"rim": 2.0, "tilt": 0.2}, anamorph, {"rim": 0.05, "tilt": 0.001}),
    "star": Scene({"size": 1.2, "x": 1.2}, star, {"size": 0.04, "x": 0.06}),
    "slit": Scene({"source": 1.5, "gap": 0.8}, slit, {"source": 0.1, "gap": 0.06}),
}  # fmt: skip
