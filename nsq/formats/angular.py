"""Luminous intensity over directions, as luminaire files hold it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._names import named_arguments
from ..numbers import to_float
from ..photometry import luminous_efficacy_of_spectrum, to_photometric
from ..spectrum import Spectrum
from .rays import as_constants

_MOST_CELLS = 4_000_000


@named_arguments
@dataclass(eq=False)
class AngularDistribution:
    """Luminous intensity in the directions of a sphere about +z.

    Args:
        theta: (n_theta,) angles from +z in degrees, increasing within 0 to 180. In luminaire files it is the vertical
            angle gamma of type C photometry, 0 at nadir, so +z is the way a ceiling luminaire shines.
        phi: (n_phi,) azimuths from +x towards +y in degrees, increasing, from 0 to below 360; the plane angle C. One
            azimuth alone stands for a distribution of revolution.
        intensity: (n_theta, n_phi) in cd, >= 0.
        name: of the luminaire.
        lamp_lumens: luminous flux of its lamps, lm, or None where a file states none.
        input_watts: electrical power, W, or None.

    Between the samples the intensity is linear in theta and in phi, around the full circle; it is 0 beyond their theta.
    Columns become float64 arrays. Raises ValueError for shapes that do not fit, angles that do not increase or leave
    their range, and intensities that are negative or not finite.
    """

    theta: Any
    phi: Any
    intensity: Any
    name: str = ""
    lamp_lumens: float | None = None
    input_watts: float | None = None

    def __post_init__(self) -> None:
        for field in ("theta", "phi", "intensity"):
            values = as_constants(getattr(self, field), field)
            if values.dtype.kind not in "iuf":
                raise TypeError(f"{field} got dtype {values.dtype}; it takes real numbers")
            setattr(self, field, values.astype(np.float64))
        for field, high in (("theta", 180.0), ("phi", 360.0)):
            angles = getattr(self, field)
            if angles.ndim != 1 or angles.size == 0:
                raise ValueError(f"{field} got shape {angles.shape}; it takes (n,) angles")
            if not np.all(np.isfinite(angles)) or np.any(np.diff(angles) <= 0.0):
                raise ValueError(f"{field} got angles that do not increase; it takes increasing ones")
            if angles[0] < 0.0 or angles[-1] > high or (field == "phi" and angles[-1] >= high):
                to = "to below" if field == "phi" else "to"
                raise ValueError(
                    f"{field} got {angles[0]:g} to {angles[-1]:g}; it takes angles from 0 {to} {high:g} deg"
                )
        if self.intensity.shape != (len(self.theta), len(self.phi)):
            shape = (len(self.theta), len(self.phi))
            raise ValueError(f"intensity got shape {self.intensity.shape}; it takes {shape}, theta by phi")
        if not np.all(np.isfinite(self.intensity)) or np.any(self.intensity < 0.0):
            raise ValueError("intensity got a number that is negative or not finite; it takes numbers >= 0, in cd")

    def total_lumens(self) -> float:
        """Luminous flux, lm: the exact integral of the interpolated intensity over the sphere."""
        return float(_theta_weights(self.theta) @ self.intensity @ _phi_weights(self.phi))

    def at(self, theta: Any, phi: Any) -> Any:
        """Intensity in cd in directions ``theta``, ``phi`` in degrees, which broadcast; a float for numbers."""
        t, p = np.broadcast_arrays(np.asarray(theta, dtype=np.float64), np.asarray(phi, dtype=np.float64))
        columns = np.concatenate([self.phi, [self.phi[0] + 360.0]])
        turned = self.phi[0] + (p - self.phi[0]) % 360.0
        column = np.clip(np.searchsorted(columns, turned, side="right") - 1, 0, len(self.phi) - 1)
        share = (turned - columns[column]) / (columns[column + 1] - columns[column])
        if len(self.theta) == 1:
            row, down = np.zeros(t.shape, dtype=np.int64), np.zeros(t.shape)
        else:
            row = np.clip(np.searchsorted(self.theta, t, side="right") - 1, 0, len(self.theta) - 2)
            down = (t - self.theta[row]) / (self.theta[row + 1] - self.theta[row])
        following, below = (column + 1) % len(self.phi), np.minimum(row + 1, len(self.theta) - 1)
        upper = (1.0 - share) * self.intensity[row, column] + share * self.intensity[row, following]
        lower = (1.0 - share) * self.intensity[below, column] + share * self.intensity[below, following]
        inside = (t >= self.theta[0]) & (t <= self.theta[-1])
        values = np.where(inside, (1.0 - down) * upper + down * lower, 0.0)
        return float(values) if values.ndim == 0 else values

    def resampled(self, theta: Any, phi: Any) -> AngularDistribution:
        """The distribution at other angles."""
        theta, phi = np.asarray(theta, dtype=np.float64), np.asarray(phi, dtype=np.float64)
        if theta.size * phi.size > _MOST_CELLS:
            raise ValueError(f"theta and phi got {theta.size} by {phi.size}; they take at most {_MOST_CELLS} in all")
        return self._with(theta, phi, self.at(theta[:, None], phi[None, :]))

    def scaled(self, factor: float) -> AngularDistribution:
        """The distribution with every intensity times ``factor`` >= 0."""
        return self._with(self.theta, self.phi, self.intensity * float(factor))

    def _with(self, theta: Any, phi: Any, intensity: Any) -> AngularDistribution:
        return AngularDistribution(theta, phi, intensity, self.name, self.lamp_lumens, self.input_watts)

    def watts_per_sr(self, spectrum: Spectrum) -> np.ndarray:
        """Radiant intensity (n_theta, n_phi) in W/sr of light of this spectrum, photopic.

        Raises ValueError for a spectrum that nobody sees.
        """
        efficacy = luminous_efficacy_of_spectrum(spectrum.wavelengths, spectrum.weights)
        if not efficacy > 0.0:
            raise ValueError("spectrum has negligible overlap with the visible band")
        return self.intensity / efficacy

    @classmethod
    def from_far_field(cls, pattern: Any, spectrum: Spectrum | float, name: str = "") -> AngularDistribution:
        """The distribution of a far-field pattern of light of a spectrum, or of a wavelength in µm.

        The pattern's rows are bins of theta and its columns bins of phi, in degrees, in W/sr; each bin's value stands
        at its centre, and the first and last rows are continued to the pole and to the outermost edge.
        """
        if not isinstance(spectrum, Spectrum):
            spectrum = Spectrum.monochromatic(to_float(spectrum))
        efficacy = luminous_efficacy_of_spectrum(spectrum.wavelengths, spectrum.weights)
        probe = to_photometric(pattern, "luminous_intensity", wavelength_um=0.55)  # checks what it is
        unit = luminous_efficacy_of_spectrum([0.55], [1.0])
        data = probe.data * (efficacy / unit)
        theta, phi = probe.y_coords, probe.x_coords % 360.0
        order = np.argsort(phi)
        step = theta[1] - theta[0] if len(theta) > 1 else 2.0 * theta[0]
        last = min(theta[-1] + 0.5 * step, 180.0)
        rows = np.concatenate([np.full((1, len(phi)), data[0].mean()), data[:, order], data[-1:, order]])
        return cls(np.concatenate([[0.0], theta, [last]]), phi[order], rows, name)

    def plot(self, ax: Any = None) -> Any:
        """Draw polar curves through C0-C180 and C90-C270 on ``ax``, polar axes, or a new figure; returns the axes."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(subplot_kw={"projection": "polar"})[1]
        ax.set_theta_zero_location("S")
        angles = np.linspace(self.theta[0], self.theta[-1], 361)
        for plane, style in ((0.0, "-"), (90.0, "--")):
            around = np.concatenate([-angles[::-1], angles])
            values = np.concatenate([self.at(angles[::-1], plane + 180.0), self.at(angles, plane)])
            ax.plot(np.radians(around), values, style, label=f"C{plane:.0f}-C{plane + 180:.0f}")
        ax.set_thetagrids(range(0, 360, 45), [f"{min(a, 360 - a)}°" for a in range(0, 360, 45)])
        ax.legend(loc="upper left", bbox_to_anchor=(0.92, 1.08))
        ax.set_title(f"{self.name}  {self.total_lumens():.4g} lm, intensity in cd".strip())
        return ax

    def __repr__(self) -> str:
        n, m = self.intensity.shape
        return f"AngularDistribution({self.name!r}, {n} x {m} directions, {self.total_lumens():.6g} lm)"


