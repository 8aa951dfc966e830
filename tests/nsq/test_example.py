"""The main example keeps its promise with fewer rays, and says so when it does not."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "optimize_doublet.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_doublet_is_recovered(tmp_path):
    figure = tmp_path / "pictures" / "doublet.png"
    done = run("--rays", "4000", "--out", str(figure))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("design "))
    rows = {line.split()[0]: [float(v) for v in line.split()[1:]] for line in lines[start + 1 : start + 4]}
    assert set(rows) == {"catalogue", "spoiled", "optimised"}
    assert abs(rows["catalogue"][3] - 2.82) < 0.06  # um
    assert rows["spoiled"][3] > 1000.0
    assert rows["optimised"][3] <= 2.0
    assert abs(rows["optimised"][4] / 100.13 - 1.0) < 0.005
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_stopping_too_early_to_keep_the_promise_is_a_failure(tmp_path):
    done = run("--rays", "4000", "--evaluations", "10", "--out", str(tmp_path / "doublet.png"))
    assert done.returncode == 1
    assert "FAILED: RMS spot" in done.stderr
