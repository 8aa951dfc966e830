"""A conic of revolution plus powers of the distance from the axis: even, odd and extended aspheres.

sag = c u / (1 + sqrt(1 - (1 + K) c^2 u)) + sum_j a_j rho^p_j with u = rho^2. Numbers: c, K, how many terms there
are, sixteen a_j, sixteen powers p_j. Powers are from 2 up and carry no gradient.
"""

import warp as wp

from kernels.precision import bundle

NAME = "asphere"
NUM_TERMS = 16
NUM_NUMBERS = 3 + 2 * NUM_TERMS


def build(precision):
    b = bundle(precision)
    real, array, detach, sqrt = b.real, b.array, b.detach, b.sqrt
    vec3 = wp.types.vector(length=3, dtype=real)

    @wp.func
    def surface(x: real, y: real, numbers: array, at: int):
        """(sag, its slope along x, along y)."""
        c = numbers[at]
        k1 = real(1.0) + numbers[at + 1]
        count = detach(numbers[at + 2])
        one = real(1.0)
        # a hair above 0, so that the derivative of a fractional power stays finite on the axis
        u = x * x + y * y + real(1.0e-30)
        root = sqrt(wp.max(one - k1 * c * c * u, real(1.0e-12)))
        sag = c * u / (one + root)
        # d sag / d u of a conic is c / (2 root)
        slope = real(0.5) * c / root
        term = real(0.0)
        for j in range(wp.static(NUM_TERMS)):
            if term < count:
                a = numbers[at + 3 + j]
                half = real(0.5) * detach(numbers[at + wp.static(3 + NUM_TERMS) + j])
                power = wp.pow(u, half - one)
                sag = sag + a * power * u
                slope = slope + a * half * power
            term = term + one
        return vec3(sag, real(2.0) * x * slope, real(2.0) * y * slope)

    return surface
