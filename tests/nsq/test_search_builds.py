"""The search is built for several kinds of rows; each build finds what the general one finds."""

import numpy as np
import pytest
import warp as wp

from kernels.shapes import quadric
from kernels.trace import layout as at
from kernels.trace.command import Command
from kernels.trace.search import FAR, row_groups, search_kernel

RAYS = 4000
INF = np.inf


def a_row(rng, *, a=0.0, d=0.0, e=0.0, rho=INF, hole=0.0, half=INF, z=INF, sheet=(1.0, 0.0), nearest=0.0):
    """Numbers and limits of one row about a random axis."""
    frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    numbers = np.concatenate([rng.uniform(-2.0, 2.0, 3), frame[2], [a, d, 1.0 if e == 0.0 else 0.0, e]])
    domain = np.concatenate([frame[0], frame[1], [hole**2, rho**2, half, half, -z, z, *sheet, nearest]])
    return numbers, domain


ROWS = {
    "plane": [dict(rho=3.0, hole=0.5), dict(half=2.0), dict()],
    "cap": [dict(a=0.2, rho=3.0, sheet=(1.0, 0.2)), dict(a=-0.3, rho=2.0, sheet=(1.0, -0.3)), dict(a=0.5, e=-2.0)],
    "tube": [dict(a=0.5, d=-0.5, e=-2.0, z=1.5), dict(a=0.4, d=-0.6, e=-1.0), dict(a=0.2, d=0.1, e=-1.0)],
    "conic": [dict(a=0.2, d=-0.2, rho=3.0, sheet=(1.0, 0.05)), dict(a=0.2, d=0.3, rho=2.0, sheet=(1.0, 0.1), hole=0.5)],
    "any": [
        dict(a=0.2, half=1.5, sheet=(1.0, 0.2)),
        dict(a=0.2, d=-0.2, z=1.0, sheet=(1.0, -0.1)),
        dict(a=0.5, e=-2.0, nearest=1.0, z=1.0),
    ],
}


def found(build, numbers, domain, rays, last):
    """Distances, runners-up and rows that one launch finds, over all rows of the arrays."""
    ints = np.zeros((at.NUM_INTS, RAYS), dtype=np.int32)
    ints[at.LAST] = last
    distance = wp.full(at.NUM_DISTANCES * RAYS, FAR, dtype=wp.float64, device="cpu")
    row_hit = wp.full(RAYS, -1, dtype=wp.int32, device="cpu")
    names = {
        "floats": wp.array(rays.ravel(), dtype=wp.float64, device="cpu"),
        "ints": wp.array(ints.ravel(), dtype=wp.int32, device="cpu"),
        "distance": distance, "row_hit": row_hit,
        "numbers": wp.array(np.ravel(numbers), dtype=wp.float64, device="cpu"),
        "domain": wp.array(np.ravel(domain), dtype=wp.float64, device="cpu"),
        "row": 0, "first": 0, "surfaces": len(numbers), "eps": wp.float64(1e-9), "n": wp.int64(RAYS),
    }  # fmt: skip
    for row in range(len(numbers)):
        Command(search_kernel("float64", 1, build), "cpu", {**names, "row": row}).run(RAYS)
    return distance.numpy().reshape(-1, RAYS), row_hit.numpy()


@pytest.mark.parametrize("build", quadric.BUILDS)
def test_a_build_finds_what_the_general_one_finds(build):
    rng = np.random.default_rng(3)
    numbers, domain = (np.array(part) for part in zip(*(a_row(rng, **row) for row in ROWS[build]), strict=True))
    assert quadric.builds_of(numbers, domain) == [build] * len(numbers)
    directions = rng.normal(size=(3, RAYS))
    rays = np.concatenate([rng.uniform(-3.0, 3.0, (3, RAYS)), directions / np.linalg.norm(directions, axis=0)])
    rays = np.concatenate([rays, np.ones((at.NUM_FLOATS - 6, RAYS))])
    mine, mine_row = found(build, numbers, domain, rays, -1)
    theirs, their_row = found(quadric.ANY, numbers, domain, rays, -1)
    assert (their_row >= 0).sum() > 400
    assert np.array_equal(mine_row, their_row)
    assert np.allclose(mine, theirs, rtol=1e-12)

    # from where they landed, the surface that they are on does not count at distance 0
    start = rays.copy()
    landed = their_row >= 0
    start[:3, landed] += theirs[0, landed] * rays[3:6, landed]
    last = np.where(landed, their_row, -1)
    mine, mine_row = found(build, numbers, domain, start, last)
    theirs, their_row = found(quadric.ANY, numbers, domain, start, last)
    assert np.array_equal(mine_row, their_row)
    assert np.allclose(mine, theirs, rtol=1e-10)
    assert mine[0, landed].min() > 1e-9


def test_neighbours_of_one_build_go_together():
    rows, builds = (0, 1, 2, 3, 5, 6, 7), ("cap", "cap", "tube", "plane", "cap", "cap", "cap")
    assert list(row_groups(rows, builds)) == [
        (0, 2, "cap"), (2, 1, "tube"), (3, 1, "plane"), (5, 2, "cap"), (7, 1, "cap"),
    ]  # fmt: skip
