"""Scenes as plain values. What can be written is decided by type."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import torch

from ._arrays import write_array
from ._schema import (
    COMPONENTS,
    COUNTS,
    CS_NUMBERS,
    DEEPEST,
    HAZE_NUMBERS,
    KINDS_OF_COMPOUND,
    SURFACES,
    VALUES,
    arguments_of,
    class_named,
)
from .bsdfs import TabulatedBSDF
from .coatings import SimpleCoating
from .compounds import CompoundComponent, EdgeGeometry, RimGeometry
from .configs import InteractionType
from .coordinates import CoordinateSystem
from .formats.angular import AngularDistribution
from .formats.rays import COLUMNS, RayTable
from .geometries import AnnularPlaneGeometry, CylindricalFrustumGeometry
from .geometries_mesh import MeshGeometry
from .geometries_sag import AsphereGeometry, EvenAsphereGeometry
from .materials import IdealMaterial, Material, NSQMaterial, as_material
from .numbers import is_tensor_number, to_float
from .spectrum import Spectrum
from .thinfilm import ThinFilmCoating


class Writer:
    """Values of one scene as plain ones. An object that occurs twice gets an id, by which readers share it.

    ``surfaces`` says that single surfaces, and groups of them, are written too.
    """

    def __init__(self, *, surfaces: bool) -> None:
        self._surfaces = surfaces
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
        # what holds arrays is written once, and named by its id from then on
        return {"type": first["type"], "id": first["id"]} if type(obj) in _HEAVY else dict(first)

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
        special = _WRITERS.get(type(value))
        if special is not None:
            return self._shared(value, lambda: special(self, value, where))
        if _is_array(value, 1):
            return [float(v) for v in (value.detach() if isinstance(value, torch.Tensor) else value)]
        if isinstance(value, InteractionType):
            return value.name
        if isinstance(value, NSQMaterial | IdealMaterial | Material):
            page = getattr(value, "source", "")
            if page and as_material(page, where) is value:  # the one medium that everybody gets who asks by name
                return page
            return self._shared(value, lambda: self._medium(value, where))
        kind = type(value).__name__
        if kind in VALUES and type(value) is class_named(kind, VALUES, where):
            return self._shared(value, lambda: {"type": kind, **self.arguments(value, where)})
        raise TypeError(
            f"Cannot serialize {where}: it got {type(value).__name__};"
            " it takes numbers, names, catalogue and constant media, coatings of numbers, lobes and shapes"
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

    def component(self, name: str, obj: Any) -> dict[str, Any]:
        kind, where = type(obj).__name__, f"component {name!r}"
        if kind in COMPONENTS and type(obj) is COMPONENTS[kind][0]:
            _check_unchanged(name, obj)
            return {**self._entry(name, obj), "config": self.arguments(obj.config, f"{where}.config")}
        known = type(obj) is CompoundComponent or (kind in SURFACES and type(obj) is class_named(kind, SURFACES, where))
        if not known or not self._surfaces:
            more = ", and single surfaces with surfaces=True" if known else ""
            raise TypeError(f"Cannot serialize {where} of class {kind}. {KINDS_OF_COMPOUND}{more}.")
        if type(obj) is CompoundComponent:
            surfaces = [self._surface(s.name, s, f"{where}.surfaces[{i}]") for i, s in enumerate(obj.surfaces)]
            return {**self._entry(name, obj), "surfaces": surfaces}
        return self._surface(name, obj, where)

    def _surface(self, name: str, obj: Any, where: str) -> dict[str, Any]:
        kind = type(obj).__name__
        if kind not in SURFACES or type(obj) is not class_named(kind, SURFACES, where):
            raise TypeError(f"Cannot serialize {where} of class {kind}. Only {', '.join(SURFACES)} are supported.")
        names = arguments_of(type(obj))
        for field in ("coating", "reflectance", "bsdf", "importance"):
            if field not in names and getattr(obj, field) is not None:
                raise ValueError(f"Cannot serialize {where}: {field} was set, which a {kind} does not take")
        return {**self._entry(name, obj), **self.arguments(obj, where)}

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


def _table(writer: Writer, lobe: TabulatedBSDF, where: str) -> dict[str, Any]:
    """A measured lobe with its numbers, so that the scene does not depend on the file they came from."""
    entry = {"type": "TabulatedBSDF", "path": os.fspath(lobe.path), "sampler": lobe.sampler}
    entry["transmissive_fraction"] = to_float(lobe.transmissive_fraction)
    return entry | {name: getattr(lobe, name).tolist() for name in ("theta_i", "theta_s", "values")}


def _spectrum(writer: Writer, spectrum: Spectrum, where: str) -> dict[str, Any]:
    return {"type": "Spectrum", "wavelengths": spectrum.wavelengths.tolist(), "weights": spectrum.weights.tolist()}


def _films(writer: Writer, coating: ThinFilmCoating, where: str) -> dict[str, Any]:
    layers = [
        {"material": writer.value(m, f"{where}.layers[{i}].material"), "thickness": to_float(t)}
        for i, (m, t) in enumerate(coating.layers)
    ]
    return {"type": "ThinFilmCoating", "layers": layers}


def _coating(writer: Writer, coating: SimpleCoating, where: str) -> dict[str, Any]:
    shares = {name: getattr(coating, name) for name in ("transmittance", "reflectance")}
    return {"type": "SimpleCoating", **{name: writer.value(v, f"{where}.{name}") for name, v in shares.items()}}


def _asphere(writer: Writer, shape: AsphereGeometry, where: str) -> dict[str, Any]:
    """Coefficients as pairs (power, number), the powers of an even asphere among them."""
    numbers = {name: to_float(getattr(shape, name)) for name in ("radius", "conic", "aperture_radius")}
    terms = [[power, to_float(value)] for power, value in shape.terms()]
    return {"type": type(shape).__name__, **numbers, "coefficients": terms}


def _mesh(writer: Writer, shape: MeshGeometry, where: str) -> dict[str, Any]:
    vertices = shape.vertices.detach().cpu().to(torch.float64).numpy()
    return {"type": "MeshGeometry", "vertices": write_array(vertices), "faces": write_array(shape.faces)}


def _distribution(writer: Writer, lamp: AngularDistribution, where: str) -> dict[str, Any]:
    arrays = {name: write_array(getattr(lamp, name)) for name in ("theta", "phi", "intensity")}
    plain = {name: writer.value(getattr(lamp, name), where) for name in ("name", "lamp_lumens", "input_watts")}
    return {"type": "AngularDistribution", **arrays, **plain}


def _rays(writer: Writer, rays: RayTable, where: str) -> dict[str, Any]:
    arrays = {name: write_array(getattr(rays, name)) for name in COLUMNS}
    spectra = [writer.value(spectrum, where) for spectrum in rays.spectra]
    return {
        "type": "RayTable",
        **arrays,
        "flux_unit": rays.flux_unit,
        "description": rays.description,
        "spectra": spectra,
    }


def _frustum(writer: Writer, edge: EdgeGeometry, where: str) -> dict[str, Any]:
    """The edge of a lens that stands alone: the frustum that it is now."""
    return _numbers_of(CylindricalFrustumGeometry, edge)


def _ring(writer: Writer, rim: RimGeometry, where: str) -> dict[str, Any]:
    return _numbers_of(AnnularPlaneGeometry, rim)


def _numbers_of(kind: type, shape: Any) -> dict[str, Any]:
    return {"type": kind.__name__, **{name: to_float(getattr(shape, name)) for name in arguments_of(kind)}}


_HEAVY = (MeshGeometry, AngularDistribution, RayTable)
# classes whose entries are not simply their arguments
_WRITERS: dict[type, Callable[[Writer, Any, str], dict[str, Any]]] = {
    Spectrum: _spectrum,
    SimpleCoating: _coating,
    ThinFilmCoating: _films,
    TabulatedBSDF: _table,
    AsphereGeometry: _asphere,
    EvenAsphereGeometry: _asphere,
    MeshGeometry: _mesh,
    EdgeGeometry: _frustum,
    RimGeometry: _ring,
    AngularDistribution: _distribution,
    RayTable: _rays,
}

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
