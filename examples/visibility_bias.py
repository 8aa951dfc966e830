"""The bias of a visibility gradient
=================================

How the bias of a visibility gradient falls with the width of the band that samples it.

A Gaussian beam of standard deviation s passes a stop of radius a. The flux behind it, and its derivative
dF/da = 2 pi a E(a), are known. A band of half width h smooths E(r) r with the kernel 15/16 (1 - (g/h)^2)^2 / h, whose
second moment is h^2 / 7, so the relative bias is

    h^2 / 14 (r E)'' / (r E) at r = a,

which for E = exp(-r^2 / 2 s^2) is h^2 / 14 (a^2 / s^4 - 3 / s^2). The script prints and plots both. Births come from a
Sobol sequence: with pseudo-random rays the noise would be larger than the bias of the narrow bands.
"""

import argparse
import math
from pathlib import Path

import matplotlib
import numpy as np
import torch

import nsq

STOP, SIGMA, BEAM = 1.2, 1.0, 4.0  # mm
WIDTHS = (0.03125, 0.0625, 0.125, 0.25, 0.5)


def gradient(width, num_rays, seed):
    """dF/da of the stop at a width of the band, W/mm."""
    radius = torch.tensor(STOP, dtype=torch.float64, requires_grad=True)
    scene = nsq.NSQScene()
    scene.sampling_policy = nsq.SamplingPolicy(sampler=nsq.Sobol())
    beam = nsq.CollimatedSourceConfig(
        spectrum=nsq.Spectrum.monochromatic(0.55), aperture_radius=BEAM, profile="gaussian", gaussian_sigma=SIGMA
    )
    scene.add_source("beam", nsq.CoordinateSystem(z=-10.0), beam)
    stop = nsq.AbsorbingComponent(nsq.CoordinateSystem(), nsq.AnnularPlaneGeometry(radius, 9.0))
    scene.add_component("stop", stop)
    scene.add_detector("behind", nsq.CoordinateSystem(z=10.0), nsq.IrradianceDetectorConfig(10.0, 10.0))
    flux = scene.trace(num_rays, seed=seed, visibility_width=width).detectors["behind"].total_flux
    flux.backward()
    return radius.grad.item()


def exact():
    """The same in closed form, for a Gaussian cut at the beam's radius."""
    inside = 1.0 - math.exp(-(BEAM**2) / (2.0 * SIGMA**2))
    return STOP / SIGMA**2 * math.exp(-(STOP**2) / (2.0 * SIGMA**2)) / inside


def expected(width):
    """Relative bias of second order."""
    return (width * STOP) ** 2 / 14.0 * (STOP**2 / SIGMA**4 - 3.0 / SIGMA**2)


def plot(rows, path):
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    widths, biases, errors = (np.array(column) for column in zip(*rows, strict=True))
    figure, axes = plt.subplots(figsize=(5.5, 4.0), layout="constrained")
    axes.errorbar(widths * STOP, np.abs(biases), yerr=errors, fmt="o", capsize=3, label="measured")
    line = np.geomspace(widths[0], widths[-1])
    axes.plot(line * STOP, [abs(expected(w)) for w in line], label="second order, closed form")
    axes.set(xscale="log", yscale="log", xlabel="half width h of the band (mm)", ylabel="relative bias of dF/da")
    axes.tick_params(axis="x", which="minor", labelbottom=False)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rays", type=int, default=1 << 20, help="rays of each trace (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=8, help="traces of each width (default: %(default)s)")
    parser.add_argument("--out", default="out/visibility_bias.png", help="figure to write (default: %(default)s)")
    options = parser.parse_args()
    rows = []
    print(f"dF/da = {exact():.6f} W/mm\n{'width':>7} {'h (mm)':>7} {'bias (%)':>9} {'std. error':>10} {'expected':>9}")
    for width in WIDTHS:
        found = [gradient(width, options.rays, seed) for seed in range(options.seeds)]
        bias = np.mean(found) / exact() - 1.0
        error = np.std(found, ddof=1) / math.sqrt(len(found)) / exact()
        rows.append((width, bias, error))
        print(f"{width:7.4f} {width * STOP:7.4f} {100 * bias:9.4f} {100 * error:10.4f} {100 * expected(width):9.4f}")
    slope = np.polyfit(np.log(WIDTHS), np.log([abs(bias) for _, bias, _ in rows]), 1)[0]
    print(f"slope of the bias on logarithmic axes: {slope:.2f}")
    path = Path(options.out)
    plot(rows, path)
    print(f"figure: {path}")


if __name__ == "__main__":
    main()
