"""The backward pass of recorded batches: the adjoints from the last bounce to the first, then those of the births."""

from dataclasses import dataclass, fields

import numpy as np
import warp as wp

from kernels.precision import REALS
from kernels.trace import layout as at
from kernels.trace.backward import (
    NUM_READING,
    flat_readout_kernels,
    readout_kernel,
    reduce_kernel,
    scale_kernel,
    uncompact_kernels,
)
from kernels.trace.command import Command
from kernels.trace.deposit import NUM_PIXEL, locate_kernel_of
from kernels.trace.emit import emit_kernel
from kernels.trace.interact import interact_kernel
from kernels.trace.sags import locate_sag_kernel
from kernels.trace.scatter import move_kernels, scatter_kernel
from kernels.trace.state import at_cell
from kernels.trace.visibility import EdgeTerms
from kernels.trace.volume import collision_kernel, collision_moves
from kernels.trace.wavefront import FRESNEL_BRANCH, RETREAT, hits_to_record, keyed, variant_of

# rays in one thread's share of a sum on a GPU; a CPU sums in one stretch
_GPU_STRETCH = 256


@dataclass(frozen=True)
class Loss:
    """Derivatives of a loss to the map cells, to the detectors' total flux, and to rows of the ray tables.

    ``keys`` names those rows by `record_key`, ascending; ``rows`` is (columns of a state, number of keys).
    """

    maps: wp.array
    totals: wp.array
    keys: np.ndarray
    rows: np.ndarray

    @classmethod
    def build(cls, tables, maps, totals, keys, rows):
        dtype = np.float64 if tables.precision == "float64" else np.float32

        def upload(values):
            values = np.ascontiguousarray(values, dtype=dtype).ravel()
            return wp.array(
                values if values.size else np.zeros(1, dtype), dtype=REALS[tables.precision], device=tables.device
            )

        return cls(upload(maps), upload(totals), keys, rows)


@dataclass(frozen=True)
class Gradients:
    """Gradients of a scene's tables: float64 on the host, flat."""

    numbers: np.ndarray
    index: np.ndarray
    extinction: np.ndarray
    reflectance: np.ndarray
    transmittance: np.ndarray
    detector_numbers: np.ndarray
    source_numbers: np.ndarray
    shares: np.ndarray
    sag_numbers: np.ndarray
    angular: np.ndarray
    media: np.ndarray
    limits: np.ndarray
    triangles: np.ndarray

    def __add__(self, other):
        return Gradients(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})


def record_key(ids, bounces):
    """One sortable integer for (ray id, bounce); bounces are below 2**16."""
    return np.asarray(ids, dtype=np.int64) * (1 << 16) + bounces


