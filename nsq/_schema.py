"""What a scene file may hold: its version, the classes it may name, and the fields of each."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields
from typing import Any

from .compounds import COMPOUNDS

NSQ_SCHEMA_VERSION = 1
VERSION_KEY = "nsq_schema_version"
DEEPEST = 100  # frames within frames, and objects within objects
LONGEST_FILE = 24 * 1024 * 1024  # bytes; the worst text takes some 30 times as much memory once it is parsed
HAZE_NUMBERS = ("g", "mean_free_path", "albedo")
CS_NUMBERS = ("x", "y", "z", "rx", "ry", "rz")
COUNTS = ("num_", "max_", "split_depth")  # how the names of whole numbers begin
KINDS_OF_COMPOUND = "Only Lens, Mirror, and Doublet are supported"

# class name -> module, of everything that a file may ask for by a "type"
SOURCES = {
    name: "sources"
    for name in ("PointSource", "CollimatedSource", "ExtendedSource", "LuminaireSource", "RayFileSource")
}
DETECTORS = {
    name: "detectors" for name in ("IrradianceDetector", "SpectralDetector", "FarFieldDetector", "RayDatabaseDetector")
}
GEOMETRIES = {
    name: "geometries"
    for name in (
        "PlaneGeometry",
        "FinitePlaneGeometry",
        "ConicGeometry",
        "ParaboloidGeometry",
        "SphereGeometry",
        "CylindricalFrustumGeometry",
        "AnnularPlaneGeometry",
    )
}
BSDFS = {name: "bsdfs" for name in ("SpecularBRDF", "LambertianBSDF", "HarveyShackBSDF", "ABgBSDF", "GaussianBSDF")}
SAGS = {name: "geometries_sag" for name in ("BiconicGeometry", "ToroidGeometry")}
VALUES = {
    "SurfaceConfig": "configs",
    "ImportanceTarget": "importance",
    "Sobol": "sampling",
    **GEOMETRIES,
    **SAGS,
    **BSDFS,
}
COMPONENTS = {kind.__name__: (kind, config) for config, kind in COMPOUNDS.items()}
SURFACES = {name: "components" for name in ("RefractiveComponent", "ReflectiveComponent", "AbsorbingComponent")}
GROUP = "CompoundComponent"  # surfaces under one name, without a config
# the shapes whose coefficients are a mapping or a sequence
ASPHERES = {name: "geometries_sag" for name in ("AsphereGeometry", "EvenAsphereGeometry")}


class Broken(ValueError):
    """What is wrong with a scene file, and where."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")


def class_named(name: Any, table: dict[str, str], where: str) -> type:
    if isinstance(name, str) and name in table:
        kind = getattr(importlib.import_module(f".{table[name]}", __package__), name, None)
        if kind is not None:
            return kind
    raise Broken(where, f"unknown class {name!r}; it takes one of {sorted(table)}")


def arguments_of(kind: type) -> tuple[str, ...]:
    """The constructor's arguments that a file holds, in order."""
    if "__dataclass_fields__" in vars(kind):
        names = tuple(f.name for f in fields(kind) if f.init)
    elif kind.__init__ is object.__init__:
        names = ()
    else:
        names = tuple(inspect.signature(kind).parameters)
    return tuple(name for name in names if name not in ("cs", "name"))
