"""Scenes as dictionaries of plain values and as JSON files.

A file holds everything that a scene holds: sources, lenses, doublets and mirrors by their configs, detectors, the
sampling policy, frames with their parents, media, coatings and lobes; and with ``surfaces=True`` single surfaces of any
shape too. Numbers are written so that they are read back bit for bit, and an object that a scene uses in several
places, a parent frame or a medium, is one object again after loading. Meshes, intensity tables and ray tables are in
the file, as arrays in base64 with a checksum. Tensors become numbers; their graphs are not saved, and what is computed
from such a number may differ in its last place afterwards. Reading makes objects of the classes listed in the schema
and runs nothing else.

What can be written is decided by type: a class that is not listed, or a callable where a number would do, is an error
that names the place. Loading checks the version first, and every class, key and value after it.
"""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

from ._files import PathLike, atomic_write, read_bounded
from ._scene_reader import read_scene
from ._scene_writer import Writer
from ._schema import DETECTORS, LONGEST_FILE, NSQ_SCHEMA_VERSION, SOURCES, VERSION_KEY
from .numbers import check_flag

if TYPE_CHECKING:
    from .scene import NSQScene


def scene_to_dict(scene: NSQScene, *, surfaces: bool = False) -> dict[str, Any]:
    """A scene as a dictionary of plain values, which `scene_from_dict` makes an equal scene of.

    Keys: "nsq_schema_version", "sampling_policy", and lists "components", "sources", "detectors" in order of
    registration, whose entries have "type", "name", "cs" and either "config" or the object's attributes. Numbers are
    floats, detached; counts are ints.

    Args:
        surfaces: write single surfaces and groups of them as well; without it they are refused.

    Raises TypeError naming the component, source or detector for what a file cannot hold: callables, modules, media and
    objects of other classes; ValueError for a component whose surfaces were changed after it was made.
    """
    writer = Writer(surfaces=check_flag(surfaces, "surfaces"))
    components, sources, detectors = scene.component_registry, scene.source_registry, scene.detector_registry
    policy = scene.sampling_policy
    return {
        VERSION_KEY: NSQ_SCHEMA_VERSION,
        "components": [writer.component(name, components.get(name)) for name in components],
        "sources": [writer.placed("source", name, sources.get(name), SOURCES) for name in sources],
        "detectors": [writer.placed("detector", name, detectors.get(name), DETECTORS) for name in detectors],
        "sampling_policy": writer.arguments(policy, "sampling_policy"),
    }


def write_json(scene: NSQScene, path: PathLike, *, surfaces: bool = False) -> None:
    """`NSQScene.to_json`."""
    data = scene_to_dict(scene, surfaces=surfaces)
    text = json.dumps(_finite(data), indent=1, allow_nan=False, ensure_ascii=False)
    size = len(text.encode("utf-8"))
    if size >= LONGEST_FILE:
        raise ValueError(
            f"{os.fspath(path)}: the scene takes {size} bytes, and a file at most {LONGEST_FILE}; its meshes,"
            " ray tables or spectra are too large for one"
        )
    with atomic_write(path, "w") as stream:
        stream.write(text + "\n")


def _finite(value: Any) -> Any:
    """JSON has no infinities: they become "inf" and "-inf"."""
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def scene_from_dict(data: dict[str, Any]) -> NSQScene:
    """The scene that `scene_to_dict` wrote.

    Raises ValueError, naming the place in ``data``, for a missing or other schema version, an unknown class, a missing,
    unknown or repeated name, and values that a class does not take.
    """
    return read_scene(data)


def read_json(path: PathLike) -> NSQScene:
    """`NSQScene.from_json`."""
    file = os.fspath(path)
    raw = read_bounded(path, LONGEST_FILE)
    try:
        data = json.loads(raw.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except RecursionError:
        raise ValueError(f"{file}: nested too deep for a scene") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: no UTF-8 text at byte {error.start}") from None
    except ValueError as error:
        raise ValueError(f"{file}: no JSON, or cut short: {error}") from error
    try:
        return scene_from_dict(data)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entry = dict(pairs)
    if len(entry) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return entry
