"""Runs a lowered scene on lanes, and ties the trace into ``torch`` as one differentiable operation."""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import warp as wp
from torch.autograd.function import once_differentiable

from kernels import lanes
from kernels.detectors import PLANE
from kernels.shapes import quadric
from kernels.trace import layout as at
from kernels.trace.adjoint import Adjoint, Loss, record_key
from kernels.trace.replay import ReplayLane
from kernels.trace.splitting import SplitLane
from kernels.trace.tables import Run, Tables
from kernels.trace.warmup import load_modules
from kernels.trace.watch import Watch
from kernels.trace.wavefront import ForwardLane, Sums, variant_of

from .checkpoint import digest, package_version
from .longrun import Limits, LongRun, Outlook, Workplace
from .lowering.ir import SceneIR
from .progress import Progress, stopping
from .ranks import Alone, Ranks, share
from .visibility import MOVING, WIDTH, bands_of, warn_of_rows

# Columns of a state lie this many cells further apart than a batch has rays: columns a power of two apart would share
# cache sets.
_PADDING = 8
_LEAST_BATCH, _LARGEST_BATCH = 4096, 32768
_GPU_BATCH = 1 << 18


@dataclass(frozen=True)
class Options:
    """How a trace runs. ``faint`` is the flux below which roulette begins, W; ``limits`` make it a long run.

    ``moving_limits`` names the numbers that say where something ends and require a gradient.
    """

    seed: int
    num_rays: int
    max_depth: int
    faint: float
    batch_size: int
    precision: str
    gradient_mode: str
    reflect_prob: str | float
    split_depth: int = 0
    split_budget: float = 4.0
    sobol: bool = False
    devices: tuple[Any, ...] = ("cpu",)
    progress: bool = False
    limits: Limits | None = None
    ranks: Ranks = field(default_factory=Alone)
    visibility: str = "band"
    moving_limits: tuple[str, ...] = ()
    visibility_width: float = WIDTH


@dataclass
class Outcome:
    """What one trace adds up to: flux in W, counts, and the rows of the ray tables in order of (id, bounce).

    ``hits``, ``incident`` and ``loss`` are by surface and detector, counted together; ``shared_hits`` are those booked
    for a surface that lies on this one; so are the rays that arrived in
    another medium than the one on their side, as columns count, W, sum of keys and of their squares (see the layout).
    ``num_rays`` were traced; ``outlook`` is that of a long run.
    """

    num_rays: int
    outlook: Outlook | None
    ledger: np.ndarray
    counts: np.ndarray
    hits: np.ndarray
    incident: np.ndarray
    loss: np.ndarray
    shared_hits: np.ndarray
    strays: np.ndarray
    stray_flux: np.ndarray
    maps: np.ndarray
    detectors: np.ndarray
    ids: np.ndarray
    keys: np.ndarray
    lines: np.ndarray
    states: np.ndarray


