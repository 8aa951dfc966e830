"""The scenes of notebooks 01 to 10 of Optiland's gallery of non-sequential tracing, from their prescriptions.

The public names are Optiland's, so that each function builds its scenes with either library: ``kit`` is a `Kit` of the
module with those names, of the class of poses and of that of simple coatings. `cases` lists what there is to trace.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Kit:
    lib: ModuleType
    at: Callable[..., Any]
    coating: Callable[..., Any]

    def green(self):
        return self.lib.Spectrum.monochromatic(0.55)

    def lines(self, wavelengths, weights):
        return self.lib.Spectrum(wavelengths=np.array(wavelengths), weights=np.array(weights))

    def scene(self, sources, parts, detectors, **policy):
        """A scene of {name: (pose, config)}; a part's config says what it is."""
        scene = self.lib.NSQScene()
        adders = {
            self.lib.LensConfig: scene.add_lens,
            self.lib.DoubletConfig: scene.add_doublet,
            self.lib.MirrorConfig: scene.add_mirror,
        }
        for name, (pose, config) in sources.items():
            scene.add_source(name, self.at(**pose), config)
        for name, (pose, config) in parts.items():
            adders[type(config)](name, self.at(**pose), config)
        for name, (pose, config) in detectors.items():
            scene.add_detector(name, self.at(**pose), config)
        if policy:
            scene.sampling_policy = type(scene.sampling_policy)(**policy)
        return scene

    def beam(self, radius=10.0, z=-80.0, **pose):
        config = self.lib.CollimatedSourceConfig(spectrum=self.green(), total_flux=1.0, aperture_radius=radius)
        return {"S": ({"z": z, **pose}, config)}

    def lens(self, r1=50.0, r2=-50.0, material="N-BK7", radius=12.5, thickness=5.0, **options):
        return self.lib.LensConfig(
            r1=r1, r2=r2, thickness=thickness, material=material, front_aperture_radius=radius, **options
        )

    def film(self, z, size, pixels=32, name="D", **options):
        config = self.lib.IrradianceDetectorConfig(
            width=size, height=size, num_pixels_x=pixels, num_pixels_y=pixels, **options
        )
        return {name: ({"z": z}, config)}


@dataclass(frozen=True)
class Case:
    """A scene, and how its notebook traces it."""

    scene: Any
    rays: int
    seed: int = 42
    options: dict = field(default_factory=dict)


def getting_started(kit):
    source = kit.lib.PointSourceConfig(spectrum=kit.green(), total_flux=1.0, half_angle_deg=6.0)
    scene = kit.scene({"S": ({"z": -100.0}, source)}, {"L": ({}, kit.lens())}, kit.film(92.0, 4.0))
    yield "spot", Case(scene, 100_000)


def sources(kit):
    lib = kit.lib
    for angle in (10.0, 45.0):
        source = lib.PointSourceConfig(spectrum=kit.green(), total_flux=1.0, half_angle_deg=angle)
        yield f"point {angle:g}", Case(kit.scene({"S": ({}, source)}, {}, kit.film(50.0, 50.0)), 30_000, 0)
    for profile in ("tophat", "gaussian"):
        source = lib.CollimatedSourceConfig(spectrum=kit.green(), total_flux=1.0, aperture_radius=10.0, profile=profile)
        yield profile, Case(kit.scene({"S": ({}, source)}, {}, kit.film(50.0, 30.0)), 30_000, 0)
    for angle in (60.0, 90.0):
        source = lib.ExtendedSourceConfig(
            spectrum=kit.green(), total_flux=1.0, width=10.0, height=5.0, half_angle_deg=angle
        )
        yield f"plate {angle:g}", Case(kit.scene({"S": ({}, source)}, {}, kit.film(30.0, 40.0)), 50_000, 0)
    white = kit.lines([0.40, 0.45, 0.50, 0.55, 0.60, 0.65, 0.70], [0.82, 1.04, 1.00, 1.01, 1.00, 0.95, 0.88])
    source = lib.PointSourceConfig(spectrum=white, total_flux=1.0, half_angle_deg=30.0)
    rays = {"rays": ({"z": 40.0}, lib.RayDatabaseConfig(width=30.0, height=30.0))}
    yield "white", Case(kit.scene({"S": ({}, source)}, {}, rays), 20_000, 1)


