"""Directions towards targets: the other part of a mixture that a scatter lobe is sampled with.

A target is a sphere, seen from a point outside of it as a cone of directions; they are drawn evenly in solid angle.
From within a target's sphere its share falls to the lobe.

``table[at:]`` holds the number of targets and for each its centre (world, mm), radius and share of the draws. Nothing
here is differentiated: a drawn direction is a number, and the mixture weighs it.
"""

import functools
from types import SimpleNamespace

import warp as wp

from kernels.bsdfs.frames import frames
from kernels.precision import bundle

# entries of a target: centre, radius, share
NUM_AIM = 5


@functools.cache
def aims(precision):
    """``choose`` and ``density``, Warp functions of a point, a table and where its targets begin."""
    b, f = bundle(precision), frames(precision)
    real, array, ld_plain, sin_turn, cos_turn = b.real, b.array, b.ld_plain, b.sin_turn, b.cos_turn
    vec3, along = f.vec3, f.along
    vec2, vec4 = wp.types.vector(length=2, dtype=real), wp.types.vector(length=4, dtype=real)

    @wp.func
    def cone(p: vec3, table: array, k: int):
        """The axis of a target's cone and 1 - cos of its half angle; 0 from within."""
        to = vec3(ld_plain(table, k), ld_plain(table, k + 1), ld_plain(table, k + 2)) - p
        radius = ld_plain(table, k + 3)
        far2 = wp.dot(to, to)
        out = vec4(real(0.0), real(0.0), real(1.0), real(0.0))
        if far2 > radius * radius:
            sine2 = radius * radius / far2
            axis = to / wp.sqrt(far2)
            versine = sine2 / (real(1.0) + wp.sqrt(real(1.0) - sine2))
            out = vec4(axis[0], axis[1], axis[2], versine)
        return out

    @wp.func
    def choose(p: vec3, u: real, u1: real, u2: real, table: array, at: int):
        """(direction, target's number), or the number -1 for the lobe, with ``u`` to choose and u1, u2 to draw."""
        out = vec4(real(0.0), real(0.0), real(1.0), real(-1.0))
        passed = real(0.0)
        for j in range(int(ld_plain(table, at))):
            k = at + 1 + j * wp.static(NUM_AIM)
            seen = cone(p, table, k)
            if seen[3] > real(0.0):
                share = ld_plain(table, k + 4)
                if u >= passed and u < passed + share:
                    low = u1 * seen[3]
                    sine = wp.sqrt(low * (real(2.0) - low))
                    d = along(
                        sine * cos_turn(u2), sine * sin_turn(u2), real(1.0) - low, vec3(seen[0], seen[1], seen[2])
                    )
                    out = vec4(d[0], d[1], d[2], real(j))
                passed += share
        return out

    @wp.func_grad(choose)
    def adj_choose(p: vec3, u: real, u1: real, u2: real, table: array, at: int, adj_ret: vec4):
        pass

    @wp.func
    def density(p: vec3, d: vec3, drawn: int, table: array, at: int):
        """(the targets' part of the probability per steradian of d, the lobe's share); ``drawn`` is d's own target."""
        total = real(0.0)
        rest = real(1.0)
        for j in range(int(ld_plain(table, at))):
            k = at + 1 + j * wp.static(NUM_AIM)
            seen = cone(p, table, k)
            if seen[3] > real(0.0):
                share = ld_plain(table, k + 4)
                rest -= share
                # 1 - cos of the angle between them, without cancellation
                off = d - vec3(seen[0], seen[1], seen[2])
                if j == drawn or real(0.5) * wp.dot(off, off) <= seen[3]:
                    total += share / (real(6.283185307179586) * seen[3])
        return vec2(total, rest)

    @wp.func_grad(density)
    def adj_density(p: vec3, d: vec3, drawn: int, table: array, at: int, adj_ret: vec2):
        pass

    return SimpleNamespace(choose=choose, density=density)
