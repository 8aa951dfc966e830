"""Detectors: what is read, and where. Attributes carry the constructor's names and may be reassigned between traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._names import named_arguments
from .configs import (
    FarFieldDetectorConfig,
    IrradianceDetectorConfig,
    RayDatabaseConfig,
    SpectralDetectorConfig,
    bin_edges,
    check_bins,
    check_directions,
    check_pixels,
)
from .coordinates import CoordinateSystem
from .geometries import FinitePlaneGeometry, Geometry
from .numbers import Number, check_constant, check_count, check_flag, check_number
from .pixels import PixelGrid, pixel_grid


class BaseDetector:
    """What every detector offers: a frame, a ``geometry`` that rays hit, and whether it stops them.

    `validate` is called by the constructor and again before each trace; it raises TypeError and ValueError naming the
    attribute.
    """

    cs: CoordinateSystem
    name: str
    absorb: bool

    def __post_init__(self) -> None:
        self.validate()

    def validate(self) -> None:
        """Check every attribute."""
        if not isinstance(self.cs, CoordinateSystem):
            raise TypeError(f"cs got {type(self.cs).__name__}; it takes a CoordinateSystem")
        if not isinstance(self.name, str):
            raise TypeError(f"name got {self.name!r} of type {type(self.name).__name__}; it takes a str")
        check_flag(self.absorb, "absorb")

    def read(self, result: Any) -> Any:
        """What the results of a trace hold under this detector's name, made of the map or the rays that it collected.

        A class derived from one of those below may return an object of its own, with ``total_flux`` and
        ``num_rays_hit``; see docs/extending.md.
        """
        return result


class PixelDetector(BaseDetector):
    """What detectors with pixels on a surface share."""

    width: Number | None
    height: Number | None
    num_pixels_x: int
    num_pixels_y: int
    splat: str
    splat_sigma: Number
    shape: Geometry | None

    def validate(self) -> None:
        super().validate()
        check_pixels(self)
        self.num_pixels_x = check_count(self.num_pixels_x, "num_pixels_x")
        self.num_pixels_y = check_count(self.num_pixels_y, "num_pixels_y")

    @property
    def geometry(self) -> Geometry:
        """What rays hit: the shape, or the rectangle."""
        return FinitePlaneGeometry(self.width, self.height) if self.shape is None else self.shape

    @property
    def num_bins(self) -> int:
        """Bins of wavelength."""
        return 1

    def grid(self) -> PixelGrid:
        """The pixels."""
        return pixel_grid(self.geometry, self.num_pixels_x, self.num_pixels_y)


@named_arguments
@dataclass(eq=False)
class IrradianceDetector(PixelDetector):
    """A surface divided into pixels that collect flux: a rectangle in the local plane z = 0, or any shape with borders.

    Args:
        cs: its frame.
        width, height: full extents of the rectangle along x and y, mm, > 0. Differentiable.
        num_pixels_x, num_pixels_y: >= 1.
        splat: how a hit spreads over pixels: "bilinear" over four, "gaussian", or "hard" into one. A hard splat has no
            derivative with respect to where the light lands.
        splat_sigma: of the Gaussian splat, in pixels; 0 or less is as "hard".
        name: for messages.
        absorb: False lets rays pass after reading them.
        shape: a geometry in place of the rectangle. A sphere and a frustum are divided in azimuth, from -180 to 180
            degrees, and in z, which on a sphere makes all pixels the same size; a disk, a ring, a conic, an asphere, a
            biconic and a toroid in x and y over the square about their rim; a mesh has one pixel for each triangle,
            ``splat="hard"``, whatever the numbers of pixels say. It reads light from both of its sides. Differentiable
            in the numbers of the shape; what a moving rim lets in is a matter of `visibility`.
    """

    cs: CoordinateSystem
    width: Number | None = None
    height: Number | None = None
    num_pixels_x: int = 256
    num_pixels_y: int = 256
    splat: str = "bilinear"
    splat_sigma: Number = 0.5
    name: str = ""
    absorb: bool = True
    shape: Geometry | None = field(default=None, kw_only=True)


@named_arguments
@dataclass(eq=False)
class SpectralDetector(PixelDetector):
    """A surface divided into pixels that collect flux in bins of wavelength.

    Args:
        cs, width, height, num_pixels_x, num_pixels_y, splat, splat_sigma, name, absorb, shape: as for
            `IrradianceDetector`.
        wavelength_bins: (nb + 1,) edges of the bins, µm, rising. A wavelength belongs to the last bin that begins at or
            below it, and to an end bin where it lies outside; nothing is shared between bins.
    """

    cs: CoordinateSystem
    width: Number | None = None
    height: Number | None = None
    num_pixels_x: int = 256
    num_pixels_y: int = 256
    wavelength_bins: Any = None
    splat: str = "bilinear"
    splat_sigma: Number = 0.5
    name: str = ""
    absorb: bool = True
    shape: Geometry | None = field(default=None, kw_only=True)

    def validate(self) -> None:
        super().validate()
        self.wavelength_bins = check_bins(self.wavelength_bins)

    @property
    def num_bins(self) -> int:
        """nb."""
        return len(self.wavelength_bins) - 1

    def bins_of(self, wavelengths: np.ndarray) -> np.ndarray:
        """The bin (int64, shaped as ``wavelengths``) that each wavelength in µm belongs to."""
        found = np.searchsorted(self.wavelength_bins, np.asarray(wavelengths, dtype=np.float64), side="right") - 1
        return np.clip(found, 0, self.num_bins - 1)


@named_arguments
@dataclass(eq=False)
class FarFieldDetector(BaseDetector):
    """A disk in the local plane z = 0 that sorts rays by direction, on a polar grid.

    Theta is acos(|N|), so that light along +z and light along -z fall on one hemisphere, and phi is atan2(M, L), in
    the detector's frame. Rays beyond ``theta_max_deg`` count in the total flux and in no bin.

    Args:
        cs: its frame.
        theta_max_deg: where theta ends, degrees, > 0 and at most 90.
        num_bins_theta, num_bins_phi: size of the grid, >= 1.
        aperture_radius: of the disk, mm, > 0.
        name: for messages.
        absorb: False lets rays pass after reading them.
        splat: "hard", each ray into the bin that holds its direction, or "bilinear", over four bins. A hard splat has
            no derivative with respect to where the light goes.
    """

    cs: CoordinateSystem
    theta_max_deg: float
    num_bins_theta: int
    num_bins_phi: int
    aperture_radius: Number = 1e6
    name: str = ""
    absorb: bool = True
    splat: str = "hard"

    def validate(self) -> None:
        super().validate()
        check_constant(self.theta_max_deg, "theta_max_deg", positive=True, maximum=90.0)
        check_number(self.aperture_radius, "aperture_radius", positive=True)
        check_directions(self, "num_bins_theta", "num_bins_phi")
        self.num_bins_theta = check_count(self.num_bins_theta, "num_bins_theta")
        self.num_bins_phi = check_count(self.num_bins_phi, "num_bins_phi")

    @property
    def geometry(self) -> FinitePlaneGeometry:
        """The disk that rays hit."""
        return FinitePlaneGeometry(aperture_radius=self.aperture_radius)


@named_arguments
@dataclass(eq=False)
class RayDatabaseDetector(BaseDetector):
    """A surface that keeps the rays that reach it.

    Args:
        cs: its frame.
        geometry: the surface.
        store_rays: False counts rays and flux and keeps none.
        max_rays: keep the last that many, in the order of ray ids; None or 0 keeps all.
        name: for messages.
        absorb: False lets rays pass after reading them.
    """

    cs: CoordinateSystem
    geometry: Geometry
    store_rays: bool = True
    max_rays: int | None = None
    name: str = ""
    absorb: bool = True

    def validate(self) -> None:
        super().validate()
        if not isinstance(self.geometry, Geometry):
            raise TypeError(f"geometry got {type(self.geometry).__name__}; it takes a geometry such as PlaneGeometry")
        self.geometry.validate()
        check_flag(self.store_rays, "store_rays")
        if self.max_rays is not None:
            self.max_rays = check_count(self.max_rays, "max_rays", minimum=0)


def _build_irradiance(cs: CoordinateSystem, config: IrradianceDetectorConfig, name: str) -> IrradianceDetector:
    return IrradianceDetector(
        cs,
        config.width,
        config.height,
        config.num_pixels_x,
        config.num_pixels_y,
        splat=config.splat,
        splat_sigma=config.splat_sigma,
        name=name,
        absorb=config.absorb,
        shape=config.shape,
    )


def _build_spectral(cs: CoordinateSystem, config: SpectralDetectorConfig, name: str) -> SpectralDetector:
    return SpectralDetector(
        cs,
        config.width,
        config.height,
        config.num_pixels_x,
        config.num_pixels_y,
        bin_edges(config),
        splat=config.splat,
        splat_sigma=config.splat_sigma,
        name=name,
        absorb=config.absorb,
        shape=config.shape,
    )


def _build_far_field(cs: CoordinateSystem, config: FarFieldDetectorConfig, name: str) -> FarFieldDetector:
    return FarFieldDetector(
        cs, 90.0, config.num_theta, config.num_phi, name=name, absorb=config.absorb, splat=config.splat
    )


def _build_ray_database(cs: CoordinateSystem, config: RayDatabaseConfig, name: str) -> RayDatabaseDetector:
    geometry = FinitePlaneGeometry(config.width, config.height)
    return RayDatabaseDetector(cs, geometry, max_rays=config.max_rays or None, name=name, absorb=config.absorb)


_DETECTORS = {
    IrradianceDetectorConfig: _build_irradiance,
    SpectralDetectorConfig: _build_spectral,
    FarFieldDetectorConfig: _build_far_field,
    RayDatabaseConfig: _build_ray_database,
}


def build_detector(cs: CoordinateSystem, config: Any, name: str = "") -> BaseDetector:
    """The detector that ``config`` describes, in the frame ``cs``. Raises TypeError for any other config."""
    if type(config) not in _DETECTORS:
        known = ", ".join(kind.__name__ for kind in _DETECTORS)
        raise TypeError(f"config got {type(config).__name__}; a detector takes one of {known}")
    return _DETECTORS[type(config)](cs, config, name)
