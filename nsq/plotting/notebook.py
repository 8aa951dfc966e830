"""What a notebook shows of a scene and of results: a small table and a thumbnail, as HTML."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Iterable
from typing import Any

_DPI = 80
_MOST_THUMBNAILS = 4
_FONT = {"font.size": 7.0, "axes.titlesize": 8.0, "axes.labelsize": 7.0}


def _table(title: str, rows: Iterable[tuple[str, ...]]) -> str:
    cells = []
    for head, *values in rows:
        shown = "".join(f'<td style="text-align:right">{html.escape(value)}</td>' for value in values)
        cells.append(f'<tr><th style="text-align:left">{html.escape(head)}</th>{shown}</tr>')
    return f"<table><caption><b>{html.escape(title)}</b></caption>{''.join(cells)}</table>"


def _thumbnail(draw: Callable[[Any], Any], size: tuple[float, float], projection: str | None = None) -> str:
    """An image of what ``draw`` draws on axes, without a trace in matplotlib's state."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_FONT):
        figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.add_subplot(projection=projection))
        stream = io.BytesIO()
        figure.savefig(stream, format="png")
    return f'<img src="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"/>'


def _side_by_side(*parts: str) -> str:
    cells = "".join(f'<div style="margin-right:1em">{part}</div>' for part in parts)
    return f'<div style="display:flex;flex-wrap:wrap;align-items:center">{cells}</div>'


def detector_html(result: Any) -> str:
    """A detector's result: its numbers and its plot."""
    rows = [("flux", f"{result.total_flux_float:.6g} W"), ("rays", f"{result.num_rays_hit:,}"), *result.facts()]
    title = f"{type(result).__name__} {result.name}".strip()
    return _side_by_side(_table(title, rows), result_thumbnail(result))


def result_thumbnail(result: Any) -> str:
    """The plot of a detector's result."""
    return _thumbnail(result.plot, (3.2, 2.6), result.PROJECTION)


def simulation_html(result: Any) -> str:
    """A whole result: where the flux went, and the plots of the first few detectors."""
    shares = (
        ("in", result.total_flux_in),
        ("detected", result.total_flux_detected),
        ("of which tapped", result.total_flux_tapped),
        ("absorbed by surfaces", result.total_flux_absorbed),
        ("lost in mirrors and coatings", result.total_flux_coating),
        ("absorbed in media", result.total_flux_bulk_absorbed),
        ("escaped", result.total_flux_escaped),
        ("given up", result.total_flux_lost),
    )
    whole = result.total_flux_in or 1.0
    rows = [(label, f"{flux:.5g} W", f"{flux / whole:.2%}") for label, flux in shares]
    table = _table(f"{result.num_rays_total:,} rays in {result.trace_time_sec:.3g} s", rows)
    shown = [r for r in list(result.detectors.values())[:_MOST_THUMBNAILS] if hasattr(r, "PROJECTION")]
    return _side_by_side(table, *(result_thumbnail(r) for r in shown))


def scene_html(scene: Any) -> str:
    """A scene: the names of what is in it, and its section without rays."""
    rows = [
        ("sources", ", ".join(scene.source_names) or "none"),
        ("components", ", ".join(scene.component_names) or "none"),
        ("detectors", ", ".join(scene.detector_names) or "none"),
    ]
    table = _table("NSQScene", rows)
    if not (scene.surfaces or scene.sources or scene.detectors):
        return table
    return _side_by_side(table, _thumbnail(lambda ax: scene.view(ax=ax, num_rays=0), (5.0, 2.8)))
