"""The forward wavefront: a lane works through batches of ray ids and keeps sums, never rays.

A lane owns all that it writes. Its sums are integers, so lanes, batches and devices may share out the rays as they
like.
"""

import copy
import itertools
from dataclasses import dataclass

import numpy as np
import warp as wp

from kernels import rng
from kernels.precision import REALS
from kernels.trace import layout as at
from kernels.trace.books import (
    NUM_SPARE_ROWS,
    book_kernels,
    compact_kernels,
    note_kernel,
    roulette_kernel,
    settle,
)
from kernels.trace.chain import EVERYONE, ONE, Chain, Link
from kernels.trace.command import Command
from kernels.trace.deposit import NUM_PIXEL, deposit_kernel, locate_kernel_of
from kernels.trace.emit import emit_kernel, line_kernel
from kernels.trace.interact import Variant, interact_kernel
from kernels.trace.sags import locate_sag_kernel, search_sag_kernel
from kernels.trace.scatter import move_kernels, scatter_kernel
from kernels.trace.search import row_groups, search_kernel
from kernels.trace.state import Counters, State, at_cell
from kernels.trace.tree import ray_lists, tree_kernels
from kernels.trace.volume import collide_kernel, collision_kernel, collision_moves

FRESNEL_BRANCH, ROULETTE = rng.slot_key(5), rng.slot_key(9)
# how far before an edge a ray goes on, in units of the least distance to another surface
RETREAT = 4.0
# below this share of live rays a bounce is worth compacting
CROWDED = 0.75
# chosen rays this close together are born with all between them
GAP = 1024


@dataclass(frozen=True)
class Sums:
    """What a trace adds up, as host integers. Addition is exact, so the order of merging never matters."""

    ledger: np.ndarray
    row_books: np.ndarray
    maps: np.ndarray
    records: tuple

    def __add__(self, other):
        return Sums(
            self.ledger + other.ledger,
            self.row_books + other.row_books,
            self.maps + other.maps,
            self.records + other.records,
        )


class Emitter:
    """Emission of a batch into a state; shared by the forward pass and the replay."""

    def __init__(self, tables, run, state, capacity):
        self._run, self.state = run, state
        # Warp compiles the vectorised loop for contiguous arrays only, and takes a null array for one that is not: so
        # an unused accumulator is some array
        shared = {
            "floats": state.floats, "ints": state.ints, "numbers": tables.source_numbers, "acc": state.floats,
            "base": wp.uint64(0), "init": wp.uint64(run.init), "first": 0, "source": 0, "medium": 0, "line": 0,
            "n": wp.int64(capacity), "cumulative": tables.cumulative, "lines": tables.source_lines, "start": 0,
            "count": 0, "table": tables.source_table, "block": 0,
        }  # fmt: skip
        self._commands = {
            kind: Command(emit_kernel(tables.precision, kind, False, run.sobol), tables.device, shared)
            for kind in {source.kind for source in run.sources}
        }
        self._lines = Command(line_kernel(tables.precision, run.sobol), tables.device, shared)

    def emit(self, start, stop, *, base=None, state=None, cell=0):
        """Rays ``start <= id < stop`` into the cells of ``state`` from ``cell`` on; their slots count from ``base``."""
        state = self.state if state is None else state
        base = start if base is None else base
        for index, source, first, last in self._run.births(start, stop):
            where = at_cell(state, cell + first - start)
            where |= {"base": wp.uint64(base), "first": first - base}
            born = {"source": index, "medium": at.born_in(source.medium), "block": source.block}
            born |= {"start": source.first_line, "line": -1 if source.own_lines else max(source.line, 0)}
            self._commands[source.kind].run(last - first, {**where, **born})
            if source.line < 0 and not source.own_lines:
                self._lines.run(last - first, {**where, "start": source.first_line, "count": source.num_lines})


