"""Two conics at right angles: sag = (cx x^2 + cy y^2) / (1 + sqrt(1 - (1 + kx) cx^2 x^2 - (1 + ky) cy^2 y^2)).

Numbers: cx, cy, kx, ky.
"""

import warp as wp

from kernels.precision import bundle

NAME = "biconic"
NUM_NUMBERS = 4


def build(precision):
    b = bundle(precision)
    real, array, sqrt = b.real, b.array, b.sqrt
    vec3 = wp.types.vector(length=3, dtype=real)

    @wp.func
    def surface(x: real, y: real, numbers: array, at: int):
        """(sag, its slope along x, along y)."""
        cx = numbers[at]
        cy = numbers[at + 1]
        ax = (real(1.0) + numbers[at + 2]) * cx * cx
        ay = (real(1.0) + numbers[at + 3]) * cy * cy
        one = real(1.0)
        top = cx * x * x + cy * y * y
        root = sqrt(wp.max(one - ax * x * x - ay * y * y, real(1.0e-12)))
        below = one + root
        bend = top / (below * below * root)
        two = real(2.0)
        return vec3(top / below, two * cx * x / below + bend * ax * x, two * cy * y / below + bend * ay * y)

    return surface
