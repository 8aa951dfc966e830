"""Faces that lie on each other, as where two solids touch, become one interface.

A ray that has just crossed one of two coincident faces would find the other at distance 0, where nothing is looked for.
And two solids in contact have no gap between them: light goes from the one straight into the other. So where two faces
coincide, one row with the outer two media takes their place; what one of them covers and the other does not stays as it
is, as a ring. A gap of a micrometre is far above the tolerance and stays a gap.

Faces are compared if they are parts of planes and conics of revolution about one axis, with one vertex. The interface
moves, in gradients, with the face that was registered first.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass

import numpy as np

from kernels.shapes.quadric import AXIS, COEFFICIENTS, HALF_X, HALF_Y, ORIGIN, RHO_MAX2, RHO_MIN2, Z_MAX, Z_MIN

# faces closer than this share of the scene's size coincide
_TOLERANCE = 1e-9
# the medium in which solids stand
_AMBIENT = 0


@dataclass(frozen=True)
class Sides:
    """What a row separates, by row: the kind of its surface, its media, and whether it only refracts."""

    kind: np.ndarray
    front: np.ndarray
    back: np.ndarray
    plain: np.ndarray
    names: tuple[str, ...]


@dataclass(frozen=True)
class Merged:
    """Rows after merging: the row that each comes from, the other rows that lie on it, its limits, and its media.

    ``ends`` (rows, 2) says where the limits of the distance from the axis come from: a row, times two, plus one for the
    outer limit of that row.
    """

    source: np.ndarray
    covered: tuple[tuple[int, ...], ...]
    domain: np.ndarray
    ends: np.ndarray
    front: np.ndarray
    back: np.ndarray


@dataclass
class _Part:
    source: int
    low2: float
    high2: float
    front: int
    back: int
    covered: frozenset[int] = frozenset()
    low_from: int = 0
    high_from: int = 1


def merge_contacts(
    numbers: np.ndarray, domain: np.ndarray, candidates: np.ndarray, sides: Sides, size: float
) -> Merged:
    """Merge the coincident ones among the rows ``candidates``; the others pass unchanged."""
    pairs = list(_coincident_pairs(numbers, domain, candidates, _TOLERANCE * size))
    touched = np.unique(np.array(pairs, dtype=np.int64))
    parts = {row: [_whole(row, domain, sides)] for row in touched.tolist()}
    for i, j in pairs:
        aligned = float(numbers[i, AXIS : AXIS + 3] @ numbers[j, AXIS : AXIS + 3]) > 0.0
        _join(parts, i, j, aligned, sides)
    flat = [part for row in sorted(parts) for part in parts[row]]
    # the rows that touch none, of which a mesh has very many, and the parts of those that do, in order
    alone = np.setdiff1d(np.arange(len(numbers)), touched)
    source = np.concatenate([alone, np.array([part.source for part in flat], dtype=np.int64)])
    order = np.argsort(source, kind="stable")

    def joined(plain: np.ndarray, changed: list) -> np.ndarray:
        changed = np.array(changed, dtype=plain.dtype).reshape(-1, *plain.shape[1:])
        return np.concatenate([plain[alone], changed])[order]

    limits = domain[source[order]]
    for column, name in ((RHO_MIN2, "low2"), (RHO_MAX2, "high2")):
        limits[:, column] = joined(domain[:, column], [getattr(part, name) for part in flat])
    rows = np.arange(len(numbers))
    covered = [()] * len(alone) + [tuple(sorted(part.covered)) for part in flat]
    return Merged(
        source=source[order],
        covered=tuple(covered[k] for k in order),
        domain=limits,
        ends=joined(np.stack([2 * rows, 2 * rows + 1], axis=1), [(part.low_from, part.high_from) for part in flat]),
        front=joined(sides.front, [part.front for part in flat]),
        back=joined(sides.back, [part.back for part in flat]),
    )


def _whole(row: int, domain: np.ndarray, sides: Sides) -> _Part:
    """All of a row, as long as no other lies on it."""
    low2, high2 = domain[row, [RHO_MIN2, RHO_MAX2]]
    return _Part(row, low2, high2, sides.front[row], sides.back[row], frozenset(), 2 * row, 2 * row + 1)


def _coincident_pairs(numbers: np.ndarray, domain: np.ndarray, candidates: np.ndarray, near: float):
    """Pairs (i, j), i < j, of one vertex, one axis and one shape, both round."""
    round_ones = candidates[
        np.isinf(domain[candidates][:, [HALF_X, HALF_Y, Z_MIN, Z_MAX]]).all(axis=1)
        & (numbers[candidates, COEFFICIENTS + 2] == 1.0)
    ]
    # equal vertices lie in one cell of a grid, or in neighbouring ones where a border runs between them
    cells: dict[tuple[int, ...], list[int]] = {}
    width = 4.0 * near
    for row in round_ones.tolist():
        base = np.floor(numbers[row, ORIGIN : ORIGIN + 3] / width).astype(np.int64)
        for corner in itertools.product((0, 1), repeat=3):
            cells.setdefault(tuple(base + corner), []).append(row)
    pairs = {pair for rows in cells.values() for pair in itertools.combinations(sorted(set(rows)), 2)}
    for i, j in sorted(pairs):
        if _same_surface(numbers[i], numbers[j], near):
            yield i, j


def _same_surface(first: np.ndarray, second: np.ndarray, near: float) -> bool:
    if np.abs(first[ORIGIN : ORIGIN + 3] - second[ORIGIN : ORIGIN + 3]).max() > near:
        return False
    along = float(first[AXIS : AXIS + 3] @ second[AXIS : AXIS + 3])
    if 1.0 - abs(along) > 1e-14:
        return False
    a, d, _, e = first[COEFFICIENTS:]
    b, c, _, f = second[COEFFICIENTS:]
    # seen from the other side, F changes its sign and the axis its direction: a, d and e change sign, g stays
    sign = 1.0 if along > 0.0 else -1.0
    bends = max(abs(a), abs(d), 1e-300)
    return abs(a - sign * b) <= 1e-12 * bends and abs(d - sign * c) <= 1e-12 * bends and abs(e - sign * f) <= near


def _join(parts: dict[int, list[_Part]], i: int, j: int, aligned: bool, sides: Sides) -> None:
    """Replace what rows i and j both cover."""
    for first in list(parts[i]):
        for second in list(parts[j]):
            low, high = max(first.low2, second.low2), min(first.high2, second.high2)
            # a common rim is no common face
            if not high > low * (1.0 + 1e-12):
                continue
            joint = _joint(first, second, aligned, sides, (i, j))
            joint.low2, joint.high2 = low, high
            joint.covered = (first.covered | second.covered | {i, j}) - {joint.source}
            joint.low_from = first.low_from if first.low2 == low else second.low_from
            joint.high_from = first.high_from if first.high2 == high else second.high_from
            parts[i].remove(first)
            parts[j].remove(second)
            parts[i] += [joint, *_rest(first, joint)]
            parts[j] += _rest(second, joint)
            return _join(parts, i, j, aligned, sides) if parts[j] and len(parts[i]) > 1 else None
    return None


def _rest(part: _Part, ring: _Part) -> list[_Part]:
    """What is left of a part without what a ring covers."""
    sides = [
        (part.low2, ring.low2, part.low_from, ring.low_from),
        (ring.high2, part.high2, ring.high_from, part.high_from),
    ]
    return [
        _Part(part.source, low, high, part.front, part.back, part.covered, low_from, high_from)
        for low, high, low_from, high_from in sides
        if high > low * (1.0 + 1e-12)
    ]


def _joint(first: _Part, second: _Part, aligned: bool, sides: Sides, rows: tuple[int, int]) -> _Part:
    """The interface that two coincident faces make; its media are as seen along the kept row's normal."""
    f1, b1 = first.front, first.back
    f2, b2 = (second.front, second.back) if aligned else (second.back, second.front)
    # one face lies before the other, with a medium of no thickness between them: the ambient one if there is a choice
    orders = [(f1, b2, b1)] if b1 == f2 else []
    orders += [(f2, b1, f1)] if b2 == f1 else []
    orders.sort(key=lambda order: order[2] != _AMBIENT)
    plain1, plain2 = sides.plain[first.source], sides.plain[second.source]
    pair = f"{sides.names[rows[0]]!r} and {sides.names[rows[1]]!r} lie on each other"
    if not orders:
        warnings.warn(
            f"{pair}, and what is between them is not one medium; where they do, the first of them counts", stacklevel=3
        )
        return _Part(first.source, 0.0, 0.0, f1, b1)
    front, back, _ = orders[0]
    if not (plain1 or plain2):
        warnings.warn(
            f"{pair}, and neither only refracts; where they do, the first of them counts, between the outer media",
            stacklevel=3,
        )
    if plain1 and not plain2:
        # a mirror, an absorber, a coating or a scattering face stays what it is, between the outer media
        return _Part(second.source, 0.0, 0.0, *((front, back) if aligned else (back, front)))
    return _Part(first.source, 0.0, 0.0, front, back)
