"""An aperture by gradient: the radius of a stop that lets a given flux pass, from the gradient of visibility."""

import numpy as np
import torch
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "aperture", rays=100_000)
CS = nsq.CoordinateSystem
SIGMA, BEAM, WANTED = 1.0, 4.0, 0.5  # of a Gaussian beam, where it is cut off, mm; flux behind the stop, W
WHOLE = 1.0 - np.exp(-0.5 * (BEAM / SIGMA) ** 2)


def build(radius):
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(
        spectrum=nsq.Spectrum.monochromatic(0.55), aperture_radius=BEAM, profile="gaussian", gaussian_sigma=SIGMA
    )
    scene.add_source("beam", CS(), beam)
    scene.add_component("stop", nsq.AbsorbingComponent(CS(z=10.0), nsq.AnnularPlaneGeometry(radius, 6.0)))
    scene.add_detector("film", CS(z=20.0), nsq.IrradianceDetectorConfig(12.0, 12.0, 96, 96))
    return scene


def passed(radius):
    """Flux through a stop of this radius, W, and its derivative: E times the length of the rim."""
    flux = (1.0 - np.exp(-0.5 * (radius / SIGMA) ** 2)) / WHOLE
    return flux, radius / SIGMA**2 * np.exp(-0.5 * (radius / SIGMA) ** 2) / WHOLE


radius = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
path = []
for step in range(6):  # Newton's method on the flux, whose derivative is all visibility
    flux = build(radius).trace(example.rays, seed=step, visibility="band").detectors["film"].total_flux
    (slope,) = torch.autograd.grad(flux, radius)
    path.append((radius.item(), flux.item(), slope.item()))
    with torch.no_grad():
        radius += torch.clamp((WANTED - flux) / slope, -0.5, 0.5)

found = radius.item()
wanted = SIGMA * np.sqrt(-2.0 * np.log(1.0 - WANTED * WHOLE))
error = 0.5 / np.sqrt(example.rays) / passed(wanted)[1]
example.check("radius of the stop (mm)", found, wanted, 5.0 * error)
last, _, slope = path[-1]
# rays in a band about the rim say what its derivative is; the band's share of them sets the error
example.check("d flux / d radius there (W/mm)", slope, passed(last)[1], 0.03 + 12.0 / np.sqrt(example.rays))

figure, (left, right) = plt.subplots(1, 2, figsize=(11.0, 4.4), layout="constrained")
build(found).view(ax=left, num_rays=40, title=f"a stop of {found:.3f} mm")
radii = np.linspace(0.0, 3.0, 200)
right.plot(radii, passed(radii)[0], color="0.6", label="closed form")
right.axhline(WANTED, color="#009E73", lw=1, ls="--", label="wanted")
for place, (a, flux, slope) in enumerate(path):
    reach = np.array([-0.25, 0.25])
    label = "gradient of the trace" if place == 0 else None
    right.plot(a + reach, flux + slope * reach, color="#D55E00", lw=1.2, label=label)
    right.plot(a, flux, "o", ms=4, color="#0072B2", label="trace" if place == 0 else None)
right.set(xlabel="radius of the stop (mm)", ylabel="flux behind it (W)", title="Newton's steps", xlim=(0.0, 3.0))
right.legend()
example.finish(figure)
