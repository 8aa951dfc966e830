"""Refraction and reflection at a surface, without branches."""

import functools
from types import SimpleNamespace

import warp as wp

from kernels.precision import bundle


@functools.cache
def optics(precision):
    """Warp functions for one precision."""
    b = bundle(precision)
    real, select, sqrt = b.real, b.select, b.sqrt

    @wp.func
    def fresnel(cos_i: real, n_i: real, n_t: real):
        """(R, cos_t, total) of unpolarised light: R = (r_s^2 + r_p^2) / 2, and 1 beyond the critical angle."""
        eta = n_i / n_t
        sin2_t = eta * eta * (real(1.0) - cos_i * cos_i)
        total = sin2_t >= real(1.0)
        cos_t = sqrt(select(total, real(1.0), real(1.0) - sin2_t))
        r_s = (n_i * cos_i - n_t * cos_t) / (n_i * cos_i + n_t * cos_t)
        r_p = (n_t * cos_i - n_i * cos_t) / (n_t * cos_i + n_i * cos_t)
        return select(total, real(1.0), real(0.5) * (r_s * r_s + r_p * r_p)), cos_t, total

    return SimpleNamespace(fresnel=fresnel)
