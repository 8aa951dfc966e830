"""A scene in three dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numbers import check_count
from . import style
from .parts import scene_parts
from .paths import ray_lines

_OPACITY = {"refract": 0.35, "reflect": 1.0, "absorb": 0.25, "detector": 0.6, "tap": 0.3, "source": 0.9}
_COLORS = {"refract": style.SERIES[5], "reflect": "#9A9A9A", "absorb": "#444444"}
_WAY_OUT = 0.12


class NSQViewer3D:
    """Draws a scene in three dimensions with ``pyvista``; ``scene`` is an NSQScene, read anew at each `view`."""

    def __init__(self, scene: Any) -> None:
        self.scene = scene

    def view(
        self,
        result: Any = None,
        *,
        num_rays: int = 100,
        labels: bool = True,
        dark_mode: bool = False,
        figsize: tuple[int, int] = (1200, 800),
        off_screen: bool = False,
    ) -> Any:
        """A ``pyvista.Plotter`` that holds the scene; ``.show()`` opens its window, ``.screenshot(path)`` saves it.

        Args:
            result: a result of this scene with ``ray_paths``. Without one, a small trace of its own provides rays.
            num_rays: rays to draw, 0 for none. Their colours are those of their sources.
            labels: write the parts' names.
            dark_mode: a dark background.
            figsize: width and height in pixels.
            off_screen: never open a window, as a machine without a display needs.

        Raises ImportError where ``pyvista`` is not installed.
        """
        try:
            import pyvista
        except ModuleNotFoundError as error:
            raise ImportError(
                "a view in three dimensions needs the package pyvista; install it with: pip install 'nsq[view]'"
            ) from error
        num_rays = check_count(num_rays, "num_rays", minimum=0)
        lines = ray_lines(self.scene, result, num_rays) if num_rays else []
        lines = lines[:: -(-len(lines) // num_rays)] if lines else []  # ids run over the sources in turn
        parts = scene_parts(self.scene)
        plotter = pyvista.Plotter(window_size=list(figsize), off_screen=off_screen)
        ink = "white" if dark_mode else "black"
        plotter.set_background("#202020" if dark_mode else "white")
        tops: dict[str, np.ndarray] = {}
        for piece in parts.pieces:
            mesh = pyvista.PolyData.from_regular_faces(piece.vertices, piece.faces)
            color = _COLORS.get(piece.kind) or style.LINES[piece.kind]["color"]
            opacity = 0.15 if piece.endless else _OPACITY[piece.kind]
            plotter.add_mesh(mesh, color=color, opacity=opacity, smooth_shading=True, split_sharp_edges=True)
            if not piece.endless:
                top = piece.vertices[np.argmax(piece.vertices[:, 1])]
                if piece.label not in tops or top[1] > tops[piece.label][1]:
                    tops[piece.label] = top
        for emitter in parts.emitters:
            tops.setdefault(emitter.label, emitter.place)
            plotter.add_mesh(
                pyvista.Arrow(start=emitter.place, direction=emitter.way, scale=0.05 * parts.size),
                color=style.LINES["source"]["color"],
            )
        for source in sorted({ray.source for ray in lines}):
            courses = [_course(ray, parts.size) for ray in lines if ray.source == source]
            plotter.add_mesh(_polylines(pyvista, courses), color=style.series_color(max(source, 0)), opacity=0.6)
        if labels and tops:
            plotter.add_point_labels(
                np.array(list(tops.values())),
                list(tops),
                font_size=14,
                text_color=ink,
                shape=None,
                show_points=False,
                always_visible=True,
            )
        plotter.add_axes(color=ink)
        # z to the right and y upwards, as in a section, seen a little from the side
        plotter.view_vector((-1.0, 0.45, -0.55), viewup=(0.0, 1.0, 0.0))
        plotter.reset_camera(bounds=tuple(np.stack([parts.lower, parts.upper], axis=1).ravel()))
        return plotter


def _course(ray: Any, size: float) -> np.ndarray:
    if ray.way_out is None:
        return ray.points
    return np.concatenate([ray.points, ray.points[-1:] + _WAY_OUT * size * ray.way_out])


def _polylines(pyvista: Any, courses: list[np.ndarray]) -> Any:
    starts = np.cumsum([0, *(len(course) for course in courses)])
    cells = [np.concatenate([[len(c)], start + np.arange(len(c))]) for c, start in zip(courses, starts, strict=False)]
    return pyvista.PolyData(np.concatenate(courses), lines=np.concatenate(cells))
