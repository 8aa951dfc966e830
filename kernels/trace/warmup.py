"""Build every kernel that a trace needs before any is launched.

A kernel that joins a loaded module has the whole module compiled again, and lanes on several threads must find their
modules loaded.
"""

import threading

import warp as wp

from kernels import sources
from kernels.trace.backward import readout_kernel, reduce_kernel, scale_kernel, uncompact_kernel
from kernels.trace.books import book_kernel, compact_kernels, deposit_kernel, roulette_kernel
from kernels.trace.emit import emit_kernel, line_kernel
from kernels.trace.interact import interact_kernel
from kernels.trace.sags import locate_sag_kernel, search_sag_kernel
from kernels.trace.scatter import move_kernels, scatter_kernel
from kernels.trace.search import GROUPS, search_kernel
from kernels.trace.tree import tree_kernel

_lock = threading.Lock()
_loaded = set()


def forward_kernels(precision):
    """Every kernel without an adjoint; they share one module."""
    kinds = range(len(sources.ROWS))
    return [
        *(search_kernel(precision, rows) for rows in GROUPS), interact_kernel(precision), book_kernel(precision), deposit_kernel(precision),
        roulette_kernel(precision), *compact_kernels(precision), line_kernel(precision), uncompact_kernel(precision),
        scale_kernel(precision), reduce_kernel(precision), *(emit_kernel(precision, kind) for kind in kinds),
    ]  # fmt: skip


def scatter_kernels(precision, *, backward):
    """What a scene with scattering surfaces needs on top."""
    kernels = [scatter_kernel(precision), *move_kernels(precision)]
    return [*kernels, scatter_kernel(precision, backward=True)] if backward else kernels


def sag_kernels(precision, *, backward):
    """What a scene with aspheres, biconics or toroids needs on top."""
    kernels = [search_sag_kernel(precision), locate_sag_kernel(precision), interact_kernel(precision, sags=True)]
    if backward:
        kernels += [locate_sag_kernel(precision, backward=True), interact_kernel(precision, backward=True, sags=True)]
    return kernels


def adjoint_kernels(precision, kinds):
    """The kernels that are launched as adjoints, for sources of these ``kinds``."""
    emitters = (emit_kernel(precision, kind, backward=True) for kind in kinds)
    return [interact_kernel(precision, backward=True), readout_kernel(precision), *emitters]


def modules_of(kernels):
    """The Warp modules of kernels, each once."""
    return list({id(k.module): k.module for k in kernels}.values())


def load_modules(precision, device, kinds=(), *, scatters=False, trees=False, sags=False):
    """Compile (or take from the cache) and load what a trace on ``device`` needs.

    With the ``kinds`` of the scene's sources also what its backward pass needs.
    """
    wanted = [(precision, str(device), part) for part in ("forward", *kinds)]
    if scatters:
        wanted.append((precision, str(device), "scatter adjoint" if kinds else "scatter"))
    if sags:
        wanted.append((precision, str(device), "sag adjoint" if kinds else "sag"))
    if trees:
        wanted.append((precision, str(device), "tree"))
    with _lock:
        if all(key in _loaded for key in wanted):
            return
        kernels = forward_kernels(precision) + (adjoint_kernels(precision, kinds) if kinds else [])
        kernels += scatter_kernels(precision, backward=bool(kinds)) if scatters else []
        kernels += [tree_kernel(precision)] if trees else []
        kernels += sag_kernels(precision, backward=bool(kinds)) if sags else []
        wp.force_load(device, modules=modules_of(kernels))
        _loaded.update(wanted)
