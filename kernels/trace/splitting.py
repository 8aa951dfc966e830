"""Bounded splitting: at a refracting surface both parts of a ray go on, each with its share of the flux.

A ray is born with an allowance, the live rays that may come of it. A ray that splits shares its allowance between its
parts; one whose allowance is 1 chooses at random as ever. So the cap holds for every ray born, and no ray's fate
depends on another's, on batches or on the order of work. The part that is split off gets a key that is a function of
its parent's key and the bounce.
"""

import functools

import warp as wp

from kernels.modules import kernel_module
from kernels.precision import INT, LONG, REALS, add_long, bundle, ld_table, ldi, sti
from kernels.rng import half_of_key
from kernels.trace import layout as at
from kernels.trace.books import compact_kernels, count_up, roulette_kernel
from kernels.trace.command import Command
from kernels.trace.interact import interact_kernel
from kernels.trace.state import Counters, State
from kernels.trace.wavefront import ROULETTE, Bounce, Emitter, Lane, keyed


@functools.cache
def split_kernels(precision):
    """``(begin, adopt)``: give newborn rays keys and allowances; enter split-off rays into the books and count them."""
    b = bundle(precision)
    real, array, ld = b.real, b.array, b.ld
    module = kernel_module(f"kernels.trace.{precision}.split")

    @wp.kernel(module=module, enable_backward=False)
    def begin(ints: INT, base: wp.uint64, allowance: int, n: wp.int64):
        i = wp.tid()
        key = base + wp.uint64(ldi(ints, wp.static(at.SLOT), n, i))
        sti(ints, wp.static(at.KEY_LOW), n, i, half_of_key(key, False))
        sti(ints, wp.static(at.KEY_HIGH), n, i, half_of_key(key, True))
        sti(ints, wp.static(at.ALLOWANCE), n, i, allowance)

    @wp.kernel(module=module, enable_backward=False)
    def adopt(
        floats: array, ints: INT, row_hit: INT, rows: LONG, ledger: LONG, row_books: LONG, counters: INT,
        scale: wp.float64, faint: real, exact: int, last_bounce: int, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        state = ldi(ints, wp.static(at.STATE), n, i)
        if state == wp.static(at.REFUSED):
            add_long(ledger, wp.static(at.REFUSED_COUNT), wp.int64(1))
        if state == wp.static(at.ALIVE):
            if (ldi(ints, wp.static(at.MEDIUM), n, i) & wp.static(at.UNDERFLOW)) > 0:
                add_long(ledger, wp.static(at.UNDERFLOW_COUNT), wp.int64(1))
            flux = ld(floats, wp.static(at.FLUX), n, i)
            quanta = wp.int64(wp.rint(wp.float64(flux) * scale))
            row = ldi(row_hit, 0, n, i)
            kind = ld_table(rows, row * wp.static(at.NUM_ROW_INTS) + wp.static(at.KIND))
            if kind == wp.static(at.COATED) and exact == 1:
                # the books took all that the reflected part lacks for a loss
                add_long(ledger, wp.static(at.COATING_FLUX), -quanta)
                add_long(row_books, row * wp.static(at.NUM_ROW_BOOKS) + wp.static(at.ROW_LOSS), -quanta)
            if last_bounce == 1:
                add_long(ledger, wp.static(at.DEPTH_FLUX), quanta)
                add_long(ledger, wp.static(at.DEPTH_COUNT), wp.int64(1))
            else:
                count_up(counters, wp.static(at.LIVE), 1)
                if flux < faint:
                    count_up(counters, wp.static(at.FAINT), 1)

    return begin, adopt


class SplitLane(Lane):
    """A forward lane whose rays split; ``capacity`` holds all that may be alive at once."""

    splits = True

    def __init__(self, tables, run, capacity):
        super().__init__(tables, run, capacity)
        p, device, n = tables.precision, tables.device, wp.int64(capacity)
        real = REALS[p]
        self._here, self._there, self._beyond = (State.empty(p, device, capacity) for _ in range(3))
        distance = wp.empty(at.NUM_DISTANCES * capacity, dtype=real, device=device)
        self._row_hit = wp.empty(capacity, dtype=wp.int32, device=device)
        self._aux, spare = (wp.empty(at.NUM_AUX * capacity, dtype=real, device=device) for _ in range(2))
        boost = wp.empty(capacity, dtype=real, device=device)
        self._emitter = Emitter(tables, run, self._here, capacity)
        self._bounce = Bounce(self, self._here, self._there, distance, self._row_hit, self._aux, boost)
        shared = self._bounce.arguments
        begin, adopt = split_kernels(p)
        self._begin = Command(begin, device, {**shared, "ints": self._here.ints, "allowance": run.split_budget})
        second = {**shared, "floats_out": self._beyond.floats, "ints_out": self._beyond.ints, "aux": spare, "force": 2}
        self._second = Command(interact_kernel(p, self.variant), device, second)
        born = {**shared, "floats": self._beyond.floats, "ints": self._beyond.ints}
        self._adopt = Command(adopt, device, born)
        self._roulette = Command(roulette_kernel(p), device, {**born, "key": wp.uint64(ROULETTE)})
        self._kept_count = Counters(1, device)
        self._kept = wp.empty(capacity, dtype=wp.int32, device=device)
        select, gather = compact_kernels(p, at.NUM_INTS)
        self._moves = []
        for state in (self._there, self._beyond):
            names = {"floats": state.floats, "ints": state.ints, "kept": self._kept,
                     "counter": self._kept_count.array,
                     "floats_out": self._here.floats, "ints_out": self._here.ints, "n": n}  # fmt: skip
            self._moves.append((Command(select, device, names), Command(gather, device, names)))

    def _advance(self, start, count):
        """Trace the rays born, and all that split off them."""
        watch, afters = self.watch, (self._there, self._beyond)
        if watch is not None:
            watch.born(self._here, start, count)
        self._begin.run(count, {"base": wp.uint64(start)})
        for bounce in range(self.run.max_depth):
            self._bounce.step(count, start, bounce)
            splitting = bounce < self.run.split_depth
            if splitting:
                turn = {"turn": wp.uint64(bounce + 1), "may_split": 1}
                self._second.run(count, {**keyed(start, bounce), **turn})
            parts = afters if splitting else afters[:1]
            if watch is not None:
                watch.met(bounce, start, count, self._here, parts, self._row_hit, self._aux)
            live, recorded, _ = self._bounce.book(count, start, bounce)
            if recorded:
                self._record(count, start, bounce, self._here, self._there, self._row_hit)
            last = bounce + 1 >= self.run.max_depth
            if splitting:
                self.counters.clear()
                self._adopt.run(count, {"last_bounce": int(last)})
                if self.counters.read()[at.FAINT] and not last:
                    self._roulette.run(count, keyed(start, bounce + 1))
            if watch is not None:
                watch.settled(parts)
            if last:
                return
            born = int(self.counters.read()[at.LIVE]) if splitting else 0
            here = 0
            for part, size in enumerate((live, born)):
                if size:
                    select, gather = self._moves[part]
                    self._kept_count.clear()
                    select.run(count)
                    offset = {"floats_out": self._here.floats[here:], "ints_out": self._here.ints[here:]}
                    gather.run(size, offset)
                    if watch is not None:
                        watch.moved(part, self._kept, size)
                    here += size
            count = here
            if not count:
                return
