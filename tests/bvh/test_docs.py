"""The examples of docs/bvh.md run from top to bottom, and its tables name things that exist."""

import re
from pathlib import Path

import bvh

PAGE = Path(__file__).parents[2] / "docs" / "bvh.md"


def test_examples_run():
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 10
    namespace = {}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, str(PAGE), "exec"), namespace)


def test_every_public_function_is_mentioned():
    text = PAGE.read_text(encoding="utf-8")
    functions = [name for name in bvh.__all__ if name[0].islower() and not name.startswith("bvh_")]
    assert [name for name in functions if name not in text] == []
