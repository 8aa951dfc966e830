"""Commands launched one after another, on a CPU in a single call that leaves the interpreter to other lanes.

Between two launches from Python a lane needs the interpreter, and has to wait where another lane holds it. The launches
of a bounce follow from one another: how many rays a launch takes is known beforehand, or counted by a launch before it.
So a native loop can go through them, and Python enters once a bounce.
"""

import copy
import functools
from dataclasses import dataclass

import numpy as np
import warp as wp

from kernels.modules import kernel_module
from kernels.precision import LONG
from kernels.trace.command import Command

# What a link is launched over instead of a count of its own: all rays, or a single cell
EVERYONE, ONE = -1, -2
# columns of the table that the native loop goes through; the first four are the addresses of a command, then come those
# of the number of cells and of a number that must not be 0
_SIZE, _GATE, _COLUMNS = 4, 5, 6

_RUN = """
#if !defined(__CUDA_ARCH__)
    typedef void (*Forward)(void*, void*);
    typedef void (*Backward)(void*, void*, void*);
    for (wp::int32 k = first; k < last; ++k) {
        const wp::int64* link = links.data + 6 * (long long)k;
        const wp::int32 size = *(const wp::int32*)link[4];
        if (size <= 0 || *(const wp::int32*)link[5] == 0) continue;
        wp::launch_bounds_t<1>* bounds = (wp::launch_bounds_t<1>*)link[1];
        bounds->shape[0] = (wp::uint32)size;
        bounds->size = (size_t)size;
        if (link[3]) ((Backward)link[0])((void*)bounds, (void*)link[2], (void*)link[3]);
        else ((Forward)link[0])((void*)bounds, (void*)link[2]);
    }
#endif
"""


@wp.func_native(_RUN)
def run_links(links: LONG, first: int, last: int): ...


@functools.cache
def chain_kernel(precision):
    """One thread that launches commands on a CPU; on a GPU it does nothing, and is not launched."""

    @wp.kernel(module=kernel_module(f"kernels.trace.{precision}"), enable_backward=False)
    def chain(links: LONG, first: int, last: int):
        run_links(links, first, last)

    return chain


@dataclass(frozen=True)
class Link:
    """A command and the number of its cells: `EVERYONE`, `ONE`, or the number of a counter.

    Where that of ``gate`` is 0 it is left out.
    """

    command: Command
    size: int = EVERYONE
    gate: int | None = None


class Chain:
    """``run(count)`` launches links for ``count`` rays; they may count up ``counters``, a `Counters`."""

    def __init__(self, precision, device, counters, links):
        self._links, self._counters = tuple(links), counters
        self._native = None
        if wp.get_device(device).is_cpu:
            # the number of rays, and a 1
            self._sizes = np.ones(2, dtype=np.int32)
            everyone, one = (self._sizes.ctypes.data + 4 * k for k in range(2))
            places = {EVERYONE: everyone, ONE: one, None: one}
            self._table = np.zeros((len(self._links), _COLUMNS), dtype=np.int64)
            self._table[:, _SIZE:] = [
                [places.get(n, counters.array.ptr + 4 * (n or 0)) for n in (link.size, link.gate)]
                for link in self._links
            ]
            names = {"links": self._addressed(), "first": 0, "last": 0}
            self._native = Command(chain_kernel(precision), device, names)

    def moved(self, other):
        """The same links of other commands, which ``other`` gives for those there are."""
        chain = copy.copy(self)
        chain._links = tuple(Link(other(link.command), link.size, link.gate) for link in self._links)
        if self._native is not None:
            # one chain runs at a time, so they may share the cell with the number of rays
            chain._table = self._table.copy()
            chain._native = self._native.moved({id(self._array): chain._addressed()})
        return chain

    def _addressed(self):
        """The table as an array, with the addresses of the commands in it."""
        self._table[:, :_SIZE] = [link.command.addresses() for link in self._links]
        self._array = wp.array(
            ptr=self._table.ctypes.data, shape=self._table.size, dtype=wp.int64, device="cpu", copy=False
        )
        return self._array

    def run(self, count, first=0, last=None):
        """Launch the links ``first <= k < last`` in order. Returns what is counted then."""
        last = len(self._links) if last is None else last
        if self._native is not None:
            self._sizes[0] = count
            self._native.run(1, {"first": first, "last": last})
            return self._counters.read()
        counted = None
        for link in self._links[first:last]:
            numbers = [n for n in (link.size, link.gate) if n is not None and n >= 0]
            if numbers and counted is None:
                counted = self._counters.read()
            if any(counted[n] == 0 for n in numbers):
                continue
            size = {EVERYONE: count, ONE: 1}.get(link.size)
            link.command.run(int(counted[link.size]) if size is None else size)
            if link.command.takes("counters"):
                counted = None
        return self._counters.read() if counted is None else counted
