"""Trace a batch again with its states kept.

A replay makes the forward pass's decisions bit for bit, since every one is a function of the ray's id.
"""

from dataclasses import dataclass, replace

import warp as wp

from kernels.precision import REALS
from kernels.trace import layout as at
from kernels.trace.books import compact_kernels
from kernels.trace.command import Command
from kernels.trace.state import Counters, State
from kernels.trace.wavefront import CROWDED, Bounce, Emitter, Lane


@dataclass(frozen=True)
class Stage:
    """One bounce of a batch: the states before and after, the decisions, which rays go on, and which were detected.

    A stage is *linked* whose state before is the state after the stage before it, dead rays and all.
    """

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

    def turned_to(self, other):
        """Pairs of its arrays and those of another stage."""
        single = ("distance", "row_hit", "boost", "kept", "landed")
        pairs = [(getattr(self, name), getattr(other, name)) for name in single]
        return [*self.before.turned_to(other.before), *self.after.turned_to(other.after), *pairs]


@dataclass(frozen=True)
class Step:
    """How a bounce of a recorded batch went: cells in it, rays left and detected, and what happened to them."""

    count: int
    live: int
    landed: int
    rouletted: bool
    recorded: bool
    linked: bool
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
        self._stages, self._moves = [], []
        self._aux = wp.empty(at.NUM_AUX * capacity, dtype=REALS[tables.precision], device=tables.device)
        self._counter = Counters(1, tables.device)
        # by bounce and whether it is linked
        self._bounces = {}
        self._emitter = Emitter(tables, run, self._stage(0, False)[0].before, capacity)

    def trace(self, start, stop):
        """Trace the rays ``start <= id < stop``, add to the sums, and return the `Record`."""
        stages, steps, count, linked = [], [], stop - start, False
        self._emitter.emit(start, stop)
        for bounce in range(self.run.max_depth):
            stage, launches = self._stage(bounce, linked)
            live, recorded, rouletted = launches.advance(count, start, bounce)
            if recorded:
                self._record(count, start, bounce, stage.before, stage.after, stage.row_hit)
            landed = int(self.counters.read()[at.LANDED])
            stages.append(stage)
            steps.append(Step(count, live, landed, rouletted, bool(recorded), linked, launches))
            if not live:
                break
            # what changes a state in place must have it back, and so the next stage a state of its own
            changed = rouletted or self.tables.scatters or self.tables.turbid
            linked = live >= CROWDED * count and not changed
            if not linked:
                self._stage(bounce + 1, False)
                select, gather = self._moves[bounce]
                if rouletted:  # it ended some of those that the books had listed
                    self._counter.clear()
                    select.run(count)
                gather.run(live)
                count = live
        return Record(start, stop, tuple(stages), tuple(steps))

    def _stage(self, bounce, linked):
        """The stage of a bounce and its launches, made when first asked for."""
        if bounce == len(self._stages):
            self._add_stage()
        if (bounce, linked) not in self._bounces:
            stage = self._stages[bounce]
            if linked:
                stage = replace(stage, before=self._stages[bounce - 1].after)
            if not self._bounces:
                self._first_bounce = Bounce(
                    self, stage.before, stage.after, stage.distance, stage.row_hit, self._aux, stage.boost, stage.kept,
                    stage.landed,
                )  # fmt: skip
            launches = self._first_bounce.moved(self._stages[0].turned_to(stage))
            self._bounces[bounce, linked] = stage, launches
        return self._bounces[bounce, linked]

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
