"""From a scene to flat tensors: one row a surface or detector or source, tables over the scene's wavelengths.

Everything here is ``torch`` in float64 and stays attached, so a gradient with respect to a table reaches whatever number
of the scene stands behind it. Surfaces come first and detectors after them, each in order of registration; a ray meets
both kinds in one search.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernels import bsdfs
from kernels import detectors as detector_rows
from kernels import sources as source_rows
from kernels.trace import layout as at
from kernels.trace.tables import SourceRun

from .coatings import coating_table, reflectance_table
from .coordinates import lower_frames
from .materials import VACUUM
from .numbers import stack, to_float
from .sources import CollimatedSource, ExtendedSource, PointSource

if TYPE_CHECKING:
    from .scene import NSQScene


@dataclass(frozen=True)
class SceneTensors:
    """The differentiable tables of a scene, float64, in the order in which the trace takes them.

    Attributes:
        numbers: (rows, 10), origin, axis and quadric coefficients of every surface and detector.
        index, extinction: (media, W), n and k.
        reflectance, transmittance: (rows, W), of mirrors and coatings.
        detector_numbers: (detectors, 11), origin, x axis, y axis, width, height.
        source_numbers: (sources, 17), rotation, origin, flux of a ray, shape.
        shares: (rows, 3), share of flux scattered, reflectance of the lobe, probability that a lobe lies behind.
    """

    numbers: torch.Tensor
    index: torch.Tensor
    extinction: torch.Tensor
    reflectance: torch.Tensor
    transmittance: torch.Tensor
    detector_numbers: torch.Tensor
    source_numbers: torch.Tensor
    shares: torch.Tensor

    def as_tuple(self) -> tuple[torch.Tensor, ...]:
        return tuple(getattr(self, f.name) for f in fields(self))

    @property
    def require_grad(self) -> bool:
        return any(tensor.requires_grad for tensor in self.as_tuple())


@dataclass(frozen=True)
class SceneIR:
    """A lowered scene: the differentiable tables and everything about it that has no gradient.

    Attributes:
        tensors: the differentiable tables.
        domain: (rows, 15) array, the other two axes and the limits of every surface.
        rows: (rows, 5) integers, what happens at a surface, its two media, its scatter lobe and where its table begins.
        lobes: tables of scatter lobes, one after another.
        detector_ints: (detectors, 7) integers; detector_sigmas: (detectors,).
        planes: (detectors, W), the plane of pixels that a spectral line belongs to.
        wavelengths: (W,) array, µm. sources: rays of each source. cumulative, source_lines: spectra, one after another.
        map_sizes: (detectors,), cells of each map. flux_in: total flux, W. eps: least distance to a surface that the ray does not start on, mm, by precision.
        surface_names, detector_names: in order of the rows.
    """

    tensors: SceneTensors
    domain: np.ndarray
    rows: np.ndarray
    lobes: np.ndarray
    detector_ints: np.ndarray
    detector_sigmas: np.ndarray
    planes: np.ndarray
    wavelengths: np.ndarray
    sources: tuple[SourceRun, ...]
    cumulative: np.ndarray
    source_lines: np.ndarray
    map_sizes: np.ndarray
    flux_in: float
    eps: dict[str, float]
    surface_names: tuple[str, ...]
    detector_names: tuple[str, ...]

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    @property
    def first_detector(self) -> int:
        return len(self.surface_names)

    @property
    def map_size(self) -> int:
        """Cells of all maps together."""
        return int(self.map_sizes.sum())


def lower(scene: NSQScene, num_rays: int, device: Any = "cpu") -> SceneIR:
    """Lower a validated scene for a trace of ``num_rays`` rays. Raises ValueError for fewer rays than sources."""
    surfaces, detectors, sources = scene.surfaces, scene.detectors, scene.sources
    wavelengths = np.unique(np.concatenate([s.spectrum.wavelengths for s in sources]))
    lines = torch.tensor(wavelengths, dtype=torch.float64, device=device)
    media = _Media(lines)
    for source in sources:
        media.number_of(source.medium)
    lobes = _Lobes()
    rows = np.array(
        [_surface_row(s, media, lobes) for s in surfaces] + [_detector_row(d) for d in detectors], dtype=np.int64
    ).reshape(-1, at.NUM_ROW_INTS)
    posed = [*surfaces, *detectors]
    rotation, origin = lower_frames([item.cs for item in [*posed, *sources]], device)
    coefficients, limits = _quadrics([item.geometry for item in posed], device)
    _warn_of_limits(posed)
    turn, place = rotation[: len(posed)], origin[: len(posed)]
    numbers = torch.cat([place, turn[:, :, 2], coefficients], dim=1)
    index, extinction = media.tables()
    reflectance, transmittance = _share_tables(posed, lines)
    detector_ints, sigmas, sizes, planes = _detector_ints(detectors, wavelengths)
    detector_numbers = _detector_numbers(detectors, turn[len(surfaces) :], place[len(surfaces) :])
    runs, source_numbers, cumulative, source_lines = _sources(
        sources, rotation[len(posed) :], origin[len(posed) :], num_rays, wavelengths, media
    )
    tensors = SceneTensors(
        numbers, index, extinction, reflectance, transmittance, detector_numbers, source_numbers,
        _shares(posed, device),
    )  # fmt: skip
    return SceneIR(
        tensors=tensors,
        domain=_domain(turn, limits),
        rows=rows,
        lobes=lobes.table(),
        detector_ints=detector_ints,
        detector_sigmas=sigmas,
        planes=planes,
        map_sizes=sizes,
        wavelengths=wavelengths,
        sources=runs,
        cumulative=cumulative,
        source_lines=source_lines,
        flux_in=sum(to_float(s.total_flux) for s in sources),
        eps={"float64": 1e-9, "float32": 1e-6 * _extent(origin, limits)},
        surface_names=tuple(s.name for s in surfaces),
        detector_names=tuple(scene.detector_names),
    )


def lower_surfaces(placed: list[tuple[Any, Any]]) -> tuple[torch.Tensor, np.ndarray]:
    """Numbers (rows, 10), attached, and limits (rows, 15) of (frame, geometry) pairs."""
    turn, place = lower_frames([cs for cs, _ in placed])
    coefficients, limits = _quadrics([geometry for _, geometry in placed], "cpu")
    return torch.cat([place, turn[:, :, 2], coefficients], dim=1), _domain(turn, limits)


def lower_source(source: Any, rays: int) -> tuple[int, torch.Tensor]:
    """The row of a source and its numbers (17,), attached, for its flux spread over ``rays`` rays."""
    turn, place = lower_frames([source.cs])
    kind, shape = _SHAPES[type(source)](source)
    values = stack([source.total_flux, *shape, *[0.0] * (at.NUM_SHAPE - len(shape))])
    return kind, torch.cat([turn.reshape(9), place[0], values[:1] / rays, values[1:]])


class _Media:
    """Media by identity, numbered as they come; 0 is vacuum."""

    def __init__(self, lines: torch.Tensor) -> None:
        self._lines = lines
        self._numbers: dict[int, int] = {}
        self._media: list[Any] = []
        self.number_of(VACUUM)

    def number_of(self, medium: Any) -> int:
        if medium is None or medium.optiland_material is None:
            medium = VACUUM
        key = id(medium)
        if key not in self._numbers:
            self._numbers[key] = len(self._media)
            self._media.append(medium)
        return self._numbers[key]

    def tables(self) -> tuple[torch.Tensor, torch.Tensor]:
        n, k = zip(*(medium.index_table(self._lines) for medium in self._media), strict=True)
        return torch.stack(n), torch.stack(k)


_KINDS = {"refract": at.REFRACT, "reflect": at.MIRROR, "absorb": at.ABSORBER}


class _Lobes:
    """Tables of scatter lobes, each once."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._parts: list[np.ndarray] = []
        self._size = 0

    def code_and_start(self, bsdf: Any) -> tuple[int, int]:
        if bsdf is None:
            return -1, 0
        row = getattr(bsdf, "ROW", None)
        if row not in bsdfs.NAMES:
            raise TypeError(f"bsdf got {type(bsdf).__name__}; it takes a scatter lobe such as LambertianBSDF")
        if id(bsdf) not in self._starts:
            part = lobe_table(bsdf)
            self._starts[id(bsdf)] = self._size
            self._parts.append(part)
            self._size += len(part)
        return bsdfs.NAMES.index(row), self._starts[id(bsdf)]

    def table(self) -> np.ndarray:
        return np.concatenate(self._parts) if self._parts else np.zeros(0)


