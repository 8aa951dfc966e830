"""A plane section of a scene with rays, drawn to scale."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..numbers import check_choice, check_count, check_number
from . import style
from .parts import Emitter, Parts, Piece, scene_parts
from .paths import RayLine, ray_lines, typical
from .sections import PLANES, Plane, cut, outlines

COLOR_BY = ("source", "wavelength", "bounce")
_MOST_CURVES_TO_FILL = 600
_MARGIN = 0.04  # of the picture's larger side
_WAY_OUT = 2.0  # of the scene's size, so that a ray that leaves the scene leaves the picture
_ARROW = 0.05  # of the scene's size
_WIDTH = 9.0  # inches
_HEIGHTS = (2.6, 8.0)
_LABEL_SIZE = 8.0  # points
_LABEL_GAP = 4.0  # points
_FEW = 8  # colours that a legend explains; more take a colour bar


class NSQViewer2D:
    """Draws a plane section of a scene; ``scene`` is an NSQScene, read anew at each `view`."""

    def __init__(self, scene: Any) -> None:
        self.scene = scene

    def view(
        self,
        result: Any = None,
        *,
        projection: str = "YZ",
        offset: float = 0.0,
        num_rays: int = 60,
        color_by: str = "source",
        labels: bool = True,
        legend: bool | None = None,
        figsize: tuple[float, float] | None = None,
        title: str | None = None,
        xlim: tuple[float, float] | None = None,
        ylim: tuple[float, float] | None = None,
        ax: Any = None,
    ) -> tuple[Any, Any]:
        """Draw the section in which a plane cuts the scene, at the same scale along both axes.

        Lines are true sections of the surfaces; solids that close are filled. Rays are projected onto the plane; those
        drawn start near it, as there are, and spread over their source.

        Args:
            result: a result of this scene with ``ray_paths``. Without one, a small trace of its own provides rays.
            projection: "YZ" and "XZ" have z along the picture, "XY" has x.
            offset: where the plane cuts the third axis, mm.
            num_rays: rays to draw, 0 for none.
            color_by: what the colour of a ray says: its "source", its "wavelength", or the "bounce", how many surfaces
                it has met.
            labels: write the parts' names.
            legend: explain lines and colours beneath the axes; None does so on a figure of its own. A colour bar
                explains more than a few wavelengths or bounces in any case.
            figsize: of a new figure, inches; fitted to the scene if None.
            title: above the axes. xlim, ylim: the part of the section to show, mm.
            ax: axes to draw on; a new figure if None.

        Returns (figure, ax). Nothing is shown or saved. Raises TypeError and ValueError naming the argument.
        """
        plane = Plane(*PLANES[check_choice(projection, "projection", tuple(PLANES))], _finite(offset))
        check_choice(color_by, "color_by", COLOR_BY)
        num_rays = check_count(num_rays, "num_rays", minimum=0)
        lines = ray_lines(self.scene, result, num_rays) if num_rays else []
        parts = scene_parts(self.scene)
        lines = typical(lines, plane, parts.size, num_rays)
        limits = _limits(parts, plane, xlim, ylim)
        own = ax is None
        if own:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=figsize or _figure_size(limits), layout="constrained")
        curves = [(piece, cut(plane.project(piece.vertices), piece.faces)) for piece in parts.pieces]
        _draw_solids(ax, curves)
        keys = _draw_rays(ax, lines, plane, parts.size, color_by, self.scene.source_names)
        shown = _draw_curves(ax, curves)
        _draw_emitters(ax, parts, plane, curves)
        ax.set(xlim=limits[0], ylim=limits[1], aspect="equal", xlabel=plane.labels[0], ylabel=plane.labels[1])
        if title:
            ax.set_title(title)
        if own if legend is None else legend:
            kinds = [kind for kind in style.LINES if kind in shown or (kind == "source" and parts.emitters)]
            _draw_legend(ax.figure, kinds, keys)
        if labels:
            _draw_labels(ax, curves, parts.emitters, plane, make_room=ylim is None)
        return ax.figure, ax


def _finite(offset: Any) -> float:
    return float(check_number(offset, "offset"))


def _limits(parts: Parts, plane: Plane, xlim: Any, ylim: Any) -> tuple[tuple[float, float], tuple[float, float]]:
    lower, upper = plane.project(parts.lower), plane.project(parts.upper)
    margin = _MARGIN * max(upper[0] - lower[0], upper[1] - lower[1], 1e-9)
    fitted = [(float(lower[k] - margin), float(upper[k] + margin)) for k in (0, 1)]
    return xlim or fitted[0], ylim or fitted[1]


def _figure_size(limits: tuple[tuple[float, float], tuple[float, float]]) -> tuple[float, float]:
    (left, right), (low, high) = limits
    height = (_WIDTH - 0.8) * (high - low) / (right - left) + 1.0
    if height > _HEIGHTS[1]:  # a tall scene gets a narrow figure
        return max(4.0, (_HEIGHTS[1] - 1.0) * (right - left) / (high - low) + 0.8), _HEIGHTS[1]
    return _WIDTH, max(height, _HEIGHTS[0])


def _draw_solids(ax: Any, curves: list[tuple[Piece, list[np.ndarray]]]) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    groups: dict[tuple[int, int], list[np.ndarray]] = {}
    for piece, found in curves:
        for medium in piece.media:
            groups.setdefault((piece.body, id(medium)), []).extend(found)
    filled = set()
    for group in groups.values():
        if len(group) > _MOST_CURVES_TO_FILL or frozenset(map(id, group)) in filled:
            continue
        filled.add(frozenset(map(id, group)))
        loops = outlines(group)
        if loops:
            whole = Path.make_compound_path(*(Path(loop, closed=True) for loop in loops))
            ax.add_patch(PathPatch(whole, facecolor=style.GLASS_FILL, edgecolor="none", zorder=1.0))


def _draw_curves(ax: Any, curves: list[tuple[Piece, list[np.ndarray]]]) -> list[str]:
    """Draw every section and return the kinds that there were."""
    from matplotlib.collections import LineCollection

    shown = []
    for kind, look in style.LINES.items():
        found = [curve for piece, all_curves in curves if piece.kind == kind for curve in all_curves]
        if found:
            options = {f"{name}s": value for name, value in look.items()}
            ax.add_collection(LineCollection(found, zorder=3.0, capstyle="butt", **options), autolim=False)
            shown.append(kind)
    return shown


def _draw_emitters(ax: Any, parts: Parts, plane: Plane, curves: Any) -> None:
    look = style.LINES["source"]
    cut_ones = {piece.label for piece, found in curves if piece.kind == "source" and found}
    for emitter in parts.emitters:
        place, way = plane.project(emitter.place)[:2], (plane.project(emitter.way) - plane.project(np.zeros(3)))[:2]
        if emitter.label not in cut_ones:
            ax.plot(*place, marker="o", markersize=4.0, color=look["color"], zorder=4.0)
        if np.hypot(*way) > 0.1:
            tip = place + _ARROW * parts.size * way
            arrow = {"arrowstyle": "-|>", "color": look["color"], "linewidth": 1.2, "shrinkA": 0.0, "shrinkB": 0.0}
            ax.annotate("", xy=tip, xytext=place, arrowprops=arrow, zorder=4.0)


def _segments(ray: RayLine, plane: Plane, size: float) -> np.ndarray:
    points = ray.points
    if ray.way_out is not None:
        points = np.concatenate([points, points[-1:] + _WAY_OUT * size * ray.way_out])
    return plane.project(points)[:, :2]


def _draw_rays(
    ax: Any, lines: list[RayLine], plane: Plane, size: float, color_by: str, sources: list[str]
) -> list[Any]:
    """Draw the rays and return what explains their colours: handles for a legend, none where a colour bar does."""
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

    if not lines:
        return []
    drawn = [_course(ray, plane, size) for ray in lines]
    options = {"linewidths": 0.7, "alpha": float(np.clip(25.0 / len(lines), 0.3, 0.8)), "zorder": 2.0}
    if color_by == "source":
        values = np.array([max(ray.source, 0) for ray in lines])
        names = [f"rays of {sources[k]}" if k < len(sources) else "rays" for k in np.unique(values)]
        shades = [style.series_color(k) for k in np.unique(values)]
    elif color_by == "bounce":
        values = np.concatenate([np.arange(len(points) - 1) for points in drawn])
        drawn = [points[k : k + 2] for points in drawn for k in range(len(points) - 1)]
        names = ["before any surface"] + [f"after {k}" for k in np.unique(values)[1:]]
        shades = style.line_map()(np.linspace(0.0, 1.0, len(names)))
    else:
        values = np.array([ray.wavelength for ray in lines])
        names = [f"{v:.4g} µm" for v in np.unique(values)]
        shades = style.line_map()(np.linspace(0.0, 1.0, len(names)))
    rays = LineCollection(drawn, **options)
    ax.add_collection(rays, autolim=False)
    if len(names) > _FEW and color_by != "source":
        rays.set(array=values.astype(np.float64), cmap=style.line_map())
        title = "wavelength (µm)" if color_by == "wavelength" else "surfaces met"
        ax.figure.colorbar(rays, ax=ax, label=title, shrink=0.8).solids.set_alpha(1.0)
        return []
    rays.set_colors([shades[k] for k in np.searchsorted(np.unique(values), values)])
    return [Line2D([], [], color=c, linewidth=1.2, label=name) for name, c in zip(names, shades, strict=True)]


def _course(ray: RayLine, plane: Plane, size: float) -> np.ndarray:
    """The points of a ray in the picture; one that leaves the scene goes on."""
    points = ray.points
    if ray.way_out is not None:
        points = np.concatenate([points, points[-1:] + _WAY_OUT * size * ray.way_out])
    return plane.project(points)[:, :2]


def _draw_legend(figure: Any, shown: Iterable[str], rays: list[Any]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **style.LINES[kind], label=style.MEANINGS[kind]) for kind in shown] + rays
    if handles:
        columns = min(len(handles), 6)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=7.5, frameon=False)


def _draw_labels(ax: Any, curves: Any, emitters: list[Emitter], plane: Plane, *, make_room: bool) -> None:
    """Write each part's name above its highest point in the picture, higher where another name is in the way."""
    tops = _label_places(ax, curves, emitters, plane)
    if not tops:
        return
    options = {
        "textcoords": "offset points",
        "fontsize": _LABEL_SIZE,
        "zorder": 5.0,
        "annotation_clip": False,
        "bbox": {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.4},
        "arrowprops": {"arrowstyle": "-", "color": "0.6", "linewidth": 0.5, "shrinkA": 0.0, "shrinkB": 1.0},
    }
    endless = {piece.label for piece, _ in curves if piece.endless}
    texts = []
    for name, top in sorted(tops.items(), key=lambda item: tuple(item[1])):
        if name in endless:  # has no top; its name stands beside it
            ax.annotate(name, top, (-_LABEL_GAP, -_LABEL_GAP), ha="right", va="top", **{**options, "arrowprops": None})
        else:
            texts.append(ax.annotate(name, top, (0.0, _LABEL_GAP), ha="center", va="bottom", **options))
    ax.figure.canvas.figure.draw_without_rendering()  # the whole figure, also from a part of one
    placed: list[Any] = []
    per_point = ax.figure.dpi / 72.0
    for text in texts:
        box = text.get_window_extent().padded(2.0 * per_point)
        lift = 0.0
        while any(box.translated(0.0, lift).overlaps(other) for other in placed):
            lift += per_point
        placed.append(box.translated(0.0, lift))
        text.set_position((0.0, _LABEL_GAP + lift / per_point))
    over = max((box.y1 for box in placed), default=0.0) - ax.get_window_extent().y1
    if make_room and over > 0.0:
        low, high = ax.get_ylim()
        ax.set_ylim(low, high + (over + 2.0 * per_point) * (high - low) / ax.get_window_extent().height)


