"""Shapes of surfaces.

`quadric` is the row that plane, conic, sphere, annulus, cylinder, cone and triangle are lowered onto; the trace has it
built in. The others are sags over their own x-y plane, one file a row. ``build(precision)`` gives a Warp function

    surface(x, y, numbers, at) -> (sag, slope along x, slope along y)

of the shape's numbers from ``at`` on, differentiable in the point and in the numbers.
"""

from kernels.shapes import asphere, biconic, toroid

# the code of a sag is its place in this table
ROWS = (asphere, biconic, toroid)
NAMES = tuple(row.NAME for row in ROWS)