def lobe_table(bsdf: Any) -> np.ndarray:
    """A lobe's table as the device reads it; a radial one says how many entries it has."""
    table = np.asarray(bsdf.table(), dtype=np.float64)
    return np.concatenate([table[:1], [len(table) - 1.0], table[1:]]) if bsdf.ROW == "radial" else table


def _surface_row(surface: Any, media: _Media, lobes: _Lobes) -> tuple[int, ...]:
    kind = at.COATED if surface.coating is not None else _KINDS[surface.kind]
    sides = media.number_of(surface.material_front), media.number_of(surface.material_back)
    return kind, *sides, *lobes.code_and_start(surface.bsdf)


def _detector_row(detector: Any) -> tuple[int, ...]:
    return (at.DETECTOR if detector.absorb else at.TAP), 0, 0, -1, 0


def _shares(posed: list[Any], device: Any) -> torch.Tensor:
    """Scattered share, reflectance and probability behind (rows, 3), attached."""
    values: list[Any] = []
    for item in posed:
        bsdf = getattr(item, "bsdf", None)
        values += (0.0, 1.0, 0.0) if bsdf is None else (item.scatter_fraction, *bsdf.numbers())
    return stack(values, device).reshape(-1, at.NUM_SCATTER)


def _quadrics(geometries: list[Any], device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Coefficients (rows, 4) and limits (rows, 9), each kind of shape in one go."""
    groups: dict[type, list[int]] = {}
    for place, geometry in enumerate(geometries):
        groups.setdefault(type(geometry), []).append(place)
    coefficients, limits, order = [], [], []
    for kind, places in groups.items():
        values = [value for place in places for value in geometries[place].numbers()]
        shaped = kind.quadric(stack(values, device).reshape(len(places), -1))
        coefficients.append(shaped[0])
        limits.append(shaped[1])
        order += places
    back = torch.argsort(torch.tensor(order, device=coefficients[0].device))
    return torch.cat(coefficients)[back], torch.cat(limits).detach()[back]


def _domain(turn: torch.Tensor, limits: torch.Tensor) -> np.ndarray:
    """The search's limits: the local x and y axes, squared radii, half sides, z range, sheet, and whether the nearer
    root alone counts."""
    axes = turn.detach()[:, :, :2].transpose(1, 2).reshape(-1, 6)
    squared = limits[:, :2] ** 2
    return torch.cat([axes, squared, limits[:, 2:]], dim=1).cpu().numpy()


def _extent(origin: torch.Tensor, limits: torch.Tensor) -> float:
    """A length that the scene's smallest sensible distance scales with, mm."""
    place = origin.detach()
    spread = float((place - place.mean(dim=0)).abs().max())
    sizes = limits[:, [1, 2, 3, 4, 5]].abs()
    sizes = sizes[torch.isfinite(sizes)]
    return max(spread, float(sizes.max()) if sizes.numel() else 0.0) or 1.0


# numbers of a surface that only say where it ends: no derivative reaches them yet
_LIMITS = ("aperture_radius", "inner_radius", "outer_radius")


def _warn_of_limits(posed: list[Any]) -> None:
    for item in posed:
        for name in _LIMITS:
            value = getattr(item.geometry, name, None)
            if torch.is_grad_enabled() and isinstance(value, torch.Tensor) and value.requires_grad:
                warnings.warn(
                    f"{item.name or type(item).__name__}: {name} requires a gradient, but what a moving rim lets pass"
                    " (visibility) is not differentiated",
                    stacklevel=2,
                )


def _share_tables(posed: list[Any], lines: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Reflectance and transmittance of mirrors and coatings; rows of zeros for everything else."""
    nothing = torch.zeros_like(lines)
    reflectance, transmittance = [], []
    for item in posed:
        r, t = nothing, nothing
        if getattr(item, "coating", None) is not None:
            r, t = coating_table(item.coating, lines)
        elif getattr(item, "reflectance", None) is not None:
            r = reflectance_table(item.reflectance, lines)
        reflectance.append(r)
        transmittance.append(t)
    return torch.stack(reflectance), torch.stack(transmittance)


_SPLATS = {"hard": at.HARD, "bilinear": at.BILINEAR, "gaussian": at.GAUSSIAN}


def _grid(detector: Any) -> tuple[int, int, int, int]:
    """(pixels in x, pixels in y, planes, what pixels are) of a detector; no pixels for one that keeps rays."""
    if hasattr(detector, "num_bins_theta"):
        return detector.num_bins_phi, detector.num_bins_theta, 1, detector_rows.FAR_FIELD
    if not hasattr(detector, "num_pixels_x"):
        return 0, 0, 0, detector_rows.PLANE
    bins = getattr(detector, "wavelength_bins", None)
    depth = 1 if bins is None else len(bins) - 1
    return detector.num_pixels_x, detector.num_pixels_y, depth, detector_rows.PLANE


def _detector_ints(detectors: list[Any], wavelengths: np.ndarray) -> tuple[np.ndarray, ...]:
    """Integers (detectors, 7), sigmas, cells of each map, and the plane of each line (detectors, W)."""
    ints, sigmas, sizes, planes = [], [], [], []
    for detector in detectors:
        nx, ny, depth, reads = _grid(detector)
        splat, sigma = at.RECORD, 1.0
        if nx:
            splat, sigma = _SPLATS[detector.splat], _sigma_of(detector)
            splat = at.HARD if splat == at.GAUSSIAN and sigma <= 0.0 else splat
        reach = max(1, math.ceil(3.0 * sigma))
        wraps = int(reads == detector_rows.FAR_FIELD)
        ints.append((nx, ny, splat, sum(sizes), reach, reads, wraps))
        sizes.append(nx * ny * depth)
        sigmas.append(sigma if sigma > 0.0 else 1.0)
        planes.append(detector.bins_of(wavelengths) if depth > 1 else np.zeros(len(wavelengths), dtype=np.int64))
    table = np.array(ints, dtype=np.int32).reshape(-1, at.NUM_DETECTOR_INTS)
    return table, np.array(sigmas), np.array(sizes, dtype=np.int64), np.array(planes, dtype=np.int32)


def _sigma_of(detector: Any) -> float:
    sigma = getattr(detector, "splat_sigma", 0.0)
    if isinstance(sigma, torch.Tensor) and sigma.requires_grad:
        raise ValueError(
            f"splat_sigma of detector {detector.name!r} requires a gradient; it takes a number without one, because the"
            " width of a splat is not differentiated"
        )
    return to_float(sigma)


def _ranges(detector: Any) -> tuple[Any, Any]:
    """What the pixels span: lengths in mm, or degrees of azimuth and polar angle."""
    if hasattr(detector, "theta_max_deg"):
        return 360.0, detector.theta_max_deg
    return getattr(detector, "width", 1.0), getattr(detector, "height", 1.0)


def _detector_numbers(detectors: list[Any], turn: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    size = stack([v for d in detectors for v in _ranges(d)], place.device).reshape(-1, 2)
    return torch.cat([place, turn[:, :, 0], turn[:, :, 1], size], dim=1)


# ---- sources ---------------------------------------------------------------------------------------------------------


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


# source class -> the code of its row and the shape numbers that the row takes
_SHAPES = {CollimatedSource: _collimated, PointSource: _point, ExtendedSource: _extended}


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


def _sources(sources, turn, place, num_rays, wavelengths, media):
    """Rays of each source, their numbers (sources, 17), and their spectra one after another."""
    budget = ray_budget(num_rays, [to_float(s.total_flux) for s in sources])
    runs, values, cumulative, lines, start = [], [], [], [], 0
    for source, rays in zip(sources, budget, strict=True):
        kind, shape = _SHAPES[type(source)](source)
        values += [source.total_flux, *shape, *[0.0] * (at.NUM_SHAPE - len(shape))]
        own = np.searchsorted(wavelengths, source.spectrum.wavelengths)
        line = int(own[0]) if len(own) == 1 else -1
        medium = media.number_of(source.medium)
        runs.append(SourceRun(kind, start, start + rays, medium, line, len(lines), len(own)))
        lines += own.tolist()
        cumulative += source.spectrum.cumulative.tolist()
        start += rays
    values = stack(values, place.device).reshape(len(sources), 1 + at.NUM_SHAPE)
    rays = torch.tensor(budget, dtype=torch.float64, device=place.device)[:, None]
    numbers = torch.cat([turn.reshape(-1, 9), place, values[:, :1] / rays, values[:, 1:]], dim=1)
    return tuple(runs), numbers, np.array(cumulative), np.array(lines)
