"""What all results share: arrays, and how notebooks show them."""

from __future__ import annotations

import numpy as np
import torch


def as_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A detached array."""
    return tensor.detach().cpu().numpy()


def centres(extent: float, count: int) -> np.ndarray:
    """Centres of ``count`` cells that fill ``extent`` about 0."""
    return (np.arange(count) + 0.5) * (extent / count) - 0.5 * extent


class DetectorResult:
    """What the results of all detectors share: how a notebook shows them.

    ``PROJECTION`` is that of the axes `plot` takes.
    """

    PROJECTION: str | None = None

    def facts(self) -> list[tuple[str, str]]:
        """Labels and values, beyond flux and rays, for a table."""
        return []

    def _repr_html_(self) -> str:
        from ..plotting.notebook import detector_html

        return detector_html(self)
