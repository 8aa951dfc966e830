"""A timer that takes a run again when other processes disturbed it, and a peer that says how to get it."""

import importlib
import os
import statistics
import sys
import time
from typing import NamedTuple

CALM = 0.15  # cores that others may keep busy during a run that counts


class Timing(NamedTuple):
    """Seconds: median, fastest and slowest of the runs that count, and the cores that others kept busy meanwhile."""

    median: float
    fastest: float
    slowest: float
    others: float

    def __str__(self):
        noise = f", others busy {self.others:.2f} cores" if self.others >= CALM else ""
        return f"{self.median:.4g} s ({self.fastest:.4g} to {self.slowest:.4g}{noise})"


def _busy_seconds():
    """Core seconds that the whole machine has worked; None where the system does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [int(word) for word in file.readline().split()[1:9]]
    except OSError:
        return None
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def _once(function):
    """(cores that other processes kept busy, seconds) of one call."""
    busy, own, start = _busy_seconds(), sum(os.times()[:4]), time.perf_counter()
    seconds = function()
    wall = time.perf_counter() - start
    others = 0.0
    if busy is not None:
        others = max(0.0, _busy_seconds() - busy - (sum(os.times()[:4]) - own)) / max(wall, 0.02)
    return others, wall if seconds is None else seconds


def measure(*functions, repeats=5, patience=60.0):
    """A `Timing` for each function, their runs taken in turn so that a slow spell meets all of them.

    A run during which other processes were busy does not count and is taken again, until every function has ``repeats``
    that do or ``patience`` seconds have gone; then the calmest runs stand. A function may return seconds of its own
    measuring; otherwise the whole call is timed. Call each once beforehand where the first call is another matter.
    """
    runs = [[] for _ in functions]
    start = time.perf_counter()
    while True:
        for rows, function in zip(runs, functions, strict=True):
            if sum(others < CALM for others, _ in rows) < repeats:
                rows.append(_once(function))
        calm = all(sum(others < CALM for others, _ in rows) >= repeats for rows in runs)
        enough = all(len(rows) >= repeats for rows in runs)
        if calm or (enough and time.perf_counter() - start > patience):
            break
    timings = []
    for rows in runs:
        kept = sorted(rows)[:repeats]
        seconds = [s for _, s in kept]
        others = statistics.fmean(o for o, _ in kept)
        timings.append(Timing(statistics.median(seconds), min(seconds), max(seconds), others))
    return timings if len(functions) > 1 else timings[0]


def peak_memory():
    """Peak resident memory of this process, MB. What getrusage says of a child begins with its parent's peak."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            (line,) = (line for line in file if line.startswith("VmHWM"))
    except OSError:
        import resource  # not on every platform

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1024.0**2 if sys.platform == "darwin" else 1024.0)
    return int(line.split()[1]) / 1024.0


def require(module, extra="bench"):
    """Import a peer; where it is missing, stop and say what brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        sys.exit(f"This benchmark compares with {module.split('.')[0]}: pip install -e '.[{extra}]' -c constraints.txt")
