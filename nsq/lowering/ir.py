"""The lowered scene: differentiable tables, and everything about a scene that has no gradient."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch

from kernels.trace.tables import SourceRun

from .surfaces import Rows


@dataclass(frozen=True)
class SceneTensors:
    """The differentiable tables of a scene, float64, in the order in which the trace takes them.

    Attributes:
        numbers: (rows, 10), origin, axis and quadric coefficients of every surface and detector.
        index, extinction: (media, W), n and k.
        reflectance, transmittance: (rows, W), of mirrors and coatings.
        detector_numbers: (detectors, 11), origin, x axis, y axis, width, height.
        source_numbers: (sources, 17), rotation, origin, flux of a ray, shape.
        sag_numbers: (S,), frames and numbers of surfaces given by a sag, one after another.
        angular: (A,), tables over angle of coatings, one after another.
        media: (media, W, 3), scatter inside them: collisions per mm, albedo, mean cosine.
        limits: (rows, 12), local x and y axes and where a row ends: only visibility has gradients with respect to it.
        triangles: (T, 9), corners of the triangles of meshes: likewise.
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
    sag_numbers: torch.Tensor
    angular: torch.Tensor
    media: torch.Tensor
    limits: torch.Tensor
    triangles: torch.Tensor

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
        geometry: where the rows lie and how they are searched.
        rows: (rows, 10) integers, what happens at a surface, its two media, its scatter lobe and where its table
            begins, the detector it belongs to, its sag, its coating's table over angle and its scatter's targets.
        lobes: tables of scatter lobes, one after another. aims: targets of scatter, surface after surface.
        detector_ints: (detectors, 8) integers; detector_sigmas: (detectors,).
        medium_classes: (media,), equal for media that light cannot tell apart; medium_labels: their names.
        planes: (detectors, W), the plane of pixels that a spectral line belongs to.
        wavelengths: (W,) array, µm. sources: rays of each source. cumulative, source_lines: spectra, one after another;
        source_table: tables of sources, one after another.
        map_sizes: (detectors,), cells of each map. flux_in: total flux, W. eps: least distance to a surface that the
        ray does not start on, mm, by precision. surface_names, detector_names: in order of registration.
    """

    tensors: SceneTensors
    geometry: Rows
    rows: np.ndarray
    lobes: np.ndarray
    aims: np.ndarray
    detector_ints: np.ndarray
    detector_sigmas: np.ndarray
    planes: np.ndarray
    medium_classes: np.ndarray
    medium_labels: tuple[str, ...]
    wavelengths: np.ndarray
    sources: tuple[SourceRun, ...]
    cumulative: np.ndarray
    source_lines: np.ndarray
    source_table: np.ndarray
    map_sizes: np.ndarray
    flux_in: float
    eps: dict[str, float]
    surface_names: tuple[str, ...]
    detector_names: tuple[str, ...]

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    @property
    def map_size(self) -> int:
        """Cells of all maps together."""
        return int(self.map_sizes.sum())
