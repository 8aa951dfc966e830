"""A first trace
=============

A beam, a lens and a film, the section of the scene and the light on the film.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "first_trace", rays=200_000)

scene = nsq.NSQScene()
beam = nsq.CollimatedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.5876), total_flux=1.0, aperture_radius=8.0)
scene.add_source("beam", nsq.CoordinateSystem(z=-20.0), beam)
glass = nsq.NSQMaterial.constant(1.5168)
lens = nsq.LensConfig(r1=60.0, r2=-60.0, thickness=6.0, material=glass, front_aperture_radius=12.0)
scene.add_lens("lens", nsq.CoordinateSystem(), lens)
film = nsq.IrradianceDetectorConfig(width=6.0, height=6.0, num_pixels_x=96, num_pixels_y=96)
scene.add_detector("film", nsq.CoordinateSystem(z=50.0), film)
result = scene.trace(example.rays, seed=1)
print(result.report())

# Fresnel at almost normal incidence: what passes both faces, with the light that is reflected inside twice
reflected = ((1.5168 - 1.0) / (1.5168 + 1.0)) ** 2
passed = (1.0 - reflected) / (1.0 + reflected)
spread = 4.0 * np.sqrt(passed * (1.0 - passed) / example.rays)  # four standard errors
# a ghost of the lens is wider than the film, and angles of incidence up to 12 degrees change R a little
example.check("flux on the film", result.detectors["film"].total_flux_float, passed, spread + 0.003)
example.check("conservation error", result.flux_conservation_error, 0.0, 1e-12)

figure, (left, right) = plt.subplots(1, 2, figsize=(12.0, 3.8), layout="constrained", width_ratios=(2.2, 1.0))
scene.view(ax=left, title="the scene")
result.detectors["film"].plot(right)
example.finish(figure)
