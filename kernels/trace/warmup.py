"""Build every kernel that a trace needs before any is launched.

A kernel that joins a loaded module has the whole module compiled again, and lanes on several threads must find their
modules loaded.
"""

import threading

import warp as wp

from kernels import sources
from kernels.trace.backward import readout_kernel, reduce_kernel, scale_kernel, scatter_kernel
from kernels.trace.books import book_kernel, compact_kernels, deposit_kernel, roulette_kernel
from kernels.trace.emit import emit_kernel, line_kernel
from kernels.trace.interact import interact_kernel
from kernels.trace.search import search_kernel

_lock = threading.Lock()
_loaded = set()


def forward_kernels(precision):
    """Every kernel without an adjoint."""
    kinds = range(len(sources.ROWS))
    return [
        search_kernel(precision), interact_kernel(precision), book_kernel(precision), deposit_kernel(precision),
        roulette_kernel(precision), *compact_kernels(precision), line_kernel(precision), scatter_kernel(precision),
        scale_kernel(precision), reduce_kernel(precision), *(emit_kernel(precision, kind) for kind in kinds),
    ]  # fmt: skip


def adjoint_kernels(precision):
    """Every kernel that is launched as an adjoint."""
    kinds = range(len(sources.ROWS))
    return [
        interact_kernel(precision, backward=True), readout_kernel(precision),
        *(emit_kernel(precision, kind, backward=True) for kind in kinds),
    ]  # fmt: skip


def trace_modules(precision, *, backward):
    """The Warp modules of a trace, complete: no kernel joins them later."""
    kernels = forward_kernels(precision)
    if backward:
        kernels = kernels + adjoint_kernels(precision)
    return list({id(k.module): k.module for k in kernels}.values())


def load_modules(precision, device, *, backward):
    """Compile (or take from the cache) and load what a trace on ``device`` needs."""
    key = (precision, str(device), backward)
    with _lock:
        if key not in _loaded:
            wp.force_load(device, modules=trace_modules(precision, backward=backward))
            _loaded.add(key)
