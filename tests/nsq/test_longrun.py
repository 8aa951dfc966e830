"""Long runs: stopped by time, by error and by hand, killed and resumed."""

import errno
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import nsq
from nsq.checkpoint import digest
from nsq.longrun import Plan, map_error, relative_error
from nsq.lower import lower

from . import scenes
from .generated_scenes import generated
from .gradient_scenes import CASES

ROOT = Path(__file__).parents[2]
RAYS = 100_000


def two_beams(flux=1.0, rare=None):
    """Two beams, each onto a map of its own and through a ray database; a third of which there is one ray."""
    scene = nsq.NSQScene()
    for name, x, watts in (("A", -10.0, 3.0), ("B", 10.0, 1.0), ("C", 0.0, rare)):
        if watts is None:
            continue
        beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, total_flux=watts * flux, aperture_radius=3.0)
        scene.add_source(name, nsq.CoordinateSystem(x=x), beam)
        screen = nsq.IrradianceDetectorConfig(8.0, 8.0, num_pixels_x=8, num_pixels_y=8)
        scene.add_detector(name, nsq.CoordinateSystem(x=x, z=30.0), screen)
    return scene


def kept_rays(scene):
    scene.add_detector("rays", nsq.CoordinateSystem(z=120.0), nsq.RayDatabaseConfig(2.0, 2.0, absorb=False))
    return scene


def everything(result):
    """All that a result says, but for the time it took."""
    out = {k: v for k, v in vars(result).items() if isinstance(v, int | float) and k != "trace_time_sec"}
    for name, detector in result.detectors.items():
        for column in ("data", "total_flux", "x", "y", "M", "flux", "ray_id"):
            if hasattr(detector, column):
                out[name, column] = getattr(detector, column).numpy().tobytes()
    return out


# ---- the plan --------------------------------------------------------------------------------------------------------


class Shares:
    """As much of a run as a plan looks at."""

    def __init__(self, seed, *rays):
        ends = np.cumsum([0, *rays])
        self.seed, self.num_rays = seed, int(ends[-1])
        self.sources = [SimpleNamespace(start=int(a), stop=int(b)) for a, b in itertools.pairwise(ends)]


