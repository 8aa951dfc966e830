"""CPU lanes: Python threads that each work through a share of a launch.

Warp runs a CPU launch on one core and releases the interpreter while it does, so threads scale. CPU atomics are plain
adds: two lanes must never write into one array.
"""

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor

_lock = threading.Lock()
_settings = {"threads": None, "pool": None, "size": 0, "pid": None}


def available_cores():
    """Cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1


def get_num_threads():
    """Threads that a trace or a query uses on the CPU."""
    return _settings["threads"] or available_cores()


def set_num_threads(num_threads):
    """Use ``num_threads`` CPU threads from now on; ``None`` goes back to every core the process may run on.

    Raises TypeError for anything but an integer or None and ValueError below 1.
    """
    if num_threads is not None:
        if isinstance(num_threads, bool) or not isinstance(num_threads, int):
            raise TypeError(f"num_threads must be an int or None, got {type(num_threads).__name__}")
        if num_threads < 1:
            raise ValueError(f"num_threads must be at least 1, got {num_threads}")
    with _lock:
        _settings["threads"] = num_threads


def split_range(total, parts, minimum=1):
    """Contiguous ``(start, stop)`` pieces of ``range(total)``: at most ``parts`` of them, none below ``minimum``."""
    parts = max(1, min(parts, total // max(1, minimum)))
    bounds = [total * i // parts for i in range(parts + 1)]
    return list(itertools.pairwise(bounds))


def _pool(size):
    with _lock:
        if _settings["size"] < size or _settings["pid"] != os.getpid():
            _settings["pool"] = ThreadPoolExecutor(size, thread_name_prefix="lane")
            _settings["size"] = size
            _settings["pid"] = os.getpid()
        return _settings["pool"]


def run(tasks):
    """Call every task, the first on this thread and the others on lanes of their own, and return their results in
    order.

    The first exception is raised after all tasks have ended, so no lane is left writing. Tasks must not call ``run``.
    """
    tasks = list(tasks)
    if not tasks:
        return []
    if len(tasks) == 1:
        return [tasks[0]()]
    pool = _pool(len(tasks))
    futures = [pool.submit(task) for task in tasks[1:]]
    results, error = [], None
    try:
        results.append(tasks[0]())
    except BaseException as caught:  # waits for the lanes before it goes on
        error = caught
    for future in futures:
        try:
            results.append(future.result())
        except BaseException as caught:
            error = error or caught
    if error is not None:
        raise error
    return results
