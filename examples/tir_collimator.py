"""A collimator for an LED
=======================

A lens for the light ahead, total reflection for the light aside.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "tir_collimator", rays=300_000)
CS = nsq.CoordinateSystem
N = 1.49
PMMA, AIR = nsq.NSQMaterial.constant(N), nsq.VACUUM
BORE, FOCUS, FOOT, FACETS = 3.0, 3.2, 4.2, 60  # radius of the bore, LED to lens, radius of the foot, mm; cones
# a hyperboloid that makes the light of its focus parallel inside the plastic
LENS = nsq.ConicGeometry(FOCUS * (N - 1.0), -(N**2), BORE)
DEPTH = FOCUS + LENS.sag(BORE)


def flank():
    """Radius and height of the outer face that sends every ray from the middle of the LED straight ahead."""
    angle = np.linspace(np.pi / 2, np.arctan2(BORE, DEPTH), FACETS + 1)  # of the ray to the axis, in the bore
    inside = np.pi / 2 - np.arcsin(np.sin(np.pi / 2 - angle) / N)  # behind its wall
    r, z = [FOOT], [0.0]
    for before, now, bore in zip(inside, inside[1:], angle[1:], strict=False):
        slope = 0.25 * (before + now)  # a mirror stands halfway between what comes and what goes
        across, along = np.sin(now), np.cos(now)
        right, ahead = r[-1] - BORE, z[-1] - BORE / np.tan(bore)
        step = -(right * along - ahead * across) / (np.sin(slope) * along - np.cos(slope) * across)
        r.append(r[-1] + step * np.sin(slope))
        z.append(z[-1] + step * np.cos(slope))
    return np.array(r), np.array(z)


def detect(scene):
    chip = nsq.ExtendedSourceConfig(spectrum=nsq.Spectrum.monochromatic(0.55), aperture_radius=0.15)
    scene.add_source("LED", CS(z=0.001), chip)
    scene.add_component("board", nsq.AbsorbingComponent(CS(z=-0.01), nsq.FinitePlaneGeometry(aperture_radius=4.3)))
    scene.add_detector("far", CS(z=40.0), nsq.FarFieldDetectorConfig(num_theta=90, num_phi=72))
    return scene.trace(example.rays, seed=12, max_depth=60)


r, z = flank()
scene = nsq.NSQScene()
cones = [nsq.CylindricalFrustumGeometry(r[k], r[k + 1], z[k], z[k + 1]) for k in range(FACETS)]
for name, shape, front, back, height in (
    ("optic.foot", nsq.AnnularPlaneGeometry(BORE, FOOT), AIR, PMMA, 0.0),
    ("optic.bore", nsq.CylindricalFrustumGeometry(BORE, BORE, 0.0, DEPTH), AIR, PMMA, 0.0),
    ("optic.lens", LENS, AIR, PMMA, FOCUS),
    ("optic.top", nsq.FinitePlaneGeometry(aperture_radius=r[-1]), PMMA, AIR, z[-1]),
    *((f"optic.flank{k}", cone, PMMA, AIR, 0.0) for k, cone in enumerate(cones)),
):
    scene.add_component(name, nsq.RefractiveComponent(CS(z=height), shape, front, back))

with_optic, bare = detect(scene).detectors["far"], detect(nsq.NSQScene()).detectors["far"]
inside = {}
for name, far in (("with the optic", with_optic), ("bare", bare)):
    flux = far.to_numpy() * far.solid_angle[:, None]
    inside[name] = np.append(0.0, np.cumsum(flux.sum(axis=1)))
# a Lambertian source has sin² of the angle inside a cone; the optic, all but the losses of its faces
share = np.sin(np.radians(8.0)) ** 2
example.check("bare LED inside 8° (W)", inside["bare"][8], share, 5.0 * np.sqrt(share / example.rays))
example.check("with the optic inside 8° (W)", inside["with the optic"][8], 0.88, 0.06)

figure, axes = plt.subplots(1, 3, figsize=(13.0, 4.4), layout="constrained", width_ratios=(1.3, 1.0, 1.0))
scene.view(ax=axes[0], num_rays=60, xlim=(-3.0, 22.0), ylim=(-12.0, 14.0), title="lens and total reflection")
for name, far, color in (("with the optic", with_optic, "#0072B2"), ("bare", bare, "#D55E00")):
    axes[1].semilogy(far.theta, far.to_numpy().mean(axis=1), color=color, label=name)
    axes[2].plot(far.theta_edges, inside[name], color=color, label=name)
axes[1].set(xlabel="theta (°)", ylabel="intensity (W/sr)", title="intensity", ylim=(1e-3, None))
axes[2].set(xlabel="half angle of a cone (°)", ylabel="flux inside (W)", title="flux", ylim=(0.0, 1.0))
axes[2].legend()
example.finish(figure)