def _label_places(ax: Any, curves: Any, emitters: list[Emitter], plane: Plane) -> dict[str, np.ndarray]:
    """The middle of the highest visible points of each part."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    near = 1e-3 * (high - low)
    visible: dict[str, list[np.ndarray]] = {}
    for piece, found in curves:
        for curve in found:
            visible.setdefault(piece.label, []).append(_inside(curve, left, right, low, high))
    for emitter in emitters:
        if not visible.get(emitter.label):
            place = plane.project(emitter.place)[None, :2]
            visible[emitter.label] = [_inside(np.repeat(place, 2, axis=0), left, right, low, high)]
    tops = {}
    for label, all_points in visible.items():
        points = np.concatenate(all_points)
        if len(points):
            top = points[points[:, 1] >= points[:, 1].max() - near]
            tops[label] = np.array([0.5 * (top[:, 0].min() + top[:, 0].max()), top[:, 1].max()])
    return tops


def _inside(curve: np.ndarray, left: float, right: float, low: float, high: float) -> np.ndarray:
    """Points (n, 2) of a curve, and points between them, inside a rectangle."""
    share = np.linspace(0.0, 1.0, 9)[:, None, None]
    points = (curve[:-1] * (1.0 - share) + curve[1:] * share).reshape(-1, 2)
    visible = (points[:, 0] >= left) & (points[:, 0] <= right) & (points[:, 1] >= low) & (points[:, 1] <= high)
    return points[visible]
