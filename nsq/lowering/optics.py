"""Media, reflectances, coatings and scatter lobes as tables over the scene's wavelengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kernels import bsdfs
from kernels.trace import layout as at

from ..coatings import coating_table, reflectance_table
from ..materials import VACUUM
from ..numbers import stack


class Media:
    """Media by identity, numbered as they come; 0 is vacuum."""

    def __init__(self, lines: torch.Tensor) -> None:
        self._lines = lines
        self._numbers: dict[int, int] = {}
        self._media: list[Any] = []
        self.number_of(VACUUM)

    def number_of(self, medium: Any) -> int:
        if medium is None or medium.optiland_material is None:
            medium = VACUUM
        key = id(medium)
        if key not in self._numbers:
            self._numbers[key] = len(self._media)
            self._media.append(medium)
        return self._numbers[key]

    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        n, k = zip(*(medium.index_table(self._lines) for medium in self._media), strict=True)
        return torch.stack(n), torch.stack(k)


class Lobes:
    """Tables of scatter lobes, each once."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._parts: list[np.ndarray] = []
        self._size = 0

    def code_and_start(self, bsdf: Any) -> tuple[int, int]:
        if bsdf is None:
            return -1, 0
        row = getattr(bsdf, "ROW", None)
        if row not in bsdfs.NAMES:
            raise TypeError(f"bsdf got {type(bsdf).__name__}; it takes a scatter lobe such as LambertianBSDF")
        if id(bsdf) not in self._starts:
            part = lobe_table(bsdf)
            self._starts[id(bsdf)] = self._size
            self._parts.append(part)
            self._size += len(part)
        return bsdfs.NAMES.index(row), self._starts[id(bsdf)]

    def table(self) -> np.ndarray:
        return np.concatenate(self._parts) if self._parts else np.zeros(0)


def lobe_table(bsdf: Any) -> np.ndarray:
    """A lobe's table as the device reads it; a radial one says how many entries it has."""
    table = np.asarray(bsdf.table(), dtype=np.float64)
    return np.concatenate([table[:1], [len(table) - 1.0], table[1:]]) if bsdf.ROW == "radial" else table


def lobe_shares(posed: list[Any], device: Any) -> torch.Tensor:
    """Scattered share, reflectance and probability behind (rows, 3), attached."""
    values: list[Any] = []
    for item in posed:
        bsdf = getattr(item, "bsdf", None)
        values += (0.0, 1.0, 0.0) if bsdf is None else (item.scatter_fraction, *bsdf.numbers())
    return stack(values, device).reshape(-1, at.NUM_SCATTER)


def share_tables(posed: list[Any], lines: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Reflectance and transmittance of mirrors and coatings; rows of zeros for everything else."""
    nothing = torch.zeros_like(lines)
    reflectance, transmittance = [], []
    for item in posed:
        r, t = nothing, nothing
        if getattr(item, "coating", None) is not None:
            r, t = coating_table(item.coating, lines)
        elif getattr(item, "reflectance", None) is not None:
            r = reflectance_table(item.reflectance, lines)
        reflectance.append(r)
        transmittance.append(t)
    return torch.stack(reflectance), torch.stack(transmittance)