def components(kit):
    lib = kit.lib
    fluor = kit.lens(material="N-FK5")
    yield "biconvex", Case(kit.scene(kit.beam(), {"L": ({}, fluor)}, kit.film(52.5, 6.0)), 30_000)
    flat = kit.lens(40.0, math.inf, "N-LASF9")
    yield "plano-convex", Case(kit.scene(kit.beam(), {"L": ({}, flat)}, kit.film(49.0, 6.0)), 30_000)

    rgb = kit.lines([0.45, 0.55, 0.65], [1.0, 1.0, 1.0])
    beam = lib.CollimatedSourceConfig(spectrum=rgb, total_flux=1.0, aperture_radius=10.0)
    doublet = lib.DoubletConfig(
        r1=60.0, r2=-60.0, r3=-300.0, thickness1=5.0, thickness2=3.0, material1="N-BK7", material2="N-SF5",
        aperture_radius=12.5,
    )  # fmt: skip
    scene = kit.scene({"S": ({"z": -80.0}, beam)}, {"L": ({}, doublet)}, kit.film(124.0, 1.5))
    yield "doublet", Case(scene, 30_000)

    dish = lib.MirrorConfig(radius=-200.0, conic=-1.0, aperture_radius=25.0, reflectance=0.95)
    scene = kit.scene(kit.beam(20.0, -100.0), {"M": ({}, dish)}, kit.film(-100.0, 0.1))
    yield "parabola", Case(scene, 30_000)

    ar = lib.SurfaceConfig(coating=kit.coating(transmittance=0.995, reflectance=0.005))
    coated = kit.lens(material="N-FK5", front=ar, back=ar)
    yield "coated", Case(kit.scene(kit.beam(), {"L": ({}, coated)}, kit.film(52.5, 6.0)), 100_000)

    haze = lib.SurfaceConfig(bsdf=lib.LambertianBSDF(reflectance_value=0.9), scatter_fraction=0.05)
    scene = kit.scene(kit.beam(), {"L": ({}, kit.lens(back=haze))}, kit.film(52.4, 20.0))
    yield "haze", Case(scene, 100_000)


def detectors(kit):
    lib = kit.lib
    lens = {"L": ({}, kit.lens())}
    for splat in ("hard", "bilinear", "gaussian"):
        film = kit.film(52.4, 2.0, 64, splat=splat, splat_sigma=0.8)
        yield splat, Case(kit.scene(kit.beam(), lens, film), 4_000)
    source = lib.PointSourceConfig(spectrum=kit.green(), total_flux=1.0, half_angle_deg=90.0)
    far = {"far": ({"z": 100.0}, lib.FarFieldDetectorConfig(num_theta=45, num_phi=180))}
    yield "far field", Case(kit.scene({"S": ({}, source)}, {}, far), 50_000)
    rgb = kit.lines([0.45, 0.55, 0.65], [1.0, 1.5, 1.0])
    beam = lib.CollimatedSourceConfig(spectrum=rgb, total_flux=1.0, aperture_radius=10.0)
    config = lib.SpectralDetectorConfig(
        width=4.0, height=4.0, num_pixels_x=64, num_pixels_y=64, wl_min=0.4, wl_max=0.7, num_bins=30
    )
    scene = kit.scene({"S": ({"z": -80.0}, beam)}, lens, {"lines": ({"z": 52.4}, config)})
    yield "spectrum", Case(scene, 200_000)
    rays = {"rays": ({"z": 52.4}, lib.RayDatabaseConfig(width=4.0, height=4.0))}
    yield "rays", Case(kit.scene(kit.beam(), lens, rays), 50_000)
    both = kit.film(52.4, 4.0, name="forward") | kit.film(-85.0, 40.0, name="backward")
    yield "both ways", Case(kit.scene(kit.beam(), lens, both), 200_000)
    for z in (30.0, 75.0):
        yield f"plane {z:g}", Case(kit.scene(kit.beam(), lens, kit.film(z, 12.0)), 60_000)
    tap = kit.film(35.0, 15.0, name="tap", absorb=False) | kit.film(52.4, 4.0, name="focus")
    yield "tap", Case(kit.scene(kit.beam(), lens, tap), 200_000)


