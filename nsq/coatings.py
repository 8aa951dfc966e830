"""Coatings and mirror reflectances as functions of wavelength."""

from __future__ import annotations

from typing import Any

import torch

from ._names import named_arguments
from .numbers import check_number, to_float
from .tabulate import check_table, tabulate

_SLACK = 1e-9  # rounding of R + T = 1 in float32 tables and sums of measured values


def reject_polarized(coating: Any, name: str) -> None:
    """Raise NotImplementedError for a coating that is known by its Jones matrix alone."""
    scalar = getattr(coating, "reflectance", None) is not None or getattr(coating, "transmittance", None) is not None
    if hasattr(coating, "jones") and not scalar:
        raise NotImplementedError(
            f"{name} got {type(coating).__name__}, a polarized coating; it takes scalar reflectance and transmittance"
        )


def _check_share(value: Any, name: str) -> Any:
    """A share of flux: a callable of wavelength, or a number in [0, 1]."""
    return value if callable(value) else check_number(value, name, minimum=0.0, maximum=1.0)


def _share_table(value: Any, wavelengths: torch.Tensor, label: str) -> torch.Tensor:
    table = tabulate(value, wavelengths, label)
    check_table(table, wavelengths, label, "a number >= 0 and <= 1", (table >= -_SLACK) & (table <= 1.0 + _SLACK))
    return table


@named_arguments
class SimpleCoating:
    """A coating by its flux reflectance and transmittance, the same at every angle and for both polarisations.

    Args:
        transmittance: share of the flux that passes, 0 to 1.
        reflectance: share of the flux that is reflected, 0 to 1.

    Each is a number, a 0-d tensor, or a callable of the wavelength in µm; gradients reach tensors and the parameters of
    callables. What is neither reflected nor transmitted is lost in the coating. The two are attributes of these names
    and may be reassigned. Raises TypeError for what is neither, ValueError for a share out of range or a sum above 1,
    here for numbers and when the trace evaluates it for callables.
    """

    def __init__(self, transmittance: Any, reflectance: Any = 0.0) -> None:
        self.transmittance = _check_share(transmittance, "transmittance")
        self.reflectance = _check_share(reflectance, "reflectance")
        if not callable(transmittance) and not callable(reflectance):
            total = to_float(transmittance) + to_float(reflectance)
            if total > 1.0 + _SLACK:
                raise ValueError(f"transmittance and reflectance got a sum of {total:g}; they take a sum <= 1")

    def table(self, wavelengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Reflectance and transmittance, each (W,) float64 and attached, at ``wavelengths`` (W,) in µm."""
        return coating_table(self, wavelengths)

    def __repr__(self) -> str:
        return f"SimpleCoating(transmittance={self.transmittance!r}, reflectance={self.reflectance!r})"


def coating_table(coating: Any, wavelengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Reflectance and transmittance (W,) of any object that has both as attributes, numbers or callables.

    Raises ValueError naming the wavelength where a share is out of range or the two sum to more than 1, and TypeError
    for a coating whose shares depend on the angle.
    """
    if is_angular(coating):
        raise TypeError(f"coating got {type(coating).__name__}, whose shares depend on the angle; see angular_table")
    reflectance = _share_table(coating.reflectance, wavelengths, "reflectance")
    transmittance = _share_table(coating.transmittance, wavelengths, "transmittance")
    total = reflectance + transmittance
    check_table(total, wavelengths, "reflectance + transmittance", "a sum <= 1", total <= 1.0 + _SLACK)
    return reflectance, transmittance


def is_angular(coating: Any) -> bool:
    """Whether a coating's shares depend on the angle: it has a method ``angular_table``."""
    return callable(getattr(coating, "angular_table", None))


def check_coating(coating: Any, name: str) -> Any:
    """Check a refracting surface's coating and return it: None, or an object with scalar shares or an angular table."""
    if coating is None:
        return None
    if is_angular(coating):
        getattr(coating, "validate", lambda: None)()
        return coating
    reject_polarized(coating, name)
    for share in ("reflectance", "transmittance"):
        if not hasattr(coating, share):
            raise TypeError(
                f"{name} got {coating!r} of type {type(coating).__name__};"
                " it takes None or a coating with reflectance and transmittance"
            )
        _check_share(getattr(coating, share), f"{name}.{share}")
    return coating


def check_reflectance(reflectance: Any, name: str = "reflectance") -> Any:
    """Check a mirror's reflectance and return it: a number in [0, 1], a callable of wavelength, or a scalar coating."""
    if reflectance is None:
        raise TypeError(f"{name} got None; a mirror takes a number, a callable of the wavelength in µm, or a coating")
    reject_polarized(reflectance, name)
    _check_share(getattr(reflectance, "reflectance", reflectance), name)
    return reflectance


def reflectance_table(reflectance: Any, wavelengths: torch.Tensor) -> torch.Tensor:
    """A mirror's reflectance (W,), float64 and attached, at ``wavelengths`` (W,) in µm.

    ``reflectance`` is a number, a callable of the wavelength in µm, or an object whose attribute ``reflectance`` is one
    of these. Raises ValueError naming the wavelength where it leaves [0, 1].
    """
    return _share_table(getattr(reflectance, "reflectance", reflectance), wavelengths, "reflectance")