class Choice:
    """Births of chosen rays, in ascending order of their ids.

    Ids that lie close together are born with all between them, which are then dropped: a launch costs as much as the
    births of some thousand rays.
    """

    def __init__(self, emitter, tables, capacity):
        self._emitter, self._capacity = emitter, capacity
        self._scratch = State.empty(tables.precision, tables.device, capacity)
        self._kept = wp.empty(capacity, dtype=wp.int32, device=tables.device)
        names = {"floats": self._scratch.floats, "ints": self._scratch.ints, "kept": self._kept,
                 "floats_out": self._scratch.floats, "ints_out": self._scratch.ints,
                 "n": wp.int64(capacity)}  # fmt: skip
        self._gather = Command(compact_kernels(tables.precision)[1], tables.device, names)

    def emit(self, base, ids):
        """The rays ``ids`` into the emitter's state, from its first cell on; their slots count from ``base``."""
        state = self._emitter.state
        for first, last in self._stretches(ids):
            start, stop = int(ids[first]), int(ids[last - 1]) + 1
            if stop - start == last - first:
                self._emitter.emit(start, stop, base=base, cell=first)
                continue
            self._emitter.emit(start, stop, base=base, state=self._scratch)
            cells = wp.array((ids[first:last] - start).astype(np.int32), dtype=wp.int32, device=self._kept.device)
            wp.copy(self._kept, cells, count=last - first)
            where = at_cell(state, first)
            self._gather.run(last - first, {"floats_out": where["floats"], "ints_out": where["ints"]})

    def _stretches(self, ids):
        """Ranges of places in ``ids`` that are born together."""
        apart = np.diff(ids, prepend=ids[:1]) > GAP
        start = ids[np.maximum.accumulate(np.where(apart, np.arange(len(ids)), 0))]
        piece = (ids - start) // self._capacity
        cuts = np.flatnonzero(apart | (np.diff(piece, prepend=piece[:1]) != 0))
        return itertools.pairwise([0, *cuts.tolist(), len(ids)])


def variant_of(tables, *, splits=False):
    """Which build of the interaction a scene needs."""
    rare = {
        "angles": tables.angles, "sags": bool(tables.sags) or tables.turbid, "splits": splits, "turbid": tables.turbid,
    }  # fmt: skip
    if any(rare.values()):
        return Variant(**rare)
    return Variant(coats=tables.coats, absorbs=tables.absorbs)


