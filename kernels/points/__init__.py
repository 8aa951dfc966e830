"""Point clouds and primitives: Morton order, trees, k-NN, farthest points, moving least squares, rays.

``build``, ``knn`` and ``fps`` take and return Warp arrays; the modules hold kernels and launchers for packages above.
"""

from kernels.points.door import build, fps, knn
from kernels.points.tree import Forest

__all__ = ["Forest", "build", "fps", "knn"]
