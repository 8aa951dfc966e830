"""``python -m benchmarks [NAME ...]``: run the named benchmarks, ``all`` of them, or list what there is."""

import argparse
import importlib
import pkgutil
import sys

import benchmarks


def available():
    """{name: first line of its docstring} of every module of this package that can be run."""
    found = {}
    for entry in pkgutil.iter_modules(benchmarks.__path__):
        module = importlib.import_module(f"benchmarks.{entry.name}") if entry.name != "__main__" else None
        if hasattr(module, "main"):
            found[entry.name] = module.__doc__.strip().splitlines()[0]
    return found


def main():
    names = available()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="; ".join(f"{name}: {what}" for name, what in names.items()),
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(names)} or all")
    chosen = parser.parse_args().names
    if not chosen:
        for name, what in names.items():
            print(f"{name:10} {what}")
        return 0
    for name in names if chosen == ["all"] else chosen:
        if name not in names:
            parser.error(f"no benchmark {name!r}; there are: {', '.join(names)}, all")
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
