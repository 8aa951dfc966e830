"""Coordinate systems: poses of sources, surfaces and detectors, chained through ``reference_cs``."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ._names import check_attribute, named_arguments
from .numbers import Number, check_number, stack, to_float

_NUMBERS = ("x", "y", "z", "rx", "ry", "rz")


@named_arguments
class CoordinateSystem:
    """A right-handed frame: an origin in mm and three rotations in radians, in another frame or in the world.

    A point of the frame is ``R @ p + (x, y, z)`` in its parent, with ``R = Rz(rz) @ Ry(ry) @ Rx(rx)`` and right-handed
    elementary rotations. The parent is ``reference_cs``, or the world where that is None.

    Args:
        x, y, z: origin in the parent, mm.
        rx, ry, rz: rotations about the parent's axes in the order x, y, z, radians.
        reference_cs: the parent frame, or None.

    Every number may be a 0-d tensor and gradients reach it, through a chain of parents too. Attributes may be
    reassigned; each assignment is checked. Raises TypeError for what is no number or no CoordinateSystem, ValueError
    for a number that is not finite and for frames that refer to each other in a circle.
    """

    x: Number
    y: Number
    z: Number
    rx: Number
    ry: Number
    rz: Number
    reference_cs: CoordinateSystem | None

    def __init__(
        self,
        x: Number = 0.0,
        y: Number = 0.0,
        z: Number = 0.0,
        rx: Number = 0.0,
        ry: Number = 0.0,
        rz: Number = 0.0,
        reference_cs: CoordinateSystem | None = None,
    ) -> None:
        self.x, self.y, self.z = x, y, z
        self.rx, self.ry, self.rz = rx, ry, rz
        self.reference_cs = reference_cs

    def __setattr__(self, name, value):
        if name in _NUMBERS:
            if type(value) is not float or not abs(value) < float("inf"):
                check_number(value, name)
        elif name == "reference_cs":
            self._check_reference(value)
        elif type(self) is CoordinateSystem:
            check_attribute(self, name, (*_NUMBERS, "reference_cs"))
        object.__setattr__(self, name, value)

    def _check_reference(self, parent) -> None:
        if parent is None:
            return
        if not isinstance(parent, CoordinateSystem):
            raise TypeError(f"reference_cs got {type(parent).__name__}; it takes a CoordinateSystem or None")
        while parent is not None:
            if parent is self:
                raise ValueError("reference_cs got a frame that refers back to this one; frames must not form a circle")
            parent = parent.reference_cs

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={to_float(getattr(self, name)):g}" for name in _NUMBERS)
        parent = "" if self.reference_cs is None else f", reference_cs={self.reference_cs!r}"
        return f"CoordinateSystem({numbers}{parent})"


def lower_frames(
    systems: Sequence[CoordinateSystem], device: torch.device | str | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """World rotations (n, 3, 3) and origins (n, 3) in mm of ``n`` frames, float64, attached to every tensor in them.

    ``p_world = R @ p_local + t``. A frame that occurs several times, as itself or as a parent, is evaluated once.
    """
    # Level l holds the frames with l parents above them, so that each level is one batched product with the one above.
    place: dict[int, tuple[int, int]] = {}
    levels: list[list[CoordinateSystem]] = []
    for system in systems:
        chain = []
        while system is not None and id(system) not in place:
            chain.append(system)
            system = system.reference_cs
        level = 0 if system is None else place[id(system)][0] + 1
        for depth, member in enumerate(reversed(chain), start=level):
            if depth == len(levels):
                levels.append([])
            place[id(member)] = (depth, len(levels[depth]))
            levels[depth].append(member)
    if not levels:
        return torch.zeros((0, 3, 3), dtype=torch.float64), torch.zeros((0, 3), dtype=torch.float64)

    ordered = [member for level in levels for member in level]
    numbers = stack([v for s in ordered for v in (s.x, s.y, s.z, s.rx, s.ry, s.rz)], device).reshape(-1, 6)
    local_t, local_r = numbers[:, :3], _rotations(numbers[:, 3:])
    rotations, origins, offsets, start = [], [], [], 0
    for depth, level in enumerate(levels):
        stop = start + len(level)
        r, t = local_r[start:stop], local_t[start:stop]
        if depth:
            parent = torch.tensor([place[id(s.reference_cs)][1] for s in level], device=numbers.device)
            r_parent, t_parent = rotations[-1][parent], origins[-1][parent]
            t = t_parent + (r_parent @ t[:, :, None])[:, :, 0]
            r = r_parent @ r
        rotations.append(r)
        origins.append(t)
        offsets.append(start)
        start = stop
    rows = [offsets[depth] + position for depth, position in (place[id(s)] for s in systems)]
    index = torch.tensor(rows, device=numbers.device)
    return torch.cat(rotations)[index], torch.cat(origins)[index]


def _rotations(angles: torch.Tensor) -> torch.Tensor:
    """``Rz @ Ry @ Rx`` (n, 3, 3) of angles (n, 3) in radians."""
    cx, cy, cz = torch.cos(angles).unbind(1)
    sx, sy, sz = torch.sin(angles).unbind(1)
    rows = (
        (cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx),
        (sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx),
        (-sy, cy * sx, cy * cx),
    )
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)
