"""Scatter inside a medium: milk, fog, opal glass, tissue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ._names import named_arguments
from .numbers import Number, check_number, to_float
from .tabulate import check_table, tabulate

NumberOfWavelength = Number | Callable[[Any], Any]


@named_arguments
@dataclass(frozen=True, eq=False)
class HenyeyGreenstein:
    """Volume scattering with the phase function of Henyey and Greenstein (1941), as ``NSQMaterial(scattering=...)``.

    Args:
        g: mean cosine of the angle of scatter, -1 < g < 1; 0 is isotropic.
        mean_free_path: mean distance between collisions, mm, > 0; infinite where there are none.
        albedo: share of the flux that goes on after a collision, 0 to 1; the rest is absorbed in the medium.

    Each may be a number, a 0-d tensor, or a callable of the wavelength in µm; all are differentiable. The phase
    function is p = (1 - g^2) / (4 pi (1 + g^2 - 2 g cos)^(3/2)) per steradian. Free paths are drawn from
    exp(-s / mean_free_path) / mean_free_path. A collision counts as an event for ``max_depth``, so media that are many
    mean free paths thick take a large one. In a medium of scattering coefficient mu_s and absorption coefficient mu_a,
    either mean_free_path = 1 / (mu_s + mu_a) with albedo = mu_s / (mu_s + mu_a), or mean_free_path = 1 / mu_s with
    albedo 1 and mu_a = 4 pi k / wavelength in the medium's k, which is the one with less noise.

    Raises TypeError and ValueError naming the argument; for a callable's value when a scene is traced.
    """

    g: NumberOfWavelength
    mean_free_path: NumberOfWavelength
    albedo: NumberOfWavelength = 1.0

    def __post_init__(self) -> None:
        if not callable(self.g):
            check_number(self.g, "g")
            if not -1.0 < to_float(self.g) < 1.0:
                raise ValueError(f"g got {to_float(self.g)!r}; it takes a number between -1 and 1, both excluded")
        if not callable(self.mean_free_path):
            check_number(self.mean_free_path, "mean_free_path", positive=True, finite=False)
        if not callable(self.albedo):
            check_number(self.albedo, "albedo", minimum=0.0, maximum=1.0)

    def table(self, wavelengths: torch.Tensor) -> torch.Tensor:
        """Collisions per mm, albedo and g, (W, 3) float64 and attached, at ``wavelengths`` (W,) float64 in µm.

        Raises ValueError naming the number and the wavelength where a callable's value is out of range.
        """
        path, albedo, g = (
            tabulate(getattr(self, name), wavelengths, name) for name in ("mean_free_path", "albedo", "g")
        )
        check_table(path, wavelengths, "mean_free_path", "a number > 0", path > 0)
        check_table(albedo, wavelengths, "albedo", "a number from 0 to 1", (albedo >= 0) & (albedo <= 1))
        check_table(g, wavelengths, "g", "a number between -1 and 1", (g > -1) & (g < 1))
        return torch.stack([1.0 / path, albedo, g], dim=1)


def check_scattering(scattering: Any) -> Any:
    """Check the scattering of a medium and return it."""
    if scattering is not None and not isinstance(scattering, HenyeyGreenstein):
        raise TypeError(
            f"scattering got {scattering!r} of type {type(scattering).__name__}; it takes None or a HenyeyGreenstein"
        )
    return scattering
