"""Sources: where rays start. Attributes carry the constructor's names and may be reassigned between traces."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._names import named_arguments
from .configs import (
    CollimatedSourceConfig,
    ExtendedSourceConfig,
    PointSourceConfig,
    check_emission,
    check_half_angle,
    check_profile,
)
from .configs_measured import LuminaireSourceConfig, RayFileSourceConfig, check_distribution, check_opening, check_rays
from .coordinates import CoordinateSystem
from .formats.angular import AngularDistribution
from .formats.rays import RayTable
from .materials import NSQMaterial, as_material
from .numbers import Number, check_number, to_float
from .photometry import lumens_to_watts
from .spectrum import Spectrum


class BaseNSQSource:
    """What every source offers. Rays leave along local +z, or in a cone about it, in the medium ``medium``.

    Numbers may be 0-d tensors; gradients reach the flux, the shape and the pose. `validate` is called by the
    constructor and again before each trace; it raises TypeError and ValueError naming the attribute.
    """

    cs: CoordinateSystem
    spectrum: Spectrum
    total_flux: Number
    medium: NSQMaterial | str | None

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Check every attribute; a medium given by name becomes an NSQMaterial."""
        if not isinstance(self.cs, CoordinateSystem):
            raise TypeError(f"cs got {type(self.cs).__name__}; it takes a CoordinateSystem")
        check_emission(self.spectrum, self.total_flux, self.medium)
        if self.medium is not None:
            self.medium = as_material(self.medium, "medium")

    def generate(self, ray_id: Any, rng: Any) -> Any:
        """The rays of the ids ``ray_id`` (n,), an integer array, with random numbers from ``rng``, an NSQRng.

        Returns a bundle with x, y, z in mm, L, M, N, flux in W and wavelength in µm, (n,) each, in world coordinates,
        num_rays and num_rays_alive. The source's whole flux is spread over these n rays.
        """
        from .intersect import generate

        return generate(self, ray_id, rng)


@named_arguments
@dataclass(eq=False)
class PointSource(BaseNSQSource):
    """A point that emits uniformly into a cone of half angle ``half_angle_deg`` (degrees) about local +z."""

    cs: CoordinateSystem
    spectrum: Spectrum
    total_flux: Number = 1.0
    half_angle_deg: Number = 90.0
    medium: NSQMaterial | str | None = None
    name: str = ""

    def validate(self) -> None:
        super().validate()
        check_half_angle(self.half_angle_deg)


@named_arguments
@dataclass(eq=False)
class CollimatedSource(BaseNSQSource):
    """A disk of radius ``aperture_radius`` (mm) that emits along local +z.

    ``profile`` is "tophat", or "gaussian": a Gaussian of standard deviation ``gaussian_sigma`` (mm; half the radius if
    None) in x and in y, cut off at the disk's rim.
    """

    cs: CoordinateSystem
    spectrum: Spectrum
    total_flux: Number = 1.0
    aperture_radius: Number = 5.0
    profile: str = "tophat"
    gaussian_sigma: Number | None = None
    medium: NSQMaterial | str | None = None
    name: str = ""

    def validate(self) -> None:
        super().validate()
        check_number(self.aperture_radius, "aperture_radius", positive=True)
        check_profile(self.profile, self.gaussian_sigma)


@named_arguments
@dataclass(eq=False)
class ExtendedSource(BaseNSQSource):
    """A rectangle ``width`` by ``height`` (mm), or a disk of radius ``aperture_radius`` (mm), that emits into a cone.

    The half angle is ``half_angle_deg`` (degrees) about local +z: Lambertian from 90 on, uniform in solid angle below.
    """

    cs: CoordinateSystem
    spectrum: Spectrum
    total_flux: Number = 1.0
    width: Number = 1.0
    height: Number = 1.0
    aperture_radius: Number | None = None
    half_angle_deg: Number = 90.0
    medium: NSQMaterial | str | None = None
    name: str = ""

    def validate(self) -> None:
        super().validate()
        check_number(self.width, "width", positive=True)
        check_number(self.height, "height", positive=True)
        check_number(self.aperture_radius, "aperture_radius", positive=True, none_ok=True)
        check_half_angle(self.half_angle_deg)


