"""Warp device code shared by ``nsq`` and ``bvh``.

The package knows neither scenes nor handles: it holds Warp functions, kernels and their launchers.
``PROJECT`` lets the packages above tell this ``kernels`` from another distribution's.
"""

PROJECT = "nsq"


def all_modules():
    """Every Warp module of the ray trace, with all its kernels created: for compiling or checking ahead of time."""
    from kernels import rng, sources
    from kernels.precision import REALS
    from kernels.trace import probe
    from kernels.trace.interact import Variant
    from kernels.trace.splitting import split_kernels
    from kernels.trace.tree import list_kernel, tree_kernel
    from kernels.trace.visibility import visibility_kernels
    from kernels.trace.warmup import (
        adjoint_kernels,
        forward_kernels,
        interact_kernels,
        modules_of,
        sag_kernels,
        scatter_kernels,
        sobol_kernels,
        table_kernels,
        volume_kernels,
    )

    kernels = [rng.draw_kernel(), probe.locate_kernel(), probe.locate_kernel(backward=True)]
    for precision in REALS:
        kernels += forward_kernels(precision) + adjoint_kernels(precision, range(len(sources.ROWS)))
        for full in (False, True):
            kernels += scatter_kernels(precision, backward=True, full=full)
        kernels += [list_kernel(precision), tree_kernel(precision)]
        kernels += sag_kernels(precision, backward=True)
        for variant in Variant.every():
            kernels += interact_kernels(precision, variant, backward=not variant.splits)
        for sobol in (False, True):
            kernels += table_kernels(precision, range(len(sources.ROWS)), sobol)
        kernels += volume_kernels(precision, backward=True)
        kernels += sobol_kernels(precision) + adjoint_kernels(precision, range(len(sources.ROWS)), True)
        kernels += [kernel for sags in (False, True) for kernel in visibility_kernels(precision, sags)]
        kernels += split_kernels(precision)
    return modules_of(kernels)
