"""Functions of wavelength as tables: one float64 tensor for a set of wavelengths, attached to whatever made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .numbers import check_number, watched


def tabulate(source: Any, wavelengths: torch.Tensor, label: str) -> torch.Tensor:
    """Values (W,) of ``source`` at ``wavelengths`` (W,) in µm, float64 and attached.

    ``source`` is a scene number, or a callable of the wavelength in µm that returns numbers, NumPy arrays or tensors.
    A callable is tried with the whole tensor first and with one Python float after the other if it does not take that.
    ``label`` begins the messages. Raises what the callable raises, and ValueError for results that are no numbers.
    """
    if not callable(source):
        check_number(source, label, finite=False)
        return _as_row(source, wavelengths.device).expand(wavelengths.shape[0])
    return evaluate(source, wavelengths, label)


def evaluate(function: Callable[[Any], Any], wavelengths: torch.Tensor, label: str) -> torch.Tensor:
    """``tabulate`` for a callable."""
    count = wavelengths.shape[0]
    try:
        values = function(wavelengths)
    except Exception:
        values = None  # takes scalars only, or fails for them too: the calls below tell
    if isinstance(values, torch.Tensor | np.ndarray) and tuple(values.shape) == (count,):
        return _as_row(values, wavelengths.device)
    entries = []
    for wavelength in wavelengths.tolist():
        value = function(wavelength)
        row = _as_row(value, wavelengths.device) if _is_real(value) else None
        if row is None or row.numel() != 1:
            raise ValueError(f"{label} got {value!r} at {wavelength:g} µm; it takes one real number a wavelength")
        entries.append(row.reshape(()))
    return torch.stack(entries) if entries else wavelengths.new_zeros(0)


def _is_real(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not (value.is_complex() or value.dtype == torch.bool)
    return np.asarray(value).dtype.kind in "iuf"


def _as_row(value: Any, device: torch.device) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return watched(value).to(device=device, dtype=torch.float64)
    return torch.as_tensor(np.array(value, dtype=np.float64), device=device)


def check_table(table: torch.Tensor, wavelengths: torch.Tensor, label: str, takes: str, ok: torch.Tensor) -> None:
    """Raise ValueError naming ``label``, the value and the wavelength of the first entry of ``table`` not ``ok``."""
    if bool(ok.all()):
        return
    worst = int((~ok).nonzero()[0, 0])
    raise ValueError(
        f"{label} got {float(table[worst].detach()):g} at {float(wavelengths[worst]):g} µm; it takes {takes}"
    )
