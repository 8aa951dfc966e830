"""Photometry
==========

Three lamps over a desk, in lux, and the light of each of them.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "photometry", rays=600_000)
CS = nsq.CoordinateSystem
DESK = (1600.0, 800.0)  # mm
LAMPS = {  # place above the desk in mm, luminous flux, half angle, spectrum
    "ceiling": ((0.0, 0.0, 1800.0), 3000.0, 90.0, nsq.spectra.led("white_6500K", lines=20)),
    "desk lamp": ((-500.0, -200.0, 450.0), 450.0, 35.0, nsq.spectra.led("white_3000K", lines=20)),
    "monitor": ((450.0, 250.0, 300.0), 120.0, 60.0, nsq.spectra.led("blue", lines=20)),
}


def desk(names):
    scene = nsq.NSQScene()
    for name in names:
        (x, y, z), lumens, angle, spectrum = LAMPS[name]
        lamp = nsq.ExtendedSourceConfig(
            spectrum=spectrum, total_flux_lumens=lumens, width=20.0, height=20.0, half_angle_deg=angle
        )
        scene.add_source(name, CS(x=x, y=y, z=-z), lamp)
    surface = nsq.SpectralDetectorConfig(
        width=DESK[0], height=DESK[1], num_pixels_x=64, num_pixels_y=32, wl_min=0.38, wl_max=0.78, num_bins=80
    )
    scene.add_detector("desk", CS(), surface)
    return scene


figure, axes = plt.subplots(2, 2, figsize=(11.0, 6.4), layout="constrained")
everything = nsq.to_photometric(desk(LAMPS).trace(example.rays, seed=9).detectors["desk"])
everything.plot(axes[0, 0])
axes[0, 0].set_title(f"all lamps: {everything.total:.0f} lm on the desk")
alone = 0.0
for name, ax in zip(LAMPS, axes.flat[1:], strict=True):
    found = nsq.to_photometric(desk([name]).trace(example.rays, seed=9).detectors["desk"])
    found.plot(ax)
    ax.set_title(f"{name}: {found.total:.0f} lm")
    alone += found.total
    if name == "ceiling":
        # a Lambertian patch of F lumens: F cos^4 / (pi d^2), here around the point below it
        below = found.data[14:18, 28:36].mean()
        expected = 3000.0 / np.pi / 1.8**2
        hits = example.rays * 32 * 25.0**2 / (np.pi * 1800.0**2)
        example.check("illuminance below the ceiling lamp (lx)", below, expected, expected * (0.02 + 5.0 / hits**0.5))
example.check("the sum of the lamps (lm)", alone, everything.total, 0.01 * alone + 5.0 * alone / example.rays**0.5)
example.finish(figure)
