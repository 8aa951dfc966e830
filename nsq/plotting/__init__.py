"""Pictures: sections and views of scenes, plots of results, and what a notebook shows of them.

Matplotlib is imported when something is drawn, and pyvista when something is drawn in three dimensions. Nothing here
opens a window: functions draw on axes that they are given, or on a new figure, and hand them back.
"""

from .view2d import NSQViewer2D
from .view3d import NSQViewer3D

__all__ = ["NSQViewer2D", "NSQViewer3D"]
