"""The tools of the benchmarks; the benchmarks themselves take minutes and are not run here."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import crowds, sampling, scale, timing

ROOT = Path(__file__).parents[1]


def test_the_benchmarks_are_listed():
    done = subprocess.run([sys.executable, "-m", "benchmarks"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "trace" in [line.split()[0] for line in done.stdout.splitlines()]


def test_an_unknown_benchmark_is_named():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nonsense"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no benchmark 'nonsense'" in done.stderr


def test_disturbed_runs_are_taken_again(monkeypatch):
    runs = iter([(1.0, 9.0), (0.0, 1.0), (0.5, 8.0), (0.0, 3.0), (0.0, 2.0)])
    monkeypatch.setattr(timing, "_once", lambda function: next(runs))
    result = timing.measure(None, repeats=3)
    assert (result.median, result.fastest, result.slowest) == (2.0, 1.0, 3.0)
    assert result.others == 0.0


def test_patience_ends_and_the_calmest_runs_stand(monkeypatch):
    runs = iter([(1.0, 9.0), (0.4, 1.0), (0.5, 2.0)])
    monkeypatch.setattr(timing, "_once", lambda function: next(runs))
    result = timing.measure(None, repeats=2, patience=0.0)
    assert (result.fastest, result.slowest) == (1.0, 9.0)
    assert "others busy 0.70 cores" in str(result)


def test_seconds_are_measured_or_taken_from_the_function():
    slow, fixed = timing.measure(lambda: None, lambda: 5.0, repeats=2, patience=0.0)
    assert slow.median < 1.0
    assert fixed.median == 5.0


def test_a_missing_peer_says_what_to_install():
    with pytest.raises(SystemExit, match=r"pip install -e '\.\[bench\]'"):
        timing.require("no_such_peer.part")


def test_peak_memory_of_a_child_is_its_own():
    """The parent holds 300 MB; the child, which imports next to nothing, does not inherit them."""
    ballast = bytearray(300 * 2**20)
    ballast[::4096] = b"\x01" * len(ballast[::4096])
    assert timing.peak_memory() > 300.0
    command = "from benchmarks import timing; print(timing.peak_memory())"
    done = subprocess.run([sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert 1.0 < float(done.stdout) < 100.0


@pytest.mark.parametrize("count", [3, 10, 300])
def test_the_balls_of_a_crowd_are_apart_and_fill_what_they_should(count):
    scene = crowds.balls(count)
    middles = np.array([[s.cs.x, s.cs.y, s.cs.z] for s in scene.surfaces])
    radius = scene.surfaces[0].geometry.radius
    assert len(middles) == count
    assert count * 4.0 / 3.0 * np.pi * radius**3 == pytest.approx(crowds.FILLED * (2.0 * crowds.HALF) ** 3)
    gaps = np.linalg.norm(middles[:, None] - middles, axis=2) + 9.0 * radius * np.eye(count)
    assert gaps.min() >= 2.0 * radius
    assert np.linalg.norm(middles, axis=1).min() > radius
    result = scene.trace(500, max_depth=crowds.DEPTH)
    assert result.num_rays_escaped == 0
    assert crowds.segments(result) >= 500


def test_both_searches_of_the_mesh_trace_the_same_rays():
    """The peer's float32 hits land on the same triangles but for rays at their edges."""
    from nsq.geometries_mesh import MeshGeometry

    assert MeshGeometry(crowds.bumpy(24, 12)).is_watertight
    assert MeshGeometry(crowds.bumpy(24, 12)).volume > 0.0
    _, gap = crowds.mesh(2000, 0.0, around=24, down=12)
    assert gap < 5e-3


def test_a_field_of_heights_costs_about_as_much_as_one_number(monkeypatch, capsys):
    """The figure itself is for a quiet machine; here the scene must build, trace and be differentiated."""
    monkeypatch.setattr(scale, "FIELD", 8)
    scale.parameters()
    first, second = capsys.readouterr().out.splitlines()
    assert "8 x 8 heights" in first
    assert float(second.split()[0]) > 0.0


@pytest.mark.parametrize("name", sampling.CASES)
def test_sobol_births_converge_faster(name, capsys):
    plain, sobol = sampling.compare(name, powers=(9, 13), seeds=4)
    assert sobol < plain - 0.1
    assert "8192 rays" in capsys.readouterr().out
