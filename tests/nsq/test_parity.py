"""Ray-for-ray agreement with Optiland 0.6.3: the same keyed draws, so the same maps to rounding, not to noise.

`parity.npz` holds the maps and the ledger that Optiland's NumPy backend gives for the two scenes; `pcg32.json` holds
outputs of the generator for four seeds, seven event slots and several bounces and offsets.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import nsq

from . import scenes

DATA = Path(__file__).parents[1] / "data"
TRACES = {"singlet": (scenes.singlet, 42), "gauss_point_doublet": (scenes.gauss_point_doublet, 7)}


@pytest.fixture(scope="module", params=TRACES)
def traced(request):
    build, seed = TRACES[request.param]
    with np.load(DATA / "parity.npz") as arrays:
        reference = {key.split("/")[1]: arrays[key] for key in arrays if key.startswith(request.param + "/")}
    return build().trace(4000, seed=seed), reference


def test_random_numbers_bit_for_bit():
    vectors = json.loads((DATA / "pcg32.json").read_text())
    ids = np.array(vectors["ray_id"], dtype=np.int64)
    assert len(vectors["rows"]) == 140
    for seed, slot, bounce, offset, bits in vectors["rows"]:
        assert nsq.pcg32_uint32(seed, ids, bounce, slot, offset).tolist() == bits
        uniform = nsq.NSQRng(seed).uniform(ids, bounce, nsq.EventSlot(slot), offset)
        assert uniform.dtype == np.float64
        assert uniform.tolist() == [b / 2.0**32 for b in bits]


def test_map(traced):
    result, reference = traced
    expected = reference["D.irradiance"]
    assert result.detectors["D"].irradiance.shape == expected.shape
    assert np.abs(result.detectors["D"].irradiance - expected).max() <= 1e-6 * expected.max()


def test_ledger(traced):
    result, reference = traced
    for name, value in scenes.ledger(result).items():
        assert value == pytest.approx(float(reference[name]), rel=0.0, abs=1e-6), name
    assert float(result.detectors["D"].total_flux) == pytest.approx(float(reference["D.total_flux"]), abs=1e-6)
    assert result.detectors["D"].num_rays_hit == int(reference["D.num_rays_hit"])
