"""A Cassegrain telescope: two conics, a baffled centre, and stars on and off the axis."""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "cassegrain", rays=60_000)
CS = nsq.CoordinateSystem
F1, SEPARATION, BACK = 400.0, 280.0, 80.0  # focal length of the primary, mirrors, focus behind the primary's vertex
P, Q = F1 - SEPARATION, SEPARATION + BACK  # from the secondary to its two foci
MAGNIFICATION = Q / P
R2 = 2.0 * P * Q / (Q - P)
K2 = -(((MAGNIFICATION + 1.0) / (MAGNIFICATION - 1.0)) ** 2)
HOLE, RADIUS, SECONDARY = 14.0, 60.0, 20.0


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
    # a hole: what lands on the middle of the primary is caught by a tap of light just in front of it
    scene.add_detector("focus", CS(z=-5.0), nsq.RayDatabaseConfig(width=2.0 * HOLE, height=2.0 * HOLE))
    return scene


scene = telescope(0.0)
found = scene.trace(example.rays, seed=7).detectors["focus"].to_numpy()
print(len(found["x"]))
