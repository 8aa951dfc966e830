"""Detectors: their pixels, their spectral planes and the numbers that place them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from kernels import detectors as detector_rows
from kernels.trace import layout as at

from ..numbers import stack, to_float

_SPLATS = {"hard": at.HARD, "bilinear": at.BILINEAR, "gaussian": at.GAUSSIAN}


def _grid(detector: Any) -> tuple[int, int, int, int]:
    """(pixels in x, pixels in y, planes, what pixels are) of a detector; no pixels for one that keeps rays."""
    if hasattr(detector, "num_bins_theta"):
        return detector.num_bins_phi, detector.num_bins_theta, 1, detector_rows.FAR_FIELD
    if not hasattr(detector, "num_pixels_x"):
        return 0, 0, 0, detector_rows.PLANE
    bins = getattr(detector, "wavelength_bins", None)
    depth = 1 if bins is None else len(bins) - 1
    return detector.num_pixels_x, detector.num_pixels_y, depth, detector_rows.PLANE


def detector_ints(detectors: list[Any], wavelengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Integers (detectors, 7), sigmas, cells of each map, and the plane of each line (detectors, W)."""
    ints, sigmas, sizes, planes = [], [], [], []
    for detector in detectors:
        nx, ny, depth, reads = _grid(detector)
        splat, sigma = at.RECORD, 1.0
        if nx:
            splat, sigma = _SPLATS[detector.splat], _sigma_of(detector)
            splat = at.HARD if splat == at.GAUSSIAN and sigma <= 0.0 else splat
        reach = max(1, math.ceil(3.0 * sigma))
        wraps = int(reads == detector_rows.FAR_FIELD)
        ints.append((nx, ny, splat, sum(sizes), reach, reads, wraps))
        sizes.append(nx * ny * depth)
        sigmas.append(sigma if sigma > 0.0 else 1.0)
        planes.append(detector.bins_of(wavelengths) if depth > 1 else np.zeros(len(wavelengths), dtype=np.int64))
    table = np.array(ints, dtype=np.int32).reshape(-1, at.NUM_DETECTOR_INTS)
    return table, np.array(sigmas), np.array(sizes, dtype=np.int64), np.array(planes, dtype=np.int32)


def _sigma_of(detector: Any) -> float:
    sigma = getattr(detector, "splat_sigma", 0.0)
    if isinstance(sigma, torch.Tensor) and sigma.requires_grad:
        raise ValueError(
            f"splat_sigma of detector {detector.name!r} requires a gradient; it takes a number without one, because the"
            " width of a splat is not differentiated"
        )
    return to_float(sigma)


def _ranges(detector: Any) -> tuple[Any, Any]:
    """What the pixels span: lengths in mm, or degrees of azimuth and polar angle."""
    if hasattr(detector, "theta_max_deg"):
        return 360.0, detector.theta_max_deg
    return getattr(detector, "width", 1.0), getattr(detector, "height", 1.0)


def detector_numbers(detectors: list[Any], turn: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    size = stack([v for d in detectors for v in _ranges(d)], place.device).reshape(-1, 2)
    return torch.cat([place, turn[:, :, 0], turn[:, :, 1], size], dim=1)
