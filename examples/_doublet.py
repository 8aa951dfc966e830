"""The catalogue lens of the main example: its prescription, its paraxial optics and its figure."""

from pathlib import Path

import matplotlib
import numpy as np

import nsq

LINES = {"F": 0.4861, "d": 0.5876, "C": 0.6563}  # um
COLOURS = {"F": "tab:blue", "d": "tab:green", "C": "tab:red"}
THICKNESSES = (4.0, 2.5)
VERTICES = np.cumsum((0.0, *THICKNESSES))
PLANE = VERTICES[-1] + 97.146  # where the catalogue lens has its polychromatic best focus
RADII = {"catalogue": (62.8, -45.7, -128.2), "spoiled": (75.0, -60.0, -200.0)}
SEMI_DIAMETER = 12.7
BEAM_RADIUS = 10.0
CROWN = nsq.NSQMaterial.from_glass("N-BK7")
FLINT = nsq.NSQMaterial.from_glass("SF5", supplier="schott")

# what stays as it is
PRESCRIPTION = dict(
    material1=CROWN, material2=FLINT, thickness1=THICKNESSES[0], thickness2=THICKNESSES[1],
    aperture_radius=SEMI_DIAMETER,
)  # fmt: skip


def indices(wavelength):
    return (1.0, float(CROWN.n(wavelength)), float(FLINT.n(wavelength)), 1.0)


def focal_length(curvatures):
    """Paraxial EFL in the d line, mm."""
    y, nu, media = 1.0, 0.0, indices(LINES["d"])
    for i, c in enumerate(curvatures.tolist()):
        nu -= y * (media[i + 1] - media[i]) * c
        if i < 2:
            y += THICKNESSES[i] * nu / media[i + 1]
    return -1.0 / nu


def report(designs, table, gradient):
    """Print radii, RMS spot and focal length of each design, then the gradient beside central differences."""
    print(f"{'design':10} {'R1':>9} {'R2':>9} {'R3':>9} {'RMS (um)':>10} {'EFL (mm)':>10}")
    for name, curvatures in designs.items():
        radii = " ".join(f"{1.0 / c:9.3f}" for c in curvatures.tolist())
        print(f"{name:10} {radii} {table[name][0]:10.3f} {table[name][1]:10.3f}")
    print("\nd(log RMS)/d(curvature) of the spoiled lens: autograd, central difference, relative difference")
    for i, (exact, difference) in enumerate(gradient):
        print(f"  c{i + 1} {exact:16.8f} {difference:16.8f} {abs(exact / difference - 1.0):10.1e}")


def meridional_rays(curvatures, heights, wavelength):
    """Points (surface, ray, xyz) of a fan of refracted rays from in front of the lens to the focal plane."""
    media = indices(wavelength)
    origin = np.stack([0.0 * heights, heights, np.full_like(heights, -12.0)], axis=1)
    direction = np.tile([0.0, 0.0, 1.0], (len(heights), 1))
    points = [origin]
    for i, c in enumerate(curvatures.tolist()):
        surface = nsq.ConicGeometry(1.0 / c, 0.0, SEMI_DIAMETER)
        t, normal, _, _ = surface.ray_intersect(origin - [0.0, 0.0, VERTICES[i]], direction)
        origin = origin + t[:, None] * direction
        ratio, cos_in = media[i] / media[i + 1], -np.sum(direction * normal, axis=1)
        bend = ratio * cos_in - np.sqrt(1.0 - ratio**2 * (1.0 - cos_in**2))
        direction = ratio * direction + bend[:, None] * normal
        points.append(origin)
    points.append(origin + ((PLANE - origin[:, 2]) / direction[:, 2])[:, None] * direction)
    return np.array(points)


def draw_layout(axis, curvatures, title):
    y = np.linspace(-SEMI_DIAMETER, SEMI_DIAMETER, 101)
    faces = []
    for vertex, c in zip(VERTICES, curvatures.tolist(), strict=True):
        faces.append(vertex + c * y**2 / (1.0 + np.sqrt(1.0 - (c * y) ** 2)))
    for front, back, glass in ((faces[0], faces[1], "lightsteelblue"), (faces[1], faces[2], "lightgrey")):
        outline = np.concatenate([front, back[::-1]]), np.concatenate([y, y[::-1]])
        axis.fill(*outline, facecolor=glass, edgecolor="black", lw=0.8)
    path = meridional_rays(curvatures, np.linspace(-BEAM_RADIUS, BEAM_RADIUS, 9), LINES["d"])
    axis.plot(path[:, :, 2], path[:, :, 1], color=COLOURS["d"], lw=0.8)
    axis.axvline(PLANE, color="black", lw=1.2)
    axis.annotate("detector", (PLANE, 11.0), xytext=(-4, 0), textcoords="offset points", ha="right", va="center")
    axis.set(title=title, xlabel="z (mm)", ylabel="y (mm)", xlim=(-12, 108), ylim=(-15, 15), aspect="equal")


def draw_spots(axis, rays, title, limit, airy):
    x, y, wavelengths = (v.detach().numpy() for v in (1e3 * rays.x, 1e3 * rays.y, rays.wavelength))
    for line, wavelength in LINES.items():
        chosen = np.flatnonzero(np.isclose(wavelengths, wavelength))[:600]
        axis.plot(x[chosen], y[chosen], ".", ms=2, color=COLOURS[line], label=f"{line}  {1e3 * wavelength:.1f} nm")
    turn = np.linspace(0.0, 2.0 * np.pi, 200)
    axis.plot(airy * np.cos(turn), airy * np.sin(turn), "k--", lw=0.8, label="Airy disc (d)")
    axis.locator_params(nbins=5)
    axis.set(title=title, xlabel="x (µm)", ylabel="y (µm)", xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")


def save_figure(path, designs, table, history, spots):
    """Layouts before and after, spot diagrams of rays by design, and the RMS of every evaluation."""
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10})
    figure = plt.figure(figsize=(12, 5.7), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(1.0, 1.6))
    for axis, name in zip(above.subplots(1, 2), ("spoiled", "optimised"), strict=True):
        draw_layout(axis, designs[name], f"{name}: EFL {table[name][1]:.2f} mm (rays in the d line)")
    *axes, descent = below.subplots(1, 4)
    airy = 1.22 * LINES["d"] * table["catalogue"][1] / (2.0 * BEAM_RADIUS)
    for axis, name, limit in zip(axes, ("spoiled", "catalogue", "optimised"), (3000.0, 7.0, 7.0), strict=True):
        rms = table[name][0]
        title = f"{name}: RMS {rms:.0f} µm" if rms > 100.0 else f"{name}: RMS {rms:.2f} µm"
        draw_spots(axis, spots[name], title, limit, airy)
    below.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, markerscale=4)
    descent.semilogy(history, "k.-", lw=0.8, ms=4)
    descent.axhline(table["catalogue"][0], color="tab:orange", lw=1, label="catalogue")
    descent.legend()
    descent.set(title="descent: every evaluation", xlabel="evaluation", ylabel="RMS spot (µm)")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
