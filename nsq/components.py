"""Single surfaces: a geometry in a frame, the media on its two sides, and what a ray does there.

A surface's geometry has a fixed normal that points from ``material_front`` to ``material_back``; which medium a ray
enters follows from that normal alone.
"""

from __future__ import annotations

from typing import Any

from ._names import named_arguments
from .bsdfs import BaseBSDF, check_bsdf
from .coatings import check_coating, check_reflectance
from .configs import InteractionType
from .coordinates import CoordinateSystem
from .geometries import Geometry
from .importance import Importance, check_importance
from .materials import VACUUM, NSQMaterial, as_material
from .numbers import Number, check_number


class SurfaceComponent:
    """One surface: a geometry in a frame, two media, and what happens to a ray there.

    Attributes:
        kind: "refract", "reflect" or "absorb".
        cs, geometry, material_front, material_back, bsdf, scatter_fraction, importance, name: as constructed;
            reassignable.
        coating: of a refracting surface, else None. reflectance: of a mirror, else None.
    """

    kind = ""

    def __init__(
        self, cs, geometry, material_front, material_back, bsdf, name, scatter_fraction, importance=None
    ) -> None:
        self.cs = cs
        self.geometry = geometry
        self.material_front = as_material(material_front, "material_front")
        self.material_back = as_material(material_back, "material_back")
        self.bsdf = bsdf
        self.scatter_fraction = scatter_fraction
        self.importance = importance
        self.name = name
        self.coating: Any = None
        self.reflectance: Any = None

    def validate(self) -> None:
        """Check every attribute; TypeError or ValueError names the one that is wrong."""
        if not isinstance(self.cs, CoordinateSystem):
            raise TypeError(f"cs got {type(self.cs).__name__}; it takes a CoordinateSystem")
        if not isinstance(self.geometry, Geometry):
            raise TypeError(f"geometry got {type(self.geometry).__name__}; it takes a geometry such as ConicGeometry")
        for side in ("material_front", "material_back"):
            if not isinstance(getattr(self, side), NSQMaterial):
                raise TypeError(f"{side} got {type(getattr(self, side)).__name__}; it takes an NSQMaterial")
        check_bsdf(self.bsdf, "bsdf")
        if not isinstance(self.name, str):
            raise TypeError(f"name got {self.name!r} of type {type(self.name).__name__}; it takes a str")
        check_number(self.scatter_fraction, "scatter_fraction", minimum=0.0, maximum=1.0)
        check_importance(self.importance, self.bsdf)
        self.geometry.validate()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, geometry={self.geometry!r})"


@named_arguments
class RefractiveComponent(SurfaceComponent):
    """A surface between two media that refracts, and reflects by Fresnel's equations or by its coating.

    Args:
        cs: its frame.
        geometry: its shape.
        material_front, material_back: media on the two sides; the geometry's n_geom points to the back one.
        bsdf: how it scatters, such as LambertianBSDF(0.9); None does not.
        name: for diagnostics.
        scatter_fraction: share of the flux that a ``bsdf`` scatters, 0 to 1. Differentiable.
        coating: None, or scalar reflectance and transmittance. NotImplementedError for a polarized one.
        importance: an ImportanceTarget, or several, that a share of the scattered rays is aimed at.
    """

    kind = InteractionType.REFRACTIVE.value

    def __init__(
        self,
        cs: CoordinateSystem,
        geometry: Geometry,
        material_front: NSQMaterial | str,
        material_back: NSQMaterial | str,
        bsdf: BaseBSDF | None = None,
        name: str = "",
        scatter_fraction: Number = 1.0,
        coating: Any = None,
        *,
        importance: Importance = None,
    ) -> None:
        super().__init__(cs, geometry, material_front, material_back, bsdf, name, scatter_fraction, importance)
        self.coating = coating
        self.validate()

    def validate(self) -> None:
        super().validate()
        check_coating(self.coating, "coating")


@named_arguments
class ReflectiveComponent(SurfaceComponent):
    """A mirror; it reflects from both sides.

    Args:
        reflectance: a number in [0, 1], a callable of the wavelength in µm, or a scalar coating. Differentiable.
        material_back: behind it; the front medium if None.
        cs, geometry, bsdf, material_front, name, scatter_fraction, importance: as for `RefractiveComponent`.
    """

    kind = InteractionType.REFLECTIVE.value

    def __init__(
        self,
        cs: CoordinateSystem,
        geometry: Geometry,
        reflectance: Any,
        bsdf: BaseBSDF | None = None,
        material_front: NSQMaterial | str = VACUUM,
        name: str = "",
        scatter_fraction: Number = 1.0,
        *,
        material_back: NSQMaterial | str | None = None,
        importance: Importance = None,
    ) -> None:
        behind = material_front if material_back is None else material_back
        super().__init__(cs, geometry, material_front, behind, bsdf, name, scatter_fraction, importance)
        self.reflectance = reflectance
        self.validate()

    def validate(self) -> None:
        super().validate()
        check_reflectance(self.reflectance)


@named_arguments
class AbsorbingComponent(SurfaceComponent):
    """A surface that takes all the flux that reaches it, from both sides. Arguments as for `ReflectiveComponent`."""

    kind = InteractionType.ABSORBING.value

    def __init__(
        self,
        cs: CoordinateSystem,
        geometry: Geometry,
        material_front: NSQMaterial | str = VACUUM,
        name: str = "",
        *,
        material_back: NSQMaterial | str | None = None,
    ) -> None:
        behind = material_front if material_back is None else material_back
        super().__init__(cs, geometry, material_front, behind, None, name, 1.0)
        self.validate()
