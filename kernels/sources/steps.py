"""Where a rising table passes a number."""

import functools

import warp as wp

from kernels.precision import DOUBLES


@functools.cache
def first_above():
    """A Warp function (table, start, count, x) -> the first k < count with table[start + k] > x, or count - 1.

    The entries must not fall. Not differentiated.
    """

    @wp.func
    def find(table: DOUBLES, start: int, count: int, x: wp.float64):
        low = int(0)
        high = count - 1
        while low < high:
            middle = (low + high) // 2
            if table[start + middle] > x:
                high = middle
            else:
                low = middle + 1
        return low

    @wp.func_grad(find)
    def adj_find(table: DOUBLES, start: int, count: int, x: wp.float64, a: int):
        pass

    return find
