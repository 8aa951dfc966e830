"""Every event of chosen rays: where each is born, what it meets, and where it is lost."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.trace import layout as at
from kernels.trace.watch import Action, Births, Meeting

from .replay import Replay

EVENT_DTYPE = np.dtype(
    [("ray_id", "i8"), ("event_type", "U10")]
    + [(name, "f8") for name in ("x", "y", "z", "L", "M", "N", "flux", "wavelength")]
    + [("bounce", "i4"), ("component_name", "U64")]
)
#: rays that split off others: their ids, whom they split off, and their first bounce
SPLIT_DTYPE = np.dtype([("ray_id", "i8"), ("parent_id", "i8"), ("bounce", "i4")])
_TYPES = np.array(["birth", "hit", "death"], dtype="U10")
_BIRTH, _HIT, _DEATH = range(3)
_CAUSES = {Action.ESCAPE: "escaped", Action.DEPTH: "depth_killed", Action.ROULETTE: "flux_killed"}
_STATE_COLUMNS = ("x", "y", "z", "L", "M", "N", "flux")


class _Sink:
    """Events of one batch. A ray is a pair: its place in the batch, and its rank among all that split off there."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.ids = np.zeros(0, np.int64)
        self.columns: list[tuple[Any, ...]] = []
        self.splits: list[tuple[np.ndarray, np.ndarray, np.ndarray, int]] = []

    def born(self, births: Births) -> None:
        self.ids = births.ids
        self._place = np.arange(len(births.ids))
        self._rank = np.zeros(len(births.ids), np.int64)
        self._descendants = np.zeros(len(births.ids), np.int64)
        first = len(self._replay.labels) + len(_CAUSES)
        names = first + self._replay.source_of(births.ids)
        self._add(_BIRTH, self._place, self._rank, births.states[: at.PATH], births.lines, 0, names)

    def met(self, meeting: Meeting) -> None:
        place, rank = self._place[meeting.parent], self._rank[meeting.parent]
        part_of = self._replay.parts_of(meeting.row)
        states = np.concatenate([meeting.place, meeting.states[at.L : at.FLUX], meeting.flux[None]])
        hit = np.flatnonzero(meeting.row != -1)
        self._add(_HIT, place[hit], rank[hit], states[:, hit], meeting.lines[hit], meeting.bounce, part_of[hit])
        going = []
        for number, part in enumerate(meeting.parts):
            own, ranks, lines = place[part.of], rank[part.of], meeting.lines[part.of]
            states = part.states[: at.PATH]
            if number:
                parents, ranks = ranks, self._ranks(own, ranks)
                self.splits.append((own, ranks, parents, meeting.bounce + 1))
                self._add(_BIRTH, own, ranks, states, lines, meeting.bounce + 1, part_of[part.of])
            for name, cause in enumerate(_CAUSES, start=len(self._replay.labels)):
                lost = np.flatnonzero((part.action == cause) | (part.killed == cause))
                bounce = meeting.bounce + (cause != Action.ESCAPE)
                self._add(_DEATH, own[lost], ranks[lost], states[:, lost], lines[lost], bounce, name)
            going.append((own[part.goes_on], ranks[part.goes_on]))
        self._place, self._rank = (np.concatenate(column) for column in zip(*going, strict=True))

    def _ranks(self, place: np.ndarray, parents: np.ndarray) -> np.ndarray:
        """Ranks of rays that split off, in order of their parents' ranks, which no batch has a say in."""
        order = np.lexsort((parents, place))
        sorted_place = place[order]
        first = np.searchsorted(sorted_place, sorted_place, side="left")
        ranks = np.empty(len(place), np.int64)
        ranks[order] = self._descendants[sorted_place] + np.arange(len(place)) - first + 1
        np.add.at(self._descendants, place, 1)
        return ranks

    def _add(self, kind: int, place: Any, rank: Any, states: Any, lines: Any, bounce: int, names: Any) -> None:
        count = len(place)
        self.columns.append(
            (np.full(count, kind), place, rank, states, lines, np.full(count, bounce), np.broadcast_to(names, count))
        )


def record(replay: Replay, ids: np.ndarray) -> dict[str, np.ndarray]:
    """The events of rays of ascending ``ids``, by ray, bounce and time, and who split off whom.

    Rays that split off are numbered from the trace's number of rays on, in order of the rays that they come from.
    """
    sinks = replay.watch(ids, lambda: _Sink(replay))
    base, events, splits = replay.options.num_rays, [], []
    names = np.array([*replay.labels, *_CAUSES.values(), *replay.source_names], dtype=EVENT_DTYPE["component_name"])
    for sink in sinks:
        # rank r > 0 of the ray at place p is number r among those of p, after those of all places before
        before = base - 1 + np.concatenate([[0], np.cumsum(sink._descendants)[:-1]])
        base += int(sink._descendants.sum())

        def number(place: np.ndarray, rank: np.ndarray, ids: np.ndarray = sink.ids, before: np.ndarray = before):
            return np.where(rank == 0, ids[place], before[place] + rank)

        kind, place, rank, states, lines, bounce, name = (
            np.concatenate(column, axis=-1) for column in zip(*sink.columns, strict=True)
        )
        rows = np.zeros(len(kind), EVENT_DTYPE)
        rows["ray_id"] = number(place, rank)
        rows["event_type"] = _TYPES[kind]
        for column, values in zip(_STATE_COLUMNS, states, strict=True):
            rows[column] = values
        rows["wavelength"] = replay.ir.wavelengths[lines]
        rows["bounce"] = bounce
        rows["component_name"] = names[name]
        events.append(rows[np.lexsort((kind, bounce, rows["ray_id"]))])
        for place, rank, parent, bounce in sink.splits:
            table = np.zeros(len(place), SPLIT_DTYPE)
            table["ray_id"], table["parent_id"] = number(place, rank), number(place, parent)
            table["bounce"] = bounce
            splits.append(table)
    rows = np.concatenate(events) if events else np.zeros(0, EVENT_DTYPE)
    # rays that split off come behind all others, whatever batch they belong to
    out = {"events": rows[np.argsort(rows["ray_id"], kind="stable")]}
    if replay.options.split_depth:
        table = np.concatenate(splits) if splits else np.zeros(0, SPLIT_DTYPE)
        out["splits"] = table[np.argsort(table["ray_id"], kind="stable")]
    return out
