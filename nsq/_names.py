"""What has names: errors for names that nothing has, and a dict that raises them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .numbers import suggest


class NameLookupError(KeyError):
    def __str__(self) -> str:  # KeyError would show the message with quotes around it
        return str(self.args[0])


class DuplicateNameError(NameLookupError, ValueError):
    """A name that is taken already."""


class UnknownNameError(NameLookupError):
    """A name that nothing has."""


def unknown_name(name: Any, noun: str, known: Iterable[str]) -> UnknownNameError:
    """The error for ``name``, which no ``noun`` has; it says the nearest of the known ones."""
    known = list(known)
    hint = suggest(name, known) if isinstance(name, str) else ""
    return UnknownNameError(f"name got {name!r}, which no {noun} has; it takes one of {known}.{hint}")


class ByDetector(dict):
    """A dict by the names of detectors, which says the nearest one to a name that none has."""

    def __missing__(self, name: Any) -> Any:
        raise unknown_name(name, "detector", self)


class BySurface(dict):
    """The same by the names of surfaces."""

    def __missing__(self, name: Any) -> Any:
        raise unknown_name(name, "surface", self)


def check_attribute(obj: object, name: str, known: Iterable[str]) -> None:
    """Raise AttributeError where an object that has a fixed set of attributes is given another one."""
    known = list(known)
    if name not in known and not name.startswith("_") and not hasattr(type(obj), name):
        raise AttributeError(
            f"{type(obj).__name__} has no attribute {name!r}; it takes one of {known}.{suggest(name, known)}",
            name=name,  # without the object, Python adds no suggestion of its own
        )
