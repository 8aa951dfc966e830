"""Luminaire files by EULUMDAT (.ldt)."""

from __future__ import annotations

import math
import os

import numpy as np

from .._files import PathLike, atomic_write, read_bounded
from .angular import AngularDistribution, unfolded

_LONGEST_FILE = 4 * 1024 * 1024  # bytes
_MOST_PLANES, _MOST_ANGLES, _MOST_LAMPS = 721, 721, 20
_NO_SYMMETRY, _ROTATION, _C0_C180, _C90_C270, _BOTH = range(5)
# symmetry -> first and last plane that a file holds, as quarters of the circle, and the planes it is mirrored at
_PARTS: dict[int, tuple[int, int, tuple[float, ...]]] = {
    _C0_C180: (0, 2, (0.0,)),
    _C90_C270: (-1, 1, (90.0,)),
    _BOTH: (0, 1, (90.0, 0.0)),
}


class _Lines:
    """The lines of a file, one value each."""

    def __init__(self, file: str, raw: bytes) -> None:
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
        self._file, self._lines, self._at = file, text.splitlines(), 0

    def text(self, what: str) -> str:
        if self._at >= len(self._lines):
            raise ValueError(f"{self._file}: ends at line {self._at}, before {what}")
        self._at += 1
        return self._lines[self._at - 1].strip()

    def number(self, what: str, empty: float | None = None) -> float:
        line = self.text(what)
        if not line and empty is not None:
            return empty
        try:
            value = float(line.replace(",", "."))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"{self._file}, line {self._at}: {what} is {line[:40]!r}; it takes a finite number")
        return value

    def count(self, what: str, low: int, high: int) -> int:
        value = self.number(what)
        if value != math.floor(value) or not low <= value <= high:
            raise ValueError(f"{self._file}, line {self._at}: {what} is {value:g}; it takes {low} to {high}")
        return int(value)

    def numbers(self, count: int, what: str) -> np.ndarray:
        return np.array([self.number(f"{what} {i + 1} of {count}") for i in range(count)])


