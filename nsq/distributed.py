"""One trace on several processes, on one machine or many, by ``torch.distributed``.

Every process runs the same program on the same scene. Each traces its share of the ray ids, the integer sums are added
up, and every process gets the whole result, with the bits that one process alone would have computed. The backward pass
shares the rays out in the same way, and every process gets the whole gradient.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from kernels import lanes
from kernels.trace import layout as at
from kernels.trace.wavefront import Sums

from .backend import TorchBackend
from .numbers import check_choice, check_constant

_BACKENDS = ("gloo", "nccl")
# integer columns of a row of the ray tables
_NUM_INTS = 4


def init(backend: str = "gloo", *, timeout_seconds: float = 1800.0) -> None:
    """Join the processes that ``torchrun`` started, and give each its share of the cores it may use.

    Does what ``torch.distributed.init_process_group`` does, and nothing where that was called already.

    Args:
        backend: "gloo" for CPUs, "nccl" for CUDA devices, of which each process then takes the one with its local rank.
        timeout_seconds: how long to wait for a process that does not answer.

    Raises TypeError and ValueError naming the argument, and RuntimeError outside of ``torchrun``.
    """
    check_choice(backend, "backend", _BACKENDS)
    timeout = datetime.timedelta(seconds=check_constant(timeout_seconds, "timeout_seconds", positive=True))
    if dist.is_initialized():
        return
    missing = [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise RuntimeError(
            f"the environment lacks {', '.join(missing)}; start the program with torchrun, such as"
            " 'torchrun --nproc-per-node=2 program.py'"
        )
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    lanes.set_num_threads(max(1, lanes.available_cores() // local))
    dist.init_process_group(backend, timeout=timeout)


class Group:
    """The processes of a ``torch.distributed`` group, as a trace sees them; see `nsq.ranks.Ranks`."""

    def __init__(self, group: Any = None) -> None:
        self._group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self._device = _device_of(group)

    def add(self, sums: Sums) -> Sums:
        parts = (sums.ledger, sums.row_books, sums.maps)
        together = self.add_array(np.concatenate([part.ravel() for part in parts]))
        ledger, row_books, maps = np.split(together, np.cumsum([part.size for part in parts])[:-1])
        return Sums(ledger, row_books, maps, self._gather(sums.records))

    def add_array(self, array: np.ndarray) -> np.ndarray:
        return self._reduce(array, dist.ReduceOp.SUM)

    def largest(self, array: np.ndarray) -> np.ndarray:
        return self._reduce(array, dist.ReduceOp.MAX)

    def agree(self, digest: str, what: str) -> None:
        own = np.frombuffer(bytes.fromhex(digest), dtype=np.uint8).astype(np.int64)
        # where processes differ, each of them differs from the largest or from the smallest
        largest, smallest = self.largest(own), -self.largest(-own)
        if np.any(largest != smallest):
            raise ValueError(f"process {self.rank} of {self.size}: {what} are not the same on all processes")

    def _reduce(self, array: np.ndarray, operation: Any) -> np.ndarray:
        if array.size == 0:
            return array
        tensor = torch.tensor(array, device=self._device)
        self._call(lambda: dist.all_reduce(tensor, operation, group=self._group))
        return tensor.cpu().numpy()

    def _gather(self, records: tuple) -> tuple:
        """The rows of the ray tables of all processes."""
        columns = [np.concatenate(c, axis=-1) for c in zip(*records, strict=True)] if records else None
        if columns is None:
            columns = [np.zeros(0, np.int64)] * _NUM_INTS + [np.zeros((at.NUM_FLOATS, 0))]
        own = len(columns[0])
        counts = np.zeros(self.size, dtype=np.int64)
        counts[self.rank] = own
        counts = self.add_array(counts)
        if not counts.any():
            return ()
        ints = self._rows(np.stack(columns[:-1]).astype(np.int64), counts)
        states = self._rows(columns[-1].astype(np.float64), counts)
        return tuple((*ints[rank], states[rank]) for rank in range(self.size))

    def _rows(self, own: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
        """Of each process its array (columns, rows)."""
        longest = int(counts.max())
        padded = np.zeros((own.shape[0], longest), dtype=own.dtype)
        padded[:, : own.shape[1]] = own
        mine = torch.tensor(padded, device=self._device)
        all_of_them = [torch.empty_like(mine) for _ in range(self.size)]
        self._call(lambda: dist.all_gather(all_of_them, mine, group=self._group))
        return [part.cpu().numpy()[:, :count] for part, count in zip(all_of_them, counts, strict=True)]

    def _call(self, collective: Callable[[], Any]) -> None:
        try:
            collective()
        except RuntimeError as error:
            raise RuntimeError(
                f"process {self.rank} of {self.size}: another process of the group has ended or does not answer; a"
                f" checkpoint holds what was done when it was written ({error})"
            ) from error

    def __repr__(self) -> str:
        return f"Group(rank={self.rank}, size={self.size})"


class DistributedBackend(TorchBackend):
    """A `TorchBackend` whose traces are shared out among the processes of a group.

    All processes trace the same scene with the same arguments, in the same order, and all get the whole result. In a
    trace with gradients every process gets the gradient of the mean of the processes' losses, which is the gradient of
    the loss where they compute the same one. ``progress`` shows a bar on the first process, which is also the one that
    reads and writes a ``checkpoint``; Ctrl-C in one process stops them all.

    Args:
        group: of ``torch.distributed``; None is the group of all processes.
        seed, gradient_mode, precision, device: as for `TorchBackend`. With NCCL the device is the current CUDA device
            unless told otherwise.

    Raises RuntimeError where there is no process group yet; `init` makes one. A trace raises ValueError where the
    scenes or the arguments differ, and RuntimeError where a process has ended.
    """

    def __init__(
        self,
        group: Any = None,
        *,
        seed: int | None = None,
        gradient_mode: str = "prb",
        precision: str = "float64",
        device: Any = None,
    ) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise RuntimeError("there is no process group; call nsq.distributed.init() in a program that torchrun runs")
        if device is None and _device_of(group).type == "cuda":
            device = f"cuda:{torch.cuda.current_device()}"
        super().__init__(seed=seed, gradient_mode=gradient_mode, precision=precision, device=device)
        self._processes = Group(group)

    @property
    def rank(self) -> int:
        """Which process of the group this is, from 0 on."""
        return self._processes.rank

    @property
    def size(self) -> int:
        """Processes in the group."""
        return self._processes.size

    def _ranks(self) -> Group:
        return self._processes

    def __repr__(self) -> str:
        return f"DistributedBackend(rank={self.rank}, size={self.size}, {super().__repr__()})"


def _device_of(group: Any) -> torch.device:
    """Where tensors must lie that the group exchanges."""
    if dist.get_backend(group) == "nccl":
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
