"""What the quadric row of every shape must satisfy, as functions of a shape: those of the package, and yours."""

import math

import numpy as np
import pytest
import torch

from nsq.numbers import stack


def row(geometry):
    """Coefficients (4,) and limits (9,) of one shape, as NumPy arrays."""
    coefficients, limits = type(geometry).quadric(stack(geometry.numbers()).reshape(1, -1))
    assert coefficients.dtype == limits.dtype == torch.float64
    assert coefficients.shape == (1, 4)
    assert limits.shape == (1, 9)
    return coefficients[0].detach().numpy(), limits[0].detach().numpy()


def value(coefficients, q):
    a, b_a, g, e = coefficients
    return a * (q @ q) + b_a * q[2] ** 2 + 2.0 * g * q[2] + e


def gradient(coefficients, q):
    a, b_a, g, _ = coefficients
    return 2.0 * a * q + np.array([0.0, 0.0, 2.0 * b_a * q[2] + 2.0 * g])


def inside(limits, q):
    rho_min, rho_max, half_x, half_y, z_min, z_max, sheet0, sheet1, _ = limits
    rho = math.hypot(q[0], q[1])
    return bool(
        rho_min <= rho <= rho_max
        and abs(q[0]) <= half_x
        and abs(q[1]) <= half_y
        and z_min <= q[2] <= z_max
        and sheet0 + sheet1 * q[2] >= 0.0
    )


def check_point(geometry, point, normal):
    """F is 0 at a point of the shape and rises from there along its normal, which points from front to back."""
    coefficients, limits = row(geometry)
    q, normal = np.array(point), np.array(normal)
    assert value(coefficients, q) == pytest.approx(0.0, abs=1e-13)
    slope = gradient(coefficients, q)
    assert slope / np.linalg.norm(slope) == pytest.approx(normal / np.linalg.norm(normal), abs=1e-13)
    assert inside(limits, q)
    step = 1e-4  # F rises along n_geom
    assert value(coefficients, q + step * normal) > 0.0 > value(coefficients, q - step * normal)


def check_independent(shape, numbers):
    """A shape among others has the row that it has alone."""
    p = torch.tensor(numbers, dtype=torch.float64).reshape(len(numbers), -1)
    together = shape.quadric(p)
    for i in range(len(numbers)):
        for all_rows, one in zip(together, shape.quadric(p[i : i + 1]), strict=True):
            assert torch.equal(all_rows[i], one[0])


def check_motion(shape, numbers, point):
    """The normal motion -dF / |grad F| of a point of the surface, against a surface with changed numbers."""
    leaves = torch.tensor([numbers], dtype=torch.float64, requires_grad=True)
    base, q = torch.tensor(numbers, dtype=torch.float64), np.array(point)
    coefficients = shape.quadric(leaves)[0][0]
    basis = torch.tensor([q @ q, q[2] ** 2, 2.0 * q[2], 1.0])
    (motion,) = torch.autograd.grad((coefficients * basis).sum(), leaves)
    normal = gradient(coefficients.detach().numpy(), q)
    motion = -motion[0].numpy() / np.linalg.norm(normal)
    normal /= np.linalg.norm(normal)
    for i in range(len(numbers)):
        moved = []
        for h in (1e-5, -1e-5):
            changed = base.clone()
            changed[i] += h
            moved.append(_along(shape.quadric(changed[None])[0][0].numpy(), q, normal))
        assert motion[i] == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-6, abs=1e-8)


def _along(coefficients, q, normal):
    """Distance along the normal at which F is 0, by Newton's method."""
    s = 0.0
    for _ in range(20):
        at = q + s * normal
        s -= value(coefficients, at) / (gradient(coefficients, at) @ normal)
    return s


def check_row(geometry, point, normal):
    """All of these for a shape, a point on it, and the direction of its normal there."""
    shape, numbers = type(geometry), [float(number) for number in geometry.numbers()]
    check_point(geometry, point, normal)
    check_independent(shape, [numbers, [1.25 * number for number in numbers]])
    check_motion(shape, numbers, point)
