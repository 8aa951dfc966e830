"""A trap for stray light
======================

Two baffles moved by gradient to where the lines of sight say that they belong.
"""

import numpy as np
import torch
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "baffles", rays=20_000)
CS = nsq.CoordinateSystem
LINE = nsq.Spectrum.monochromatic(0.55)
LENGTH, HALF = 100.0, 5.0  # mm from the entrance to the detector, and its half width
BEAM = 9.0  # radius of the signal's beam, mm
# lit spots (y, z) on the wall of the tube, and the baffle before each (side that it comes from, z)
SPOTS, BAFFLES = ((8.0, 0.0), (-18.0, 50.0)), ((1.0, 30.0), (-1.0, 80.0))
FLUX = 20.0  # of each spot, W, into a cone of 30 degrees about the way to the detector; the signal's is 1 W
START = (6.5, 2.0)  # of the edges, mm from the axis: one too far open, one too far closed


def build(edges, signal=True, stray=True):
    """``edges``: distances from the axis at which the baffles end."""
    scene = nsq.NSQScene()
    if signal:
        scene.add_source("signal", CS(z=-5.0), nsq.CollimatedSourceConfig(LINE, aperture_radius=BEAM))
    for k, (y, z) in enumerate(SPOTS if stray else ()):
        spot = nsq.PointSourceConfig(LINE, total_flux=FLUX, half_angle_deg=30.0)
        scene.add_source(f"spot {k + 1}", CS(y=y, z=z, rx=np.arctan2(y, LENGTH - z)), spot)
    for k, (side, z) in enumerate(BAFFLES):
        plate = nsq.FinitePlaneGeometry(width=60.0, height=20.0)
        middle = side * (edges[k] + 10.0)
        scene.add_component(f"baffle {k + 1}", nsq.AbsorbingComponent(CS(y=middle, z=z), plate))
    scene.add_detector("detector", CS(z=LENGTH), nsq.IrradianceDetectorConfig(2.0 * HALF, 2.0 * HALF, 40, 40))
    return scene


def flux_of(edges, seed, **what):
    return build(edges, **what).trace(example.rays, seed=seed).detectors["detector"].total_flux


# The line of sight: from a spot past an edge to the near side of the detector. Further open, the spot is seen; further
# closed, signal is lost.
sight = []
for (y, z), (side, where) in zip(SPOTS, BAFFLES, strict=True):
    share = (where - z) / (LENGTH - z)
    sight.append((1.0 - share) * side * y - share * HALF)

edges = torch.tensor(START, dtype=torch.float64, requires_grad=True)
optimiser = torch.optim.Adam([edges], lr=0.5, betas=(0.5, 0.9))
schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)
history = []
for step in range(40):
    optimiser.zero_grad()
    got, stray = flux_of(edges, step, stray=False), flux_of(edges, step, signal=False)
    loss = (1.0 - got) + stray
    loss.backward()
    history.append((*edges.tolist(), got.item(), stray.item()))
    optimiser.step()
    schedule.step()

final = edges.detach()
for k, expected in enumerate(sight):
    example.check(f"edge of baffle {k + 1} (mm)", final[k], expected, 0.1)
# the square of the detector, less what the baffles shadow of it
seen = 2.0 * HALF * sum(min(edge, HALF) for edge in sight) / (np.pi * BEAM**2)
example.check("signal (W)", flux_of(final, 99, stray=False), seen, 5.0 * np.sqrt(seen / example.rays))
first = history[0][3]
example.check("stray light, of what it was", flux_of(final, 98, signal=False) / first, 0.0, 0.01)

figure, axes = plt.subplots(1, 3, figsize=(13.5, 4.2), layout="constrained", width_ratios=(1.5, 1.0, 1.0))
scene = build(final)
scene.view(ax=axes[0], num_rays=60, xlim=(-10.0, 110.0), ylim=(-30.0, 30.0), title="the trap that was found")
for (y, z), (side, _) in zip(SPOTS, BAFFLES, strict=True):
    axes[0].plot((z, LENGTH), (y, -side * HALF), ls="--", color="black", lw=1.2)
past = np.array(history)
for k, color in enumerate(("#0072B2", "#D55E00")):
    axes[1].plot(past[:, k], color=color, label=f"edge of baffle {k + 1}")
    axes[1].axhline(sight[k], color=color, lw=1, ls="--")
axes[1].set(xlabel="step", ylabel="mm from the axis", title="edges, and their lines of sight")
axes[1].legend()
axes[2].plot(past[:, 2], color="#0072B2", label="signal")
axes[2].plot(past[:, 3], color="#D55E00", label="stray light")
axes[2].set(xlabel="step", ylabel="flux on the detector (W)", title="what arrives")
axes[2].legend()
example.finish(figure)
