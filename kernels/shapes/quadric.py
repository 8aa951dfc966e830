"""The row for every rotationally symmetric quadric: plane, conic, sphere, annulus, cylinder and cone.

With q the point relative to the shape's origin, n the unit axis and s = n.q,

    F(q) = a |q|^2 + d s^2 + 2 g s + e,        grad F / 2 = a q + (d s + g) n.

The axis is all that the surface needs of its pose, so neither a rotation nor a local frame enters the trace; only the
domain (a rectangle's sides) needs the other two axes. grad F points from the front medium to the back medium.
"""

import functools
from types import SimpleNamespace

from kernels.precision import bundle

# columns of a surface's row of differentiable numbers
ORIGIN, AXIS, COEFFICIENTS = 0, 3, 6
NUM_NUMBERS = 10
# columns of a surface's domain, never differentiated
AXIS_X, AXIS_Y, RHO_MIN2, RHO_MAX2, HALF_X, HALF_Y, Z_MIN, Z_MAX, SHEET0, SHEET1 = 0, 3, 6, 7, 8, 9, 10, 11, 12, 13
NEAREST_ONLY = 14
NUM_DOMAIN = 15


@functools.cache
def quadric(precision):
    """The row's Warp functions for one precision."""
    import warp as wp

    b = bundle(precision)
    real, array = b.real, b.array
    ld_plain, inside, sqrt, fma = b.ld_plain, b.inside, b.sqrt, b.fma

    @wp.func
    def dot(ax: real, ay: real, az: real, bx: real, by: real, bz: real):
        return fma(az, bz, fma(ay, by, ax * bx))

    @wp.func
    def root_is_valid(
        t: real, eps: real, qx: real, qy: real, qz: real, u: real, v: real, w: real,
        nx: real, ny: real, nz: real, s: real, nu: real, domain: array, at: int,
    ):  # fmt: skip
        px = fma(t, u, qx)
        py = fma(t, v, qy)
        pz = fma(t, w, qz)
        z = fma(t, nu, s)
        rx = fma(-z, nx, px)
        ry = fma(-z, ny, py)
        rz = fma(-z, nz, pz)
        x = dot(px, py, pz, ld_plain(domain, at), ld_plain(domain, at + 1), ld_plain(domain, at + 2))
        y = dot(px, py, pz, ld_plain(domain, at + 3), ld_plain(domain, at + 4), ld_plain(domain, at + 5))
        sheet = fma(ld_plain(domain, at + 13), z, ld_plain(domain, at + 12))
        ok = inside(
            dot(rx, ry, rz, rx, ry, rz), x, y, z, sheet,
            ld_plain(domain, at + 6), ld_plain(domain, at + 7), ld_plain(domain, at + 8), ld_plain(domain, at + 9),
            ld_plain(domain, at + 10), ld_plain(domain, at + 11),
        )  # fmt: skip
        return wp.where(t > eps, ok, False)

    @wp.func
    def hit(
        x: real, y: real, z: real, u: real, v: real, w: real, own: wp.bool, eps: real, far: real,
        numbers: array, domain: array, row: int,
    ):  # fmt: skip
        """Nearest valid root beyond eps, or far. A ray that starts on this very surface (own) has the root 0, which is
        divided out instead of skipped by distance: that is exact at any scale."""
        at = row * wp.static(NUM_NUMBERS)
        qx = x - ld_plain(numbers, at)
        qy = y - ld_plain(numbers, at + 1)
        qz = z - ld_plain(numbers, at + 2)
        nx = ld_plain(numbers, at + 3)
        ny = ld_plain(numbers, at + 4)
        nz = ld_plain(numbers, at + 5)
        a = ld_plain(numbers, at + 6)
        d = ld_plain(numbers, at + 7)
        g = ld_plain(numbers, at + 8)
        e = ld_plain(numbers, at + 9)
        s = dot(nx, ny, nz, qx, qy, qz)
        nu = dot(nx, ny, nz, u, v, w)
        qq = dot(qx, qy, qz, qx, qy, qz)
        qu = dot(qx, qy, qz, u, v, w)
        # F(q + t u) = A t^2 + 2 B t + C, and the two roots without cancellation
        A = fma(d * nu, nu, a)
        B = fma(a, qu, fma(d, s, g) * nu)
        C = wp.where(own, real(0.0), fma(a, qq, fma(fma(d, s, g + g), s, e)))
        disc = fma(B, B, -A * C)
        root = sqrt(wp.max(disc, real(0.0)))
        h = -(B + wp.where(B < real(0.0), -root, root))
        t1 = h / A
        t2 = C / h
        domain_at = row * wp.static(NUM_DOMAIN)
        ok1 = root_is_valid(t1, eps, qx, qy, qz, u, v, w, nx, ny, nz, s, nu, domain, domain_at)
        ok2 = root_is_valid(t2, eps, qx, qy, qz, u, v, w, nx, ny, nz, s, nu, domain, domain_at)
        # a shape may say that its nearer root alone counts, inside its limits or not
        nearest_only = ld_plain(domain, domain_at + wp.static(NEAREST_ONLY)) > real(0.0)
        second1 = wp.where(t2 > eps, t2 < t1, False)
        second2 = wp.where(t1 > eps, t1 < t2, False)
        ok1 = wp.where(wp.where(nearest_only, second1, False), False, ok1)
        ok2 = wp.where(wp.where(nearest_only, second2, False), False, ok2)
        # |h| is 2 |grad F . u| for a plane: a ray along it (to 1e-12) misses
        ok2 = wp.where(wp.abs(h) > real(2.0e-12), ok2, False)
        near1 = wp.where(ok1, t1, far)
        near2 = wp.where(ok2, t2, far)
        return wp.where(disc >= real(0.0), wp.min(near1, near2), far)

    @wp.func
    def implicit(qx: real, qy: real, qz: real, s: real, a: real, d: real, g: real, e: real):
        return fma(a, dot(qx, qy, qz, qx, qy, qz), fma(fma(d, s, g + g), s, e))

    return SimpleNamespace(hit=hit, implicit=implicit, dot=dot)
