"""A mirror cut and bent to a picture
==================================

Every corner of its triangles moves by gradient, those on its outline too, until it casts a heart.
"""

import numpy as np
import torch
from _gallery import Example
from matplotlib import pyplot as plt
from scipy.ndimage import gaussian_filter

import nsq

example = Example(__doc__, "mosaic_mirror", rays=10_000)
CS = nsq.CoordinateSystem
WHOLE = example.rays >= 10_000
STEPS, NODES = (60, 13) if WHOLE else (15, 9)
HALF, BEAM, FAR = 8.0, 15.0, 60.0  # of the mirror; of the beam; from mirror to screen, mm
PIXELS, SIZE, BLUR = 30, 30.0, 1.0  # of the screen, mm; of the map while the mirror learns, pixels

x = np.linspace(-HALF, HALF, NODES)
corners = torch.as_tensor(np.stack([*np.meshgrid(x, x), np.zeros((NODES, NODES))], axis=-1).reshape(-1, 3))
index = np.arange(NODES**2).reshape(NODES, NODES)
a, b, c, d = (index[s].ravel() for s in (np.s_[:-1, :-1], np.s_[:-1, 1:], np.s_[1:, 1:], np.s_[1:, :-1]))
faces = np.concatenate([np.stack(three, axis=1) for three in ((a, b, c), (a, c, d))])
unit = torch.tensor([1.0, 1.0, 0.1], dtype=torch.float64)  # a tilt does more than a shift


def build(moved, blur=BLUR):
    """A beam wider than the mirror: what passes beside the mirror is lost."""
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(nsq.Spectrum.monochromatic(0.55), aperture_radius=BEAM)
    scene.add_source("beam", CS(z=-10.0), beam)
    mesh = nsq.MeshGeometry((corners + unit * moved, faces))
    scene.add_component("mirror", nsq.ReflectiveComponent(CS(z=0.5 * FAR), mesh, 1.0))
    screen = nsq.IrradianceDetectorConfig(SIZE, SIZE, PIXELS, PIXELS, splat="gaussian", splat_sigma=blur)
    scene.add_detector("screen", CS(z=-0.5 * FAR), screen)
    scene.sampling_policy = nsq.SamplingPolicy(sampler=nsq.Sobol())
    return scene


# A heart in the irradiance of the beam itself, so larger than the mirror: its outline has to grow.
centre = (np.arange(PIXELS) + 0.5) * SIZE / PIXELS - 0.5 * SIZE
u, v = np.meshgrid(centre / 9.0, (centre + 1.0) / 9.0)
heart = ((u**2 + v**2 - 1.0) ** 3 < u**2 * v**3) / (np.pi * BEAM**2) * (SIZE / PIXELS) ** 2
goal = torch.as_tensor(gaussian_filter(heart, BLUR))


def loss_of(moved, rays, seed, visibility):
    screen = build(moved).trace(rays, seed=seed, max_depth=3, visibility=visibility).detectors["screen"]
    return ((screen.data.reshape(PIXELS, PIXELS) - goal) ** 2).sum() / (goal**2).sum()


def shaped(visibility):
    """Corners that a descent ends with, and the losses on the way."""
    moved = torch.zeros_like(corners).requires_grad_()
    optimiser = torch.optim.Adam([moved], lr=0.15, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    history = []
    for step in range(STEPS):
        optimiser.zero_grad()
        loss = loss_of(moved, example.rays, step, visibility)
        loss.backward()
        optimiser.step()
        schedule.step()
        history.append(loss.item())
    return moved.detach(), history


found, ends = {}, {}
for visibility in ("band", "off"):
    found[visibility] = shaped(visibility)
    ends[visibility] = float(loss_of(found[visibility][0], 20 * example.rays, 1000, "off"))
example.check("squared deviation before", found["band"][1][0], 0.145, 0.05)
example.check("squared deviation after", ends["band"], 0.0, 0.005 if WHOLE else 0.05)
# Without visibility no triangle knows how its share of the beam changes with its corners: light stays beside the heart.
expected, within = (15.0, 10.0) if WHOLE else (2.5, 1.2)
example.check("what is left without visibility, over that", ends["off"] / ends["band"], expected, within)

figure, axes = plt.subplots(1, 4, figsize=(16.0, 4.3), layout="constrained")
box = (-0.5 * SIZE, 0.5 * SIZE, -0.5 * SIZE, 0.5 * SIZE)
top = 1.3e3 * heart.max() / (SIZE / PIXELS) ** 2
titles = {"band": "cast, with gradients of visibility", "off": "cast, without them"}
for ax, (visibility, title) in zip(axes, titles.items(), strict=False):
    moved, history = found[visibility]
    image = build(moved).trace(50 * example.rays, seed=1001, max_depth=3).detectors["screen"].irradiance
    shown = ax.imshow(1e3 * image, origin="lower", extent=box, cmap="inferno", vmin=0.0, vmax=top)
    ax.contour(centre, centre, heart, levels=[0.5 * heart.max()], colors="white", linewidths=0.8, linestyles="--")
    ax.set(title=title, xlabel="x (mm)", ylabel="y (mm)")
    axes[3].semilogy(history, label=f'visibility="{visibility}"')
figure.colorbar(shown, ax=axes[1], label="mW/mm²")
axes[2].triplot(*corners[:, :2].numpy().T, faces, color="0.8", lw=0.8)
axes[2].triplot(*(corners + unit * found["band"][0])[:, :2].numpy().T, faces, color="#0072B2", lw=0.8)
axes[2].set(title="triangles before and after", xlabel="x (mm)", ylabel="y (mm)", aspect="equal")
axes[3].set(title="descent", xlabel="step", ylabel="squared deviation")
axes[3].legend()
example.finish(figure)
