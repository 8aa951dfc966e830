"""Sources: their rays, their spectra and the numbers that shape them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from kernels import sources as source_rows
from kernels.trace import layout as at
from kernels.trace.tables import SourceRun

from ..coordinates import lower_frames
from ..formats.angular import AngularDistribution
from ..numbers import stack, to_float
from ..sources import CollimatedSource, ExtendedSource, LuminaireSource, PointSource, RayFileSource

_LONGEST_TABLE = 2**31 - 1  # kernels count in 32 bits


def _versine(half_angle_deg: Any) -> Any:
    """1 - cos of an angle in degrees, without cancellation: 2 sin(a / 2)^2."""
    if isinstance(half_angle_deg, torch.Tensor):
        return 2.0 * torch.sin(torch.deg2rad(half_angle_deg.to(torch.float64)) / 2.0) ** 2
    return 2.0 * math.sin(math.radians(float(half_angle_deg)) / 2.0) ** 2


def _collimated(source: CollimatedSource) -> tuple[int, tuple[Any, ...]]:
    if source.profile == "tophat":
        return source_rows.COLLIMATED, (source.aperture_radius,)
    sigma = source.gaussian_sigma
    return source_rows.GAUSSIAN, (source.aperture_radius, source.aperture_radius / 2.0 if sigma is None else sigma)


def _point(source: PointSource) -> tuple[int, tuple[Any, ...]]:
    return source_rows.POINT, (_versine(source.half_angle_deg),)


def _extended(source: ExtendedSource) -> tuple[int, tuple[Any, ...]]:
    disk = -1.0 if source.aperture_radius is None else source.aperture_radius
    lambertian = to_float(source.half_angle_deg) >= 90.0
    cone = -1.0 if lambertian else _versine(source.half_angle_deg)
    return source_rows.EXTENDED, (source.width, source.height, disk, cone)


def _luminaire(source: LuminaireSource) -> tuple[int, tuple[Any, ...]]:
    rectangle = (0.0, 0.0) if source.width is None else (source.width, source.height)
    disk = -1.0 if source.aperture_radius is None else source.aperture_radius
    return source_rows.LUMINAIRE, (*rectangle, disk)


def _ray_file(source: RayFileSource) -> tuple[int, tuple[Any, ...]]:
    return source_rows.RAY_FILE, ()


# source class -> the code of its row and the shape numbers that the row takes
_SHAPES = {
    CollimatedSource: _collimated,
    PointSource: _point,
    ExtendedSource: _extended,
    LuminaireSource: _luminaire,
    RayFileSource: _ray_file,
}


def luminaire_table(distribution: AngularDistribution) -> np.ndarray:
    """The table that the row of luminaires samples, as `kernels.sources.luminaire` lays it out."""
    theta, phi = np.radians(distribution.theta), np.radians(distribution.phi)
    phi = np.append(phi, phi[0] + 2.0 * math.pi)
    intensity = np.concatenate([distribution.intensity, distribution.intensity[:, :1]], axis=1)
    cells = 0.5 * (intensity[:, 1:] + intensity[:, :-1]) * np.diff(phi)
    around = np.concatenate([np.zeros((len(theta), 1)), np.cumsum(cells, axis=1)], axis=1)
    # of (p + q t) sin(a + t) over each row of cells, t from 0 to h, by parts
    a, h = theta[:-1], np.diff(theta)
    p, q = around[:-1, -1], np.diff(around[:, -1]) / h
    middle, half = a + 0.5 * h, np.sin(0.5 * h)
    rows = 2.0 * half * (p * np.sin(middle) + q * np.cos(middle)) - q * h * np.cos(a + h)
    down = np.append(0.0, np.cumsum(np.maximum(rows, 0.0)))
    return np.concatenate([[len(theta), len(phi)], theta, phi, down, intensity.ravel(), around.ravel()])


def _ray_table(source: RayFileSource) -> np.ndarray:
    rays, lines = source.born()
    flux = np.cumsum(rays.flux)
    length = np.sqrt(rays.L**2 + rays.M**2 + rays.N**2)
    columns = [rays.x, rays.y, rays.z, *(c / length for c in (rays.L, rays.M, rays.N)), lines]
    return np.concatenate([[rays.num_rays], flux / flux[-1], *columns])


# source class -> the numbers of its table
_TABLES = {LuminaireSource: lambda source: luminaire_table(source.distribution), RayFileSource: _ray_table}


def _entry(table: dict[type, Any], source: Any, default: Any) -> Any:
    """What the table has for the source's class, or for the nearest class that it is derived from."""
    return next((table[kind] for kind in type(source).__mro__ if kind in table), default)


