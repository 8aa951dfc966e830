"""Scatter
=======

What Lambertian, Gaussian and ABg surfaces do with a beam at 30 degrees, by direction.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "scatter", rays=400_000)
CS = nsq.CoordinateSystem
TILT = np.radians(30.0)
LOBES = {
    "Lambertian, 80 %": nsq.LambertianBSDF(0.8),
    "Gaussian, 5°": nsq.GaussianBSDF(np.sin(np.radians(5.0))),
    "ABg, polished": nsq.ABgBSDF(a=0.01, b=0.001, g=2.0),
}

figure, axes = plt.subplots(1, 3, figsize=(13.0, 4.4), layout="constrained", subplot_kw={"projection": "polar"})
for (name, lobe), ax in zip(LOBES.items(), axes, strict=True):
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.6328), aperture_radius=1.0)
    # from above the plate, 30 degrees off its normal, which is -z here
    start = CS(y=-50.0 * np.sin(TILT), z=-50.0 * np.cos(TILT), rx=-TILT)
    scene.add_source("laser", start, beam)
    plate = nsq.ReflectiveComponent(CS(), nsq.FinitePlaneGeometry(40.0, 40.0), 1.0, bsdf=lobe)
    scene.add_component("plate", plate)
    scene.add_detector("sky", CS(z=-60.0), nsq.FarFieldDetectorConfig(num_theta=60, num_phi=120))
    result = scene.trace(example.rays, seed=4)
    sky = result.detectors["sky"]
    sky.plot(ax)
    ax.set_title(f"{name}: {sky.total_flux_float:.3f} W")
    flux = sky.to_numpy() * sky.solid_angle[:, None]
    if name.startswith("Lambertian"):
        error = np.sqrt(0.25 * 0.75 / example.rays)
        example.check("share inside 30° of the normal", flux[sky.theta < 30.0].sum() / 0.8, 0.25, 5.0 * error)
        example.check("reflected flux (W)", sky.total_flux_float, 0.8, 1e-4)  # some light grazes past
    else:  # the brightest direction is that of a mirror
        theta, azimuth = np.unravel_index(np.argmax(sky.to_numpy()), flux.shape)
        example.check(f"{name}: theta of the lobe (°)", sky.theta[theta], 30.0, 4.0)
        example.check(f"{name}: azimuth of the lobe (°)", sky.phi[azimuth], 90.0, 8.0)
    example.check(f"{name}: conservation error", result.flux_conservation_error, 0.0, 1e-12)
example.finish(figure)
