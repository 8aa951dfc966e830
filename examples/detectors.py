"""Detectors
=========

One beam read as a map, by wavelength, by direction and ray by ray.
"""

from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "detectors", rays=300_000)
CS = nsq.CoordinateSystem

scene = nsq.NSQScene()
white = nsq.spectra.led("white_3000K", lines=30)
lamp = nsq.ExtendedSourceConfig(spectrum=white, width=2.0, height=1.0, half_angle_deg=12.0)
scene.add_source("lamp", CS(z=-40.0), lamp)
lens = nsq.LensConfig(r1=30.0, r2=-30.0, thickness=8.0, material="N-BK7", front_aperture_radius=12.0)
scene.add_lens("lens", CS(), lens)
grid = {"width": 16.0, "height": 12.0, "num_pixels_x": 96, "num_pixels_y": 72}
# every detector but the last lets the light pass, so that all of them read the same rays
scene.add_detector("map", CS(z=60.0), nsq.IrradianceDetectorConfig(**grid, absorb=False))
spectral = nsq.SpectralDetectorConfig(**grid, wl_min=0.38, wl_max=0.78, num_bins=40, absorb=False)
scene.add_detector("spectrum", CS(z=60.01), spectral)
scene.add_detector("rays", CS(z=60.02), nsq.RayDatabaseConfig(width=16.0, height=12.0, absorb=False))
scene.add_detector("far", CS(z=60.03), nsq.FarFieldDetectorConfig(num_theta=180, num_phi=72))
result = scene.trace(example.rays, seed=3)
found = result.detectors

figure = plt.figure(figsize=(12.0, 8.0), layout="constrained")
axes = [figure.add_subplot(2, 3, k + 1, projection="polar" if k == 4 else None) for k in range(6)]
found["map"].plot(axes[0])
nsq.to_photometric(found["spectrum"]).plot(axes[1])
found["spectrum"].plot_spectrum(axes[2])
found["rays"].plot(axes[3])
found["far"].plot(axes[4])
found["far"].plot(axes[5], kind="cartesian")
axes[5].set_xlim(-30.0, 30.0)

total = found["map"].total_flux_float
example.check("map summed over pixels (W)", found["map"].irradiance.sum() * found["map"].pixel_area, total, 1e-12)
example.check("spectrum summed over bins (W)", found["spectrum"].spectrum.sum(), total, 1e-3)
example.check("flux of the rays (W)", found["rays"].flux.sum(), total, 1e-3)
rays = found["rays"].to_numpy()
mean = (rays["flux"] * rays["wavelength"]).sum() / rays["flux"].sum()
lines = (white.wavelengths * white.weights).sum() / white.weights.sum()
example.check("mean wavelength (µm)", mean, lines, 5.0 * 0.09 / example.rays**0.5 + 0.001)
example.finish(figure)