class Adjoint:
    """Gradients of one loss, added up over recorded batches of up to ``capacity`` rays."""

    def __init__(
        self, tables, run, capacity, loss, *, with_numbers=True, with_tables=True, with_detectors=True,
        with_sources=True, bands=None,
    ):  # fmt: skip
        self._tables, self._run, self._capacity, self._loss = tables, run, capacity, loss
        self._with_sources = with_sources
        self._wanted = {
            "with_numbers": int(with_numbers), "with_tables": int(with_tables), "with_angles": int(tables.angles),
            "with_coats": int(tables.coats), "with_absorption": int(tables.absorbs), "with_rates": int(tables.turbid),
        }  # fmt: skip
        real = REALS[tables.precision]

        def zeros(count, dtype=real):
            return wp.zeros(max(1, count), dtype=dtype, device=tables.device)

        self._acc = zeros(max(at.NUM_ACC, at.NUM_SOURCE) * capacity)
        # gradients of the states before and after a bounce; they change places from one linked stage to the next
        self._before, self._after = zeros(at.NUM_FLOATS * capacity), zeros(at.NUM_FLOATS * capacity)
        self._aux = zeros(at.NUM_AUX * capacity)
        self._detectors = zeros(tables.detector_numbers.size)
        # gradients that nobody asks for still need somewhere to go
        self._flat = tables.flat and not with_detectors
        self._pixels, self._readings = (zeros(k * capacity if self._flat else 1) for k in (NUM_PIXEL, NUM_READING))
        self._spare = zeros(tables.detector_numbers.size)
        self._value, self._ones = zeros(capacity), wp.full(capacity, 1.0, dtype=real, device=tables.device)
        tabled = ("numbers", "index", "extinction", "reflectance", "transmittance", "angular", "media")
        self._sums = {name: zeros(getattr(tables, name).size, wp.float64) for name in tabled}
        self._detector_sum = np.zeros(tables.detector_numbers.size)
        self._source_sum = np.zeros((max(1, len(run.sources)), at.NUM_SOURCE))
        self._share_sum, self._scatter_sum = np.zeros(tables.shares.size), np.zeros(tables.numbers.size)
        self._extinction_sum, self._media_sum = np.zeros(tables.extinction.size), np.zeros(tables.media.size)
        self._shares, self._scatter_numbers = zeros(tables.shares.size), zeros(tables.numbers.size)
        if tables.scatters:
            self._scattered = zeros(at.NUM_SCATTERED * capacity)
            self._scattered_out = zeros(at.NUM_SCATTERED * capacity)
        if tables.turbid:
            self._moved, self._moved_out = zeros(at.NUM_FLOATS * capacity), zeros(at.NUM_FLOATS * capacity)
            self._extinction, self._media = zeros(tables.extinction.size), zeros(tables.media.size)
        self._angle_cell = zeros(capacity if tables.angles else 1, wp.int32)
        self._sag_sum = np.zeros(tables.sag_numbers.size)
        self._given, self._given_gradient = zeros(1), zeros(1)
        self._sag_numbers = zeros(tables.sag_numbers.size)
        if tables.gives:
            self._given, self._given_gradient = zeros(at.NUM_GIVEN * capacity), zeros(at.NUM_GIVEN * capacity)
            self._given.grad = self._given_gradient
        self._launches, self._births = {}, {}
        # boundary terms, where visibility is differentiated
        self._edges = None if bands is None else EdgeTerms(tables, run, capacity, loss, bands)

    def add(self, record):
        """Differentiate a recorded batch and add its gradients."""
        last = len(record.steps) - 1
        for bounce in range(last, -1, -1):
            step = record.steps[bounce]
            # the state after is the one before the next bounce, or was compacted to that
            linked = bounce < last and record.steps[bounce + 1].linked
            if linked:
                self._before, self._after = self._after, self._before
            launch = self._launches_of(record.stages[bounce])
            if bounce == last or (step.live < step.count and not linked):
                launch["clear"].run(step.count)
            if bounce < last and not linked:
                launch["uncompact"].run(step.live)
            if step.rouletted:
                launch["scale"].run(step.count)
            if step.rouletted or self._tables.scatters or self._tables.turbid:
                # roulette and scatter changed the state after the interaction in place: get it back
                step.bounce.interact(step.count, record.start, bounce)
            if step.landed:
                for reading in launch["readout"]:
                    reading.run(step.landed)
            if step.recorded:
                self._seed_ray_tables(record, bounce)
            if self._tables.scatters:
                launch["take"].run(step.count)
                launch["scatter"].run(step.count, keyed(record.start, bounce))
            if self._tables.turbid:
                launch["take collision"].run(step.count)
                launch["collision"].run(step.count, keyed(record.start, bounce))
            if self._tables.sags:
                launch["locate"].run(step.count)
            launch["interact"].run(step.count, keyed(record.start, bounce))
            if self._tables.sags:
                launch["locate adjoint"].run(step.count)
            stretches = 1 if self._tables.device.is_cpu else -(-step.count // _GPU_STRETCH)
            launch["reduce"].run(stretches, {"count": step.count, "stretches": stretches})
            if self._edges is not None:
                self._edges.add(record.stages[bounce], step.count, record.start, bounce, self._before)
        if self._with_sources:
            self._add_births(record)
        small = [(self._detector_sum, self._detectors)]
        t = self._tables
        if t.scatters or t.turbid:
            small += [(self._share_sum, self._shares), (self._scatter_sum, self._scatter_numbers)]
        if t.turbid:
            small += [(self._extinction_sum, self._extinction), (self._media_sum, self._media)]
        if t.sags:
            small.append((self._sag_sum, self._sag_numbers))
        for total, gradient in small:
            total += gradient.numpy()
            gradient.zero_()

    def gradients(self):
        """The gradients added up so far."""
        sums = {name: array.numpy().copy() for name, array in self._sums.items()}
        for name, more in (
            ("numbers", self._scatter_sum), ("extinction", self._extinction_sum), ("media", self._media_sum)
        ):  # fmt: skip
            sums[name] += more
        sums |= {name: np.zeros(getattr(self._tables, name).size) for name in ("limits", "triangles")}
        sums["sag_numbers"] = self._sag_sum.copy()
        for name, total in (self._edges.gradients() if self._edges is not None else {}).items():
            sums[name] += total
        return Gradients(
            **sums, detector_numbers=self._detector_sum.copy(), source_numbers=self._source_sum.ravel().copy(),
            shares=self._share_sum.copy(),
        )  # fmt: skip

    def _launches_of(self, stage):
        """The adjoint launches of a stage, recorded once for a stage that is used again and again."""
        _attach(stage.before.floats, self._before)
        _attach(stage.after.floats, self._after)
        key = id(stage), id(self._before)
        known = self._launches.get(key)
        if known is not None and known[0] is stage:
            return known[1]
        t, run, n = self._tables, self._run, wp.int64(self._capacity)
        p, device, real = t.precision, t.device, REALS[t.precision]
        names = {
            "floats": stage.before.floats, "ints": stage.before.ints, "distance": stage.distance,
            "row_hit": stage.row_hit, "floats_out": stage.after.floats, "ints_out": stage.after.ints,
            "aux": self._aux, "numbers": t.numbers, "rows": t.rows, "index": t.index, "extinction": t.extinction,
            "reflectance": t.reflectance, "transmittance": t.transmittance, "attenuation": t.attenuation,
            "media": t.media,
            "acc": self._acc, "given": self._given,
            "angular": t.angular, "angle_cell": self._angle_cell, "lines": t.num_lines,
            "fresnel_policy": int(run.exact), "p_low": real(run.p_low),
            "p_high": real(run.p_high), "base": wp.uint64(0), "init": wp.uint64(run.init),
            "key": wp.uint64(FRESNEL_BRANCH), "jump_a": wp.uint64(1), "jump_c": wp.uint64(0), "n": n,
            "retreat": real(RETREAT * run.eps), "own_keys": 0, "may_split": 0, "force": 1, "turn": wp.uint64(0),
        }  # fmt: skip
        reading = {
            **names, "floats": stage.after.floats, "numbers": t.detector_numbers, "detectors": t.detector_ints,
            "planes": t.planes, "sigmas": t.detector_sigmas,
            "weights": self._loss.maps, "total_weights": self._loss.totals,
            "value": self._value, "landed": stage.landed, "n": self._capacity,
        }  # fmt: skip
        launches = {
            "interact": Command(
                interact_kernel(p, variant_of(t), backward=True), device, names,
                {"floats": self._before, "floats_out": self._after, "given": self._given_gradient},
            ),
            "readout": self._readout(stage, reading),
            "reduce": Command(
                reduce_kernel(p), device, {**names, **self._sums, "count": 0, "stretches": 1, **self._wanted}
            ),
            "clear": Command(uncompact_kernels(p)[0], device, {"gradients_out": self._after, "n": n}),
            "uncompact": Command(
                uncompact_kernels(p)[1], device,
                {"gradients": self._before, "kept": stage.kept, "gradients_out": self._after, "n": n},
            ),
            "scale": Command(
                scale_kernel(p), device, {"gradients": self._after, "boost": stage.boost, "n": n}
            ),
        }  # fmt: skip
        if t.scatters:
            scattering = {**names, "before": stage.before.floats, "floats": stage.after.floats, "shares": t.shares,
                          "lobes": t.lobes, "aims": t.aims, "sag_numbers": t.sag_numbers,
                          "scattered": self._scattered_out}  # fmt: skip
            launches["scatter"] = Command(
                scatter_kernel(p, backward=True, full=t.full_scatter), device, scattering,
                {"floats": self._after, "numbers": self._scatter_numbers, "shares": self._shares,
                 "sag_numbers": self._sag_numbers, "scattered": self._scattered},
            )  # fmt: skip
            launches["take"] = Command(
                move_kernels(p)[1], device, {**scattering, "gradients": self._after, "scattered": self._scattered}
            )
        if t.turbid:
            collided = {**names, "floats": stage.after.floats, "sag_numbers": t.sag_numbers, "moved": self._moved_out}
            launches["collision"] = Command(
                collision_kernel(p, backward=True), device, collided,
                {"floats": self._after, "numbers": self._scatter_numbers, "sag_numbers": self._sag_numbers,
                 "extinction": self._extinction, "media": self._media, "moved": self._moved},
            )  # fmt: skip
            launches["take collision"] = Command(
                collision_moves(p)[1], device, {**collided, "gradients": self._after, "moved": self._moved}
            )
        if t.sags:
            located = {**names, "sag_numbers": t.sag_numbers}
            launches["locate"] = Command(locate_sag_kernel(p), device, located)
            launches["locate adjoint"] = Command(
                locate_sag_kernel(p, backward=True), device, located,
                {"floats": self._before, "sag_numbers": self._sag_numbers, "given": self._given_gradient},
            )  # fmt: skip
        self._launches[key] = (stage, launches)
        return launches

    def _readout(self, stage, reading):
        """The launches of the adjoint of reading the maps."""
        p, device = self._tables.precision, self._tables.device
        if not self._flat:
            gradients = {"floats": self._after, "numbers": self._detectors, "sigmas": self._spare,
                         "total_weights": self._spare, "value": self._ones}  # fmt: skip
            return [Command(readout_kernel(p), device, reading, gradients)]
        names = {**reading, "floats_out": stage.after.floats, "gradients": self._after, "pixels": self._pixels,
                 "readings": self._readings, "n": wp.int64(self._capacity)}  # fmt: skip
        modes = self._tables.detector_ints.numpy().reshape(-1, at.NUM_DETECTOR_INTS)[:, at.SPLAT]
        kernels = locate_kernel_of(self._tables), *flat_readout_kernels(p, bool(np.all(modes == at.BILINEAR)))
        return [Command(kernel, device, names) for kernel in kernels]

    def _seed_ray_tables(self, record, bounce):
        """Add the loss's derivatives with respect to rows of the ray tables to the states they were copied from."""
        if not self._loss.keys.size:
            return
        t, stage, count = self._tables, record.stages[bounce], record.steps[bounce].count
        chosen, _ = hits_to_record(t, stage.before, stage.row_hit, count)
        ids = record.start + stage.before.ints.numpy().reshape(at.NUM_INTS, -1)[at.SLOT, chosen].astype(np.int64)
        where = np.searchsorted(self._loss.keys, record_key(ids, bounce))
        gradients = self._after.numpy().reshape(at.NUM_FLOATS, -1)
        gradients[:, chosen] += self._loss.rows[:, where].astype(gradients.dtype)
        if not t.device.is_cpu:  # on a CPU that was the array itself
            self._after.assign(gradients.ravel())

    def _add_births(self, record):
        """From the gradient of the first state to the numbers of the sources."""
        t, run, n = self._tables, self._run, self._capacity
        state = record.stages[0].before
        for index, source, first, last in run.births(record.start, record.stop):
            offset, count = first - record.start, last - first
            where = at_cell(state, offset)
            _attach(where["floats"], self._before[offset:])
            changed = {
                **where,
                "base": wp.uint64(record.start),
                "first": offset,
                "source": index,
                "block": source.block,
            }
            if source.kind not in self._births:
                names = {**changed, "numbers": t.source_numbers, "acc": self._acc, "init": wp.uint64(run.init),
                         "medium": 0, "line": 0, "n": wp.int64(n), "table": t.source_table, "lines": t.source_lines,
                         "start": 0}  # fmt: skip
                kernel = emit_kernel(t.precision, source.kind, True, run.sobol)
                self._births[source.kind] = Command(kernel, t.device, names, {"floats": where["floats"].grad})
            self._births[source.kind].run(count, changed)
            acc = self._acc.numpy()[: at.NUM_SOURCE * n].reshape(at.NUM_SOURCE, n)
            self._source_sum[index] += acc[:, :count].sum(axis=1, dtype=np.float64)


def _attach(array, gradient):
    """Give an array its gradient: native loads and stores look it up in the array itself."""
    array.grad = gradient
