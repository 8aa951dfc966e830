"""One scene for each group of differentiable numbers; ``CASES[name]`` is (nominal values, builder of the scene).

Every scene ends on the map "D" of a detector wider than its beam, and keeps the beam away from the rims: the
derivative of a rim's visibility is another matter. Poses sit on several levels of `reference_cs`. Beams are wide and
faces steep, so that a conic constant moves the light by far more than the rounding of a central difference.
"""

import numpy as np
import torch

import nsq

from .scenes import FDC, GREEN

POSE = ("x", "y", "z", "rx", "ry", "rz")


def pose(prefix, *numbers):
    return {f"{prefix}.{axis}": value for axis, value in zip(POSE, numbers, strict=True)}


def frame(values, prefix, parent=None):
    return nsq.CoordinateSystem(**{axis: values[f"{prefix}.{axis}"] for axis in POSE}, reference_cs=parent)


def screen(scene, cs, width=36.0, height=30.0, splat="bilinear"):
    """A Gaussian splat ends after whole pixels; with this sigma it is below 1e-9 there, and the map is smooth."""
    config = nsq.IrradianceDetectorConfig(
        width=width, height=height, num_pixels_x=18, num_pixels_y=14, splat=splat, splat_sigma=0.15
    )
    scene.add_detector("D", cs, config)


def beam(scene, cs=None, spectrum=GREEN, **config):
    config = {"total_flux": 1.3, "aperture_radius": 4.0, **config}
    scene.add_source("S", cs or nsq.CoordinateSystem(), nsq.CollimatedSourceConfig(spectrum=spectrum, **config))


class Cauchy(torch.nn.Module):
    """n = a + b / wavelength^2 and k = c / wavelength, from parameters of a module."""

    def __init__(self, a, b, c):
        super().__init__()
        self.a, self.b, self.c = a, b, c

    def n(self, wavelength):
        return self.a + self.b / wavelength**2

    def k(self, wavelength):
        return self.c / wavelength


def lens(v):
    scene = nsq.NSQScene()
    beam(scene, aperture_radius=9.0)
    table = frame(v, "table")
    config = nsq.LensConfig(
        r1=v["r1"], r2=v["r2"], conic1=v["conic1"], conic2=v["conic2"], thickness=v["thickness"],
        material=nsq.NSQMaterial.constant(v["n"], v["k"]), front_aperture_radius=11.0,
    )  # fmt: skip
    scene.add_lens("L", frame(v, "lens", table), config)
    screen(scene, nsq.CoordinateSystem(z=52.0), width=20.0, height=16.0)
    return scene


def doublet(v):
    scene = nsq.NSQScene()
    beam(scene, nsq.CoordinateSystem(x=0.6, y=-0.4, rx=0.05, ry=-0.08), spectrum=FDC, aperture_radius=9.0)
    media = [nsq.NSQMaterial(Cauchy(*(v[f"{glass}.{p}"] for p in "abc"))) for glass in ("crown", "flint")]
    config = nsq.DoubletConfig(
        r1=v["r1"], r2=v["r2"], r3=v["r3"], conic1=v["conic1"], conic2=v["conic2"], conic3=v["conic3"],
        thickness1=v["thickness1"], thickness2=v["thickness2"], material1=media[0], material2=media[1],
        aperture_radius=11.0,
    )  # fmt: skip
    scene.add_doublet("DB", nsq.CoordinateSystem(z=5.0), config)
    screen(scene, nsq.CoordinateSystem(z=50.0), width=20.0, height=16.0, splat="gaussian")
    return scene


def mirror(v):
    scene = nsq.NSQScene()
    beam(scene, aperture_radius=9.0)
    config = nsq.MirrorConfig(radius=v["radius"], conic=v["conic"], aperture_radius=20.0, reflectance=v["reflectance"])
    scene.add_mirror("M", frame(v, "mirror"), config)
    screen(scene, nsq.CoordinateSystem(y=60.0, z=60.0, rx=np.pi / 2))
    return scene


def coloured_mirror(v):
    """The reflectance is a function of wavelength with parameters behind it."""
    scene = nsq.NSQScene()
    beam(scene, spectrum=FDC)
    config = nsq.MirrorConfig(
        radius=-150.0, aperture_radius=20.0, reflectance=lambda wavelength: v["offset"] + v["slope"] * wavelength
    )
    scene.add_mirror("M", nsq.CoordinateSystem(z=60.0, rx=0.8), config)
    screen(scene, nsq.CoordinateSystem(y=60.0, z=60.0, rx=np.pi / 2))
    return scene


