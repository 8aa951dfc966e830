"""What processes that trace one scene together tell each other; `Alone` is a single process, which tells nothing."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kernels.trace.wavefront import Sums


class Ranks(Protocol):
    """The processes of a trace. All of them call these methods, in the same order.

    Attributes:
        rank, size: which process this is, from 0 on, and how many there are.
    """

    rank: int
    size: int

    def add(self, sums: Sums) -> Sums:
        """The sums of all processes together."""

    def add_array(self, array: np.ndarray) -> np.ndarray:
        """The arrays of all processes, of one shape and type, added up."""

    def largest(self, array: np.ndarray) -> np.ndarray:
        """The largest of each element over all processes."""

    def agree(self, digest: str, what: str) -> None:
        """Raise ValueError naming ``what`` unless all processes have the same digest."""


class Alone:
    """A single process."""

    rank, size = 0, 1

    def add(self, sums: Sums) -> Sums:
        return sums

    def add_array(self, array: np.ndarray) -> np.ndarray:
        return array

    def largest(self, array: np.ndarray) -> np.ndarray:
        return array

    def agree(self, digest: str, what: str) -> None:
        pass

    def __repr__(self) -> str:
        return "Alone()"


def share(work: list[Any], ranks: Ranks) -> list[Any]:
    """This process's part of a list of work."""
    return work[ranks.rank :: ranks.size]
