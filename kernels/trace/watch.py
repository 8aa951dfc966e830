"""What a lane's rays do, told to whoever wants to know: the births of a batch, then every bounce as a `Meeting`.

A watch copies to the host what the next launches overwrite. It changes nothing, and a lane without one pays nothing.
"""

import enum
from dataclasses import dataclass

import numpy as np

from kernels import rng
from kernels.precision import REALS
from kernels.shapes.quadric import NUM_NUMBERS
from kernels.trace import layout as at

_SCATTER_BRANCH = 6
_TINY_SHARE = 1e-6


class Action(enum.IntEnum):
    """What happens to a ray at an event. A total reflection is one beyond the critical angle."""

    REFRACT = 0
    REFLECT = 1
    TOTAL = 2
    SCATTER = 3
    ABSORB = 4
    DETECT = 5
    PASS = 6
    ESCAPE = 7
    DEPTH = 8
    ROULETTE = 9


# (actions,) whether an action is the end of a ray
ENDS = np.array([action in (Action.ABSORB, Action.DETECT) or action >= Action.ESCAPE for action in Action])


@dataclass(frozen=True)
class Births:
    """Rays as they are born: ids (n,), spectral lines (n,), state columns (8, n)."""

    ids: np.ndarray
    lines: np.ndarray
    states: np.ndarray


@dataclass(frozen=True)
class Part:
    """One way on from a meeting: of which of its rays (m,), what they did (m,), their states (8, m) before roulette,
    and which end at the depth limit or in roulette although nothing stopped them (m,), as an `Action` or -1."""

    of: np.ndarray
    action: np.ndarray
    states: np.ndarray
    killed: np.ndarray

    @property
    def goes_on(self):
        """(m,) booleans."""
        return ~ENDS[self.action] & (self.killed < 0)


@dataclass(frozen=True)
class Meeting:
    """One bounce of the n rays that were alive.

    ``parent`` (n,) numbers them among those that went on from the meeting before, all parts of it one after another, or
    among the births. ``row`` (n,) is what they met, -1 for nothing, and less for a collision inside a medium; ``flux``
    (n,) what they carried there. ``place`` (3, n) is where they are then. Rays that split have a second part.
    """

    bounce: int
    parent: np.ndarray
    ids: np.ndarray
    lines: np.ndarray
    states: np.ndarray
    row: np.ndarray
    flux: np.ndarray
    place: np.ndarray
    parts: tuple


