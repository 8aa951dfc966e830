"""The row for every rotationally symmetric quadric: plane, conic, sphere, annulus, cylinder and cone.

With q the point relative to the shape's origin, n the unit axis and s = n.q,

    F(q) = a |q|^2 + d s^2 + 2 g s + e,        grad F / 2 = a q + (d s + g) n.

The axis is all that the surface needs of its pose, so neither a rotation nor a local frame enters the trace; only the
domain (a rectangle's sides) needs the other two axes. grad F points from the front medium to the back medium.
"""

import functools
from types import SimpleNamespace

import numpy as np

from kernels.precision import bundle

# columns of a surface's row of differentiable numbers
ORIGIN, AXIS, COEFFICIENTS = 0, 3, 6
NUM_NUMBERS = 10
# columns of a surface's domain, never differentiated
AXIS_X, AXIS_Y, RHO_MIN2, RHO_MAX2, HALF_X, HALF_Y, Z_MIN, Z_MAX, SHEET0, SHEET1 = 0, 3, 6, 7, 8, 9, 10, 11, 12, 13
NEAREST_ONLY = 14
NUM_DOMAIN = 15


# What may take part in the search of a row: a second root, the axis beyond g, sides in x and y, a range in z, a sheet,
# and the rule that the nearer root alone counts.
CURVED, AXIAL, BOXED, RANGED, SHEETED, NEAREST = "curved", "axial", "boxed", "ranged", "sheeted", "nearest"
# The builds of the search, the cheapest first, and what each of them takes into account: planes; spherical caps and
# whole spheres; cylinders, cones and ellipsoids; conics with a vertex; everything.
BUILDS = {
    "plane": frozenset({BOXED}),
    "cap": frozenset({CURVED, SHEETED}),
    "tube": frozenset({CURVED, AXIAL, RANGED}),
    "conic": frozenset({CURVED, AXIAL, SHEETED}),
    "any": frozenset({CURVED, AXIAL, BOXED, RANGED, SHEETED, NEAREST}),
}
ANY = "any"


def builds_of(numbers, domain):
    """The cheapest build for each of some rows, from their numbers (n, 10) and limits (n, 15) on the host."""
    a, d = numbers[:, COEFFICIENTS], numbers[:, COEFFICIENTS + 1]
    needs = {
        CURVED: (a != 0.0) | (d != 0.0),
        AXIAL: d != 0.0,
        BOXED: np.isfinite(domain[:, [HALF_X, HALF_Y]]).any(axis=1),
        RANGED: np.isfinite(domain[:, [Z_MIN, Z_MAX]]).any(axis=1),
        SHEETED: (domain[:, SHEET1] != 0.0) | (domain[:, SHEET0] < 0.0),
        NEAREST: domain[:, NEAREST_ONLY] > 0.0,
    }
    wanted = [{name for name, asked in needs.items() if asked[row]} for row in range(len(numbers))]
    return [next(build for build, has in BUILDS.items() if features <= has) for features in wanted]


@functools.cache
def quadric(precision):
    """The row's Warp functions for one precision."""
    import warp as wp

    b = bundle(precision)
    real, fma = b.real, b.fma

    @wp.func
    def dot(ax: real, ay: real, az: real, bx: real, by: real, bz: real):
        return fma(az, bz, fma(ay, by, ax * bx))

    @wp.func
    def implicit(qx: real, qy: real, qz: real, s: real, a: real, d: real, g: real, e: real):
        return fma(a, dot(qx, qy, qz, qx, qy, qz), fma(fma(d, s, g + g), s, e))

    return SimpleNamespace(implicit=implicit, dot=dot)


