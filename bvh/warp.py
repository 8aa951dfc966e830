"""The same searches for Warp arrays: ``build``, ``knn`` and ``fps`` without a tensor, invisible to a ``wp.Tape``."""

from kernels.points import Forest, build, fps, knn

__all__ = ["Forest", "build", "fps", "knn"]
