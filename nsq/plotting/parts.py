"""The parts of a scene as triangles in the world: what the two viewers draw."""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..components import SurfaceComponent
from ..compounds import CompoundComponent
from ..coordinates import lower_frames
from ..geometries import FinitePlaneGeometry, Geometry
from ..materials import NSQMaterial
from ..numbers import to_float
from ..sources import CollimatedSource, ExtendedSource
from .tessellate import Triangles, is_endless, rectangle, tessellate

_MOST_TRIANGLES = 3_000_000  # of a picture's curved surfaces together
_FEWEST_SEGMENTS, _MOST_SEGMENTS = 24, 240
_ENDLESS = 1e5  # mm; a disk of a larger radius, such as that of a far field, is drawn as a plane without an end


@dataclass(frozen=True)
class Piece:
    """One surface, detector or emitter.

    Attributes:
        kind: a key of `style.LINES`. label: the name of the part it belongs to. name: its own.
        vertices: (V, 3) in the world, mm. faces: (F, 3).
        media: the media on its sides, but for the one all around.
        body: a number that the surfaces of one compound share, and all single surfaces.
        endless: whether it goes on beyond what is drawn.
    """

    kind: str
    label: str
    name: str
    vertices: np.ndarray
    faces: np.ndarray
    media: tuple[NSQMaterial, ...] = ()
    body: int = 0
    endless: bool = False


@dataclass(frozen=True)
class Emitter:
    """A source: its name, its origin (3,) and the direction (3,) in which it emits."""

    label: str
    place: np.ndarray
    way: np.ndarray


@dataclass(frozen=True)
class Parts:
    """A scene to draw; ``lower`` and ``upper`` (3,) are the corners of the box around it, mm."""

    pieces: list[Piece]
    emitters: list[Emitter]
    lower: np.ndarray
    upper: np.ndarray

    @property
    def size(self) -> float:
        """Diagonal of the box, mm."""
        return float(np.linalg.norm(self.upper - self.lower))


@dataclass(frozen=True)
class _Row:
    kind: str
    label: str
    name: str
    cs: Any
    geometry: Geometry
    media: tuple[NSQMaterial, ...] = ()
    body: int = 0


def scene_parts(scene: Any) -> Parts:
    """The parts of a scene, and the box around them."""
    rows = [*_surface_rows(scene), *_detector_rows(scene), *_emitter_rows(scene)]
    frames = [row.cs for row in rows] + [source.cs for source in scene.sources]
    turns, places = (t.detach().cpu().numpy() for t in lower_frames(frames))
    segments = _segments(sum(row.kind not in ("detector", "tap", "source") for row in rows))
    drawn: list[tuple[_Row, Triangles | None]] = []
    corners = [places[len(rows) :]]
    for row, turn, place in zip(rows, turns, places, strict=False):
        if is_endless(row.geometry, _ENDLESS):
            drawn.append((row, None))
            corners.append(place[None])
            continue
        try:
            vertices, faces = tessellate(row.geometry, segments, 0.0)
        except TypeError as error:
            warnings.warn(f"{row.name!r} is not drawn: {error}", stacklevel=4)
            continue
        drawn.append((row, (vertices @ turn.T + place, faces)))
        corners.append(drawn[-1][1][0])
    lower, upper = _box(np.concatenate([c.reshape(-1, 3) for c in corners]))
    pieces = []
    at = {id(row): k for k, row in enumerate(rows)}
    for row, triangles in drawn:
        endless = triangles is None
        if endless:
            triangles = _plane_through(lower, upper, turns[at[id(row)]], places[at[id(row)]])
        pieces.append(Piece(row.kind, row.label, row.name, *triangles, row.media, row.body, endless))
    emitters = [
        Emitter(name, place, turn[:, 2])
        for name, turn, place in zip(scene.source_names, turns[len(rows) :], places[len(rows) :], strict=True)
    ]
    return Parts(pieces, emitters, lower, upper)


def _box(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if not len(points):
        return np.full(3, -1.0), np.full(3, 1.0)
    lower, upper = points.min(axis=0), points.max(axis=0)
    if np.all(upper == lower):
        return lower - 1.0, upper + 1.0
    return lower, upper


def _plane_through(lower: np.ndarray, upper: np.ndarray, turn: np.ndarray, place: np.ndarray) -> Triangles:
    """A square of a plane without an end, as large as the box and nearest to its middle."""
    middle, axis = 0.5 * (lower + upper), turn[:, 2]
    half = 0.5 * float(np.linalg.norm(upper - lower))
    vertices, faces = rectangle(half, half)
    return vertices @ turn.T + middle - axis * (axis @ (middle - place)), faces


def _segments(surfaces: int) -> int:
    fits = math.sqrt(_MOST_TRIANGLES / max(1, surfaces))
    return 4 * int(min(max(fits, _FEWEST_SEGMENTS), _MOST_SEGMENTS) // 4)


def _surface_rows(scene: Any) -> list[_Row]:
    registry = scene.component_registry
    loose = [name for name in registry if not isinstance(registry.get(name), CompoundComponent)]
    heads = [name.split(".")[0] for name in loose]
    rows = []
    for place, name in enumerate(registry, start=1):
        part = registry.get(name)
        if isinstance(part, CompoundComponent):
            around = getattr(part.surfaces[0], "material_front", None)
            rows += [_surface_row(surface, name, surface.name, place, around) for surface in part.surfaces]
        else:
            # pipe.top, pipe.end and so on are parts of one thing, and get one label
            head = name.split(".")[0]
            rows.append(_surface_row(part, head if heads.count(head) > 1 else name, name, 0, None))
    return rows


def _surface_row(surface: SurfaceComponent, label: str, name: str, body: int, around: Any) -> _Row:
    sides = (surface.material_front, surface.material_back)
    media = tuple(m for m in sides if m is not around and m.optiland_material is not None)
    return _Row(surface.kind, label, name, surface.cs, surface.geometry, media, body)


def _detector_rows(scene: Any) -> list[_Row]:
    registry = scene.detector_registry
    rows = []
    for name in registry:
        detector = registry.get(name)
        rows.append(_Row("detector" if detector.absorb else "tap", name, name, detector.cs, detector.geometry))
    return rows


def _emitter_rows(scene: Any) -> list[_Row]:
    registry = scene.source_registry
    shapes = [(name, registry.get(name).cs, emitting_shape(registry.get(name))) for name in registry]
    return [_Row("source", name, name, cs, shape) for name, cs, shape in shapes if shape is not None]


@functools.singledispatch
def emitting_shape(source: Any) -> Geometry | None:
    """The surface a source emits from, in its frame, or None for a point and for what has no surface."""
    return None


@emitting_shape.register
def _collimated(source: CollimatedSource) -> Geometry:
    return FinitePlaneGeometry(aperture_radius=to_float(source.aperture_radius))


@emitting_shape.register
def _extended(source: ExtendedSource) -> Geometry:
    if source.aperture_radius is not None:
        return FinitePlaneGeometry(aperture_radius=to_float(source.aperture_radius))
    return FinitePlaneGeometry(to_float(source.width), to_float(source.height))
