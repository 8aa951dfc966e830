"""Surfaces given by a sag: their blocks of numbers and limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from kernels import shapes
from kernels.shapes.asphere import NUM_TERMS
from kernels.trace.sags import NUM_LIMITS

from ..geometries import curvature
from ..numbers import stack, to_float


def is_sag(geometry: Any) -> bool:
    """Whether a geometry is a sag over its own x-y plane."""
    return getattr(geometry, "ROW", "") in shapes.NAMES


# what the box of a surface rises above it and falls below it, as a share of its aperture's radius
_LEAST_HEIGHT = 1e-6


def _asphere(geometry: Any, device: Any) -> torch.Tensor:
    powers = [float(power) for power in geometry.powers]
    if len(powers) > NUM_TERMS:
        raise ValueError(f"coefficients got {len(powers)} terms; the trace takes at most {NUM_TERMS}")
    radius, conic, _, *terms = stack(geometry.numbers(), device).unbind()
    unused = [0.0] * (NUM_TERMS - len(powers))
    plain = radius.new_tensor([*unused, *powers, *[2.0] * len(unused)])
    head = torch.stack([curvature(radius), conic, radius.new_tensor(float(len(powers))), *terms])
    return torch.cat([head, plain])


def _biconic(geometry: Any, device: Any) -> torch.Tensor:
    radius_x, radius_y, conic_x, conic_y, _ = stack(geometry.numbers(), device).unbind()
    return torch.stack([curvature(radius_x), curvature(radius_y), conic_x, conic_y])


def _toroid(geometry: Any, device: Any) -> torch.Tensor:
    radius_x, radius_y, conic_y, _ = stack(geometry.numbers(), device).unbind()
    return torch.stack([curvature(radius_x), curvature(radius_y), conic_y])


_NUMBERS: dict[str, Callable[[Any, Any], torch.Tensor]] = {
    "asphere": _asphere,
    "biconic": _biconic,
    "toroid": _toroid,
}


def lower_sags(
    items: list[Any], sagged: list[int], first: np.ndarray, turn: torch.Tensor, place: torch.Tensor
) -> tuple[tuple[tuple[int, int, int, int], ...], torch.Tensor, np.ndarray]:
    """(row, code, block, limits) of the items ``sagged``, their numbers (S,), attached, and limits (L,)."""
    found, blocks, limits, size = [], [], [], 0
    for k in sagged:
        geometry = items[k].geometry
        block = torch.cat([turn[k].reshape(9), place[k], _NUMBERS[geometry.ROW](geometry, place.device)])
        found.append((int(first[k]), shapes.NAMES.index(geometry.ROW), size, NUM_LIMITS * len(limits)))
        blocks.append(block)
        size += len(block)
        reach, (low, high) = to_float(geometry.aperture_radius), geometry.z_range()
        # a ray is followed through this box, which a flat surface must not shrink to nothing
        box = [math.inf, math.inf, reach, low - _LEAST_HEIGHT * reach, high + _LEAST_HEIGHT * reach]
        limits.append([*box, geometry.least_radius()])
    numbers = torch.cat(blocks) if blocks else place.new_zeros(0)
    return tuple(found), numbers, np.array(limits).reshape(-1)
