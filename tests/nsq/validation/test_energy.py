"""Statements that hold for every scene: no light is lost or made, and nothing depends on how the work is shared out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nsq

from .. import scenes
from .random_scenes import generated

ROWS = 20  # a block of seeds a test, so that a failure names its block
PARTS = ("detected", "absorbed", "coating", "bulk_absorbed", "escaped", "lost")


def parts(result):
    return {name: getattr(result, f"total_flux_{name}") for name in PARTS}


@pytest.mark.parametrize("block", range(10))
def test_every_watt_has_one_place(block):
    """200 scenes with the default branch probabilities and no roulette: exact, whatever scatters or absorbs."""
    for seed in range(ROWS * block, ROWS * (block + 1)):
        scene = generated(seed)
        scene.sampling_policy = nsq.SamplingPolicy(rr_start_flux=0.0)
        result = scene.trace(600, max_depth=3 + seed % 10, min_flux_fraction=0.0, seed=seed)
        assert result.flux_conservation_error < 1e-9, seed
        assert scenes.closure(result) < 1e-9 * result.total_flux_in, seed
        assert result.total_flux_in == pytest.approx(sum(float(s.total_flux) for s in scene.sources), rel=1e-14)
        assert min(parts(result).values()) >= -1e-5 * result.total_flux_in, seed
        read = sum(d.total_flux_float for d in result.detectors.values())
        assert read == pytest.approx(result.total_flux_detected, rel=1e-12, abs=1e-15), seed


def test_the_scenes_are_not_trivial():
    """Every entry of the ledger is filled by many of the scenes above."""
    filled = dict.fromkeys((*PARTS, "tapped"), 0)
    for seed in range(0, 200, 4):
        scene = generated(seed)
        result = scene.trace(300, max_depth=3 + seed % 10, seed=seed)
        for name in filled:
            filled[name] += getattr(result, f"total_flux_{name}") > 1e-3 * result.total_flux_in
    assert min(filled.values()) >= 5, filled


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**31), st.integers(1, 400), st.integers(1, 30))
def test_every_watt_has_one_place_in_any_scene(seed, rays, depth):
    scene = generated(seed)
    scene.sampling_policy = nsq.SamplingPolicy(rr_start_flux=0.0)
    result = scene.trace(max(rays, len(scene.sources)), max_depth=depth, min_flux_fraction=0.0, seed=seed)
    assert result.flux_conservation_error < 1e-9


@pytest.mark.parametrize("block", range(4))
def test_splitting_keeps_every_watt(block):
    """Exact as well: what cannot split any more chooses by the default probabilities."""
    for seed in range(10 * block, 10 * (block + 1)):
        scene = generated(seed)
        scene.sampling_policy = nsq.SamplingPolicy(split_depth=1 + seed % 4, split_budget=4.0, rr_start_flux=0.0)
        result = scene.trace(500, max_depth=10, min_flux_fraction=0.0, seed=seed)
        assert result.flux_conservation_error < 1e-9, seed


@pytest.mark.parametrize("block", range(4))
def test_nothing_is_lost_where_nothing_absorbs(block):
    """No lobe, no extinction, lossless coatings and mirrors: each branch probability gives back all of the flux."""
    for seed in range(1000 + 10 * block, 1010 + 10 * block):
        scene = generated(seed, scatter=False, lossy=False)
        scene.sampling_policy = nsq.SamplingPolicy(rr_start_flux=0.0)
        result = scene.trace(500, max_depth=12, min_flux_fraction=0.0, seed=seed)
        assert abs(result.total_flux_bulk_absorbed) < 1e-12 * result.total_flux_in, seed
        assert result.flux_conservation_error < 1e-12, seed
        # a coating by callables is not lossless: its shares are smaller than the numbers they are made of
        if not any(callable(getattr(s.coating, "reflectance", None)) for s in scene.surfaces):
            assert abs(result.total_flux_coating) < 1e-9 * result.total_flux_in, seed


@pytest.fixture
def threads():
    yield nsq.set_num_threads
    nsq.set_num_threads(None)


def maps(result):
    out = {}
    for name, detector in result.detectors.items():
        if hasattr(detector, "data"):
            out[name] = detector.data.numpy()
        else:
            table = detector.to_numpy()
            out[name] = np.stack([table[c] for c in sorted(table)])
    return out


@pytest.mark.parametrize("split", [0, 3])
@pytest.mark.parametrize("seed", range(12))
def test_batches_and_threads_give_the_same_bits(seed, split, threads):
    """Scatter, splitting and every kind of detector included."""
    found = []
    for number, batch in ((1, 9001), (2, 1000), (2, 16384), (1, 7)):
        threads(number)
        scene = generated(seed)
        scene.sampling_policy = nsq.SamplingPolicy(split_depth=split)
        result = scene.trace(9001, max_depth=10, seed=seed, batch_size=batch)
        found.append((scenes.ledger(result), result.total_flux_coating, maps(result)))
    for other in found[1:]:
        assert other[:2] == found[0][:2]
        for name, values in found[0][2].items():
            assert np.array_equal(values, other[2][name]), name


@pytest.mark.parametrize("seed", range(300, 320))
def test_a_scene_moved_as_a_whole_gives_the_same_light(seed):
    """Without scatter a ray meets the same surfaces wherever the scene stands.

    Bulk absorption sees a path's rounding; without it, fluxes on detectors are the same to the last bit. A ray whose
    branch or hit hangs on the last digits could differ; at these seeds none does.
    """
    frame = nsq.CoordinateSystem(x=31.0, y=-17.0, z=5.0, rx=0.7, ry=-0.4, rz=1.9)
    still, moved = (generated(seed, f, scatter=False, lossy=False) for f in (None, frame))
    for scene in (still, moved):
        scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.4, rr_start_flux=0.0)
    a, b = (s.trace(1500, max_depth=10, min_flux_fraction=0.0, seed=seed) for s in (still, moved))
    for name in ("num_rays_absorbed", "num_rays_escaped", "num_rays_depth_killed"):
        assert getattr(a, name) == getattr(b, name)
    # weights R / p depend on the angle of incidence, which is rounded otherwise in another frame
    assert b.total_flux_detected == pytest.approx(a.total_flux_detected, rel=1e-9, abs=1e-12)
    for name, detector in a.detectors.items():
        assert b.detectors[name].num_rays_hit == detector.num_rays_hit
        if hasattr(detector, "data"):
            one, other = detector.data.numpy(), b.detectors[name].data.numpy()
            assert np.abs(one - other).max() <= 1e-9 * max(one.max(), 1e-12)


def test_a_moved_scene_gives_exactly_the_same_total():
    """The default probabilities: all weights are one, so the totals are equal and not only close."""
    frame = nsq.CoordinateSystem(x=-3.0, y=44.0, z=12.0, rx=-1.2, ry=0.5, rz=0.1)
    totals = []
    for f in (None, frame):
        row = []
        for seed in range(400, 415):
            scene = generated(seed, f, scatter=False, lossy=False)
            for surface in scene.surfaces:
                if surface.coating is not None:
                    surface.coating = None
            scene.sampling_policy = nsq.SamplingPolicy(rr_start_flux=0.0)
            row.append(scene.trace(1000, max_depth=10, min_flux_fraction=0.0, seed=seed).total_flux_detected)
        totals.append(row)
    assert totals[0] == totals[1]
    assert max(totals[0]) > 0.5
