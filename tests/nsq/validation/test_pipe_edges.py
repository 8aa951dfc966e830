"""Light on the edges and corners of a pipe: a ray that lands on an edge of two faces meets both of them."""

import numpy as np
import pytest

from .test_light_pipe import DEPTH, LENGTH, SHAPES, aimed, arrives, pipe


@pytest.mark.parametrize("shift", [0.0, 1000.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_light_at_the_edges_and_corners_of_a_pipe_stays_inside(shape, shift):
    targets = [(1.0, y, z) for z in np.linspace(3.0, LENGTH, 40) for y in (1.0, -1.0, 1.0 / 3.0)]
    targets += [(-1.0, 1.0, LENGTH), (1.0, 1.0, LENGTH), (0.2, -1.0, LENGTH)]
    scene, frame = pipe(shape, shift)
    count = aimed(scene, frame, targets)
    rays = 4 * count
    arrives(scene.trace(rays, max_depth=DEPTH, min_flux_fraction=0.0, seed=1), rays, float(count))
