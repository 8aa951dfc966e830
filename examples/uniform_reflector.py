"""A reflector for an even field
=============================

An aspheric mirror shaped by gradient, from a Gaussian beam to a flat disk.
"""

import numpy as np
import torch
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "uniform_reflector", rays=16_000)
SIGMA, BEAM, DISK, DISTANCE = 4.0, 10.0, 24.0, 120.0  # mm
PIXELS, WIDTH = 24, 60.0
POWERS = (4, 6, 8)


def build(unknowns):
    """A Gaussian beam along +z, the mirror, and a film between them that looks at the mirror only."""
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(
        spectrum=nsq.Spectrum.monochromatic(0.55), aperture_radius=BEAM, profile="gaussian", gaussian_sigma=SIGMA
    )
    scene.add_source("beam", nsq.CoordinateSystem(), beam)
    # unknowns are heights at the rim of the beam in mm: of the parabola and of the higher powers
    radius = BEAM**2 / (2.0 * unknowns[0])
    terms = {power: unknowns[k] / BEAM**power for k, power in enumerate(POWERS, start=1)}
    mirror = nsq.AsphereGeometry(radius, -1.0, 1.2 * BEAM, terms)
    scene.add_component("mirror", nsq.ReflectiveComponent(nsq.CoordinateSystem(z=40.0), mirror, 1.0))
    film = nsq.IrradianceDetectorConfig(width=WIDTH, height=WIDTH, num_pixels_x=PIXELS, num_pixels_y=PIXELS)
    scene.add_detector("film", nsq.CoordinateSystem(z=40.0 - DISTANCE), film)
    scene.sampling_policy = nsq.SamplingPolicy(sampler=nsq.Sobol())
    return scene


side = (np.arange(PIXELS) + 0.5) * WIDTH / PIXELS - 0.5 * WIDTH
distance = torch.tensor(np.hypot(*np.meshgrid(side, side)))
target = torch.sigmoid((DISK - distance) / 1.0)
target = target / target.sum()


def loss_of(unknowns, rays, seed=0):
    film = build(unknowns).trace(rays, seed=seed).detectors["film"]
    return ((film.data.reshape(PIXELS, PIXELS) - target) ** 2).sum() / (target**2).sum()


start = torch.tensor([-0.7, 0.0, 0.0, 0.0], dtype=torch.float64)
unknowns = start.clone().requires_grad_()
optimiser = torch.optim.LBFGS([unknowns], max_iter=25, max_eval=40, line_search_fn="strong_wolfe")
history = []


def closure():
    optimiser.zero_grad()
    loss = loss_of(unknowns, example.rays)
    loss.backward()
    history.append(loss.item())
    return loss


optimiser.step(closure)
final = unknowns.detach()


def unevenness(unknowns):
    """Deviation of the irradiance inside three quarters of the disk, relative to its mean."""
    film = build(unknowns).trace(16 * example.rays, seed=1).detectors["film"]
    inner = film.irradiance[distance.numpy() < 0.75 * DISK]
    return inner.std() / inner.mean(), film


(before, first), (after, last) = unevenness(start), unevenness(final)
example.check("unevenness before", before, 0.6, 0.3)
example.check("unevenness after", after, 0.0, 0.10)
# the derivative with respect to the parabola against a central difference at the same numbers
at = start.clone().requires_grad_()
(gradient,) = torch.autograd.grad(loss_of(at, example.rays), at)
step = torch.tensor([1e-5, 0.0, 0.0, 0.0], dtype=torch.float64)
difference = (loss_of(start + step, example.rays) - loss_of(start - step, example.rays)).item() / 2e-5
example.check("d loss / d height (1/mm)", gradient[0], difference, 0.03 * abs(difference))

figure, axes = plt.subplots(2, 2, figsize=(10.0, 8.0), layout="constrained")
build(final).view(ax=axes[0, 0], num_rays=30, title="the mirror that was found")
axes[0, 1].semilogy(history, ".-", color="#0072B2")
axes[0, 1].set(xlabel="evaluation", ylabel="squared deviation", title="descent")
for film, ax, title in ((first, axes[1, 0], "before"), (last, axes[1, 1], "after")):
    film.plot(ax)
    ax.set_title(title)
example.finish(figure)
