"""Trace a batch again with its states kept.

A replay makes the forward pass's decisions bit for bit, since every one is a function of the ray's id.
"""

from dataclasses import dataclass

import warp as wp

from kernels.precision import REALS
from kernels.trace import layout as at
from kernels.trace.books import compact_kernels
from kernels.trace.command import Command
from kernels.trace.wavefront import Bounce, Counters, Emitter, Lane, State


@dataclass(frozen=True)
class Stage:
    """One bounce of a batch: the states before and after, the decisions, which rays go on, and which were detected."""

    before: State
    after: State
    distance: wp.array
    row_hit: wp.array
    boost: wp.array
    kept: wp.array
    landed: wp.array

    @classmethod
    def empty(cls, precision, device, capacity):
        real = REALS[precision]
        return cls(
            State.empty(precision, device, capacity), State.empty(precision, device, capacity),
            wp.empty(at.NUM_DISTANCES * capacity, dtype=real, device=device),
            wp.empty(capacity, dtype=wp.int32, device=device),
            wp.empty(capacity, dtype=real, device=device),
            *(wp.empty(capacity + 1, dtype=wp.int32, device=device) for _ in range(2)),
        )  # fmt: skip


@dataclass(frozen=True)
class Step:
    """How a bounce of a recorded batch went: rays in it, left, and detected, and what happened to them."""

    count: int
    live: int
    landed: int
    rouletted: bool
    recorded: bool
    bounce: Bounce


@dataclass(frozen=True)
class Record:
    """What the adjoints of the batch ``start <= id < stop`` need."""

    start: int
    stop: int
    stages: tuple
    steps: tuple


class ReplayLane(Lane):
    """A lane whose states stay until it traces the next batch."""

    def __init__(self, tables, run, capacity, *, fills_maps=True):
        super().__init__(tables, run, capacity)
        self.fills_maps = fills_maps
        self._stages, self._bounces, self._moves = [], [], []
        self._aux = wp.empty(at.NUM_AUX * capacity, dtype=REALS[tables.precision], device=tables.device)
        self._counter = Counters(1, tables.device)
        self._add_stage()
        self._emitter = Emitter(tables, run, self._stages[0].before, capacity)

    def trace(self, start, stop):
        """Trace the rays ``start <= id < stop``, add to the sums, and return the `Record`."""
        steps, count = [], stop - start
        self._emitter.emit(start, stop)
        for bounce in range(self.run.max_depth):
            stage, launches = self._stages[bounce], self._bounces[bounce]
            launches.step(count, start, bounce)
            live, recorded, rouletted = launches.book(count, start, bounce)
            if recorded:
                self._record(count, start, bounce, stage.before, stage.after, stage.row_hit)
            landed = int(self.counters.read()[at.LANDED])
            steps.append(Step(count, live, landed, rouletted, bool(recorded), launches))
            if not live:
                break
            if bounce + 1 == len(self._stages):
                self._add_stage()
            select, gather = self._moves[bounce]
            if rouletted:  # it ended some of those that the books had listed
                self._counter.clear()
                select.run(count)
            gather.run(live)
            count = live
        return Record(start, stop, tuple(self._stages[: len(steps)]), tuple(steps))

    def _add_stage(self):
        """One more bounce of depth, and the way there from the bounce before."""
        p, device, n = self.tables.precision, self.tables.device, self.capacity
        stage = Stage.empty(p, device, n)
        if self._stages:
            last = self._stages[-1]
            names = {"floats": last.after.floats, "ints": last.after.ints, "kept": last.kept,
                     "counter": self._counter.array, "floats_out": stage.before.floats, "ints_out": stage.before.ints,
                     "n": wp.int64(n)}  # fmt: skip
            self._moves.append([Command(kernel, device, names) for kernel in compact_kernels(p)])
        self._stages.append(stage)
        self._bounces.append(
            Bounce(
                self, stage.before, stage.after, stage.distance, stage.row_hit, self._aux, stage.boost, stage.kept,
                stage.landed,
            )
        )  # fmt: skip
