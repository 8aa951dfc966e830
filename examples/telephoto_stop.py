"""The stop of a telephoto
=======================

Its radius for a wanted flux, from the gradient of visibility.
"""

import numpy as np
import torch
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "telephoto_stop", rays=100_000)
CS = nsq.CoordinateSystem
BEAM, WANTED = 11.0, 0.25  # radius of the beam, mm; flux on the film of the beam's 1 W
# two cemented achromats, converging and diverging: radii and thicknesses of their faces, mm, and where they stand
FRONT, REAR, STOP = (32.6, -32.6, -205.0, 7.0, 2.5), (-39.1, 39.1, 246.0, 2.0, 3.5), 28.0
BEHIND = 40.0
LINE = nsq.Spectrum.monochromatic(0.5876)
INDEX = [float(nsq.Material(name).n(0.5876)) for name in ("N-BK7", "N-SF2")]


def paraxial():
    """Height at the stop of a ray that enters at height 1, the focal length and the back focus in mm, and T."""
    height, angle, there, passed = 1.0, 0.0, None, 1.0
    for place, (*radii, first, second), gap in ((0.0, FRONT, BEHIND), (BEHIND, REAR, None)):
        n = (1.0, *INDEX, 1.0)
        for k, length in enumerate((first, second, None)):
            angle = (n[k] * angle - height * (n[k + 1] - n[k]) / radii[k]) / n[k + 1]
            passed *= 1.0 - ((n[k + 1] - n[k]) / (n[k + 1] + n[k])) ** 2
            height += angle * (length or 0.0)
        if gap is not None:
            there = height + angle * (STOP - first - second)
            height += angle * (gap - place - first - second)
    return there, -1.0 / angle, -height / angle, passed


at_stop, focal_length, back_focus, passed = paraxial()
FILM = BEHIND + sum(REAR[3:]) + back_focus


def build(radius):
    scene = nsq.NSQScene()
    scene.add_source("beam", CS(z=-12.0), nsq.CollimatedSourceConfig(LINE, aperture_radius=BEAM))
    for name, z, numbers, clear in (("front", 0.0, FRONT, 12.0), ("rear", BEHIND, REAR, 9.0)):
        scene.add_doublet(name, CS(z=z), nsq.DoubletConfig(*numbers, "N-BK7", "N-SF2", clear))
    scene.add_component("stop", nsq.AbsorbingComponent(CS(z=STOP), nsq.AnnularPlaneGeometry(radius, 12.0)))
    scene.add_detector("film", CS(z=FILM), nsq.IrradianceDetectorConfig(8.0, 8.0, 32, 32))
    scene.sampling_policy = nsq.SamplingPolicy(sampler=nsq.Sobol())
    return scene


def flux_of(radius, seed, **options):
    return build(radius).trace(example.rays, seed=seed, **options).detectors["film"].total_flux


def newton(start):
    """Radii, fluxes and slopes on the way to the wanted flux; the last is where it came to rest."""
    radius, path = torch.tensor(start, dtype=torch.float64, requires_grad=True), []
    for step in range(6):
        flux = flux_of(radius, step)
        (slope,) = torch.autograd.grad(flux, radius)
        path.append((radius.item(), flux.item(), slope.item()))
        with torch.no_grad():
            radius += torch.clamp((WANTED - flux) / slope, -1.0, 1.0)
    return radius.item(), path


# the answer without gradients: flux at many radii, at the random numbers of another seed. It goes with the area
radii = np.linspace(1.0, 5.5, 19)
scan = np.array([float(flux_of(r, 77, visibility="off")) for r in radii])
wanted = np.interp(np.sqrt(WANTED), np.sqrt(scan), radii)
slopes = np.gradient(scan, radii)
opened, closed = newton(1.5), newton(5.2)
error = 0.02 / np.sqrt(example.rays / 1e5)
for what, (found, path) in (("opened", opened), ("closed", closed)):
    example.check(f"radius of the stop when {what} (mm)", found, wanted, error)
    example.check(
        "d flux / d radius there (W/mm)",
        path[-1][2],
        np.interp(found, radii, slopes),
        0.01 + 3.0 / np.sqrt(example.rays),
    )
closed_form = at_stop * BEAM * np.sqrt(WANTED / passed)
example.check("the same by paraxial optics (mm)", opened[0], closed_form, 0.02 * closed_form)
example.check("length over focal length", FILM / focal_length, 0.85, 0.1)

figure, (left, right) = plt.subplots(1, 2, figsize=(12.0, 4.4), layout="constrained", width_ratios=(1.5, 1.0))
build(opened[0]).view(ax=left, num_rays=40, title=f"a stop of {opened[0]:.3f} mm in a telephoto", ylim=(-20.0, 20.0))
right.plot(radii, scan, color="0.6", label="scan")
right.axhline(WANTED, color="#009E73", lw=1, ls="--", label="wanted")
for (_, path), color, what in ((opened, "#0072B2", "opened"), (closed, "#D55E00", "closed")):
    for place, (a, flux, slope) in enumerate(path):
        reach = np.array([-0.3, 0.3])
        right.plot(a + reach, flux + slope * reach, color=color, lw=1.0)
        right.plot(a, flux, "o", ms=4, color=color, label=f"{what} by its gradient" if place == 0 else None)
right.set(xlabel="radius of the stop (mm)", ylabel="flux on the film (W)", title="Newton's steps, with their slopes")
right.legend()
example.finish(figure)
