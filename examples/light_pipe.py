"""A light pipe
============

A square rod that turns the uneven light of three LEDs into an even field.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "light_pipe", rays=400_000)
CS = nsq.CoordinateSystem
SIDE, LENGTH, INDEX = 6.0, 60.0, 1.5
GLASS, AIR = nsq.NSQMaterial.constant(INDEX), nsq.VACUUM

scene = nsq.NSQScene()
for name, x, y, flux in (("LED 1", -1.6, -1.2, 1.0), ("LED 2", 1.6, -1.2, 1.0), ("LED 3", 0.0, 1.8, 1.0)):
    chip = nsq.ExtendedSourceConfig(
        spectrum=nsq.Spectrum.monochromatic(0.53), total_flux=flux, width=1.0, height=1.0, half_angle_deg=60.0
    )
    scene.add_source(name, CS(x=x, y=y, z=-0.2), chip)
# ideal anti-reflection coatings on the ends, bare glass on the sides
clear = nsq.SimpleCoating(transmittance=1.0, reflectance=0.0)
end = nsq.FinitePlaneGeometry(SIDE, SIDE)
scene.add_component("rod.in", nsq.RefractiveComponent(CS(), end, AIR, GLASS, coating=clear))
scene.add_component("rod.out", nsq.RefractiveComponent(CS(z=LENGTH), end, GLASS, AIR, coating=clear))
for name, pose, shape in (
    ("rod.top", {"y": SIDE / 2, "rx": -np.pi / 2}, nsq.FinitePlaneGeometry(SIDE, LENGTH)),
    ("rod.bottom", {"y": -SIDE / 2, "rx": np.pi / 2}, nsq.FinitePlaneGeometry(SIDE, LENGTH)),
    ("rod.left", {"x": SIDE / 2, "ry": np.pi / 2}, nsq.FinitePlaneGeometry(LENGTH, SIDE)),
    ("rod.right", {"x": -SIDE / 2, "ry": -np.pi / 2}, nsq.FinitePlaneGeometry(LENGTH, SIDE)),
):
    scene.add_component(name, nsq.RefractiveComponent(CS(z=LENGTH / 2, **pose), shape, GLASS, AIR))
grid = {"width": SIDE, "height": SIDE, "num_pixels_x": 60, "num_pixels_y": 60}
scene.add_detector("entrance", CS(z=0.01), nsq.IrradianceDetectorConfig(**grid, absorb=False))
scene.add_detector("exit", CS(z=LENGTH - 0.01), nsq.IrradianceDetectorConfig(**grid, absorb=False))
scene.add_detector("beyond", CS(z=LENGTH + 5.0), nsq.RayDatabaseConfig(width=60.0, height=60.0))
result = scene.trace(example.rays, seed=8, max_depth=200)
entrance, exit_ = (result.detectors[name] for name in ("entrance", "exit"))

# inside the rod no ray is steeper than the critical angle, so that its sides lose nothing
missing = 1.0 - exit_.total_flux_float / entrance.total_flux_float
example.check("share lost through the sides", missing, 0.0, 1e-9)
cells = example.rays / 3.0 / 36.0  # rays in each of 6 x 6 cells
coarse = [m.irradiance.reshape(6, 10, 6, 10).mean(axis=(1, 3)) for m in (entrance, exit_)]
uneven = [c.std() / c.mean() for c in coarse]
example.check("unevenness at the exit", uneven[1], 0.0, 0.03 + 3.0 / np.sqrt(cells))
example.check("unevenness at the entrance", uneven[0], 2.0, 0.7)

figure = plt.figure(figsize=(11.0, 6.6), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(1.0, 1.5))
scene.view(ax=above.subplots(), num_rays=45, xlim=(-4.0, LENGTH + 10.0), ylim=(-6.0, 6.0))
for ax, reading in zip(below.subplots(1, 2), (entrance, exit_), strict=True):
    reading.plot(ax)
example.finish(figure)
