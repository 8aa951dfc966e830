"""What all results share: files and arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch


def save_npz(path: str | os.PathLike[str], arrays: dict[str, Any]) -> Path:
    """Write arrays to ``path`` (with .npz appended where it is missing), all of them or nothing."""
    target = Path(path)
    if target.suffix != ".npz":
        target = target.with_name(target.name + ".npz")
    # A reader never sees half a file: it is written beside the target and then moved onto it.
    scratch = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    try:
        with open(scratch, "wb") as stream:
            np.savez(stream, **arrays)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)
    return target


def load_npz(path: str | os.PathLike[str], kind: str) -> dict[str, np.ndarray]:
    """Read what `save_npz` wrote for a result of class ``kind``; ValueError for a file of another kind."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    found = str(arrays.pop("kind", "nothing known"))
    if found != kind:
        raise ValueError(f"path got {os.fspath(path)!r}, which holds {found}; it takes a file that {kind}.save wrote")
    return arrays


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
