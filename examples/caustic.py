"""A caustic
=========

Sunlight in a coffee cup, and the cusp half a radius from its middle.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "caustic", rays=1_000_000)
CS = nsq.CoordinateSystem
RADIUS, DEPTH = 40.0, 26.0
ELEVATION = np.radians(30.0)  # of the sun above the coffee

scene = nsq.NSQScene()
sun = nsq.CollimatedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.58), aperture_radius=46.0)
# the cup's axis is z and the coffee is at z = 0; light comes down along +y, aimed at the wall
way = np.array([0.0, np.cos(ELEVATION), -np.sin(ELEVATION)])
start = np.array([0.0, RADIUS, 0.55 * DEPTH]) - 150.0 * way
scene.add_source("sun", CS(*start, rx=-np.arctan2(way[1], way[2])), sun)
wall = nsq.CylindricalFrustumGeometry(RADIUS, RADIUS, 0.0, DEPTH)
scene.add_component("cup", nsq.ReflectiveComponent(CS(), wall, 0.9))
# the outside of the cup: what would reach its wall from behind is stopped, and so is what passes beside the cup
outside = nsq.CylindricalFrustumGeometry(RADIUS + 0.1, RADIUS + 0.1, 0.0, DEPTH)
scene.add_component("outside", nsq.AbsorbingComponent(CS(), outside))
size = 2.0 * RADIUS
coffee = nsq.IrradianceDetectorConfig(width=size, height=size, num_pixels_x=320, num_pixels_y=320)
scene.add_detector("coffee", CS(), coffee)
result = scene.trace(example.rays, seed=11, max_depth=12)
reading = result.detectors["coffee"]

# Rays that run parallel to the axis of a circle and close to it cross it half a radius before the wall: the cusp.
middle = np.abs(reading.x_coords) < 1.0
y = reading.y_coords
profile = reading.irradiance[:, middle].mean(axis=1)
window = (y > 0.2 * RADIUS) & (y < 0.8 * RADIUS)
example.check("place of the cusp (mm)", y[window][np.argmax(profile[window])], 0.5 * RADIUS, 0.1 * RADIUS)
example.check("conservation error", result.flux_conservation_error, 0.0, 1e-12)

figure, (left, right) = plt.subplots(1, 2, figsize=(12.0, 5.6), layout="constrained", width_ratios=(1.0, 1.1))
scene.view(ax=left, num_rays=60, title="through the middle of the cup", xlim=(-20.0, 70.0), ylim=(-60.0, 60.0))
radius = np.hypot(*np.meshgrid(reading.x_coords, reading.y_coords))
image = np.where(radius < RADIUS, reading.irradiance, np.nan)
top = np.nanpercentile(image, 99.7)
shown = right.imshow(image, origin="lower", extent=(-RADIUS, RADIUS, -RADIUS, RADIUS), cmap="inferno", vmax=top)
figure.colorbar(shown, ax=right, label="W/mm²", extend="max")
right.set(xlabel="x (mm)", ylabel="y (mm)", title="the coffee's surface")
right.plot(0.0, 0.5 * RADIUS, "+", color="white", ms=10)
right.annotate("R/2", (0.0, 0.5 * RADIUS), (6, 4), textcoords="offset points", color="white")
example.finish(figure)
