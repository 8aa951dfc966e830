"""Gradients of a scene against central differences of traces, with the noise of both.

    check = nsq.check_gradients(scene, {"stop": radius}, lambda result: result.detectors["D"].total_flux)
    print(check)

A difference at one seed uses the same random numbers on both sides. That leaves the noise of the rays that change their
fate within the step, which is what visibility is about; so both the gradient and the difference are averaged over
seeds, and judged by the standard error of the mean of gradient minus difference, seed by seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .numbers import check_count, check_number
from .scene import NSQScene

# a step is this share of a parameter, and this itself where the parameter is 0
_STEP = 0.01
# verdicts
AGREES, DIFFERS, NOISY = "agrees", "differs", "too noisy to tell"


@dataclass(frozen=True)
class ParameterCheck:
    """One parameter's gradient and difference.

    Attributes:
        name: the parameter's; "name, in a direction" for one of several entries, which is checked along one direction.
        value: where it was checked; the length of it for several entries.
        gradient, difference: means over seeds.
        standard_error: of gradient - difference.
        verdict: "too noisy to tell" if the standard error is above a tenth of the larger of the two; else "agrees" if
            they are within three standard errors of each other, and "differs" if not.
    """

    name: str
    value: float
    gradient: float
    difference: float
    standard_error: float
    verdict: str


@dataclass(frozen=True)
class GradientCheck:
    """What `check_gradients` found: ``rows`` in the order of the parameters. As a text it is a table."""

    rows: tuple[ParameterCheck, ...]

    @property
    def agrees(self) -> bool:
        """Whether every verdict is "agrees"."""
        return all(row.verdict == AGREES for row in self.rows)

    def __str__(self) -> str:
        width = max(len("parameter"), *(len(row.name) for row in self.rows))
        lines = [
            f"{'parameter':{width}}  {'value':>12} {'gradient':>13} {'difference':>13} {'std. error':>11}  verdict"
        ]
        lines += [
            f"{row.name:{width}}  {row.value:12.6g} {row.gradient:13.6g} {row.difference:13.6g}"
            f" {row.standard_error:11.2g}  {row.verdict}"
            for row in self.rows
        ]
        return "\n".join(lines)


def check_gradients(
    scene: NSQScene | Callable[[], NSQScene],
    params: Mapping[str, torch.Tensor],
    loss: Callable[[Any], torch.Tensor],
    *,
    num_rays: int = 100_000,
    num_seeds: int = 8,
    step: float | Mapping[str, float] | None = None,
    **options: Any,
) -> GradientCheck:
    """Compare the gradients of a loss with central differences over many seeds.

    Args:
        scene: an NSQScene that holds the parameters themselves, or a function that builds one from them; the latter
            where a number of the scene is computed from a parameter (``x + 10.0``).
        params: leaf tensors of float dtype that require a gradient, by name. They are moved in place, and put back.
        loss: from a `SimulationResult` to a 0-d tensor.
        num_rays: rays of each trace; every parameter takes two of them for each seed, and one seed one with a gradient.
        num_seeds: >= 2.
        step: how far a parameter is moved to either side, by name or for all; None is 1 % of it, or 0.01 where it is 0.
            Wide enough that many rays change their fate within it, and narrow enough that the loss is nearly
            a parabola.
        options: go to ``scene.trace``: ``max_depth``, ``precision``, ``visibility`` and so on, but no ``seed``.

    With ``reflect_prob="fresnel"`` branches at faces move with the parameters, which makes differences noisy;
    ``SamplingPolicy(reflect_prob=0.3)`` keeps them. Raises TypeError and ValueError naming what is wrong.
    """
    build = _builder(scene)
    leaves = _checked(params)
    num_rays, num_seeds = check_count(num_rays, "num_rays"), check_count(num_seeds, "num_seeds", minimum=2)
    if "seed" in options:
        raise ValueError("seed got a value; it takes none, seeds are 0 to num_seeds - 1")

    def value(seed: int) -> torch.Tensor:
        found = loss(build().trace(num_rays, seed=seed, **options))
        if not isinstance(found, torch.Tensor) or found.dim() != 0:
            raise TypeError(f"loss got {type(found).__name__} of its function; it takes a 0-d tensor")
        return found

    directions = {name: _direction(leaf) for name, leaf in leaves.items()}
    gradients = {name: np.zeros(num_seeds) for name in leaves}
    for seed in range(num_seeds):
        found = torch.autograd.grad(value(seed), list(leaves.values()), allow_unused=True)
        for (name, _), gradient in zip(leaves.items(), found, strict=True):
            if gradient is not None:
                gradients[name][seed] = float((gradient * directions[name]).sum())
    rows = []
    for name, leaf in leaves.items():
        size = _step(step, name, leaf)
        differences = _differences(value, leaf, directions[name] * size, num_seeds) / (2.0 * size)
        rows.append(_judge(name, leaf, gradients[name], differences))
    return GradientCheck(tuple(rows))


def _differences(value: Callable[[int], Any], leaf: torch.Tensor, move: torch.Tensor, num_seeds: int) -> np.ndarray:
    """The loss one move up minus one move down, for every seed."""
    kept = leaf.detach().clone()
    sides = []
    try:
        for sign in (1.0, -1.0):
            with torch.no_grad():
                leaf.copy_(kept + sign * move)
                sides.append([float(value(seed)) for seed in range(num_seeds)])
    finally:
        with torch.no_grad():
            leaf.copy_(kept)
    return np.subtract(*sides)


def _judge(name: str, leaf: torch.Tensor, gradients: np.ndarray, differences: np.ndarray) -> ParameterCheck:
    gradient, difference = float(gradients.mean()), float(differences.mean())
    error = float(np.std(gradients - differences, ddof=1)) / math.sqrt(len(gradients))
    largest = max(abs(gradient), abs(difference))
    if error > 0.1 * largest:
        verdict = NOISY
    else:  # NaN differs from everything
        verdict = AGREES if abs(gradient - difference) <= max(3.0 * error, 1e-4 * largest) else DIFFERS
    several = leaf.numel() > 1
    return ParameterCheck(
        name=f"{name}, in a direction" if several else name,
        value=float(torch.linalg.vector_norm(leaf.detach())) if several else float(leaf.detach()),
        gradient=gradient, difference=difference, standard_error=error, verdict=verdict,
    )  # fmt: skip


def _direction(leaf: torch.Tensor) -> torch.Tensor:
    """1 for one number, a fixed random unit vector for several."""
    if leaf.numel() == 1:
        return torch.ones_like(leaf)
    numbers = np.random.default_rng(0).standard_normal(tuple(leaf.shape))
    return torch.as_tensor(numbers / np.linalg.norm(numbers), dtype=leaf.dtype, device=leaf.device)


def _builder(scene: Any) -> Callable[[], NSQScene]:
    if isinstance(scene, NSQScene):
        return lambda: scene
    if callable(scene):
        return scene
    raise TypeError(f"scene got {type(scene).__name__}; it takes an NSQScene, or a function that builds one")


def _checked(params: Any) -> dict[str, torch.Tensor]:
    if not isinstance(params, Mapping) or not params:
        raise TypeError(f"params got {params!r}; it takes tensors by name, at least one")
    for name, leaf in params.items():
        if not isinstance(leaf, torch.Tensor) or not leaf.dtype.is_floating_point:
            raise TypeError(f"params[{name!r}] got {leaf!r}; it takes a tensor of float dtype")
        if not (leaf.is_leaf and leaf.requires_grad):
            raise ValueError(f"params[{name!r}] got a tensor that is no leaf with requires_grad; it takes one")
    return dict(params)


def _step(step: Any, name: str, leaf: torch.Tensor) -> float:
    if isinstance(step, Mapping):
        if name not in step:
            raise ValueError(f"step got no entry {name!r}; it takes one for every parameter")
        step = step[name]
    if step is None:
        size = float(torch.linalg.vector_norm(leaf.detach())) / math.sqrt(leaf.numel())
        return _STEP * size if size > 0.0 else _STEP
    return float(check_number(step, f"step of {name!r}", positive=True))
