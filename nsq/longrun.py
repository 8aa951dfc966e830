"""Traces that may stop before their last ray: by time, by error, by hand, or killed and resumed from a checkpoint.

The ids of all rays are dealt into chunks, each with its share of every source, so that the chunks done at any moment
are a smaller run of the same scene. Lanes work through the chunks in order; between two of them they look whether it is
time to pause. In a pause the sums are gathered, and written or judged.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels import lanes
from kernels.rng import mix
from kernels.trace import layout as at
from kernels.trace.tables import Run, SourceRun
from kernels.trace.wavefront import Sums

from . import checkpoint as files
from .numbers import check_constant, suggest
from .progress import Progress
from .ranks import Ranks, share

if TYPE_CHECKING:
    from .scene import NSQScene

# rays of a chunk, of the run's if that is more than 256 chunks, and at least so many of each source
_LEAST_CHUNK, _LARGEST_CHUNK, _LEAST_OF_SOURCE = 4096, 1 << 18, 1024
_MOST_CHUNKS = 1 << 16
# chunks from which an error is worth estimating, and into how many rounds a run falls, each ending with an estimate
_LEAST_SAMPLE, _ROUNDS = 16, 64
# a checkpoint is not written more often than that writing takes this share of the time
_WRITING_SHARE = 0.05
# what stops a run
CTRL_C, MAX_SECONDS, TARGET_ERROR = "Ctrl-C", "max_seconds", "target_error"


@dataclass(frozen=True)
class Limits:
    """When a run pauses and when it stops.

    Attributes:
        max_seconds: wall-clock time from ``started`` on (of ``time.perf_counter``).
        flux_errors, map_errors: relative standard errors to reach, by place of the detector.
        checkpoint: file to go on from and to write every ``checkpoint_every`` seconds, or None.
    """

    started: float
    max_seconds: float = math.inf
    flux_errors: dict[int, float] = field(default_factory=dict)
    map_errors: dict[int, float] = field(default_factory=dict)
    checkpoint: Path | None = None
    checkpoint_every: float = 60.0


@dataclass(frozen=True)
class Plan:
    """Ray ids in ``count`` chunks: of N rays of a source the first k chunks hold (N k + U) / count, rounded down.

    U is drawn for each source, uniformly from 0 to count - 1, so that a source's share of the rays done is on average
    the run's, and never a whole ray away from it.
    """

    sources: tuple[SourceRun, ...]
    seed: int
    count: int

    @classmethod
    def of(cls, run: Run) -> Plan:
        size = min(max(-(-run.num_rays // 256), _LEAST_CHUNK), _LARGEST_CHUNK)
        size = max(size, _LEAST_OF_SOURCE * len(run.sources), -(-run.num_rays // _MOST_CHUNKS))
        return cls(run.sources, run.seed, -(-run.num_rays // size))

    @functools.cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        starts = np.array([s.start for s in self.sources], dtype=np.int64)
        rays = np.array([s.stop - s.start for s in self.sources], dtype=np.int64)
        base = mix(self.seed & ((1 << 64) - 1))
        phases = [mix(base ^ mix(k)) * self.count >> 64 for k in range(len(self.sources))]
        return starts, rays, np.array(phases, dtype=np.int64)

    def edges(self, k: int) -> np.ndarray:
        """(sources,), how many rays of each source the first ``k`` chunks hold."""
        _, rays, phases = self._table
        return (rays * k + phases) // self.count

    def ranges(self, k: int) -> Iterator[tuple[int, int]]:
        """The ids ``first <= id < last`` of chunk ``k``, source by source."""
        starts = self._table[0]
        for first, last in zip(starts + self.edges(k), starts + self.edges(k + 1), strict=True):
            if first < last:
                yield int(first), int(last)

    def born(self, chunks: np.ndarray) -> np.ndarray:
        """(sources,), rays of each source in the chunks that are True."""
        steps = np.flatnonzero(np.diff(np.concatenate([[False], chunks, [False]]).astype(np.int8)))
        runs = zip(steps[::2], steps[1::2], strict=True)
        none = np.zeros(len(self.sources), dtype=np.int64)
        return functools.reduce(operator.add, [self.edges(int(b)) - self.edges(int(a)) for a, b in runs], none)


@dataclass(frozen=True)
class Outlook:
    """What the chunks say about the result.

    Attributes:
        born: rays traced of each source. whole: whether those are all; else `stopped_by` says why.
        flux_errors: (detectors,), relative standard error of each detector's total flux; inf where it is not known.
    """

    born: np.ndarray
    whole: bool
    stopped_by: str
    flux_errors: np.ndarray


def relative_error(values: np.ndarray, sizes: np.ndarray, squares: np.ndarray | None = None) -> float:
    """Relative standard error of a sum by batch means, or inf.

    ``values`` (K,) is what each chunk adds and ``sizes`` (K,) the flux that went into it. The error is that of the
    ratio of both sums (Cochran, "Sampling Techniques", 1977, section 6.4). With ``squares`` (K,), the sums over pixels
    of a chunk's squared contributions, see `map_error`.
    """
    count, total = len(values), float(values.sum())
    if count < _LEAST_SAMPLE or total <= 0.0:
        return math.inf
    gaps = values - sizes * (total / sizes.sum())
    return math.sqrt(count / (count - 1) * float(np.square(gaps).sum())) / total


def map_error(squares: np.ndarray, cells: np.ndarray) -> float:
    """Expected error of a map over its size, both as root of the sum of squares over pixels, by batch means, or inf.

    ``squares`` (K,) are the sums over pixels of a chunk's squared contributions, ``cells`` the map.
    """
    count, size = len(squares), float(np.square(cells.astype(np.float64)).sum())
    if count < _LEAST_SAMPLE or size <= 0.0:
        return math.inf
    return math.sqrt(max(count / (count - 1) * (float(squares.sum()) - size / count), 0.0) / size)


@dataclass(frozen=True)
class Workplace:
    """A scene that is ready to be traced.

    Attributes:
        run: its constants. fluxes: (sources,), flux of a ray of each source, W.
        lanes: makers of the lanes that work side by side. batch: rays that a lane takes at a time.
        reader_rows: (n, 2), a row of the search and the place of the detector that it belongs to.
        map_sizes: (detectors,), cells of each map. account: of the trace, as plain values, for its checkpoint.
    """

    run: Run
    fluxes: np.ndarray
    lanes: list[Callable[[], Any]]
    batch: int
    reader_rows: np.ndarray
    map_sizes: np.ndarray
    account: dict[str, Any]


class _Meter:
    """What a lane's sums gained since the last look, by detector."""

    def __init__(self, place: Workplace, squares: bool) -> None:
        self._rows, self._owners = place.reader_rows.T
        sizes = place.map_sizes
        self._wanted = np.flatnonzero(sizes) if squares else np.zeros(0, dtype=np.int64)
        self._starts = (np.cumsum(sizes) - sizes)[self._wanted]
        self._incident = np.zeros(len(self._rows), dtype=np.int64)
        self._maps = np.zeros(int(sizes.sum()), dtype=np.int64)

    def read(self, lane: Any, totals: np.ndarray, squares: np.ndarray) -> None:
        """Enter the gain into a row of each table."""
        books = lane.row_books.numpy().reshape(-1, at.NUM_ROW_BOOKS)
        incident = books[self._rows, at.ROW_INCIDENT]
        np.add.at(totals, self._owners, incident - self._incident)
        self._incident = incident
        if len(self._wanted):
            maps = lane.maps.numpy()[: len(self._maps)].copy()
            gain = (maps - self._maps).astype(np.float64)
            squares[self._wanted] = np.add.reduceat(np.square(gain), self._starts)
            self._maps = maps


