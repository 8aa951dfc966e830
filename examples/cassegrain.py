"""A Cassegrain telescope
======================

Two conic mirrors, the shadow of one of them, and stars on and off the axis.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "cassegrain", rays=60_000)
CS = nsq.CoordinateSystem
F1, SEPARATION, SHORT = 400.0, 280.0, 5.0  # focal length of the primary, mirrors, focus to the primary's vertex, mm
P, Q = F1 - SEPARATION, SEPARATION - SHORT  # from the secondary to its two foci
MAGNIFICATION = Q / P
R2 = 2.0 * P * Q / (Q - P)
K2 = -(((MAGNIFICATION + 1.0) / (MAGNIFICATION - 1.0)) ** 2)
RADIUS, SECONDARY = 60.0, 20.0


def telescope(field_deg):
    """Light along +z; the primary stands at z = 0 and looks back towards -z."""
    scene = nsq.NSQScene()
    tilt = np.radians(field_deg)
    star = nsq.CollimatedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.55), aperture_radius=RADIUS)
    # the beam is aimed at the middle of the primary
    start = CS(y=-380.0 * np.sin(tilt), z=-380.0 * np.cos(tilt), rx=-tilt)
    scene.add_source("star", start, star)
    primary = nsq.ConicGeometry(-2.0 * F1, -1.0, 62.0)
    scene.add_component("primary", nsq.ReflectiveComponent(CS(), primary, 1.0))
    secondary = nsq.ConicGeometry(-R2, K2, SECONDARY)
    scene.add_component("secondary", nsq.ReflectiveComponent(CS(z=-SEPARATION), secondary, 1.0))
    # in the shadow of the secondary
    scene.add_detector("focus", CS(z=-SHORT), nsq.RayDatabaseConfig(width=24.0, height=24.0))
    return scene


figure, axes = plt.subplot_mosaic([["view"] * 3, ["0.0", "0.1", "0.2"]], figsize=(11.0, 7.0), layout="constrained")
telescope(0.0).view(ax=axes["view"], num_rays=40)
scale = F1 * MAGNIFICATION
for field in ("0.0", "0.1", "0.2"):
    focus = telescope(float(field)).trace(example.rays, seed=7).detectors["focus"]
    rays = focus.to_numpy()
    focus.plot(axes[field])
    axes[field].set_title(f"{field}°")
    height = rays["y"].mean()
    if field == "0.0":
        size = np.hypot(rays["x"], rays["y"]).max()
        example.check("spot on the axis (mm)", size, 0.0, 1e-9)
        share = 1.0 - (SECONDARY / RADIUS) ** 2  # the secondary's shadow
        error = np.sqrt(share * (1.0 - share) / example.rays)
        example.check("flux past the secondary (W)", focus.total_flux_float, share, 4.0 * error)
    else:
        expected = scale * np.tan(np.radians(float(field)))
        example.check(f"image of a star at {field}° (mm)", abs(height), expected, 0.01 * expected)
example.finish(figure)
