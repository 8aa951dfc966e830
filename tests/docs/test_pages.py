"""Every block of README.md and docs/ runs, page by page from top to bottom, and the pages point at things."""

import re

import pytest

import bvh

from ..nsq.test_cli import ZMX
from .pages import ELSEWHERE, GENERATED, PAGES, ROOT, blocks, command, inline_commands, run_page

RUNNABLE = [path for path in PAGES if path.name not in ELSEWHERE and {"python", ""} & {b[1] for b in blocks(path)}]


def test_no_block_is_kept_from_running():
    """Languages are those that are run, and what is called text holds no statement."""
    for path in PAGES:
        for line, language, code in blocks(path):
            where = f"{path.name}:{line}"
            assert language in ("python", "", "text", "{toctree}"), where
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
