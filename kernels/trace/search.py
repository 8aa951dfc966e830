"""Nearest surface: one launch for each row, which keeps the smallest distance a ray has seen so far."""

import functools

import warp as wp

from kernels.modules import kernel_module
from kernels.precision import INT, bundle, ldi, sti
from kernels.shapes.quadric import quadric
from kernels.trace import layout

FAR = 1.0e30


@functools.cache
def search_kernel(precision):
    b = bundle(precision)
    real, array, ld, st = b.real, b.array, b.ld, b.st
    hit = quadric(precision).hit

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def search(
        floats: array, ints: INT, distance: array, row_hit: INT,
        numbers: array, domain: array, row: int, first: int, eps: real, n: wp.int64,
    ):  # fmt: skip
        i = wp.tid()
        far = real(wp.static(FAR))
        t = hit(
            ld(floats, wp.static(layout.X), n, i), ld(floats, wp.static(layout.Y), n, i),
            ld(floats, wp.static(layout.Z), n, i), ld(floats, wp.static(layout.L), n, i),
            ld(floats, wp.static(layout.M), n, i), ld(floats, wp.static(layout.N), n, i),
            ldi(ints, wp.static(layout.LAST), n, i) == row, eps, far, numbers, domain, row,
        )  # fmt: skip
        best = wp.where(first == 1, far, ld(distance, 0, n, i))
        best_row = wp.where(first == 1, -1, ldi(row_hit, 0, n, i))
        # strictly nearer wins: on a tie the row that was registered first
        nearer = t < best
        st(distance, 0, n, i, wp.where(nearer, t, best))
        sti(row_hit, 0, n, i, wp.where(nearer, row, best_row))

    return search