def scattering(kit):
    lib = kit.lib
    yield "clear", Case(kit.scene(kit.beam(), {"L": ({}, kit.lens())}, kit.film(100.0, 40.0)), 50_000)
    for name, bsdf, share in (
        ("mirror", lib.SpecularBRDF(), 0.0),
        ("polished", lib.HarveyShackBSDF(b0=1e-2, l0=0.005, s=2.0), 0.02),
        ("rough", lib.HarveyShackBSDF(b0=1e-2, l0=0.05, s=1.5), 0.02),
    ):
        dish = lib.MirrorConfig(
            radius=-200.0, conic=-1.0, aperture_radius=20.0, reflectance=1.0,
            surface=lib.SurfaceConfig(bsdf=bsdf, scatter_fraction=share),
        )  # fmt: skip
        scene = kit.scene(kit.beam(15.0), {"M": ({}, dish)}, kit.film(-100.0, 8.0))
        yield name, Case(scene, 200_000)

    def both(size):
        return kit.film(100.0, size, name="forward") | kit.film(-90.0, 200.0, name="backward")

    for share in (0.1, 0.3, 0.6, 1.0):
        face = lib.SurfaceConfig(bsdf=lib.LambertianBSDF(reflectance_value=0.9), scatter_fraction=share)
        yield f"diffuse {share:g}", Case(kit.scene(kit.beam(), {"L": ({}, kit.lens(back=face))}, both(60.0)), 40_000)
    for behind in (0.0, 1.0):
        bsdf = lib.LambertianBSDF(reflectance_value=0.95, transmissive_fraction=behind)
        face = lib.SurfaceConfig(bsdf=bsdf, scatter_fraction=1.0)
        scene = kit.scene(kit.beam(), {"L": ({}, kit.lens(back=face))}, both(80.0))
        yield f"diffuser {behind:g}", Case(scene, 60_000)


def diagnostics(kit):
    for depth in (2, 5, 20):
        scene = kit.scene(kit.beam(), {"L": ({}, kit.lens())}, kit.film(52.4, 6.0))
        yield f"depth {depth}", Case(scene, 30_000, options={"max_depth": depth, "min_flux_fraction": 1e-8})


def with_condenser(kit, scene):
    """The scene with faces of radius 40 and -40 mm, 5 mm apart; they cross within their 15 mm, and make no lens."""
    lib, crown = kit.lib, kit.lib.NSQMaterial.from_glass("N-BK7")
    faces = {"front": (0.0, 40.0, (lib.VACUUM, crown)), "back": (5.0, -40.0, (crown, lib.VACUUM))}
    for name, (z, radius, media) in faces.items():
        face = lib.ConicGeometry(radius=radius, conic=0.0, aperture_radius=15.0)
        scene.add_component(name, lib.RefractiveComponent(kit.at(z=z), face, *media, name=name))
    return scene


def illumination(kit):
    lib = kit.lib
    singlet = {"L": ({}, kit.lens(radius=15.0))}
    rgb = kit.lines([0.45, 0.55, 0.65], [1.0, 1.0, 1.0])
    led = lib.PointSourceConfig(spectrum=rgb, total_flux=1.0, half_angle_deg=20.0)
    grid = itertools.product((-2.0, 0.0, 2.0), repeat=2)
    leds = {f"led {x:g} {y:g}": ({"x": x, "y": y, "z": -37.73}, led) for x, y in grid}
    yield "array", Case(with_condenser(kit, kit.scene(leds, {}, kit.film(80.0, 44.0))), 90_000)

    beam = lib.CollimatedSourceConfig(spectrum=kit.green(), total_flux=1.0, aperture_radius=8.0)
    beams = {"on": ({"z": -80.0}, beam), "off": ({"z": -80.0, "rx": math.radians(5.0)}, beam)}
    yield "two beams", Case(kit.scene(beams, singlet, kit.film(52.38, 16.0)), 120_000)

    colours = {}
    for name, wavelength, x in (("red", 0.64, -3.0), ("green", 0.532, 0.0), ("blue", 0.45, 3.0)):
        spectrum = lib.Spectrum.monochromatic(wavelength)
        config = lib.PointSourceConfig(spectrum=spectrum, total_flux=1.0, half_angle_deg=8.0)
        colours[name] = ({"x": x, "z": -100.0}, config)
    yield "colours", Case(kit.scene(colours, singlet, kit.film(87.0, 12.0)), 120_000)

    plate = lib.ExtendedSourceConfig(spectrum=kit.green(), total_flux=5.0, width=8.0, height=8.0, half_angle_deg=20.0)
    scene = kit.scene({"S": ({"z": -37.73}, plate)}, {}, kit.film(80.0, 44.0))
    yield "plate", Case(with_condenser(kit, scene), 80_000, 0)


def stray_light(kit):
    ar = kit.lib.SurfaceConfig(coating=kit.coating(reflectance=0.0025, transmittance=0.9975))
    for name, faces, policy, least in (
        ("bare", {}, {}, 1e-8),
        ("coated", {"front": ar, "back": ar}, {"reflect_prob": 0.25}, 1e-9),
    ):
        lenses = {
            "L1": ({}, kit.lens(**faces)),
            "L2": ({"z": 40.0}, kit.lens(-80.0, 80.0, "N-SF5", thickness=4.0, **faces)),
        }
        for depth in (5, 16):
            scene = kit.scene(kit.beam(), lenses, kit.film(60.0, 20.0), **policy)
            options = {"max_depth": depth, "min_flux_fraction": least}
            yield f"{name} {depth}", Case(scene, 200_000, options=options)


