"""Media, reflectances, coatings and scatter lobes as tables over the scene's wavelengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from kernels import bsdfs
from kernels.trace import layout as at
from kernels.trace.interact import ANGLES

from ..coatings import coating_table, is_angular, reflectance_table
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
        if medium is None or medium.is_vacuum:
            medium = VACUUM
        key = id(medium)
        if key not in self._numbers:
            self._numbers[key] = len(self._media)
            self._media.append(medium)
        return self._numbers[key]

    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        n, k = zip(*(medium.index_table(self._lines) for medium in self._media), strict=True)
        return torch.stack(n), torch.stack(k)

    def scattering(self) -> torch.Tensor:
        """What `SceneTensors.media` holds."""
        return torch.stack([medium.scattering_table(self._lines) for medium in self._media])

    @property
    def labels(self) -> tuple[str, ...]:
        """What messages call each medium."""
        return tuple(medium.label for medium in self._media)


def medium_classes(index: torch.Tensor, extinction: torch.Tensor, scattering: torch.Tensor) -> np.ndarray:
    """A number for each medium, the same for media that are alike at every line: light cannot tell them apart."""
    rows = torch.cat([index, extinction, scattering.flatten(1)], dim=1).detach().cpu().numpy()
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)


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
        if getattr(item, "coating", None) is not None and not is_angular(item.coating):
            r, t = coating_table(item.coating, lines)
        elif getattr(item, "reflectance", None) is not None:
            r = reflectance_table(item.reflectance, lines)
        reflectance.append(r)
        transmittance.append(t)
    return torch.stack(reflectance), torch.stack(transmittance)


def angular_tables(
    surfaces: list[Any], rows: list[tuple[int, ...]], index: torch.Tensor, lines: torch.Tensor
) -> tuple[list[int], torch.Tensor]:
    """Where each surface's table over angle begins (-1 for none), and all tables (A,), attached.

    A table holds, for light from the front and from the back, for each line, and for `ANGLES` cosines from 0 to 1, the
    reflectance and the transmittance.
    """
    cosines = torch.linspace(0.0, 1.0, ANGLES, dtype=lines.dtype, device=lines.device)
    starts, parts, size = [], [], 0
    for surface, row in zip(surfaces, rows, strict=False):
        if surface.coating is None or not is_angular(surface.coating):
            starts.append(-1)
            continue
        front, back = index[row[at.FRONT]], index[row[at.BACK]]
        sides = [
            torch.stack(surface.coating.angular_table(lines, cosines, *media, from_back=from_back), dim=-1)
            for media, from_back in (((front, back), False), ((back, front), True))
        ]
        starts.append(size)
        parts.append(torch.stack(sides).reshape(-1))
        size += parts[-1].numel()
    return starts, torch.cat(parts) if parts else lines.new_zeros(0)
