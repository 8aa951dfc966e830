"""Tangent frames of a normal, and looking things up in sorted tables."""

import functools
from types import SimpleNamespace

import warp as wp

from kernels.precision import bundle


@functools.cache
def frames(precision):
    b = bundle(precision)
    real, array, ld_plain = b.real, b.array, b.ld_plain
    vec3 = wp.types.vector(length=3, dtype=real)

    @wp.func
    def along(x: real, y: real, z: real, n: vec3):
        """x t + y b + z n in a right-handed frame (t, b, n): the branch-free one of Duff et al. 2017, which is finite
        for every n, zero included."""
        one = real(1.0)
        sign = wp.where(n[2] < real(0.0), -one, one)
        a = -one / (sign + n[2])
        c = n[0] * n[1] * a
        t = vec3(one + sign * n[0] * n[0] * a, sign * c, -sign * n[0])
        s = vec3(c, sign + n[1] * n[1] * a, -n[1])
        return x * t + y * s + z * n

    @wp.func
    def tangents(v: vec3, n: vec3):
        """The components of v along t and b of that frame."""
        one = real(1.0)
        sign = wp.where(n[2] < real(0.0), -one, one)
        a = -one / (sign + n[2])
        c = n[0] * n[1] * a
        t = vec3(one + sign * n[0] * n[0] * a, sign * c, -sign * n[0])
        s = vec3(c, sign + n[1] * n[1] * a, -n[1])
        return wp.dot(v, t), wp.dot(v, s)

    @wp.func
    def bracket(table: array, at: int, count: int, value: real):
        """The last of ``count`` ascending entries from ``at`` on that is not above ``value``, at most the last but
        one.
        """
        low = int(0)
        high = int(count - 1)
        while high - low > 1:
            middle = (low + high) / 2
            if ld_plain(table, at + middle) <= value:
                low = middle
            else:
                high = middle
        return low

    @wp.func_grad(bracket)
    def adj_bracket(table: array, at: int, count: int, value: real, adj_ret: int):
        pass

    return SimpleNamespace(vec3=vec3, along=along, tangents=tangents, bracket=bracket)
