"""The numbers of a scene: what may be one, what is checked about it, and how many become one tensor.

A scene number is a Python or NumPy real number or a 0-dimensional ``torch`` tensor of dtype float32 or float64, with
or without a graph behind it. Checks look at a detached copy and hand back the object they were given, so a tensor keeps
its identity and its graph.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

Number = float | int | np.number | np.ndarray | torch.Tensor
_FLOAT_DTYPES = (torch.float32, torch.float64)


def is_tensor_number(value: Any) -> bool:
    """True for a ``torch`` tensor that may stand for one scene number: shape (), dtype float32 or float64."""
    return isinstance(value, torch.Tensor) and value.dim() == 0 and value.dtype in _FLOAT_DTYPES


def to_float(value: Number) -> float:
    """The value as a Python float, detached. For reading and checking, never for anything that carries a gradient."""
    if isinstance(value, torch.Tensor):
        return float(value.detach().item())
    return float(value)


def _describe_range(positive, nonnegative, minimum, maximum, finite) -> str:
    bounds = []
    if positive:
        bounds.append("> 0")
    if nonnegative:
        bounds.append(">= 0")
    if minimum is not None:
        bounds.append(f">= {minimum:g}")
    if maximum is not None:
        bounds.append(f"<= {maximum:g}")
    kind = "a finite number" if finite else "a number"
    return " ".join([kind, " and ".join(bounds)]).strip()


def _check_kind(value: Any, name: str, takes: str) -> None:
    if isinstance(value, torch.Tensor):
        if value.dtype not in _FLOAT_DTYPES:
            raise TypeError(
                f"{name} got a tensor of dtype {value.dtype}; it takes {takes}, as a tensor of dtype float32 or float64"
            )
        shape = tuple(value.shape)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind not in "iuf":
            raise TypeError(f"{name} got an array of dtype {value.dtype}; it takes {takes}")
        shape = value.shape
    elif isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} got {value!r} of type {type(value).__name__}; it takes {takes}")
    else:
        return
    if shape != ():
        raise ValueError(f"{name} got shape {shape}; it takes one number, of shape () (0-d)")


def check_number(
    value: Any,
    name: str,
    *,
    positive: bool = False,
    nonnegative: bool = False,
    minimum: float | None = None,
    maximum: float | None = None,
    finite: bool = True,
    none_ok: bool = False,
) -> Any:
    """Check one scene number and return it unchanged; a tensor stays the same object with its graph.

    ``name`` is the argument's name for the message. ``positive``, ``nonnegative``, ``minimum`` and ``maximum``
    (inclusive) bound the detached value; ``finite=False`` lets infinities through, NaN never passes. With ``none_ok``
    None passes.

    Raises TypeError for what is no real number (bool, str, None, a list, complex, a tensor whose dtype is neither
    float32 nor float64) and ValueError for NaN, a value out of range or anything that is not one 0-d number.
    """
    if value is None and none_ok:
        return None
    if type(value) is not float:
        _check_kind(value, name, _describe_range(positive, nonnegative, minimum, maximum, finite))
    plain = to_float(value)
    if (
        math.isnan(plain)
        or (finite and math.isinf(plain))
        or (positive and plain <= 0)
        or (nonnegative and plain < 0)
        or (minimum is not None and plain < minimum)
        or (maximum is not None and plain > maximum)
    ):
        takes = _describe_range(positive, nonnegative, minimum, maximum, finite)
        raise ValueError(f"{name} got {plain!r}; it takes {takes}")
    return value


def check_constant(value: Any, name: str, **bounds: Any) -> float:
    """`check_number` for a number that nothing is differentiated with respect to; returns a Python float.

    Raises ValueError also for a tensor that requires a gradient, which would never arrive.
    """
    check_number(value, name, **bounds)
    if isinstance(value, torch.Tensor) and value.requires_grad:
        raise ValueError(f"{name} got a tensor that requires a gradient; it takes a constant, it is not differentiated")
    return to_float(value)


def check_count(value: Any, name: str, minimum: int = 1, maximum: float = math.inf) -> int:
    """Check a whole number from ``minimum`` to ``maximum`` and return it as a Python int.

    Python and NumPy integers pass, and floats without a fraction (``1e5``). Raises TypeError for other types, bool and
    tensors included, and ValueError for a fraction, NaN, an infinity or a value outside.
    """
    takes = f"a whole number >= {minimum}" + (f" and <= {maximum}" if maximum < math.inf else "")
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value.item()
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} got {value!r} of type {type(value).__name__}; it takes {takes}")
    if not math.isfinite(value) or value != int(value) or not minimum <= value <= maximum:
        raise ValueError(f"{name} got {value!r}; it takes {takes}")
    return int(value)


def check_flag(value: Any, name: str) -> bool:
    """Check a yes-or-no argument and return it as a Python bool; TypeError for anything else."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} got {value!r} of type {type(value).__name__}; it takes True or False")
    return bool(value)