class _Interrupt:
    """Notes Ctrl-C instead of raising; a second one raises. Where a program has its own handler, that one is left."""

    def __init__(self) -> None:
        self.seen = False

    def __enter__(self) -> _Interrupt:
        main = threading.current_thread() is threading.main_thread()
        self._ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._ours:
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, *_: Any) -> None:
        if self.seen:
            raise KeyboardInterrupt
        self.seen = True


def check_limits(
    scene: NSQScene,
    started: float,
    *,
    max_seconds: Any,
    target_error: Any,
    target_map_error: Any,
    checkpoint: Any,
    checkpoint_every: Any,
) -> Limits | None:
    """Limits of the arguments of a trace, or None where none is given. Raises TypeError and ValueError naming them."""
    every = check_constant(checkpoint_every, "checkpoint_every", nonnegative=True)
    given = (max_seconds, target_error, target_map_error, checkpoint)
    if all(value is None for value in given):
        return None
    if checkpoint is not None and not isinstance(checkpoint, str | os.PathLike):
        raise TypeError(f"checkpoint got {checkpoint!r} of type {type(checkpoint).__name__}; it takes a path or None")
    mapped = [name for name, d in zip(scene.detector_names, scene.detectors, strict=True) if _has_pixels(d)]
    return Limits(
        started=started,
        max_seconds=check_constant(
            math.inf if max_seconds is None else max_seconds, "max_seconds", positive=True, finite=False
        ),
        flux_errors=_targets(scene, target_error, "target_error", scene.detector_names),
        map_errors=_targets(scene, target_map_error, "target_map_error", mapped),
        checkpoint=None if checkpoint is None else Path(checkpoint),
        checkpoint_every=every,
    )