def coated(v):
    """A plate with one coating, and one coated mirror."""
    scene = nsq.NSQScene()
    beam(scene)
    face = nsq.SurfaceConfig(coating=nsq.SimpleCoating(v["transmittance"], v["reflectance"]))
    glass = nsq.NSQMaterial.constant(1.5)
    plate = nsq.LensConfig(np.inf, np.inf, 4.0, glass, front_aperture_radius=9.0, front=face)
    scene.add_lens("P", nsq.CoordinateSystem(z=10.0, rx=0.2), plate)
    mirror = nsq.MirrorConfig(np.inf, nsq.SimpleCoating(0.0, v["mirror"]), aperture_radius=20.0)
    scene.add_mirror("M", nsq.CoordinateSystem(z=60.0, rx=0.8), mirror)
    screen(scene, nsq.CoordinateSystem(y=60.0, z=60.0, rx=np.pi / 2))
    return scene


def ball(v):
    """One sphere, hit on the way in and on the way out."""
    scene = nsq.NSQScene()
    beam(scene)
    glass = nsq.NSQMaterial.constant(v["n"])
    cs = nsq.CoordinateSystem(x=v["x"], y=v["y"], z=v["z"])
    sphere = nsq.RefractiveComponent(cs, nsq.SphereGeometry(v["radius"]), nsq.VACUUM, glass)
    scene.add_component("B", sphere)
    screen(scene, nsq.CoordinateSystem(z=50.0))
    return scene


def cone(v):
    """A beam meets the side of a glass cone, whose axis it does not reach."""
    scene = nsq.NSQScene()
    beam(scene, nsq.CoordinateSystem(x=8.0, rx=0.02))
    side = nsq.CylindricalFrustumGeometry(v["r_front"], v["r_back"], v["z_front"], v["z_back"])
    glass = nsq.NSQMaterial.constant(1.5)
    scene.add_component("C", nsq.RefractiveComponent(frame(v, "cone"), side, glass, nsq.VACUUM))
    screen(scene, nsq.CoordinateSystem(x=4.0, z=30.0))
    return scene


def collimated(v):
    scene = nsq.NSQScene()
    bench = frame(v, "bench")
    beam(scene, frame(v, "source", bench), total_flux=v["total_flux"], aperture_radius=v["aperture_radius"])
    screen(scene, nsq.CoordinateSystem(z=40.0))
    return scene


def point(v):
    scene = nsq.NSQScene()
    config = nsq.PointSourceConfig(spectrum=GREEN, total_flux=v["total_flux"], half_angle_deg=v["half_angle"])
    scene.add_source("S", frame(v, "source"), config)
    screen(scene, nsq.CoordinateSystem(z=40.0))
    return scene


def extended(v):
    """A rectangle that shines into a cone and a Lambertian disk, one behind the other."""
    scene = nsq.NSQScene()
    rectangle = nsq.ExtendedSourceConfig(
        spectrum=GREEN, total_flux=v["total_flux"], width=v["width"], height=v["height"], half_angle_deg=v["half_angle"]
    )
    scene.add_source("rectangle", frame(v, "source"), rectangle)
    disk = nsq.ExtendedSourceConfig(spectrum=GREEN, total_flux=0.7, aperture_radius=v["disk"])
    scene.add_source("disk", nsq.CoordinateSystem(z=29.0), disk)
    screen(scene, nsq.CoordinateSystem(z=30.0))
    return scene


def lamp():
    """A narrow beam without symmetry."""
    rng = np.random.default_rng(2)
    return nsq.AngularDistribution(np.linspace(0.0, 10.0, 5), np.arange(5) * 72.0, rng.uniform(50.0, 90.0, (5, 5)))


def luminaire(v):
    """A rectangle and a disk that shine by a table, one behind the other."""
    scene = nsq.NSQScene()
    size = {"width": v["width"], "height": v["height"]}
    rectangle = nsq.LuminaireSourceConfig(lamp(), GREEN, total_flux=v["total_flux"], **size)
    scene.add_source("rectangle", frame(v, "source"), rectangle)
    disk = nsq.LuminaireSourceConfig(lamp(), GREEN, total_flux=0.7, aperture_radius=v["disk"])
    scene.add_source("disk", nsq.CoordinateSystem(z=4.0), disk)
    screen(scene, nsq.CoordinateSystem(z=40.0))
    return scene


