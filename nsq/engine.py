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
from kernels.shapes import quadric
from kernels.trace import layout as at
from kernels.trace.adjoint import Adjoint, Loss, record_key
from kernels.trace.replay import ReplayLane
from kernels.trace.splitting import SplitLane
from kernels.trace.tables import Run, Tables
from kernels.trace.warmup import load_modules
from kernels.trace.watch import Watch
from kernels.trace.wavefront import ForwardLane, Sums

from .lowering.ir import SceneIR

# Columns of a state lie this many cells further apart than a batch has rays: columns a power of two apart would share
# cache sets.
_PADDING = 8
_LEAST_BATCH, _LARGEST_BATCH = 4096, 32768
_GPU_BATCH = 1 << 18


@dataclass(frozen=True)
class Options:
    """How a trace runs. ``faint`` is the flux below which roulette begins, W."""

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
    device: Any = "cpu"
    progress: bool = False


@dataclass
class Outcome:
    """What one trace adds up to: flux in W, counts, and the rows of the ray tables in order of (id, bounce).

    ``hits``, ``incident`` and ``loss`` are by surface and detector, counted together; ``shared_hits`` are those booked
    for a surface that lies on this one; so are the rays that arrived in
    another medium than the one on their side, as columns count, W, sum of keys and of their squares (see the layout).
    """

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
        tables = self._tables(tensors)
        load_modules(tables.precision, tables.device, splits=self.run.split_depth > 0, **_needs(tables, self.run))
        batches, capacity, threads = self._batches(tables.device)
        with _Progress(self.options.progress, self.options.num_rays) as progress:
            work = self._keep if keep else self._sum
            shares = [batches[k::threads] for k in range(threads)]
            tasks = [functools.partial(work, tables, capacity, share, progress) for share in shares]
            results = lanes.run([progress.guard(task) for task in tasks])
        self.kept = [record for _, records in results for record in records]
        return self._outcome(functools.reduce(operator.add, [sums for sums, _ in results]))

    def _sum(self, tables: Tables, capacity: int, batches: list, progress: _Progress) -> tuple[Sums, list]:
        kind = SplitLane if self.run.split_depth else ForwardLane
        lane = kind(tables, self.run, capacity)
        for start, stop in batches:
            progress.check()
            lane.trace(start, stop)
            progress.done(stop - start)
        return lane.sums(), []

    def _keep(self, tables: Tables, capacity: int, batches: list, progress: _Progress) -> tuple[Sums, list]:
        sums, records = [], []
        for start, stop in batches:
            progress.check()
            lane = ReplayLane(tables, self.run, capacity)
            records.append(lane.trace(start, stop))
            sums.append(lane.sums())
            progress.done(stop - start)
        return functools.reduce(operator.add, sums), records

    def _outcome(self, sums: Sums) -> Outcome:
        if sums.ledger[at.BAD_COUNT]:
            raise FloatingPointError(
                f"{int(sums.ledger[at.BAD_COUNT])} rays carried a flux that is not finite or far beyond the sources'"
                " flux; nothing of this trace can be trusted"
            )
        # Rounding a ray's flux to whole quanta is the same for all rays of a source, so it would add up: it is taken
        # out by scaling the quanta actually emitted to the sources' flux.
        emitted = sum(
            (s.stop - s.start) * int(np.rint(flux * self.run.scale))
            for s, flux in zip(self.run.sources, self._ray_fluxes, strict=True)
        )
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
        return Outcome(
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
        tables = self._tables(tensors)
        load_modules(tables.precision, tables.device, splits=self.run.split_depth > 0, **_needs(tables, self.run))
        _, capacity, threads = self._batches(tables.device)
        room = self.run.split_budget if self.run.split_depth else 1
        size = min((capacity - _PADDING) // room, _LARGEST_BATCH)
        # a lane counts ids from the first of a batch on in 32 bits
        far = np.flatnonzero(np.diff(ids >> 30)) + 1
        batches = [part[k : k + size] for part in np.split(ids, far) for k in range(0, len(part), size)]
        threads = min(threads, len(batches))
        seen: list[Any] = [None] * len(batches)
        stop = threading.Event()

        def look(first: int) -> None:
            lane = (SplitLane if self.run.split_depth else ForwardLane)(tables, self.run, capacity)
            lane.fills_maps = False
            for place in range(first, len(batches), threads):
                if stop.is_set():
                    break
                seen[place] = sink()
                lane.watch = Watch(lane, seen[place])
                lane.trace_chosen(int(batches[place][0]), batches[place])
                lane.records.clear()

        lanes.run([_stopping(functools.partial(look, k), stop) for k in range(threads)])
        return seen

    # ---- backward ----------------------------------------------------------------------------------------------------

    def backward(
        self, tensors: tuple[torch.Tensor, ...], wanted: tuple[bool, ...], loss: tuple[Any, ...], keys: np.ndarray
    ) -> list[np.ndarray]:
        """Gradients of the tables, float64 and shaped as they are, from those of the maps, totals and ray tables."""
        tables = self._tables(tensors)
        kinds = {source.kind for source in self.run.sources}
        load_modules(tables.precision, tables.device, kinds, **_needs(tables, self.run))
        batches, capacity, threads = self._batches(tables.device)
        upstream = Loss.build(tables, loss[0], loss[1], keys, np.asarray(loss[2]))
        options = {"with_numbers": wanted[0], "with_tables": any(wanted[1:5])}
        work = self.kept or batches
        stop = threading.Event()

        def differentiate(mine: list) -> Any:
            adjoint = Adjoint(tables, self.run, capacity, upstream, **options)
            lane = None if self.kept else ReplayLane(tables, self.run, capacity, fills_maps=False)
            for item in mine:
                if stop.is_set():
                    break
                adjoint.add(item if lane is None else lane.trace(*item))
            return adjoint.gradients()

        tasks = [functools.partial(differentiate, work[k::threads]) for k in range(threads)]
        total = functools.reduce(operator.add, lanes.run([_stopping(task, stop) for task in tasks]))
        names = self.ir.tensors.__dataclass_fields__
        return [
            getattr(total, name)[: tensor.numel()].reshape(tensor.shape)
            for name, tensor in zip(names, tensors, strict=True)
        ]

    # ---- shared ------------------------------------------------------------------------------------------------------

    def _tables(self, tensors: tuple[torch.Tensor, ...]) -> Tables:
        """The scene on the device. The arrays are copies: what the user does to a tensor later has no effect."""
        ir = self.ir
        names = ir.tensors.__dataclass_fields__
        floats = {name: t.detach().cpu().numpy() for name, t in zip(names, tensors, strict=True)}
        self._ray_fluxes = floats["source_numbers"].reshape(-1, at.NUM_SOURCE)[:, at.SOURCE_FLUX]
        geometry = ir.geometry
        of_surfaces = geometry.owner < len(ir.surface_names)
        floats |= {
            "domain": _grown(geometry.domain, of_surfaces, self.run.eps),
            "triangles": geometry.triangles,
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
            _warp_device(self.options.device),
            floats,
            integers,
            boxes=(geometry.tree_lower, geometry.tree_upper),
            num_rows=ir.num_rows,
            num_surface_rows=int(of_surfaces.sum()),
            num_lines=len(ir.wavelengths),
            map_size=ir.map_size,
            linear_rows=geometry.linear_rows,
            sags=geometry.sags,
            angles=bool((ir.rows[:, at.ANGLES] >= 0).any()),
            scatters=bool((ir.rows[:, at.LOBE] >= 0).any()),
            aimed=bool((ir.rows[:, at.AIMS] >= 0).any()),
        )

    def _batches(self, device: Any) -> tuple[list[tuple[int, int]], int, int]:
        """Batches as ranges of ids, the cells of a lane, and how many lanes there are work for."""
        rays = self.options.num_rays
        threads = lanes.get_num_threads() if device.is_cpu else 1
        size = min(max(self.options.batch_size, _LEAST_BATCH), _LARGEST_BATCH) if device.is_cpu else _GPU_BATCH
        room = self.run.split_budget if self.run.split_depth else 1
        size = max(1, min(size, -(-rays // threads)))
        batches = [(start, min(start + size, rays)) for start in range(0, rays, size)]
        return batches, size * room + _PADDING, min(threads, len(batches))


def _grown(domain: np.ndarray, surfaces: np.ndarray, by: float) -> np.ndarray:
    """The rows' limits, a hair wider for surfaces: on an edge that two of them share neither may be missed."""
    out = domain.copy()
    reach = np.where(surfaces, by, 0.0)
    out[:, quadric.RHO_MIN2] = np.maximum(np.sqrt(domain[:, quadric.RHO_MIN2]) - reach, 0.0) ** 2
    out[:, quadric.RHO_MAX2] = (np.sqrt(domain[:, quadric.RHO_MAX2]) + reach) ** 2
    for column, sign in ((quadric.HALF_X, 1), (quadric.HALF_Y, 1), (quadric.Z_MIN, -1), (quadric.Z_MAX, 1)):
        out[:, column] += sign * reach
    return out


def _needs(tables: Tables, run: Run) -> dict[str, Any]:
    """Which kernels beside the common ones a scene uses."""
    return {
        "scatters": tables.scatters, "full_scatter": tables.full_scatter, "trees": tables.tree is not None,
        "sags": bool(tables.sags), "angles": tables.angles, "sobol": run.sobol,
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


def _stopping(task: Callable[[], Any], stop: threading.Event) -> Callable[[], Any]:
    """A task that tells the others to stop when it fails or is interrupted."""

    def guarded() -> Any:
        try:
            return task()
        except BaseException:
            stop.set()
            raise

    return guarded


class _Progress:
    """A bar over rays when asked for, and the flag by which lanes stop each other."""

    def __init__(self, shown: bool, num_rays: int) -> None:
        self._shown, self._num_rays = shown, num_rays
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._bar = None

    def __enter__(self) -> _Progress:
        if self._shown:
            from tqdm.auto import tqdm  # a trace that shows nothing need not load it

            self._bar = tqdm(total=self._num_rays, unit="ray", unit_scale=True, desc="trace")
        return self

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            self._bar.close()

    def check(self) -> None:
        if self._stop.is_set():
            raise InterruptedError("another lane of this trace failed or was interrupted")

    def done(self, rays: int) -> None:
        if self._bar is not None:
            with self._lock:
                self._bar.update(rays)

    def guard(self, task: Callable[[], Any]) -> Callable[[], Any]:
        return _stopping(task, self._stop)


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
