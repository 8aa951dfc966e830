"""Rays that went the same way, as one group, and more rays of it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from kernels.trace import layout as at
from kernels.trace.watch import Action

from ..numbers import check_count
from ..results.rays import RayDatabase
from .events import record
from .replay import Replay
from .signatures import ACTIONS, FollowSink

# fresh rays that are searched before the next look at how many were found
_BLOCK = 1 << 17
# a search gives up after so many times the rays that it should take
_PATIENCE = 50
_STATE_COLUMNS = ("x", "y", "z", "L", "M", "N", "flux", "path_length")


class PathStep(NamedTuple):
    """One event of a path: the part where it happens, and what happens.

    ``part`` is a surface or a detector, "medium" for a collision inside a medium that scatters, or "" for an end that
    nothing brought about.

    ``action`` is one of "refract", "reflect", "total" (reflection beyond the critical angle), "scatter", "absorb",
    "detect", "pass" (through a detector that lets rays pass), and of the ends "escape", "depth" and "roulette".
    """

    part: str
    action: str

    def __str__(self) -> str:
        return f"{self.part}:{self.action}" if self.part else self.action


@dataclass(frozen=True)
class _Found:
    """Rays where a path ends, by id."""

    ids: np.ndarray
    lines: np.ndarray
    rows: np.ndarray
    states: np.ndarray

    @classmethod
    def of(cls, sinks: list[FollowSink]) -> _Found:
        columns = [np.concatenate([getattr(s, f.name) for s in sinks], axis=-1) for f in fields(cls)]
        order = np.argsort(columns[0], kind="stable")
        return cls(*(column[..., order] for column in columns))

    def scaled(self, factor: float) -> _Found:
        """The same rays with another flux."""
        states = self.states.copy()
        states[at.FLUX] *= factor
        return replace(self, states=states)


@dataclass(frozen=True, eq=False)
class PathGroup:
    """Rays that went the same way up to where they reach a detector, or end.

    Attributes:
        source: where they come from. steps: what they met and what happened there, in order.
        flux: what they carry to the end of the path, W, for all rays of the trace also where only some were looked at.
        standard_error: of ``flux``, W, estimated from the spread of the rays of the source.
        share: ``flux`` over the flux at the same detector, or over the sources' flux where the path ends elsewhere.
        num_rays: rays found. ids: (num_rays,) their ids, ascending.
        ghosts: surfaces that refract, but here reflected part of the light, in order.
    """

    source: str
    steps: tuple[PathStep, ...]
    flux: float
    standard_error: float
    share: float
    ids: np.ndarray = field(repr=False)
    ghosts: tuple[str, ...]
    _replay: Replay = field(repr=False)
    _key: tuple[int, tuple[int, ...]] = field(repr=False)

    @property
    def num_rays(self) -> int:
        return len(self.ids)

    @property
    def order(self) -> int:
        """How many surfaces that refract reflected instead: 0 for the light that a design is made for."""
        return len(self.ghosts)

    @property
    def end(self) -> PathStep:
        """The last step."""
        return self.steps[-1]

    @property
    def signature(self) -> str:
        """The whole way as text: the source, then ``part:action`` for every step."""
        return " > ".join([self.source, *map(str, self.steps)])

    def rays(self, num_rays: int | None = None) -> RayDatabase:
        """Rays of this group where its path ends, in world coordinates; their flux adds up to that of the group in W.

        None takes the rays of the table. For a number, at least so many are found among fresh rays of the source:
        rays with other random numbers than the trace's, whose ids count on from its own. They estimate the group's flux
        independently of ``flux``; since the search stops when there are enough, high by a share of ``1 / num_rays``.

        Raises ValueError for a number below 1, and RuntimeError if far more rays were searched than should be needed.
        """
        found = self._own() if num_rays is None else self._fresh(check_count(num_rays, "num_rays"))
        columns = dict(zip(_STATE_COLUMNS, torch.tensor(found.states), strict=True))
        wavelength = torch.tensor(self._replay.ir.wavelengths[found.lines])
        return RayDatabase(name=self.end.part, wavelength=wavelength, ray_id=torch.tensor(found.ids), **columns)

    def map(self, num_rays: int | None = None) -> Any:
        """What the detector at the end of the path reads of this group alone: a result of the detector's own kind.

        ``num_rays`` and what it raises are as for `rays`. Raises ValueError where the path does not end at a detector
        with a map.
        """
        if self.end.part not in self._replay.blanks:
            raise ValueError(f"the path ends with {str(self.end)!r}, and not at a detector that has a map; see rays()")
        found = self._own() if num_rays is None else self._fresh(check_count(num_rays, "num_rays"))
        return self._replay.map_of(self.end.part, found.rows, found.states, found.lines)

    def events(self) -> np.ndarray:
        """Everything that happens to the group's rays: a structured array like ``ray_paths["events"]``.

        Where rays split, all that split off them are in it.
        """
        return record(self._replay, self.ids)["events"]

    def _own(self) -> _Found:
        found = _Found.of(self._follow(self._replay, self.ids))
        total = float(found.states[at.FLUX].sum())
        return found.scaled(self.flux / total if total else 1.0)

    def _fresh(self, wanted: int) -> _Found:
        source = self._replay.ir.sources[self._key[0]]
        own = source.stop - source.start
        patience = _PATIENCE * own * (1 + wanted // self.num_rays)
        sinks, found, searched, number = [], 0, 0, 0
        while found < wanted:
            number += 1
            fresh = self._replay.round(number)
            for first in range(0, own, _BLOCK):
                ids = np.arange(source.start + first, source.start + min(first + _BLOCK, own))
                for sink in self._follow(fresh, ids):
                    sink.ids = sink.ids + number * self._replay.options.num_rays
                    sinks.append(sink)
                    found += len(sink.ids)
                searched += len(ids)
                if found >= wanted:
                    break
            if searched > patience:
                raise RuntimeError(f"{searched} fresh rays hold {found} of the group; it should take far fewer")
        return _Found.of(sinks).scaled(own / searched)

    def _follow(self, replay: Replay, ids: np.ndarray) -> list[FollowSink]:
        source, codes = self._key
        return replay.watch(ids, lambda: FollowSink(source, codes, replay))

    def __str__(self) -> str:
        return f"{self.flux:.6g} W +- {self.standard_error:.2g} in {self.num_rays} rays: {self.signature}"


def steps_of(replay: Replay, codes: tuple[int, ...]) -> tuple[PathStep, ...]:
    """The events of a signature by name."""
    return tuple(PathStep(replay.labels[code // ACTIONS], Action(code % ACTIONS).name.lower()) for code in codes)


def ghosts_of(replay: Replay, codes: tuple[int, ...], refracts: np.ndarray) -> tuple[str, ...]:
    """The parts that reflect although they refract, by ``refracts`` (parts,), in order."""
    parts = [code // ACTIONS for code in codes if code % ACTIONS == Action.REFLECT]
    return tuple(replay.names[part] for part in parts if refracts[part])