def _shape_of(source: Any) -> tuple[int, tuple[Any, ...]]:
    shape = _entry(_SHAPES, source, None)
    if shape is None:
        known = ", ".join(kind.__name__ for kind in _SHAPES)
        raise TypeError(f"source got {type(source).__name__}; the trace takes {known} and classes derived from them")
    return shape(source)


def source_table(source: Any) -> np.ndarray:
    """The table of a source, empty for one that has none."""
    table = _entry(_TABLES, source, None)
    return np.zeros(0) if table is None else table(source)


def has_own_lines(source: Any) -> bool:
    """Whether the spectral line of a ray comes with the ray."""
    return getattr(source, "own_lines", False)


def ray_budget(num_rays: int, fluxes: list[float]) -> list[int]:
    """Rays for each source: one each, the rest in proportion to flux by largest remainder; the sum is ``num_rays``."""
    count = len(fluxes)
    if num_rays < count:
        raise ValueError(f"num_rays got {num_rays}; it takes at least one ray for each of the {count} sources")
    rest, total = num_rays - count, sum(fluxes)
    shares = [rest * (f / total if total > 0.0 else 1.0 / count) for f in fluxes]
    budget = [math.floor(share) for share in shares]
    by_remainder = sorted(range(count), key=lambda i: (budget[i] - shares[i], i))
    for i in by_remainder[: rest - sum(budget)]:
        budget[i] += 1
    return [rays + 1 for rays in budget]


def lower_sources(sources, turn, place, num_rays, wavelengths, media):
    """Rays of each source, their numbers (sources, 17), and their spectra and tables one after another."""
    budget = ray_budget(num_rays, [to_float(s.total_flux) for s in sources])
    runs, values, cumulative, lines, tables, start, block = [], [], [], [], [], 0, 0
    for source, rays in zip(sources, budget, strict=True):
        kind, shape = _shape_of(source)
        values += [source.total_flux, *shape, *[0.0] * (at.NUM_SHAPE - len(shape))]
        own = np.searchsorted(wavelengths, source.spectrum.wavelengths)
        line = int(own[0]) if len(own) == 1 else -1
        medium = media.number_of(source.medium)
        own_lines = line < 0 and has_own_lines(source)
        runs.append(SourceRun(kind, start, start + rays, medium, line, len(lines), len(own), block, own_lines))
        tables.append(source_table(source))
        block += len(tables[-1])
        lines += own.tolist()
        cumulative += source.spectrum.cumulative.tolist()
        start += rays
    values = stack(values, place.device).reshape(len(sources), 1 + at.NUM_SHAPE)
    rays = torch.tensor(budget, dtype=torch.float64, device=place.device)[:, None]
    numbers = torch.cat([turn.reshape(-1, 9), place, values[:, :1] / rays, values[:, 1:]], dim=1)
    if block > _LONGEST_TABLE:
        raise ValueError(f"the tables of the sources hold {block} numbers; a scene takes at most {_LONGEST_TABLE}")
    return tuple(runs), numbers, np.array(cumulative), np.array(lines), np.concatenate(tables)


def lower_source(source: Any, rays: int) -> tuple[int, torch.Tensor]:
    """The row of a source and its numbers (17,), attached, for its flux spread over ``rays`` rays."""
    turn, place = lower_frames([source.cs])
    kind, shape = _shape_of(source)
    values = stack([source.total_flux, *shape, *[0.0] * (at.NUM_SHAPE - len(shape))])
    return kind, torch.cat([turn.reshape(9), place[0], values[:1] / rays, values[1:]])
