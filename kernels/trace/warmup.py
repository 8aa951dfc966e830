"""Build every kernel that a trace needs before any is launched.

A kernel that joins a loaded module has the whole module compiled again, and lanes on several threads must find their
modules loaded.
"""

import threading

import warp as wp

from kernels import sources
from kernels.trace import layout as at
from kernels.trace.backward import (
    flat_readout_kernels,
    readout_kernel,
    reduce_kernel,
    scale_kernel,
    uncompact_kernels,
    weigh_kernel,
)
from kernels.trace.books import book_kernels, compact_kernels, note_kernel, roulette_kernel
from kernels.trace.chain import chain_kernel
from kernels.trace.deposit import deposit_kernel, locate_kernels
from kernels.trace.emit import emit_kernel, line_kernel
from kernels.trace.interact import interact_kernel
from kernels.trace.sags import locate_sag_kernel, search_sag_kernel
from kernels.trace.scatter import move_kernels, scatter_kernel
from kernels.trace.search import search_kernels
from kernels.trace.splitting import split_kernels
from kernels.trace.tree import tree_kernels
from kernels.trace.visibility import visibility_kernels
from kernels.trace.volume import collide_kernel, collision_kernel, collision_moves

_lock = threading.Lock()
_loaded = set()


def forward_kernels(precision):
    """Every kernel without an adjoint; they share one module."""
    kinds = _plain_sources()
    return [
        chain_kernel(precision), *search_kernels(precision), note_kernel(precision), *book_kernels(precision),
        deposit_kernel(precision), *locate_kernels(precision),
        roulette_kernel(precision), *compact_kernels(precision), compact_kernels(precision, at.NUM_INTS)[1],
        line_kernel(precision, False),
        *uncompact_kernels(precision), *flat_readout_kernels(precision, False), weigh_kernel(precision, True),
        scale_kernel(precision),
        reduce_kernel(precision),
        *(emit_kernel(precision, kind, False, False) for kind in kinds),
    ]  # fmt: skip


def _plain_sources():
    return [kind for kind in range(len(sources.ROWS)) if not sources.has_table(kind)]


def table_kernels(precision, kinds, sobol=False):
    """Births of the sources of these ``kinds`` that read a table."""
    return [emit_kernel(precision, kind, False, sobol) for kind in kinds if sources.has_table(kind)]


def scatter_kernels(precision, *, backward, full=False):
    """What a scene with scattering surfaces needs on top; ``full`` for those with targets or given by a sag."""
    kernels = [scatter_kernel(precision), scatter_kernel(precision, full=full), *move_kernels(precision)]
    return [*kernels, scatter_kernel(precision, backward=True, full=full)] if backward else kernels


def sag_kernels(precision, *, backward):
    """What a scene with aspheres, biconics or toroids needs on top."""
    kernels = [search_sag_kernel(precision), locate_sag_kernel(precision)]
    return [*kernels, locate_sag_kernel(precision, backward=True)] if backward else kernels


def volume_kernels(precision, *, backward):
    """What a scene with media that scatter needs on top."""
    kernels = [collide_kernel(precision), collision_kernel(precision), *collision_moves(precision)]
    return [*kernels, collision_kernel(precision, backward=True)] if backward else kernels


def interact_kernels(precision, variant, *, backward):
    """The build of the interaction for a scene."""
    kernels = [interact_kernel(precision, variant)]
    return [*kernels, interact_kernel(precision, variant, backward=True)] if backward else kernels


def sobol_kernels(precision):
    """What births at Sobol points need on top."""
    kinds = _plain_sources()
    return [line_kernel(precision, True), *(emit_kernel(precision, kind, False, True) for kind in kinds)]


def adjoint_kernels(precision, kinds, sobol=False):
    """The kernels that are launched as adjoints, for sources of these ``kinds``."""
    emitters = (emit_kernel(precision, kind, True, sobol) for kind in kinds)
    return [readout_kernel(precision), *emitters]


def modules_of(kernels):
    """The Warp modules of kernels, each once."""
    return list({id(k.module): k.module for k in kernels}.values())


def load_modules(
    precision, device, kinds=(), *, variant, born=(), scatters=False, full_scatter=False, trees=False, sags=False,
    sobol=False, edges=False,
):  # fmt: skip
    """Compile (or take from the cache) and load what a trace on ``device`` needs.

    ``born`` are the kinds of the scene's sources; with them as ``kinds`` also what its backward pass needs.
    """
    backward = bool(kinds)
    parts = {
        ("forward", False): lambda: forward_kernels(precision),
        ("tree", False): lambda: tree_kernels(precision, wp.get_device(device)) if trees else [],
        ("scatter", full_scatter, backward): lambda: (
            scatter_kernels(precision, backward=backward, full=full_scatter) if scatters else []
        ),
        ("sag", backward): lambda: sag_kernels(precision, backward=backward) if sags else [],
        ("volume", backward): lambda: volume_kernels(precision, backward=backward) if variant.turbid else [],
        (variant, backward): lambda: interact_kernels(precision, variant, backward=backward),
        ("splits", False): lambda: split_kernels(precision) if variant.splits else [],
        **{("table", kind, sobol): lambda kind=kind: table_kernels(precision, (kind,), sobol) for kind in born},
        ("edges", sags): lambda: visibility_kernels(precision, sags) if edges else [],
        ("sobol", False): lambda: sobol_kernels(precision) if sobol else [],
        **{("birth", kind, sobol): lambda kind=kind: adjoint_kernels(precision, (kind,), sobol) for kind in kinds},
    }
    with _lock:
        kernels = []
        for part, build in parts.items():
            key = (precision, str(device), part)
            found = [] if key in _loaded else build()
            if found:
                kernels += found
                _loaded.add(key)
        if kernels:
            wp.force_load(device, modules=modules_of(kernels))