class Watch:
    """Looks on at a lane, and hands ``sink.born(Births)`` and ``sink.met(Meeting)`` what it sees."""

    def __init__(self, lane, sink):
        tables = lane.tables
        self._lane, self._sink = lane, sink
        self._rows = tables.rows.numpy().reshape(-1, at.NUM_ROW_INTS)
        self._numbers = tables.numbers.numpy().reshape(-1, NUM_NUMBERS).astype(np.float64)
        self._index = tables.index.numpy().reshape(-1, tables.num_lines).astype(np.float64)
        self._shares = tables.shares.numpy().reshape(-1, at.NUM_SCATTER)
        self._rays, self._next, self._moved, self._pending = None, [], [], None

    def born(self, state, base, count):
        floats, ints = _columns(state, count)
        self._rays, self._next, self._moved = np.arange(count), [], []
        self._sink.born(
            Births(base + ints[at.SLOT].astype(np.int64), ints[at.WAVELENGTH].copy(), floats.astype(np.float64))
        )

    def met(self, bounce, base, count, before, afters, row_hit, aux):
        """After the interaction, before the books and roulette."""
        if self._moved:
            self._rays = np.concatenate(self._moved)
        elif self._next:
            self._rays = self._next[0]
        self._next, self._moved = [], []
        floats, ints = _columns(before, count)
        cells = np.flatnonzero(ints[at.STATE] == at.ALIVE)
        row = row_hit.numpy()[:count][cells]
        meeting = {
            "bounce": bounce, "parent": self._rays[cells], "ids": base + ints[at.SLOT, cells].astype(np.int64),
            "lines": ints[at.WAVELENGTH, cells], "states": _doubles(floats[:, cells]), "row": row,
            "flux": _column(aux, at.FLUX_AT_HIT, count)[cells].astype(np.float64),
        }  # fmt: skip
        after, _ = _columns(afters[0], count)
        meeting["place"] = _doubles(after[: at.L, cells])
        keys = None
        if self._lane.splits:
            keys = _join(ints[at.KEY_LOW, cells], ints[at.KEY_HIGH, cells])
        looks = self._looks(meeting, cells, keys)
        parts = []
        for number, state in enumerate(afters):
            floats, ints = _columns(state, count)
            # of a second part only what split off is a ray
            there = np.arange(len(cells)) if number == 0 else np.flatnonzero(ints[at.STATE, cells] == at.ALIVE)
            states = _doubles(floats[:, cells[there]])
            parts.append((there, states, self._actions(meeting, looks, there, states, ints[at.STATE, cells[there]])))
        self._pending = (cells, count, meeting, parts)

    def settled(self, afters):
        """After the books and roulette."""
        cells, count, meeting, parts = self._pending
        last = meeting["bounce"] + 1 >= self._lane.run.max_depth
        done, number = [], 0
        for (there, states, actions), after in zip(parts, afters, strict=True):
            state = _columns(after, count)[1][at.STATE]
            killed = np.full(len(there), -1)
            unstopped = ~ENDS[actions]
            killed[unstopped & (state[cells[there]] != at.ALIVE)] = Action.ROULETTE
            if last:
                killed[unstopped] = Action.DEPTH
            part = Part(there, actions, states, killed)
            going = cells[there[part.goes_on]]
            rays = np.full(count, -1)
            rays[going] = number + np.arange(len(going))
            number += len(going)
            self._next.append(rays)
            done.append(part)
        self._sink.met(Meeting(**meeting, parts=tuple(done)))

    def moved(self, part, kept, count):
        """After the living of a part were moved to the front, behind those of the parts before."""
        self._moved.append(self._next[part][kept.numpy()[:count]])

    def _looks(self, meeting, cells, keys):
        """Of the rays of a meeting: the geometric normal there (3, n), whether a lobe scattered them (n,)."""
        row, valid = meeting["row"], meeting["row"] >= 0
        numbers = self._numbers[np.where(valid, row, 0)].T
        q = meeting["place"] - numbers[:3]
        slope = numbers[7] * np.sum(numbers[3:6] * q, axis=0) + numbers[8]
        normal = numbers[6] * q + slope * numbers[3:6]
        table = self._rows[np.where(valid, row, 0)]
        sag = valid & (table[:, at.SAG] >= 0)
        if sag.any():
            given = self._lane.given.numpy().reshape(at.NUM_GIVEN, -1)
            normal[:, sag] = given[1:, cells[sag]]
        return normal, self._scattered(meeting, table, keys)

    def _scattered(self, meeting, table, keys):
        """The branch that `kernels.trace.scatter` took: the same draw against the same share."""
        lobed = np.flatnonzero((meeting["row"] >= 0) & (table[:, at.LOBE] >= 0))
        out = np.zeros(len(table), dtype=bool)
        if lobed.size:
            ids = meeting["ids"][lobed] if keys is None else keys[lobed]
            run, real = self._lane.run, self._shares.dtype
            bits = rng.draw(run.seed, ids, np.full(len(ids), meeting["bounce"]), _SCATTER_BRANCH)
            u = bits / 2.0**32 if REALS["float64"] is self._real else (bits >> 8) / 2.0**24
            share = self._shares[meeting["row"][lobed], at.SCATTER_SHARE]
            out[lobed] = u < np.clip(share, real.type(_TINY_SHARE), real.type(1.0) - real.type(_TINY_SHARE))
        return out

    @property
    def _real(self):
        return REALS[self._lane.tables.precision]

    def _actions(self, meeting, looks, there, states, state):
        """What each of the rays ``there`` did."""
        row, (normal, scattered) = meeting["row"][there], looks
        table = self._rows[np.where(row >= 0, row, 0)]
        kind, line = table[:, at.KIND], meeting["lines"][there]
        before = meeting["states"][at.L : at.FLUX, there]
        normal = normal[:, there]
        along = np.sum(before * normal, axis=0)
        same_side = along * np.sum(states[at.L : at.FLUX] * normal, axis=0) < 0.0
        front, back = self._index[table[:, at.FRONT], line], self._index[table[:, at.BACK], line]
        arriving, beyond = np.where(along < 0.0, (back, front), (front, back))
        # beyond the critical angle, n1 sin > n2
        sine2 = 1.0 - along**2 / np.maximum(np.sum(normal**2, axis=0), np.finfo(np.float64).tiny)
        total = (kind <= at.COATED) & (arriving**2 * sine2 > beyond**2)
        action = np.select(
            [row < 0, kind == at.TAP, kind == at.DETECTOR, kind == at.ABSORBER, scattered[there], same_side & total,
             same_side],
            [Action.SCATTER, Action.PASS, Action.DETECT, Action.ABSORB, Action.SCATTER, Action.TOTAL, Action.REFLECT],
            Action.REFRACT,
        )  # fmt: skip
        return np.where(state == at.ESCAPED, Action.ESCAPE, action)


def _columns(state, count):
    """Float columns (8, count) and integer columns (8, count) of a state, on the host; on a CPU they are its own."""
    return state.floats.numpy().reshape(at.NUM_FLOATS, -1)[:, :count], state.ints.numpy().reshape(at.NUM_INTS, -1)[
        :, :count
    ]


def _doubles(values):
    return values.astype(np.float64, copy=False)


def _column(array, column, count):
    size = len(array) // at.NUM_AUX
    return array.numpy()[column * size : column * size + count]


def _join(low, high):
    """64-bit keys from their halves."""
    return (high.astype(np.uint32).astype(np.uint64) << np.uint64(32)) | low.astype(np.uint32).astype(np.uint64)
