"""Discrete spectra: the lines a source emits and how often."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ._names import named_arguments
from .rng import EventSlot

_LONGEST_UM = 20.0


def _line_array(values: Any, name: str) -> np.ndarray:
    """A float64 copy of shape (W,), or an error that names the argument."""
    if isinstance(values, torch.Tensor):
        if values.requires_grad:
            raise NotImplementedError(
                f"{name} got a tensor that requires a gradient; spectra are sampled line by line and carry none"
            )
        values = values.detach().cpu().numpy()
    try:
        array = np.asarray(values)
    except (ValueError, RuntimeError):  # ragged, or holding tensors with a graph
        raise TypeError(f"{name} got {values!r}; it takes a sequence of real numbers, shape (W,)") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} got {values!r}; it takes a sequence of real numbers, shape (W,)")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} got shape {array.shape}; it takes a sequence of at least one number, shape (W,)")
    return np.array(array, dtype=np.float64)


@named_arguments
class Spectrum:
    """A spectrum of discrete lines. Immutable.

    Args:
        wavelengths: (W,) wavelengths in µm, in any order.
        weights: (W,) relative powers, not negative, with a positive sum.

    Attributes:
        wavelengths, weights: read-only float64 arrays, copies of what was given.
        cumulative: (W,) normalised running sum of the weights; the last entry is 1.

    Nothing is differentiable: a tensor that requires a gradient raises NotImplementedError. Raises TypeError for what
    is no sequence of numbers and ValueError for shapes that differ, NaN, a wavelength that is not positive or is beyond
    20 µm, a negative weight, or weights that sum to 0.
    """

    __slots__ = ("cumulative", "wavelengths", "weights")

    wavelengths: np.ndarray
    weights: np.ndarray
    cumulative: np.ndarray

    def __init__(self, wavelengths: Any, weights: Any) -> None:
        lines, powers = _line_array(wavelengths, "wavelengths"), _line_array(weights, "weights")
        if lines.shape != powers.shape:
            raise ValueError(
                f"wavelengths and weights got shapes {lines.shape} and {powers.shape}; they take the same shape (W,)"
            )
        if not np.all(np.isfinite(lines)) or np.any(lines <= 0.0):
            raise ValueError(f"wavelengths got {lines.tolist()}; they take finite numbers > 0, in µm")
        if np.any(lines > _LONGEST_UM):
            raise ValueError(
                f"wavelengths got {lines.max():g}; they take µm, at most {_LONGEST_UM:g} µm"
                f" (if {lines.max():g} nm was meant, give {lines.max() / 1000.0:g})"
            )
        if not np.all(np.isfinite(powers)) or np.any(powers < 0.0):
            raise ValueError(f"weights got {powers.tolist()}; they take finite numbers >= 0")
        total = powers.sum()
        if not total > 0.0 or not np.isfinite(total):
            raise ValueError(f"weights got {powers.tolist()}, which sum to {total:g}; they take a finite sum > 0")
        running = np.cumsum(powers)
        for name, array in (("wavelengths", lines), ("weights", powers), ("cumulative", running / running[-1])):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def monochromatic(cls, wavelength: float) -> Spectrum:
        """One line at ``wavelength`` in µm."""
        return cls([wavelength], [1.0])

    def sample(self, ray_id: np.ndarray, bounce: int | np.ndarray, rng: Any) -> np.ndarray:
        """Wavelength in µm of each ray, (n,) for ray ids (n,).

        A single line is not drawn for. Otherwise ray i gets the first line whose cumulative weight reaches
        ``rng.uniform(ray_id, bounce, EventSlot.SOURCE_WAVELENGTH)``.
        """
        if self.wavelengths.size == 1:
            return np.full(np.shape(ray_id), self.wavelengths[0])
        u = np.asarray(rng.uniform(ray_id, bounce, EventSlot.SOURCE_WAVELENGTH))
        return self.wavelengths[np.searchsorted(self.cumulative, u, side="left")]

    def __setattr__(self, name, value):
        raise AttributeError(f"a Spectrum cannot be changed; make a new one instead of assigning {name}")

    def __delattr__(self, name):
        raise AttributeError(f"a Spectrum cannot be changed; {name} stays")

    def __reduce__(self):
        return (Spectrum, (self.wavelengths, self.weights))

    def __eq__(self, other):
        if not isinstance(other, Spectrum):
            return NotImplemented
        return np.array_equal(self.wavelengths, other.wavelengths) and np.array_equal(self.weights, other.weights)

    def __hash__(self):
        return hash((self.wavelengths.tobytes(), self.weights.tobytes()))

    def __repr__(self) -> str:
        return f"Spectrum(wavelengths={self.wavelengths.tolist()}, weights={self.weights.tolist()})"
