"""A network that designs lenses
=============================

Trained through the tracer to give the radii for a focal length.
"""

import numpy as np
import torch
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "lens_network", rays=300)
GLASS, INDEX = nsq.NSQMaterial.constant(1.5168), 1.5168
torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).double()


def curvatures(distance):
    """Curvatures of both faces in 1/mm for a film ``distance`` mm behind the lens, as the network has them now."""
    front, back = network((distance.reshape(1, 1) - 90.0) / 30.0)[0]
    return 0.02 * torch.sigmoid(front), -0.02 * torch.sigmoid(back)


def spot(distance, c1, c2, rays, seed=0):
    """Mean squared distance from the axis on the film, mm²."""
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.5876), aperture_radius=5.0)
    scene.add_source("beam", nsq.CoordinateSystem(z=-5.0), beam)
    lens = nsq.LensConfig(r1=1.0 / c1, r2=1.0 / c2, thickness=4.0, material=GLASS, front_aperture_radius=8.0)
    scene.add_lens("lens", nsq.CoordinateSystem(), lens)
    film = nsq.RayDatabaseConfig(width=20.0, height=20.0)
    scene.add_detector("film", nsq.CoordinateSystem(z=4.0 + float(distance)), film)
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.05, rr_start_flux=0.0)
    # the beam is narrower than the lens and its film: no edge is near a ray
    found = scene.trace(rays, max_depth=3, seed=seed, visibility="off").detectors["film"]
    return (found.flux * (found.x**2 + found.y**2)).sum() / found.flux.sum()


optimiser = torch.optim.Adam(network.parameters(), lr=0.03)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.97)
history = []
for step in range(100):
    optimiser.zero_grad()
    distances = 60.0 + 60.0 * torch.rand(4, dtype=torch.float64)
    loss = sum(spot(d, *curvatures(d), example.rays, seed=step) for d in distances) / 4.0
    loss.backward()
    optimiser.step()
    schedule.step()
    history.append(loss.item())


def back_focus(c1, c2):
    """Paraxial distance from the back vertex to the focus, mm."""
    height = 1.0 - 4.0 * c1 * (INDEX - 1.0) / INDEX
    return height / ((INDEX - 1.0) * (c1 - c2 * height))


asked = torch.linspace(65.0, 115.0, 21, dtype=torch.float64)
with torch.no_grad():
    designs = [tuple(float(c) for c in curvatures(d)) for d in asked]
got = np.array([back_focus(*design) for design in designs])
error = np.abs(got / asked.numpy() - 1.0)
# the best film of a lens with spherical aberration lies a little before its paraxial focus
example.check("largest error of the focus", error.max(), 0.0, 0.05)

figure, axes = plt.subplots(1, 3, figsize=(12.0, 3.8), layout="constrained")
axes[0].semilogy(history, color="#0072B2", lw=1)
axes[0].set(xlabel="step", ylabel="mean squared spot radius (mm²)", title="training through the tracer")
axes[1].plot(asked, got, "o", ms=4, color="#D55E00")
axes[1].plot(asked, asked, color="0.6", lw=1, zorder=0)
axes[1].set(xlabel="film asked for (mm)", ylabel="paraxial focus (mm)", title="what the network gives")
for column, color, name in ((0, "#0072B2", "front"), (1, "#009E73", "back")):
    axes[2].plot(asked, [1.0 / design[column] for design in designs], color=color, label=name)
axes[2].set(xlabel="film asked for (mm)", ylabel="radius (mm)", title="radii of the faces")
axes[2].legend()
example.finish(figure)
