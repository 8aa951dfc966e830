"""Scenes from a seed: every class, field and way of sharing objects that a scene can hold."""

import dataclasses

import numpy as np
import torch

import nsq
from nsq.thinfilm import ThinFilmCoating

GLASSES = ("N-BK7", "N-SF5", "N-F2", "N-SF11")


class Maker:
    def __init__(self, seed, tensors=False):
        self.rng = np.random.default_rng(seed)
        self.tensors = tensors
        self.frames = []
        self.media = [nsq.NSQMaterial.constant(self.real(1.3, 1.9), 10.0 ** self.real(-9, -6)) for _ in range(2)]
        self.media += [nsq.NSQMaterial.from_glass("N-BK7"), nsq.IdealMaterial(1.7), nsq.Material("N-F2")]
        self.coatings = [nsq.SimpleCoating(self.real(0.5, 0.9), self.real(0.0, 0.1))]
        self.films = [ThinFilmCoating([(self.media[0], self.real(0.05, 0.2)), ("N-SF5", self.real(0.05, 0.2))])]
        self.lobes = [
            nsq.SpecularBRDF(),
            nsq.LambertianBSDF(self.real(0.1, 0.9), self.rng.uniform(0.0, 0.5)),
            nsq.HarveyShackBSDF(0.5, 0.02, self.rng.uniform(1.5, 2.5)),
            nsq.ABgBSDF(0.01, 0.001, self.rng.uniform(1.5, 2.5)),
            nsq.GaussianBSDF(self.rng.uniform(0.05, 0.2)),
        ]

    def chance(self, p=0.5):
        return self.rng.random() < p

    def pick(self, values):
        return values[self.rng.integers(len(values))]

    def real(self, low, high):
        """A number as a float, an int, a NumPy number or, where they are wanted, a tensor."""
        value = self.rng.uniform(low, high)
        kind = self.rng.integers(6)
        if kind == 0 and self.tensors:
            return torch.tensor(value, dtype=self.pick([torch.float32, torch.float64]), requires_grad=self.chance())
        if kind == 1 and round(value) > low and round(value) < high:
            return round(value)
        return np.float64(value) if kind == 2 else float(value)

    def frame(self):
        numbers = {name: self.real(-200.0, 200.0) for name in "xyz"}
        numbers |= {name: self.real(-3.0, 3.0) for name in ("rx", "ry", "rz")}
        parent = self.pick(self.frames) if self.frames and self.chance() else None
        self.frames.append(nsq.CoordinateSystem(**numbers, reference_cs=parent))
        return self.pick(self.frames) if self.chance(0.2) else self.frames[-1]

    def medium(self):
        return self.pick([*GLASSES, *self.media, nsq.VACUUM])

    def spectrum(self):
        count = self.rng.integers(1, 5)
        return nsq.Spectrum(self.rng.uniform(0.42, 0.9, count), self.rng.uniform(0.1, 2.0, count))

    def surface(self, parts):
        if self.chance(0.6):
            return None
        kind = self.pick([None, *nsq.InteractionType])
        own = {"interaction": kind, "scatter_fraction": self.real(0.0, 1.0)}
        if kind is nsq.InteractionType.REFLECTIVE:
            own["reflectance"] = self.pick([self.real(0.1, 0.9), *self.coatings])
            own["bsdf"] = self.pick([None, *self.lobes])
        elif parts == "face" and kind in (None, nsq.InteractionType.REFRACTIVE):
            coatings = self.films if self.chance(0.1) else [None, nsq.SimpleCoating(0.75, 0.125), *self.coatings]
            own["coating"] = self.pick(coatings)
            own["bsdf"] = self.pick([None, None, *self.lobes])
        return nsq.SurfaceConfig(**own)

    def radius(self):
        return self.pick([self.real(60.0, 300.0), self.real(-300.0, -60.0), np.inf, -np.inf, 0])

    def lens(self):
        aperture = self.real(3.0, 9.0)
        return nsq.LensConfig(
            r1=self.radius(),
            r2=self.radius(),
            thickness=self.real(4.0, 9.0),
            material=self.medium(),
            front_aperture_radius=aperture,
            back_aperture_radius=self.pick([None, self.real(3.0, 9.0)]),
            conic1=self.real(-2.0, 1.0),
            conic2=self.real(-2.0, 1.0),
            front=self.surface("face"),
            back=self.surface("face"),
            edge=self.surface("edge"),
            rim=self.surface("edge"),
            ambient=self.pick([nsq.VACUUM, self.media[0]]),
        )

    def doublet(self):
        return nsq.DoubletConfig(
            r1=self.radius(),
            r2=self.radius(),
            r3=self.radius(),
            thickness1=self.real(4.0, 9.0),
            thickness2=self.real(4.0, 9.0),
            material1=self.medium(),
            material2=self.medium(),
            aperture_radius=self.real(3.0, 9.0),
            front=self.surface("face"),
            cemented=self.surface("face"),
            back=self.surface("face"),
            edge=self.surface("edge"),
        )

    def mirror(self):
        reflectance = self.pick([self.real(0.1, 0.9), *self.coatings])
        return nsq.MirrorConfig(self.radius(), reflectance, self.real(-2.0, 1.0), self.real(5.0, 30.0))

    def source(self):
        common = {"spectrum": self.spectrum(), "total_flux": self.real(0.0, 5.0)}
        common["medium"] = self.pick([None, self.medium()])
        kind = self.rng.integers(4)
        if kind == 0:
            return nsq.PointSourceConfig(**common, half_angle_deg=self.real(1.0, 180.0))
        if kind == 1:
            return nsq.CollimatedSourceConfig(**common, aperture_radius=self.real(1.0, 9.0))
        if kind == 2:
            sigma = self.pick([None, self.real(0.5, 4.0)])
            beam = {"aperture_radius": self.real(1.0, 9.0), "profile": "gaussian", "gaussian_sigma": sigma}
            return nsq.CollimatedSourceConfig(**common, **beam)
        size = {"width": self.real(0.5, 3.0), "height": self.real(0.5, 3.0), "half_angle_deg": self.real(5.0, 120.0)}
        return nsq.ExtendedSourceConfig(**common, **size, aperture_radius=self.pick([None, self.real(0.5, 2.0)]))

    def detector(self):
        size = {"width": self.real(5.0, 50.0), "height": self.real(5.0, 50.0), "absorb": self.chance(0.8)}
        if self.chance(0.3):
            return nsq.RayDatabaseConfig(**size, max_rays=int(self.rng.integers(0, 50)))
        pixels = {"num_pixels_x": int(self.rng.integers(1, 9)), "num_pixels_y": int(self.rng.integers(1, 9))}
        if self.chance(0.2):
            splat, absorb = self.pick(["hard", "bilinear"]), self.chance(0.8)
            return nsq.FarFieldDetectorConfig(int(self.rng.integers(1, 9)), 12, absorb=absorb, splat=splat)
        splat = self.pick(["bilinear", "gaussian", "hard"])
        if self.chance(0.2):
            return nsq.SpectralDetectorConfig(**size, **pixels, wl_min=0.4, wl_max=0.9, num_bins=5, splat=splat)
        return nsq.IrradianceDetectorConfig(**size, **pixels, splat=splat, splat_sigma=self.rng.uniform(0.1, 2.0))

    def scene(self):
        scene = nsq.NSQScene()
        for i in range(self.rng.integers(1, 4)):
            scene.add_source(f"source {i}", self.frame(), self.source())
        for i in range(self.rng.integers(0, 4)):
            kind = self.rng.integers(3)
            add = (scene.add_lens, scene.add_doublet, scene.add_mirror)[kind]
            add(f"part-{i} µ", self.frame(), (self.lens, self.doublet, self.mirror)[kind]())
        for i in range(self.rng.integers(1, 4)):
            scene.add_detector(f"D{i}", self.frame(), self.detector())
        if self.chance():
            rule = self.pick(["fresnel", "auto", 0.25])
            scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=rule, rr_start_flux=self.rng.uniform(0.0, 1e-2))
        return scene

    def add_everything_else(self, scene):
        """Single surfaces and groups of every shape, sources of measured data, and the rest of a policy."""
        shapes = [self.asphere, self.biconic, self.toroid, self.mesh, self.plain_shape]
        shared = self.mesh()
        for i in range(self.rng.integers(1, 5)):
            shape = shared if self.chance(0.2) else self.pick(shapes)()
            scene.add_component(f"surface {i}", self.single(shape, self.pick(["", f"surface {i}", "other"])))
        if self.chance(0.3):
            group = nsq.CompoundComponent("group", self.frame(), None)
            group.surfaces = [self.single(shared, "group.a"), self.single(self.pick(shapes)(), "group.b")]
            scene.add_component("group", group)
        lamp = nsq.AngularDistribution(
            [0.0, 40.0, 90.0], np.sort(self.rng.uniform(0.0, 350.0, 3)), self.rng.uniform(1.0, 9.0, (3, 3)), "lamp", 5.0
        )
        opening = self.pick([{}, {"width": self.real(0.5, 3.0), "height": 2.0}, {"aperture_radius": 1.5}])
        config = nsq.LuminaireSourceConfig(lamp, self.spectrum(), total_flux=self.real(0.1, 2.0), **opening)
        scene.add_source("lamp", self.frame(), config)
        colour = self.pick([None, self.spectrum()])
        for name in ("rays", "again"):
            rays = nsq.RayFileSourceConfig(self.ray_table(), total_flux=self.real(0.1, 2.0), replace_spectrum=colour)
            scene.add_source(name, self.frame(), rays)
        policy = {
            "split_depth": int(self.rng.integers(1, 3)) * self.chance(0.2),
            "sampler": self.pick([None, nsq.Sobol()]),
        }
        scene.sampling_policy = dataclasses.replace(scene.sampling_policy, **policy)
        return scene

    def ray_table(self):
        if not hasattr(self, "_rays") or self.chance(0.3):
            way = self.rng.normal(size=(6, 3))
            way /= np.linalg.norm(way, axis=1)[:, None]
            flux, lines = self.rng.uniform(0.1, 1.0, 6), self.rng.choice([0.45, 0.55, 0.7], 6)
            columns = [*self.rng.normal(size=(3, 6)), *way.T, flux, lines]
            if self.chance():  # as a ray file has them
                columns = [np.asarray(column, dtype=np.float32).astype(np.float64) for column in columns]
            self._rays = nsq.RayTable(*columns, description="six rays", spectra=(self.spectrum(),))
        return self._rays

    def single(self, shape, name):
        cs, kind = self.frame(), self.rng.integers(3)
        if kind == 0:
            return nsq.AbsorbingComponent(cs, shape, self.medium(), name)
        lobe = self.pick([None, *self.lobes])
        aimed = lobe is not None and lobe.has_density and self.chance()
        target = nsq.ImportanceTarget(centre=self.rng.normal(size=3), radius=2.0, share=0.3)
        scatter = {"bsdf": lobe, "scatter_fraction": self.real(0.0, 1.0), "name": name}
        scatter["importance"] = self.pick([target, (target,)]) if aimed else None
        if kind == 1:
            reflectance = self.pick([self.real(0.1, 0.9), *self.coatings])
            return nsq.ReflectiveComponent(cs, shape, reflectance, material_back=self.medium(), **scatter)
        coating = self.pick([None, *self.coatings, *self.films])
        return nsq.RefractiveComponent(cs, shape, self.medium(), self.medium(), coating=coating, **scatter)

    def asphere(self):
        radius, conic, aperture = self.pick([self.real(40.0, 90.0), np.inf]), self.real(-2.0, 1.0), self.real(3.0, 9.0)
        if self.chance():
            return nsq.EvenAsphereGeometry(radius, conic, aperture, [self.real(-1e-6, 1e-6), 1e-9])
        return nsq.AsphereGeometry(radius, conic, aperture, {3: self.real(-1e-5, 1e-5), 2: 1e-4})

    def biconic(self):
        return nsq.BiconicGeometry(self.real(40.0, 90.0), -50.0, self.real(-1.0, 1.0), aperture_radius=9.0)

    def toroid(self):
        return nsq.ToroidGeometry(self.real(40.0, 90.0), np.inf, aperture_radius=self.real(3.0, 9.0))

    def mesh(self):
        vertices = self.rng.normal(size=(4, 3)) * 9.0
        if self.chance():
            vertices = np.asarray(vertices, dtype=np.float32)
        return nsq.MeshGeometry((vertices, [(0, 1, 2), (0, 2, 3), (1, 3, 2)]))

    def plain_shape(self):
        return self.pick(
            [
                nsq.PlaneGeometry(),
                nsq.FinitePlaneGeometry(self.real(1.0, 9.0), 3.0),
                nsq.FinitePlaneGeometry(aperture_radius=self.real(1.0, 9.0)),
                nsq.ConicGeometry(self.real(40.0, 90.0), -0.5, 4.0),
                nsq.ParaboloidGeometry(self.real(40.0, 90.0), 4.0),
                nsq.SphereGeometry(self.real(5.0, 9.0), self.pick([None, 4.0])),
                nsq.CylindricalFrustumGeometry(1.0, self.real(2.0, 3.0), 0.0, 5.0),
                nsq.AnnularPlaneGeometry(1.0, self.real(2.0, 3.0), 0.5),
            ]
        )


def generated(seed, tensors=False, everything=False):
    maker = Maker(seed, tensors)
    scene = maker.scene()
    return maker.add_everything_else(scene) if everything else scene
