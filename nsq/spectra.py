"""Spectra of lamps, LEDs and filters as discrete lines.

One rule turns a continuous density into lines. The band is divided into bins of equal width; every bin that holds power
becomes one line, as strong as the power in the bin, at the bin's mean wavelength, the centroid of that power. So the
total power and the mean wavelength are those of the density, up to the quadrature, and no line lies outside its bin.
The variance comes out smaller by the spread inside the bins: a twelfth of a bin's width squared where the density is
smooth, never more than a quarter. Weights are relative; a source's flux is set by the source.

Wavelengths are in µm. Nothing is differentiable.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from ._files import PathLike, read_bounded
from .numbers import Number, check_choice, check_count, check_number, to_float
from .photometry import VISIBLE_BAND_UM
from .spectrum import Spectrum

_SECOND_RADIATION_UM_K = 14387.76877  # hc/k in µm K, from the exact constants of the SI of 2019
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_MOST_LINES = 10_000
_SMALLEST_SHARE = 1e-12  # of the strongest bin; weaker ones are left out
_LONGEST_FILE = 4 * 1024 * 1024  # bytes
_UNITS = {"um": 1.0, "µm": 1.0, "μm": 1.0, "nm": 1000.0}  # in a µm

# preset -> (centre, full width at half maximum, peak), nm. The whites are a blue pump and a broad phosphor band whose
# chromaticity is that of a black body of their temperature (CIE 1931, to 0.001 in x and y).
LED_PRESETS: dict[str, tuple[tuple[float, float, float], ...]] = {
    "white_3000K": ((450.0, 20.0, 0.63), (594.3, 130.0, 1.0)),
    "white_6500K": ((450.0, 20.0, 2.177), (563.6, 120.0, 1.0)),
    "red": ((630.0, 20.0, 1.0),),
    "green": ((525.0, 35.0, 1.0),),
    "blue": ((460.0, 22.0, 1.0),),
}


def _check_band(band: Any) -> tuple[float, float]:
    if not isinstance(band, tuple | list) or len(band) != 2:
        raise TypeError(f"band got {band!r}; it takes a pair of wavelengths in µm")
    low, high = (to_float(check_number(v, "band", positive=True)) for v in band)
    if not low < high:
        raise ValueError(f"band got {band!r}; it takes a shorter and a longer wavelength, in this order")
    return low, high


def _check_lines(lines: Any) -> int:
    count = check_count(lines, "lines")
    if count > _MOST_LINES:
        raise ValueError(f"lines got {count}; it takes at most {_MOST_LINES}")
    return count


def _as_lines(power: np.ndarray, moment: np.ndarray) -> Spectrum:
    """Lines from the power and the first moment of bins."""
    kept = power > _SMALLEST_SHARE * power.max()
    return Spectrum(moment[kept] / power[kept], power[kept])


def from_density(density: Callable[[np.ndarray], Any], band: tuple[float, float], lines: int = 50) -> Spectrum:
    """Lines of a spectral density, by the rule of this module.

    Args:
        density: relative power per wavelength, >= 0; a callable of an array of wavelengths in µm that gives an array of
            the same shape. It is integrated by 8 Gauss-Legendre points a bin.
        band: shortest and longest wavelength, µm.
        lines: number of bins, at most 10 000.

    Raises TypeError and ValueError naming the argument; ValueError for a density that is negative, not finite or 0 in
    the whole band.
    """
    low, high = _check_band(band)
    count = _check_lines(lines)
    half = 0.5 * (high - low) / count
    centres = low + half * (2.0 * np.arange(count) + 1.0)
    points = centres[:, None] + half * _NODES
    values = np.asarray(density(points), dtype=np.float64)
    if values.shape != points.shape:
        raise ValueError(f"density gave shape {values.shape} for {points.shape}; it takes one value a wavelength")
    if not np.all(np.isfinite(values)) or np.any(values < 0.0):
        raise ValueError("density gave a value that is negative or not finite; it takes values >= 0")
    if not values.any():
        raise ValueError(f"density is 0 from {low:g} to {high:g} µm; it takes a band that holds power")
    values = values / values.max()
    return _as_lines(values @ _WEIGHTS * half, (values * points) @ _WEIGHTS * half)


def lines(wavelengths: Any, weights: Any = None) -> Spectrum:
    """Lines at ``wavelengths`` (W,) in µm with relative powers ``weights`` (W,), equal ones if None."""
    return Spectrum(wavelengths, np.ones(np.shape(wavelengths)) if weights is None else weights)


def _gauss(wavelengths: np.ndarray, center: float, fwhm: float) -> np.ndarray:
    return np.exp(-4.0 * math.log(2.0) * ((wavelengths - center) / fwhm) ** 2)


def gaussian(center: Number, fwhm: Number, lines: int = 25, band: tuple[float, float] | None = None) -> Spectrum:
    """A Gaussian in wavelength.

    Args:
        center: µm. fwhm: full width at half maximum, µm, > 0.
        lines: number of bins over the band.
        band: µm; if None, 1.5 widths to either side, outside of which lies 0.04 % of the power.
    """
    middle = to_float(check_number(center, "center", positive=True))
    width = to_float(check_number(fwhm, "fwhm", positive=True))
    if band is None:
        band = (middle - 1.5 * width, middle + 1.5 * width)
        if band[0] <= 0.0:
            raise ValueError(f"fwhm got {width:g}; it takes less than {middle / 1.5:g} around {middle:g}, or give band")
    return from_density(lambda wl: _gauss(wl, middle, width), band, lines)


def black_body(temperature_K: Number, band: tuple[float, float] = VISIBLE_BAND_UM, lines: int = 40) -> Spectrum:
    """The part of a black body's radiation in ``band`` (µm), by Planck's law; the temperature in K, > 0."""
    temperature = to_float(check_number(temperature_K, "temperature_K", positive=True))
    low, high = _check_band(band)
    peak = min(max(2897.771955 / temperature, low), high)  # Wien's displacement law

    def planck(wl: np.ndarray) -> np.ndarray:
        # relative to the peak, so that neither factor leaves the range of float64 in a cold body's far wing
        x, x0 = _SECOND_RADIATION_UM_K / (wl * temperature), _SECOND_RADIATION_UM_K / (peak * temperature)
        return (peak / wl) ** 5 * np.exp(x0 - x) * -np.expm1(-x0) / -np.expm1(-x)

    return from_density(planck, (low, high), lines)


def led(preset: str, lines: int = 50) -> Spectrum:
    """An LED: "white_3000K" or "white_6500K" (blue pump and phosphor), "red", "green" or "blue".

    Each is a sum of Gaussians with the centres, widths and peaks of ``LED_PRESETS``: typical shapes, not any product's.
    The band reaches 1.5 widths beyond the outermost centres, and for the whites no further than the visible band.
    """
    peaks = LED_PRESETS[check_choice(preset, "preset", tuple(LED_PRESETS))]
    peaks_um = [(center / 1000.0, width / 1000.0, peak) for center, width, peak in peaks]
    low = max(min(c - 1.5 * w for c, w, _ in peaks_um), VISIBLE_BAND_UM[0])
    high = min(max(c + 1.5 * w for c, w, _ in peaks_um), VISIBLE_BAND_UM[1])
    return from_density(lambda wl: sum(p * _gauss(wl, c, w) for c, w, p in peaks_um), (low, high), lines)


def from_table(wavelengths: Any, values: Any, lines: int = 50, band: tuple[float, float] | None = None) -> Spectrum:
    """Lines of a density that is linear between samples and 0 outside them.

    Args:
        wavelengths: (n,) in µm, in any order, no two the same. values: (n,) relative power per wavelength, >= 0.
        lines: number of bins over ``band`` (µm), which is the samples' range if None.

    The integrals over the bins are exact. Raises ValueError for fewer than two samples, repeated wavelengths, negative
    values, and a band without power.
    """
    table = Spectrum(wavelengths, values)  # checks types, shapes, units and signs
    order = np.argsort(table.wavelengths)
    knots, heights = table.wavelengths[order], table.weights[order]
    if len(knots) < 2:
        raise ValueError(f"wavelengths got {len(knots)} sample; a density takes at least 2")
    if np.any(np.diff(knots) == 0.0):
        twice = knots[1:][np.diff(knots) == 0.0][0]
        raise ValueError(f"wavelengths got {twice:g} twice; they take each wavelength once")
    low, high = _check_band((knots[0], knots[-1]) if band is None else band)
    edges = np.linspace(low, high, _check_lines(lines) + 1)
    inner = knots[(knots > low) & (knots < high)]
    grid = np.unique(np.concatenate([edges, inner, [max(low, knots[0]), min(high, knots[-1])]]))
    grid = grid[(grid >= low) & (grid <= high)]
    a, b = grid[:-1], grid[1:]
    middle = 0.5 * (a + b)
    inside = (middle >= knots[0]) & (middle <= knots[-1])
    fa, fb = (np.where(inside, np.interp(points, knots, heights), 0.0) for points in (a, b))
    power = 0.5 * (fa + fb) * (b - a)
    moment = power * middle + (fb - fa) * (b - a) ** 2 / 12.0
    place = np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, len(edges) - 2)
    sums = [np.bincount(place, weights=w, minlength=len(edges) - 1) for w in (power, moment)]
    if not sums[0].any():
        raise ValueError(f"values are 0 from {low:g} to {high:g} µm; they take a band that holds power")
    return _as_lines(*sums)


def from_file(path: PathLike, unit: str, lines: int | None = 50, band: tuple[float, float] | None = None) -> Spectrum:
    """A spectrum from a text file of two columns, wavelength and relative power.

    Args:
        path: a UTF-8 file of at most 4 MiB. Columns are separated by blanks, tabs, commas or semicolons; lines that
            are empty or begin with #, % or ! are left out, and so are lines of words before the first numbers.
        unit: of the wavelengths, "um" or "nm".
        lines: how many lines to make of the density that the file holds, as `from_table` does; None takes the rows
            themselves as lines.
        band: µm, as for `from_table`.

    Raises OSError, and ValueError naming the file and the line.
    """
    in_a_um = _UNITS[check_choice(unit, "unit", tuple(_UNITS))]
    file = os.fspath(path)
    try:
        text = read_bounded(path, _LONGEST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: no UTF-8 text at byte {error.start}") from None
    rows: list[tuple[float, float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip()[0] in "#%!":
            continue
        try:
            first, second = (float(field) for field in line.replace(",", " ").replace(";", " ").split())
        except ValueError:
            if not rows and not any(c.isdigit() for c in line.split()[0]):
                continue
            raise ValueError(f"{file}, line {number}: got {line.strip()[:60]!r}; it takes two numbers") from None
        if not math.isfinite(first) or not first > 0.0 or not math.isfinite(second) or second < 0.0:
            raise ValueError(
                f"{file}, line {number}: got {first:g} and {second:g}; it takes finite numbers, > 0 and >= 0"
            )
        rows.append((first / in_a_um, second))
    if not rows:
        raise ValueError(f"{file}: holds no numbers; it takes two columns, wavelength in {unit} and relative power")
    try:
        columns = np.array(rows).T
        return Spectrum(*columns) if lines is None else from_table(*columns, lines=lines, band=band)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
