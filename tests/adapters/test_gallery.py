"""The scenes of Optiland's gallery 01 to 10: Optiland's own run, its run with WarpBackend, and what is stored of them.

``python -m tests.adapters.test_gallery`` runs Optiland and writes ``tests/data/optiland_gallery.json``, which
``tests/nsq/test_optiland_gallery.py`` compares this tracer with wherever Optiland is not installed.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest

peer = pytest.importorskip("optiland.nonsequential", reason="needs the extra optiland: make test-optiland")

from optiland.coatings import SimpleCoating  # noqa: E402
from optiland.coordinate_system import CoordinateSystem  # noqa: E402

from nsq.adapters.optiland import WarpBackend  # noqa: E402

from ..nsq import gallery_scenes  # noqa: E402

KIT = gallery_scenes.Kit(peer, CoordinateSystem, SimpleCoating)
STORED = Path(__file__).parents[1] / "data" / "optiland_gallery.json"
SEEDS = range(1000, 1008)


def run(case, backend, seed=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the condenser's faces cross, and so says the trace
        result = case.scene.trace(case.rays, seed=case.seed if seed is None else seed, backend=backend, **case.options)
    return gallery_scenes.readings(result)


@pytest.mark.parametrize("name", gallery_scenes.cases(KIT))
def test_totals_are_optilands(name):
    """Ray for ray: far inside the 3 sigma that independent runs would have."""
    case = gallery_scenes.cases(KIT)[name]
    stored = json.loads(STORED.read_text(encoding="utf-8"))[name]
    theirs, ours = run(case, peer.NumpyBackend()), run(case, WarpBackend())
    assert ours.keys() == theirs.keys() == stored.keys()
    for detector, (flux, hits) in theirs.items():
        assert ours[detector][0] == pytest.approx(flux, rel=1e-9, abs=1e-12)
        assert ours[detector][1] == hits
        assert stored[detector]["flux"] == pytest.approx(flux, rel=1e-9, abs=1e-12)


def write():
    """Flux and hits of each notebook's own run, and mean and standard deviation of the flux over other seeds."""
    table = {}
    for name, case in gallery_scenes.cases(KIT).items():
        own = run(case, peer.NumpyBackend())
        others = [run(case, peer.NumpyBackend(), seed) for seed in SEEDS]
        table[name] = {
            detector: {
                "flux": flux,
                "hits": hits,
                "mean": float(np.mean([other[detector][0] for other in others])),
                "sigma": float(np.std([other[detector][0] for other in others], ddof=1)),
                "seeds": len(others),
            }
            for detector, (flux, hits) in own.items()
        }
        print(name)
    STORED.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
