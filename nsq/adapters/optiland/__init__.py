"""Optiland scenes in this tracer: a backend for them, and their conversion.

    from nsq.adapters.optiland import WarpBackend, from_optiland

    result = scene.trace(1_000_000, backend=WarpBackend())  # an Optiland scene and an Optiland result
    mine = from_optiland(scene)  # an nsq.NSQScene

Optiland is not among the dependencies: ``pip install 'nsq[optiland]'``. Raises ImportError where it is missing.
"""

try:
    import optiland.nonsequential as _peer
except ModuleNotFoundError as error:
    raise ImportError(
        "nsq.adapters.optiland needs the package optiland, version 0.6.3 or later; install it with: pip install"
        " 'nsq[optiland]'"
    ) from error

from .backend import WarpBackend
from .scenes import from_optiland

del _peer
__all__ = ["WarpBackend", "from_optiland"]
