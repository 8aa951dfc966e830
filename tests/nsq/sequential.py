"""A plain sequential ray trace through centred spheres, in NumPy: what the non-sequential trace is compared with."""

import numpy as np

# Schott's Sellmeier coefficients: B1 B2 B3, C1 C2 C3 (um^2)
SELLMEIER = {
    "N-BK7": ((1.03961212, 0.231792344, 1.01046945), (0.00600069867, 0.0200179144, 103.560653)),
    "SF5": ((1.46141885, 0.247713019, 0.949995832), (0.0111826126, 0.0508594669, 112.041888)),
}
LINES = {"F": 0.4861, "d": 0.5876, "C": 0.6563}  # um
RADII = (62.8, -45.7, -128.2)  # the catalogue achromat, mm
THICKNESSES = (4.0, 2.5)
SEMI_DIAMETER = 12.7


def sellmeier(glass, wavelength):
    """Refractive index at a wavelength in um."""
    b, c = SELLMEIER[glass]
    square = wavelength**2
    return np.sqrt(1.0 + sum(bi * square / (square - ci) for bi, ci in zip(b, c, strict=True)))


def indices(wavelength):
    """Media of the achromat from front to back."""
    return (1.0, sellmeier("N-BK7", wavelength), sellmeier("SF5", wavelength), 1.0)


def trace(radii, thicknesses, media, x, y):
    """Rays parallel to the axis at (x, y): positions on the last surface (z from its vertex) and directions, (n, 3)."""
    p = np.stack([x, y, np.full_like(x, -10.0)], axis=1)
    d = np.tile([0.0, 0.0, 1.0], (len(x), 1))
    for i, radius in enumerate(radii):
        centre = np.array([0.0, 0.0, radius])
        q = p - centre
        b = np.sum(q * d, axis=1)
        t = -b - np.sign(radius) * np.sqrt(b**2 - np.sum(q * q, axis=1) + radius**2)
        p = p + t[:, None] * d
        normal = (centre - p) / radius
        ratio = media[i] / media[i + 1]
        cos_in = np.sum(d * normal, axis=1)
        cos_out = np.sqrt(1.0 - ratio**2 * (1.0 - cos_in**2))
        d = ratio * d + (cos_out - ratio * cos_in)[:, None] * normal
        if i < len(thicknesses):
            p[:, 2] -= thicknesses[i]
    return p, d


def disk(radius, rings=60, spokes=24):
    """Points that cover a disk with equal areas."""
    r = radius * np.sqrt((np.arange(rings) + 0.5) / rings)
    r, phi = np.meshgrid(r, 2.0 * np.pi * np.arange(spokes) / spokes)
    return (r * np.cos(phi)).ravel(), (r * np.sin(phi)).ravel()


def spot(p, d, z, weights=None):
    """RMS distance from the centroid in the plane z."""
    xy = p[:, :2] + ((z - p[:, 2]) / d[:, 2])[:, None] * d[:, :2]
    w = np.ones(len(p)) if weights is None else weights
    mean = np.average(xy, axis=0, weights=w)
    return np.sqrt(np.average(np.sum((xy - mean) ** 2, axis=1), weights=w))


def best_focus(p, d, weights=None):
    """(z, RMS) of the smallest spot: the squared spot is a parabola in z, so three planes settle it."""
    z = np.array([90.0, 97.0, 104.0])
    a, b, _ = np.polyfit(z, [spot(p, d, zi, weights) ** 2 for zi in z], 2)
    best = -b / (2.0 * a)
    return best, spot(p, d, best, weights)


def paraxial(radii, thicknesses, media):
    """(back focal length from the last vertex, effective focal length) from the y-u trace."""
    y, nu = 1.0, 0.0
    for i, radius in enumerate(radii):
        nu = nu - y * (media[i + 1] - media[i]) / radius
        if i < len(thicknesses):
            y = y + thicknesses[i] * nu / media[i + 1]
    return -y / nu, -1.0 / nu
