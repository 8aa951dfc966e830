"""Two-bounce ghosts of centred spherical lenses by brute force, in NumPy: what the ghost table is compared with."""

import itertools

import numpy as np


def fresnel(cos_in, n_in, n_out):
    """Reflectance of unpolarised light, and the cosine beyond, by the textbook's two amplitudes."""
    cos_out = np.sqrt(np.maximum(0.0, 1.0 - (n_in / n_out) ** 2 * (1.0 - cos_in**2)))
    s = (n_in * cos_in - n_out * cos_out) / (n_in * cos_in + n_out * cos_out)
    p = (n_out * cos_in - n_in * cos_out) / (n_out * cos_in + n_in * cos_out)
    return 0.5 * (s**2 + p**2), cos_out


def hit(p, d, vertex, radius, aperture):
    """Distance along rays (n, 3) to the cap of a sphere about its vertex, inf where it is missed, and its normal."""
    centre = np.array([0.0, 0.0, vertex + radius])
    q = p - centre
    b = np.sum(q * d, axis=1)
    root = b**2 - np.sum(q * q, axis=1) + radius**2
    t = np.full(len(p), np.inf)
    for sign in (-1.0, 1.0):
        candidate = -b + sign * np.sqrt(np.maximum(root, 0.0))
        place = p + candidate[:, None] * d
        near = np.abs(place[:, 2] - vertex) < abs(radius)
        inside = np.hypot(place[:, 0], place[:, 1]) <= aperture
        t = np.where((root >= 0.0) & (candidate > 1e-9) & near & inside, np.minimum(t, candidate), t)
    return t, (centre - (p + np.where(np.isinf(t), 0.0, t)[:, None] * d)) / radius


def along(sequence, vertices, radii, apertures, media, heights, screen, half_width):
    """Mean flux that reaches the screen by a sequence of (surface, reflects), of 1 W in rays at heights from the axis.

    A ray counts if each surface of the sequence is the nearest it meets. ``screen`` is the plane's z.
    """
    p = np.stack([heights, 0.0 * heights, np.full_like(heights, -50.0)], axis=1)
    d = np.tile([0.0, 0.0, 1.0], (len(heights), 1))
    weight = np.ones(len(heights))
    for surface, reflects in sequence:
        distances = [hit(p, d, *shape)[0] for shape in zip(vertices, radii, apertures, strict=True)]
        t, normal = hit(p, d, vertices[surface], radii[surface], apertures[surface])
        weight = np.where(np.isfinite(t) & (t <= np.min(distances, axis=0)), weight, 0.0)
        p = p + np.where(np.isfinite(t), t, 0.0)[:, None] * d
        cos = np.sum(d * normal, axis=1)
        n_in, n_out = media[surface], media[surface + 1]
        back = cos < 0.0
        n_in, n_out = np.where(back, n_out, n_in), np.where(back, n_in, n_out)
        normal = np.where(back[:, None], -normal, normal)
        share, cos_out = fresnel(np.abs(cos), n_in, n_out)
        if reflects:
            weight, d = weight * share, d - 2.0 * np.abs(cos)[:, None] * normal
        else:
            weight = weight * (1.0 - share)
            eta = n_in / n_out
            d = eta[:, None] * d + (cos_out - eta * np.abs(cos))[:, None] * normal
    end = p + ((screen - p[:, 2]) / d[:, 2])[:, None] * d
    # by symmetry a ray at height r stands for a ring, of which a square screen sees a part
    radius = np.hypot(end[:, 0], end[:, 1])
    seen = np.clip(1.0 - 4.0 / np.pi * np.arccos(np.clip(half_width / np.maximum(radius, half_width), -1, 1)), 0.0, 1.0)
    return float(np.mean(np.where(d[:, 2] > 0.0, weight * seen, 0.0)))


def two_bounces(count):
    """{(where it reflects first, then): sequence of (surface, reflects)} of every two-bounce ghost."""
    out = {}
    for first, second in itertools.permutations(range(count), 2):
        if second < first:
            there = [(k, False) for k in range(first)] + [(first, True)]
            back = [(k, False) for k in range(first - 1, second, -1)] + [(second, True)]
            out[first, second] = there + back + [(k, False) for k in range(second + 1, count)]
    return out
