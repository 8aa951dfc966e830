"""Ray paths: events of recorded rays, groups of rays that went the same way, ghosts, and where light escapes to.

All of it comes from tracing rays again after the trace, which itself records nothing.
"""

from .escape import EscapedFlux
from .events import EVENT_DTYPE
from .groups import PathGroup, PathStep
from .replay import Replay
from .tables import GhostTable, PathTable

__all__ = ["EVENT_DTYPE", "EscapedFlux", "GhostTable", "PathGroup", "PathStep", "PathTable", "Replay"]
