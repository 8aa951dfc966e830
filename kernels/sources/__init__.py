"""Sources: one file a row. A row says how random numbers become a ray in the source's own frame.

``variates`` draws what a ray needs (never differentiated, so it may loop), ``place`` turns that and the source's shape
numbers into a position in the plane z = 0 and a direction (differentiable, free of branches).
"""

from kernels.sources import collimated, extended, gaussian, point

# the code of a source is its place in this table
ROWS = (collimated, gaussian, point, extended)
COLLIMATED, GAUSSIAN, POINT, EXTENDED = range(len(ROWS))
