"""Sources: where rays start. Attributes carry the constructor's names and may be reassigned between traces."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from .configs import (
    CollimatedSourceConfig,
    ExtendedSourceConfig,
    PointSourceConfig,
    check_emission,
    check_half_angle,
    check_profile,
)
from .coordinates import CoordinateSystem
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


# config type -> source type, and the config's fields that are arguments of the source
_SOURCES = {
    PointSourceConfig: (PointSource, ("half_angle_deg",)),
    CollimatedSourceConfig: (CollimatedSource, ("aperture_radius", "profile", "gaussian_sigma")),
    ExtendedSourceConfig: (ExtendedSource, ("width", "height", "aperture_radius", "half_angle_deg")),
}


def build_source(cs: CoordinateSystem, config: Any, name: str = "") -> BaseNSQSource:
    """The source that ``config`` describes, in the frame ``cs``.

    Raises TypeError for any other config, ValueError for a flux in lumens of a spectrum that nobody sees; warns where a
    flux in lumens sets aside one in W.
    """
    if type(config) not in _SOURCES:
        known = ", ".join(kind.__name__ for kind in _SOURCES)
        raise TypeError(f"config got {type(config).__name__}; a source takes one of {known}")
    source, shape = _SOURCES[type(config)]
    arguments = {field: getattr(config, field) for field in ("spectrum", "total_flux", *shape, "medium")}
    if config.total_flux_lumens is not None:
        if to_float(config.total_flux) != 1.0:
            warnings.warn(
                f"source {name!r}: total_flux_lumens={to_float(config.total_flux_lumens):g} lm is taken, and"
                f" total_flux={to_float(config.total_flux):g} W is not used; give one of them",
                UserWarning,
                stacklevel=3,
            )
        arguments["total_flux"] = lumens_to_watts(config.total_flux_lumens, config.spectrum)
    return source(cs, name=name, **arguments)
