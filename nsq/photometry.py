"""Light as eyes see it: lumens, lux and candela from watts.

A photometric quantity is ``Km`` times the integral of its radiometric one, weighted by the luminous efficiency V of an
observer: photopic (CIE 1931, cones) or scotopic (CIE 1951, rods). Spectra here are discrete lines, so every integral is
a sum. Wavelengths are in µm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from . import _cie
from .numbers import Number, check_choice, check_number, to_float
from .spectrum import Spectrum

KM_PHOTOPIC = 683.002  # lm/W, the largest luminous efficacy of an observer adapted to daylight
KM_SCOTOPIC = 1700.0  # lm/W, of one adapted to darkness
VISIBLE_BAND_UM = (_cie.FIRST_UM, _cie.LAST_UM)  # V is 0 outside

_OBSERVERS = {"photopic": (KM_PHOTOPIC, _cie.PHOTOPIC), "scotopic": (KM_SCOTOPIC, _cie.SCOTOPIC)}
_LEAST_VISIBLE = 1e-6  # of Km; light below this is not for eyes
_MM2_PER_M2 = 1e6


def _observer(weighting: Any) -> tuple[float, np.ndarray]:
    return _OBSERVERS[check_choice(weighting, "weighting", tuple(_OBSERVERS))]


def _plain(values: Any, name: str) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().numpy()
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} got {values!r}; it takes real numbers")
    return array.astype(np.float64)


def v_lambda(wavelength_um: Any, weighting: str = "photopic") -> Any:
    """Luminous efficiency of an observer, at most 1.

    Args:
        wavelength_um: a number or an array of any shape, µm.
        weighting: "photopic" for CIE 1931 V or "scotopic" for CIE 1951 V'.

    Returns a float for a number and a float64 array of the same shape for an array. The tables have a value every 10 nm
    from 0.38 to 0.78 µm; V is linear between them and 0 outside. Not differentiable. Raises TypeError for what is no
    number, ValueError for an unknown weighting.
    """
    _, table = _observer(weighting)
    wavelengths = _plain(wavelength_um, "wavelength_um")
    grid = np.linspace(*VISIBLE_BAND_UM, len(table))
    values = np.interp(wavelengths, grid, table, left=0.0, right=0.0)
    return float(values) if wavelengths.ndim == 0 else values


def luminous_efficacy_of_spectrum(wavelengths_um: Any, weights: Any, weighting: str = "photopic") -> float:
    """Luminous efficacy of radiation in lm/W of lines at ``wavelengths_um`` (W,) of relative powers ``weights`` (W,).

    ``Km sum(w V) / sum(w)``, detached. Raises TypeError for what is no number, ValueError for shapes that differ, for a
    weight that is negative or not finite, for weights that sum to 0 and for an unknown weighting.
    """
    km, _ = _observer(weighting)
    lines, powers = _plain(wavelengths_um, "wavelengths_um"), _plain(weights, "weights")
    if lines.shape != powers.shape:
        raise ValueError(
            f"wavelengths_um and weights got shapes {lines.shape} and {powers.shape}; they take the same shape (W,)"
        )
    total = powers.sum()
    if np.any(powers < 0.0) or not np.isfinite(total) or not total > 0.0:
        raise ValueError(f"weights got numbers that sum to {total:g}; they take finite numbers >= 0 with a sum > 0")
    return float(km * np.sum(powers * v_lambda(lines, weighting)) / total)


def lumens_to_watts(lumens: Number, spectrum: Spectrum, weighting: str = "photopic") -> Any:
    """Radiant flux in W of a ``spectrum`` whose luminous flux is ``lumens`` >= 0.

    A float, or a 0-d tensor attached to ``lumens`` where that is one. Raises TypeError for what is no number or no
    Spectrum, and ValueError for an unknown weighting or a spectrum of less than a millionth of the largest efficacy.
    """
    km, _ = _observer(weighting)
    check_number(lumens, "lumens", nonnegative=True)
    if not isinstance(spectrum, Spectrum):
        raise TypeError(f"spectrum got {spectrum!r} of type {type(spectrum).__name__}; it takes a Spectrum")
    efficacy = luminous_efficacy_of_spectrum(spectrum.wavelengths, spectrum.weights, weighting)
    if efficacy < _LEAST_VISIBLE * km:
        raise ValueError(
            f"spectrum got {_extent(spectrum.wavelengths)}, which has negligible overlap with the {weighting} band"
            f" ({VISIBLE_BAND_UM[0]:g} to {VISIBLE_BAND_UM[1]:g} µm); give the flux in W instead"
        )
    return lumens / efficacy if isinstance(lumens, torch.Tensor) else float(lumens) / efficacy


def _extent(wavelengths: np.ndarray) -> str:
    low, high = float(np.min(wavelengths)), float(np.max(wavelengths))
    return f"{low:g} µm" if low == high else f"{low:g} to {high:g} µm"


@dataclass(eq=False)
class PhotometricMap:
    """A photometric quantity over a grid.

    Attributes:
        data: (ny, nx) float64 array: illuminance in lux, or luminous intensity (n_theta, n_phi) in cd.
        x_coords, y_coords: (nx,) and (ny,) arrays: pixel centres in mm, or phi and theta in degrees.
        total: luminous flux of the whole result, lm.
        quantity: "illuminance" or "luminous_intensity". weighting: "photopic" or "scotopic".
    """

    data: np.ndarray
    x_coords: np.ndarray
    y_coords: np.ndarray
    total: float
    quantity: str
    weighting: str

    def plot(self, ax: Any = None, profiles: bool | None = None, **kwargs: Any) -> Any:
        """Draw the map on ``ax``, or on a new figure, and return its axes. ``kwargs`` go to ``imshow``.

        ``profiles`` adds cuts through the middle; None adds them to a new figure only.
        """
        from .plotting.results import draw_map

        unit, *labels = _AXES[self.quantity]
        unit = unit if self.weighting == "photopic" else f"{unit} (scotopic)"
        extent = (*_ends(self.x_coords), *_ends(self.y_coords))
        if self.quantity != "illuminance":  # directions, not places: no scale to keep, and no middle to cut through
            profiles, kwargs = bool(profiles), {"aspect": "auto", **kwargs}
        title = f"{self.total:.4g} lm"
        return draw_map(ax, self.data, extent, unit, title, labels=tuple(labels), profiles=profiles, **kwargs)


_AXES = {"illuminance": ("lx", "x (mm)", "y (mm)"), "luminous_intensity": ("cd", "phi (°)", "theta (°)")}


def _ends(centres: np.ndarray) -> tuple[float, float]:
    """The outer edges of cells with these centres."""
    half = 0.5 * (centres[1] - centres[0]) if len(centres) > 1 else 0.5
    return float(centres[0] - half), float(centres[-1] + half)


@dataclass(frozen=True)
class PhotometricScalar:
    """One photometric number: ``float()`` gives ``value``, in ``unit``."""

    value: float
    unit: str
    quantity: str
    weighting: str

    def __float__(self) -> float:
        return self.value


def to_photometric(
    result: Any,
    quantity: str = "illuminance",
    weighting: str = "photopic",
    wavelength_um: float | None = None,
) -> PhotometricMap | PhotometricScalar:
    """The result of a detector in photometric units.

    Args:
        result: an irradiance map, a spectral result, a far-field pattern or a ray database.
        quantity: "illuminance" for a map in lux, "luminous_intensity" for a far field in cd, or "luminous_flux" for a
            number in lm.
        weighting: "photopic" or "scotopic".
        wavelength_um: the wavelength of the light, µm, where the result does not tell it; ignored where it does.

    Returns a `PhotometricMap` or a `PhotometricScalar`, detached. The lines of a spectral result are summed, each at
    its bin's centre ``result.wavelengths``; the rays of a database are taken one by one.

    Raises TypeError for an unknown quantity and for a result that does not have it; ValueError for an unknown
    weighting, for a result without wavelengths where ``wavelength_um`` is None, and for light with negligible overlap
    with the visible band.
    """
    if quantity not in _QUANTITIES:
        raise TypeError(f"quantity got {quantity!r}; it takes one of {sorted(_QUANTITIES)}")
    km, _ = _observer(weighting)
    field, (across, up) = _QUANTITIES[quantity]
    if not hasattr(result, field) or not hasattr(result, "total_flux"):
        raise TypeError(f"result got {type(result).__name__}, which has no {field}; {quantity!r} takes one that has")
    total, spread = _luminous(result, km, weighting, wavelength_um)
    if quantity == "luminous_flux":
        return PhotometricScalar(total, "lm", quantity, weighting)
    values = _plain(getattr(result, field), field)
    scale = _MM2_PER_M2 if quantity == "illuminance" else 1.0
    data = values @ spread if values.ndim == 3 else values * spread
    coords = (_plain(getattr(result, name), name) for name in (across, up))
    return PhotometricMap(data * scale, *coords, total, quantity, weighting)


# quantity -> what a result must have for it, and the names of its coordinates
_QUANTITIES: dict[str, tuple[str, tuple[str, str]]] = {
    "illuminance": ("irradiance", ("x_coords", "y_coords")),
    "luminous_intensity": ("intensity", ("phi", "theta")),
    "luminous_flux": ("total_flux", ("", "")),
}


def _luminous(result: Any, km: float, weighting: str, wavelength_um: float | None) -> tuple[float, Any]:
    """Luminous flux in lm, and lm/W: one number, or one a bin where the result has bins."""
    watts = to_float(result.total_flux)
    if hasattr(result, "wavelengths"):  # a value in each bin
        lines = _plain(result.wavelengths, "wavelengths")
        spread = km * v_lambda(lines, weighting)
        _check_visible(lines, spread, km, weighting)
        powers = _plain(result.irradiance, "irradiance").sum(axis=(0, 1))
        dark = not powers.sum() > 0.0
        return (0.0 if dark else watts * float(np.sum(powers * spread) / np.sum(powers))), spread
    if hasattr(result, "wavelength"):  # a value for each ray
        lines, powers = _plain(result.wavelength, "wavelength"), _plain(result.flux, "flux")
        spread = km * v_lambda(lines, weighting)
        if len(lines):
            _check_visible(lines, spread, km, weighting)
        kept = powers.sum()
        return (watts * float(np.sum(powers * spread) / kept) if kept > 0.0 else 0.0), spread
    if wavelength_um is None:
        raise ValueError(
            f"wavelength_um got None; it takes the wavelength in µm that {type(result).__name__} does not hold"
        )
    check_number(wavelength_um, "wavelength_um", positive=True)
    line = np.array([to_float(wavelength_um)])
    spread = km * v_lambda(line, weighting)
    _check_visible(line, spread, km, weighting)
    return watts * float(spread[0]), float(spread[0])


def _check_visible(lines: np.ndarray, spread: np.ndarray, km: float, weighting: str) -> None:
    if np.max(spread) < _LEAST_VISIBLE * km:
        raise ValueError(
            f"wavelengths got {_extent(lines)}, which has negligible overlap with the {weighting} band"
            f" ({VISIBLE_BAND_UM[0]:g} to {VISIBLE_BAND_UM[1]:g} µm)"
        )
