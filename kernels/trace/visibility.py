"""Visibility gradients: what the loss gains or loses when an edge moves across the rays that pass it.

The expected loss is an integral over random numbers of a function that jumps where a gap g (see `kernels.trace.rims`)
goes through zero. Its derivative is that of the smooth parts, which `kernels.trace.adjoint` has, and a boundary term

    integral of  delta(g) (F_inside - F_outside) dg/dtheta,

F being the loss-weighted flux that a ray goes on to deliver. Delta becomes a symmetric kernel of half width h, so rays
within the band sample it. F is traced for two rays on the edge itself, a hair to either side, keyed as their parent
is: the difference then has no part that is odd across the edge and does not cancel, and the bias is of order h^2.
The result is a weight on g, whose adjoint goes the way of all others: to the ray's state, and so to everything that
came before, and to the numbers, limits and corners of the surface.
"""

import functools
from dataclasses import dataclass

import numpy as np
import warp as wp

from kernels.precision import REALS
from kernels.trace import edges, rims
from kernels.trace import events as found
from kernels.trace import layout as at
from kernels.trace.backward import readout_kernel
from kernels.trace.books import compact_kernels
from kernels.trace.command import Command
from kernels.trace.state import Counters, State
from kernels.trace.suspects import Suspects, suspect_kernels
from kernels.trace.wavefront import CROWDED, Bounce, Lane

# tables of a scene that say where surfaces end
MOVED = ("numbers", "limits", "triangles", "sag_numbers")


@dataclass(frozen=True)
class Bands:
    """The edges of a scene on one device; lanes share it.

    ``widths``, (rows, `rims.NUM_WIDTHS`) flat, are half widths of bands in mm, 0 where there is no edge. ``rows`` are
    the analytic rows that have any, ``crossing`` those that may cross another row, ``tree_rows`` the triangles, and
    ``tree`` holds their boxes, grown; ``widest`` is the widest band of those. ``sources`` has first id, last id + 1 and
    kind of each.
    """

    widths: wp.array
    rows: tuple
    crossing: tuple
    tree_rows: wp.array
    tree: object
    widest: float
    sources: wp.array

    @classmethod
    def build(cls, tables, run, widths, rows, crossing, tree_rows, lower, upper):
        """From host arrays; ``lower`` and ``upper`` (n, 3) are the corners of the triangles' boxes."""
        device = tables.device
        tree = None
        if len(tree_rows):
            tree = wp.Bvh(*(wp.array(c.astype(np.float32), dtype=wp.vec3, device=device) for c in (lower, upper)))
        return cls(
            wp.array(np.ascontiguousarray(widths).ravel(), dtype=REALS[tables.precision], device=device),
            tuple(int(row) for row in rows), tuple(int(row) for row in crossing),
            wp.array(np.asarray(tree_rows, dtype=np.int32), dtype=wp.int32, device=device), tree,
            float(np.max(widths[:, rims.SIDE_A])),
            wp.array([n for s in run.sources for n in (s.start, s.stop, s.kind)], dtype=wp.int32, device=device),
        )  # fmt: skip


