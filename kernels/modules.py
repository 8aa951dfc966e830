"""Warp modules with the options that every kernel of this project is compiled with."""

import platform
import threading

import warp as wp

# The defaults of Warp 1.19 and two more: the vectoriser may emit as many run-time alias checks as a structure of arrays
# with a few dozen columns needs, and uses vectors as wide as the processor has.
CPU_FLAGS = (
    "-march=native -mllvm=-inline-threshold=9000 -mllvm=-inline-cold-callsite-threshold=3000"
    " -mllvm=-slp-recursion-max-depth=4 -mllvm=-vectorize-memory-check-threshold=4000"
)
_WIDE = platform.machine().lower() in ("x86_64", "amd64")
if _WIDE:
    CPU_FLAGS += " -mprefer-vector-width=512"

_lock = threading.Lock()


def kernel_module(name, *, backward=False, lanes=None):
    """The Warp module ``name``, created on first use.

    ``fuse_fp`` is off so that a forward pass and its replay round alike on every device. Kernels that are never
    differentiated live in modules without adjoints, which halves their compilation. ``lanes`` is how many rays a CPU's
    vectorised loop takes at a time, if the compiler's own choice, by the widest type in the loop, is not the best.
    """
    flags = CPU_FLAGS if lanes is None or not _WIDE else f"{CPU_FLAGS} -mllvm=-force-vector-width={lanes}"
    if backward:
        # an adjoint adds to sums that start at 0, which the compiler may leave out only if -0 need not become 0
        flags += " -fno-signed-zeros"
    with _lock:
        module = wp.get_module(name)
        wp.set_module_options(
            {"enable_backward": backward, "fuse_fp": False, "cpu_compiler_flags": flags}, module=module
        )
        return module
