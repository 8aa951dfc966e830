"""Detectors: what is read, and where. Attributes carry the constructor's names and may be reassigned between traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .configs import IrradianceDetectorConfig, RayDatabaseConfig, check_pixels
from .coordinates import CoordinateSystem
from .geometries import FinitePlaneGeometry, Geometry
from .numbers import Number, check_count, check_flag


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


@dataclass(eq=False)
class IrradianceDetector(BaseDetector):
    """A rectangle in the local plane z = 0, divided into pixels that collect flux.

    Args:
        cs: its frame.
        width, height: full extents along x and y, mm, > 0. Differentiable.
        num_pixels_x, num_pixels_y: >= 1.
        splat: how a hit spreads over pixels: "bilinear" over four, "gaussian", or "hard" into one. A hard splat has no
            derivative with respect to where the light lands.
        splat_sigma: of the Gaussian splat, in pixels; 0 or less is as "hard".
        name: for messages.
        absorb: False lets rays pass after reading them.
    """

    cs: CoordinateSystem
    width: Number
    height: Number
    num_pixels_x: int
    num_pixels_y: int
    splat: str = "bilinear"
    splat_sigma: Number = 0.5
    name: str = ""
    absorb: bool = True

    def validate(self) -> None:
        super().validate()
        check_pixels(self)
        self.num_pixels_x = check_count(self.num_pixels_x, "num_pixels_x")
        self.num_pixels_y = check_count(self.num_pixels_y, "num_pixels_y")

    @property
    def geometry(self) -> FinitePlaneGeometry:
        """The rectangle that rays hit."""
        return FinitePlaneGeometry(self.width, self.height)


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
    )


def _build_ray_database(cs: CoordinateSystem, config: RayDatabaseConfig, name: str) -> RayDatabaseDetector:
    geometry = FinitePlaneGeometry(config.width, config.height)
    return RayDatabaseDetector(cs, geometry, max_rays=config.max_rays or None, name=name, absorb=config.absorb)


_DETECTORS = {IrradianceDetectorConfig: _build_irradiance, RayDatabaseConfig: _build_ray_database}


def build_detector(cs: CoordinateSystem, config: Any, name: str = "") -> BaseDetector:
    """The detector that ``config`` describes, in the frame ``cs``. Raises TypeError for any other config."""
    if type(config) not in _DETECTORS:
        known = ", ".join(kind.__name__ for kind in _DETECTORS)
        raise TypeError(f"config got {type(config).__name__}; a detector takes one of {known}")
    return _DETECTORS[type(config)](cs, config, name)