def _has_pixels(detector: Any) -> bool:
    return hasattr(detector, "num_pixels_x") or hasattr(detector, "num_bins_theta")


def _targets(scene: NSQScene, value: Any, argument: str, takes: list[str]) -> dict[int, float]:
    """Targets by place of the detector: one number is that of every detector in ``takes``."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        value = dict.fromkeys(takes, check_constant(value, argument, positive=True))
        if not value:
            raise ValueError(f"{argument} got a number, but no detector of the scene has pixels; it takes None here")
    targets = {}
    for name, target in value.items():
        if name not in takes:
            near = suggest(name, takes) if isinstance(name, str) else ""
            raise ValueError(f"{argument} got the detector {name!r}; it takes names out of {takes}.{near}")
        targets[scene.detector_names.index(name)] = check_constant(target, f"{argument}[{name!r}]", positive=True)
    return targets


class LongRun:
    """One run, from its checkpoint if there is one. Call it once."""

    def __init__(self, place: Workplace, limits: Limits, ranks: Ranks) -> None:
        self._place, self._limits, self._ranks = place, limits, ranks
        self._plan = Plan.of(place.run)
        count, detectors = self._plan.count, len(place.map_sizes)
        self._squares_wanted = bool(limits.map_errors)
        self._account = place.account | {"chunks": count, "map errors": self._squares_wanted}
        self._lanes: list[Any] = [None] * len(place.lanes)
        self._meters = [_Meter(place, self._squares_wanted) for _ in place.lanes]
        self._chunks = np.zeros(count, dtype=bool)
        self._totals = np.zeros((count, detectors), dtype=np.int64)
        self._squares = np.zeros((count, detectors) if self._squares_wanted else (0, 0))
        self._base: Sums | None = None
        self._due, self._pause = math.inf, 0.0

    def __call__(self, shown: bool) -> tuple[Sums, Outlook]:
        self._lanes[0] = self._place.lanes[0]()
        if self._limits.checkpoint is not None:
            self._resume()
        done = int(self._plan.born(self._chunks).sum())
        shown = shown and self._ranks.rank == 0
        with _Interrupt() as interrupt, Progress(shown, self._place.run.num_rays, done) as progress:
            stopped_by = self._work(progress, interrupt)
        sums = self._gather()
        totals = self._ranks.add_array(self._totals)
        return sums, self._outlook(totals, stopped_by)

    # ---- the work ----------------------------------------------------------------------------------------------------

    def _work(self, progress: Progress, interrupt: _Interrupt) -> str:
        """Trace chunks until there are none or something stops the run. Returns what it was."""
        count = self._plan.count
        length = max(_LEAST_SAMPLE, -(-count // _ROUNDS))
        for first in range(0, count, length):
            last = min(first + length, count)
            while not self._chunks[first:last].all():
                todo = [first + int(k) for k in np.flatnonzero(~self._chunks[first:last])]
                self._stint(share(todo, self._ranks), progress, interrupt)
                flags = np.array([interrupt.seen, self._late(), time.monotonic() >= self._due], dtype=np.int64)
                interrupted, late, due = (bool(flag) for flag in self._ranks.largest(flags))
                self._chunks = self._ranks.largest(self._chunks.astype(np.int64)).astype(bool)
                progress.reach(int(self._plan.born(self._chunks).sum()))
                stop = interrupted or late or self._chunks.all()
                if self._limits.checkpoint is not None and (due or stop):
                    self._save()
                if stop:
                    return CTRL_C if interrupted else MAX_SECONDS
            if not self._chunks[last:].any() and self._reached():
                if self._limits.checkpoint is not None:
                    self._save()
                return TARGET_ERROR
        return ""

    def _stint(self, todo: list[int], progress: Progress, interrupt: _Interrupt) -> None:
        """Work on all lanes until nothing is left to do or it is time for a pause; every lane does a chunk at least."""
        queue = deque(todo)

        def pause() -> bool:
            return progress.stopped or interrupt.seen or self._late() or time.monotonic() >= self._due

        def work(index: int) -> None:
            while queue:
                try:
                    k = queue.popleft()
                except IndexError:  # another lane was quicker
                    return
                self._trace(index, k, progress)
                if pause():
                    return

        tasks = [functools.partial(work, index) for index in range(min(len(self._lanes), len(todo)))]
        lanes.run([progress.guard(task) for task in tasks])

    def _trace(self, index: int, k: int, progress: Progress) -> None:
        """Chunk ``k`` on a lane, which is made when it is first needed."""
        if self._lanes[index] is None:
            self._lanes[index] = self._place.lanes[index]()
        lane = self._lanes[index]
        for first, last in self._plan.ranges(k):
            for start, stop in itertools.pairwise(_steps(first, last, self._place.batch)):
                progress.check()
                lane.trace(start, stop)
                progress.done(stop - start)
        squares = self._squares[k] if self._squares_wanted else self._squares
        self._meters[index].read(lane, self._totals[k], squares)
        self._chunks[k] = True

    def _late(self) -> bool:
        return time.perf_counter() - self._limits.started >= self._limits.max_seconds

    # ---- what came of it ---------------------------------------------------------------------------------------------

    def _gather(self) -> Sums:
        """The sums of every lane of every process, and of what was done before."""
        parts = [lane.sums() for lane in self._lanes if lane is not None]
        if self._base is not None:
            parts.append(self._base)
        return self._ranks.add(functools.reduce(operator.add, parts))

    @functools.cached_property
    def _sizes(self) -> np.ndarray:
        """(K,), the flux that goes into each chunk, W."""
        return np.diff([self._plan.edges(k) @ self._place.fluxes for k in range(self._plan.count + 1)])

    def _flux_errors(self, totals: np.ndarray) -> np.ndarray:
        sizes = self._sizes[self._chunks]
        done = totals[self._chunks].astype(np.float64)
        return np.array([relative_error(column, sizes) for column in done.T])

    def _reached(self) -> bool:
        """Whether every error asked for is small enough; False where none is."""
        limits = self._limits
        if not limits.flux_errors and not limits.map_errors:
            return False
        errors = self._flux_errors(self._ranks.add_array(self._totals))
        if any(errors[place] > target for place, target in limits.flux_errors.items()):
            return False
        if not limits.map_errors:
            return True
        squares = self._ranks.add_array(self._squares)[self._chunks]
        maps, ends = self._gather().maps, np.cumsum(self._place.map_sizes)
        return all(
            map_error(squares[:, place], maps[ends[place] - self._place.map_sizes[place] : ends[place]]) <= target
            for place, target in limits.map_errors.items()
        )

    def _outlook(self, totals: np.ndarray, stopped_by: str) -> Outlook:
        whole = bool(self._chunks.all())
        return Outlook(
            born=self._plan.born(self._chunks),
            whole=whole,
            stopped_by="" if whole else stopped_by,
            flux_errors=self._flux_errors(totals),
        )

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Go on from the checkpoint; without one write an empty one, so that a bad path is known of at once."""
        path = self._limits.checkpoint
        blank = files.Progressed(self._chunks, self._lanes[0].sums(), self._totals, self._squares)

        def begin() -> files.Progressed | None:
            files.sweep(path)
            found = files.read(path, self._account, blank)
            if found is None:
                files.write(path, self._account, blank)
            return found

        found = self._first(begin)
        if found is not None:
            self._chunks, self._base = found.chunks, found.sums
            self._totals, self._squares = found.totals, found.squares
        self._chunks = self._ranks.largest(self._chunks.astype(np.int64)).astype(bool)
        self._due = time.monotonic() + self._limits.checkpoint_every

    def _save(self) -> None:
        started = time.monotonic()
        done = files.Progressed(
            self._chunks, self._gather(), self._ranks.add_array(self._totals), self._ranks.add_array(self._squares)
        )
        self._first(functools.partial(files.write, self._limits.checkpoint, self._account, done))
        now = time.monotonic()
        self._due = now + max(self._limits.checkpoint_every, (now - started) / _WRITING_SHARE)

    def _first(self, action: Callable[[], Any]) -> Any:
        """What an action returns on the first process. If it fails there, every process raises."""
        value, error = None, None
        if self._ranks.rank == 0:
            try:
                value = action()
            except Exception as caught:  # the others wait to be told
                error = caught
        failed = self._ranks.largest(np.array([error is not None], dtype=np.int64))[0]
        if error is not None:
            raise error
        if failed:
            raise RuntimeError("the first process of the group could not read or write the checkpoint; it says why")
        return value


def _steps(first: int, last: int, longest: int) -> list[int]:
    """Bounds of pieces of ``range(first, last)``, about equally long and none above ``longest``."""
    pieces = -(-(last - first) // longest)
    return [first + (last - first) * k // pieces for k in range(pieces + 1)]
