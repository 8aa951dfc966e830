"""Sources
=======

What point, collimated, Gaussian and extended sources look like nearby and far away.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "sources", rays=300_000)
GREEN = nsq.Spectrum.monochromatic(0.55)
KINDS = {
    "point, 40° cone": nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=40.0),
    "collimated": nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=6.0),
    "Gaussian beam": nsq.CollimatedSourceConfig(
        spectrum=GREEN, aperture_radius=9.0, profile="gaussian", gaussian_sigma=3.0
    ),
    "Lambertian square": nsq.ExtendedSourceConfig(spectrum=GREEN, width=6.0, height=6.0),
}

figure, axes = plt.subplots(2, 4, figsize=(13.0, 5.6), layout="constrained")
for (name, config), above, below in zip(KINDS.items(), *axes, strict=True):
    scene = nsq.NSQScene()
    scene.add_source("source", nsq.CoordinateSystem(), config)
    near = nsq.IrradianceDetectorConfig(width=20.0, height=20.0, num_pixels_x=80, num_pixels_y=80, absorb=False)
    scene.add_detector("near", nsq.CoordinateSystem(z=5.0), near)
    scene.add_detector("far", nsq.CoordinateSystem(z=10.0), nsq.FarFieldDetectorConfig(num_theta=45, num_phi=72))
    found = scene.trace(example.rays, seed=2).detectors
    found["near"].plot(above)
    above.set_title(name)
    far = found["far"]
    far.plot(below, kind="cartesian")
    below.set_title("")
    flux = far.to_numpy() * far.solid_angle[:, None]
    inside = flux[far.theta < 30.0].sum()
    if name == "Lambertian square":  # sin² of 30 degrees
        example.check("Lambertian flux inside 30°", inside, 0.25, 4.0 * np.sqrt(0.25 * 0.75 / example.rays))
    if name.startswith("point"):  # solid angles of two cones
        share = (1.0 - np.cos(np.radians(30.0))) / (1.0 - np.cos(np.radians(40.0)))
        error = np.sqrt(share * (1.0 - share) / example.rays)
        example.check("flux of the cone inside 30°", inside, share, 4.0 * error)
    if name == "Gaussian beam":
        x2 = (found["near"].irradiance.sum(axis=0) * found["near"].x_coords ** 2).sum() / found["near"].irradiance.sum()
        # of a Gaussian cut off at three sigma, and the width that a bilinear splat adds
        cut = 1.0 - 4.5 * np.exp(-4.5) / (1.0 - np.exp(-4.5))
        example.check("variance of the beam", x2, 9.0 * cut + 0.25**2 / 6.0, 5.0 * 9.0 * np.sqrt(2.0 / example.rays))
example.finish(figure)