def ray_file(v):
    rng = np.random.default_rng(4)
    place, slope = rng.uniform(-3.0, 3.0, (3, 40)), np.stack([*rng.uniform(-0.15, 0.15, (2, 40)), np.ones(40)])
    wavelength = rng.choice(FDC.wavelengths, 40)
    rays = nsq.RayTable(*place, *(slope / np.linalg.norm(slope, axis=0)), rng.uniform(0.1, 1.0, 40), wavelength)
    scene = nsq.NSQScene()
    scene.add_source("S", frame(v, "source"), nsq.RayFileSourceConfig(rays, total_flux=v["total_flux"]))
    screen(scene, nsq.CoordinateSystem(z=40.0))
    return scene


def detector(v):
    scene = nsq.NSQScene()
    beam(scene, nsq.CoordinateSystem(rx=0.07, ry=-0.1))  # a move along the beam would change nothing
    stage = frame(v, "stage")
    screen(scene, frame(v, "detector", stage), width=v["width"], height=v["height"])
    return scene


CASES = {
    "lens": (
        {"r1": 40.0, "r2": -60.0, "conic1": -1.6, "conic2": 1.8, "thickness": 5.0, "n": 1.53, "k": 2e-6,
         **pose("table", 0.4, -0.3, 12.0, 0.03, -0.05, 0.2), **pose("lens", -0.5, 0.6, 9.0, 0.06, 0.04, -0.3)},
        lens,
    ),
    "doublet": (
        {"r1": 38.0, "r2": -30.0, "r3": -60.0, "conic1": -1.4, "conic2": 1.7, "conic3": 2.1, "thickness1": 6.0,
         "thickness2": 2.5, "crown.a": 1.505, "crown.b": 0.0042, "crown.c": 1e-6, "flint.a": 1.643, "flint.b": 0.01,
         "flint.c": 2e-6},
        doublet,
    ),
    "mirror": (
        {"radius": -100.0, "conic": -1.7, "reflectance": 0.83, **pose("mirror", 0.4, -0.6, 60.0, 0.78, 0.05, 0.1)},
        mirror,
    ),
    "coloured mirror": ({"offset": 0.5, "slope": 0.6}, coloured_mirror),
    "coated": ({"transmittance": 0.8, "reflectance": 0.15, "mirror": 0.7}, coated),
    "ball": ({"radius": 13.0, "n": 1.6, "x": 0.7, "y": -0.4, "z": 25.0}, ball),
    "cone": (
        {"r_front": 2.0, "r_back": 14.0, "z_front": 8.0, "z_back": 18.0,
         **pose("cone", 0.3, 0.2, 2.0, 0.05, -0.03, 0.4)},
        cone,
    ),
    "collimated": (
        {"total_flux": 1.7, "aperture_radius": 5.0, **pose("bench", 0.3, -0.2, 2.0, 0.04, 0.03, 0.2),
         **pose("source", 0.7, 0.5, -3.0, -0.06, 0.05, 0.4)},
        collimated,
    ),
    "point": ({"total_flux": 2.1, "half_angle": 9.0, **pose("source", 0.6, -0.8, 1.5, 0.05, -0.07, 0.3)}, point),
    "extended": (
        {"total_flux": 0.9, "width": 3.0, "height": 2.0, "half_angle": 11.0, "disk": 2.5,
         **pose("source", 0.5, 0.9, 1.0, 0.08, 0.06, 0.5)},
        extended,
    ),
    "luminaire": (
        {"total_flux": 0.9, "width": 3.0, "height": 2.0, "disk": 2.5,
         **pose("source", 0.5, 0.9, 1.0, 0.08, 0.06, 0.5)},
        luminaire,
    ),
    "ray file": ({"total_flux": 1.9, **pose("source", 0.6, -0.8, 1.5, 0.05, -0.07, 0.3)}, ray_file),
    "detector": (
        {"width": 26.0, "height": 24.0, **pose("stage", 0.3, 0.4, 30.0, 0.1, -0.2, 0.15),
         **pose("detector", -0.6, 0.5, 8.0, 0.15, 0.1, 0.3)},
        detector,
    ),
}  # fmt: skip
