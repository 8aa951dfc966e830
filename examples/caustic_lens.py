"""A caustic that is a picture
===========================

A lens of triangles, its heights shaped by gradient until it casts letters.
"""

import numpy as np
import torch
from _gallery import Example
from matplotlib import pyplot as plt
from matplotlib.colors import LightSource
from scipy.ndimage import gaussian_filter

import nsq

example = Example(__doc__, "caustic_lens", rays=20_000)
CS = nsq.CoordinateSystem
WHOLE = example.rays >= 20_000
# fewer rays, as tests trace, take fewer steps, wider triangles and letters less sharp
STEPS, RATE, NODES, SHARPEST = (120, 0.5, 65, 0.7) if WHOLE else (30, 1.0, 25, 1.5)
HALF, BEAM, FAR, WAVES = 20.0, 18.0, 100.0, 24  # of the lens; of the beam; of the screen, mm; cosines a direction
PIXELS, SIZE = 40, 40.0  # of the screen, mm
GLASS, REACHES = nsq.NSQMaterial.constant(1.49), 0.92  # of the flux: two faces take 4 % each

x = np.linspace(-HALF, HALF, NODES)
nodes = torch.as_tensor(np.stack(np.meshgrid(x, x), axis=-1))
index = np.arange(NODES**2).reshape(NODES, NODES)
a, b, c, d = (index[s].ravel() for s in (np.s_[:-1, :-1], np.s_[:-1, 1:], np.s_[1:, 1:], np.s_[1:, :-1]))
faces = np.concatenate([np.stack(corners, axis=1) for corners in ((a, b, c), (a, c, d))])
# heights are cosines over the lens, each in the unit in which it gathers light as much as any other
wave = np.arange(WAVES) * np.pi / (2.0 * HALF)
cosines = torch.as_tensor(np.cos(np.outer(x + HALF, wave)))
squared = wave**2 + wave[:, None] ** 2
unit = torch.as_tensor(np.divide(1e-3, squared, out=np.zeros_like(squared), where=squared > 0.0))


def build(unknowns, blur=0.5):
    """A slab that light enters through a flat face and leaves through triangles. ``blur`` in pixels."""
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(nsq.Spectrum.monochromatic(0.55), aperture_radius=BEAM)
    scene.add_source("beam", CS(z=-15.0), beam)
    flat = nsq.FinitePlaneGeometry(2.0 * HALF, 2.0 * HALF)
    scene.add_component("flat", nsq.RefractiveComponent(CS(z=-5.0), flat, nsq.VACUUM, GLASS))
    heights = cosines @ (unit * unknowns) @ cosines.T
    shape = nsq.MeshGeometry((torch.cat([nodes, heights[..., None]], dim=2).reshape(-1, 3), faces))
    scene.add_component("lens", nsq.RefractiveComponent(CS(), shape, GLASS, nsq.VACUUM))
    screen = nsq.IrradianceDetectorConfig(SIZE, SIZE, PIXELS, PIXELS, splat="gaussian", splat_sigma=blur)
    scene.add_detector("screen", CS(z=FAR), screen)
    # a ray reflects with a probability that stays, so that none changes its branch from step to step
    scene.sampling_policy = nsq.SamplingPolicy(sampler=nsq.Sobol(), reflect_prob=0.04)
    return scene


def letters():
    """The picture (PIXELS, PIXELS): 1 on the letters, 0 beside them."""
    page = plt.figure(figsize=(1.0, 1.0), dpi=PIXELS)
    page.text(0.5, 0.5, "nsq", ha="center", va="center", fontsize=32, weight="bold", family="DejaVu Sans")
    page.canvas.draw()
    drawn = 1.0 - np.asarray(page.canvas.buffer_rgba())[::-1, :, 0] / 255.0
    plt.close(page)
    return drawn


picture = letters()


def wanted(blur):
    """Flux in each pixel for letters that are blurred by so many pixels, on a faint ground, W."""
    blurred = gaussian_filter(picture, blur) + 0.04
    return torch.as_tensor(REACHES * blurred / blurred.sum())


unknowns = torch.zeros(WAVES, WAVES, dtype=torch.float64, requires_grad=True)
optimiser = torch.optim.Adam([unknowns], lr=RATE, betas=(0.9, 0.99))
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
history = []
for step in range(STEPS):
    # Blurred letters first: light that is far from where it should be has to see where that is.
    blur = max(4.0 * (1.0 - step / (0.6 * STEPS)), SHARPEST)
    optimiser.zero_grad()
    scene = build(unknowns, blur=max(blur**2 - 0.5, 0.25) ** 0.5)
    # The beam comes along z and the heights move along it: no edge moves across the light, and visibility adds nothing.
    screen = scene.trace(example.rays, seed=step, max_depth=3, visibility="off").detectors["screen"]
    goal = wanted(blur)
    loss = ((screen.data.reshape(PIXELS, PIXELS) - goal) ** 2).sum() / (goal**2).sum()
    loss.backward()
    optimiser.step()
    schedule.step()
    history.append(loss.item())

final = unknowns.detach()
goal = wanted(SHARPEST).numpy()
before, after = (
    build(u).trace(50 * example.rays, seed=1000, max_depth=3).detectors["screen"].irradiance
    for u in (0.0 * final, final)
)


def likeness(image):
    return np.corrcoef(image.ravel(), goal.ravel())[0, 1]


example.check("correlation with the letters before", likeness(before), 0.4, 0.2)
example.check("correlation with the letters after", likeness(after), 1.0, 0.05 if WHOLE else 0.2)
example.check("flux on the screen (W)", after.sum() * (SIZE / PIXELS) ** 2, REACHES, 0.03)

figure, axes = plt.subplots(2, 2, figsize=(10.0, 8.4), layout="constrained")
box = (-0.5 * SIZE, 0.5 * SIZE, -0.5 * SIZE, 0.5 * SIZE)
axes[0, 0].imshow(goal, origin="lower", extent=box, cmap="inferno")
axes[0, 0].set(title="wanted", xlabel="x (mm)", ylabel="y (mm)")
shown = axes[0, 1].imshow(1e3 * after, origin="lower", extent=box, cmap="inferno")
figure.colorbar(shown, ax=axes[0, 1], label="mW/mm²")
axes[0, 1].set(title=f"cast, correlation {likeness(after):.3f}", xlabel="x (mm)", ylabel="y (mm)")
surface = (cosines @ (unit * final) @ cosines.T).numpy()
shaded = LightSource(315, 45).shade(surface, plt.cm.gray, vert_exag=20.0, blend_mode="overlay")
axes[1, 0].imshow(shaded, origin="lower", extent=(-HALF, HALF, -HALF, HALF))
axes[1, 0].set(title=f"lens, {np.ptp(surface):.2f} mm between heights", xlabel="x (mm)", ylabel="y (mm)")
build(final).view(ax=axes[1, 1], num_rays=60, title="from the side")
example.finish(figure)
