"""Refraction and reflection at a surface, without branches."""

import functools
from types import SimpleNamespace

import warp as wp

from kernels.precision import bundle


@functools.cache
def optics(precision):
    """Warp functions for one precision."""
    b = bundle(precision)
    real, select, sqrt, fma, inverse, quotient = b.real, b.select, b.sqrt, b.fma, b.inverse, b.quotient

    @wp.func
    def fresnel(cos_i: real, n_i: real, n_t: real):
        """(R, cos_t, total, eta) of unpolarised light: R = (r_s^2 + r_p^2) / 2, and 1 beyond the critical angle;
        eta = n_i / n_t."""
        one = real(1.0)
        eta = quotient(n_i, n_t)
        sin2_t = eta * eta * fma(-cos_i, cos_i, one)
        total = sin2_t >= one
        cos_t = sqrt(select(total, one, one - sin2_t))
        s_i = n_i * cos_i
        s_t = n_t * cos_t
        p_i = n_t * cos_i
        p_t = n_i * cos_t
        # a division is dear: one for both amplitudes
        scale = inverse((s_i + s_t) * (p_i + p_t))
        r_s = (s_i - s_t) * (p_i + p_t) * scale
        r_p = (p_i - p_t) * (s_i + s_t) * scale
        return select(total, one, real(0.5) * fma(r_s, r_s, r_p * r_p)), cos_t, total, eta

    return SimpleNamespace(fresnel=fresnel)
