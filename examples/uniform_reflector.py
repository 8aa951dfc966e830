"""A freeform reflector
====================

A mirror of triangles, shaped by gradient until an LED lights a rectangle evenly.
"""

import numpy as np
import torch
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "uniform_reflector", rays=20_000)
CS = nsq.CoordinateSystem
HALF_X, HALF_Y, FOCUS, SCREEN = 30.0, 18.0, 40.0, -80.0  # of the mirror; LED to mirror; where the screen is, mm
WIDTH, HEIGHT, PIXEL = 100.0, 60.0, 5.0  # of the rectangle, mm
EXTENT, PIXELS = (140.0, 100.0), (28, 20)  # of the screen
# fewer rays, as tests trace, take fewer steps and wider triangles
WHOLE = example.rays >= 20_000
STEPS, RATE = (200, 0.5) if WHOLE else (60, 1.0)
NODES, WAVES = (61, 37) if WHOLE else (31, 19), 16  # of the mesh along x and y; cosines in each direction

# a grid of nodes, and two triangles between each four
x, y = np.linspace(-HALF_X, HALF_X, NODES[0]), np.linspace(-HALF_Y, HALF_Y, NODES[1])
nodes = torch.as_tensor(np.stack(np.meshgrid(x, y), axis=-1))
index = np.arange(nodes.shape[0] * nodes.shape[1]).reshape(nodes.shape[:2])
a, b, c, d = (index[s] for s in (np.s_[:-1, :-1], np.s_[:-1, 1:], np.s_[1:, 1:], np.s_[1:, :-1]))
faces = np.concatenate([np.stack([k.ravel() for k in corners], axis=1) for corners in ((a, b, c), (a, c, d))])
paraboloid = FOCUS - (nodes**2).sum(dim=2) / (4.0 * FOCUS)  # its focus is the LED, at the origin

# heights are cosines over the mirror, each in the unit in which it bends light as much as any other
wave = np.arange(WAVES) * np.pi / 2.0
along_x = torch.as_tensor(np.cos(np.outer(x / HALF_X + 1.0, wave)))
along_y = torch.as_tensor(np.cos(np.outer(wave, y / HALF_Y + 1.0)).T)
squared = (wave / HALF_X) ** 2 + ((wave / HALF_Y) ** 2)[:, None]
unit = torch.as_tensor(np.divide(1e-3, squared, out=np.zeros_like(squared), where=squared > 0.0))


def heights(unknowns):
    return paraboloid + along_y @ (unit * unknowns) @ along_x.T


def build(unknowns):
    scene = nsq.NSQScene()
    led = nsq.PointSourceConfig(nsq.Spectrum.monochromatic(0.55), half_angle_deg=45.0)
    scene.add_source("LED", CS(), led)
    vertices = torch.cat([nodes, heights(unknowns)[..., None]], dim=2).reshape(-1, 3)
    scene.add_component("mirror", nsq.ReflectiveComponent(CS(), nsq.MeshGeometry((vertices, faces)), 1.0))
    screen = nsq.IrradianceDetectorConfig(*EXTENT, *PIXELS, splat="gaussian")
    scene.add_detector("screen", CS(z=SCREEN), screen)
    scene.sampling_policy = nsq.SamplingPolicy(sampler=nsq.Sobol())
    return scene


px, py = (np.abs(np.arange(n) + 0.5 - 0.5 * n) * PIXEL for n in PIXELS)
inside = (px < 0.5 * WIDTH) & (py < 0.5 * HEIGHT)[:, None]
# wanted is a little more than the rectangle, with a soft border
ends = [torch.sigmoid(torch.as_tensor(0.5 * size + 3.0 - p) / 1.5) for p, size in ((px, WIDTH), (py, HEIGHT))]
target = ends[1][:, None] * ends[0]
target = target / target.sum()


def loss_of(unknowns, seed):
    # Seen from the LED the edges of triangles hardly move, and neighbours send light to nearly the same place: what
    # visibility adds here is noise.
    screen = build(unknowns).trace(example.rays, seed=seed, max_depth=4, visibility="off").detectors["screen"]
    data = screen.data.reshape(PIXELS[::-1])
    wanted = target * data.sum().detach()
    return ((data - wanted) ** 2).sum() / (wanted**2).sum()


unknowns = torch.zeros(WAVES, WAVES, dtype=torch.float64, requires_grad=True)
optimiser = torch.optim.Adam([unknowns], lr=RATE, betas=(0.9, 0.99))
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
history = []
for step in range(STEPS):
    optimiser.zero_grad()
    loss = loss_of(unknowns, step)
    loss.backward()
    optimiser.step()
    schedule.step()
    history.append(loss.item())
final = unknowns.detach()


def evenness(unknowns):
    """Least over mean irradiance in the rectangle, the flux in it, and the map; at random numbers of another seed."""
    film = build(unknowns).trace(50 * example.rays, seed=10_000, max_depth=4).detectors["screen"]
    part = film.irradiance[inside]
    return part.min() / part.mean(), part.sum() * PIXEL**2, film.irradiance


(before, had, first), (after, has, last) = evenness(torch.zeros_like(final)), evenness(final)
example.check("min / mean before", before, 0.0, 0.3)
example.check("min / mean after", after, 1.0, 0.2 if WHOLE else 0.6)
example.check("flux in the rectangle, of what it was", has / had, 1.0, 0.25 if WHOLE else 0.4)

figure, axes = plt.subplots(2, 2, figsize=(11.0, 7.2), layout="constrained")
build(final).view(ax=axes[0, 0], num_rays=60, title=f"min / mean from {before:.2f} to {after:.2f}")
moved = (heights(final) - paraboloid).numpy()
shown = axes[0, 1].imshow(moved, origin="lower", extent=(-HALF_X, HALF_X, -HALF_Y, HALF_Y), cmap="viridis")
figure.colorbar(shown, ax=axes[0, 1], label="mm")
axes[0, 1].set(xlabel="x (mm)", ylabel="y (mm)", title="mirror, less the paraboloid")
top = 1e3 * np.percentile(last, 99.5)
for image, ax, title in ((first, axes[1, 0], "paraboloid"), (last, axes[1, 1], "freeform")):
    box = tuple(sign * 0.5 * size for size in EXTENT for sign in (-1.0, 1.0))
    shown = ax.imshow(1e3 * image, origin="lower", extent=box, cmap="inferno", vmin=0.0, vmax=top)
    figure.colorbar(shown, ax=ax, label="mW/mm²", extend="max")
    ax.add_patch(plt.Rectangle((-0.5 * WIDTH, -0.5 * HEIGHT), WIDTH, HEIGHT, fill=False, ec="white", ls="--"))
    ax.set(xlabel="x (mm)", ylabel="y (mm)", title=title)
example.finish(figure)
