"""Columns of ray databases against central differences, where a tap in front sees rays before and after a lens."""

import numpy as np
import pytest
import torch

import nsq

COLUMNS = ("x", "y", "L", "M", "flux")
NOMINAL = {"r1": 40.0, "x": 0.5, "rx": 0.06, "n": 1.53, "k": 3e-6, "source": 0.4, "flux": 1.3}
NUM_RAYS = 600


def trace(v, mode="prb", taps=2, **options):
    """Two lines, a tap, a tilted lens, and an absorbing database; light that the lens reflects meets the tap again."""
    scene = nsq.NSQScene()
    spectrum = nsq.Spectrum(wavelengths=np.array([0.48, 0.65]), weights=np.array([1.0, 2.0]))
    beam = nsq.CollimatedSourceConfig(spectrum=spectrum, total_flux=v["flux"], aperture_radius=6.0)
    scene.add_source("S", nsq.CoordinateSystem(y=v["source"], ry=0.03), beam)
    places = (("tap", 5.0, False), ("behind", 31.0, False), ("end", 45.0, True))
    for name, z, absorb in places[:taps] + places[-1:]:
        cs = nsq.CoordinateSystem(z=z, rx=0.1)
        scene.add_detector(name, cs, nsq.RayDatabaseConfig(60.0, 60.0, absorb=absorb, **options))
    glass = nsq.NSQMaterial.constant(v["n"], v["k"])
    lens = nsq.LensConfig(v["r1"], -55.0, 5.0, glass, front_aperture_radius=9.0)
    scene.add_lens("L", nsq.CoordinateSystem(x=v["x"], z=20.0, rx=v["rx"]), lens)
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.3, rr_start_flux=0.0)
    # a difference at the same random numbers sees no ray change its fate
    backend = nsq.TorchBackend(gradient_mode=mode, visibility="off")
    return scene.trace(NUM_RAYS, max_depth=8, min_flux_fraction=0.0, seed=11, backend=backend).detectors


def leaves():
    return {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in NOMINAL.items()}


def weighted(rays, column):
    weights = torch.cos(0.7 * rays.ray_id.to(torch.float64)) + 0.4
    return torch.dot(weights, getattr(rays, column))


def test_rows_come_in_the_order_of_rays_and_their_hits():
    detectors = trace(NOMINAL)
    for name in ("tap", "behind", "end"):
        assert np.all(np.diff(detectors[name].ray_id.numpy()) >= 0)
    tap, end = detectors["tap"], detectors["end"]
    ids, counts = np.unique(tap.ray_id.numpy(), return_counts=True)
    assert np.array_equal(ids, np.arange(NUM_RAYS))
    assert (counts == 2).sum() > 50  # on the way there and, reflected, on the way back
    forward = tap.N.numpy() > 0.0
    assert np.array_equal(tap.ray_id.numpy()[forward], ids)
    repeated = np.flatnonzero(np.diff(tap.ray_id.numpy()) == 0)
    assert np.all(forward[repeated])
    assert np.all(tap.N.numpy()[repeated + 1] < 0.0)
    assert set(np.unique(end.wavelength.numpy())) == {0.48, 0.65}
    # light that passes a tap does so unchanged; a ghost may meet max_depth between the two
    behind = detectors["behind"]
    arrived = np.isin(behind.ray_id.numpy(), end.ray_id.numpy())
    assert end.num_rays > 300
    for column in ("ray_id", "L", "M", "N", "flux"):
        assert np.array_equal(getattr(behind, column).numpy()[arrived], getattr(end, column).numpy())


@pytest.mark.parametrize("name", NOMINAL)
@pytest.mark.parametrize("detector", ["tap", "end"])
def test_central_differences_of_every_column(detector, name):
    v = leaves()
    rays = trace(v)[detector]
    sides = []
    for sign in (1.0, -1.0):
        shifted = dict(NOMINAL)
        shifted[name] *= 1.0 + sign * 1e-6
        sides.append((shifted[name], trace(shifted)[detector]))
    (high, above), (low, below) = sides
    moved = 0
    for column in COLUMNS:
        expected = (weighted(above, column) - weighted(below, column)).item() / (high - low)
        (found,) = torch.autograd.grad(weighted(rays, column), v[name], retain_graph=True)
        # a sum of some hundred numbers of order one is known to 1e-13, its difference to 1e-13 / step
        assert found.item() == pytest.approx(expected, rel=1e-5, abs=2e-13 / (high - low)), column
        moved += abs(expected) > 1e-3
    assert moved >= (1 if name in ("k", "flux") else 4)


@pytest.mark.parametrize("detector", ["tap", "behind", "end"])
def test_path_replay_equals_autograd(detector):
    grads = []
    for mode in ("prb", "autograd"):
        v = leaves()
        rays = trace(v, mode)[detector]
        sum(weighted(rays, column) for column in COLUMNS).backward()
        grads.append([value.grad.item() for value in v.values()])
    assert grads[0] == pytest.approx(grads[1], rel=1e-10)
    assert min(abs(g) for g in grads[0]) > 0.0


def test_all_databases_of_a_trace_may_be_used_at_once():
    v = leaves()
    detectors = trace(v)
    parts = [weighted(detectors[d], c) for d in ("tap", "behind", "end") for c in COLUMNS]
    together = torch.autograd.grad(sum(parts), list(v.values()), retain_graph=True)
    alone = [torch.autograd.grad(part, list(v.values()), retain_graph=True) for part in parts]
    for i, name in enumerate(v):
        assert together[i].item() == pytest.approx(sum(g[i].item() for g in alone), rel=1e-9), name


def test_only_the_last_rays_are_kept_and_differentiated():
    full, cut = leaves(), leaves()
    everything, last = trace(full)["end"], trace(cut, max_rays=40)["end"]
    assert last.num_rays == 40
    assert last.num_rays_hit == everything.num_rays > 40
    assert last.total_flux.item() == everything.total_flux.item()
    assert torch.equal(last.x, everything.x[-40:])
    weights = torch.linspace(0.5, 1.5, 40, dtype=torch.float64)
    torch.dot(weights, last.x).backward()
    torch.dot(weights, everything.x[-40:]).backward()
    for name in full:
        assert cut[name].grad.item() == pytest.approx(full[name].grad.item(), rel=1e-12), name


def test_total_flux_of_a_database_is_attached():
    v = leaves()
    rays = trace(v)["end"]
    (total,) = torch.autograd.grad(rays.total_flux, v["k"], retain_graph=True)
    (column,) = torch.autograd.grad(rays.flux.sum(), v["k"])
    assert rays.total_flux.item() == pytest.approx(rays.flux.sum().item(), rel=1e-12)
    assert total.item() == pytest.approx(column.item(), rel=1e-12)
    assert total.item() < 0.0