@pytest.mark.parametrize("rays", [(1,), (5000,), (100_000, 1, 37), (3_000_000, 2_999_999)])
def test_chunks_hold_every_ray_once_and_each_source_in_proportion(rays):
    plan = Plan.of(Shares(7, *rays))
    seen = np.zeros(sum(rays), dtype=int)
    done = np.zeros(plan.count, dtype=bool)
    for k in range(plan.count):
        for first, last in plan.ranges(k):
            seen[first:last] += 1
        done[k] = True
        born = plan.born(done)
        assert born.sum() == seen.sum()
        assert np.all(np.abs(born - np.array(rays) * ((k + 1) / plan.count)) < 1.0)
    assert np.all(seen == 1)
    done[plan.count // 3 : plan.count // 2] = False
    assert plan.born(done).sum() == sum(b - a for k in np.flatnonzero(done) for a, b in plan.ranges(k))


def test_a_source_of_one_ray_is_traced_early_as_often_as_its_share_says():
    """In the first half of the chunks for half of the seeds: 200 of 400 within 3 sigma = 30."""
    early = 0
    for seed in range(400):
        plan = Plan.of(Shares(seed, 99_999, 1))
        half = np.arange(plan.count) < plan.count / 2
        early += int(plan.born(half)[1])
    assert abs(early - 400 * math.ceil(plan.count / 2) / plan.count) < 30


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_the_error_of_a_flux_is_that_of_repeated_runs():
    scene = nsq.NSQScene()
    cone = nsq.PointSourceConfig(spectrum=scenes.GREEN, half_angle_deg=60.0)
    scene.add_source("S", nsq.CoordinateSystem(), cone)
    scene.add_detector("D", nsq.CoordinateSystem(z=10.0), nsq.IrradianceDetectorConfig(8.0, 8.0, 4, 4))
    runs = [scene.trace(70_000, seed=seed, target_error=1e-9) for seed in range(40)]
    total = np.array([run.detectors["D"].total_flux_float for run in runs])
    stated = np.array([run.relative_errors["D"] for run in runs])
    share = total.mean()  # a hit is a coin toss
    exact = math.sqrt((1.0 - share) / share / 70_000)
    # each stated error comes from 18 chunks: 1 / sqrt(2 * 17) = 17 % of its size; the mean of 40 within 3 sigma = 8 %
    assert abs(stated.mean() / exact - 1.0) < 0.08
    # the spread of 40 totals within 3 sigma = 3 / sqrt(2 * 39)
    assert abs(total.std(ddof=1) / share / exact - 1.0) < 0.34


def test_the_error_of_a_map_is_that_of_counts():
    """Poisson counts of mean m in each of P pixels: the relative error is sqrt(P m) / (m sqrt(P)) = 1 / sqrt(m)."""
    rng = np.random.default_rng(5)
    chunks = rng.poisson(2.0, size=(200, 400))
    stated = map_error(np.square(chunks).sum(axis=1), chunks.sum(axis=0))
    assert abs(stated * math.sqrt(400.0) - 1.0) < 0.02
    assert map_error(np.square(chunks[:10]).sum(axis=1), chunks[:10].sum(axis=0)) == math.inf
    assert relative_error(np.zeros(50), np.ones(50)) == math.inf


def test_a_run_ends_when_the_error_is_small_enough_whatever_the_threads():
    scene = two_beams()
    scene.remove_detector("B")
    scene.add_detector("B", nsq.CoordinateSystem(x=12.0, z=30.0), nsq.IrradianceDetectorConfig(4.0, 8.0, 4, 4))
    results = []
    threads = nsq.get_num_threads()
    try:
        for count in (1, 3):
            nsq.set_num_threads(count)
            results.append(scene.trace(20_000_000, seed=2, target_error={"B": 3e-3}, batch_size=5000))
    finally:
        nsq.set_num_threads(None)
    assert nsq.get_num_threads() == threads
    assert everything(results[0]) == everything(results[1])
    run = results[0]
    assert (run.partial, run.stopped_by) == (True, "target_error")
    assert 0.0 < run.relative_errors["B"] <= 3e-3
    assert run.relative_errors["A"] < 1e-5  # all of that beam arrives, and chunks differ by a ray
    # B lets about 40 % of a quarter of the rays through: an error of 0.3 % takes about 1 / 0.003**2 * 0.6 / 0.1 rays
    assert run.num_rays_total < 3_000_000


def test_pixels_take_more_rays_than_totals():
    scene = two_beams()
    run = scene.trace(20_000_000, seed=2, target_map_error=0.02)
    # 1 / 0.02**2 hits a pixel, some 28 of 64 pixels lit, a quarter of the rays on B: 280 000 rays; bilinear splats
    # share hits out among neighbours and so need fewer
    assert run.partial
    assert 50_000 < run.num_rays_total < 1_300_000
    assert scene.trace(20_000_000, seed=2, target_map_error={"A": 0.02}).num_rays_total <= run.num_rays_total


# ---- stopping --------------------------------------------------------------------------------------------------------


def test_a_long_run_that_is_not_stopped_has_the_bits_of_a_short_one():
    scene = kept_rays(scenes.gauss_point_doublet())
    scene.sampling_policy = nsq.SamplingPolicy(split_depth=2)
    plain = scene.trace(RAYS, seed=3)
    long = scene.trace(RAYS, seed=3, max_seconds=math.inf)
    assert everything(plain) == everything(long)
    assert (long.partial, long.stopped_by) == (False, "")
    assert plain.relative_errors == {}
    assert set(long.relative_errors) == {"D", "rays"}


@pytest.mark.parametrize("case", list(CASES))
def test_every_kind_of_scene_makes_a_long_run(case):
    values, build = CASES[case][:2]
    scene = build(dict(values))
    assert everything(scene.trace(3000, seed=1)) == everything(scene.trace(3000, seed=1, max_seconds=math.inf))


def test_every_scene_is_told_from_every_other():
    names = [digest(lower(generated(seed), 100)) for seed in range(12) for _ in range(2)]
    assert names[::2] == names[1::2]
    assert len(set(names)) == 12


def test_time_stops_a_run_and_what_is_there_is_an_estimate():
    scene = two_beams(rare=1e-9)
    run = scene.trace(10**9, seed=1, max_seconds=1e-6)
    assert (run.partial, run.stopped_by) == (True, "max_seconds")
    assert 0 < run.num_rays_total < 10**9
    assert run.flux_conservation_error < 1e-12
    assert run.total_flux_in == 4.0 + 1e-9
    # less than one ray of each source too many or too few
    bound = 4.0 * 3 / run.num_rays_total
    assert abs(run.detectors["A"].total_flux_float - 3.0) < bound
    assert abs(run.detectors["B"].total_flux_float - 1.0) < bound


def test_rows_of_a_partial_ray_database_carry_the_flux_of_the_whole():
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, total_flux=5.0, aperture_radius=3.0)
    scene.add_source("S", nsq.CoordinateSystem(), beam)
    scene.add_detector("rays", nsq.CoordinateSystem(z=5.0), nsq.RayDatabaseConfig(10.0, 10.0))
    run = scene.trace(10**6, seed=1, max_seconds=1e-6)
    rays = run.detectors["rays"]
    assert run.partial
    assert rays.num_rays == run.num_rays_total < 10**6
    events = scene.trace(10**6, seed=1, max_seconds=1e-6, record_paths=True).ray_paths["events"]
    recorded = (events["event_type"] == "birth").sum()
    assert 0.5 * run.num_rays_total < recorded < 2.0 * run.num_rays_total
    assert abs(rays.flux.sum().item() - 5.0) < 1e-9


