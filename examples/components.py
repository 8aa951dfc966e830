"""Components
==========

Lenses, a doublet, mirrors, an axicon, an asphere and a mesh, each in its section with rays.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "components", rays=20_000)
CS = nsq.CoordinateSystem
GLASS = nsq.NSQMaterial.constant(1.5168)
FLINT = nsq.NSQMaterial.constant(1.6727)
AIR = nsq.VACUUM


def bench(film_z=60.0):
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.5876), aperture_radius=7.0)
    scene.add_source("beam", CS(z=-15.0), beam)
    scene.add_detector("film", CS(z=film_z), nsq.RayDatabaseConfig(width=40.0, height=40.0))
    return scene


scenes = {name: bench() for name in ("lens", "doublet", "ball", "axicon", "prism of triangles")}
lens = nsq.LensConfig(r1=45.0, r2=-45.0, thickness=6.0, material=GLASS, front_aperture_radius=10.0)
scenes["lens"].add_lens("lens", CS(), lens)
doublet = nsq.DoubletConfig(
    r1=36.0, r2=-26.0, r3=-74.0, thickness1=6.0, thickness2=2.5, material1=GLASS, material2=FLINT, aperture_radius=10.0
)
scenes["doublet"].add_doublet("doublet", CS(), doublet)
ball = nsq.RefractiveComponent(CS(z=12.0), nsq.SphereGeometry(12.0), GLASS, AIR)
scenes["ball"].add_component("ball", ball)
for part, shape, front, back in (  # a cone that points along the light: glass inside, air outside
    ("base", nsq.FinitePlaneGeometry(aperture_radius=10.0), AIR, GLASS),
    ("cone", nsq.CylindricalFrustumGeometry(10.0, 0.0, 0.0, 4.0), GLASS, AIR),
):
    scenes["axicon"].add_component(f"axicon.{part}", nsq.RefractiveComponent(CS(), shape, front, back))
corners = np.array([(-9, -8, 0), (-9, 8, 0), (-9, -8, 12), (9, -8, 0), (9, 8, 0), (9, -8, 12)], dtype=float)
faces = [(0, 2, 1), (3, 4, 5), (0, 1, 4), (0, 4, 3), (0, 3, 5), (0, 5, 2), (1, 2, 5), (1, 5, 4)]
prism = nsq.RefractiveComponent(CS(), nsq.MeshGeometry((corners, np.array(faces))), GLASS, AIR)
scenes["prism of triangles"].add_component("prism", prism)

mirror = bench(film_z=0.0)
mirror.remove_detector("film")
paraboloid = nsq.MirrorConfig(radius=-80.0, conic=-1.0, reflectance=1.0, aperture_radius=12.0)
mirror.add_mirror("paraboloid", CS(z=40.0), paraboloid)
mirror.add_detector("film", CS(), nsq.RayDatabaseConfig(width=0.5, height=0.5))  # small: it stands in the beam
scenes["paraboloid"] = mirror

figure, axes = plt.subplots(3, 2, figsize=(11.0, 9.0), layout="constrained")
for (name, scene), ax in zip(scenes.items(), axes.flat, strict=True):
    scene.view(ax=ax, num_rays=24, title=name, ylim=(-16.0, 18.0))

spot = mirror.trace(example.rays, seed=1).detectors["film"].to_numpy()
back = spot["N"] < 0.0  # what comes from the mirror, not straight from the source
example.check("spot of the paraboloid at its focus (mm)", np.hypot(spot["x"], spot["y"])[back].max(), 0.0, 1e-9)
rays = scenes["axicon"].trace(example.rays, seed=1, max_depth=3).detectors["film"].to_numpy()
tilt = np.arctan2(4.0, 10.0)  # of the cone's side against its base
bend = np.arcsin(1.5168 * np.sin(tilt)) - tilt
example.check("angle behind the axicon (rad)", np.median(np.arccos(rays["N"])), bend, 1e-9)
example.finish(figure)
