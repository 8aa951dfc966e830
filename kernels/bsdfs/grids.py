"""A measured BSDF over incident and scattered angles, bilinear between them and 0 outside.

``table[at:]`` holds the number of incident and of scattered angles, the angles (degrees), and the values row after row.
"""

import functools
from types import SimpleNamespace

import warp as wp

from kernels.bsdfs.frames import frames
from kernels.precision import bundle


@functools.cache
def grids(precision):
    b = bundle(precision)
    real, array, ld_plain, sqrt = b.real, b.array, b.ld_plain, b.sqrt
    bracket = frames(precision).bracket
    vec3 = wp.types.vector(length=3, dtype=real)

    @wp.func
    def degrees_of(cosine: real):
        """The angle of a cosine, 0 to 90; its derivative on the axis counts as 0."""
        c = wp.clamp(cosine, real(0.0), real(1.0))
        return wp.atan2(sqrt(real(1.0) - c * c), c) * real(57.29577951308232)

    @wp.func
    def looked_up(table: array, at: int, incident: real, scattered: real):
        """The value and its slopes along the incident and the scattered angle."""
        n_i = int(ld_plain(table, at))
        n_s = int(ld_plain(table, at + 1))
        first_i = at + 2
        first_s = first_i + n_i
        values = first_s + n_s
        out = vec3(real(0.0), real(0.0), real(0.0))
        if (
            incident >= ld_plain(table, first_i)
            and incident <= ld_plain(table, first_i + n_i - 1)
            and scattered >= ld_plain(table, first_s)
            and scattered <= ld_plain(table, first_s + n_s - 1)
        ):
            i = bracket(table, first_i, n_i, incident)
            s = bracket(table, first_s, n_s, scattered)
            i1 = wp.min(i + 1, n_i - 1)
            s1 = wp.min(s + 1, n_s - 1)
            a = real(0.0)
            c = real(0.0)
            step = real(1.0)
            wide = real(1.0)
            if i1 > i:
                step = ld_plain(table, first_i + i1) - ld_plain(table, first_i + i)
                a = (incident - ld_plain(table, first_i + i)) / step
            if s1 > s:
                wide = ld_plain(table, first_s + s1) - ld_plain(table, first_s + s)
                c = (scattered - ld_plain(table, first_s + s)) / wide
            one = real(1.0)
            v00 = ld_plain(table, values + i * n_s + s)
            v01 = ld_plain(table, values + i * n_s + s1)
            v10 = ld_plain(table, values + i1 * n_s + s)
            v11 = ld_plain(table, values + i1 * n_s + s1)
            low = (one - c) * v00 + c * v01
            high = (one - c) * v10 + c * v11
            along = ((one - a) * (v01 - v00) + a * (v11 - v10)) / wide
            out = vec3((one - a) * low + a * high, (high - low) / step, along)
        return out

    @wp.func_grad(looked_up)
    def adj_looked_up(table: array, at: int, incident: real, scattered: real, adj_ret: vec3):
        pass

    @wp.func
    def value_at(table: array, at: int, incident: real, scattered: real):
        """The value; differentiable in the incident angle, since the scattered one is drawn."""
        found = looked_up(table, at, incident, scattered)
        return found[0]

    @wp.func_grad(value_at)
    def adj_value_at(table: array, at: int, incident: real, scattered: real, adj_ret: real):
        found = looked_up(table, at, incident, scattered)
        wp.adjoint[incident] += adj_ret * found[1]

    @wp.func
    def surface_at(table: array, at: int, incident: real, scattered: real):
        """The value, differentiable in both angles."""
        found = looked_up(table, at, incident, scattered)
        return found[0]

    @wp.func_grad(surface_at)
    def adj_surface_at(table: array, at: int, incident: real, scattered: real, adj_ret: real):
        found = looked_up(table, at, incident, scattered)
        wp.adjoint[incident] += adj_ret * found[1]
        wp.adjoint[scattered] += adj_ret * found[2]

    return SimpleNamespace(degrees_of=degrees_of, value_at=value_at, surface_at=surface_at)