class _Branches(Lane):
    """Traces pairs of rays from a bounce on, and adds what each brings the loss to its event."""

    fills_maps = False

    def __init__(self, tables, run, capacity, loss, widths, events):
        super().__init__(tables, run, capacity)
        p, device, n = tables.precision, tables.device, wp.int64(capacity)
        real = REALS[p]
        self.states = [State.empty(p, device, capacity) for _ in range(2)]
        distance = wp.empty(at.NUM_DISTANCES * capacity, dtype=real, device=device)
        row_hit = wp.empty(capacity, dtype=wp.int32, device=device)
        aux = wp.empty(at.NUM_AUX * capacity, dtype=real, device=device)
        boost = wp.empty(capacity, dtype=real, device=device)
        kept = wp.empty(capacity, dtype=wp.int32, device=device)
        value = wp.zeros(capacity, dtype=real, device=device)
        everyone = wp.array(np.arange(capacity, dtype=np.int32), device=device)
        self._count = Counters(1, device)
        self._bounces, self._readouts, self._tallies, self._moves = [], [], [], []
        select, gather = compact_kernels(p, at.NUM_INTS)
        for k in range(2):
            before, after = self.states[k], self.states[1 - k]
            bounce = Bounce(self, before, after, distance, row_hit, aux, boost)
            self._bounces.append(bounce)
            reading = {
                **bounce.arguments, "floats": after.floats, "ints": before.ints, "numbers": tables.detector_numbers,
                "weights": loss.maps, "total_weights": loss.totals, "value": value, "landed": everyone, "n": capacity,
            }  # fmt: skip
            self._readouts.append(Command(readout_kernel(p), device, reading))
            names = {"ints": before.ints, "ints_out": after.ints, "value": value, "event_floats": events.floats,
                     "count": 0, "n": n, "room": wp.int64(events.room)}  # fmt: skip
            self._tallies.append(Command(edges.tally_kernels(p)[0], device, names))
            names = {"floats": after.floats, "ints": after.ints, "kept": kept, "counter": self._count.array,
                     "floats_out": before.floats, "ints_out": before.ints, "n": n}  # fmt: skip
            self._moves.append((Command(select, device, names), Command(gather, device, names)))
        names = {
            **self._bounces[0].arguments, "limits": tables.limits, "triangles": tables.triangles,
            "triangle_of_row": tables.triangle_of_row, "widths": widths, "events": events.ints,
            "event_floats": events.floats, "count": 0, "room": wp.int64(events.room), "sag_numbers": tables.sag_numbers,
        }  # fmt: skip
        self._vet = Command(edges.vet_kernel(p, bool(tables.sags)), device, names)

    def trace(self, pairs, base, first):
        """Trace ``pairs`` pairs, of which the first state holds the births, from the bounce ``first`` on."""
        count, k = 2 * pairs, 0
        for bounce in range(first, self.run.max_depth):
            step = self._bounces[k]
            step.search(count)
            if bounce == first:
                self._vet.run(pairs, {"count": pairs})
            step.move(count, base, bounce)
            self._readouts[k].run(count)
            self._tallies[k].run(count, {"count": pairs})
            live, _, _ = step.book(count, base, bounce)
            if not live:
                return
            if live < CROWDED * count:
                self._count.clear()
                select, gather = self._moves[k]
                select.run(count)
                gather.run(live)
                count = live
            else:
                k = 1 - k


class _Events:
    """Room for the events of one bounce."""

    def __init__(self, room, precision, device):
        self.room = room
        self.ints = wp.empty(found.NUM_EVENT_INTS * room, dtype=wp.int32, device=device)
        self.floats = wp.empty(found.NUM_EVENT_FLOATS * room, dtype=REALS[precision], device=device)
        self.counter = Counters(1, device)


