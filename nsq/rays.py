"""A bundle of rays, as sources emit it and surfaces meet it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .numbers import to_float


@dataclass
class NSQRayBundle:
    """Rays in world coordinates; every field is (n,), an array or a tensor.

    Attributes:
        x, y, z: positions, mm. L, M, N: direction cosines. flux: W. wavelength: µm.
        n_current, k_current: index and extinction of the medium that the ray is in.
        bounce: events so far. alive: bool. ray_id: the key of the ray's random numbers.
    """

    x: Any
    y: Any
    z: Any
    L: Any
    M: Any
    N: Any
    flux: Any
    wavelength: Any
    n_current: Any = None
    k_current: Any = None
    bounce: Any = None
    alive: Any = None
    ray_id: Any = None

    def __post_init__(self) -> None:
        n = self.num_rays
        fill = {
            "n_current": np.ones(n),
            "k_current": np.zeros(n),
            "bounce": np.zeros(n, dtype=np.int64),
            "alive": np.ones(n, dtype=bool),
            "ray_id": np.arange(n, dtype=np.int64),
        }
        for name, values in fill.items():
            if getattr(self, name) is None:
                setattr(self, name, values)
        for name in self.__dataclass_fields__:
            if tuple(np.shape(getattr(self, name))) != (n,):
                raise ValueError(f"{name} got shape {tuple(np.shape(getattr(self, name)))}; it takes ({n},), as x has")

    @property
    def num_rays(self) -> int:
        return int(np.shape(self.x)[0])

    @property
    def num_rays_alive(self) -> int:
        return int(to_float(torch.as_tensor(self.alive).sum().to(torch.float64)))

    @property
    def positions(self) -> torch.Tensor:
        """(n, 3) float64 tensor, attached where the bundle is."""
        return torch.stack([torch.as_tensor(c, dtype=torch.float64) for c in (self.x, self.y, self.z)], dim=1)

    @property
    def directions(self) -> torch.Tensor:
        """(n, 3) float64 tensor, attached where the bundle is."""
        return torch.stack([torch.as_tensor(c, dtype=torch.float64) for c in (self.L, self.M, self.N)], dim=1)