class Bounce:
    """The launches of one bounce from one state to another, recorded once."""

    def __init__(self, lane, before, after, distance, row_hit, aux, boost, living=None, landed=None):
        tables, run, n = lane.tables, lane.run, wp.int64(lane.capacity)
        p, device = tables.precision, tables.device
        real = REALS[p]
        self._lane = lane
        state = {
            "floats": before.floats, "ints": before.ints, "floats_out": after.floats, "ints_out": after.ints,
            "distance": distance, "row_hit": row_hit, "aux": aux, "boost": boost, "n": n, "numbers": tables.numbers,
            "domain": tables.domain, "rows": tables.rows, "index": tables.index, "extinction": tables.extinction,
            "reflectance": tables.reflectance, "transmittance": tables.transmittance,
            "attenuation": tables.attenuation, "media": tables.media, "classes": tables.medium_classes, "acc": aux,
            "given": lane.given,
            "angular": tables.angular, "angle_cell": lane.angle_cell, "lines": tables.num_lines,
            "fresnel_policy": int(run.exact), "p_low": real(run.p_low), "p_high": real(run.p_high),
            "base": wp.uint64(0), "init": wp.uint64(run.init), "key": wp.uint64(FRESNEL_BRANCH),
            "jump_a": wp.uint64(1), "jump_c": wp.uint64(0), "eps": real(run.eps), "retreat": real(RETREAT * run.eps),
            "surfaces": tables.num_surface_rows, "row": 0, "first": 0,
            "detectors": tables.detector_ints, "sigmas": tables.detector_sigmas, "planes": tables.planes,
            "ledger": lane.ledger, "row_books": lane.row_books, "counters": lane.counters.array, "maps": lane.maps,
            "scale": wp.float64(run.scale), "faint": real(run.faint),
            "living": lane.spare_list if living is None else living,
            "landed": lane.landed if landed is None else landed,
            "thins": int(tables.absorbs or tables.turbid), "rare": lane.rare, "keeps": int(tables.scatters),
            "words": lane.words, "amounts": lane.amounts,
            "num_rows": tables.num_rows, "count": 0, "stretches": 1, "exact": int(run.exact), "last_bounce": 0,
            "own_keys": int(lane.splits), "may_split": 0, "force": 1, "turn": wp.uint64(0),
        }  # fmt: skip
        search = [
            Command(search_kernel(p, size, build), device, {**state, "row": row, "first": int(place == 0)})
            for place, (row, size, build) in enumerate(row_groups(tables.linear_rows, tables.builds))
        ]
        if tables.tree is not None:
            names = {**state, **tables.tree.arguments(real), "triangles": tables.triangles,
                     "triangle_of_row": tables.triangle_of_row, "lists": lane.lists,
                     "first": int(not search)}  # fmt: skip
            search += [Command(kernel, device, names) for kernel in tree_kernels(p, wp.get_device(device))]
        locate = []
        if tables.sags:
            # a surface given by a sag is (row, code, block of numbers, block of limits)
            for row, code, block, limits in tables.sags:
                names = {**state, "sag_numbers": tables.sag_numbers, "sag_limits": tables.sag_limits, "row": row,
                         "code": code, "block": block, "limits": limits, "first": int(not search)}  # fmt: skip
                search.append(Command(search_sag_kernel(p), device, names))
            locate = [Command(locate_sag_kernel(p), device, {**state, "sag_numbers": tables.sag_numbers})]
        self.arguments = state
        self._interact = Command(interact_kernel(p, lane.variant), device, state)
        collide, scatter = [], []
        if tables.turbid:
            collided = {**state, "floats": after.floats, "sag_numbers": tables.sag_numbers, "moved": lane.moved}
            collide = [Command(collide_kernel(p), device, collided)]
            scatter += [Command(kernel(p), device, collided) for kernel in (collision_kernel, _collision_move)]
        if tables.scatters:
            scattered = {**state, "before": before.floats, "floats": after.floats, "shares": tables.shares,
                         "lobes": tables.lobes, "aims": tables.aims, "sag_numbers": tables.sag_numbers,
                         "scattered": lane.scattered}  # fmt: skip
            scatter += [
                Command(kernel, device, scattered)
                for kernel in (scatter_kernel(p, full=tables.full_scatter), move_kernels(p)[0])
            ]
        note = Command(note_kernel(p), device, state)
        self._book, book_rare = (Command(kernel, device, state) for kernel in book_kernels(p))
        landing = {**state, "numbers": tables.detector_numbers, "pixels": lane.pixels}
        self._deposit = [Command(kernel, device, landing) for kernel in (locate_kernel_of(tables), deposit_kernel(p))]
        self._roulette = Command(
            roulette_kernel(p), device,
            {**state, "floats": after.floats, "ints": after.ints, "key": wp.uint64(ROULETTE)},
        )  # fmt: skip
        # those that draw at the bounce, and those that must know the last
        self._drawing = [c for c in (*collide, self._interact, *scatter) if c.takes("jump_a")]
        self._ending = (note, book_rare)
        self._searched = len(search)
        self._interacting = self._searched + len(collide)
        self._interacted = self._interacting + len(locate) + 1
        self._moved = self._interacted + len(scatter)
        self._booked = self._moved + 4
        moves = [*search, *collide, *locate, self._interact, *scatter]
        # one thread books all rays on a CPU, and on a GPU each one ray
        books = [
            Link(note), Link(self._book, ONE if self._one_stretch else EVERYONE), Link(book_rare, at.RARE),
            Link(self._roulette, gate=at.FAINT), *(Link(deposit, at.LANDED) for deposit in self._deposit),
        ]  # fmt: skip
        self._chain = Chain(p, device, lane.counters, [*map(Link, moves), *books])

    def moved(self, pairs):
        """The same launches with other arrays: ``pairs`` of an array there is and the one to put in its place."""
        arrays = {id(old): new for old, new in pairs}
        commands = {}

        def other(command):
            if id(command) not in commands:
                commands[id(command)] = command.moved(arrays)
            return commands[id(command)]

        bounce = copy.copy(self)
        bounce.arguments = {name: arrays.get(id(value), value) for name, value in self.arguments.items()}
        bounce._chain = self._chain.moved(other)
        bounce._interact, bounce._book, bounce._roulette = map(other, (self._interact, self._book, self._roulette))
        bounce._deposit, bounce._drawing, bounce._ending = (
            [other(command) for command in part] for part in (self._deposit, self._drawing, self._ending)
        )
        return bounce

    @property
    def _one_stretch(self):
        return self._lane.tables.device.is_cpu

    def step(self, count, base, bounce):
        """Move ``count`` rays to their next event."""
        self._draw(base, bounce)
        self._chain.run(count, 0, self._moved)

    def search(self, count):
        """Find the next surface of ``count`` rays."""
        self._chain.run(count, 0, self._searched)

    def move(self, count, base, bounce):
        """Move ``count`` rays to the surface that was found."""
        self._draw(base, bounce)
        self._chain.run(count, self._searched, self._moved)

    def interact(self, count, base, bounce):
        """The interaction alone, for rays whose next surface is known: a step without search and scatter."""
        self._draw(base, bounce)
        self._chain.run(count, self._interacting, self._interacted)

    def book(self, count, base, bounce):
        """Book the step, and let faint rays play roulette.

        Returns the number of live rays, that of rows for ray tables, and whether there was a roulette.
        """
        return self._finish(count, base, bounce, self._moved)

    def advance(self, count, base, bounce):
        """`step` and `book` in one."""
        self._draw(base, bounce)
        return self._finish(count, base, bounce, 0)

    def deposit(self, count):
        """Add the first ``count`` of the hits that are listed to the maps."""
        for step in self._deposit:
            step.run(count)

    def _draw(self, base, bounce):
        """Set the draws of the steps up to the books to those of a bounce."""
        lane, keys = self._lane, keyed(base, bounce)
        for command in self._drawing:
            command.change(keys)
        if lane.splits:
            may_split = int(bounce < lane.run.split_depth)
            self._interact.change({"turn": wp.uint64(bounce + 1), "may_split": may_split})

    def _finish(self, count, base, bounce, first):
        """Launch the links from the ``first`` one to the books."""
        lane = self._lane
        last = bounce + 1 >= lane.run.max_depth
        for command in self._ending:
            command.change({"last_bounce": int(last)})
        self._book.change({"count": count, "stretches": 1 if self._one_stretch else count})
        self._roulette.change(keyed(base, bounce + 1))
        lane.counters.clear()
        counted = self._chain.run(count, first, None if lane.fills_maps else self._booked)
        live, landed, _, faint = counted.tolist()
        return (0 if last else live), (landed if lane.tables.records else 0), faint > 0


