"""A Gaussian beam along +z, cut at an aperture. Shape numbers: aperture radius R, sigma.

Radii beyond R are redrawn. At fixed random numbers that loop has the wrong derivative, since a ray may need another
number of draws; so the derivative is the implicit one of the truncated Rayleigh distribution

    G(r) = (1 - exp(-r^2 / 2 sigma^2)) / (1 - exp(-R^2 / 2 sigma^2)) = const
    dr/dsigma = (r - h) / sigma,  dr/dR = h / R,  h = G R^2 E / (r e),

with e and E the two exponentials (implicit reparameterisation: Figurnov, Mohamed, Mnih 2018).
"""

import warp as wp

from kernels.precision import DOUBLES, bundle
from kernels.rng import pcg32, slot_key, uniform_of
from kernels.sobol import bits_of

NAME = "gaussian"
_U1, _U2 = wp.uint64(slot_key(0)), wp.uint64(slot_key(1))
ATTEMPTS = 32


def build(precision, sobol=False):
    b = bundle(precision)
    bits1, bits2 = bits_of(0, sobol), bits_of(1, sobol)
    real, sin_turn, cos_turn, detach = b.real, b.sin_turn, b.cos_turn, b.detach
    uniform = uniform_of(precision)

    @wp.func
    def variates(id: wp.uint64, init: wp.uint64, table: DOUBLES, block: int, p0: real, p1: real, p2: real, p3: real):
        """(cos, sin, r, h / r) by Box and Muller, redrawn until r <= R.

        A beam much wider than its aperture would be redrawn for ever: after the last attempt the radius comes from the
        inverse of G, which needs one draw.
        """
        a = wp.uint64(1)
        c = wp.uint64(0)
        r = p0
        turn = real(0.0)
        found = int(0)
        for _ in range(wp.static(ATTEMPTS)):
            if found == 0:
                u1 = uniform(pcg32(id, init, wp.static(_U1), a, c))
                turn = uniform(pcg32(id, init, wp.static(_U2), a, c))
                if a == wp.uint64(1):
                    # the first draw may be a Sobol point; what is redrawn is not
                    u1 = uniform(bits1(id, init))
                    turn = uniform(bits2(id, init))
                # -2 ln u1 is infinite for u1 = 0, which no aperture admits
                radius = p1 * wp.sqrt(real(-2.0) * wp.log(wp.max(u1, real(1.0e-30))))
                # one step further in the stream: x -> multiplier x + inc
                a = a * wp.uint64(6364136223846793005)
                c = c * wp.uint64(6364136223846793005) + wp.uint64(1)
                if radius <= p0:
                    r = radius
                    found = int(1)
        if found == 0:
            u1 = uniform(pcg32(id, init, wp.static(_U1), a, c))
            turn = uniform(pcg32(id, init, wp.static(_U2), a, c))
            share = u1 * (real(1.0) - wp.exp(real(-0.5) * p0 * p0 / (p1 * p1)))
            r = wp.min(p1 * wp.sqrt(real(-2.0) * wp.log(real(1.0) - share)), p0)
        small = wp.exp(real(-0.5) * r * r / (p1 * p1))
        large = wp.exp(real(-0.5) * p0 * p0 / (p1 * p1))
        h = real(0.0)
        if r > real(0.0):
            g = (real(1.0) - small) / (real(1.0) - large)
            h = g * p0 * p0 * large / (r * small)
        return cos_turn(turn), sin_turn(turn), r, h, real(0.0)

    @wp.func
    def place(v0: real, v1: real, v2: real, v3: real, v4: real, p0: real, p1: real, p2: real, p3: real):
        by_sigma = (v2 - v3) / detach(p1)
        by_radius = v3 / detach(p0)
        r = v2 + by_sigma * (p1 - detach(p1)) + by_radius * (p0 - detach(p0))
        return r * v0, r * v1, real(0.0), real(0.0), real(1.0)

    return variates, place