@named_arguments
@dataclass(eq=False)
class LuminaireSource(BaseNSQSource):
    """A source that shines as a luminaire file says.

    Its rays start at a point, evenly on a rectangle ``width`` by ``height`` (mm), or evenly on a disk of radius
    ``aperture_radius`` (mm), in the plane z = 0. In every direction of the sphere they follow the interpolated
    intensity of ``distribution`` exactly: theta is the angle to local +z, the luminaire's nadir, and phi the azimuth
    from local +x. Draws: SOURCE_U1 and U2 place a ray, U3 gives theta and U4 phi, by inverse cumulative distributions.

    ``total_flux`` is in W; None takes the distribution's lumens, as W of light of ``spectrum``. Gradients reach the
    flux, the opening and the pose; the distribution has none.
    """

    cs: CoordinateSystem
    distribution: AngularDistribution
    spectrum: Spectrum
    total_flux: Number | None = None
    width: Number | None = None
    height: Number | None = None
    aperture_radius: Number | None = None
    medium: NSQMaterial | str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        lumens = check_distribution(self.distribution)
        if self.total_flux is None and isinstance(self.spectrum, Spectrum):
            self.total_flux = lumens_to_watts(lumens, self.spectrum)
        self.validate()

    def validate(self) -> None:
        super().validate()
        check_distribution(self.distribution)
        check_opening(self)


@named_arguments
@dataclass(eq=False)
class RayFileSource(BaseNSQSource):
    """A source of measured rays.

    A traced ray is one of the table's, in the frame of the source, drawn with a probability in proportion to its flux,
    so that all traced rays carry the same flux, and any number of them may be traced. The draw is SOURCE_U1: at random,
    or evenly spread over the table where the scene's sampler is Sobol().

    A ray brings its own wavelength; the wavelengths of a table with more than 256 of them are gathered in as many even
    bins, each a line at the mean of its light. ``replace_spectrum`` sets them aside for lines of its own.

    ``total_flux`` is in W; None takes the table's. Gradients reach the flux and the pose; the rays have none.
    """

    cs: CoordinateSystem
    rays: RayTable
    total_flux: Number | None = None
    replace_spectrum: Spectrum | None = None
    medium: NSQMaterial | str | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_rays(self.rays)
        if self.total_flux is None:
            self.total_flux = self.rays.to_watts().total_flux
        self.validate()

    def validate(self) -> None:
        check_rays(self.rays)
        self._born = self.rays.to_watts()
        self._lines, self._line_of_ray = self._born.lines()
        super().validate()

    @property
    def spectrum(self) -> Spectrum:  # type: ignore[override]
        """The lines that are emitted."""
        return self._lines if self.replace_spectrum is None else self.replace_spectrum

    @property
    def own_lines(self) -> bool:
        """Whether the line of a ray is its own."""
        return self.replace_spectrum is None

    def born(self) -> tuple[RayTable, np.ndarray]:
        """The rays with their flux in W, and the place of each one's wavelength in `spectrum`."""
        return self._born, self._line_of_ray


_COMMON = ("total_flux", "medium")
# config type -> source type, and the config's fields that are arguments of the source
_SOURCES = {
    PointSourceConfig: (PointSource, (*_COMMON, "spectrum", "half_angle_deg")),
    CollimatedSourceConfig: (
        CollimatedSource,
        (*_COMMON, "spectrum", "aperture_radius", "profile", "gaussian_sigma"),
    ),
    ExtendedSourceConfig: (
        ExtendedSource,
        (*_COMMON, "spectrum", "width", "height", "aperture_radius", "half_angle_deg"),
    ),
    LuminaireSourceConfig: (
        LuminaireSource,
        (*_COMMON, "distribution", "spectrum", "width", "height", "aperture_radius"),
    ),
    RayFileSourceConfig: (RayFileSource, (*_COMMON, "rays", "replace_spectrum")),
}


def build_source(cs: CoordinateSystem, config: Any, name: str = "") -> BaseNSQSource:
    """The source that ``config`` describes, in the frame ``cs``.

    Raises TypeError for any other config, ValueError for a flux in lumens of a spectrum that nobody sees; warns where a
    flux in lumens sets aside one in W.
    """
    if type(config) not in _SOURCES:
        known = ", ".join(kind.__name__ for kind in _SOURCES)
        raise TypeError(f"config got {type(config).__name__}; a source takes one of {known}")
    source, names = _SOURCES[type(config)]
    arguments = {field: getattr(config, field) for field in names}
    if config.total_flux_lumens is not None:
        if config.total_flux is not None and to_float(config.total_flux) != 1.0:
            warnings.warn(
                f"source {name!r}: total_flux_lumens={to_float(config.total_flux_lumens):g} lm is taken, and"
                f" total_flux={to_float(config.total_flux):g} W is not used; give one of them",
                UserWarning,
                stacklevel=3,
            )
        arguments["total_flux"] = lumens_to_watts(config.total_flux_lumens, config.spectrum)
    return source(cs, name=name, **arguments)
