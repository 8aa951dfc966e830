"""Particles and their neighbours in Warp
======================================

Spread particles evenly over a square by the forces of their nearest neighbours, in Warp with `bvh` and no tensor.

Every step builds a tree, asks for the k nearest neighbours, and lets a ``wp.Tape`` differentiate the energy of those
pairs: its gradient is the force. The search is a constant to the tape, as it should be: who is whose neighbour is a
choice. What comes out is blue noise, as even as points can be without standing in a lattice.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import warp as wp
from matplotlib import pyplot as plt

import bvh.warp

K = 8  # the particle itself and seven neighbours


@wp.kernel
def energy_of_pairs(
    points: wp.array(dtype=wp.vec2), neighbours: wp.array2d(dtype=wp.int64), reach: float, energy: wp.array(dtype=float)
):
    i, j = wp.tid()
    other = neighbours[i, j]
    if other != wp.int64(i):
        nearness = 1.0 - wp.length(points[i] - points[int(other)]) / reach
        if nearness > 0.0:
            wp.atomic_add(energy, 0, reach * reach * nearness * nearness)


@wp.kernel
def move(points: wp.array(dtype=wp.vec2), slope: wp.array(dtype=wp.vec2), rate: float, after: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    p = points[i] - rate * slope[i]
    after[i] = wp.vec2(wp.clamp(p[0], 0.0, 1.0), wp.clamp(p[1], 0.0, 1.0))


def relax(points, reach, steps):
    """The points after some steps down the energy, and the energy before each."""
    history = []
    for _ in range(steps):
        neighbours, _ = bvh.warp.knn(bvh.warp.build(points), points, K)
        energy = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(energy_of_pairs, dim=neighbours.shape, inputs=[points, neighbours, reach], outputs=[energy])
        tape.backward(energy)
        after = wp.zeros_like(points, requires_grad=True)
        wp.launch(move, dim=len(points), inputs=[points, points.grad, 0.1], outputs=[after])
        points = after
        history.append(float(energy.numpy()[0]))
    return points, history


def nearest(points):
    """Distance of every point to its nearest neighbour."""
    _, squared = bvh.warp.knn(bvh.warp.build(points), points, 2)
    return np.sqrt(squared.numpy()[:, 1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=4000, help="particles (default: %(default)s)")
    parser.add_argument("--rays", type=int, default=None, help="no rays here; accepted as every example does")
    parser.add_argument("--out", default="out/warp_particles.png", help="figure to write (default: %(default)s)")
    options = parser.parse_args()
    start = np.random.default_rng(0).random((options.points, 2), dtype=np.float32)
    lattice = np.sqrt(2.0 / (np.sqrt(3.0) * options.points))  # spacing of a hexagonal lattice as dense as this
    before = wp.array(start, dtype=wp.vec2, requires_grad=True)
    after, history = relax(before, 1.2 * float(lattice), steps=100)
    gaps = {"random": nearest(before) / lattice, "relaxed": nearest(after) / lattice}
    print(f"energy {history[0]:.3e} -> {history[-1]:.3e}")
    for name, gap in gaps.items():
        print(f"{name}: nearest neighbour at {gap.mean():.3f} of a lattice's spacing, the closest at {gap.min():.3f}")

    plt.switch_backend("agg")
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for axis, points, title in ((left, before, "random"), (middle, after, "relaxed")):
        axis.plot(*points.numpy().T, "k.", ms=2)
        axis.set(title=title, xlim=(0.3, 0.7), ylim=(0.3, 0.7), xticks=[], yticks=[], aspect="equal")
    right.hist(list(gaps.values()), bins=np.linspace(0.0, 1.2, 49), label=list(gaps), histtype="stepfilled", alpha=0.6)
    right.set(xlabel="distance to the nearest neighbour / spacing of a lattice", ylabel="particles")
    right.legend()
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out, dpi=100)
    return 0 if gaps["relaxed"].min() > 0.5 and gaps["relaxed"].mean() > 0.8 else 1


if __name__ == "__main__" and main():
    sys.exit(1)
