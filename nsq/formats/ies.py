"""Luminaire files by IES LM-63 (.ies): editions 1986 to 2002 are read, 2002 is written."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator

import numpy as np

from .._files import PathLike, atomic_write, read_bounded
from .angular import AngularDistribution, unfolded

_LONGEST_FILE = 4 * 1024 * 1024  # bytes
_MOST_ANGLES = 100_000
_TYPE_C = 1


class _Numbers:
    """Numbers of a text, in order, whatever the lines."""

    def __init__(self, file: str, lines: list[str], first: int) -> None:
        self._file, self._lines, self._first = file, lines, first
        self._tokens = self._walk()
        self._line = first

    def _walk(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(self._lines[self._first :], start=self._first + 1):
            for token in line.replace(",", " ").split():
                yield number, token

    def take(self, count: int, what: str) -> np.ndarray:
        values = []
        for _ in range(count):
            number, token = next(self._tokens, (0, ""))
            if not number:
                raise ValueError(f"{self._file}: ends after {len(values)} of {count} numbers of {what}")
            self._line = number
            try:
                value = float(token)
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise ValueError(f"{self._file}, line {number}: got {token[:40]!r} in {what}; it takes a finite number")
            values.append(value)
        return np.array(values)

    def count(self, value: float, what: str) -> int:
        if value != math.floor(value) or not 1 <= value <= _MOST_ANGLES:
            raise ValueError(f"{self._file}, line {self._line}: {what} is {value:g}; it takes 1 to {_MOST_ANGLES}")
        return int(value)


def _decoded(file: str, raw: bytes) -> list[str]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    if "\0" in text:
        raise ValueError(f"{file}: holds byte 0; it takes text")
    return text.splitlines()


def read_ies(path: PathLike) -> AngularDistribution:
    """The intensity of a luminaire of type C photometry, over the full circle.

    Intensities are the file's candelas times its multiplier, ballast factor and ballast-lamp factor; planes that the
    file leaves out by symmetry are filled in. The lamps' lumens are None for absolute photometry (-1 in the file). A
    TILT table or file is not applied, and warns.

    Raises OSError, and ValueError naming the file and the line for what is no such file, for photometry of type A or B,
    and for angles that the standard does not allow.
    """
    file = os.fspath(path)
    lines = _decoded(file, read_bounded(path, _LONGEST_FILE))
    tilt = next((i for i, line in enumerate(lines) if line.lstrip().upper().startswith("TILT=")), None)
    if tilt is None:
        raise ValueError(f"{file}: has no line TILT=; it takes an IES LM-63 file")
    name = next((line.split("]", 1)[1].strip() for line in lines[:tilt] if line.upper().startswith("[LUMINAIRE]")), "")
    numbers = _Numbers(file, lines, tilt + 1)
    kind = lines[tilt].split("=", 1)[1].strip()
    if kind.upper() == "INCLUDE":
        _, pairs = numbers.take(2, "TILT")
        numbers.take(2 * numbers.count(pairs, "the number of TILT angles"), "TILT")
    if kind.upper() != "NONE":
        warnings.warn(f"{file}, line {tilt + 1}: TILT={kind[:40]} is not applied", UserWarning, stacklevel=2)

    head = numbers.take(10, "the luminaire's data")
    lamps, lumens, multiplier = head[:3]
    num_theta = numbers.count(head[3], "the number of vertical angles")
    num_phi = numbers.count(head[4], "the number of horizontal angles")
    if head[5] != _TYPE_C:
        raise ValueError(f"{file}: photometric type is {head[5]:g}; it takes {_TYPE_C} (type C)")
    ballast, lamp_factor, watts = numbers.take(3, "the ballast's data")
    theta = numbers.take(num_theta, "the vertical angles")
    planes = numbers.take(num_phi, "the horizontal angles")
    candelas = numbers.take(num_theta * num_phi, "the candela values").reshape(num_phi, num_theta).T
    factor = multiplier * ballast * lamp_factor
    try:
        phi, intensity = _full_circle(planes, candelas * factor)
        lamp_lumens = None if lumens < 0.0 else float(lamps * lumens)
        return AngularDistribution(theta, phi, intensity, name, lamp_lumens, float(watts))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _full_circle(planes: np.ndarray, intensity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if np.any(np.diff(planes) <= 0.0):
        raise ValueError("the horizontal angles do not increase")
    first, last = float(planes[0]), float(planes[-1])
    mirrors: dict[tuple[float, float], tuple[float, ...]] = {
        (0.0, 0.0): (),
        (0.0, 90.0): (90.0, 0.0),
        (0.0, 180.0): (0.0,),
        (90.0, 270.0): (90.0,),
    }
    if len(planes) == 1:
        return np.zeros(1), intensity
    if (first, last) in mirrors:
        return unfolded(planes, intensity, mirrors[first, last])
    if first != 0.0 or not 180.0 < last <= 360.0:
        raise ValueError(
            f"the horizontal angles go from {first:g} to {last:g}; they take 0 to 0, 90, 180 or 360, or 90 to 270"
        )
    if last == 360.0:  # the same plane as 0
        planes, intensity = planes[:-1], intensity[:, :-1]
    return planes, intensity


def write_ies(distribution: AngularDistribution, path: PathLike) -> None:
    """Write a distribution as IES LM-63-2002, type C, absolute photometry in cd, lengths in m.

    Numbers are written so that they are read back exactly. Raises ValueError for vertical angles that do not begin at 0
    or 90 and end at 90 or 180 degrees, as the standard asks.
    """
    file = os.fspath(path)
    theta, phi, intensity = distribution.theta, distribution.phi, distribution.intensity
    if theta[0] not in (0.0, 90.0) or theta[-1] not in (90.0, 180.0) or len(theta) < 2:
        raise ValueError(
            f"{file}: theta goes from {theta[0]:g} to {theta[-1]:g};"
            " the format takes 0 or 90 to 90 or 180, see resampled"
        )
    if len(phi) > 1:
        if phi[0] != 0.0:
            raise ValueError(f"{file}: phi begins at {phi[0]:g}; the format takes 0, see resampled")
        phi = np.concatenate([phi, [360.0]])
        intensity = np.concatenate([intensity, intensity[:, :1]], axis=1)
    watts = distribution.input_watts or 0.0
    rows = [
        "IESNA:LM-63-2002",
        "[TEST] none",
        "[TESTLAB] simulation",
        "[ISSUEDATE] none",
        "[MANUFAC] none",
        f"[LUMINAIRE] {_one_line(distribution.name)}",
        "TILT=NONE",
        f"1 -1 1 {len(theta)} {len(phi)} {_TYPE_C} 2 0 0 0",
        f"1 1 {float(watts)!r}",
        *_wrapped(theta),
        *_wrapped(phi),
    ]
    for column in intensity.T:
        rows += _wrapped(column)
    with atomic_write(path, "w") as stream:
        stream.write("\r\n".join(rows) + "\r\n")


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _wrapped(values: np.ndarray) -> list[str]:
    """Numbers as text, eight a line: at most 200 characters, where the standard allows 256."""
    texts = [repr(float(v)) for v in values]
    return [" ".join(texts[i : i + 8]) for i in range(0, len(texts), 8)]