def _collision_move(precision):
    return collision_moves(precision)[0]


def keyed(base, bounce):
    """The arguments that a keyed draw at a bounce takes."""
    a, c = rng.jump(bounce)
    return {"base": base, "jump_a": a, "jump_c": c}


def hits_to_record(tables, before, row_hit, count):
    """(cells, detectors) of a bounce's rays that hit a detector which keeps rays."""
    row = row_hit.numpy()[:count]
    alive = before.ints.numpy().reshape(at.NUM_INTS, -1)[at.STATE, :count] == at.ALIVE
    chosen = np.flatnonzero(alive & (row >= 0))
    detector = tables.rows.numpy().reshape(-1, at.NUM_ROW_INTS)[row[chosen], at.READER]
    modes = tables.detector_ints.numpy().reshape(-1, at.NUM_DETECTOR_INTS)[:, at.SPLAT]
    kept = (detector >= 0) & (modes[detector] == at.RECORD)
    return chosen[kept], detector[kept]


class Lane:
    """A workspace for batches of up to ``capacity`` rays."""

    # whether rays of this lane split in two, with keys of their own
    splits = False
    # whether hits are added to the maps; a replay for gradients has no use for them
    fills_maps = True
    # what looks on while rays are traced: a `kernels.trace.watch.Watch`, or nothing
    watch = None

    def __init__(self, tables, run, capacity):
        self.tables, self.run, self.capacity = tables, run, capacity
        device = tables.device
        self.ledger = wp.zeros(at.NUM_LEDGER, dtype=wp.int64, device=device)
        self.row_books = wp.zeros((tables.num_rows + NUM_SPARE_ROWS) * at.NUM_ROW_BOOKS, dtype=wp.int64, device=device)
        self.maps = wp.zeros(max(1, tables.map_size), dtype=wp.int64, device=device)
        self.counters = Counters(at.NUM_COUNTERS, device)
        # cells of rays that reached a detector, of those that the books look at twice, and of those that go on, where
        # nobody asks for these
        self.landed, self.rare, self.spare_list = (
            wp.empty(capacity + 1, dtype=wp.int32, device=device) for _ in range(3)
        )
        self.words = wp.empty(capacity, dtype=wp.int32, device=device)
        self.lists = ray_lists(capacity if tables.tree is not None else 0, wp.get_device(device))
        self.pixels = wp.empty(NUM_PIXEL * capacity, dtype=REALS[tables.precision], device=device)
        self.amounts = wp.empty(capacity, dtype=wp.float64, device=device)
        self.records = []
        self._choice = None
        self.variant = variant_of(tables, splits=self.splits)
        self.angle_cell = wp.zeros(capacity if tables.angles else 1, dtype=wp.int32, device=device)
        self.given = wp.zeros(
            at.NUM_GIVEN * capacity if tables.gives else 1, dtype=REALS[tables.precision], device=device
        )
        self.moved = wp.zeros(
            at.NUM_FLOATS * capacity if tables.turbid else 1, dtype=REALS[tables.precision], device=device
        )
        self.scattered = wp.zeros(
            at.NUM_SCATTERED * capacity if tables.scatters else 1, dtype=REALS[tables.precision], device=device
        )

    def trace(self, start, stop):
        """Trace the rays ``start <= id < stop`` and add them to the sums."""
        self._emitter.emit(start, stop)
        self._advance(start, stop - start)

    def trace_chosen(self, base, ids):
        """Trace the rays of ascending ``ids``, from ``base`` to less than ``base + 2**31``, as `trace` does."""
        if self._choice is None:
            self._choice = Choice(self._emitter, self.tables, self.capacity)
        self._choice.emit(base, ids)
        self._advance(base, len(ids))

    def sums(self):
        """All that was added up so far."""
        rows = self.tables.rows.numpy()[: self.tables.num_rows * at.NUM_ROW_INTS].reshape(-1, at.NUM_ROW_INTS)
        books = self.row_books.numpy().reshape(-1, at.NUM_ROW_BOOKS)
        ledger, books = settle(self.ledger.numpy(), books, rows)
        return Sums(ledger, books.ravel(), self.maps.numpy().copy(), tuple(self.records))

    def _record(self, count, start, bounce, before, after, row_hit):
        """Rows of the ray databases: (detector, id, bounce, line, state at the hit), gathered on the host."""
        chosen, detector = hits_to_record(self.tables, before, row_hit, count)
        ints = before.ints.numpy().reshape(at.NUM_INTS, -1)[:, chosen]
        floats = after.floats.numpy().reshape(at.NUM_FLOATS, -1)[:, chosen].astype(np.float64)
        self.records.append(
            (detector, start + ints[at.SLOT].astype(np.int64), np.full(len(chosen), bounce),
             ints[at.WAVELENGTH], floats)
        )  # fmt: skip


