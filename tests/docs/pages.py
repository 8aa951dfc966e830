"""The pages, the fenced blocks on them, and what running a block means.

A ``python`` block is executed in the namespace of its page, or, where its first line names a file, written to that
file. A block in no language holds commands, and every command is run or checked by the entry of `COMMANDS` that its
first words name; one that has no entry is an error. ``text`` is for diagrams and formulae.
"""

import functools
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = {"api.md", "gallery/index.rst"}
PAGES = [ROOT / "README.md", *(p for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in GENERATED)]
# what a page needs that `make test` does not install: tests/adapters runs it
ELSEWHERE = {"migrating.md"}


def blocks(path):
    """(line, language, code) of every fenced block of a page; "" is no language."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start(2)].count("\n"), match.group(1), match.group(2)) for match in found]


def inline_commands(path):
    """What stands between backquotes in the text of a page and begins as a command does."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text))
    return [code for code in found if re.match(r"(make|python3?|pip|torchrun) ", code)]


# ---- commands: each entry takes the words after its name, and whether to run them -----------------------------------


def make(words, run):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in words:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target


def pip(words, run):
    assert words.pop(0) == "install"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    if "-c" in words:
        k = words.index("-c")
        assert (ROOT / words[k + 1]).is_file()
        del words[k : k + 2]
    (wanted,) = (word for word in words if word != "-e")
    name, _, extra = wanted.rstrip("]").partition("[")
    assert name in (".", "nsq")
    assert not extra or extra in extras, extra


def nsq_command(words, run):
    from nsq import cli

    if run:
        assert cli.main(words) == 0
    elif words:
        cli._parser().parse_args(words)


@functools.cache
def names_of(package):
    """What ``python -m package`` lists."""
    words = [sys.executable, "-m", package]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True)
    return {line.split()[0] for line in done.stdout.splitlines() if line}


def listed(package):
    def check(words, run):
        assert not words or set(words) <= names_of(package) | {"all"}, words

    return check


def torchrun(words, run):
    """One machine is run; several are checked by torchrun's own parser."""
    from torch.distributed.run import get_args_parser

    options = get_args_parser().parse_args(words)
    if run and options.standalone:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "torch.distributed.run", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        print(done.stdout)


def venv(words, run):
    assert words == [".venv"]


COMMANDS = {
    "make": make,
    "pip": pip,
    "python -m nsq": nsq_command,
    "python -m benchmarks": listed("benchmarks"),
    "python -m examples": listed("examples"),
    "python3 -m venv": venv,
    "torchrun": torchrun,
}


def command(line, run):
    """Run or check each command of a line."""
    for part in re.split(r" && ", line):
        words = shlex.split(part, comments=True)
        if words[:1] == ["."]:  # the activation of an environment
            continue
        name = next((name for name in COMMANDS if words[: len(name.split())] == name.split()), None)
        assert name is not None, f"no test runs {part!r}"
        COMMANDS[name](words[len(name.split()) :], run)


def patched(code):
    """{path: [(old text, new text), ...]} of a ``diff`` block without line numbers."""
    changes = {}
    for part in re.split(r"^\+\+\+ ", code, flags=re.MULTILINE)[1:]:
        path, _, text = part.partition("\n")
        pieces = [
            [line for line in piece.splitlines(keepends=True) if line] for piece in re.split(r"^@@\n", text, flags=re.M)
        ]
        changes[path] = [
            (
                "".join(line[1:] for line in piece if line[0] in " -"),
                "".join(line[1:] for line in piece if line[0] in " +"),
            )
            for piece in pieces
        ]
    return changes


# ---- a page ----------------------------------------------------------------------------------------------------------


def run_page(path, read_output):
    """Run a page from top to bottom in the working directory; ``read_output`` gives what was printed since."""
    namespace = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for line, language, code in blocks(path):
            program = re.match(r"# ([\w-]+\.py)\n", code)
            if language == "python" and program:
                Path(program[1]).write_text(code, encoding="utf-8")
            elif language == "python":
                exec(compile("\n" * line + code, str(path), "exec"), namespace)
            elif language == "":
                for entry in code.splitlines():
                    command(entry, run=True)
            printed = read_output()
            for expected in re.findall(r"# prints (.+)$", code, re.MULTILINE):
                assert expected in printed
