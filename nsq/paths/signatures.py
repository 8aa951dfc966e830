"""Which way each ray went: its signature is the source and every part that it met, with what happened there.

A signature is a node of a tree that all rays share: the root is a source, and every event leads to a child. An event is
one integer, the number of the part times `ACTIONS` plus the action.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from kernels.trace import layout as at
from kernels.trace.watch import Action, Births, Meeting

from .replay import Replay

ACTIONS = len(Action)
# so many different ways of a ray are more than anybody reads, and more than memory should hold
MOST_NODES = 2_000_000


def code_of(part: int | np.ndarray, action: int | np.ndarray) -> int | np.ndarray:
    """The integer of an event at a part, as `Replay.parts_of` numbers them."""
    return part * ACTIONS + action


class SignatureTree:
    """All signatures seen. Nodes are numbered as they come; the first are the sources."""

    def __init__(self, num_sources: int) -> None:
        self._children: dict[tuple[int, int], int] = {}
        self._parents: list[int] = [-1] * num_sources
        self._codes: list[int] = list(range(num_sources))
        self._lock = threading.Lock()

    def children(self, nodes: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Where events lead to from nodes, both (n,)."""
        if not len(nodes):
            return nodes
        top = int(codes.max()) + 1
        pairs, inverse = np.unique(nodes * top + codes, return_inverse=True)
        with self._lock:
            found = [self._child(*divmod(pair, top)) for pair in pairs.tolist()]
        return np.array(found)[inverse.ravel()]

    def _child(self, node: int, code: int) -> int:
        child = self._children.get((node, code))
        if child is None:
            child = self._children[node, code] = len(self._parents)
            if child >= MOST_NODES:
                raise ValueError(
                    f"the rays went more than {MOST_NODES} different ways; look at fewer of them with num_rays, or"
                    " trace to a smaller max_depth"
                )
            self._parents.append(node)
            self._codes.append(code)
        return child

    def signature(self, node: int) -> tuple[int, tuple[int, ...]]:
        """The source and the events of a node."""
        codes = []
        while self._parents[node] >= 0:
            codes.append(self._codes[node])
            node = self._parents[node]
        return node, tuple(reversed(codes))


@dataclass
class SignatureSink:
    """Arrivals at detectors and ends of one batch: node, id and flux of each."""

    replay: Replay
    tree: SignatureTree

    def __post_init__(self) -> None:
        self.arrivals: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def born(self, births: Births) -> None:
        self._nodes = self.replay.source_of(births.ids)

    def met(self, meeting: Meeting) -> None:
        nobody = len(self.replay.names)
        met = self.replay.parts_of(meeting.row)
        before, going = self._nodes[meeting.parent], []
        for part in meeting.parts:
            action, of = part.action, part.of
            nodes = self.tree.children(before[of], code_of(met[of], action))
            told = np.flatnonzero((action == Action.PASS) | np.isin(action, _LAST))
            self.arrivals.append((nodes[told], meeting.ids[of[told]], meeting.flux[of[told]]))
            lost = np.flatnonzero(part.killed >= 0)
            ends = self.tree.children(nodes[lost], code_of(nobody, part.killed[lost]))
            self.arrivals.append((ends, meeting.ids[of[lost]], part.states[at.FLUX, lost]))
            going.append(nodes[part.goes_on])
        self._nodes = np.concatenate(going)


_LAST = (Action.ABSORB, Action.DETECT, Action.ESCAPE)


class FollowSink:
    """The rays of one batch that go one way: ids, lines, and rows and states (8, n) where that way ends."""

    def __init__(self, source: int, codes: tuple[int, ...], replay: Replay) -> None:
        self._source, self._codes, self._replay = source, codes, replay
        self.ids = np.zeros(0, np.int64)
        self.lines = np.zeros(0, np.int64)
        self.rows = np.zeros(0, np.int64)
        self.states = np.zeros((at.NUM_FLOATS, 0))

    def born(self, births: Births) -> None:
        self._on = self._replay.source_of(births.ids) == self._source

    def met(self, meeting: Meeting) -> None:
        if meeting.bounce >= len(self._codes):
            self._on = np.zeros(sum(int(part.goes_on.sum()) for part in meeting.parts), dtype=bool)
            return
        nobody = len(self._replay.names)
        met = self._replay.parts_of(meeting.row)
        rest = self._codes[meeting.bounce + 1 :]
        going = []
        for part in meeting.parts:
            on = self._on[meeting.parent[part.of]]
            on = on & (code_of(met[part.of], part.action) == self._codes[meeting.bounce])
            arrived = np.flatnonzero(on) if not rest else np.zeros(0, np.int64)
            flux = meeting.flux[part.of]
            if len(rest) == 1 and rest[0] // ACTIONS == nobody:
                # an end that no part brings about follows in the same meeting
                arrived, flux = np.flatnonzero(on & (part.killed == rest[0] % ACTIONS)), part.states[at.FLUX]
            if arrived.size:
                states = part.states[:, arrived].copy()
                of = part.of[arrived]
                states[: at.L], states[at.FLUX] = meeting.place[:, of], flux[arrived]
                self.ids = np.concatenate([self.ids, meeting.ids[of]])
                self.lines = np.concatenate([self.lines, meeting.lines[of]])
                self.rows = np.concatenate([self.rows, meeting.row[of]])
                self.states = np.concatenate([self.states, states], axis=1)
            going.append(on[part.goes_on])
        self._on = np.concatenate(going)
