"""The sums of rays' gradients into the tables of a scene, against sums ray by ray."""

import numpy as np
import pytest
import warp as wp

from kernels.precision import REALS
from kernels.trace import layout as at
from kernels.trace.backward import reduce_kernel
from kernels.trace.command import Command

ROWS, MEDIA, LINES = 5, 3, 2
INDEX, OTHER = MEDIA * LINES, ROWS * LINES


def rays(kind, count, rng):
    """Row, line and medium of rays: all alike, in runs with odd ones between, or at random; some met nothing."""
    if kind == "alike":
        return np.full(count, 2), np.ones(count, int), np.full(count, 1)
    row, line, medium = rng.integers(-2, ROWS, count), rng.integers(0, LINES, count), rng.integers(0, MEDIA, count)
    if kind == "runs":
        odd = rng.random(count) < 0.1
        cell = np.arange(count) // 150
        row, line, medium = (np.where(odd, v, v[cell]) for v in (row, line, medium))
    return row, line, medium


@pytest.mark.parametrize("count", [0, 5, 8, 1003])
@pytest.mark.parametrize("kind", ["alike", "runs", "random"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_rays_are_summed_by_what_they_met(precision, kind, count):
    rng = np.random.default_rng(count)
    row, line, medium = rays(kind, count, rng)
    state = np.where(rng.random(count) < 0.1, at.DEAD, at.ALIVE)
    real = np.float64 if precision == "float64" else np.float32
    acc = rng.normal(size=(at.NUM_ACC, count)).astype(real)
    acc[:, state == at.DEAD] = np.nan  # what is dead left nothing there that counts
    ints = np.zeros((at.NUM_INTS, count), dtype=np.int32)
    ints[at.STATE], ints[at.WAVELENGTH], ints[at.MEDIUM] = state, line, medium | at.INSIDE
    codes = np.zeros((ROWS, at.NUM_ROW_INTS), dtype=np.int64)
    codes[:, at.FRONT], codes[:, at.BACK] = rng.integers(0, MEDIA, (2, ROWS))

    sizes = {"numbers": 10 * ROWS, "index": INDEX, "extinction": INDEX, "reflectance": OTHER, "transmittance": OTHER}
    wanted = {name: np.zeros(size) for name, size in sizes.items()}
    kept = np.flatnonzero((state == at.ALIVE) & (row >= 0))
    values, row, line, medium = acc[:, kept].astype(np.float64), row[kept], line[kept], medium[kept]
    for c in range(10):
        np.add.at(wanted["numbers"], row * 10 + c, values[c])
    np.add.at(wanted["index"], codes[row, at.FRONT] * LINES + line, values[at.ACC_INDEX_FRONT])
    np.add.at(wanted["index"], codes[row, at.BACK] * LINES + line, values[at.ACC_INDEX_BACK])
    np.add.at(wanted["extinction"], medium * LINES + line, values[at.ACC_EXTINCTION])
    np.add.at(wanted["reflectance"], row * LINES + line, values[at.ACC_REFLECTANCE])
    np.add.at(wanted["transmittance"], row * LINES + line, values[at.ACC_TRANSMITTANCE])

    def array(values, dtype):
        return wp.array(np.append(np.ravel(values), 0), dtype=dtype, device="cpu")

    sums = {name: wp.zeros(size, dtype=wp.float64, device="cpu") for name, size in sizes.items()}
    spare = wp.zeros(1, dtype=wp.float64, device="cpu")
    names = {
        **sums, "acc": array(acc, REALS[precision]), "ints": array(ints, wp.int32), "rows": array(codes, wp.int64),
        "row_hit": array(rays(kind, count, np.random.default_rng(count))[0], wp.int32), "lines": LINES, "count": count,
        "stretches": 1, "with_numbers": 1, "with_tables": 1, "with_angles": 0, "with_coats": 1, "with_absorption": 1,
        "with_rates": 0, "angular": spare, "media": spare, "angle_cell": array([], wp.int32), "n": wp.int64(count),
    }  # fmt: skip
    Command(reduce_kernel(precision), "cpu", names).run(1)
    for name, total in wanted.items():
        assert np.allclose(sums[name].numpy(), total, rtol=1e-12, atol=1e-12), name
