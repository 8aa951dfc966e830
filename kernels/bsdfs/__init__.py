"""Scatter: one file a row. A row turns two random numbers into a direction about a normal or a reference ray.

``build(precision)`` gives a Warp function

    sample(u1, u2, transmitted, incident, normal, share, table, at) -> (direction, weight)

with the incident direction and the normal that faces it as unit vectors, ``share`` the lobe's reflectance, ``table``
the scene's scatter tables with this lobe's own part from ``at`` on, and the weight that the flux takes. Where
``transmitted`` is 1 the lobe lies behind the surface. Random numbers are detached; direction and weight are
differentiable in the vectors and in ``share``.

``build_density(precision)`` of a row that has a density gives

    density(out, transmitted, incident, normal, share, table, at) -> (value, probability)

for a unit vector ``out``: the scattered flux per steradian, of a unit that arrives (the BSDF times the cosine), and the
probability per steradian with which `sample` draws ``out``. Both are 0 where ``out`` is on the other side of the
surface. ``value`` is differentiable in incident, normal and share, with ``out`` a fixed direction; ``probability`` is
not, and is ``value`` over the weight of `sample`.
"""

from kernels.bsdfs import density, lambertian, radial, specular, tabulated

# the code of a lobe is its place in this table
ROWS = (specular, lambertian, radial, tabulated, density)
NAMES = tuple(row.NAME for row in ROWS)