class ForwardLane(Lane):
    """Traces without keeping anything: two states in turn."""

    def __init__(self, tables, run, capacity):
        super().__init__(tables, run, capacity)
        p, device = tables.precision, tables.device
        real = REALS[p]
        self._states = [State.empty(p, device, capacity) for _ in range(2)]
        distance = wp.empty(at.NUM_DISTANCES * capacity, dtype=real, device=device)
        self._row_hit = wp.empty(capacity, dtype=wp.int32, device=device)
        self._aux = wp.empty(at.NUM_AUX * capacity, dtype=real, device=device)
        boost = wp.empty(capacity, dtype=real, device=device)
        self._emitter = Emitter(tables, run, self._states[0], capacity)
        self._kept = wp.empty(capacity + 1, dtype=wp.int32, device=device)
        self._kept_count = Counters(1, device)
        here, there = self._states
        forth = Bounce(self, here, there, distance, self._row_hit, self._aux, boost, self._kept)
        self._bounces = [forth, forth.moved([*here.turned_to(there), *there.turned_to(here)])]
        select, gather = compact_kernels(p)
        self._select, self._gather = [], []
        for k in range(2):
            # the step from state k lands in state 1 - k; compaction brings it back to k
            names = {"floats": self._states[1 - k].floats, "ints": self._states[1 - k].ints, "kept": self._kept,
                     "counter": self._kept_count.array, "floats_out": self._states[k].floats,
                     "ints_out": self._states[k].ints, "n": wp.int64(capacity)}  # fmt: skip
            self._select.append(Command(select, device, names))
            self._gather.append(Command(gather, device, names))

    def read(self, rows, states, lines):
        """Let detectors read rays that were traced before: their rows (n,), states (8, n) and spectral lines (n,)."""
        size, count = len(self._row_hit), len(rows)
        before, after = self._states
        floats, ints = np.zeros((at.NUM_FLOATS, size)), np.zeros((at.NUM_INTS, size))
        aux, hit = np.zeros((at.NUM_AUX, size)), np.full(size, -1)
        floats[:, :count], aux[at.FLUX_AT_HIT, :count], hit[:count] = states, states[at.FLUX], rows
        ints[at.WAVELENGTH, :count], ints[at.STATE, :count] = lines, at.ALIVE
        for array, values in ((after.floats, floats), (before.ints, ints), (self._aux, aux), (self._row_hit, hit)):
            array.assign(values.ravel())
        self.landed.assign(np.arange(size + 1, dtype=np.int32))
        self._bounces[0].deposit(count)

    def _advance(self, start, count):
        k, watch = 0, self.watch
        if watch is not None:
            watch.born(self._states[0], start, count)
        for bounce in range(self.run.max_depth):
            step, before, after = self._bounces[k], self._states[k], self._states[1 - k]
            if watch is None:
                live, recorded, rouletted = step.advance(count, start, bounce)
            else:
                step.step(count, start, bounce)
                watch.met(bounce, start, count, before, (after,), self._row_hit, self._aux)
                live, recorded, rouletted = step.book(count, start, bounce)
            if recorded:
                self._record(count, start, bounce, before, after, self._row_hit)
            if watch is not None:
                watch.settled((after,))
            if not live:
                return
            if live < CROWDED * count:
                if rouletted:  # it ended some of those that the books had listed
                    self._kept_count.clear()
                    self._select[k].run(count)
                self._gather[k].run(live)
                if watch is not None:
                    watch.moved(0, self._kept, live)
                count = live
            else:
                k = 1 - k
