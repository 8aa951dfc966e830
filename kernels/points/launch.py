"""How the point kernels are made, loaded and launched.

A kernel here takes ``offset`` as its first argument and works on item ``offset + wp.tid()``, so that the lanes of a CPU
can share one range. Nothing is ever recorded on a tape: an enclosing ``wp.Tape`` of the user's does not see these
launches.
"""

import functools
import threading

import warp as wp

from kernels import lanes

_lock = threading.RLock()
_PIECES_PER_THREAD = 8  # pieces are taken one by one, so that a lane that is held up does not hold up the others


def once(factory):
    """Cache ``factory`` by its arguments; two threads that ask at once get the same kernels, made once."""
    made = {}

    @functools.wraps(factory)
    def get(*key):
        found = made.get(key)
        if found is None:
            with _lock:
                found = made.get(key)
                if found is None:
                    found = made[key] = factory(*key)
        return found

    return get


@once
def _loaded(module, alias):
    wp.load_module(module, device=alias)
    return True


def ready(kernel, device):
    """Compile and load the kernel's module before any lane needs it: one compilation, on one thread."""
    _loaded(kernel.module, device.alias)


def launch(kernel, total, inputs, device, *, grain=32768):
    """Run ``kernel`` over ``range(total)``; on a CPU in pieces of at least ``grain`` items shared by the lanes."""
    if total == 0:
        return
    ready(kernel, device)
    threads = lanes.get_num_threads() if device.is_cpu else 1
    pieces = lanes.split_range(total, threads * _PIECES_PER_THREAD if threads > 1 else 1, grain)
    run_pieces(
        lambda start, stop: wp.launch(kernel, stop - start, inputs=[start, *inputs], device=device, record_tape=False),
        pieces,
        threads,
    )


def run_pieces(work, pieces, threads):
    """Call ``work(start, stop)`` for every piece, on as many lanes as there are threads and pieces."""
    if threads == 1 or len(pieces) == 1:
        for start, stop in pieces:
            work(start, stop)
        return
    queue = iter(pieces)  # taking the next item of a list's iterator is atomic

    def lane():
        for start, stop in queue:
            work(start, stop)

    lanes.run([lane] * min(threads, len(pieces)))


def launch_serial(kernel, inputs, device):
    """Run a kernel that is one sequential program."""
    ready(kernel, device)
    wp.launch(kernel, 1, inputs=list(inputs), device=device, record_tape=False)


def launch_each(kernel, total, inputs, device):
    """Run a kernel whose every item is a long program of its own, one item a piece."""
    launch(kernel, total, inputs, device, grain=1)


VECTORS = {2: wp.vec2, 3: wp.vec3}


def dimension(array, name):
    """2 or 3 for an array of ``wp.vec2`` or ``wp.vec3``; TypeError for anything else."""
    if not isinstance(array, wp.array):
        raise TypeError(f"{name} must be a wp.array of wp.vec2 or wp.vec3, got {type(array).__name__}")
    for size, vector in VECTORS.items():
        if wp.types.types_equal(array.dtype, vector):
            return size
    raise TypeError(f"{name} must be a wp.array of wp.vec2 or wp.vec3, got elements {array.dtype.__name__}")
