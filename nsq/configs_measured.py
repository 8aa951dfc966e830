"""Configs of sources that are given by measured data: luminaire files and ray files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._names import named_arguments
from .configs import check_emission
from .formats.angular import AngularDistribution
from .formats.rays import RayTable
from .materials import NSQMaterial
from .numbers import Number, check_number
from .spectrum import Spectrum


def check_distribution(distribution: Any) -> float:
    """Check that an intensity distribution shines, and return its lumens."""
    if not isinstance(distribution, AngularDistribution):
        kind = type(distribution).__name__
        raise TypeError(f"distribution got {kind}; it takes an AngularDistribution, such as read_ies gives")
    lumens = distribution.total_lumens()
    if not np.isfinite(lumens) or not lumens > 0.0:
        raise ValueError(f"distribution got one of {lumens:g} lm; it takes one that shines, over at least two theta")
    return lumens


def check_opening(source: Any) -> None:
    """Check the opening of a luminaire: a rectangle, a disk, or neither, which is a point."""
    for name in ("width", "height", "aperture_radius"):
        check_number(getattr(source, name), name, positive=True, none_ok=True)
    if (source.width is None) != (source.height is None):
        missing = "width" if source.width is None else "height"
        raise ValueError(f"{missing} got None; a rectangle takes both width and height")
    if source.width is not None and source.aperture_radius is not None:
        raise ValueError("aperture_radius got a number beside width and height; give either a disk or a rectangle")


def check_rays(rays: Any) -> None:
    """Check that a table holds rays with flux."""
    if not isinstance(rays, RayTable):
        raise TypeError(f"rays got {type(rays).__name__}; it takes a RayTable, such as read_tm25 gives")
    if not rays.total_flux > 0.0 or not np.isfinite(rays.total_flux):
        raise ValueError(f"rays got {rays.num_rays} rays of {rays.total_flux:g} {rays.flux_unit}; they take a flux > 0")


def _check_flux(config: Any, spectrum: Spectrum) -> None:
    check_emission(spectrum, 1.0, config.medium)
    check_number(config.total_flux, "total_flux", nonnegative=True, none_ok=True)
    check_number(config.total_flux_lumens, "total_flux_lumens", nonnegative=True, none_ok=True)


@named_arguments
@dataclass(frozen=True, eq=False)
class LuminaireSourceConfig:
    """A point, rectangle or disk that shines as an IES or EULUMDAT file says; see `LuminaireSource`.

    Args:
        distribution: intensity over directions, such as ``nsq.formats.read_ies(path)``. +z is its nadir.
        spectrum: the lines it emits.
        total_flux: W, >= 0; None takes the lumens of the distribution, as light of ``spectrum``. Differentiable.
        total_flux_lumens: lm, >= 0, in place of both; photopic. Differentiable.
        width, height: of a rectangle along x and y, mm, > 0. Differentiable.
        aperture_radius: of a disk, mm, > 0. Differentiable. Without any of the three it is a point.
        medium: where its rays start, a glass name or an NSQMaterial; None is vacuum.

    The distribution carries no gradient.
    """

    distribution: AngularDistribution
    spectrum: Spectrum
    total_flux: Number | None = None
    total_flux_lumens: Number | None = None
    width: Number | None = None
    height: Number | None = None
    aperture_radius: Number | None = None
    medium: NSQMaterial | str | None = None

    def __post_init__(self) -> None:
        check_distribution(self.distribution)
        _check_flux(self, self.spectrum)
        check_opening(self)


@named_arguments
@dataclass(frozen=True, eq=False)
class RayFileSourceConfig:
    """The rays of a ray file; see `RayFileSource` for how they are drawn.

    Args:
        rays: such as ``nsq.formats.read_tm25(path)``, in the frame of the source.
        total_flux: W, >= 0; None takes the rays' own. Differentiable.
        total_flux_lumens: lm, >= 0, in place of both; photopic. Differentiable.
        replace_spectrum: light of this spectrum in place of the rays' own wavelengths.
        medium: where its rays start, a glass name or an NSQMaterial; None is vacuum.

    The rays carry no gradient.
    """

    rays: RayTable
    total_flux: Number | None = None
    total_flux_lumens: Number | None = None
    replace_spectrum: Spectrum | None = None
    medium: NSQMaterial | str | None = None

    def __post_init__(self) -> None:
        check_rays(self.rays)
        _check_flux(self, self.spectrum)

    @property
    def spectrum(self) -> Spectrum:
        """The lines that are emitted."""
        return self.rays.lines()[0] if self.replace_spectrum is None else self.replace_spectrum
