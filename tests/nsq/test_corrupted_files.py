"""Damaged files of every kind: an error that names the file, never a crash, a hang or more than 1 GiB."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "corrupted_files.py"
READERS = 13


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of a process's memory are Linux's")
def test_damaged_files_before_every_reader(tmp_path):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)],
        cwd=PROGRAM.parents[2],
        env={"PYTHONPATH": str(PROGRAM.parents[2]), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["wrong"] == []
    assert len(report["counts"]) == READERS
    for name, (refused, read) in report["counts"].items():
        assert refused + read >= 500, name
        assert refused > 100, name
