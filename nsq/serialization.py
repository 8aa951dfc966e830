"""Scenes as dictionaries of plain values and as JSON files.

A file holds everything that a scene holds: sources, lenses, doublets and mirrors by their configs, detectors, the
sampling policy, frames with their parents, and media. Numbers are written so that they are read back bit for bit, and
an object that a scene uses in several places, a parent frame or a medium, is one object again after loading. Tensors
become numbers; their graphs are not saved, and what is computed from such a number may differ in its last place
afterwards. Reading makes objects of the classes listed in the schema and runs nothing else.

What can be written is decided by type: a class that is not listed, or a callable where a number would do, is an error
that names the place. Loading checks the version first, and every class, key and value after it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ._files import PathLike, atomic_write, read_bounded
from ._scene_reader import read_scene
from ._schema import (
    COMPONENTS,
    COUNTS,
    CS_NUMBERS,
    DEEPEST,
    DETECTORS,
    HAZE_NUMBERS,
    KINDS_OF_COMPOUND,
    NSQ_SCHEMA_VERSION,
    SOURCES,
    VALUES,
    VERSION_KEY,
    arguments_of,
    class_named,
)
from .bsdfs import TabulatedBSDF
from .coatings import SimpleCoating
from .compounds import CompoundComponent, EdgeGeometry, RimGeometry
from .configs import InteractionType
from .coordinates import CoordinateSystem
from .materials import IdealMaterial, Material, NSQMaterial, as_material
from .numbers import is_tensor_number, to_float
from .spectrum import Spectrum
from .thinfilm import ThinFilmCoating

if TYPE_CHECKING:
    from .scene import NSQScene

_LONGEST_FILE = 16 * 1024 * 1024  # bytes

# ---- writing ---------------------------------------------------------------------------------------------------------


class _Writer:
    """Values of one scene as plain ones. An object that occurs twice gets an id, by which readers share it."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._ids = 0

    def _shared(self, obj: Any, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if id(obj) not in self._seen:
            self._seen[id(obj)] = (obj, make())  # the object is kept, so that its id stays its own
            return self._seen[id(obj)][1]
        first = self._seen[id(obj)][1]
        if "id" not in first:
            first["id"] = self._ids
            self._ids += 1
        return dict(first)

    def frame(self, cs: CoordinateSystem, where: str, depth: int = 0) -> dict[str, Any]:
        if depth > DEEPEST:
            raise ValueError(f"{where}: frames refer to each other more than {DEEPEST} deep; it takes fewer")
        return self._shared(cs, lambda: self._frame(cs, where, depth))

    def _frame(self, cs: CoordinateSystem, where: str, depth: int) -> dict[str, Any]:
        entry: dict[str, Any] = {name: to_float(getattr(cs, name)) for name in CS_NUMBERS}
        parent = cs.reference_cs
        entry["reference_cs"] = None if parent is None else self.frame(parent, f"{where}.reference_cs", depth + 1)
        return entry

    def value(self, value: Any, where: str) -> Any:
        """A plain value; every number becomes a float."""
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool | np.bool_):
            return bool(value)
        if isinstance(value, int | float | np.number) or is_tensor_number(value) or _is_array(value, 0):
            return to_float(value)
        if isinstance(value, tuple | list):
            return [self.value(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
        if _is_array(value, 1):
            return [float(v) for v in (value.detach() if isinstance(value, torch.Tensor) else value)]
        if isinstance(value, Spectrum):
            return self._shared(value, lambda: _spectrum(value))
        if isinstance(value, InteractionType):
            return value.name
        if isinstance(value, NSQMaterial | IdealMaterial | Material):
            page = getattr(value, "source", "")
            if page and as_material(page, where) is value:  # the one medium that everybody gets who asks by name
                return page
            return self._shared(value, lambda: self._medium(value, where))
        if type(value) in (SimpleCoating, ThinFilmCoating):
            return self._shared(value, lambda: self._coating(value, where))
        if type(value) is TabulatedBSDF:
            return self._shared(value, lambda: _table(value))
        kind = type(value).__name__
        if kind in VALUES and type(value) is class_named(kind, VALUES, where):
            return self._shared(value, lambda: {"type": kind, **self.arguments(value, where)})
        raise TypeError(
            f"Cannot serialize {where}: it got {type(value).__name__};"
            " it takes numbers, names, catalogue and constant media, coatings of numbers, and lobes"
        )

    def arguments(self, obj: Any, where: str) -> dict[str, Any]:
        entry = {}
        for name in arguments_of(type(obj)):
            value = self.value(getattr(obj, name), f"{where}.{name}")
            entry[name] = int(value) if name.startswith(COUNTS) and value is not None else value
        return entry

    def _medium(self, medium: Any, where: str) -> dict[str, Any]:
        entry = self._bulk(medium, where)
        haze = getattr(medium, "scattering", None)
        if haze is not None:
            entry["scattering"] = {
                name: self.value(getattr(haze, name), f"{where}.scattering.{name}") for name in HAZE_NUMBERS
            }
        return entry

    def _bulk(self, medium: Any, where: str) -> dict[str, Any]:
        inner, kind = medium, "Material"
        if type(medium) is NSQMaterial and medium.bsdf is None:
            inner, kind = medium.optiland_material, "NSQMaterial"
        if inner is None:
            return {"type": kind, "medium": "vacuum"}
        if type(inner) is IdealMaterial:
            return {"type": kind, "medium": "constant", "n": to_float(inner.index), "k": to_float(inner.absorp)}
        if type(inner) is Material:
            return {"type": kind, "medium": "catalogue", "page": inner.source}
        raise TypeError(
            f"Cannot serialize {where}: its medium is of class {type(inner).__name__};"
            " it takes vacuum, NSQMaterial.from_glass or NSQMaterial.constant"
        )

    def _coating(self, coating: Any, where: str) -> dict[str, Any]:
        if isinstance(coating, ThinFilmCoating):
            layers = [
                {"material": self.value(m, f"{where}.layers[{i}].material"), "thickness": to_float(t)}
                for i, (m, t) in enumerate(coating.layers)
            ]
            return {"type": "ThinFilmCoating", "layers": layers}
        shares = {name: getattr(coating, name) for name in ("transmittance", "reflectance")}
        return {"type": "SimpleCoating", **{name: self.value(v, f"{where}.{name}") for name, v in shares.items()}}

    def component(self, name: str, obj: Any) -> dict[str, Any]:
        kind = type(obj).__name__
        if kind not in COMPONENTS or type(obj) is not COMPONENTS[kind][0]:
            raise TypeError(f"Cannot serialize component {name!r} of class {kind}. {KINDS_OF_COMPOUND}.")
        _check_unchanged(name, obj)
        entry = self._entry(name, obj)
        return {**entry, "config": self.arguments(obj.config, f"component {name!r}.config")}

    def placed(self, noun: str, name: str, obj: Any, table: dict[str, str]) -> dict[str, Any]:
        kind = type(obj).__name__
        listed = kind in table and is_dataclass(obj)
        if not listed or type(obj) is not class_named(kind, table, f"{noun} {name!r}"):
            raise TypeError(f"Cannot serialize {noun} {name!r} of class {kind}. Only {', '.join(table)} are supported.")
        return {**self._entry(name, obj), **self.arguments(obj, f"{noun} {name!r}")}

    def _entry(self, name: str, obj: Any) -> dict[str, Any]:
        entry = {"type": type(obj).__name__, "name": name, "cs": self.frame(obj.cs, f"{name!r}.cs")}
        if obj.name != name:
            entry["label"] = obj.name
        return entry


def _is_array(value: Any, dims: int) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dim() == dims and value.is_floating_point()
    return isinstance(value, np.ndarray) and value.ndim == dims and value.dtype.kind in "iuf"


def _table(lobe: TabulatedBSDF) -> dict[str, Any]:
    """A measured lobe with its numbers, so that the scene does not depend on the file they came from."""
    entry = {"type": "TabulatedBSDF", "path": os.fspath(lobe.path), "sampler": lobe.sampler}
    entry["transmissive_fraction"] = to_float(lobe.transmissive_fraction)
    return entry | {name: getattr(lobe, name).tolist() for name in ("theta_i", "theta_s", "values")}


def _spectrum(spectrum: Spectrum) -> dict[str, Any]:
    return {"type": "Spectrum", "wavelengths": spectrum.wavelengths.tolist(), "weights": spectrum.weights.tolist()}


_SURFACE_STATE = (
    "kind",
    "coating",
    "reflectance",
    "bsdf",
    "scatter_fraction",
    "importance",
    "name",
    "material_front",
    "material_back",
)


def _check_unchanged(name: str, obj: CompoundComponent) -> None:
    """ValueError where a surface of a compound is no longer what the config says: the file holds the config alone."""
    fresh = type(obj)(obj.name, obj.cs, obj.config)
    if [s.name for s in fresh.surfaces] != [s.name for s in obj.surfaces]:
        raise ValueError(
            _changed(name, "its surfaces", [s.name for s in obj.surfaces], [s.name for s in fresh.surfaces])
        )
    for now, then in zip(obj.surfaces, fresh.surfaces, strict=True):
        for field in _SURFACE_STATE:
            a, b = getattr(now, field), getattr(then, field)
            if a is not b and not _equal(a, b):
                raise ValueError(_changed(name, f"{now.name}.{field}", a, b))
        if type(now.geometry) is not type(then.geometry):
            raise ValueError(_changed(name, f"{now.name}.geometry", now.geometry, then.geometry))
        a, b = ([to_float(v) for v in s.geometry.numbers()] for s in (now, then))
        if a != b:
            what = "" if isinstance(now.geometry, EdgeGeometry | RimGeometry) else f" of {type(now.geometry).__name__}"
            raise ValueError(_changed(name, f"{now.name}: the numbers{what}", a, b))
        if _pose(now.cs) != _pose(then.cs):
            raise ValueError(_changed(name, f"{now.name}.cs", now.cs, then.cs))


def _pose(cs: CoordinateSystem | None) -> list[Any]:
    out: list[Any] = []
    while cs is not None:
        out += [to_float(getattr(cs, number)) for number in CS_NUMBERS]
        cs = cs.reference_cs
    return out


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return is_tensor_number(a) and is_tensor_number(b) and to_float(a) == to_float(b)
    if isinstance(a, NSQMaterial) and isinstance(b, NSQMaterial):
        return a.optiland_material is b.optiland_material and a.scattering is b.scattering
    return isinstance(a, str | int | float) and a == b


def _changed(name: str, what: str, now: Any, then: Any) -> str:
    return (
        f"Cannot serialize component {name!r}: {what} was changed from {then} to {now} after it was made from its"
        " config; a file holds the config, so add the component again with a config that says so"
    )


def scene_to_dict(scene: NSQScene) -> dict[str, Any]:
    """A scene as a dictionary of plain values, which `scene_from_dict` makes an equal scene of.

    Keys: "nsq_schema_version", "sampling_policy", and lists "components", "sources", "detectors" in order of
    registration, whose entries have "type", "name", "cs" and either "config" or the object's attributes. Numbers are
    floats, detached; counts are ints.

    Raises TypeError naming the component, source or detector for what a file cannot hold: single surfaces, callables,
    media of other classes; ValueError for a component whose surfaces were changed after it was made.
    """
    writer = _Writer()
    components, sources, detectors = scene.component_registry, scene.source_registry, scene.detector_registry
    policy = scene.sampling_policy
    return {
        VERSION_KEY: NSQ_SCHEMA_VERSION,
        "components": [writer.component(name, components.get(name)) for name in components],
        "sources": [writer.placed("source", name, sources.get(name), SOURCES) for name in sources],
        "detectors": [writer.placed("detector", name, detectors.get(name), DETECTORS) for name in detectors],
        "sampling_policy": writer.arguments(policy, "sampling_policy"),
    }


def write_json(scene: NSQScene, path: PathLike) -> None:
    """`NSQScene.to_json`."""
    text = json.dumps(_finite(scene_to_dict(scene)), indent=1, allow_nan=False, ensure_ascii=False)
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
    raw = read_bounded(path, _LONGEST_FILE)
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
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} occurs twice in one object")
    return entry
