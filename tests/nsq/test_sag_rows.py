"""Rows of `kernels.shapes`: each reads, and its adjoint writes, the numbers of its own block and no others."""

import numpy as np
import pytest
import warp as wp

from kernels import shapes
from kernels.trace.sags import surface_of

BEFORE, BEHIND = 5, 40  # numbers of somebody else's on both sides of a block


@pytest.fixture(scope="module")
def kernel():
    surface = surface_of("float64")

    @wp.kernel(module="tests.sag_rows")
    def evaluate(code: int, numbers: wp.array(dtype=wp.float64), start: int, out: wp.array(dtype=wp.float64)):
        s = surface(code, wp.float64(0.7), wp.float64(-0.4), numbers, start)
        out[0] = s[0] + wp.float64(2.0) * s[1] + wp.float64(3.0) * s[2]

    return evaluate


@pytest.mark.parametrize("row", shapes.ROWS, ids=shapes.NAMES)
def test_a_row_stays_within_its_numbers(row, kernel):
    own = slice(BEFORE, BEFORE + row.NUM_NUMBERS)
    values = np.full(BEFORE + row.NUM_NUMBERS + BEHIND, np.nan)
    values[own] = np.linspace(0.02, 0.03, row.NUM_NUMBERS)
    if row.NAME == "asphere":
        values[own][2] = 2.0  # terms
        values[own][-16:] = 4.0  # powers
    code = shapes.NAMES.index(row.NAME)

    def value(given):
        out = wp.zeros(1, dtype=wp.float64)
        wp.launch(kernel, dim=1, inputs=[code, wp.array(given, dtype=wp.float64), BEFORE], outputs=[out])
        return out.numpy()[0]

    numbers = wp.array(values, dtype=wp.float64, requires_grad=True)
    out = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=1, inputs=[code, numbers, BEFORE], outputs=[out])
    tape.backward(grads={out: wp.ones(1, dtype=wp.float64)})
    gradient = numbers.grad.numpy()
    assert np.isfinite(out.numpy()).all()
    assert np.isfinite(gradient[own]).all()
    assert not np.delete(gradient, np.arange(own.start, own.stop)).any()  # NaN would be true
    step = np.zeros_like(values)
    step[BEFORE] = 1e-6
    assert gradient[BEFORE] == pytest.approx((value(values + step) - value(values - step)) / 2e-6, rel=1e-6)
