"""What the stages of a trace read and write: rays of one batch, and counts that the host reads."""

from dataclasses import dataclass

import warp as wp

from kernels.precision import REALS
from kernels.trace import layout as at


@dataclass(frozen=True)
class State:
    """Rays of one batch: floats and integers, column after column."""

    floats: wp.array
    ints: wp.array

    @classmethod
    def empty(cls, precision, device, capacity):
        return cls(
            wp.empty(at.NUM_FLOATS * capacity, dtype=REALS[precision], device=device),
            wp.empty(at.NUM_INTS * capacity, dtype=wp.int32, device=device),
        )

    def turned_to(self, other):
        """Pairs of its arrays and those of another state."""
        return [(self.floats, other.floats), (self.ints, other.ints)]


class Counters:
    """Integers that a kernel counts up and the host reads: on a CPU through one view of their memory."""

    def __init__(self, count, device):
        self.array = wp.zeros(count, dtype=wp.int32, device=device)
        self._view = self.array.numpy() if self.array.device.is_cpu else None

    def clear(self):
        """Set all to 0."""
        if self._view is None:
            self.array.zero_()
        else:
            self._view.fill(0)

    def read(self):
        """The counts; on a CPU they follow what kernels do to them."""
        return self.array.numpy() if self._view is None else self._view


def at_cell(state, offset):
    """A state's arrays from one cell on: columns stay as far apart, so a launch writes to the cells that follow."""
    if offset == 0:
        return {"floats": state.floats, "ints": state.ints}
    return {"floats": state.floats[offset:], "ints": state.ints[offset:]}
