"""Ten scenes as an Optiland user builds them, from its public names alone: one for each kind of thing that a scene has.

Each is a function that returns the scene; `SCENES` lists them by name with the seed and the rays they are traced with.
"""

import numpy as np
from optiland import nonsequential as peer
from optiland.coatings import SimpleCoating
from optiland.coordinate_system import CoordinateSystem as At
from optiland.materials import IdealMaterial

GREEN = peer.Spectrum.monochromatic(0.55)
WHITE = peer.Spectrum(np.array([0.45, 0.55, 0.65]), np.array([1.0, 2.0, 1.0]))


def glass(n, k=0.0):
    return peer.NSQMaterial(IdealMaterial(n, k))


def screen(size, pixels=16, **options):
    return peer.IrradianceDetectorConfig(width=size, height=size, num_pixels_x=pixels, num_pixels_y=pixels, **options)


def singlet():
    """A first trace: a beam, a lens of catalogue glass, a screen."""
    scene = peer.NSQScene()
    scene.add_source("beam", At(), peer.CollimatedSourceConfig(GREEN, aperture_radius=5.0))
    lens = peer.LensConfig(r1=100.0, r2=-100.0, thickness=5.0, material="N-BK7", front_aperture_radius=12.5)
    scene.add_lens("lens", At(z=50.0), lens)
    scene.add_detector("film", At(z=145.0), screen(10.0))
    return scene


def sources():
    """Every kind of source, tilted, one of them inside a glass."""
    scene = peer.NSQScene()
    scene.add_source("point", At(x=-3.0, rx=0.1), peer.PointSourceConfig(WHITE, total_flux=2.0, half_angle_deg=25.0))
    gauss = peer.CollimatedSourceConfig(GREEN, aperture_radius=3.0, profile="gaussian", gaussian_sigma=1.2)
    scene.add_source("gauss", At(y=2.0, ry=-0.05), gauss)
    scene.add_source("plate", At(x=2.0), peer.ExtendedSourceConfig(WHITE, total_flux=0.5, width=2.0, height=1.0))
    disk = peer.ExtendedSourceConfig(GREEN, aperture_radius=1.0, half_angle_deg=15.0, medium=glass(1.5, 1e-6))
    scene.add_source("disk", At(z=-1.0), disk)
    scene.add_detector("film", At(z=20.0, rx=0.2), screen(40.0, splat="gaussian", splat_sigma=0.8))
    scene.add_detector("behind", At(z=40.0), peer.FarFieldDetectorConfig(num_theta=18, num_phi=24))
    return scene


def components():
    """A doublet, a lens with faces of different size, a mirror, a stop and a ball, in a frame of their own."""
    scene, bench = peer.NSQScene(), At(x=1.0, y=-2.0, z=3.0, rx=0.1, ry=0.2, rz=0.3)
    scene.add_source("beam", At(reference_cs=bench), peer.CollimatedSourceConfig(WHITE, aperture_radius=6.0))
    doublet = peer.DoubletConfig(
        r1=62.8, r2=-45.7, r3=-128.2, thickness1=4.0, thickness2=2.5, material1="N-BK7", material2="N-SF5",
        aperture_radius=8.0,
    )  # fmt: skip
    scene.add_doublet("doublet", At(z=10.0, reference_cs=bench), doublet)
    step = peer.LensConfig(
        r1=0.0, r2=-50.0, thickness=6.0, material="N-F2", front_aperture_radius=7.0, back_aperture_radius=5.0
    )
    scene.add_lens("step", At(z=25.0, reference_cs=bench), step)
    ball = peer.RefractiveComponent(
        At(x=1.0, z=45.0, reference_cs=bench), peer.SphereGeometry(radius=6.0), peer.VACUUM, glass(1.7, 1e-7)
    )
    scene.add_component("ball", ball)
    ring = peer.AbsorbingComponent(At(z=56.0, reference_cs=bench), peer.AnnularPlaneGeometry(2.0, 20.0))
    scene.add_component("ring", ring)
    scene.add_mirror("mirror", At(z=80.0, ry=0.6, reference_cs=bench), peer.MirrorConfig(radius=-90.0, reflectance=0.9))
    scene.add_detector("film", At(x=-30.0, z=40.0, ry=1.2, reference_cs=bench), screen(60.0, pixels=8))
    return scene


def detectors():
    """One of each kind, all but the last letting rays pass."""
    scene = peer.NSQScene()
    scene.add_source("point", At(), peer.PointSourceConfig(WHITE, half_angle_deg=30.0))
    pixels = {"width": 20.0, "height": 12.0, "num_pixels_x": 10, "num_pixels_y": 6, "absorb": False}
    scene.add_detector("hard", At(z=5.0), peer.IrradianceDetectorConfig(**pixels, splat="hard"))
    scene.add_detector("lines", At(z=8.0), peer.SpectralDetectorConfig(**pixels, wl_min=0.4, wl_max=0.7, num_bins=6))
    scene.add_detector("rays", At(z=10.0), peer.RayDatabaseConfig(width=9.0, height=9.0, absorb=False))
    scene.add_detector("far", At(z=20.0), peer.FarFieldDetectorConfig(num_theta=9, num_phi=12))
    return scene


