"""The scenes of Optiland's gallery 01 to 10 read what Optiland 0.6.3 reads of them, from stored numbers.

``python -m tests.adapters.test_gallery`` makes the numbers where Optiland is installed.
"""

import json
import math
from pathlib import Path

import pytest

import nsq

from . import gallery_scenes

STORED = json.loads((Path(__file__).parents[1] / "data" / "optiland_gallery.json").read_text(encoding="utf-8"))
KIT = gallery_scenes.Kit(nsq, nsq.CoordinateSystem, nsq.SimpleCoating)


@pytest.fixture(scope="module")
def cases():
    return gallery_scenes.cases(KIT)


def test_every_scene_is_there(cases):
    assert cases.keys() == STORED.keys()
    assert {name[:2] for name in cases} == {f"{number:02d}" for number in range(1, 11)}


@pytest.mark.filterwarnings("ignore:light came to surfaces:UserWarning")  # the condenser's faces cross
@pytest.mark.parametrize("name", STORED)
def test_a_notebooks_own_run_is_reproduced(name, cases):
    """The same seed draws the same rays."""
    case = cases[name]
    found = gallery_scenes.readings(case.scene.trace(case.rays, seed=case.seed, **case.options))
    assert found.keys() == STORED[name].keys()
    for detector, expected in STORED[name].items():
        assert found[detector][0] == pytest.approx(expected["flux"], rel=1e-9, abs=1e-12), detector
        assert found[detector][1] == expected["hits"], detector


@pytest.mark.filterwarnings("ignore:light came to surfaces:UserWarning")
@pytest.mark.parametrize("name", STORED)
def test_independent_rays_agree_within_3_sigma(name, cases):
    """Other rays than Optiland's: the difference from its mean, whose own error counts too.

    Eight seeds alone know a standard deviation to a quarter; counting hits of equal flux gives another value of it.
    """
    case = cases[name]
    found = gallery_scenes.readings(case.scene.trace(case.rays, seed=77, **case.options))
    for detector, expected in STORED[name].items():
        hits = expected["hits"]
        counted = expected["flux"] / max(hits, 1) * math.sqrt(max(hits * (1.0 - hits / case.rays), 0.0))
        sigma = max(expected["sigma"], counted) * math.sqrt(1.0 + 1.0 / expected["seeds"])
        assert abs(found[detector][0] - expected["mean"]) <= 3.0 * sigma + 1e-9, detector
