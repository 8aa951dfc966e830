"""The gallery: every example runs with few rays, draws its figure and keeps its own checks."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GALLERY = [p for p in sorted((ROOT / "examples").glob("*.py")) if not p.name.startswith("_")]
# these are run elsewhere, or are figures of the docs
ELSEWHERE = {"optimize_doublet", "visibility_bias", "warp_pool", "warp_particles"}
# fewer rays than this and an optimisation has nothing to hold on to
RAYS = {
    "caustic": 200_000,
    "caustic_lens": 5_000,
    "mosaic_mirror": 3_000,
    "uniform_reflector": 4_000,
    "lens_network": 300,
    "ghosts": 100_000,
    "light_pipe": 60_000,
}


def run(*arguments, timeout=600):
    return subprocess.run(
        [sys.executable, "-m", "examples", *arguments],
        cwd=ROOT,
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_the_gallery_lists_itself():
    listed = run()
    assert listed.returncode == 0
    lines = [line for line in listed.stdout.splitlines() if line and not line.startswith(("Warp", "Module", " "))]
    assert [line.split()[0] for line in lines] == [path.stem for path in GALLERY]
    assert all(line.endswith(".") for line in lines)
    assert len(lines) >= 16
    unknown = run("no_such_example")
    assert unknown.returncode == 2
    assert "no_such_example" in unknown.stderr


@pytest.mark.parametrize("path", GALLERY, ids=lambda p: p.stem)
def test_an_example_is_short_and_says_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    title, rule, empty, *_ = ast.get_docstring(ast.parse(text)).splitlines()
    assert rule == "=" * len(title)  # the pages of the gallery begin with it
    assert not empty
    assert len(text.splitlines()) < 120


@pytest.fixture(scope="module")
def runner():
    """The gallery's own runner, in this process: examples share its imports and its compiled kernels."""
    spec = importlib.util.spec_from_file_location("gallery_runner", ROOT / "examples" / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [p.stem for p in GALLERY if p.stem not in ELSEWHERE])
def test_an_example_keeps_its_checks(name, runner, tmp_path, capsys):
    figure = tmp_path / "pictures" / "figure.png"
    arguments = ["--rays", str(RAYS.get(name, 20_000)), "--out", str(figure)]
    status = runner.run(runner.examples()[name], arguments)
    printed = "".join(capsys.readouterr())
    assert status == 0, printed
    assert "ok   " in printed
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_check_that_fails_is_a_failure(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text(
        '"""Broken."""\nfrom _gallery import Example\nfrom matplotlib import pyplot as plt\n'
        'example = Example(__doc__, "broken", rays=1)\nexample.check("two", 2.0, 3.0, 0.5)\n'
        "example.finish(plt.figure())\n"
    )
    done = subprocess.run(
        [sys.executable, str(broken), "--out", str(tmp_path / "b.png")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "examples")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "FAIL two: 2, expected 3" in done.stdout
