"""A uniform beam of irradiance E = 1 / (4 pi) W/mm^2 past one edge, with the derivative of the flux behind it.

``CLOSED[name]`` is (values, builder, derivatives). Rays are uniform in the beam, so that of N rays 2 N p h fall into a
band of half width h, p being the derivative of the flux for a unit of g. The biweight kernel makes the relative
standard error sqrt(5 / (7 N p h)).
"""

import math

import numpy as np
import torch

import nsq

GREEN = nsq.Spectrum.monochromatic(0.55)

CS = nsq.CoordinateSystem
RADIUS = 2.0
E = 1.0 / (math.pi * RADIUS**2)


def bench(width=10.0, radius=RADIUS):
    scene = nsq.NSQScene()
    scene.add_source("S", CS(z=-10.0), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=radius))
    scene.add_detector("D", CS(z=20.0), nsq.IrradianceDetectorConfig(width, width, num_pixels_x=8, num_pixels_y=8))
    return scene


def obstacle(shape, cs=None, scene=None):
    scene = scene or bench()
    scene.add_component("O", nsq.AbsorbingComponent(cs or CS(), shape))
    return scene


def icosphere(level):
    """Vertices and faces of a triangulated unit sphere."""
    t = (1.0 + math.sqrt(5.0)) / 2.0
    corners = [[-1, t, 0], [1, t, 0], [-1, -t, 0], [1, -t, 0], [0, -1, t], [0, 1, t], [0, -1, -t], [0, 1, -t],
               [t, 0, -1], [t, 0, 1], [-t, 0, -1], [-t, 0, 1]]  # fmt: skip
    faces = [[0, 11, 5], [0, 5, 1], [0, 1, 7], [0, 7, 10], [0, 10, 11], [1, 5, 9], [5, 11, 4], [11, 10, 2],
             [10, 7, 6], [7, 1, 8], [3, 9, 4], [3, 4, 2], [3, 2, 6], [3, 6, 8], [3, 8, 9], [4, 9, 5], [2, 4, 11],
             [6, 2, 10], [8, 6, 7], [9, 8, 1]]  # fmt: skip
    vertices = [np.array(v) / math.hypot(*v) for v in corners]
    for _ in range(level):
        middles, finer = {}, []
        for a, b, c in faces:
            x, y, z = (_middle(vertices, middles, *pair) for pair in ((a, b), (b, c), (c, a)))
            finer += [[a, x, z], [b, y, x], [c, z, y], [x, y, z]]
        faces = finer
    return np.array(vertices), np.array(faces)


def _middle(vertices, known, a, b):
    key = (min(a, b), max(a, b))
    if key not in known:
        both = vertices[a] + vertices[b]
        vertices.append(both / np.linalg.norm(both))
        known[key] = len(vertices) - 1
    return known[key]


def outline(points):
    """Area of the convex hull of points (n, 2): Andrew's monotone chain and the shoelace formula."""
    points = sorted(map(tuple, points))
    hull = []
    for order in (points, points[::-1]):
        chain = []
        for p in order:
            while len(chain) > 1 and _turn(chain[-2], chain[-1], p) <= 0.0:
                chain.pop()
            chain.append(p)
        hull += chain[:-1]
    x, y = np.array(hull).T
    return 0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))


def _turn(a, b, c):
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


BALL = icosphere(1)


def ball(v):
    vertices = torch.as_tensor(BALL[0]) * v["radius"]
    return obstacle(nsq.MeshGeometry((vertices, BALL[1])), CS(x=v["x"]))


def border(v):
    """A small detector in the middle of a wide beam, moved so that one side leaves it."""
    scene = bench()
    scene.remove_detector("D")
    config = nsq.IrradianceDetectorConfig(v["width"], v["height"], num_pixels_x=6, num_pixels_y=6)
    scene.add_detector("D", CS(x=v["x"], z=20.0), config)
    return scene


