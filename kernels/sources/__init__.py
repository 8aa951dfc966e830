"""Sources: one file a row. A row says how random numbers become a ray in the source's own frame.

``variates`` draws what a ray needs (never differentiated, so it may loop), ``place`` turns that and the source's shape
numbers into a position in the plane z = 0 and a direction (differentiable, free of branches).

A row with ``TABLE`` reads numbers of its source from a table of float64 that begins at ``block``. One with ``IN_SPACE``
has no ``place``: its ``variates`` are position, direction and the number of the ray's spectral line.
"""

from kernels.sources import collimated, extended, gaussian, luminaire, point, ray_file

# the code of a source is its place in this table
ROWS = (collimated, gaussian, point, extended, luminaire, ray_file)
COLLIMATED, GAUSSIAN, POINT, EXTENDED, LUMINAIRE, RAY_FILE = range(len(ROWS))


def has_table(kind):
    """Whether the source row ``kind`` reads a table; its kernels stand in modules of their own."""
    return getattr(ROWS[kind], "TABLE", False)


def is_in_space(kind):
    """Whether the rays of the source row ``kind`` start anywhere, and not in the plane z = 0."""
    return getattr(ROWS[kind], "IN_SPACE", False)
