"""A conic in the y-z plane turned about an axis along y at the distance 1 / cx from the vertex.

With s(y) the conic's sag, (1 - cx z)^2 = (1 - cx s)^2 - cx^2 x^2, solved for z without dividing by cx, so that a
cylinder (cx = 0) is no special case. Numbers: cx, cy, ky.
"""

import warp as wp

from kernels.precision import bundle

NAME = "toroid"
NUM_NUMBERS = 3


def build(precision):
    b = bundle(precision)
    real, array, sqrt = b.real, b.array, b.sqrt
    vec3 = wp.types.vector(length=3, dtype=real)

    @wp.func
    def surface(x: real, y: real, numbers: array, at: int):
        """(sag, its slope along x, along y)."""
        cx = numbers[at]
        cy = numbers[at + 1]
        one = real(1.0)
        root = sqrt(wp.max(one - (one + numbers[at + 2]) * cy * cy * y * y, real(1.0e-12)))
        s = cy * y * y / (one + root)
        s_y = cy * y / root
        turned = one - cx * s
        d = sqrt(wp.max(turned * turned - cx * cx * x * x, real(1.0e-12)))
        # (1 - cx z) = d, hence z_x = cx x / d and z_y = (1 - cx s) s_y / d
        return vec3((real(2.0) * s - cx * s * s + cx * x * x) / (one + d), cx * x / d, turned * s_y / d)

    return surface