def scatter():
    """A white plate, a polished mirror that scatters a little, and a diffuser."""
    scene = peer.NSQScene()
    scene.add_source("beam", At(), peer.CollimatedSourceConfig(GREEN, aperture_radius=2.0))
    frost = peer.SurfaceConfig(bsdf=peer.LambertianBSDF(0.9, transmissive_fraction=0.7), scatter_fraction=0.5)
    slab = peer.LensConfig(r1=0.0, r2=0.0, thickness=3.0, material=glass(1.5), front_aperture_radius=10.0, back=frost)
    scene.add_lens("slab", At(z=10.0), slab)
    polish = peer.SurfaceConfig(bsdf=peer.HarveyShackBSDF(b0=20.0, l0=0.02, s=2.0), scatter_fraction=0.3)
    scene.add_mirror("mirror", At(z=25.0, ry=0.5), peer.MirrorConfig(radius=0.0, reflectance=0.95, surface=polish))
    white = peer.ReflectiveComponent(
        At(x=-25.0, z=8.0, ry=1.2), peer.FinitePlaneGeometry(40.0, 40.0), 0.8, bsdf=peer.LambertianBSDF()
    )
    scene.add_component("white", white)
    scene.add_detector("far", At(z=60.0), peer.FarFieldDetectorConfig(num_theta=9, num_phi=8))
    scene.add_detector("film", At(x=-5.0, z=-3.0), screen(60.0, pixels=6))
    return scene


def prism():
    """White light through a prism of flint onto a spectral detector."""
    scene = peer.NSQScene()
    scene.add_source("beam", At(), peer.CollimatedSourceConfig(WHITE, aperture_radius=1.0))
    flint, face = peer.NSQMaterial.from_glass("N-SF5"), peer.FinitePlaneGeometry(30.0, 30.0)
    scene.add_component("in", peer.RefractiveComponent(At(z=20.0, ry=0.35), face, peer.VACUUM, flint))
    scene.add_component("out", peer.RefractiveComponent(At(z=32.0, ry=-0.35), face, flint, peer.VACUUM))
    config = peer.SpectralDetectorConfig(
        width=60.0, height=20.0, num_pixels_x=30, num_pixels_y=4, wl_min=0.4, wl_max=0.7, num_bins=3
    )
    scene.add_detector("film", At(x=20.0, z=80.0), config)
    return scene


def ghosts():
    """Coated and bare faces, light that is reflected to and fro, splitting at the first two faces."""
    scene = peer.NSQScene()
    scene.add_source("beam", At(), peer.CollimatedSourceConfig(GREEN, aperture_radius=5.0))
    coated = peer.SurfaceConfig(coating=SimpleCoating(transmittance=0.97, reflectance=0.02))
    first = peer.LensConfig(
        r1=60.0, r2=-200.0, thickness=5.0, material=glass(1.6), front_aperture_radius=10.0, front=coated
    )
    scene.add_lens("first", At(z=10.0), first)
    second = peer.LensConfig(r1=-80.0, r2=150.0, thickness=3.0, material=glass(1.8), front_aperture_radius=10.0)
    scene.add_lens("second", At(z=25.0), second)
    scene.add_detector("film", At(z=100.0), screen(30.0))
    scene.sampling_policy = type(scene.sampling_policy)(reflect_prob="auto")
    return scene


def cassegrain():
    """Two conic mirrors with spectral reflectance, a hole in the first."""
    scene = peer.NSQScene()
    scene.add_source("star", At(z=-300.0), peer.CollimatedSourceConfig(WHITE, aperture_radius=50.0))

    def silver(wavelength):
        return 0.9 + 0.1 * wavelength

    primary = peer.ReflectiveComponent(At(z=0.0), peer.ParaboloidGeometry(-400.0, 50.0), silver)
    scene.add_component("primary", primary)
    secondary = peer.MirrorConfig(radius=-120.0, reflectance=SimpleCoating(0.0, 0.92), conic=-3.0, aperture_radius=14.0)
    scene.add_mirror("secondary", At(z=-150.0), secondary)
    scene.add_detector("focus", At(z=-20.0), screen(20.0))
    return scene


def light_pipe():
    """A rod of three surfaces, filled by a cone: dozens of total reflections."""
    scene = peer.NSQScene()
    scene.add_source("led", At(z=-0.5), peer.PointSourceConfig(GREEN, half_angle_deg=40.0))
    acrylic, near, far = glass(1.5, 1e-8), peer.FinitePlaneGeometry(aperture_radius=2.0), At(z=60.0)
    side = peer.CylindricalFrustumGeometry(r_front=2.0, r_back=2.0, z_front=0.0, z_back=60.0)
    scene.add_component("in", peer.RefractiveComponent(At(), near, peer.VACUUM, acrylic))
    scene.add_component("side", peer.RefractiveComponent(At(), side, acrylic, peer.VACUUM))
    scene.add_component("out", peer.RefractiveComponent(far, near, acrylic, peer.VACUUM))
    scene.add_detector("end", At(z=62.0), screen(10.0, pixels=8))
    return scene


def photometry():
    """Several sources in lumens on one table."""
    scene = peer.NSQScene()
    for k, x in enumerate((-20.0, 0.0, 20.0)):
        lamp = peer.PointSourceConfig(WHITE, total_flux_lumens=100.0 * (k + 1), half_angle_deg=60.0)
        scene.add_source(f"lamp{k}", At(x=x, z=-50.0), lamp)
    scene.add_detector("table", At(), screen(120.0, pixels=12))
    return scene


# name -> scene, rays, seed, max_depth
SCENES = {
    "singlet": (singlet, 20_000, 1, 16),
    "sources": (sources, 20_000, 2, 16),
    "components": (components, 20_000, 3, 16),
    "detectors": (detectors, 10_000, 4, 16),
    "scatter": (scatter, 20_000, 5, 16),
    "prism": (prism, 10_000, 6, 16),
    "ghosts": (ghosts, 20_000, 7, 16),
    "cassegrain": (cassegrain, 20_000, 8, 16),
    "light_pipe": (light_pipe, 10_000, 9, 100),
    "photometry": (photometry, 10_000, 10, 16),
}
