"""Named things of a scene, in the order they were added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from ._names import DuplicateNameError, unknown_name
from .components import SurfaceComponent
from .compounds import CompoundComponent
from .detectors import BaseDetector
from .sources import BaseNSQSource

T = TypeVar("T")


def check_name(name: Any) -> str:
    """Check a name: TypeError for no str, ValueError for an empty one."""
    if not isinstance(name, str):
        raise TypeError(f"name got {name!r} of type {type(name).__name__}; it takes a non-empty str")
    if not name.strip():
        raise ValueError(f"name got {name!r}; it takes a non-empty str")
    return name


class _Registry(Generic[T]):
    """Objects by name. Iterates over the names in the order of registration."""

    noun = "object"
    kinds: tuple[type, ...] = (object,)

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}

    def add(self, name: str, obj: T) -> None:
        """Register ``obj``. An object without a name of its own takes this one.

        Raises TypeError for a name that is no str or an object of the wrong kind, ValueError for an empty name and
        KeyError for a name that is taken.
        """
        check_name(name)
        if not isinstance(obj, self.kinds):
            takes = " or ".join(kind.__name__ for kind in self.kinds)
            raise TypeError(f"{self.noun} {name!r} got {type(obj).__name__}; it takes a {takes}")
        if name in self._objects:
            raise DuplicateNameError(f"name got {name!r}, which another {self.noun} has; it takes a new name")
        if not getattr(obj, "name", name):
            obj.name = name
        self._objects[name] = obj

    def get(self, name: str) -> T:
        """The object of that name; KeyError, with the nearest name there is, if there is none."""
        if name not in self._objects:
            raise unknown_name(name, self.noun, self._objects)
        return self._objects[name]

    def remove(self, name: str) -> None:
        """Forget the object of that name; KeyError as for `get`."""
        self.get(name)
        del self._objects[name]

    @property
    def names(self) -> list[str]:
        return list(self._objects)

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._objects))

    def __len__(self) -> int:
        return len(self._objects)


class ComponentRegistry(_Registry[SurfaceComponent | CompoundComponent]):
    """Single surfaces and compounds."""

    noun = "component"
    kinds = (SurfaceComponent, CompoundComponent)

    @property
    def surfaces(self) -> list[SurfaceComponent]:
        """Every surface, those of compounds in the compounds' order."""
        flat: list[SurfaceComponent] = []
        for obj in self._objects.values():
            flat.extend(obj.surfaces if isinstance(obj, CompoundComponent) else [obj])
        return flat

    @property
    def compounds(self) -> list[CompoundComponent]:
        """The lenses, doublets and mirrors."""
        return [obj for obj in self._objects.values() if isinstance(obj, CompoundComponent)]


class SourceRegistry(_Registry[BaseNSQSource]):
    """Sources."""

    noun = "source"
    kinds = (BaseNSQSource,)

    @property
    def sources(self) -> list[BaseNSQSource]:
        return list(self._objects.values())


class DetectorRegistry(_Registry[BaseDetector]):
    """Detectors."""

    noun = "detector"
    kinds = (BaseDetector,)

    @property
    def detectors(self) -> list[BaseDetector]:
        return list(self._objects.values())
