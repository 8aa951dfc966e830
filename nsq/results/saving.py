"""A whole `SimulationResult` in one .npz file: its ledger as JSON, its detectors and paths as arrays."""

from __future__ import annotations

import builtins
import json
import math
import sys
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._files import PathLike
from .archive import Archive, save_npz
from .farfield import FarFieldPattern
from .irradiance import IrradianceMap
from .rays import RayDatabase
from .simulation import SimulationResult
from .spectral import SpectralResult

_KIND = "SimulationResult"
_READINGS = {kind.__name__: kind for kind in (IrradianceMap, SpectralResult, FarFieldPattern, RayDatabase)}
# fields of their own: the readings, tables of events, and what lives in this process only
_APART = ("detectors", "ray_paths", "replay")


class _Unknown(dict[str, Any]):
    """Names in type hints that a module imports for type checkers only: anything."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self._known = {**vars(builtins), **vars(sys.modules[kind.__module__])}

    def __missing__(self, name: str) -> Any:
        if name in self._known:
            raise KeyError(name)
        return Any


def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, localns=_Unknown(kind))


def save_result(result: SimulationResult, path: PathLike) -> Path:
    """`SimulationResult.save`."""
    plain = {f.name: _to_plain(getattr(result, f.name), f.name) for f in fields(result) if f.name not in _APART}
    arrays: dict[str, Any] = {"kind": _KIND, "fields": json.dumps(plain, allow_nan=False)}
    listed = []
    for place, (name, reading) in enumerate(result.detectors.items()):
        kind = type(reading).__name__
        if kind not in _READINGS:
            raise TypeError(f"detectors[{name!r}] got {kind}; a file takes {', '.join(_READINGS)}")
        listed.append([name, kind])
        arrays |= {f"detector{place}/{entry}": values for entry, values in reading._arrays().items()}
    arrays["detectors"] = json.dumps(listed)
    arrays |= {f"paths/{name}": table for name, table in (result.ray_paths or {}).items()}
    return save_npz(path, arrays)


def load_result(path: PathLike) -> SimulationResult:
    """`SimulationResult.load`."""
    archive = Archive.open(path, _KIND)
    plain, hints = archive.json("fields"), _hints(SimulationResult)
    if not isinstance(plain, dict):
        raise ValueError(f"{archive.file}: entry 'fields' is no object")
    known = {f.name: f for f in fields(SimulationResult) if f.name not in _APART}
    for name in plain:
        if name not in known:
            raise ValueError(f"{archive.file}: entry 'fields' has {name[:60]!r}, which no result has")
    values = {}
    for name, field in known.items():
        if name in plain:
            values[name] = _from_plain(plain[name], hints[name], f"{archive.file}: fields.{name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{archive.file}: entry 'fields' has no {name!r}")
    detectors = {}
    listed = archive.json("detectors")
    if not isinstance(listed, list):
        raise ValueError(f"{archive.file}: entry 'detectors' is no list")
    for place, pair in enumerate(listed):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise ValueError(f"{archive.file}: detector {place} is not a name and a class")
        name, kind = pair
        if kind not in _READINGS or name in detectors:
            raise ValueError(f"{archive.file}: detector {name[:60]!r} is of class {kind[:60]!r}, or is there twice")
        detectors[name] = _READINGS[kind]._read(archive.part(f"detector{place}/"))
    return SimulationResult(detectors=detectors, ray_paths=_paths(archive), **values)


def _paths(archive: Archive) -> dict[str, np.ndarray] | None:
    from ..paths.events import EVENT_DTYPE, SPLIT_DTYPE

    tables = archive.part("paths/")
    dtypes = {"events": EVENT_DTYPE, "splits": SPLIT_DTYPE}
    found = {name: tables.records(name, dtype) for name, dtype in dtypes.items() if name in tables}
    return found or None


def _to_plain(value: Any, where: str) -> Any:
    """Plain values of JSON; TypeError naming the field for what has none."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating) and not math.isnan(value):
        return str(float(value)) if math.isinf(value) else float(value)  # JSON has no infinities
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _to_plain(getattr(value, f.name), f"{where}.{f.name}") for f in fields(value) if f.init}
    if isinstance(value, dict):
        return {str(key): _to_plain(v, f"{where}[{key!r}]") for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(v, f"{where}[{i}]") for i, v in enumerate(value)]
    raise TypeError(f"{where} got {value!r} of type {type(value).__name__}, which a file of a result does not hold")


def _from_plain(value: Any, hint: Any, where: str) -> Any:
    """What `_to_plain` was given, by its type hint; ValueError naming the place for anything else."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and type(None) in inside:
            return None
        others = [kind for kind in inside if kind is not type(None)]
        for kind in others[:-1]:
            try:
                return _from_plain(value, kind, where)
            except ValueError:
                continue
        return _from_plain(value, others[-1], where)
    if hint in (int, bool, str) and type(value) is hint:
        return value
    if hint is float and ((type(value) in (int, float) and math.isfinite(value)) or value in ("inf", "-inf")):
        return float(value)
    if isinstance(hint, type) and is_dataclass(hint) and isinstance(value, dict):
        hints = _hints(hint)
        names = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(hint) if f.init}
        for name in value.keys() - names.keys():
            raise ValueError(f"{where} has {name[:60]!r}, which a {hint.__name__} does not take")
        for name, needed in names.items():
            if needed and name not in value:
                raise ValueError(f"{where} has no {name!r}")
        return hint(**{name: _from_plain(v, hints[name], f"{where}.{name}") for name, v in value.items()})
    if origin is dict and isinstance(value, dict):
        return {key: _from_plain(v, inside[1], f"{where}[{key[:60]!r}]") for key, v in value.items()}
    if origin in (tuple, list) and isinstance(value, list):
        kinds = [inside[0]] * len(value) if origin is list or inside[-1] is Ellipsis else inside
        if len(kinds) == len(value):
            parts = (_from_plain(v, k, f"{where}[{i}]") for i, (v, k) in enumerate(zip(value, kinds, strict=True)))
            return origin(parts)
    takes = getattr(hint, "__name__", str(hint))
    raise ValueError(f"{where} is {str(value)[:60]!r}; it takes {takes}")
