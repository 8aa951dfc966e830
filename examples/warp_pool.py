"""The wave on a pool, in Warp
===========================

Find the first state of a wave on a pool from the light on its floor, in Warp from end to end.

A wave equation in Warp kernels bends the water, which refracts sunlight onto a map on the floor. One ``wp.Tape`` holds
simulation, trace and loss; its backward pass reaches the amplitudes of 3 x 3 standing waves.
"""

import argparse
from pathlib import Path

import numpy as np
import warp as wp
import warp.optim
from matplotlib import pyplot as plt

import nsq

N, SIZE, DEPTH, PIXELS = 33, 1000.0, 800.0, 20  # grid points along a side, mm, mm, pixels along a side of the floor
STEPS, COURANT2 = 20, 0.2  # time steps; (speed x time step / spacing)^2
ORDERS = np.arange(1, 4)
SHAPES = np.cos(np.pi * np.outer(ORDERS, np.arange(N) / (N - 1)))
# heights of 3 x 3 standing waves that bend the surface, and so the light, alike
WAVES = np.einsum("ai,bj,ab->abij", SHAPES, SHAPES, 80.0 / np.add.outer(ORDERS**2, ORDERS**2)).reshape(-1, N, N)
real = wp.float64


@wp.kernel
def first_state(amplitude: wp.array(dtype=float), waves: wp.array3d(dtype=real), height: wp.array2d(dtype=real)):
    k, i, j = wp.tid()
    wp.atomic_add(height, i, j, real(amplitude[k]) * waves[k, i, j])


@wp.kernel
def step(before: wp.array2d(dtype=real), now: wp.array2d(dtype=real), after: wp.array2d(dtype=real)):
    i, j = wp.tid()
    around = now[wp.max(i - 1, 0), j] + now[wp.min(i + 1, N - 1), j]
    around += now[i, wp.max(j - 1, 0)] + now[i, wp.min(j + 1, N - 1)]
    after[i, j] = real(2.0) * now[i, j] - before[i, j] + real(COURANT2) * (around - real(4.0) * now[i, j])


@wp.kernel
def to_vertices(height: wp.array2d(dtype=real), vertices: wp.array(dtype=wp.vec3d)):
    i, j = wp.tid()
    x, y = real(j) / real(N - 1) - real(0.5), real(i) / real(N - 1) - real(0.5)
    vertices[i * N + j] = wp.vec3d(real(SIZE) * x, real(SIZE) * y, -height[i, j])  # z points down


@wp.kernel
def compare(image: wp.array2d(dtype=real), target: wp.array2d(dtype=real), loss: wp.array(dtype=real)):
    i, j = wp.tid()
    difference = real(PIXELS) * (image[i, j] - target[i, j])
    wp.atomic_add(loss, 0, difference * difference)


def pool():
    """The door to sunlight, water and a floor: vertices come from a Warp array, and rays keep to their branches."""
    corner = np.add.outer(N * np.arange(N - 1), np.arange(N - 1)).reshape(-1, 1, 1)
    faces = (corner + np.array([[0, 1, N + 1], [0, N + 1, N]])).reshape(-1, 3)
    side = SIZE * (np.arange(N) / (N - 1) - 0.5)
    surface = nsq.MeshGeometry((np.stack([np.tile(side, N), np.repeat(side, N), np.zeros(N * N)], axis=1), faces))
    scene, water = nsq.NSQScene(), nsq.NSQMaterial.constant(1.333)
    sun = nsq.CollimatedSourceConfig(nsq.Spectrum.monochromatic(0.55), aperture_radius=0.49 * SIZE)
    scene.add_source("sun", nsq.CoordinateSystem(z=-200.0), sun)
    scene.add_component("water", nsq.RefractiveComponent(nsq.CoordinateSystem(), surface, nsq.VACUUM, water))
    floor = nsq.IrradianceDetectorConfig(1.1 * SIZE, 1.1 * SIZE, num_pixels_x=PIXELS, num_pixels_y=PIXELS)
    scene.add_detector("floor", nsq.CoordinateSystem(z=DEPTH), floor)
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.02, rr_start_flux=0.0, sampler=nsq.Sobol())
    return nsq.warp.prepare(scene, {"water": (surface, "vertices")})


def look(door, amplitude, rays, seed):
    """The map on the floor after the last step, and the height field before the first; at rest in the beginning."""
    heights = [wp.zeros((N, N), dtype=real, requires_grad=True) for _ in range(STEPS + 1)]
    wp.launch(first_state, dim=WAVES.shape, inputs=[amplitude, wp.array(WAVES, dtype=real)], outputs=[heights[0]])
    for k in range(STEPS):
        wp.launch(step, dim=(N, N), inputs=[heights[max(k - 1, 0)], heights[k]], outputs=[heights[k + 1]])
    vertices = wp.zeros(N * N, dtype=wp.vec3d, requires_grad=True)
    wp.launch(to_vertices, dim=(N, N), inputs=[heights[-1]], outputs=[vertices])
    return door.trace({"water": vertices}, rays, min_flux_fraction=0.0, seed=seed).maps["floor"], heights[0]


def evaluate(door, values, target, rays):
    amplitude, loss = wp.array(values, dtype=float, requires_grad=True), wp.zeros(1, dtype=real, requires_grad=True)
    with wp.Tape() as tape:
        image, _ = look(door, amplitude, rays, seed=0)
        wp.launch(compare, dim=image.shape, inputs=[image, target], outputs=[loss])
    tape.backward(loss)
    return loss.numpy()[0], amplitude.grad


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rays", type=int, default=20_000, help="rays in each trace (default: %(default)s)")
    parser.add_argument("--out", default="out/warp_pool.png", help="figure to write (default: %(default)s)")
    options = parser.parse_args()
    door, truth = pool(), np.random.default_rng(7).normal(scale=0.8, size=len(WAVES))
    target, height = look(door, wp.array(truth, dtype=float), options.rays, seed=1)
    found = wp.zeros(truth.size, dtype=float)
    optimiser = warp.optim.Adam([found], lr=0.15)
    for _ in range(60):
        optimiser.step([evaluate(door, found.numpy(), target, options.rays)[1]])
    image, recovered = look(door, found, options.rays, seed=0)
    error = np.std(recovered.numpy() - height.numpy()) / np.std(height.numpy())
    print(f"error of the first state: {100.0 * error:.1f} % of its RMS")
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 8.0), layout="constrained")
    titles = "true height", "found height", "true floor", "found floor"
    for axis, title, field in zip(axes.flat, titles, (height, recovered, target, image), strict=True):
        cmap, unit, half = ("cividis", "W a pixel", 0.55) if "floor" in title else ("RdBu", "mm", 0.5)
        axis.set(title=title, xlabel="x (m)", ylabel="y (m)")
        figure.colorbar(axis.imshow(field.numpy(), cmap, origin="lower", extent=[-half, half] * 2), ax=axis, label=unit)
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out, dpi=100)
    return 0 if error < 0.15 else 1


if __name__ == "__main__" and main():
    raise SystemExit(1)
