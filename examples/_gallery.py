"""What the examples share: their command line, their checks, and where their figures go."""

import argparse
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")


class Example:
    """One example: ``rays`` to trace, physics to check, and a figure to save."""

    def __init__(self, doc, name, rays):
        parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
        parser.add_argument("--rays", type=float, default=rays, help="rays to trace (default: %(default)g)")
        parser.add_argument("--out", default=f"out/{name}.png", help="figure to write (default: %(default)s)")
        options = parser.parse_args()
        self.rays, self.out, self.failures = int(options.rays), Path(options.out), []

    def check(self, what, value, expected, within):
        """Say what was found and what it should be; the example fails where they are further apart than ``within``."""
        value, expected = float(value), float(expected)
        right = abs(value - expected) <= within
        print(f"{'ok  ' if right else 'FAIL'} {what}: {value:.6g}, expected {expected:.6g} within {within:.2g}")
        if not right:
            self.failures.append(what)

    def finish(self, figure):
        """Save the figure, and end the program with status 1 where a check failed."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(self.out, dpi=110)
        print(f"figure: {self.out}")
        if self.failures:
            sys.exit(1)
