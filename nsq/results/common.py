"""What all results share: files, arrays and axes."""

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


def axes(ax: Any) -> Any:
    """``ax``, or the axes of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # not needed by anything but a plot, and slow to import

    return plt.subplots()[1]


def label(ax: Any, title: str) -> None:
    """Label axes of x and y in mm."""
    ax.set_xlabel("x (mm)")
    ax.set_ylabel("y (mm)")
    if title:
        ax.set_title(title)
