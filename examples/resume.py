"""Resume and distribute
=====================

A trace that is stopped, resumed from its checkpoint, and shared, to the same bits.
"""

import tempfile
from pathlib import Path

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "resume", rays=1_000_000)
CS = nsq.CoordinateSystem

scene = nsq.NSQScene()
beam = nsq.CollimatedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.5876), aperture_radius=8.0)
scene.add_source("beam", CS(z=-20.0), beam)
glass = nsq.NSQMaterial.constant(1.5168)
lens = nsq.LensConfig(r1=50.0, r2=-50.0, thickness=6.0, material=glass, front_aperture_radius=12.0)
scene.add_lens("lens", CS(rx=0.15), lens)
film = nsq.IrradianceDetectorConfig(width=6.0, height=6.0, num_pixels_x=128, num_pixels_y=128)
scene.add_detector("film", CS(z=44.0), film)

whole = scene.trace(example.rays, seed=13)

# Stop after almost no time, which is after the first pieces of work, and go on: again and again, then to the end.
parts = []
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "run.nsq"
    for _ in range(3):
        parts.append(scene.trace(example.rays, seed=13, checkpoint=file, max_seconds=1e-9))
    resumed = scene.trace(example.rays, seed=13, checkpoint=file)

# Sums are integers, so that who adds which rays, and when, changes nothing.
threads = nsq.get_num_threads()
nsq.set_num_threads(1)
alone = scene.trace(example.rays, seed=13, batch_size=4096)
nsq.set_num_threads(threads)
maps = {"resumed": resumed, "one thread": alone}
for name, result in maps.items():
    apart = np.count_nonzero(result.detectors["film"].irradiance != whole.detectors["film"].irradiance)
    example.check(f"pixels of the map that differ, {name}", apart, 0, 0)
done = [part.num_rays_total for part in parts]
example.check("rays of the first part, fewer than all", done[0] < example.rays, 1, 0)
example.check("parts that go on where the last one stopped", np.all(np.diff(done) > 0), 1, 0)
flux, all_flux = (r.detectors["film"].total_flux_float for r in (parts[0], whole))
error = np.sqrt(all_flux * (1.0 - all_flux) / done[0])
example.check("flux after the first part (W)", flux, all_flux, 5.0 * error)

figure, axes = plt.subplots(1, 3, figsize=(13.0, 4.2), layout="constrained")
for result, ax, title in (
    (parts[0], axes[0], f"stopped after {done[0]:,} rays"),
    (parts[2], axes[1], f"resumed twice: {done[2]:,} rays"),
    (resumed, axes[2], f"resumed to the end: {resumed.num_rays_total:,} rays"),
):
    result.detectors["film"].plot(ax)
    ax.set_title(title)
example.finish(figure)
