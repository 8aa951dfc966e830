"""Ghosts of a triplet
===================

Which pairs of faces reflect stray light onto the film, and where it lands.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "ghosts", rays=400_000)
CS = nsq.CoordinateSystem
CROWN, FLINT = nsq.NSQMaterial.constant(1.6204), nsq.NSQMaterial.constant(1.6169)

scene = nsq.NSQScene()
star = nsq.CollimatedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.5876), aperture_radius=7.0)
scene.add_source("star", CS(z=-10.0), star)
for name, z, r1, r2, thickness, glass, radius in (  # a Cooke triplet of 50 mm
    ("L1", 0.0, 22.01, -435.76, 3.26, CROWN, 9.5),
    ("L2", 9.27, -22.21, 20.29, 1.0, FLINT, 6.0),
    ("L3", 15.02, 79.68, -18.40, 2.95, CROWN, 7.5),
):
    lens = nsq.LensConfig(r1=r1, r2=r2, thickness=thickness, material=glass, front_aperture_radius=radius)
    scene.add_lens(name, CS(z=z), lens)
film = nsq.IrradianceDetectorConfig(width=30.0, height=30.0, num_pixels_x=90, num_pixels_y=90)
scene.add_detector("film", CS(z=60.18), film)
scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.15, rr_start_flux=0.0)  # more ghosts, each of less weight
result = scene.trace(example.rays, seed=6, min_flux_fraction=0.0)
ghosts = result.ghosts("film")
print(ghosts)

pairs = [ghost for ghost in ghosts if ghost.order == 2]
# six faces have 15 pairs, and no more; a ghost is weaker than the product of its two reflectances
example.check("pairs of faces that reflect", len({ghost.ghosts for ghost in pairs}), 15, 15 - 8)
index = {"L1": 1.6204, "L2": 1.6169, "L3": 1.6204}
for ghost in pairs[:3]:
    bound = np.prod([((index[face[:2]] - 1.0) / (index[face[:2]] + 1.0)) ** 2 for face in ghost.ghosts])
    spare = 0.35 * bound + 4.0 * ghost.standard_error  # faces are met at angles, where they reflect more
    example.check(f"ghost of {' and '.join(ghost.ghosts)} (W)", min(ghost.flux, bound), ghost.flux, spare)
direct = result.detectors["film"].total_flux_float - ghosts.total_flux
reflected = ((np.array([1.6204, 1.6169, 1.6204]) - 1.0) / (np.array([1.6204, 1.6169, 1.6204]) + 1.0)) ** 2
example.check("direct light (W)", direct, np.prod((1.0 - reflected) ** 2), 0.06)

figure, axes = plt.subplots(2, 2, figsize=(12.0, 8.0), layout="constrained")
scene.view(ax=axes[0, 0], num_rays=40, title="the lens")
found = result.detectors["film"]
image = found.irradiance + 1e-12
peak = image.max()
found.plot(axes[0, 1], norm="log", vmin=None, vmax=None)
axes[0, 1].images[0].set_clim(1e-6 * peak, peak)
axes[0, 1].set_title("the film, six decades")
strongest = pairs[:8][::-1]
names = [" and ".join(ghost.ghosts) for ghost in strongest]
axes[1, 0].barh(names, [g.flux for g in strongest], xerr=[g.standard_error for g in strongest], color="#0072B2")
axes[1, 0].set(xlabel="flux on the film (W)", title="the brightest ghosts")
for ghost, color in zip(pairs[:3], ("#D55E00", "#009E73", "#CC79A7"), strict=False):
    spots = ghost.rays().to_numpy()
    axes[1, 1].plot(spots["x"], spots["y"], ".", ms=2, color=color, label=" and ".join(ghost.ghosts))
axes[1, 1].set(
    xlabel="x (mm)", ylabel="y (mm)", xlim=(-15, 15), ylim=(-15, 15), aspect="equal", title="where they land"
)
axes[1, 1].set_title("where they land")
axes[1, 1].legend(markerscale=5, fontsize=8)
example.finish(figure)
