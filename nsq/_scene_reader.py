"""Scenes from plain values: every class, key and value is checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import read_array
from ._schema import (
    ASPHERES,
    COMPONENTS,
    CS_NUMBERS,
    DEEPEST,
    DETECTORS,
    GROUP,
    HAZE_NUMBERS,
    KINDS_OF_COMPOUND,
    NSQ_SCHEMA_VERSION,
    SOURCES,
    SURFACES,
    VALUES,
    VERSION_KEY,
    Broken,
    arguments_of,
    class_named,
)
from .bsdfs import TabulatedBSDF
from .coatings import SimpleCoating
from .compounds import CompoundComponent
from .configs import InteractionType
from .coordinates import CoordinateSystem
from .formats.angular import AngularDistribution
from .formats.rays import COLUMNS, RayTable
from .geometries_mesh import MeshGeometry
from .materials import VACUUM, IdealMaterial, Material, NSQMaterial
from .sampling import SamplingPolicy
from .scattering import HenyeyGreenstein
from .spectrum import Spectrum
from .thinfilm import ThinFilmCoating

if TYPE_CHECKING:
    from .scene import NSQScene


# medium -> what its entry holds
_MEDIA: dict[Any, tuple[str, ...]] = {"vacuum": (), "constant": ("n", "k"), "catalogue": ("page",)}


class _Reader:
    """Objects of one scene from plain values; entries of one id become one object."""

    def __init__(self) -> None:
        self._shared: dict[Any, tuple[Any, Any]] = {}
        self._depth = 0

    def share(self, entry: dict[str, Any], where: str, make: Callable[[], Any]) -> Any:
        key = entry.get("id")
        if key is None:
            return make()
        if not isinstance(key, int) or isinstance(key, bool):
            raise Broken(f"{where}.id", f"got {key!r}; it takes an int")
        if key in self._shared and set(entry) == {"type", "id"}:
            first, obj = self._shared[key]
            if first.get("type") == entry["type"]:
                return obj
        if key not in self._shared:
            made = make()
            self._shared.setdefault(key, (entry, made))
        first, obj = self._shared[key]
        if first != entry:
            raise Broken(where, f"differs from an earlier entry of the same id {key}; entries of one id must be equal")
        return obj

    def frame(self, entry: Any, where: str, depth: int = 0) -> CoordinateSystem:
        if depth > DEEPEST:
            raise Broken(where, f"frames refer to each other more than {DEEPEST} deep")
        _keys(entry, where, (*CS_NUMBERS, "reference_cs"), ("id",))
        return self.share(entry, where, lambda: self._frame(entry, where, depth))

    def _frame(self, entry: dict[str, Any], where: str, depth: int) -> CoordinateSystem:
        parent = entry["reference_cs"]
        above = None if parent is None else self.frame(parent, f"{where}.reference_cs", depth + 1)
        numbers = {name: _number(entry[name], f"{where}.{name}") for name in CS_NUMBERS}
        return _made(where, lambda: CoordinateSystem(**numbers, reference_cs=above))

    def value(self, value: Any, where: str) -> Any:
        if isinstance(value, dict):
            if self._depth > DEEPEST:
                raise Broken(where[:200], f"objects lie in each other more than {DEEPEST} deep")
            self._depth += 1
            try:
                return self.share(value, where, lambda: self._object(value, where))
            finally:
                self._depth -= 1
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
            return tuple(self.value(entry, f"{where}[{i}]") for i, entry in enumerate(value))
        if isinstance(value, list):
            return np.array([_number(v, f"{where}[{i}]") for i, v in enumerate(value)])
        if value in ("inf", "-inf"):
            return float(value)
        return value

    def _object(self, entry: dict[str, Any], where: str) -> Any:
        kind = entry.get("type")
        if kind in ("NSQMaterial", "Material"):
            return self._medium(entry, where)
        if isinstance(kind, str) and kind in _READERS:
            return _READERS[kind](self, entry, where)
        cls = class_named(kind, VALUES, where)
        return self.build(cls, entry, where, ("type",), {})

    def _medium(self, entry: dict[str, Any], where: str) -> Any:
        medium = entry.get("medium")
        if not isinstance(medium, str) or medium not in _MEDIA:
            raise Broken(f"{where}.medium", f"got {medium!r}; it takes one of {list(_MEDIA)}")
        _keys(entry, where, ("type", "medium", *_MEDIA[medium]), ("id", "scattering"))
        haze = None
        if "scattering" in entry:
            at = f"{where}.scattering"
            _keys(entry["scattering"], at, HAZE_NUMBERS, ())
            numbers = {name: _number(entry["scattering"][name], f"{at}.{name}") for name in HAZE_NUMBERS}
            haze = _made(at, lambda: HenyeyGreenstein(**numbers))
        if medium == "vacuum":
            return VACUUM if haze is None else NSQMaterial(scattering=haze)
        if medium == "constant":
            n, k = _number(entry["n"], f"{where}.n"), _number(entry["k"], f"{where}.k")
            inner = _made(where, lambda: IdealMaterial(n, k))
        else:
            page = entry["page"]
            if not isinstance(page, str) or page.count("/") != 2:
                raise Broken(f"{where}.page", f"got {page!r}; it takes 'shelf/book/page'")
            inner = _made(where, lambda: Material(page))
        return NSQMaterial(inner, scattering=haze) if entry["type"] == "NSQMaterial" else inner

    def build(self, cls: type, entry: dict[str, Any], where: str, other: tuple[str, ...], extra: dict[str, Any]) -> Any:
        """An object of a class whose arguments an entry holds beside the keys ``other``."""
        names = arguments_of(cls)
        _keys(entry, where, other, (*names, "id", "label"))
        values = {name: self.value(entry[name], f"{where}.{name}") for name in names if name in entry}
        if isinstance(values.get("interaction"), str):
            values["interaction"] = _interaction(values["interaction"], f"{where}.interaction")
        return _made(where, lambda: cls(**extra, **values))

    def component(self, scene: NSQScene, entry: Any, where: str) -> None:
        if not isinstance(entry, dict):
            raise Broken(where, f"got {type(entry).__name__}; it takes an object")
        kind = entry.get("type")
        if isinstance(kind, str) and kind in COMPONENTS:
            obj = self._compound(entry, where)
        elif isinstance(kind, str) and kind in SURFACES:
            obj = self._surface(entry, where)
        elif kind == GROUP:
            obj = self._group(entry, where)
        else:
            raise Broken(f"{where}.type", f"unknown class {kind!r}. {KINDS_OF_COMPOUND}, and {[*SURFACES, GROUP]}")
        _made(f"{where}.name", lambda: scene.component_registry.add(entry["name"], obj))

    def _compound(self, entry: dict[str, Any], where: str) -> Any:
        _keys(entry, where, ("type", "name", "cs", "config"), ("label",))
        kind, config = COMPONENTS[entry["type"]]
        _keys(entry["config"], f"{where}.config", (), arguments_of(config))
        made = self.build(config, entry["config"], f"{where}.config", (), {})
        cs, label = self._placed(entry, where)
        return _made(where, lambda: kind(label, cs, made))

    def _surface(self, entry: Any, where: str) -> Any:
        _keys(entry, where, ("type", "name", "cs"), (*_all_arguments(SURFACES), "label"))
        cls = class_named(entry["type"], SURFACES, f"{where}.type")
        cs, label = self._placed(entry, where)
        return self.build(cls, entry, where, ("type", "name", "cs"), {"cs": cs, "name": label})

    def _group(self, entry: dict[str, Any], where: str) -> CompoundComponent:
        _keys(entry, where, ("type", "name", "cs", "surfaces"), ("label",))
        if not isinstance(entry["surfaces"], list):
            raise Broken(f"{where}.surfaces", f"got {type(entry['surfaces']).__name__}; it takes a list")
        cs, label = self._placed(entry, where)
        group = _made(where, lambda: CompoundComponent(label, cs, None))
        group.surfaces = [self._surface(s, f"{where}.surfaces[{i}]") for i, s in enumerate(entry["surfaces"])]
        return group

    def _placed(self, entry: dict[str, Any], where: str) -> tuple[CoordinateSystem, str]:
        return self.frame(entry["cs"], f"{where}.cs"), _text(entry.get("label", entry["name"]), f"{where}.name")

    def placed(self, registry: Any, table: dict[str, str], entry: Any, where: str) -> None:
        if not isinstance(entry, dict):
            raise Broken(where, f"got {type(entry).__name__}; it takes an object")
        cls = class_named(entry.get("type"), table, f"{where}.type")
        _keys(entry, where, ("type", "name", "cs"), (*arguments_of(cls), "label"))
        cs, label = self._placed(entry, where)
        obj = self.build(cls, entry, where, ("type", "name", "cs"), {"cs": cs, "name": label})
        _made(f"{where}.name", lambda: registry.add(entry["name"], obj))


def _all_arguments(table: dict[str, str]) -> tuple[str, ...]:
    return tuple({name for kind in table for name in arguments_of(class_named(kind, table, "schema"))})


def _spectrum(reader: _Reader, entry: dict[str, Any], where: str) -> Spectrum:
    _keys(entry, where, ("type", "wavelengths", "weights"), ("id",))
    return _made(where, lambda: Spectrum(entry["wavelengths"], entry["weights"]))


def _coating(reader: _Reader, entry: dict[str, Any], where: str) -> SimpleCoating:
    _keys(entry, where, ("type", "transmittance", "reflectance"), ("id",))
    shares = {name: _number(entry[name], f"{where}.{name}") for name in ("transmittance", "reflectance")}
    return _made(where, lambda: SimpleCoating(**shares))


def _films(reader: _Reader, entry: dict[str, Any], where: str) -> ThinFilmCoating:
    _keys(entry, where, ("type", "layers"), ("id",))
    if not isinstance(entry["layers"], list):
        raise Broken(f"{where}.layers", f"got {type(entry['layers']).__name__}; it takes a list")
    layers = []
    for i, layer in enumerate(entry["layers"]):
        at = f"{where}.layers[{i}]"
        _keys(layer, at, ("material", "thickness"), ())
        layers.append((reader.value(layer["material"], at), _number(layer["thickness"], f"{at}.thickness")))
    return _made(where, lambda: ThinFilmCoating(layers))


def _asphere(reader: _Reader, entry: dict[str, Any], where: str) -> Any:
    names = ("radius", "conic", "aperture_radius")
    _keys(entry, where, ("type", *names, "coefficients"), ("id",))
    cls = class_named(entry["type"], ASPHERES, where)
    numbers = {name: _number(entry[name], f"{where}.{name}") for name in names}
    terms, at = entry["coefficients"], f"{where}.coefficients"
    if not isinstance(terms, list) or not all(isinstance(term, list) and len(term) == 2 for term in terms):
        raise Broken(at, f"got {str(terms)[:60]}; it takes pairs (power, number)")
    powers = [power for power, _ in terms]
    if not all(isinstance(power, int) and not isinstance(power, bool) for power in powers):
        raise Broken(at, f"got powers {str(powers)[:60]}; they take whole numbers")
    values = [_number(value, f"{at}[{i}]") for i, (_, value) in enumerate(terms)]
    if cls.__name__ == "AsphereGeometry":
        if len(set(powers)) != len(powers):
            raise Broken(at, f"got powers {str(powers)[:60]}; they take each power once")
        return _made(where, lambda: cls(**numbers, coefficients=dict(zip(powers, values, strict=True))))
    if powers != [4 + 2 * place for place in range(len(powers))]:
        raise Broken(at, f"got powers {str(powers)[:60]}; an even asphere takes 4, 6, 8 and so on")
    return _made(where, lambda: cls(**numbers, coefficients=tuple(values)))


def _mesh(reader: _Reader, entry: dict[str, Any], where: str) -> MeshGeometry:
    _keys(entry, where, ("type", "vertices", "faces"), ("id",))
    mesh = tuple(read_array(entry[name], f"{where}.{name}") for name in ("vertices", "faces"))
    return _made(where, lambda: MeshGeometry(mesh))


def _distribution(reader: _Reader, entry: dict[str, Any], where: str) -> AngularDistribution:
    names = ("theta", "phi", "intensity")
    _keys(entry, where, ("type", *names, "name", "lamp_lumens", "input_watts"), ("id",))
    arrays = {name: read_array(entry[name], f"{where}.{name}") for name in names}
    watts = {
        name: None if entry[name] is None else _number(entry[name], f"{where}.{name}")
        for name in ("lamp_lumens", "input_watts")
    }
    name = _text(entry["name"], f"{where}.name")
    return _made(where, lambda: AngularDistribution(**arrays, name=name, **watts))


def _rays(reader: _Reader, entry: dict[str, Any], where: str) -> RayTable:
    _keys(entry, where, ("type", *COLUMNS, "flux_unit", "description", "spectra"), ("id",))
    columns = {name: read_array(entry[name], f"{where}.{name}") for name in COLUMNS}
    texts = {name: _text(entry[name], f"{where}.{name}") for name in ("flux_unit", "description")}
    spectra = reader.value(entry["spectra"], f"{where}.spectra")
    if not isinstance(spectra, tuple) or not all(isinstance(spectrum, Spectrum) for spectrum in spectra):
        raise Broken(f"{where}.spectra", "takes a list of objects of type 'Spectrum'")
    return _made(where, lambda: RayTable(**columns, **texts, spectra=spectra))


def _measured_lobe(reader: _Reader, entry: dict[str, Any], where: str) -> TabulatedBSDF:
    """The lobe with the numbers of the entry; the file that they came from is not looked at."""
    grid = ("theta_i", "theta_s", "values")
    _keys(entry, where, ("type", "path", "sampler", "transmissive_fraction", *grid), ("id",))
    try:
        theta_i, theta_s, values = (np.asarray(entry[name], dtype=np.float64) for name in grid)
    except (TypeError, ValueError, OverflowError):
        raise Broken(where, "theta_i, theta_s and values take lists of numbers") from None
    for name, angles in (("theta_i", theta_i), ("theta_s", theta_s)):
        rising = angles.ndim == 1 and len(angles) >= 2 and bool(np.all(np.diff(angles) > 0.0))
        if not rising or not (angles[0] >= 0.0 and angles[-1] <= 90.0):
            raise Broken(f"{where}.{name}", "takes at least two angles that rise from 0 to 90 degrees")
    if values.shape != (len(theta_i), len(theta_s)) or not np.all((values >= 0.0) & np.isfinite(values)):
        raise Broken(f"{where}.values", f"takes {len(theta_i)} lists of {len(theta_s)} finite numbers >= 0")
    lobe = TabulatedBSDF.__new__(TabulatedBSDF)
    lobe.path, lobe.sampler = _text(entry["path"], f"{where}.path"), entry["sampler"]
    lobe.transmissive_fraction = _number(entry["transmissive_fraction"], f"{where}.transmissive_fraction")
    lobe.theta_i, lobe.theta_s, lobe.values = theta_i, theta_s, values
    _made(where, lobe.validate)
    return lobe


# class -> how its entry is read, where that is more than its arguments
_READERS: dict[str, Callable[[_Reader, dict[str, Any], str], Any]] = {
    "Spectrum": _spectrum,
    "SimpleCoating": _coating,
    "ThinFilmCoating": _films,
    "TabulatedBSDF": _measured_lobe,
    "AsphereGeometry": _asphere,
    "EvenAsphereGeometry": _asphere,
    "MeshGeometry": _mesh,
    "AngularDistribution": _distribution,
    "RayTable": _rays,
}


def _interaction(value: str, where: str) -> InteractionType:
    if value not in InteractionType.__members__:
        raise Broken(where, f"got {value!r}; it takes one of {list(InteractionType.__members__)}")
    return InteractionType[value]


def _keys(entry: Any, where: str, needed: tuple[str, ...], optional: tuple[str, ...]) -> None:
    if not isinstance(entry, dict):
        raise Broken(where, f"got {type(entry).__name__}; it takes an object")
    for key in needed:
        if key not in entry:
            raise Broken(where, f"has no {key!r}")
    for key in entry:
        if key not in needed and key not in optional:
            raise Broken(where, f"has {key!r}, which it does not take")


def _number(value: Any, where: str) -> float:
    if value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Broken(where, f"got {value!r}; it takes a number")
    try:
        return float(value)
    except OverflowError:
        raise Broken(where, "got a number beyond the range of float64") from None


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise Broken(where, f"got {value!r}; it takes a str")
    return value


def _made(where: str, make: Callable[[], Any]) -> Any:
    """What ``make`` makes; its complaint with the place in the file."""
    try:
        return make()
    except (TypeError, ValueError, KeyError, NotImplementedError, OverflowError) as error:
        raise Broken(where, str(error)) from error


def read_scene(data: dict[str, Any]) -> NSQScene:
    """The scene that `scene_to_dict` wrote.

    Raises ValueError, naming the place in ``data``, for a missing or other schema version, an unknown class, a missing,
    unknown or repeated name, and values that a class does not take.
    """
    from .scene import NSQScene

    if not isinstance(data, dict):
        raise Broken("scene", f"got {type(data).__name__}; it takes an object with {VERSION_KEY!r}")
    if VERSION_KEY not in data:
        raise Broken("scene", f"has no {VERSION_KEY!r}, so it is no scene of this package")
    version = data[VERSION_KEY]
    if isinstance(version, bool) or version != NSQ_SCHEMA_VERSION:
        raise Broken(
            "scene",
            f"schema version is {version!r}; this version of the package reads schema version {NSQ_SCHEMA_VERSION}",
        )
    lists = ("components", "sources", "detectors")
    _keys(data, "scene", (VERSION_KEY, *lists), ("sampling_policy",))
    for name in lists:
        if not isinstance(data[name], list):
            raise Broken(name, f"got {type(data[name]).__name__}; it takes a list")
    scene, reader = NSQScene(), _Reader()
    for i, entry in enumerate(data["components"]):
        reader.component(scene, entry, f"components[{i}]")
    for i, entry in enumerate(data["sources"]):
        reader.placed(scene.source_registry, SOURCES, entry, f"sources[{i}]")
    for i, entry in enumerate(data["detectors"]):
        reader.placed(scene.detector_registry, DETECTORS, entry, f"detectors[{i}]")
    if "sampling_policy" in data:
        policy = data["sampling_policy"]
        scene.sampling_policy = reader.build(SamplingPolicy, policy, "sampling_policy", (), {})
    return scene
