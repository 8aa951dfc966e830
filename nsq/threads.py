"""How many CPU threads a trace uses."""

from kernels.lanes import get_num_threads, set_num_threads

__all__ = ["get_num_threads", "set_num_threads"]
