"""Scenes from a seed, for what holds in every scene: lenses, mirrors, coatings, scatter, taps, absorption."""

import numpy as np

import nsq
from nsq.bsdfs import ABgBSDF, GaussianBSDF, HarveyShackBSDF, LambertianBSDF, SpecularBRDF
from nsq.configs import FarFieldDetectorConfig, SpectralDetectorConfig

from ..scenes import placed

LINES = nsq.Spectrum(np.array([0.45, 0.55, 0.65]), np.array([1.0, 2.0, 1.5]))


class Maker:
    """``scatter`` and ``lossy`` say whether lobes and absorbing media may occur."""

    def __init__(self, seed, frame=None, scatter=True, lossy=True):
        self.rng = np.random.default_rng(seed)
        self.frame, self.scatter, self.lossy = frame, scatter, lossy

    def real(self, low, high):
        return float(self.rng.uniform(low, high))

    def chance(self, p=0.5):
        return self.rng.random() < p

    def pick(self, values):
        return values[self.rng.integers(len(values))]

    def pose(self, z, tilt=0.3, shift=3.0):
        angles = {name: self.real(-tilt, tilt) for name in ("rx", "ry", "rz")}
        return placed(self.frame, x=self.real(-shift, shift), y=self.real(-shift, shift), z=z, **angles)

    def medium(self):
        k = 10.0 ** self.real(-8.0, -5.0)
        return nsq.NSQMaterial.constant(self.real(1.2, 1.9), k if self.lossy and self.chance(0.7) else 0.0)

    def lobe(self):
        if not self.scatter or self.chance(0.6):
            return None
        behind = self.pick([0.0, 0.4, 1.0])
        kinds = [
            lambda: LambertianBSDF(self.real(0.2, 1.0), behind),
            lambda: ABgBSDF(0.01, 10.0 ** self.real(-4.0, -2.0), 2.0, behind),
            lambda: GaussianBSDF(self.real(0.01, 0.5), behind),
            lambda: HarveyShackBSDF(self.real(0.5, 3.0), self.real(0.01, 0.1), self.real(1.5, 2.5), behind),
            SpecularBRDF,
        ]
        return self.pick(kinds)()

    def coating(self):
        if self.chance(0.6):
            return None
        r = self.real(0.0, 0.6)
        t = self.real(0.0, 1.0 - r) if self.lossy else 1.0 - r
        return self.pick(
            [nsq.SimpleCoating(t, r), nsq.SimpleCoating(lambda wl: t * (0.5 + 0.5 * wl), lambda wl: r * wl)]
        )

    def reflectance(self):
        if not self.lossy:
            return 1.0
        return self.pick([self.real(0.1, 1.0), lambda wl: 0.9 * wl])

    def surface(self, edge=False):
        if self.chance(0.4):
            return None
        kind = self.pick([None, *nsq.InteractionType])
        own = {"interaction": kind, "scatter_fraction": self.pick([0.0, self.real(0.0, 1.0), 1.0])}
        refracts = kind is nsq.InteractionType.REFRACTIVE or (kind is None and not edge)
        if kind is nsq.InteractionType.REFLECTIVE:
            own["reflectance"] = self.reflectance()
        if refracts:
            own["coating"] = self.coating()
        if refracts or kind is nsq.InteractionType.REFLECTIVE:
            own["bsdf"] = self.lobe()
        return nsq.SurfaceConfig(**own)

    def radius(self):
        return self.pick([self.real(40.0, 200.0), -self.real(40.0, 200.0), np.inf])

    def part(self, scene, i, z):
        name, kind = f"part {i}", self.rng.integers(4)
        if kind == 0:
            config = nsq.LensConfig(
                self.radius(), self.radius(), self.real(4.0, 8.0), self.medium(), self.real(6.0, 9.0),
                back_aperture_radius=self.pick([None, self.real(6.0, 9.0)]), conic1=self.real(-1.5, 0.5),
                front=self.surface(), back=self.surface(), edge=self.surface(edge=True), rim=self.surface(edge=True),
            )  # fmt: skip
            scene.add_lens(name, self.pose(z), config)
        elif kind == 1:
            config = nsq.DoubletConfig(
                self.radius(), self.radius(), self.radius(), self.real(4.0, 8.0), self.real(4.0, 8.0), self.medium(),
                self.medium(), self.real(6.0, 9.0), front=self.surface(), cemented=self.surface(), back=self.surface(),
                edge=self.surface(edge=True),
            )  # fmt: skip
            scene.add_doublet(name, self.pose(z), config)
        elif kind == 2:
            own = nsq.SurfaceConfig(bsdf=self.lobe(), scatter_fraction=self.real(0.0, 1.0))
            config = nsq.MirrorConfig(self.radius(), self.reflectance(), self.real(-1.5, 0.5), 15.0, surface=own)
            scene.add_mirror(name, self.pose(z, tilt=1.2), config)
        else:
            sphere = nsq.SphereGeometry(self.real(3.0, 6.0))
            ball = nsq.RefractiveComponent(
                self.pose(z), sphere, nsq.VACUUM, self.medium(), bsdf=self.lobe(), name=name, coating=self.coating(),
                scatter_fraction=self.real(0.0, 1.0),
            )  # fmt: skip
            scene.add_component(name, ball)

    def source(self):
        medium = self.medium() if self.chance(0.2) else None
        common = {"spectrum": LINES, "total_flux": self.real(0.1, 5.0), "medium": medium}
        kinds = [
            lambda: nsq.PointSourceConfig(**common, half_angle_deg=self.real(5.0, 180.0)),
            lambda: nsq.CollimatedSourceConfig(**common, aperture_radius=self.real(1.0, 8.0)),
            lambda: nsq.CollimatedSourceConfig(**common, aperture_radius=6.0, profile="gaussian", gaussian_sigma=2.0),
            lambda: nsq.ExtendedSourceConfig(**common, width=4.0, height=3.0, half_angle_deg=self.real(10.0, 90.0)),
        ]
        return self.pick(kinds)()

    def detector(self):
        absorb = self.chance(0.4)
        pixels = {"num_pixels_x": 5, "num_pixels_y": 4, "absorb": absorb}
        kinds = [
            lambda: nsq.IrradianceDetectorConfig(
                20.0, 16.0, splat=self.pick(["hard", "bilinear", "gaussian"]), **pixels
            ),
            lambda: SpectralDetectorConfig(20.0, 16.0, num_bins=6, **pixels),
            lambda: nsq.RayDatabaseConfig(20.0, 16.0, absorb=absorb),
            lambda: FarFieldDetectorConfig(
                num_theta=6, num_phi=8, absorb=absorb, splat=self.pick(["hard", "bilinear"])
            ),
        ]
        return self.pick(kinds)()

    def scene(self):
        scene = nsq.NSQScene()
        for i in range(self.rng.integers(1, 3)):
            scene.add_source(f"source {i}", self.pose(-self.real(10.0, 30.0)), self.source())
        z = 0.0
        for i in range(self.rng.integers(1, 5)):
            self.part(scene, i, z)
            z += self.real(24.0, 40.0)
        for i in range(self.rng.integers(1, 4)):
            scene.add_detector(f"D{i}", self.pose(self.real(-25.0, z + 20.0), tilt=0.1), self.detector())
        return scene


def generated(seed, frame=None, scatter=True, lossy=True):
    return Maker(seed, frame, scatter, lossy).scene()
