"""Spectra and a prism
===================

Sunlight through flint glass, as a band of colours on a screen.
"""

import numpy as np
from _gallery import Example
from matplotlib import pyplot as plt

import nsq

example = Example(__doc__, "prism", rays=300_000)
CS = nsq.CoordinateSystem
FLINT = nsq.NSQMaterial.from_glass("N-SF11")
APEX, SIDE = np.radians(60.0), 30.0
SUN = nsq.spectra.black_body(5800.0, band=(0.40, 0.70), lines=60)


def deviation(wavelength, incidence):
    """How far a prism turns a ray, from Snell's law at both faces."""
    n = float(FLINT.n(wavelength))
    inside = np.arcsin(np.sin(incidence) / n)
    return incidence + np.arcsin(n * np.sin(APEX - inside)) - APEX


incidence = np.arcsin(float(FLINT.n(0.55)) * np.sin(0.5 * APEX))  # least deviation for green
scene = nsq.NSQScene()
# the beam runs along +z into the prism's left face, whose normal is turned up by the angle of incidence
beam = nsq.CollimatedSourceConfig(spectrum=SUN, aperture_radius=1.0)
scene.add_source("sun", CS(z=-50.0), beam)
height = SIDE * np.cos(0.5 * APEX)
corner = np.array([(-0.5 * SIDE, -height / 2), (0.5 * SIDE, -height / 2), (0.0, height / 2)])  # along z, along y
turn = incidence - 0.5 * APEX
spin = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
z, y = (corner @ spin.T).T
vertices = np.concatenate([np.stack([np.full(3, x), y, z], axis=1) for x in (-10.0, 10.0)])
faces = [(0, 2, 1), (3, 4, 5), (0, 1, 4), (0, 4, 3), (1, 2, 5), (1, 5, 4), (2, 0, 3), (2, 3, 5)]
mesh = nsq.MeshGeometry((vertices, np.array(faces)))
if mesh.volume < 0.0:
    mesh = nsq.MeshGeometry((vertices, np.array(faces)[:, ::-1]))
scene.add_component("prism", nsq.RefractiveComponent(CS(), mesh, FLINT, nsq.VACUUM))
bend = deviation(0.55, incidence)  # downwards, towards the base
screen = CS(y=-120.0 * np.sin(bend), z=120.0 * np.cos(bend), rx=bend)
scene.add_detector("rays", screen, nsq.RayDatabaseConfig(width=40.0, height=40.0, absorb=False))
behind = CS(y=-120.1 * np.sin(bend), z=120.1 * np.cos(bend), rx=bend)
spectral = nsq.SpectralDetectorConfig(
    width=8.0, height=40.0, num_pixels_x=32, num_pixels_y=160, wl_min=0.4, wl_max=0.7, num_bins=30
)
scene.add_detector("screen", behind, spectral)
result = scene.trace(example.rays, seed=5)

rays = result.detectors["rays"].to_numpy()
angle = np.arctan2(-rays["M"], rays["N"])
direct = np.abs(angle - bend) < 0.2
for line in SUN.wavelengths[[5, 30, 55]]:
    own = direct & (rays["wavelength"] == line)
    example.check(f"deviation at {line:.4f} µm (rad)", np.median(angle[own]), deviation(line, incidence), 1e-9)

figure, axes = plt.subplots(1, 3, figsize=(13.0, 4.6), layout="constrained", width_ratios=(1.6, 1.0, 1.0))
scene.view(result=None, ax=axes[0], num_rays=120, color_by="wavelength", title="rays by wavelength")
found = result.detectors["screen"]
axes[1].pcolormesh(found.wavelengths, found.y_coords, found.flux.sum(dim=2).T.numpy(), cmap="cividis", rasterized=True)
axes[1].set(xlabel="wavelength (µm)", ylabel="height on the screen (mm)", title="where each colour lands")
found.plot_spectrum(axes[2])
axes[2].set_title("what arrives")
example.finish(figure)