def baffle(v):
    """A rectangle in the middle of the beam, by its four sides."""
    shape = nsq.FinitePlaneGeometry(v["right"] - v["left"], v["high"] - v["low"])
    return obstacle(shape, CS(x=0.5 * (v["left"] + v["right"]), y=0.5 * (v["low"] + v["high"])))


# where the rim of radius 1.5 about x = 1 leaves the beam of radius 2
LENS, LENS_X = 1.5, 1.0
LENS_LEAVES = (RADIUS**2 - LENS**2 - LENS_X**2) / (2.0 * LENS_X * LENS)  # cosine, about the rim's centre


def lens_rim(v):
    """A lens that loses nothing and reaches out of the beam, and a detector that only its light reaches."""
    scene = bench()
    free = nsq.SurfaceConfig(coating=nsq.SimpleCoating(1.0))
    glass = nsq.NSQMaterial.constant(1.5)
    config = nsq.LensConfig(30.0, -30.0, 1.0, glass, front_aperture_radius=v["a"], front=free, back=free)
    scene.add_lens("L", CS(x=v["x"]), config)
    scene.remove_detector("D")
    scene.add_detector("D", CS(x=v["x"], z=20.0), nsq.IrradianceDetectorConfig(1.6, 1.6, 8, 8))
    return scene


def cassegrain(v):
    """A paraboloid of focal length 40, and a disk of radius ``a`` at 5/8 of the way back to its focus.

    The disk lets less light back than it lets in: it shadows the mirror out to a / 0.625.
    """
    scene = obstacle(nsq.FinitePlaneGeometry(aperture_radius=v["a"]), CS(z=5.0))
    mirror = nsq.MirrorConfig(radius=-80.0, conic=-1.0, aperture_radius=v["mirror"], reflectance=1.0)
    scene.add_mirror("M", CS(z=20.0), mirror)
    scene.remove_detector("D")
    screen = nsq.IrradianceDetectorConfig(8.0, 8.0, num_pixels_x=8, num_pixels_y=8)
    scene.add_detector("D", CS(z=-20.5), screen)
    scene.source_registry.get("S").cs.z = -20.0
    return scene


def askew(v):
    """A half ball, turned."""
    return obstacle(nsq.ConicGeometry(v["radius"], 0.0, v["radius"]), CS(x=v["x"], rx=0.7))


def bowl(v):
    """A deep asphere seen from the side, whose rim lies outside the beam: its silhouette is its profile."""
    shape = nsq.EvenAsphereGeometry(v["radius"], -1.0, 2.5, (v["a4"],))
    return obstacle(shape, CS(x=v["x"], ry=0.5 * math.pi))


def side(v):
    """A cylinder across the beam: its silhouette, and one of its ends."""
    shape = nsq.CylindricalFrustumGeometry(v["r"], v["r"], -1.0, v["end"])
    return obstacle(shape, CS(rx=math.pi / 2))


def crossing(v):
    """A black plane that crosses a mirror: what comes back is what meets the mirror first."""
    scene = bench()
    plane = nsq.FinitePlaneGeometry(30.0, 30.0)
    scene.add_component("M", nsq.ReflectiveComponent(CS(z=v["z"]), plane, 1.0))
    scene.add_component("O", nsq.AbsorbingComponent(CS(x=v["x"], ry=v["turn"]), plane))
    scene.remove_detector("D")
    scene.add_detector("D", CS(z=-15.0), nsq.IrradianceDetectorConfig(10.0, 10.0, 8, 8))
    return scene


def dome(v):
    """A black cap of a sphere that stands through a mirror: it shadows what its circle there holds."""
    scene = crossing({"x": 0.0, "z": v["z"], "turn": 0.0})
    scene.remove_component("O")
    cap = nsq.ConicGeometry(v["radius"], 0.0, 1.3)
    scene.add_component("O", nsq.AbsorbingComponent(CS(x=0.2, z=-0.5), cap))
    return scene


# of the beam at x = 0.5
CHORD = 2.0 * math.sqrt(RADIUS**2 - 0.25)

