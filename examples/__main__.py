"""The gallery: ``python -m examples`` lists it, ``python -m examples NAME`` runs one of it, ``--all`` runs it all.

Every example draws a figure into ``out/``, or where ``--out`` says, and checks its own physics: its status is 1 where
a check fails. ``--rays`` scales the work.
"""

import argparse
import ast
import runpy
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).parent


def examples():
    """Paths of the examples by name."""
    found = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("_"))
    return {path.stem: path for path in found}


def headline(path):
    """The first sentence below the title of an example's docstring."""
    _, text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).split("\n\n", 1)
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."


def run(path, arguments):
    """Run one example with a command line and return its status."""
    before = sys.argv, list(sys.path)
    sys.argv, sys.path[:0] = [str(path), *arguments], [str(HERE)]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return 0 if end.code is None else int(end.code)
    except Exception:  # one example that breaks must not keep the others from running
        traceback.print_exc()
        return 1
    finally:
        sys.argv, sys.path[:] = before
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")
    return 0


def main():
    known = examples()
    parser = argparse.ArgumentParser(prog="python -m examples", description=__doc__.split("\n\n")[0])
    parser.add_argument("name", nargs="?", help="the example to run")
    parser.add_argument("--all", action="store_true", help="run all of them")
    parser.add_argument("--rays", help="rays to trace, where an example takes a number")
    parser.add_argument("--out", help="figure to write; with --all, the folder for the figures")
    options = parser.parse_args()
    if not options.all and options.name is None:
        for name, path in known.items():
            print(f"{name:20} {headline(path)}")
        return 0
    if not options.all and options.name not in known:
        parser.error(f"there is no example {options.name!r}; there are {', '.join(known)}")
    failed = []
    for name in known if options.all else [options.name]:
        arguments = ["--rays", options.rays] if options.rays else []
        if options.out:
            arguments += ["--out", str(Path(options.out) / f"{name}.png") if options.all else options.out]
        print(f"== {name}", flush=True)
        if run(known[name], arguments):
            failed.append(name)
    if failed:
        print(f"FAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
