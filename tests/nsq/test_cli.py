"""The command line: what it prints, writes and returns."""

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
from pathlib import Path

import numpy as np
import pytest

import nsq
from nsq.cli import main

from . import scenes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scene_file(tmp_path):
    path = tmp_path / "scene.json"
    scenes.singlet().to_json(path)
    return path


@pytest.fixture
def two_detectors(tmp_path):
    path = tmp_path / "two.json"
    scene = scenes.singlet()
    scene.add_detector("far/field", nsq.CoordinateSystem(z=100.0), nsq.FarFieldDetectorConfig(9, 36, absorb=False))
    scene.to_json(path)
    return path


def run(*arguments):
    """A process of the command line."""
    return subprocess.run(
        [sys.executable, "-m", "nsq", *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def test_a_trace_prints_its_ledger_and_draws_its_map(scene_file, tmp_path, capsys):
    target = tmp_path / "map.png"
    assert main(["trace", str(scene_file), "-n", "2e4", "--seed", "3", "--plot", str(target)]) == 0
    out, err = capsys.readouterr()
    result = scenes.singlet().trace(20_000, seed=3)
    assert f"detector D: {result.detectors['D'].total_flux_float:.6g} W" in out
    assert "relative standard error" not in out  # of five chunks
    assert f"drew {target}" in err
    assert "it/s" not in err
    assert target.read_bytes().startswith(b"\x89PNG")


def test_each_of_several_detectors_gets_a_file(two_detectors, tmp_path, capsys):
    assert main(["trace", str(two_detectors), "-n", "1e4", "--plot", str(tmp_path / "m.pdf")]) == 0
    assert sorted(p.name for p in tmp_path.glob("*.pdf")) == ["m-D.pdf", "m-far_field.pdf"]
    plot = ["--plot", str(tmp_path / "one.svg"), "--detector", "D"]
    assert main(["trace", str(two_detectors), "-n", "1e4", *plot]) == 0
    assert [p.name for p in tmp_path.glob("*.svg")] == ["one.svg"]
    assert main(["trace", str(two_detectors), "--detector", "E"]) == 1
    assert "takes one of ['D', 'far/field']" in capsys.readouterr().err


def test_results_are_written_whole(two_detectors, tmp_path, capsys):
    target = tmp_path / "result.npz"
    assert main(["trace", str(two_detectors), "-n", "1e4", "--seed", "3", "--out", str(target)]) == 0
    assert f"wrote {target}" in capsys.readouterr().err
    result, loaded = nsq.NSQScene.from_json(two_detectors).trace(10_000, seed=3), nsq.SimulationResult.load(target)
    assert loaded.total_flux_detected == result.total_flux_detected
    assert np.array_equal(loaded.detectors["D"].irradiance, result.detectors["D"].irradiance)
    assert np.array_equal(loaded.detectors["far/field"].intensity, result.detectors["far/field"].intensity)


def test_a_trace_stops_where_it_is_told_and_goes_on(scene_file, tmp_path, capsys):
    kept = ["--checkpoint", str(tmp_path / "run.nsq")]
    assert main(["trace", str(scene_file), "-n", "3e5", "--max-seconds", "1e-6", *kept]) == 0
    assert re.search(r"partial: \d+ of 300000 rays", capsys.readouterr().out)
    assert main(["trace", str(scene_file), "-n", "3e5", *kept]) == 0
    whole = capsys.readouterr().out
    assert "partial" not in whole
    assert main(["trace", str(scene_file), "-n", "3e5"]) == 0
    same = capsys.readouterr().out
    assert whole.splitlines()[:-1] == same.splitlines()[:-1]  # all but the time
    assert main(["trace", str(scene_file), "-n", "3e5", "--seed", "1", *kept]) == 1
    assert "belongs to another trace: seed 0, not 1" in capsys.readouterr().err
    assert main(["trace", str(scene_file), "-n", "1e8", "--target-error", "D=1e-3"]) == 0
    assert "partial" in capsys.readouterr().out


def test_info_lists_what_a_scene_holds(two_detectors, tmp_path, capsys):
    assert main(["info", str(two_detectors)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^  S +CollimatedSource +1 W, 0.55 µm$", out, re.M)
    assert re.search(r"^  L +Lens +front \(refract\), back \(refract\), edge \(absorb\)$", out, re.M)
    assert re.search(r"^  D +IrradianceDetector +16 x 16 pixels$", out, re.M)
    assert re.search(r"^  far/field +FarFieldDetector +9 x 36 directions, lets light pass$", out, re.M)
    assert "the scene can be traced" in out
    empty = tmp_path / "empty.json"
    nsq.NSQScene().to_json(empty)
    assert main(["info", str(empty)]) == 1
    out, err = capsys.readouterr()
    assert "sources: none" in out
    assert err == "nsq: error: the scene has no sources; add one with add_source\n"


ZMX = """\
VERS 140124
MODE SEQ
NAME singlet
UNIT MM X W X CM MR CPMM
ENPD 10
WAVM 1 0.5875618 1
PWAV 1
SURF 0
  CURV 0
  DISZ INFINITY
SURF 1
  STOP
  CURV 0.02
  DISZ 5
  GLAS N-BK7 0 0
  DIAM 8
SURF 2
  CURV -0.02
  DISZ 45
  DIAM 8
SURF 3
  CURV 0
  DISZ 0
  DIAM 5
"""


def test_a_prescription_becomes_a_scene_that_traces(tmp_path, capsys):
    lens, target = tmp_path / "lens.zmx", tmp_path / "lens.json"
    lens.write_text(ZMX)
    assert main(["convert", str(lens), str(target), "--pixels", "32"]) == 0
    out, err = capsys.readouterr()
    assert "focal length" in out
    assert f"wrote {target}" in err
    detector = nsq.NSQScene.from_json(target).trace(1000).detectors["image"]
    assert detector.irradiance.shape == (32, 32)
    assert detector.total_flux_float > 0.8
    assert main(["convert", str(target), str(lens)]) == 1
    assert ".zmx" in capsys.readouterr().err


def test_ghosts_are_listed(scene_file, tmp_path, capsys):
    target = tmp_path / "ghosts.csv"
    common = ["ghosts", str(scene_file), "--detector", "D", "-n", "5e4", "--seed", "2"]
    assert main([*common, "--csv", str(target)]) == 0
    out, err = capsys.readouterr()
    assert "L.back, L.front" in out
    assert f"wrote {target}" in err
    header, *rows = target.read_text().splitlines()
    assert header.startswith("flux")
    policy = nsq.SamplingPolicy(reflect_prob="auto")
    table = scenes.singlet().trace(50_000, seed=2).ghosts("D", num_rays=50_000, policy=policy)
    assert [float(row.split(",")[0]) for row in rows] == [group.flux for group in table]
    assert main([*common, "--as-traced", "--limit", "0"]) == 0
    assert "L.back" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ghosts", "{scene}", "--detector", "E"], ["'E'", "['D']"]),
        (["trace", "missing.json"], ["missing.json", "No such file"]),
        (["trace", "{scene}", "--out", "no/folder/r.npz"], ["no/folder/r.npz", "no folder"]),
        (["trace", "{scene}", "--max-depth", "0"], ["max_depth got 0"]),
        (["trace", "{scene}", "--device", "gpu"], ["device got 'gpu'"]),
        (["trace", "{scene}", "--target-error", "E=0.1"], ["target_error", "'E'", "['D']"]),
        (["trace", "{scene}", "--target-error", "0.1", "--target-error", "D=0.1"], ["NAME=ERROR"]),
        (["info", "{broken}"], ["broken.json", "cut short"]),
        (["convert", "{broken}", "x.json"], ["broken.json", ".zmx"]),
        (["warmup", "--device", "tpu"], ["device got 'tpu'"]),
    ],
)
def test_errors_are_one_line(arguments, words, scene_file, capsys):
    broken = scene_file.with_name("broken.json")
    broken.write_text('{"nsq_schema_version": 1,\n "sources": [')
    names = {"scene": scene_file, "broken": broken}
    assert main([a.format(**names) for a in arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nsq: error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    with pytest.raises((ValueError, TypeError, KeyError, OSError)):
        main(["--traceback", *(a.format(**names) for a in arguments)])


@pytest.mark.parametrize(
    "arguments", [[], ["trcae"], ["trace"], ["trace", "s.json", "-n", "1.5"], ["trace", "s", "-n"]]
)
def test_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: python -m nsq" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["trace", "info", "convert", "ghosts", "warmup"])
def test_help_has_an_example(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"python -m nsq {command}" in capsys.readouterr().out.split("example:")[1]


def test_a_process_of_its_own(scene_file):
    done = run("trace", scene_file, "-n", "1e4", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert "trace:" not in done.stderr  # no terminal, no bar
    assert done.stdout.startswith("flux ")
    assert "Warp" not in done.stdout
    failed = run("trace", scene_file.with_name("missing.json"))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "nsq: error: " in failed.stderr
    assert "Traceback" not in failed.stderr


def test_a_terminal_shows_progress_and_ctrl_c_writes_what_is_there(scene_file, tmp_path):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    target = tmp_path / "map.png"
    command = ["trace", str(scene_file), "-n", "1e10", "--plot", str(target)]
    process = subprocess.Popen(
        [sys.executable, "-m", "nsq", *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    seen, shown = [], threading.Event()

    def watch():
        with contextlib.suppress(OSError):  # the terminal goes with the process
            while part := os.read(ours, 1000):
                seen.append(part.decode())
                if "ray/s" in seen[-1]:
                    shown.set()

    threading.Thread(target=watch, daemon=True).start()
    try:
        assert shown.wait(timeout=100)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=100)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "trace:" in "".join(seen)
    assert re.search(r"partial: \d+ of 10000000000 rays, stopped by Ctrl-C", out)
    assert target.exists()


WARM = """
import sys, time
import warp as wp
wp.config.kernel_cache_dir = sys.argv[1]
from nsq.cli import main
assert main(["warmup", "--without-gradients"]) == 0
"""
TRACE = """
import sys
import warp as wp
wp.config.kernel_cache_dir = sys.argv[1]
import nsq
nsq.NSQScene.from_json(sys.argv[2]).trace(1000)
"""


def test_after_a_warmup_nothing_is_compiled(scene_file, tmp_path):
    cache = tmp_path / "cache"
    for program, fresh in ((WARM, True), (TRACE, False)):
        before = kept(cache)
        done = subprocess.run(
            [sys.executable, "-c", program, str(cache), str(scene_file)],
            cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert (kept(cache) != before) == fresh
        if fresh:
            assert re.search(r"kernels ready for cpu in [\d.]+ s", done.stdout)
    assert np.all([path.exists() for path in kept(cache)])


def kept(cache):
    """The modules in a cache of kernels."""
    return sorted(path for path in cache.rglob("*") if path.suffix in (".o", ".cpp"))
