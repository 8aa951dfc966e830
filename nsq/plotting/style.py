"""Colours and lines of the pictures, told apart by lightness and shape as well as by hue.

The hues are those of Okabe and Ito (Color Universal Design, 2008), which people with any kind of colour vision tell
apart; the maps are viridis, whose lightness rises evenly.
"""

from __future__ import annotations

from typing import Any

# Okabe and Ito, without the yellow, which is lost on white paper; the first is for the first source
SERIES = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MAP = "viridis"

GLASS_FILL = "#CFE3F1"
LINES: dict[str, dict[str, Any]] = {
    "refract": {"color": "#30577A", "linewidth": 1.0, "linestyle": "-"},
    "reflect": {"color": "#222222", "linewidth": 2.2, "linestyle": "-"},
    "absorb": {"color": "#444444", "linewidth": 1.0, "linestyle": (0, (4.0, 2.0))},
    "detector": {"color": "#009E73", "linewidth": 2.6, "linestyle": "-"},
    "tap": {"color": "#009E73", "linewidth": 1.8, "linestyle": (0, (1.5, 1.0))},
    "source": {"color": "#D55E00", "linewidth": 2.2, "linestyle": "-"},
}
MEANINGS = {
    "refract": "refracting",
    "reflect": "mirror",
    "absorb": "absorbing",
    "detector": "detector",
    "tap": "detector that lets rays pass",
    "source": "source",
}


def series_color(place: int) -> str:
    """The colour of the ``place``-th of several lines."""
    return SERIES[place % len(SERIES)]


def line_map() -> Any:
    """A colour map for lines and dots on white: viridis without its palest end."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap

    return ListedColormap(colormaps[MAP].resampled(256).colors[:216], name="viridis_on_white")