@dataclass
class Trace:
    """One scene, one set of options: `forward` traces, `backward` differentiates what it traced."""

    ir: SceneIR
    options: Options
    run: Run = field(init=False)
    kept: list = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        ir, options = self.ir, self.options
        p_low, p_high = _branch_range(options.reflect_prob)
        self.run = Run(
            seed=options.seed, sources=ir.sources, max_depth=options.max_depth,
            scale=_quanta_per_watt(ir.flux_in, options.max_depth), faint=options.faint,
            exact=options.reflect_prob == "fresnel", p_low=p_low, p_high=p_high, eps=ir.eps[options.precision],
            split_depth=options.split_depth, split_budget=max(1, int(options.split_budget)), sobol=options.sobol,
        )  # fmt: skip

    # ---- forward -----------------------------------------------------------------------------------------------------

    def forward(self, tensors: tuple[torch.Tensor, ...], *, keep: bool = False) -> Outcome:
        """Trace every ray. ``keep`` holds all states for the backward pass, instead of tracing them again there."""
        ranks = self.options.ranks
        if ranks.size > 1:
            ranks.agree(digest(self._account()), "the scene and the options of the trace")
        places = self._places(tensors)
        for tables in places:
            load_modules(tables.precision, tables.device, **_needs(tables, self.run, splits=self.run.split_depth > 0))
        if self.options.limits is not None:
            sums, outlook = self._long_run(places)
            return self._outcome(sums, outlook)
        desks, size, capacity = self._desks(places)
        batches = self._batches(size)
        with Progress(self.options.progress and ranks.rank == 0, sum(b - a for a, b in batches)) as progress:
            work = self._keep if keep else self._sum
            tasks = [
                functools.partial(work, tables, capacity, batches[k :: len(desks)], progress)
                for k, tables in enumerate(desks)
            ]
            results = lanes.run([progress.guard(task) for task in tasks])
        self.kept = [records for _, records in results] if keep else []
        return self._outcome(ranks.add(functools.reduce(operator.add, [sums for sums, _ in results])))

    def _long_run(self, places: list[Tables]) -> tuple[Sums, Outlook]:
        desks, size, capacity = self._desks(places)
        kind = SplitLane if self.run.split_depth else ForwardLane
        surfaces, owner = len(self.ir.surface_names), self.ir.geometry.owner
        rows = np.flatnonzero(owner >= surfaces)
        place = Workplace(
            run=self.run, fluxes=self._ray_fluxes,
            lanes=[functools.partial(kind, tables, self.run, capacity) for tables in desks],
            batch=size,
            reader_rows=np.stack([rows, owner[rows] - surfaces], axis=1),
            map_sizes=self.ir.map_sizes, account=self._account(),
        )  # fmt: skip
        return LongRun(place, self.options.limits, self.options.ranks)(self.options.progress)

    def _account(self) -> dict[str, Any]:
        """What tells this trace from another one, in a checkpoint."""
        options = self.options
        kinds = sorted({torch.device(device).type for device in options.devices})
        named = ("num_rays", "seed", "max_depth", "precision", "split_depth", "sobol")
        return {
            "nsq": package_version(), "scene": digest(self.ir, self.run),
            **{name: getattr(options, name) for name in named}, "devices": " and ".join(kinds),
        }  # fmt: skip

    def _sum(self, tables: Tables, capacity: int, batches: list, progress: Progress) -> tuple[Sums, list]:
        kind = SplitLane if self.run.split_depth else ForwardLane
        lane = kind(tables, self.run, capacity)
        for start, stop in batches:
            progress.check()
            lane.trace(start, stop)
            progress.done(stop - start)
        return lane.sums(), []

    def _keep(self, tables: Tables, capacity: int, batches: list, progress: Progress) -> tuple[Sums, list]:
        sums, records = [], []
        for start, stop in batches:
            progress.check()
            lane = ReplayLane(tables, self.run, capacity)
            records.append(lane.trace(start, stop))
            sums.append(lane.sums())
            progress.done(stop - start)
        if not batches:  # another process took them all
            sums.append(ReplayLane(tables, self.run, capacity).sums())
        return functools.reduce(operator.add, sums), records

    def _outcome(self, sums: Sums, outlook: Outlook | None = None) -> Outcome:
        if sums.ledger[at.BAD_COUNT]:
            raise FloatingPointError(
                f"{int(sums.ledger[at.BAD_COUNT])} rays carried a flux that is not finite or far beyond the sources'"
                " flux; nothing of this trace can be trusted"
            )
        # Rounding a ray's flux to whole quanta is the same for all rays of a source, so it would add up: it is taken
        # out by scaling the quanta actually emitted to the sources' flux. That makes an estimate of the whole from a
        # part of the rays, too.
        born = [s.stop - s.start for s in self.run.sources] if outlook is None else outlook.born.tolist()
        emitted = sum(n * int(np.rint(flux * self.run.scale)) for n, flux in zip(born, self._ray_fluxes, strict=True))
        watt = self.ir.flux_in / emitted if emitted else 1.0
        books = np.zeros((len(self.ir.surface_names) + len(self.ir.detector_names), at.NUM_ROW_BOOKS), dtype=np.int64)
        by_row = sums.row_books.reshape(-1, at.NUM_ROW_BOOKS)
        np.add.at(books, self.ir.geometry.owner, by_row)
        shared = np.zeros(len(books), dtype=np.int64)
        for row, covered in self.ir.geometry.covered:
            shared[covered] += by_row[row, at.ROW_HITS]
        columns = [np.concatenate(c, axis=-1) for c in zip(*sums.records, strict=True)] if sums.records else None
        if columns is None:
            columns = [np.zeros(0, np.int64)] * 4 + [np.zeros((at.NUM_FLOATS, 0))]
        detector, ids, bounces, line, states = columns
        keys = record_key(ids, bounces)
        order = np.argsort(keys, kind="stable")
        if outlook is not None and not outlook.whole:
            states[at.FLUX] *= self.ir.flux_in / float(np.dot(born, self._ray_fluxes))
        return Outcome(
            num_rays=sum(born), outlook=outlook,
            ledger=sums.ledger[: at.ESCAPE_COUNT] * watt, counts=sums.ledger[at.ESCAPE_COUNT :],
            hits=books[:, at.ROW_HITS], incident=books[:, at.ROW_INCIDENT] * watt,
            loss=books[:, at.ROW_LOSS] * watt, shared_hits=shared,
            strays=books[:, [at.ROW_STRAYS, at.ROW_STRAY_KEY, at.ROW_STRAY_KEY2]],
            stray_flux=books[:, at.ROW_STRAY_FLUX] * watt, maps=sums.maps[: self.ir.map_size] * watt,
            detectors=detector[order], ids=ids[order], keys=keys[order], lines=line[order], states=states[:, order],
        )  # fmt: skip

    # ---- again -------------------------------------------------------------------------------------------------------

    def watch(self, tensors: tuple[torch.Tensor, ...], ids: np.ndarray, sink: Callable[[], Any]) -> list[Any]:
        """Trace the rays of ascending ``ids`` again and show them to sinks (`kernels.trace.watch.Watch`), a batch each.

        Returns what ``sink`` made, in order of the ids.
        """
        places = self._places(tensors)
        for tables in places:
            load_modules(tables.precision, tables.device, **_needs(tables, self.run, splits=self.run.split_depth > 0))
        desks, size, capacity = self._desks(places)
        # a lane counts ids from the first of a batch on in 32 bits
        far = np.flatnonzero(np.diff(ids >> 30)) + 1
        batches = [part[k : k + size] for part in np.split(ids, far) for k in range(0, len(part), size)]
        desks = desks[: len(batches)]
        seen: list[Any] = [None] * len(batches)
        stop = threading.Event()

        def look(tables: Tables, first: int) -> None:
            lane = (SplitLane if self.run.split_depth else ForwardLane)(tables, self.run, capacity)
            lane.fills_maps = False
            for place in range(first, len(batches), len(desks)):
                if stop.is_set():
                    break
                seen[place] = sink()
                lane.watch = Watch(lane, seen[place])
                lane.trace_chosen(int(batches[place][0]), batches[place])
                lane.records.clear()

        lanes.run([stopping(functools.partial(look, tables, k), stop) for k, tables in enumerate(desks)])
        return seen

    def read(
        self, tensors: tuple[torch.Tensor, ...], rows: np.ndarray, states: np.ndarray, lines: np.ndarray
    ) -> np.ndarray:
        """Maps (W) of rays that reached the detectors of ``rows`` (n,) with ``states`` (8, n) and ``lines`` (n,)."""
        tables = self._tables(tensors, self.options.devices[0])
        load_modules(tables.precision, tables.device, **_needs(tables, self.run))
        lane = ForwardLane(tables, self.run, _LARGEST_BATCH + _PADDING)
        for k in range(0, len(rows), _LARGEST_BATCH):
            some = slice(k, k + _LARGEST_BATCH)
            lane.read(rows[some], states[:, some], lines[some])
        return lane.sums().maps[: self.ir.map_size] / self.run.scale

    # ---- backward ----------------------------------------------------------------------------------------------------

    def backward(
        self, tensors: tuple[torch.Tensor, ...], wanted: tuple[bool, ...], loss: tuple[Any, ...], keys: np.ndarray
    ) -> list[np.ndarray]:
        """Gradients of the tables, float64 and shaped as they are, from those of the maps, totals and ray tables."""
        places = self._places(tensors)
        kinds = {source.kind for source in self.run.sources}
        names = self.ir.tensors.__dataclass_fields__
        moves = any(w for name, w in zip(names, wanted, strict=True) if name in MOVING)
        edges = moves and self.options.visibility == "band"
        if edges and self.options.moving_limits and np.any(loss[2]):
            warn_of_rows(self.options.moving_limits)
        bands = {}
        for tables in places:
            load_modules(tables.precision, tables.device, kinds, edges=edges, **_needs(tables, self.run))
            if edges:
                bands[id(tables)] = bands_of(self.ir, tables, self.run, self.options.visibility_width)
        desks, size, capacity = self._desks(places)
        options = {"with_numbers": wanted[0], "with_tables": any(wanted[1:5]), "with_detectors": wanted[5],
                   "with_sources": wanted[6]}  # fmt: skip
        stop = threading.Event()

        # processes differentiate the mean of their losses
        loss = tuple(self.options.ranks.add_array(np.asarray(part)) / self.options.ranks.size for part in loss)
        upstream = {id(tables): Loss.build(tables, loss[0], loss[1], keys, loss[2]) for tables in places}

        def differentiate(tables: Tables, kept: bool, mine: list) -> Any:
            adjoint = Adjoint(tables, self.run, capacity, upstream[id(tables)], bands=bands.get(id(tables)), **options)
            lane = None if kept else ReplayLane(tables, self.run, capacity, fills_maps=False)
            for item in mine:
                if stop.is_set():
                    break
                adjoint.add(item if lane is None else lane.trace(*item))
            return adjoint.gradients()

        batches = self._batches(size)
        work = self.kept or [batches[k :: len(desks)] for k in range(len(desks))]
        tasks = [
            functools.partial(differentiate, tables, bool(self.kept), mine)
            for tables, mine in zip(desks, work, strict=True)
        ]
        total = functools.reduce(operator.add, lanes.run([stopping(task, stop) for task in tasks]))
        return [
            self.options.ranks.add_array(getattr(total, name)[: tensor.numel()].reshape(tensor.shape))
            for name, tensor in zip(names, tensors, strict=True)
        ]

    # ---- shared ------------------------------------------------------------------------------------------------------

    def _places(self, tensors: tuple[torch.Tensor, ...]) -> list[Tables]:
        """The scene on each of the devices."""
        return [self._tables(tensors, device) for device in self.options.devices]

    def _tables(self, tensors: tuple[torch.Tensor, ...], device: Any) -> Tables:
        """The scene on a device. The arrays are copies: what the user does to a tensor later has no effect."""
        ir = self.ir
        names = ir.tensors.__dataclass_fields__
        floats = {name: t.detach().cpu().numpy() for name, t in zip(names, tensors, strict=True)}
        self._ray_fluxes = floats["source_numbers"].reshape(-1, at.NUM_SOURCE)[:, at.SOURCE_FLUX]
        geometry = ir.geometry
        of_surfaces = geometry.owner < len(ir.surface_names)
        floats |= {
            "domain": _grown(geometry.domain, of_surfaces, self.run.eps),
            "attenuation": 4.0e3 * math.pi / ir.wavelengths,
            "detector_sigmas": ir.detector_sigmas,
            "lobes": ir.lobes,
            "aims": ir.aims,
            "sag_limits": geometry.sag_limits,
        }
        integers = {
            "rows": ir.rows,
            "detector_ints": ir.detector_ints,
            "cumulative": ir.cumulative,
            "source_lines": ir.source_lines,
            "source_table": ir.source_table,
            "planes": ir.planes,
            "medium_classes": ir.medium_classes,
            "tree_rows": geometry.tree_rows,
            "triangle_of_row": geometry.triangle_of_row,
        }
        return Tables.build(
            self.options.precision,
            _warp_device(device),
            floats,
            integers,
            boxes=(geometry.tree_lower, geometry.tree_upper),
            num_rows=ir.num_rows,
            num_surface_rows=int(of_surfaces.sum()),
            num_lines=len(ir.wavelengths),
            map_size=ir.map_size,
            records=bool((ir.detector_ints[:, at.SPLAT] == at.RECORD).any()),
            flat=bool((ir.detector_ints[:, at.READS] == PLANE).all()),
            linear_rows=geometry.linear_rows,
            sags=geometry.sags,
            coats=bool(np.isin(ir.rows[:, at.KIND], (at.COATED, at.MIRROR)).any()),
            absorbs=ir.tensors.extinction.requires_grad or bool(floats["extinction"].any()),
            angles=bool((ir.rows[:, at.ANGLES] >= 0).any()),
            scatters=bool((ir.rows[:, at.LOBE] >= 0).any()),
            aimed=bool((ir.rows[:, at.AIMS] >= 0).any()),
            turbid=bool((floats["media"][:, :, at.RATE] > 0.0).any()),
        )

    def _desks(self, places: list[Tables]) -> tuple[list[Tables], int, int]:
        """The tables that each lane works with, the rays it takes at a time, and the cells that it needs."""
        on_cpu = [tables for tables in places if tables.device.is_cpu]
        threads = -(-lanes.get_num_threads() // len(on_cpu)) if on_cpu else 1
        desks = [tables for k in range(threads) for tables in places if tables.device.is_cpu or k == 0]
        rays = self.options.num_rays
        size = min(max(self.options.batch_size, _LEAST_BATCH), _LARGEST_BATCH) if on_cpu else _GPU_BATCH
        room = self.run.split_budget if self.run.split_depth else 1
        # every lane gets as many batches, all of about one size, so that none waits for another at the end
        everywhere = len(desks) * self.options.ranks.size
        size = max(1, -(-rays // (everywhere * max(1, -(-rays // (everywhere * size))))))
        return desks[: -(-rays // size)], size, size * room + _PADDING

    def _batches(self, size: int) -> list[tuple[int, int]]:
        """This process's batches of the rays, as ranges of ids."""
        rays = self.options.num_rays
        batches = [(start, min(start + size, rays)) for start in range(0, rays, size)]
        return share(batches, self.options.ranks)


def _grown(domain: np.ndarray, surfaces: np.ndarray, by: float) -> np.ndarray:
    """The rows' limits, a hair wider for surfaces: on an edge that two of them share neither may be missed."""
    out = domain.copy()
    reach = np.where(surfaces, by, 0.0)
    out[:, quadric.RHO_MIN2] = np.maximum(np.sqrt(domain[:, quadric.RHO_MIN2]) - reach, 0.0) ** 2
    out[:, quadric.RHO_MAX2] = (np.sqrt(domain[:, quadric.RHO_MAX2]) + reach) ** 2
    for column, sign in ((quadric.HALF_X, 1), (quadric.HALF_Y, 1), (quadric.Z_MIN, -1), (quadric.Z_MAX, 1)):
        out[:, column] += sign * reach
    return out


def _needs(tables: Tables, run: Run, *, splits: bool = False) -> dict[str, Any]:
    """Which kernels beside the common ones a scene uses."""
    return {
        "variant": variant_of(tables, splits=splits), "scatters": tables.scatters, "full_scatter": tables.full_scatter,
        "trees": tables.tree is not None, "sags": bool(tables.sags), "sobol": run.sobol,
        "born": {source.kind for source in run.sources},
    }  # fmt: skip


def _branch_range(reflect_prob: str | float) -> tuple[float, float]:
    """The range that the reflectance is clipped to, to become a branch probability."""
    tiny = 1e-12
    if reflect_prob == "fresnel":
        return 0.0, 1.0
    if reflect_prob == "auto":
        return 0.25, 0.75
    p = min(max(float(reflect_prob), tiny), 1.0 - tiny)
    return p, p


def _quanta_per_watt(flux: float, max_depth: int) -> float:
    """A power of two: all flux read at every bounce by a detector that lets it pass stays below 2**59 quanta."""
    if flux <= 0.0:
        return 1.0
    return 2.0 ** math.floor(59.0 - math.log2(flux) - math.log2(max_depth))


def _warp_device(device: Any) -> Any:
    return wp.get_device(str(device))


class TraceFunction(torch.autograd.Function):
    """Scene tables in; map cells (W), detectors' total flux (W) and ray table columns (8, rows) out."""

    @staticmethod
    def forward(ctx: Any, trace: Trace, sink: list, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outcome = trace.forward(tensors, keep=trace.options.gradient_mode == "autograd")
        sink.append(outcome)
        ctx.trace, ctx.keys = trace, outcome.keys
        ctx.save_for_backward(*tensors)
        return outputs(outcome, trace.ir)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, maps: torch.Tensor, totals: torch.Tensor, rays: torch.Tensor) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        loss = tuple(g.detach().cpu().numpy() for g in (maps, totals, rays))
        gradients = ctx.trace.backward(tensors, wanted, loss, ctx.keys)
        return (
            None,
            None,
            *(
                torch.from_numpy(np.ascontiguousarray(g)).to(t.device) if w else None
                for g, t, w in zip(gradients, tensors, wanted, strict=True)
            ),
        )


def outputs(outcome: Outcome, ir: SceneIR) -> tuple[torch.Tensor, ...]:
    """The differentiable outputs of a trace as float64 tensors."""
    device = ir.tensors.numbers.device
    totals = outcome.incident[len(ir.surface_names) :]
    return tuple(torch.tensor(a, dtype=torch.float64, device=device) for a in (outcome.maps, totals, outcome.states))


def run(trace: Trace) -> tuple[Outcome, tuple[torch.Tensor, ...]]:
    """Trace, attached to the scene's tensors where autograd is on and any of them requires a gradient."""
    tensors = trace.ir.tensors.as_tuple()
    if torch.is_grad_enabled() and trace.ir.tensors.require_grad:
        sink: list[Outcome] = []
        attached = TraceFunction.apply(trace, sink, *tensors)
        return sink[0], attached
    outcome = trace.forward(tensors)
    return outcome, outputs(outcome, trace.ir)
