"""Lobes without a table: the mirror and the ideal diffuser."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .._names import named_arguments
from ..numbers import Number, check_number
from .base import BaseBSDF, cosines


class SpecularBRDF(BaseBSDF):
    """A mirror lobe: all of the light goes into the specular direction, weight 1, none behind the surface."""

    ROW = "specular"
    has_density = False

    def sample(
        self,
        n: int,
        incident: Any,
        normals: Any,
        wavelengths: Any,
        rng: Any = None,
        ray_id: Any = None,
        bounce: Any = None,
    ) -> tuple[Any, Any, Any]:
        """`BaseBSDF.sample`; the random numbers' keys may be left out, since none is drawn."""
        return super().sample(n, incident, normals, wavelengths, rng, ray_id, bounce)

    def reflectance(self, incident: Any, normals: Any, wavelengths: Any) -> np.ndarray:
        return np.ones(len(cosines(incident, normals)))

    def __repr__(self) -> str:
        return "SpecularBRDF()"


@named_arguments
class LambertianBSDF(BaseBSDF):
    """A lobe as bright from every side: BSDF = reflectance_value / pi.

    Args:
        reflectance_value: share of the flux that is scattered on, 0 to 1. Differentiable.
        transmissive_fraction: share of the scattered rays that go behind the surface, 0 to 1. Not differentiated.
    """

    ROW = "lambertian"

    def __init__(self, reflectance_value: Number = 1.0, transmissive_fraction: Number = 0.0) -> None:
        self.reflectance_value = reflectance_value
        self.transmissive_fraction = transmissive_fraction
        self.validate()

    def validate(self) -> None:
        super().validate()
        check_number(self.reflectance_value, "reflectance_value", minimum=0.0, maximum=1.0)

    def numbers(self) -> tuple[Number, Number]:
        return self.reflectance_value, self.transmissive_fraction

    def reflectance(self, incident: Any, normals: Any, wavelengths: Any) -> Any:
        n = len(cosines(incident, normals))
        if isinstance(self.reflectance_value, torch.Tensor) and self.reflectance_value.requires_grad:
            return self.reflectance_value.to(torch.float64).expand(n)
        return np.full(n, float(self.reflectance_value))

    def __repr__(self) -> str:
        return f"LambertianBSDF({self.reflectance_value!r}, transmissive_fraction={self.transmissive_fraction!r})"