def reflective(kit):
    lib = kit.lib
    for name, conic in (("sphere", 0.0), ("parabola", -1.0)):
        mirror = lib.MirrorConfig(radius=-200.0, conic=conic, aperture_radius=27.0, reflectance=0.95)
        yield name, Case(kit.scene(kit.beam(25.0, -100.0), {"M": ({}, mirror)}, kit.film(-100.0, 8.0)), 40_000)

    sun = lib.ExtendedSourceConfig(
        spectrum=kit.lines([0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], [0.6, 1.0, 1.1, 1.0, 0.9, 0.7, 0.5]),
        total_flux=0.001 * math.pi * 50.0**2, aperture_radius=50.0, half_angle_deg=0.265,
    )  # fmt: skip
    dish = lib.MirrorConfig(radius=-400.0, conic=-1.0, aperture_radius=52.0, reflectance=0.94)
    scene = kit.scene({"S": ({"z": -200.0}, sun)}, {"M": ({}, dish)}, kit.film(-200.0, 10.0))
    yield "solar", Case(scene, 120_000)

    primary = lib.MirrorConfig(radius=-150.0, conic=-1.0, aperture_radius=22.0, reflectance=0.95)
    corrector = kit.lens(-80.0, 80.0, radius=15.0, thickness=4.0)
    parts = {"M": ({}, primary), "L": ({"z": -50.0}, corrector)}
    yield "catadioptric", Case(kit.scene(kit.beam(20.0, -150.0), parts, kit.film(-90.0, 8.0)), 50_000)

    led = lib.ExtendedSourceConfig(spectrum=kit.green(), total_flux=1.0, aperture_radius=5.0, half_angle_deg=90.0)
    collimator = lib.MirrorConfig(radius=-200.0, conic=-1.0, aperture_radius=30.0, reflectance=0.95)
    far = {"far": ({"z": -150.0}, lib.FarFieldDetectorConfig(num_theta=180, num_phi=180))}
    yield "collimator", Case(kit.scene({"S": ({"z": -100.0}, led)}, {"M": ({}, collimator)}, far), 150_000)


def advanced(kit):
    lib = kit.lib
    rays = {"rays": ({"z": 52.4}, lib.RayDatabaseConfig(width=6.0, height=6.0))}
    for tilt in (0.0, 10.0, 20.0):
        lens = {"L": ({"rx": math.radians(tilt)}, kit.lens())}
        yield f"tilt {tilt:g}", Case(kit.scene(kit.beam(), lens, rays), 200_000)

    crown = lib.NSQMaterial.from_glass("N-BK7")
    index = float(np.asarray(crown.n(0.55)).reshape(-1)[0])
    scene = kit.scene(kit.beam(2.0, -30.0), {}, kit.film(5.0 * index / (2.0 * (index - 1.0)), 1.0))
    sphere = lib.SphereGeometry(radius=5.0, aperture_radius=4.0)
    scene.add_component("ball", lib.RefractiveComponent(kit.at(), sphere, lib.VACUUM, crown, name="ball"))
    yield "ball", Case(scene, 200_000)

    yield "bench", Case(kit.scene(kit.beam(), {"L": ({}, kit.lens())}, kit.film(100.0, 20.0)), 400_000)
    for name, chance in (("fresnel", "fresnel"), ("biased", 0.25)):
        back = {"ghost": ({"z": -40.0}, lib.RayDatabaseConfig(width=25.0, height=25.0, absorb=False))}
        scene = kit.scene(kit.beam(), {"L": ({}, kit.lens())}, back, reflect_prob=chance)
        yield f"ghost {name}", Case(scene, 8_000, 0)


NOTEBOOKS = (
    getting_started, sources, components, detectors, scattering, diagnostics, illumination, stray_light, reflective,
    advanced,
)  # fmt: skip


def cases(kit):
    """{name: Case} of all notebooks; a name begins with the number of its notebook."""
    found = {}
    for number, notebook in enumerate(NOTEBOOKS, start=1):
        found |= {f"{number:02d} {name}": case for name, case in notebook(kit)}
    return found


def readings(result):
    """{detector: (flux in W, rays that arrived)}."""
    found = {}
    for name, read in result.detectors.items():
        hits = read.num_rays_hit if hasattr(read, "num_rays_hit") else read.num_rays
        found[name] = (float(read.total_flux), int(hits))
    return found
