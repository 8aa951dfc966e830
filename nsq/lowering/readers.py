"""Detectors: their pixels, their spectral planes and the numbers that place them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernels import detectors as detector_rows
from kernels.trace import layout as at

from ..detectors import FarFieldDetector, PixelDetector
from ..numbers import Number, stack, to_float

_SPLATS = {"hard": at.HARD, "bilinear": at.BILINEAR, "gaussian": at.GAUSSIAN}


@dataclass(frozen=True)
class Readers:
    """Detectors as tables.

    Attributes:
        ints: (detectors, 8) integers; sigmas: (detectors,); sizes: (detectors,), cells of each map.
        planes: (detectors, W), the plane of pixels that a spectral line belongs to.
        numbers: (detectors, 11), attached: origin, x axis, y axis, and what the pixels span.
    """

    ints: np.ndarray
    sigmas: np.ndarray
    sizes: np.ndarray
    planes: np.ndarray
    numbers: torch.Tensor


@dataclass(frozen=True)
class _Map:
    """A detector's map: pixels across and down, planes of them, what they divide, what they span and about what z."""

    num_x: int = 0
    num_y: int = 0
    planes: int = 0
    reads: int = detector_rows.PLANE
    width: Number = 1.0
    height: Number = 1.0
    centre: Number = 0.0


def _map_of(detector: Any) -> _Map:
    """The map of a detector; without pixels for one that keeps rays."""
    if isinstance(detector, FarFieldDetector):
        size = detector.num_bins_phi, detector.num_bins_theta
        return _Map(*size, 1, detector_rows.FAR_FIELD, 360.0, detector.theta_max_deg)
    if not isinstance(detector, PixelDetector):
        return _Map()
    grid = detector.grid()
    reads = detector_rows.NAMES.index(grid.kind)
    return _Map(grid.num_x, grid.num_y, detector.num_bins, reads, grid.width, grid.height, grid.centre)


_CLOSED = (detector_rows.FAR_FIELD, detector_rows.CYLINDER)


def lower_readers(
    detectors: list[Any], wavelengths: np.ndarray, turn: torch.Tensor, place: torch.Tensor, first_rows: np.ndarray
) -> Readers:
    """Lower detectors with frames ``turn`` (n, 3, 3) and ``place`` (n, 3), whose rows begin at ``first_rows``."""
    ints, sigmas, sizes, planes, spans, shifts = [], [], [], [], [], []
    for detector, row in zip(detectors, first_rows, strict=True):
        own = _map_of(detector)
        splat, sigma = at.RECORD, 1.0
        if own.num_x:
            splat, sigma = _SPLATS[detector.splat], _sigma_of(detector)
            splat = at.HARD if splat == at.GAUSSIAN and sigma <= 0.0 else splat
        reach = max(1, math.ceil(3.0 * sigma))
        ints.append((own.num_x, own.num_y, splat, sum(sizes), reach, own.reads, int(own.reads in _CLOSED), row))
        sizes.append(own.num_x * own.num_y * own.planes)
        sigmas.append(sigma if sigma > 0.0 else 1.0)
        planes.append(detector.bins_of(wavelengths) if own.planes > 1 else np.zeros(len(wavelengths), dtype=np.int64))
        spans += [own.width, own.height]
        shifts.append(own.centre)
    # the middle of what a detector's pixels span may lie off its origin; elsewhere the origin keeps its bits
    moved = torch.tensor([isinstance(s, torch.Tensor) or s != 0.0 for s in shifts], device=place.device)[:, None]
    origin = torch.where(moved, place + stack(shifts, place.device)[:, None] * turn[:, :, 2], place)
    size = stack(spans, place.device).reshape(-1, 2)
    return Readers(
        ints=np.array(ints, dtype=np.int32).reshape(-1, at.NUM_DETECTOR_INTS),
        sigmas=np.array(sigmas),
        sizes=np.array(sizes, dtype=np.int64),
        planes=np.array(planes, dtype=np.int32),
        numbers=torch.cat([origin, turn[:, :, 0], turn[:, :, 1], size], dim=1),
    )


def _sigma_of(detector: Any) -> float:
    sigma = getattr(detector, "splat_sigma", 0.0)
    if isinstance(sigma, torch.Tensor) and sigma.requires_grad:
        raise ValueError(
            f"splat_sigma of detector {detector.name!r} requires a gradient; it takes a number without one, because the"
            " width of a splat is not differentiated"
        )
    return to_float(sigma)
