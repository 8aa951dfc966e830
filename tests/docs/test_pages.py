"""Every block of README.md and docs/ runs, page by page from top to bottom, and the pages point at things."""

import math
import os
import re
import shutil
import subprocess
import sys

import pytest

import bvh
import nsq

from ..nsq.shape_rows import check_row
from ..nsq.test_cli import ZMX
from .pages import ELSEWHERE, GENERATED, PAGES, ROOT, blocks, command, inline_commands, patched, run_page

RUNNABLE = [path for path in PAGES if path.name not in ELSEWHERE and {"python", ""} & {b[1] for b in blocks(path)}]


def test_no_block_is_kept_from_running():
    """Languages are those that are run, and what is called text holds no statement."""
    for path in PAGES:
        for line, language, code in blocks(path):
            where = f"{path.name}:{line}"
            assert language in ("python", "", "text", "diff", "{toctree}"), where
            if language == "text":
                assert not re.search(r"^(import|from|def|class|\w+ = )\b|\w\(\S*\)$", code, re.MULTILINE), where
    assert {"README.md", "quickstart.md", "distributed.md", "longruns.md", "extending.md", "command_line.md"} <= {
        path.name for path in RUNNABLE
    }


@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: path.name)
def test_a_page_runs_from_top_to_bottom(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    (tmp_path / "lens.zmx").write_text(ZMX)  # a prescription that a reader has
    run_page(path, lambda: capsys.readouterr().out)


def test_the_shape_of_a_page_passes_the_tests_of_rows():
    namespace = {"__name__": "page"}
    for _, _, code in blocks(ROOT / "docs" / "extending.md")[:2]:
        exec(code, namespace)
    tube = namespace["WaistGeometry"](2.0, 0.5, 10.0)
    radius = math.sqrt(4.0 + 0.25 * 6.0**2)
    check_row(tube, (0.6 * radius, -0.8 * radius, 6.0), (0.6 * radius, -0.8 * radius, -0.25 * 6.0))


def test_the_new_row_of_a_page_passes_the_tests_of_rows(tmp_path):
    """The page's changes, in a copy: the row is tested as its like are, and the shape becomes a scene's surface."""
    for folder in ("kernels", "nsq", "bvh", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    ((_, _, code),) = (block for block in blocks(ROOT / "docs" / "extending.md") if block[1] == "diff")
    for name, pieces in patched(code).items():
        path = tmp_path / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for old, new in pieces:
            assert text.count(old) == 1 or not text, f"{name}: {old}"
            text = text.replace(old, new) if text else new
        path.write_text(text, encoding="utf-8")
    (tmp_path / "tests" / "nsq" / "test_ripple.py").write_text(RIPPLE, encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/nsq/test_sag_rows.py"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [*words, "tests/nsq/test_ripple.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout, done.stdout


RIPPLE = """
import torch

import nsq
from nsq.geometries_sag import RippleGeometry
from nsq.lower import lower


def test_a_scene_takes_the_shape():
    height = torch.tensor(0.05, dtype=torch.float64, requires_grad=True)
    scene = nsq.NSQScene()
    scene.add_source("S", nsq.CoordinateSystem(), nsq.PointSourceConfig(nsq.Spectrum.monochromatic(0.55)))
    ripple = RippleGeometry(height, 1.3, 6.0)
    scene.add_component("M", nsq.ReflectiveComponent(nsq.CoordinateSystem(z=5.0), ripple, 1.0))
    scene.add_detector("D", nsq.CoordinateSystem(z=-5.0), nsq.IrradianceDetectorConfig(1.0, 1.0))
    numbers = lower(scene, 10).tensors.sag_numbers
    assert numbers[-2:].tolist() == [0.05, 1.3]
    numbers.sum().backward()
    assert height.grad == 1.0
"""


def test_the_examples_of_extensions_are_short():
    """Each class with what it is used for takes less than 60 lines."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    codes = {
        part.splitlines()[0]: re.findall(r"^```python\n(.*?)^```$", part, re.DOTALL | re.MULTILINE) for part in sections
    }
    lengths = {title: len("".join(code).splitlines()) for title, code in codes.items()}
    assert {"A shape", "A scatter lobe", "A source", "A detector"} <= set(lengths)
    assert all(length < 60 for length in lengths.values()), lengths


@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: path.name)
def test_a_page_uses_public_names(path):
    """In a process that has just begun, a module that nobody has imported yet is no attribute of its package."""
    code = "".join(code for _, language, code in blocks(path) if language == "python")
    for package in (nsq, bvh):
        for name in set(re.findall(rf"\b{package.__name__}\.([A-Za-z]\w*)", code)):
            imported = re.search(rf"^import {package.__name__}\.{name}\b", code, re.MULTILINE)
            assert name in package.__all__ or imported, f"{package.__name__}.{name}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_and_pictures_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http") and target not in GENERATED:
            assert (path.parent / target).exists(), target


def test_the_commands_of_the_text_exist():
    commands = {code for path in PAGES for code in inline_commands(path)}
    assert {"make demo", "python -m examples first_trace", "python -m benchmarks scale"} <= commands
    for line in sorted(commands):
        command(line, run=False)


def test_every_function_of_bvh_is_mentioned():
    text = (ROOT / "docs" / "bvh.md").read_text(encoding="utf-8")
    functions = [name for name in bvh.__all__ if name[0].islower() and not name.startswith("bvh_")]
    assert [name for name in functions if name not in text] == []