def check_choice(value: Any, name: str, choices: Sequence[str]) -> str:
    """Check a name out of ``choices`` and return it; TypeError for no str, ValueError with the nearest choice."""
    if not isinstance(value, str):
        raise TypeError(f"{name} got {value!r} of type {type(value).__name__}; it takes one of {list(choices)}")
    if value not in choices:
        raise ValueError(f"{name} got {value!r}; it takes one of {list(choices)}.{suggest(value, choices)}")
    return value


def stack(values: Sequence[Number], device: torch.device | str | None = None) -> torch.Tensor:
    """One float64 tensor of shape (n,) from ``n`` scene numbers, differentiable in every tensor among them.

    A float32 leaf gets its gradient in float32. ``values`` must have passed ``check_number``; nothing is checked here.
    """
    plain = [0.0] * len(values)
    where, tensors = [], []
    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            where.append(i)
            tensors.append(value)
        else:
            plain[i] = float(value)
    out = torch.tensor(plain, dtype=torch.float64, device=device)
    if not tensors:
        return out
    entries = torch.stack([t.to(device=out.device, dtype=torch.float64) for t in _Watched.apply(*tensors)])
    return out.index_put((torch.tensor(where, device=out.device),), entries)


class _Watched(torch.autograd.Function):
    """The same values; the backward pass raises if one was changed in place in the meantime.

    A trace works on copies and would not notice, but a gradient at numbers that are gone is nobody's intention.
    """

    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(*tensors)
        return tuple(t.clone() for t in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.saved_tensors  # noqa: B018  reading them compares versions
        return gradients


def watched(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, guarded against changes in place until the backward pass."""
    return _Watched.apply(tensor)[0] if tensor.requires_grad else tensor


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def suggest(name: str, choices: Iterable[str]) -> str:
    """`` Did you mean 'N-BK7'?`` for the choice nearest to ``name``, or an empty text when none is near.

    Case, dashes and spaces do not count, and a choice that ends with the name (N-BK7 for BK7) beats one that is merely
    spelt alike. The text begins with a space, to be put behind a sentence.
    """
    table: dict[str, str] = {}
    for choice in choices:
        table.setdefault(_plain(choice), choice)
    wanted = _plain(name)
    if not wanted or not table:
        return ""
    best = table.get(wanted)
    if best is None:
        # N- is the prefix of the largest family of glasses that are known by their bare name
        best = table.get("n" + wanted)
    if best is None:
        ending = [plain for plain in table if len(wanted) > 2 and plain.endswith(wanted)]
        if ending:
            best = table[min(ending, key=lambda plain: (len(plain), plain))]
    if best is None:
        near = difflib.get_close_matches(wanted, table, n=1, cutoff=0.6)
        best = table[near[0]] if near else None
    return "" if best is None else f" Did you mean {best!r}?"
