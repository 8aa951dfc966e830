"""The examples of docs/files.md run from top to bottom."""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "files.md"


def test_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, str(PAGE), "exec"), names)
    assert names["again"].component_names == ["L1"]
    assert names["twin"].total_flux_detected == names["result"].total_flux_detected > 0.5
    # a Lambertian panel of pi times its axial intensity, read back within the noise of 50,000 rays
    assert np.isclose(names["seen"].total_lumens(), np.pi * 300.0, rtol=0.01)
