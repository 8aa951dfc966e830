"""What the README says works, works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_there_is_something_to_run():
    assert len(BLOCKS) >= 1


@pytest.mark.parametrize("block", BLOCKS)
def test_python_block_runs(block, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", block],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in re.findall(r"# prints (.+)$", block, re.MULTILINE):
        assert line in done.stdout


def test_the_commands_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"^make (\w+)", README, re.MULTILINE)
    assert {"demo", "test"} <= set(commands)
    for target in commands:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_links_and_pictures_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target
