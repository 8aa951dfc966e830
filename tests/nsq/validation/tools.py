"""What the validation tests share: rays along a line, media, sphere-shaped readers, and the statistics of counts.

A bound on a random result is always computed from the number of rays; a test says how many standard deviations it
allows. With the seeds fixed it gives the same answer every time.
"""

import numpy as np
from scipy import stats

import nsq

from .. import scenes

CS = nsq.CoordinateSystem
GREEN = scenes.GREEN
WAVELENGTH = 0.55
OFF = nsq.SamplingPolicy(rr_start_flux=0.0)  # no roulette, where min_flux_fraction is 0 too
IDEAL = nsq.SimpleCoating(1.0, 0.0)  # lets everything through
# the chance that a chi-square test fails where nothing is wrong; as far out as four standard deviations of a Gaussian
UNLIKELY = 6e-5


def glass(n, k=0.0):
    return nsq.NSQMaterial.constant(n, k)


def extinction(alpha, wavelength=WAVELENGTH):
    """k of a medium that leaves exp(-alpha t) of the flux after t mm."""
    return alpha * wavelength * 1e-3 / (4.0 * np.pi)


def facing(direction):
    """The angles of a frame whose z axis has this direction."""
    L, M, N = np.asarray(direction, dtype=np.float64) / np.linalg.norm(direction)
    return {"rx": float(-np.arcsin(M)), "ry": float(np.arctan2(L, N))}


def pencil(scene, name, origin, direction, frame=None, **config):
    """A beam of no width from a point in a direction."""
    x, y, z = (float(v) for v in origin)
    cs = CS(x=x, y=y, z=z, **facing(direction), reference_cs=frame)
    beam = {"spectrum": GREEN, "aperture_radius": 1e-14, **config}
    scene.add_source(name, cs, nsq.CollimatedSourceConfig(**beam))


def plane(scene, name, z, front, back, **options):
    """An infinite interface across the z axis."""
    surface = nsq.RefractiveComponent(CS(z=z), nsq.PlaneGeometry(), front, back, **options)
    scene.add_component(name, surface)


def database(scene, name, cs, size=100.0, absorb=True):
    scene.add_detector(name, cs, nsq.RayDatabaseConfig(size, size, absorb=absorb))


def enclose(scene, name, radius):
    """A sphere about the origin that keeps every ray that reaches it from inside."""
    detector = nsq.detectors.RayDatabaseDetector(CS(), nsq.SphereGeometry(radius), name=name)
    scene.detector_registry.add(name, detector)


def columns(rays):
    """Positions (n, 3), directions (n, 3), fluxes (n,) and ids (n,) of a ray database."""
    table = rays.to_numpy()
    position = np.stack([table[c] for c in "xyz"], axis=1)
    return position, np.stack([table[c] for c in "LMN"], axis=1), table["flux"], table["ray_id"]


def near(found, share, num_rays, sigmas=4.0, weight=1.0):
    """Assert that a mean over rays, each worth ``weight`` or nothing, is the share it should be, by its binomial sigma.

    For rays worth anything from 0 to ``weight`` the binomial sigma is an upper bound.
    """
    share, found = share / weight, found / weight
    sigma = np.sqrt(share * (1.0 - share) / num_rays)
    assert abs(found - share) < sigmas * sigma, f"{found} is {(found - share) / sigma:.2f} sigma from {share}"


def agree(samples, expected, sigmas=4.0, within=None):
    """Assert that the mean of independent samples is what it should be, by their own standard error.

    ``within`` asks that the standard error be below this share of what is expected, so that the test can tell.
    """
    error = np.std(samples, ddof=1) / np.sqrt(len(samples))
    z = (np.mean(samples) - expected) / error
    assert abs(z) < sigmas, f"{np.mean(samples)} is {z:.2f} sigma from {expected}"
    if within is not None:
        assert error < within * abs(expected)


def chi_square(counts, expected):
    """Assert that counts follow a distribution; ``expected`` are shares of the whole, cells below 10 counts merged."""
    counts, expected = np.ravel(counts).astype(float), np.ravel(expected) * np.sum(counts)
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    small = np.cumsum(expected) < 10.0
    rest = counts[small].sum(), expected[small].sum()
    counts, expected = counts[~small], expected[~small]
    counts[0], expected[0] = counts[0] + rest[0], expected[0] + rest[1]
    assert len(counts) > 5
    statistic = np.sum((counts - expected) ** 2 / expected)
    chance = stats.chi2.sf(statistic, len(counts) - 1)
    assert chance > UNLIKELY, f"chi-square {statistic:.1f} for {len(counts) - 1} degrees of freedom"


def uniform(values, low=0.0, high=1.0, bins=40):
    """Assert that numbers are spread evenly over a range, none outside."""
    counts, _ = np.histogram(values, bins=bins, range=(low, high))
    assert counts.sum() == len(values)
    chi_square(counts, np.full(bins, 1.0 / bins))


def snell(direction, normal, eta):
    """Refracted unit vectors (n, 3), for ``normal`` along the light and ``eta`` = n1 / n2."""
    d, m = np.atleast_2d(direction), np.atleast_2d(normal)
    cosine = np.sum(d * m, axis=1, keepdims=True)
    inside = 1.0 - eta**2 * (1.0 - cosine**2)
    return eta * d + (np.sqrt(inside) - eta * cosine) * m


def fresnel(cosine, n1, n2):
    """Unpolarised reflectance; 1 beyond the critical angle."""
    cosine = np.asarray(cosine, dtype=np.float64)
    inside = 1.0 - (n1 / n2) ** 2 * (1.0 - cosine**2)
    other = np.sqrt(np.maximum(inside, 0.0))
    s = (n1 * cosine - n2 * other) / (n1 * cosine + n2 * other)
    p = (n2 * cosine - n1 * other) / (n2 * cosine + n1 * other)
    return np.where(inside > 0.0, 0.5 * (s**2 + p**2), 1.0)