@pytest.fixture
def listens_to_ctrl_c():
    """A process that a shell started in the background ignores SIGINT from its birth."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listens_to_ctrl_c")
def test_ctrl_c_returns_what_is_done():
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    scene = two_beams()
    scene.trace(5000)  # nothing is left to compile
    timer.start()
    with pytest.warns(UserWarning, match="interrupted after"):
        run = scene.trace(10**12, seed=1, max_seconds=600.0)
    assert (run.partial, run.stopped_by) == (True, "Ctrl-C")
    assert run.flux_conservation_error < 1e-12
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        scene.trace(10**9, seed=1)


# ---- checkpoints -----------------------------------------------------------------------------------------------------


def test_a_run_goes_on_from_its_checkpoint_and_a_finished_one_is_there_at_once(tmp_path):
    scene = kept_rays(scenes.gauss_point_doublet())
    whole = everything(scene.trace(RAYS, seed=3))
    path, stops = tmp_path / "run.nsq", 0
    options = {"seed": 3, "checkpoint": path, "checkpoint_every": 0.0}
    while scene.trace(RAYS, max_seconds=1e-6, **options).partial:
        stops += 1
    assert stops > 3
    files = path.read_bytes()
    assert everything(scene.trace(RAYS, **options)) == whole
    assert path.read_bytes() == files
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.nsq"]


KILLS = """
    import json, math, os, random, signal, sys, time
    from pathlib import Path

    import nsq
    import nsq.longrun
    from tests.nsq.test_longrun import everything, kept_rays
    from tests.nsq import scenes

    path = Path(sys.argv[1]) / "run.nsq"
    scene = kept_rays(scenes.gauss_point_doublet())
    nsq.longrun._WRITING_SHARE = math.inf  # a checkpoint after every chunk of each lane
    RAYS = 60_000

    def trace():
        return scene.trace(RAYS, seed=3, checkpoint=path, checkpoint_every=0.0)

    nsq.set_num_threads(1)  # no threads yet, so that the process may fork
    scene.trace(5000)
    whole = everything(scene.trace(RAYS, seed=3))
    nsq.set_num_threads(None)
    random.seed(1)
    report = []
    for _ in range(20):
        path.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            trace()
            os._exit(0)
        written, wanted = set(), random.randrange(7)  # files seen, and after how many to kill
        while len(written) < wanted and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if path.exists():
                written.add(path.stat().st_mtime_ns)
            time.sleep(0.001)
        time.sleep(random.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        left = sorted(p.name for p in path.parent.iterdir())
        child = os.fork()
        if child == 0:
            partial = scene.trace(RAYS, seed=3, checkpoint=path, max_seconds=1e-6)
            same = everything(trace()) == whole
            os.write(1, (json.dumps({"left": left, "begun": partial.num_rays_total, "same": same}) + chr(10)).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert [p.name for p in path.parent.iterdir()] == ["run.nsq"]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of a warm process")
def test_a_run_killed_at_any_moment_ends_with_the_same_bits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLS), str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [entry["same"] for entry in report] == [True] * 20
    # the kills came at all sorts of moments
    assert len({entry["begun"] for entry in report}) >= 5


def test_a_disk_that_is_full_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    scene, path = two_beams(), tmp_path / "run.nsq"
    options = {"seed": 3, "checkpoint": path, "checkpoint_every": 0.0}
    assert scene.trace(RAYS, max_seconds=1e-6, **options).partial
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left on device, writing a checkpoint") as caught:
            scene.trace(RAYS, **options)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == os.fspath(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.nsq"]
    assert everything(scene.trace(RAYS, **options)) == everything(scene.trace(RAYS, seed=3))


def test_a_bad_place_is_known_before_the_trace(tmp_path):
    for path in (tmp_path / "missing" / "run.nsq", tmp_path):
        with pytest.raises(OSError, match=str(path)):
            two_beams().trace(10**12, checkpoint=path)


def test_checkpoints_of_other_traces_are_refused(tmp_path):
    path = tmp_path / "run.nsq"
    two_beams().trace(RAYS, seed=3, checkpoint=path)
    files = path.read_bytes()
    for scene, options, words in (
        (two_beams(), {"seed": 4}, ["seed 3, not 4"]),
        (two_beams(), {"max_depth": 3}, ["max_depth 16, not 3"]),
        (two_beams(), {"precision": "float32"}, ["precision 'float64', not 'float32'"]),
        (two_beams(flux=1.0 + 1e-15), {}, ["its scene is not this one"]),
        (two_beams(rare=1.0), {}, ["its scene is not this one"]),
    ):
        with pytest.raises(ValueError, match="belongs to another trace") as caught:
            scene.trace(RAYS, **{"seed": 3, "checkpoint": path, **options})
        for word in (str(path), *words):
            assert word in str(caught.value)
    with pytest.raises(ValueError, match=f"num_rays {RAYS}, not {RAYS + 1}"):
        two_beams().trace(RAYS + 1, seed=3, checkpoint=path)
    assert path.read_bytes() == files


def outcome_of(scene, path):
    """(result, None) of a trace with a checkpoint, or (None, the ValueError)."""
    try:
        return scene.trace(20_000, seed=3, checkpoint=path), None
    except ValueError as error:
        return None, error


def test_broken_checkpoints_are_refused(tmp_path):
    path = tmp_path / "run.nsq"
    scene = kept_rays(two_beams())
    scene.trace(20_000, seed=3, checkpoint=path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    cuts = [whole[:n] for n in (0, 1, 100, len(whole) // 2, len(whole) - 1)]
    flips = []
    for place in rng.integers(0, len(whole), size=60):
        broken = bytearray(whole)
        broken[place] ^= 1 << int(rng.integers(8))
        flips.append(bytes(broken))
    expected, refused = everything(scene.trace(20_000, seed=3)), 0
    for content in (*cuts, *flips, b"[1, 2]", rng.bytes(3000)):
        path.write_bytes(content)
        result, error = outcome_of(scene, path)
        if error is None:  # a flip in what the format does not read, such as a date
            assert everything(result) == expected
        else:
            assert str(path) in str(error)
            refused += 1
    assert refused >= len(cuts) + 2 + 30
    np.save(path.with_suffix(".npy"), np.zeros(3))
    with pytest.raises(ValueError, match="no checkpoint"):
        scene.trace(20_000, seed=3, checkpoint=path.with_suffix(".npy"))


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"max_seconds": 0}, ValueError, ["max_seconds", "> 0"]),
        ({"max_seconds": "1"}, TypeError, ["max_seconds", "str"]),
        ({"max_seconds": math.nan}, ValueError, ["max_seconds", "nan"]),
        ({"target_error": -0.1}, ValueError, ["target_error", "-0.1"]),
        ({"target_error": {"a": 0.1}}, ValueError, ["target_error", "'a'", "Did you mean 'A'"]),
        ({"target_error": {"A": "x"}}, TypeError, ["target_error['A']", "str"]),
        ({"target_map_error": {"rays": 0.1}}, ValueError, ["target_map_error", "'rays'", "'A', 'B'"]),
        ({"checkpoint": 7}, TypeError, ["checkpoint", "int"]),
        ({"checkpoint": "x", "checkpoint_every": -1.0}, ValueError, ["checkpoint_every", "-1"]),
    ],
)
def test_bad_arguments(arguments, error, words):
    with pytest.raises(error) as caught:
        kept_rays(two_beams()).trace(1000, **arguments)
    for word in words:
        assert word in str(caught.value)


def test_a_trace_with_gradients_takes_no_limits(tmp_path):
    flux = torch.tensor(2.0, requires_grad=True)
    for name, value in (("max_seconds", 1.0), ("target_error", 0.1), ("checkpoint", tmp_path / "run.nsq")):
        with pytest.raises(ValueError, match=f"{name} got .*no_grad"):
            two_beams(flux).trace(1000, **{name: value})
    assert list(tmp_path.iterdir()) == []
    with torch.no_grad():
        assert not two_beams(flux).trace(1000, max_seconds=100.0).partial
    two_beams(flux).trace(1000, progress=True).detectors["A"].total_flux.backward()
    assert abs(flux.grad.item() - 3.0) < 1e-6


@pytest.mark.parametrize("mode", ["prb", "autograd"])
def test_devices_share_a_trace_out(mode):
    radius = torch.tensor(60.0, dtype=torch.float64, requires_grad=True)

    def run(device, **options):
        scene = nsq.NSQScene()
        beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=5.0)
        scene.add_source("S", nsq.CoordinateSystem(), beam)
        glass = nsq.NSQMaterial.constant(1.5)
        scene.add_lens("L", nsq.CoordinateSystem(z=10.0), nsq.LensConfig(radius, -80.0, 5.0, glass, 12.0))
        scene.add_detector("D", nsq.CoordinateSystem(z=60.0), nsq.IrradianceDetectorConfig(8.0, 8.0, 32, 32))
        return scene.trace(20_000, seed=4, backend=nsq.TorchBackend(gradient_mode=mode, device=device), **options)

    gradients = []
    for device in ("cpu", ["cpu", "cpu"], ["cpu", "cpu", "cpu"]):
        result = run(device)
        result.detectors["D"].data.square().sum().backward()
        gradients.append(radius.grad.item())
        radius.grad = None
        with torch.no_grad():
            assert everything(run(device, max_seconds=100.0)) == everything(run("cpu"))
    assert abs(gradients[0]) > 0.0
    np.testing.assert_allclose(gradients[1:], gradients[0], rtol=1e-12)
    for device, error in (([], ValueError), (["cpu", None], TypeError), (["cpu", "gpu7"], ValueError)):
        with pytest.raises(error, match="device"):
            nsq.TorchBackend(device=device)
