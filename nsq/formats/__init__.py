"""Files of the trade: ray files, luminaires' intensity distributions, lens prescriptions.

Readers check what they read before they believe it: a file that is cut short, foreign or wrong raises ValueError naming
the file and the place, or OSError, and the memory that a reader takes follows from the size of the file, never from a
number in it. Nothing in a file is executed. Writers write the whole file or leave the old one as it was.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS: dict[str, tuple[str, ...]] = {
    "angular": ("AngularDistribution",),
    "eulumdat": ("read_eulumdat", "write_eulumdat"),
    "ies": ("read_ies", "write_ies"),
    "rays": ("RayTable",),
    "tm25": ("read_tm25", "write_tm25"),
    "zemax_rays": ("read_zemax_rays", "write_zemax_rays"),
    "zmx": ("ZmxPrescription", "ZmxSurface", "read_zmx"),
    "zmx_scene": ("ConversionReport", "ReportEntry", "scene_from_zmx"),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
