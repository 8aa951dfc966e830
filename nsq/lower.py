"""From a scene to flat tensors: one row a surface or detector or source, tables over the scene's wavelengths.

Everything here is ``torch`` in float64 and stays attached, so a gradient with respect to a table reaches whatever
number of the scene stands behind it. Surfaces come first and detectors after them, each in order of registration; a ray
meets both kinds in one search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kernels.trace import layout as at

from .coordinates import lower_frames
from .lowering.contacts import Sides
from .lowering.emitters import lower_sources
from .lowering.hidden import warn_of_hidden_detectors
from .lowering.ir import SceneIR, SceneTensors
from .lowering.optics import Lobes, Media, angular_tables, lobe_shares, medium_classes, share_tables
from .lowering.readers import lower_readers
from .lowering.surfaces import lower_rows
from .lowering.targets import lower_targets
from .numbers import to_float

if TYPE_CHECKING:
    from .scene import NSQScene

_KINDS = {"refract": at.REFRACT, "reflect": at.MIRROR, "absorb": at.ABSORBER}


def _surface_row(surface: Any, media: Media, lobes: Lobes) -> tuple[int, ...]:
    kind = at.COATED if surface.coating is not None else _KINDS[surface.kind]
    sides = media.number_of(surface.material_front), media.number_of(surface.material_back)
    return kind, *sides, *lobes.code_and_start(surface.bsdf), -1, -1, 0, -1, -1


def _detector_row(detector: Any, place: int) -> tuple[int, ...]:
    return (at.DETECTOR if detector.absorb else at.TAP), 0, 0, -1, 0, place, -1, 0, -1, -1


def lower(scene: NSQScene, num_rays: int, device: Any = "cpu") -> SceneIR:
    """Lower a validated scene for a trace of ``num_rays`` rays. Raises ValueError for fewer rays than sources."""
    surfaces, detectors, sources = scene.surfaces, scene.detectors, scene.sources
    wavelengths = np.unique(np.concatenate([s.spectrum.wavelengths for s in sources]))
    lines = torch.tensor(wavelengths, dtype=torch.float64, device=device)
    media, lobes = Media(lines), Lobes()
    for source in sources:
        media.number_of(source.medium)
    items = [*surfaces, *detectors]
    aims_at, aims = lower_targets(scene)
    turn, place = lower_frames([item.cs for item in [*items, *sources]], device)
    rows = [_surface_row(s, media, lobes) for s in surfaces] + [_detector_row(d, k) for k, d in enumerate(detectors)]
    table = np.array(rows, dtype=np.int64).reshape(-1, at.NUM_ROW_INTS)
    table[: len(surfaces), at.AIMS] = aims_at
    sides = Sides(
        kind=table[:, at.KIND],
        front=table[:, at.FRONT],
        back=table[:, at.BACK],
        plain=(table[:, at.KIND] == at.REFRACT) & (table[:, at.LOBE] < 0),
        names=tuple(item.name or type(item).__name__ for item in items),
    )
    geometry = lower_rows(items, turn[: len(items)], place[: len(items)], sides)
    warn_of_hidden_detectors(items, len(surfaces), geometry, turn, place)
    table = table[geometry.owner]
    table[:, at.FRONT], table[:, at.BACK] = geometry.front, geometry.back
    for row, code, block, _ in geometry.sags:
        table[row, [at.SAG, at.SAG_BLOCK]] = code, block
    index, extinction = media.tables()
    scattering = media.scattering()
    blocks, angular = angular_tables(surfaces, rows, index, lines)
    table[:, at.ANGLES] = np.array(blocks + [-1] * len(detectors), dtype=np.int64)[geometry.owner]
    owner = torch.as_tensor(geometry.owner, device=place.device)
    reflectance, transmittance = share_tables(items, lines)
    own = slice(len(surfaces), len(items))
    first_rows = np.searchsorted(geometry.owner, np.arange(len(surfaces), len(items)))
    readers = lower_readers(detectors, wavelengths, turn[own], place[own], first_rows)
    runs, source_numbers, cumulative, source_lines, source_table = lower_sources(
        sources, turn[len(items) :], place[len(items) :], num_rays, wavelengths, media
    )
    tensors = SceneTensors(
        numbers=geometry.numbers,
        index=index,
        extinction=extinction,
        reflectance=reflectance[owner],
        transmittance=transmittance[owner],
        detector_numbers=readers.numbers,
        source_numbers=source_numbers,
        shares=lobe_shares(items, device)[owner],
        sag_numbers=geometry.sag_numbers,
        angular=angular,
        media=scattering,
        limits=geometry.limits,
        triangles=geometry.corners,
    )
    return SceneIR(
        tensors=tensors,
        geometry=geometry,
        rows=table,
        lobes=lobes.table(),
        aims=aims,
        detector_ints=readers.ints,
        detector_sigmas=readers.sigmas,
        planes=readers.planes,
        medium_classes=medium_classes(index, extinction, scattering),
        medium_labels=media.labels,
        wavelengths=wavelengths,
        sources=runs,
        cumulative=cumulative,
        source_lines=source_lines,
        source_table=source_table,
        map_sizes=readers.sizes,
        flux_in=sum(to_float(s.total_flux) for s in sources),
        eps={"float64": 1e-9, "float32": 1e-6 * geometry.size},
        surface_names=tuple(s.name for s in surfaces),
        detector_names=tuple(scene.detector_names),
    )


__all__ = ["SceneIR", "SceneTensors", "lower"]
