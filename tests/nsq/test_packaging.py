"""The packages as they are installed and found."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_foreign_kernels_package_is_named(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "__init__.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", "import nsq"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "ImportError" in done.stderr
    assert str(tmp_path / "kernels" / "__init__.py") in done.stderr


def test_what_is_installed_is_listed_by_name_and_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["nsq", "bvh", "kernels"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    needed = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["dev"]
    for requirement in needed:
        name = requirement.split(">")[0].split("=")[0].strip()
        assert name in pinned, requirement


def test_imports_run_one_way():
    """kernels knows neither nsq nor bvh, and bvh does not know nsq."""
    for package, forbidden in (("kernels", ("nsq", "bvh")), ("bvh", ("nsq",))):
        for path in (ROOT / package).rglob("*.py"):
            for line in path.read_text(encoding="utf-8").splitlines():
                words = line.split()
                if words[:1] in (["import"], ["from"]):
                    assert words[1].split(".")[0].rstrip(",") not in forbidden, f"{path}: {line}"
