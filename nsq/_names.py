"""What has names: errors for names that nothing has, and a dict that raises them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .numbers import suggest

_Class = TypeVar("_Class", bound=type)


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


def arguments_of(method: Callable[..., Any]) -> list[str]:
    """The names of what a method takes, without ``self``."""
    return list(inspect.signature(method).parameters)[1:]


def check_arguments(given: Iterable[str], what: str, known: list[str]) -> None:
    """Raise TypeError for the first name given that ``what`` does not take; it says the nearest of the known ones."""
    for name in given:
        if name not in known:
            raise TypeError(f"{what} got an argument {name!r}; it takes {known}.{suggest(name, known)}")


def named_arguments(cls: _Class) -> _Class:
    """A class whose constructor answers a keyword that it does not take by those that it does, and the nearest.

    Signature and annotations stay those of the constructor; for a dataclass, it goes above ``@dataclass``. It adds a
    frame to the stack, so a constructor that warns of its caller's line does without it.
    """
    construct = cls.__init__
    known = arguments_of(construct)
    taken = frozenset(known)

    @functools.wraps(construct)
    def checked(self: Any, *arguments: Any, **named: Any) -> None:
        if not taken.issuperset(named):
            check_arguments(named, type(self).__name__, known)
        construct(self, *arguments, **named)

    cls.__init__ = checked  # type: ignore[misc]
    return cls
