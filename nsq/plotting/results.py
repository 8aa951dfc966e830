"""How the results of detectors are drawn; their ``plot`` methods lead here."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import style

_CUT_SHARE = 64  # a profile is the mean of the middle 1/64 of the rows, one row at least
_KNOWN_HITS = 100  # as many rays give a value to a tenth
_LONGEST = 12.0  # a detector longer than this many of its widths is not drawn to scale
_MOST_SPOTS = 20_000
_AT_ZERO_MM = 1e-5  # a centroid nearer to 0 than this is not worth a mention
_LEAST_MM = 0.1  # a spot smaller than this is drawn in µm about its centroid
_STRIP_DEG = 8.0  # width of the strip that a cut through a far field averages over
_CLIPPED = 5e-4  # share of the solid angle that may lie beyond the end of a colour scale
_HALO = {"linewidth": 2.0, "foreground": "black"}


def new_figure(**options: Any) -> Any:
    """The axes of a new figure."""
    import matplotlib.pyplot as plt

    return plt.subplots(**{"layout": "constrained", **options})[1]


def draw_map(
    ax: Any,
    data: np.ndarray,
    extent: tuple[float, float, float, float],
    unit: str,
    title: str,
    *,
    labels: tuple[str, str] = ("x (mm)", "y (mm)"),
    profiles: bool | None = None,
    hits: int | None = None,
    **options: Any,
) -> Any:
    """Draw ``data`` (ny, nx) over ``extent`` (left, right, low, high), with cuts through the middle beside it.

    ``profiles`` None draws the cuts on a new figure only. ``hits`` is the number of rays in the map: its colours end at
    the brightest place that enough of them reached, and what is brighter by chance lies beyond the end of the bar.
    Returns the map's axes.
    """
    from mpl_toolkits.axes_grid1 import make_axes_locatable

    own = ax is None
    width, height = extent[1] - extent[0], extent[3] - extent[2]
    if own:
        ax = new_figure(figsize=(6.4, float(np.clip(1.8 + 4.0 * height / width, 3.2, 8.0))), layout="tight")
    aspect = "equal" if max(width / height, height / width) <= _LONGEST else "auto"
    most, beyond = _brightest(data, hits)
    look = {"origin": "lower", "extent": extent, "aspect": aspect, "cmap": style.MAP}
    if "norm" not in options:
        look |= {"vmin": 0.0, "vmax": most}
    image = ax.imshow(data, **{**look, **options})
    extend = "max" if beyond and "vmax" not in options and "norm" not in options else "neither"
    ax.set(xlabel=labels[0], ylabel=labels[1])
    if title:
        ax.set_title(title)
    if not (own if profiles is None else profiles):
        to_scale = options.get("aspect", aspect) == "equal"
        shrink = float(np.clip(height / width, 0.5, 1.0)) if to_scale else 1.0  # about as tall as the map
        ax.figure.colorbar(image, ax=ax, label=unit, extend=extend, shrink=shrink)
        return ax
    divider = make_axes_locatable(ax)
    beside = divider.append_axes("right", size="22%", pad=0.12, sharey=ax)
    below = divider.append_axes("bottom", size="22%", pad=0.12, sharex=ax)
    bar = divider.append_axes("right", size="5%", pad=0.12)
    ax.figure.colorbar(image, cax=bar, label=unit, extend=extend)
    _draw_profiles(ax, below, beside, data, extent, unit, labels)
    return ax


def _brightest(data: np.ndarray, hits: int | None) -> tuple[float, bool]:
    """The brightest value known to a tenth, of as many pixels as that takes, and whether single ones exceed it."""
    top, total = float(data.max(initial=0.0)), float(data.sum())
    if not total > 0.0:
        return 1.0, False
    blocks, most = data, top
    while hits and most * data.size / blocks.size * hits / total < _KNOWN_HITS and min(blocks.shape) >= 4:
        rows, columns = (2 * (n // 2) for n in blocks.shape)
        blocks = blocks[:rows, :columns].reshape(rows // 2, 2, columns // 2, 2).mean(axis=(1, 3))
        most = float(blocks.max())
    most *= 1.05
    return (top, False) if most >= top else (most, True)


def _middle(values: np.ndarray) -> tuple[np.ndarray, int]:
    """The mean of the middle rows, and how many they are: even counts keep the middle of an even number of rows."""
    rows = len(values)
    count = max(1, rows // _CUT_SHARE)
    count += (rows - count) % 2
    start = (rows - count) // 2
    return values[start : start + count].mean(axis=0), count


def _draw_profiles(ax: Any, below: Any, beside: Any, data: np.ndarray, extent: Any, unit: str, labels: Any) -> None:
    left, right, low, high = extent
    along_x, rows = _middle(data)
    along_y, columns = _middle(data.T)
    top = max(along_x.max(initial=0.0), along_y.max(initial=0.0)) * 1.08 or 1.0
    color = style.SERIES[1]
    below.stairs(along_x, np.linspace(left, right, len(along_x) + 1), color=color, baseline=None)
    beside.stairs(
        along_y, np.linspace(low, high, len(along_y) + 1), color=color, baseline=None, orientation="horizontal"
    )
    ax.tick_params(labelbottom=False)
    ax.xaxis.label.set_visible(False)  # it stands below the cut
    below.set(xlabel=labels[0], ylabel=unit, ylim=(0.0, top))
    beside.set(xlim=(0.0, top))
    beside.tick_params(labelleft=False)
    below.yaxis.set_major_formatter(lambda value, _: f"{value:.3g}")
    beside.tick_params(labelbottom=False)  # the scale is that of the other cut
    for cut, axis in ((below, "y"), (beside, "x")):
        cut.locator_params(axis=axis, nbins=3)
        cut.grid(alpha=0.3, linewidth=0.5)
        cut.tick_params(labelsize=8.0)
    for place, count, size, cut in ((1, rows, high - low, below), (0, columns, right - left, beside)):
        note = f"|{labels[place].split()[0]}| < {0.5 * count * size / data.shape[1 - place]:.2g}"
        where = {"x": 0.98, "y": 0.94, "ha": "right", "va": "top", "fontsize": 7.0, "color": "0.3"}
        cut.text(s=note, transform=cut.transAxes, **where)


def draw_polar_map(ax: Any, pattern: Any, options: dict[str, Any]) -> Any:
    """Draw a far field as a disk, azimuth around and theta outwards."""
    from matplotlib.patheffects import withStroke

    ax = _polar(ax, figsize=(6.0, 5.0))
    intensity = pattern.intensity
    most, clipped = _scale(intensity, pattern.solid_angle)
    look = {"cmap": style.MAP, "vmin": 0.0, "vmax": most, "rasterized": True, **options}
    mesh = ax.pcolormesh(np.radians(pattern.phi_edges), pattern.theta_edges, intensity, **look)
    ax.grid(True, color="white", alpha=0.25, linewidth=0.5)
    ax.set_rlabel_position(67.5)
    ax.set_rlim(0.0, pattern.theta_max_deg)
    ticks = np.linspace(0.0, pattern.theta_max_deg, 4)[1:-1]
    halo = [withStroke(**_HALO)]
    ax.set_rgrids(ticks, [f"{t:.3g}°" for t in ticks], color="white", fontsize=8.0, path_effects=halo)
    ax.tick_params(axis="x", labelsize=8.0)
    ax.figure.colorbar(mesh, ax=ax, label="W/sr", pad=0.1, shrink=0.8, extend="max" if clipped else "neither")
    return ax


def _scale(intensity: np.ndarray, solid_angle: np.ndarray) -> tuple[float, bool]:
    """The end of a colour scale, and whether bins lie beyond it.

    Bins at the axis are tiny and hold few rays; a noisy one of them should not make all others dark.
    """
    values = intensity.ravel()
    weights = np.broadcast_to(solid_angle[:, None], intensity.shape).ravel()
    order = np.argsort(values)
    beyond = 1.0 - np.cumsum(weights[order]) / weights.sum()
    limit = float(values[order][min(int(np.searchsorted(-beyond, -_CLIPPED)), len(values) - 1)])
    most = float(values.max(initial=0.0))
    if limit <= 0.0 or most <= 1.1 * limit:
        return most or 1.0, False
    return limit, True


def _broad_cut(pattern: Any, phi: float) -> tuple[np.ndarray, np.ndarray]:
    """`FarFieldPattern.cut`, averaged over a strip of a few degrees across the cut.

    Bins are narrower the nearer they are to the axis and single ones hold few rays there; the strip is as wide all
    along.
    """
    intensity = pattern.intensity
    half = 0.5 * _STRIP_DEG / np.maximum(np.sin(np.radians(pattern.theta)), 1e-9)
    half = np.minimum(half, 90.0)[:, None]
    sides = []
    for azimuth in (phi + 180.0, phi):
        start = (pattern.phi_edges[:-1] - azimuth + 180.0) % 360.0 - 180.0
        width = 360.0 / pattern.num_bins_phi
        # a bin may reach over the far side, where azimuth jumps
        overlap = sum(
            np.clip(np.minimum(start + width + turn, half) - np.maximum(start + turn, -half), 0.0, None)
            for turn in (0.0, -360.0)
        )
        sides.append((intensity * overlap).sum(axis=1) / overlap.sum(axis=1))
    return np.concatenate([-pattern.theta[::-1], pattern.theta]), np.concatenate([sides[0][::-1], sides[1]])


def _draw_two_cuts(ax: Any, pattern: Any, scale: float, options: dict[str, Any]) -> None:
    for place, phi in enumerate((0.0, 90.0)):
        theta, intensity = _broad_cut(pattern, phi)
        look = {"color": style.SERIES[1 - place], "linestyle": ("-", "--")[place], "label": f"azimuth {phi:g}°"}
        ax.plot(scale * theta, intensity, **{**look, **options})


def draw_cuts(ax: Any, pattern: Any, options: dict[str, Any]) -> Any:
    """Draw intensity against theta in two planes."""
    ax = new_figure() if ax is None else ax
    _draw_two_cuts(ax, pattern, 1.0, options)
    ax.set(xlabel="theta (°)", ylabel="intensity (W/sr)", xlim=(-pattern.theta_max_deg, pattern.theta_max_deg))
    ax.set_ylim(0.0, 1.35 * ax.get_ylim()[1])  # room for the legend above whatever shape the curves have
    ax.grid(alpha=0.3, linewidth=0.5)
    ax.legend(loc="upper right", fontsize=8.0)
    return ax


def draw_diagram(ax: Any, pattern: Any, options: dict[str, Any]) -> Any:
    """Draw intensity as the distance from a pole, in two planes, as data sheets of luminaires do."""
    from matplotlib.ticker import MaxNLocator

    ax = _polar(ax, figsize=(6.4, 4.0))
    ax.set_theta_zero_location("N")
    _draw_two_cuts(ax, pattern, np.pi / 180.0, options)
    ax.set_thetalim(-0.5 * np.pi, 0.5 * np.pi)
    ax.set_thetagrids(range(-90, 91, 30), [f"{abs(a)}°" for a in range(-90, 91, 30)])
    top = ax.get_rmax()
    ax.set_rgrids([tick for tick in MaxNLocator(4).tick_values(0.0, top) if 0.0 < tick <= top])
    ax.set_rlim(bottom=0.0)
    ax.tick_params(labelsize=8.0)
    ax.legend(loc="upper left", bbox_to_anchor=(0.86, 1.0), fontsize=8.0, title="W/sr", title_fontsize=8.0)
    return ax


def _polar(ax: Any, **figure: Any) -> Any:
    """``ax``, which must be polar axes, or those of a new figure."""
    if ax is None:
        return new_figure(subplot_kw={"projection": "polar"}, **figure)
    if ax.name != "polar":
        raise ValueError(f"ax got axes of projection {ax.name!r}; this kind takes polar axes")
    return ax


FAR_FIELDS = {"polar": draw_polar_map, "cartesian": draw_cuts, "diagram": draw_diagram}


def draw_spectrum(ax: Any, edges: np.ndarray, flux: np.ndarray, options: dict[str, Any]) -> Any:
    """Draw the flux in each bin of wavelength."""
    ax = new_figure() if ax is None else ax
    ax.stairs(flux, edges, **{"color": style.SERIES[1], "fill": True, "alpha": 0.75, **options})
    ax.set(xlabel="wavelength (µm)", ylabel="flux in a bin (W)", xlim=(edges[0], edges[-1]))
    ax.set_ylim(bottom=0.0)
    ax.grid(alpha=0.3, linewidth=0.5)
    return ax


def draw_steps(ax: Any, values: np.ndarray, labels: tuple[str, str], title: str, options: dict[str, Any]) -> Any:
    """Draw a value for each of several numbered things."""
    ax = new_figure() if ax is None else ax
    ax.plot(np.arange(len(values)), values, **{"color": style.SERIES[1], "drawstyle": "steps-mid", **options})
    ax.set(xlabel=labels[0], ylabel=labels[1], title=title)
    ax.set_ylim(bottom=0.0)
    ax.grid(alpha=0.3, linewidth=0.5)
    return ax


def draw_groups(ax: Any, groups: Any, title: str, options: dict[str, Any]) -> Any:
    """Draw the flux of groups of paths as bars, the first of them on top."""
    ax = new_figure(figsize=(7.0, 1.4 + 0.3 * max(1, len(groups)))) if ax is None else ax
    several = len({g.source for g in groups}) > 1
    names = [
        f"{g.source + ': ' if several else ''}{', '.join(g.ghosts) or 'direct'} → {g.end.part or g.end.action}"
        for g in groups
    ]
    places = np.arange(len(groups))
    look = {"xerr": [g.standard_error for g in groups], "color": style.SERIES[1], "ecolor": "0.3", "capsize": 2.0}
    ax.barh(places, [g.flux for g in groups], **{**look, **options})
    ax.set_yticks(places, names, fontsize=8.0)
    ax.invert_yaxis()
    ax.set(xlabel="flux (W)", title=title)
    ax.grid(axis="x", alpha=0.3, linewidth=0.5)
    return ax


def draw_spots(ax: Any, rays: dict[str, np.ndarray], axes: str, title: str, options: dict[str, Any]) -> Any:
    """Draw where rays land, by wavelength; small spots in µm about their centroid."""
    ax = new_figure(figsize=(5.6, 4.8)) if ax is None else ax
    count = len(rays["flux"])
    shown = slice(None, None, -(-count // _MOST_SPOTS) if count else None)
    total = rays["flux"].sum()
    weights = rays["flux"] / total if total > 0.0 else np.full(count, 1.0 / max(1, count))
    columns, names, squares = [], [], 0.0
    spread = max((np.ptp(rays[axis]) if count else 1.0 for axis in axes), default=1.0)
    small = 0.0 < spread < _LEAST_MM
    for axis in axes:
        centroid = float(np.sum(weights * rays[axis]))
        squares += float(np.sum(weights * (rays[axis] - centroid) ** 2))
        columns.append(1e3 * (rays[axis] - centroid)[shown] if small else rays[axis][shown])
        about = "" if abs(centroid) < _AT_ZERO_MM else f" {'-' if centroid > 0.0 else '+'} {abs(centroid):.5g} mm"
        names.append(f"{axis}{about} (µm)" if small else f"{axis} (mm)")
    look = {"s": 3.0, "linewidths": 0.0, "cmap": style.line_map(), "alpha": 0.7, "rasterized": True, **options}
    spots = ax.scatter(*columns, c=rays["wavelength"][shown], **look)
    lines = np.unique(rays["wavelength"])
    if len(lines) != 1:
        bar = ax.figure.colorbar(spots, ax=ax, label="wavelength (µm)")
        bar.solids.set_alpha(1.0)
        if 0 < len(lines) <= 6:
            bar.set_ticks(lines, labels=[f"{v:.4g}" for v in lines])
    ax.set_aspect("equal", adjustable="datalim")
    ax.set(xlabel=names[0], ylabel=names[1])
    ax.grid(alpha=0.3, linewidth=0.5)
    rms = np.sqrt(max(squares, 0.0))
    size = f"RMS radius {1e3 * rms:.3g} µm" if rms < _LEAST_MM else f"RMS radius {rms:.3g} mm"
    ax.set_title(f"{title}   {size}".strip() if count else title)
    return ax


def draw_all(results: dict[str, Any]) -> Any:
    """Draw the results of several detectors on a new figure and return it."""
    import matplotlib.pyplot as plt

    columns = min(3, max(1, len(results)))
    rows = -(-max(1, len(results)) // columns)
    figure = plt.figure(figsize=(4.6 * columns, 3.8 * rows), layout="constrained")
    for place, result in enumerate(results.values(), start=1):
        result.plot(figure.add_subplot(rows, columns, place, projection=result.PROJECTION))
    return figure
