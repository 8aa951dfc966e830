"""Detectors: one file a row. A row says which pixel a hit belongs to, as two coordinates whose whole numbers are
centres.

``build(precision)`` gives a Warp function

    pixel(numbers, at, nx, ny, x, y, z, u, v, w) -> (px, py)

of the detector's numbers (from ``at`` on), its pixels, the hit point and the direction, differentiable in all of them.
"""

from kernels.detectors import far_field, plane

# the code of what a detector's pixels are is its place in this table
ROWS = (plane, far_field)
PLANE, FAR_FIELD = range(len(ROWS))
