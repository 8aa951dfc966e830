"""Nearest surface: a few rows a launch, each keeping the smallest distance that a ray has seen so far.

The loop over rows is outside, so that the loop over rays inside is the one that the compiler vectorises. Neighbouring
rows of one build go together, up to `GROUPS` at a time, which saves loading and storing the rays for each of them.
"""

import functools

import warp as wp

from kernels.modules import kernel_module
from kernels.precision import INT, bundle, ldi, sti
from kernels.shapes.quadric import BUILDS, hit_of
from kernels.trace import layout

FAR = 1.0e30
# how many rows a launch may take, largest first
GROUPS = (2, 1)


def row_groups(rows, builds):
    """``(first row, how many, build)`` of the launches that cover ascending rows, each of its own build."""
    k = 0
    while k < len(rows):
        together = 1
        while (
            k + together < len(rows) and rows[k + together] == rows[k] + together and builds[k + together] == builds[k]
        ):
            together += 1
        size = next(g for g in GROUPS if g <= together)
        yield rows[k], size, builds[k]
        k += size


@functools.cache
def search_kernel(precision, rows, build):
    """The kernel that takes ``rows`` rows of a build at once."""
    b = bundle(precision)
    real, array, ld, st = b.real, b.array, b.ld, b.st
    hit = hit_of(precision, build)

    def search(
        floats: array, ints: INT, distance: array, row_hit: INT,
        numbers: array, domain: array, row: int, first: int, surfaces: int, eps: real, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        far = real(wp.static(FAR))
        x = ld(floats, wp.static(layout.X), n, i)
        y = ld(floats, wp.static(layout.Y), n, i)
        z = ld(floats, wp.static(layout.Z), n, i)
        u = ld(floats, wp.static(layout.L), n, i)
        v = ld(floats, wp.static(layout.M), n, i)
        w = ld(floats, wp.static(layout.N), n, i)
        last = ldi(ints, wp.static(layout.LAST), n, i)
        # a ray that starts inside a medium is on no surface: whatever lies ahead counts, however near
        near = wp.where(last == wp.static(layout.AFLOAT), real(0.0), eps)
        best = wp.where(first == 1, far, ld(distance, wp.static(layout.NEAREST), n, i))
        second = wp.where(first == 1, far, ld(distance, wp.static(layout.RUNNER_UP), n, i))
        best_row = wp.where(first == 1, -1, ldi(row_hit, 0, n, i))
        for k in range(wp.static(rows)):
            t = hit(x, y, z, u, v, w, last == row + k, near, far, numbers, domain, row + k)
            # strictly nearer wins: on a tie the row that was registered first
            nearer = t < best
            # the other one counts as runner-up if it is a surface; detectors come behind the surfaces
            other = wp.where(nearer, best_row, row + k)
            passed = wp.where(nearer, best, t)
            second = wp.where(wp.where(other < surfaces, passed < second, False), passed, second)
            best = wp.where(nearer, t, best)
            best_row = wp.where(nearer, row + k, best_row)
        st(distance, wp.static(layout.NEAREST), n, i, best)
        st(distance, wp.static(layout.RUNNER_UP), n, i, second)
        sti(row_hit, 0, n, i, best_row)

    return wp.kernel(
        search, name=f"search_{build}_{rows}", module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False
    )


def search_kernels(precision):
    """All of them."""
    return [search_kernel(precision, rows, build) for build in BUILDS for rows in GROUPS]
