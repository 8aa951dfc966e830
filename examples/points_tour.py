"""Points
======

Nearest neighbours, farthest point samples and moving least squares on a knot.
"""

import numpy as np
import torch
from _gallery import Example
from matplotlib import pyplot as plt

import bvh

example = Example(__doc__, "points_tour", rays=20_000)
rng = np.random.default_rng(0)
count = max(2_000, example.rays)  # here the number of points


def knot(t):
    """A trefoil."""
    return np.stack([np.sin(t) + 2.0 * np.sin(2.0 * t), np.cos(t) - 2.0 * np.cos(2.0 * t), -np.sin(3.0 * t)], axis=1)


turn, around = rng.uniform(0.0, 2.0 * np.pi, (2, count))
ahead = knot(turn + 1e-4) - knot(turn - 1e-4)
ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
side = np.cross(ahead, [0.0, 0.0, 1.0])
side /= np.linalg.norm(side, axis=1, keepdims=True)
up = np.cross(side, ahead)
tube = knot(turn) + 0.45 * (np.cos(around)[:, None] * side + np.sin(around)[:, None] * up)
points = torch.tensor(tube, dtype=torch.float32)

# the neighbours of a point, against all distances
with bvh.BVH(points) as tree:
    indices, squared = tree.knn(points[:200], k=16)
every = ((points[:200, None] - points[None]) ** 2).sum(dim=2)
example.check("neighbours found", (squared - every.sort(dim=1).values[:, :16]).abs().max(), 0.0, 1e-6)

# 300 points as far apart as a greedy choice gets them: no point is farther from them than the last two are apart
sample = bvh.fps(points, 300)
chosen = points[sample.indices if hasattr(sample, "indices") else sample[0]]
gaps = torch.cdist(points, chosen).min(dim=1).values.max()
apart = (torch.cdist(chosen, chosen) + 10.0 * torch.eye(300)).min()
example.check("farthest point from the sample", min(float(gaps), float(apart)), float(gaps), 1e-5)

# a function known at the points, interpolated between them; moving least squares keeps a linear one as it is
queries = points[:2000] + 0.02 * torch.randn(2000, 3, generator=torch.Generator().manual_seed(1))
slope = torch.tensor([0.3, -0.2, 0.5])
linear = bvh.mls_interpolate(points, queries, (points @ slope)[:, None], k=16)
example.check("linear function", (linear[:, 0] - queries @ slope).abs().max(), 0.0, 2e-3)
waves = bvh.mls_interpolate(chosen, points, torch.sin(3.0 * chosen[:, :1]), k=16)[:, 0]

figure, axes = plt.subplots(1, 3, figsize=(13.0, 4.6), layout="constrained")
cloud = {"s": 1.0, "linewidths": 0.0, "rasterized": True}
axes[0].scatter(*tube[:, :2].T, c="0.8", **cloud)
for query, color in ((0, "#D55E00"), (1, "#0072B2"), (2, "#009E73")):
    axes[0].scatter(*tube[indices[query], :2].T, s=8.0, c=color, linewidths=0.0)
axes[0].set_title("16 nearest neighbours of three points")
axes[1].scatter(*tube[:, :2].T, c="0.85", **cloud)
axes[1].scatter(*chosen[:, :2].T, s=9.0, c="#0072B2", linewidths=0.0)
axes[1].set_title("300 of them, farthest first")
shown = axes[2].scatter(*tube[:, :2].T, c=waves, cmap="viridis", **cloud)
axes[2].set_title("a wave known at the 300, interpolated")
figure.colorbar(shown, ax=axes[2], label="sin(3 x)")
for ax in axes:
    ax.set(aspect="equal", xlabel="x", ylabel="y")
example.finish(figure)
