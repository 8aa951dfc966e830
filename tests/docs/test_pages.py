"""Every ``python`` block of README.md and docs/ runs, page by page from top to bottom, and the pages point at things.

A block fenced as ``py`` is one that a test cannot run: it wants an hour, several devices or several processes.
"""

import re
import warnings
from pathlib import Path

import pytest

import bvh
import nsq

ROOT = Path(__file__).parents[2]
GENERATED = {"api.md", "gallery/index.rst"}
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in GENERATED)]


def a_scene():
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(nsq.Spectrum.monochromatic(0.55), aperture_radius=5.0)
    lens = nsq.LensConfig(r1=60.0, r2=-60.0, thickness=5.0, material="N-BK7", front_aperture_radius=12.0)
    scene.add_source("beam", nsq.CoordinateSystem(), beam)
    scene.add_lens("lens", nsq.CoordinateSystem(z=20.0), lens)
    scene.add_detector("film", nsq.CoordinateSystem(z=75.0), nsq.IrradianceDetectorConfig(4.0, 4.0, 32, 32))
    return scene


def blocks(path, language="python"):
    """(line, code) of every fenced block in a language; "" is no language."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(2)].count("\n"), match.group(2)) for match in found if match.group(1) == language]


RUNNABLE = [path for path in PAGES if blocks(path)]


def test_there_is_something_to_run():
    assert {"README.md", "quickstart.md", "concepts.md", "howto.md", "extending.md", "warp.md", "bvh.md"} <= {
        path.name for path in RUNNABLE
    }


@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: path.name)
def test_a_page_runs_from_top_to_bottom(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    # a page that shows a fragment about "the scene" gets one
    namespace = (
        {"__name__": "page", "nsq": nsq, "scene": a_scene()} if path.name == "gradients.md" else {"__name__": "page"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for line, code in blocks(path):
            exec(compile("\n" * line + code, str(path), "exec"), namespace)
            printed = capsys.readouterr().out
            for expected in re.findall(r"# prints (.+)$", code, re.MULTILINE):
                assert expected in printed


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_and_pictures_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http") and target not in GENERATED:
            assert (path.parent / target).exists(), target


def test_the_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shell = "".join(code for path in PAGES for _, code in blocks(path, ""))
    commands = re.findall(r"^make ([\w-]+)", shell, re.MULTILINE)
    assert {"demo", "test"} <= set(commands)
    for target in commands:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_function_of_bvh_is_mentioned():
    text = (ROOT / "docs" / "bvh.md").read_text(encoding="utf-8")
    functions = [name for name in bvh.__all__ if name[0].islower() and not name.startswith("bvh_")]
    assert [name for name in functions if name not in text] == []