def read_eulumdat(path: PathLike, lamp_set: int = 0) -> AngularDistribution:
    """The intensity of a luminaire with one of its sets of lamps, over the full circle.

    Intensities are the file's cd/klm times its conversion factor and the lumens of the lamps; planes that the file
    leaves out by symmetry are filled in. ``lamp_set`` counts from 0.

    Raises OSError, and ValueError naming the file and the line for what is no such file and for a set that it has not.
    """
    file = os.fspath(path)
    lines = _Lines(file, read_bounded(path, _LONGEST_FILE))
    lines.text("the company")
    lines.count("the type of luminaire", 0, 3)
    symmetry = lines.count("the symmetry", 0, 4)
    num_planes = lines.count("the number of C planes", 1, _MOST_PLANES)
    lines.number("the step of C planes")
    num_theta = lines.count("the number of angles", 1, _MOST_ANGLES)
    lines.number("the step of angles")
    lines.text("the report's number")
    name = lines.text("the luminaire's name")
    for what in ("the luminaire's number", "the file's name", "the date"):
        lines.text(what)
    for i in range(10):
        lines.number(f"size {i + 1} of 10", empty=0.0)
    for what in ("the downward flux fraction", "the light output ratio"):
        lines.number(what, empty=0.0)
    factor = lines.number("the conversion factor")
    lines.number("the tilt", empty=0.0)
    num_sets = lines.count("the number of lamp sets", 1, _MOST_LAMPS)
    if not 0 <= lamp_set < num_sets:
        raise ValueError(f"{file}: lamp_set got {lamp_set}; it takes 0 to {num_sets - 1}")
    lumens, watts = [], []
    for i in range(num_sets):
        lines.number(f"the number of lamps of set {i}")
        lines.text(f"the type of lamps of set {i}")
        lumens.append(lines.number(f"the luminous flux of set {i}"))
        lines.text(f"the colour of set {i}")
        lines.text(f"the colour rendering of set {i}")
        watts.append(lines.number(f"the power of set {i}", empty=0.0))
    for i in range(10):
        lines.number(f"direct ratio {i + 1} of 10", empty=0.0)
    planes = lines.numbers(num_planes, "C plane")
    theta = lines.numbers(num_theta, "angle")
    held = _held(file, symmetry, planes)
    values = lines.numbers(len(held) * num_theta, "intensity").reshape(len(held), num_theta).T
    flux = lumens[lamp_set]
    try:
        intensity = values * (factor * flux / 1000.0)
        if symmetry == _ROTATION:
            phi = np.zeros(1)
        elif symmetry == _NO_SYMMETRY:
            phi, intensity = unfolded(held, intensity, ())
        else:
            phi, intensity = unfolded(held, intensity, _PARTS[symmetry][2])
        return AngularDistribution(theta, phi, intensity, name, float(flux), float(watts[lamp_set]))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _held(file: str, symmetry: int, planes: np.ndarray) -> np.ndarray:
    """The C planes whose intensities a file of this symmetry holds, in its order."""
    if np.any(np.diff(planes) <= 0.0) or planes[0] < 0.0 or planes[-1] > 360.0:
        raise ValueError(f"{file}: the C planes do not increase from 0 to 360 degrees")
    if symmetry == _NO_SYMMETRY:
        return planes
    if symmetry == _ROTATION:
        return planes[:1]
    count = len(planes)
    if count % 4:
        raise ValueError(f"{file}: has {count} C planes; symmetry {symmetry} takes a multiple of 4")
    first, last, _ = _PARTS[symmetry]
    return planes[np.arange(first * count // 4, last * count // 4 + 1)]


def write_eulumdat(distribution: AngularDistribution, path: PathLike) -> None:
    """Write a distribution, without symmetry or as one of revolution, with one set of lamps.

    The lamps' flux is the distribution's ``lamp_lumens``, or its total where that is None or 0. Intensities are read
    back to rounding in the last place. Raises ValueError for a dark distribution and for more angles than the format
    takes.
    """
    file = os.fspath(path)
    total = distribution.total_lumens()
    lumens = distribution.lamp_lumens or total
    if not lumens > 0.0:
        raise ValueError(f"{file}: got a distribution of {lumens:g} lm; the format takes one that shines")
    theta, phi = distribution.theta, distribution.phi
    if len(theta) > _MOST_ANGLES or len(phi) > _MOST_PLANES:
        raise ValueError(
            f"{file}: got {len(theta)} by {len(phi)} angles; the format takes {_MOST_ANGLES} by {_MOST_PLANES}"
        )
    below = distribution.theta <= 90.0
    down = 0.0
    if below.sum() > 1:
        half = AngularDistribution(theta[below], phi, distribution.intensity[below])
        down = 100.0 * half.total_lumens() / total if total > 0.0 else 0.0
    name = " ".join(distribution.name.split())[:78]
    symmetry = _ROTATION if len(phi) == 1 else _NO_SYMMETRY
    rows = [
        *("simulation", "1" if symmetry == _ROTATION else "3", str(symmetry)),
        *(str(len(phi)), _text(_step(phi, 360.0)), str(len(theta)), _text(_step(theta, None))),
        *("", name, "", "", ""),
        *["0"] * 10,
        *(_text(down), _text(100.0 * total / lumens), "1", "0"),
        *("1", "1", "", _text(lumens), "", "", _text(distribution.input_watts or 0.0)),
        *["0"] * 10,
        *(_text(v) for v in phi),
        *(_text(v) for v in theta),
        *(_text(v) for v in (distribution.intensity.T * (1000.0 / lumens)).ravel()),
    ]
    with atomic_write(path, "w") as stream:
        stream.write("\r\n".join(rows) + "\r\n")


def _text(value: float) -> str:
    return repr(float(value))


def _step(angles: np.ndarray, circle: float | None) -> float:
    """The step of equidistant angles, and 0 for others."""
    closed = angles if circle is None else np.concatenate([angles, [angles[0] + circle]])
    steps = np.diff(closed)
    return float(steps[0]) if len(steps) and np.allclose(steps, steps[0], rtol=1e-9) else 0.0