CLOSED = {
    "stop": (
        {"a": 1.2}, lambda v: obstacle(nsq.AnnularPlaneGeometry(v["a"], 9.0)), {"a": 2.4 * math.pi * E},
    ),
    "knife edge": (
        {"x": 0.5}, lambda v: obstacle(nsq.FinitePlaneGeometry(20.0, 20.0), CS(x=v["x"] + 10.0)),
        {"x": 2.0 * math.sqrt(RADIUS**2 - 0.25) * E},
    ),
    "baffle": (
        {"left": -0.3, "right": 0.7, "low": -1.1, "high": 0.5}, baffle,
        {"left": 1.6 * E, "right": -1.6 * E, "low": 1.0 * E, "high": -1.0 * E},
    ),
    "detector": (
        {"width": 1.0, "height": 1.6, "x": 1.7}, border,
        # its left side stands at 1.2 and is 1.6 long where the beam is as wide; the right one has left the beam
        {"width": 0.8 * E, "height": None, "x": -1.6 * E},
    ),
    "sphere": (
        {"radius": 1.2}, lambda v: obstacle(nsq.SphereGeometry(v["radius"])), {"radius": -2.4 * math.pi * E},
    ),
    "mesh": (
        {"radius": 1.2, "x": 0.1}, ball, {"radius": -2.4 * outline(BALL[0][:, :2]) * E, "x": 0.0},
    ),
    "cylinder": ({"r": 0.8, "end": 0.5}, side, {"r": -3.0 * E, "end": -1.6 * E}),
    "asphere": (
        {"a": 1.2}, lambda v: obstacle(nsq.EvenAsphereGeometry(10.0, -0.5, v["a"], (1e-3,))),
        {"a": -2.4 * math.pi * E},
    ),
    "half ball": (
        # its rim is its silhouette
        {"radius": 1.2, "x": 0.1}, lambda v: obstacle(nsq.ConicGeometry(v["radius"], 0.0, v["radius"]), CS(x=v["x"])),
        {"radius": -2.4 * math.pi * E, "x": 0.0},
    ),
    "half ball askew": (
        # half a circle is silhouette, and half an ellipse is rim
        {"radius": 1.2, "x": 0.1}, askew, {"radius": -1.2 * math.pi * (1.0 + math.cos(0.7)) * E, "x": 0.0},
    ),
    "bowl": (
        # the parabola x + y^2 / 2 leaves the beam at y = +-sqrt(3)
        {"x": -0.5, "radius": 1.0, "a4": 0.0}, bowl,
        {"x": 2.0 * 3.0**0.5 * E, "radius": -(3.0**0.5) * E, "a4": 3.6 * 3.0**0.5 * E},
    ),
    "crossing": (
        # at the height z of the mirror, the black plane stands at x - z / tan(turn)
        {"x": 0.5, "z": 0.0, "turn": -0.8}, crossing,
        {"x": -CHORD * E, "z": -CHORD / math.tan(0.8) * E, "turn": 0.0},
    ),
    "dome": (
        # rho^2 = 2 radius s - s^2 at the depth s = z + 0.5 below its top
        {"radius": 1.4, "z": 0.1}, dome,
        {"radius": -1.2 * math.pi * E, "z": -1.6 * math.pi * E},
    ),
    "source": (
        {"radius": 2.0}, lambda v: obstacle(nsq.AnnularPlaneGeometry(1.2, 9.0), scene=bench(radius=v["radius"])),
        {"radius": -2.0 * 1.2**2 / RADIUS**3},
    ),
    "lens rim": (
        # the arc of the rim that is in the beam, and the chord between its ends
        {"a": LENS, "x": LENS_X}, lens_rim,
        {"a": 2.0 * LENS * (math.pi - math.acos(LENS_LEAVES)) * E,
         "x": -2.0 * LENS * math.sqrt(1.0 - LENS_LEAVES**2) * E},
    ),
    "obscuration": (
        {"a": 0.9, "mirror": 1.6}, cassegrain, {"a": -1.8 * math.pi / 0.625**2 * E, "mirror": 3.2 * math.pi * E},
    ),
}  # fmt: skip
