"""Detectors: one file a row. A row says which pixel a hit belongs to, as two coordinates whose whole numbers are
centres.

``build(precision)`` gives a Warp function

    pixel(numbers, at, nx, ny, cell, x, y, z, u, v, w) -> (px, py)

of the detector's numbers (from ``at`` on), its pixels, which of its rows was hit, the hit point and the direction,
differentiable in all numbers.
"""

from kernels.detectors import cylinder, faces, far_field, plane

# the code of what a detector's pixels are is its place in this table
ROWS = (plane, far_field, cylinder, faces)
PLANE, FAR_FIELD, CYLINDER, FACES = range(len(ROWS))
NAMES = tuple(row.NAME for row in ROWS)
