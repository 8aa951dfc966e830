"""Importance sampling of scatter: a share of a surface's scattered rays goes towards where they matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ._names import named_arguments
from .numbers import Number, check_constant

Importance = Any  # None, an ImportanceTarget or several


@named_arguments
@dataclass(frozen=True)
class ImportanceTarget:
    """Where a surface sends a share of the rays that it scatters; the mean of every result stays what it is.

    Args:
        target: name of a component, of one of its surfaces ("L1.front") or of a detector; None for a sphere in space.
        centre, radius: of that sphere, in world coordinates, mm, radius > 0. A disc is given by the sphere around it.
        share: of the scattered rays, 0 < share < 1.

    A named target counts as a sphere that holds it. Directions are drawn evenly over the
    cone that the sphere is seen in, and the rest, 1 - share, from the lobe; a ray's weight is the lobe's flux per
    steradian over the probability that the mixture as a whole has for its direction (the balance heuristic). The
    weight is at most the lobe's own over 1 - share. From a point within the sphere all rays follow the lobe. Sampling
    with a cone pays where the lobe is wide against it; a lobe that is narrower is better left alone.

    Weights carry the gradients, to the lobe's numbers and to the pose of the surface; directions are numbers, and
    where they aim has no derivative, as no result depends on it.

    Raises TypeError and ValueError naming the argument.
    """

    target: str | None = None
    centre: Sequence[float] | None = None
    radius: Number | None = None
    share: Number = 0.5

    def __post_init__(self) -> None:
        if self.target is not None and (not isinstance(self.target, str) or not self.target.strip()):
            kind = type(self.target).__name__
            raise TypeError(f"target got {self.target!r} of type {kind}; it takes the name of a component or detector")
        named, placed = self.target is not None, (self.centre is not None, self.radius is not None)
        if named == any(placed) or placed[0] != placed[1]:
            raise ValueError(
                f"target, centre and radius got {self.target!r}, {self.centre!r} and {self.radius!r};"
                " they take a name alone, or a centre and a radius"
            )
        if not named:
            object.__setattr__(self, "centre", _point(self.centre))
            check_constant(self.radius, "radius", positive=True)
        share = check_constant(self.share, "share")
        if not 0.0 < share < 1.0:
            raise ValueError(f"share got {share!r}; it takes a number between 0 and 1, both excluded")


def _point(value: Any) -> tuple[float, float, float]:
    takes = "it takes three finite numbers x, y, z in mm, constants"
    if isinstance(value, torch.Tensor) and value.requires_grad:
        raise ValueError(f"centre got a tensor that requires a gradient; {takes}")
    try:
        point = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"centre got {value!r}; {takes}") from None
    if point.shape != (3,) or not np.all(np.isfinite(point)):
        raise ValueError(f"centre got {value!r}; {takes}")
    return tuple(point.tolist())


def targets_of(importance: Importance) -> tuple[ImportanceTarget, ...]:
    """The targets of a surface: none for None, one, or several in a sequence."""
    if importance is None:
        return ()
    return (importance,) if isinstance(importance, ImportanceTarget) else tuple(importance)


def check_importance(importance: Any, bsdf: Any, name: str = "importance") -> Any:
    """Check the targets of a surface with that lobe and return them."""
    takes = "it takes None, an ImportanceTarget or a sequence of them"
    several = isinstance(importance, Sequence) and not isinstance(importance, str)
    if not (importance is None or isinstance(importance, ImportanceTarget) or several):
        raise TypeError(f"{name} got {importance!r} of type {type(importance).__name__}; {takes}")
    targets = targets_of(importance)
    for place, target in enumerate(targets):
        if not isinstance(target, ImportanceTarget):
            raise TypeError(f"{name}[{place}] got {target!r} of type {type(target).__name__}; {takes}")
    if not targets:
        return importance
    total = sum(float(target.share) for target in targets)
    if total >= 1.0:
        raise ValueError(f"{name} got shares that sum to {total:g}; they take a sum below 1, the rest is the lobe's")
    if bsdf is None:
        raise ValueError(f"{name} got targets for a surface without a bsdf; it takes None where nothing scatters")
    if not bsdf.has_density:
        raise ValueError(
            f"{name} got targets for a {type(bsdf).__name__}, which sends light in one direction alone; it takes None"
        )
    return importance