@functools.cache
def hit_of(precision, build):
    """The Warp function that finds a ray's hit on a row, for one precision and one of the `BUILDS`."""
    import warp as wp

    b = bundle(precision)
    real, array = b.real, b.array
    ld_plain, inside, sqrt, fma = b.ld_plain, b.inside, b.sqrt, b.fma
    dot = quadric(precision).dot
    curved, axial, boxed, ranged, sheeted, nearest = (
        feature in BUILDS[build] for feature in (CURVED, AXIAL, BOXED, RANGED, SHEETED, NEAREST)
    )

    @wp.func
    def root_is_valid(
        t: real, eps: real, qx: real, qy: real, qz: real, u: real, v: real, w: real,
        nx: real, ny: real, nz: real, s: real, nu: real, domain: array, at: int,
    ):  # fmt: skip
        zero = real(0.0)
        px = fma(t, u, qx)
        py = fma(t, v, qy)
        pz = fma(t, w, qz)
        z = fma(t, nu, s)
        rx = fma(-z, nx, px)
        ry = fma(-z, ny, py)
        rz = fma(-z, nz, pz)
        x = zero
        y = zero
        half_x = zero
        half_y = zero
        if wp.static(boxed):
            x = dot(px, py, pz, ld_plain(domain, at), ld_plain(domain, at + 1), ld_plain(domain, at + 2))
            y = dot(px, py, pz, ld_plain(domain, at + 3), ld_plain(domain, at + 4), ld_plain(domain, at + 5))
            half_x = ld_plain(domain, at + wp.static(HALF_X))
            half_y = ld_plain(domain, at + wp.static(HALF_Y))
        z_min = z
        z_max = z
        if wp.static(ranged):
            z_min = ld_plain(domain, at + wp.static(Z_MIN))
            z_max = ld_plain(domain, at + wp.static(Z_MAX))
        sheet = zero
        if wp.static(sheeted):
            sheet = fma(ld_plain(domain, at + wp.static(SHEET1)), z, ld_plain(domain, at + wp.static(SHEET0)))
        ok = inside(
            dot(rx, ry, rz, rx, ry, rz), x, y, z, sheet,
            ld_plain(domain, at + wp.static(RHO_MIN2)), ld_plain(domain, at + wp.static(RHO_MAX2)),
            half_x, half_y, z_min, z_max,
        )  # fmt: skip
        return wp.where(t > eps, ok, False)

    @wp.func
    def hit(
        x: real, y: real, z: real, u: real, v: real, w: real, own: wp.bool, eps: real, far: real,
        numbers: array, domain: array, row: int,
    ):  # fmt: skip
        """Nearest valid root beyond eps, or far. A ray that starts on this very surface (own) has the root 0, which is
        divided out instead of skipped by distance: that is exact at any scale."""
        zero = real(0.0)
        one = real(1.0)
        at = row * wp.static(NUM_NUMBERS)
        domain_at = row * wp.static(NUM_DOMAIN)
        qx = x - ld_plain(numbers, at)
        qy = y - ld_plain(numbers, at + 1)
        qz = z - ld_plain(numbers, at + 2)
        nx = ld_plain(numbers, at + 3)
        ny = ld_plain(numbers, at + 4)
        nz = ld_plain(numbers, at + 5)
        g = ld_plain(numbers, at + 8)
        e = ld_plain(numbers, at + 9)
        s = dot(nx, ny, nz, qx, qy, qz)
        nu = dot(nx, ny, nz, u, v, w)
        # F(q + t u) = A t^2 + 2 B t + C, and the two roots without cancellation
        B = g * nu
        C = fma(g + g, s, e)
        if wp.static(axial):
            d = ld_plain(numbers, at + 7)
            B = fma(d, s, g) * nu
            C = fma(fma(d, s, g + g), s, e)
        if wp.static(curved):
            a = ld_plain(numbers, at + 6)
            B = fma(a, dot(qx, qy, qz, u, v, w), B)
            C = fma(a, dot(qx, qy, qz, qx, qy, qz), C)
        C = wp.where(own, zero, C)
        h = -(B + B)
        t1 = far
        real_roots = True
        if wp.static(curved):
            A = a
            if wp.static(axial):
                A = fma(d * nu, nu, a)
            disc = fma(B, B, -A * C)
            real_roots = disc >= zero
            root = sqrt(wp.max(disc, zero))
            h = -(B + wp.where(B < zero, -root, root))
            if wp.static(axial):
                t1 = h / A
            else:
                t1 = h * (one / A)  # the same for all rays
        t2 = C / h
        ok2 = root_is_valid(t2, eps, qx, qy, qz, u, v, w, nx, ny, nz, s, nu, domain, domain_at)
        # |h| is 2 |grad F . u| for a plane: a ray along it (to 1e-12) misses
        ok2 = wp.where(wp.abs(h) > real(2.0e-12), ok2, False)
        found = wp.where(ok2, t2, far)
        if wp.static(curved):
            ok1 = root_is_valid(t1, eps, qx, qy, qz, u, v, w, nx, ny, nz, s, nu, domain, domain_at)
            if wp.static(nearest):
                # a shape may say that its nearer root alone counts, inside its limits or not
                alone = ld_plain(domain, domain_at + wp.static(NEAREST_ONLY)) > zero
                second1 = wp.where(t2 > eps, t2 < t1, False)
                second2 = wp.where(t1 > eps, t1 < t2, False)
                ok1 = wp.where(wp.where(alone, second1, False), False, ok1)
                found = wp.where(wp.where(alone, second2, False), far, found)
            found = wp.where(real_roots, wp.min(wp.where(ok1, t1, far), found), far)
        return found

    return hit