class EdgeTerms:
    """Boundary terms of recorded batches of up to ``capacity`` rays.

    The scene's edges are its `Bands`; the loss is that of `kernels.trace.adjoint`.
    """

    def __init__(self, tables, run, capacity, loss, bands):
        p, device, n = tables.precision, tables.device, capacity
        real = REALS[p]
        self._tables, self._run = tables, run
        self._room = max(1, capacity)
        self._events = events = _Events(self._room, p, device)
        self._branches = _Branches(tables, run, 2 * self._room, loss, bands.widths, events)
        born = self._branches.states[0]
        self._weight = wp.zeros(self._room, dtype=real, device=device)
        self._value = wp.zeros(self._room, dtype=real, device=device)
        self._sums = {name: wp.zeros(getattr(tables, name).size, dtype=real, device=device) for name in MOVED}
        self._totals = {name: np.zeros(array.size) for name, array in self._sums.items()}
        names = {
            **self._branches._bounces[0].arguments, "limits": tables.limits, "triangles": tables.triangles,
            "triangle_of_row": tables.triangle_of_row, "widths": bands.widths, "events": events.ints,
            "event_floats": events.floats, "counter": events.counter.array, "start": 0, "count": 0,
            "floats_out": born.floats, "ints_out": born.ints, "n": wp.int64(n), "room": wp.int64(self._room),
            "n_out": wp.int64(2 * self._room), "weight": self._weight, "sag_numbers": tables.sag_numbers,
            "sag_limits": tables.sag_limits, "sources": bands.sources, "row": 0, "code": 0, "block": 0,
            "source_numbers": tables.source_numbers,
        }  # fmt: skip
        widths = bands.widths.numpy().reshape(-1, rims.NUM_WIDTHS)
        self._suspects = Suspects(tables, bands.rows, widths, n, names)
        find = Command(found.find_kernel(p), device, {**names, "suspects": self._suspects.cells})
        self._near_searches = [(find, {"row": row}) for row in bands.rows]
        self._searches = []
        if bands.crossing:
            find = Command(found.find_crossings_kernel(p), device, names)
            self._searches += [(find, {"row": row}) for row in bands.crossing]
        if tables.sags:
            find = Command(found.find_sag_kernel(p), device, {**names, "limits": 0})
            fields = ("row", "code", "block", "limits")
            self._searches += [(find, dict(zip(fields, sag, strict=True))) for sag in tables.sags]
        if bands.tree is not None:
            names |= {"band_rows": bands.tree_rows, "band_tree": bands.tree.id,
                      "reach": real(found.BEHIND * bands.widest)}  # fmt: skip
            self._searches.append((Command(found.find_triangles_kernel(p), device, names), {}))
        self._sags = bool(tables.sags)
        self._shift = Command(edges.shift_kernel(p, self._sags), device, names)
        self._weigh = Command(edges.tally_kernels(p)[1], device, names)
        self._pulled = {**names, "value": self._value, "n": n, "room": self._room}
        # by the array of the states' gradients
        self._pulls = {}

    def add(self, stage, count, base, bounce, gradient):
        """Add the boundary terms of one bounce of a batch to ``gradient``, that of the states before the bounce."""
        where = {"floats": stage.before.floats, "ints": stage.before.ints, "distance": stage.distance,
                 "row_hit": stage.row_hit}  # fmt: skip
        self._events.counter.clear()
        near = self._suspects.find(count, where)
        for search in self._near_searches if near else ():
            self._collect(search, 0, near, where, (base, bounce, gradient))
        for search in self._searches:
            self._collect(search, 0, count, where, (base, bounce, gradient))
        self._settle(where, base, bounce, gradient)

    def gradients(self):
        """What was added up so far, by table: float64."""
        for name, array in self._sums.items():
            self._totals[name] += array.numpy()
            array.zero_()
        return self._totals

    def _collect(self, search, low, high, where, place):
        """Events of one search and the rays ``low <= i < high``; what does not fit is looked for again."""
        used, (find, changed) = self._used(), search
        self._launch(find, high - low, {**where, **changed, "start": low})
        if self._used() <= self._room:
            return
        self._events.counter.clear()
        self._count_up(used)
        if used:
            self._settle(where, *place)
            self._collect(search, low, high, where, place)
        else:
            middle = (low + high) // 2
            self._collect(search, low, middle, where, place)
            self._collect(search, middle, high, where, place)

    @staticmethod
    def _launch(command, count, changed):
        """Launch a command with those of the arguments that it takes."""
        command.run(count, {name: value for name, value in changed.items() if command.takes(name)})

    def _used(self):
        return int(self._events.counter.read()[0])

    def _count_up(self, used):
        array = self._events.counter.array
        array.assign(np.array([used], dtype=np.int32))

    def _settle(self, where, base, bounce, gradient):
        """Trace the pairs of the events so far, and pull on the gaps."""
        pairs = self._used()
        self._events.counter.clear()
        if not pairs:
            return
        self._launch(self._shift, pairs, {**where, "base": wp.uint64(base), "count": pairs})
        self._branches.trace(pairs, base, bounce)
        self._weigh.run(pairs)
        if id(gradient) not in self._pulls:
            adjoints = {"floats": gradient, "value": self._weight, **self._sums}
            kernel = edges.pull_kernel(self._tables.precision, self._sags)
            self._pulls[id(gradient)] = Command(kernel, self._tables.device, {**self._pulled, **where}, adjoints)
        self._pulls[id(gradient)].run(pairs, {"floats": where["floats"]})


@functools.cache
def visibility_kernels(precision, sags=False):
    """Every kernel of this pass that no other needs; with ``sags`` those of scenes with surfaces given by a sag."""
    kernels = [
        *suspect_kernels(precision), found.find_kernel(precision), found.find_triangles_kernel(precision),
        found.find_crossings_kernel(precision),
        *edges.tally_kernels(precision),
        *(build(precision, sags) for build in (edges.shift_kernel, edges.vet_kernel, edges.pull_kernel)),
    ]  # fmt: skip
    return [*kernels, found.find_sag_kernel(precision)] if sags else kernels