def _theta_weights(theta: np.ndarray) -> np.ndarray:
    """Weights (n,) of the integral of f(t) sin(t) dt for f linear between samples at ``theta``, degrees."""
    t = np.radians(theta)
    weights = np.zeros(len(t))
    a, b = t[:-1], t[1:]
    mass = 2.0 * np.sin(0.5 * (a + b)) * np.sin(0.5 * (b - a))  # of sin over (a, b), without cancellation
    # of (t - a) sin(t), by parts: -(b - a) cos(b) + sin(b) - sin(a)
    lever = -(b - a) * np.cos(b) + 2.0 * np.cos(0.5 * (a + b)) * np.sin(0.5 * (b - a))
    right = lever / (b - a)
    weights[1:] += right
    weights[:-1] += mass - right
    return weights


def _phi_weights(phi: np.ndarray) -> np.ndarray:
    """Weights (n,) of the integral over the full circle of a function linear between samples at ``phi``, degrees."""
    if len(phi) == 1:
        return np.array([2.0 * math.pi])
    gaps = np.radians(np.diff(np.concatenate([phi, [phi[0] + 360.0]])))
    return 0.5 * (gaps + np.roll(gaps, 1))


def unfolded(planes: np.ndarray, intensity: np.ndarray, mirrors: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Planes and intensities (n_theta, n) of the full circle from those of a part and the planes it is mirrored at.

    ``mirrors`` holds angles m in degrees: the intensity at 2 m - phi is that at phi.
    """
    columns = {float(p) % 360.0: intensity[:, i] for i, p in enumerate(planes)}
    for mirror in mirrors:
        for plane, column in list(columns.items()):
            columns.setdefault((2.0 * mirror - plane) % 360.0, column)
    order = sorted(columns)
    return np.array(order), np.stack([columns[p] for p in order], axis=1)
