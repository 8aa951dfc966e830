"""Lenses, doublets and mirrors: several surfaces that belong together.

What the surfaces of a compound share, such as where an edge begins, is read from its faces whenever it is asked for, so
that a lens stays closed while its numbers are being optimised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .components import AbsorbingComponent, ReflectiveComponent, RefractiveComponent, SurfaceComponent
from .configs import DoubletConfig, InteractionType, LensConfig, MirrorConfig, SurfaceConfig
from .coordinates import CoordinateSystem
from .geometries import AnnularPlaneGeometry, ConicGeometry, CylindricalFrustumGeometry
from .materials import as_material
from .numbers import Number, stack, to_float

if TYPE_CHECKING:
    from .volume import Volume

_SAME_APERTURE = 1e-9  # mm; faces whose aperture radii differ by less have no rim between them
_GAP_SAMPLES = 33


class _Derived:
    """An attribute that is computed when read, until somebody assigns a value of their own."""

    def __init__(self, compute: Callable[[Any], Number]) -> None:
        self.compute = compute

    def __set_name__(self, owner, name) -> None:
        self.name = name

    def __get__(self, instance, owner):
        if instance is None:
            return self
        return instance.__dict__[self.name] if self.name in instance.__dict__ else self.compute(instance)

    def __set__(self, instance, value) -> None:
        instance.__dict__[self.name] = value


def _sag_at_rim(face: ConicGeometry) -> Number:
    return face.sag(face.aperture_radius)


def _sum(a: Number, b: Number) -> Number:
    """``a + b``; in torch where one is a tensor, since a NumPy array would try to swallow it."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return stack((a, b)).sum()
    return float(a) + float(b)


def _wider(a: ConicGeometry, b: ConicGeometry) -> Number:
    return max(a.aperture_radius, b.aperture_radius, key=to_float)


class EdgeGeometry(CylindricalFrustumGeometry):
    """The cylinder between two faces, in the front one's frame: as wide as the wider face, from rim to rim.

    ``back_cs`` is the back face's frame, whose z is the thickness. The four attributes follow the faces and stay
    attached to their tensors, unless they are assigned.
    """

    r_front = _Derived(lambda edge: _wider(edge.front, edge.back))
    r_back = _Derived(lambda edge: _wider(edge.front, edge.back))
    z_front = _Derived(lambda edge: _sag_at_rim(edge.front))
    z_back = _Derived(lambda edge: _sum(edge.back_cs.z, _sag_at_rim(edge.back)))

    def __init__(self, front: ConicGeometry, back: ConicGeometry, back_cs: CoordinateSystem, owner: str) -> None:
        self.front, self.back, self.back_cs, self.owner = front, back, back_cs, owner
        self.validate()

    def validate(self) -> None:
        """Check that the faces do not meet; ValueError names the lens and where they do."""
        self.front.validate()
        self.back.validate()
        a_front, a_back = to_float(self.front.aperture_radius), to_float(self.back.aperture_radius)
        rho = np.append(np.linspace(0.0, max(a_front, a_back), _GAP_SAMPLES), min(a_front, a_back))
        sag_front = self.front.profile(np.minimum(rho, a_front))
        gap = to_float(self.back_cs.z) + self.back.profile(np.minimum(rho, a_back)) - sag_front
        if not np.all(gap > 0.0):
            worst = int(np.argmin(gap))
            raise ValueError(
                f"thickness of {self.owner!r} got {to_float(self.back_cs.z):g}, which leaves {gap[worst]:g} between its"
                f" faces at {rho[worst]:g} from the axis; it takes a thickness that keeps them apart out to the rim"
            )
        super().validate()


class RimGeometry(AnnularPlaneGeometry):
    """The flat ring from the narrower of two faces out to the wider one's radius, in the narrower face's frame."""

    inner_radius = _Derived(lambda rim: rim.narrow.aperture_radius)
    outer_radius = _Derived(lambda rim: rim.wide.aperture_radius)
    z_offset = _Derived(lambda rim: _sag_at_rim(rim.narrow))

    def __init__(self, narrow: ConicGeometry, wide: ConicGeometry) -> None:
        self.narrow, self.wide = narrow, wide
        self.validate()


class CompoundComponent:
    """Several surfaces under one name.

    Attributes:
        name, config: as constructed. coordinate_system: the frame of the front vertex. surfaces: in order.
    """

    def __init__(self, name: str, cs: CoordinateSystem, config: Any) -> None:
        if not isinstance(cs, CoordinateSystem):
            raise TypeError(f"cs of {name!r} got {type(cs).__name__}; it takes a CoordinateSystem")
        self.name = name
        self.config = config
        self.coordinate_system = cs
        self.surfaces: list[SurfaceComponent] = []

    @property
    def cs(self) -> CoordinateSystem:
        return self.coordinate_system

    def validate(self) -> None:
        """Check every surface."""
        for surface in self.surfaces:
            surface.validate()

    def _add(self, part: str, config: SurfaceConfig | None, default: InteractionType, cs, shape, front, back) -> None:
        """Append the surface ``name.part`` with what its SurfaceConfig asks for."""
        label = f"{self.name}.{part}"
        config = SurfaceConfig() if config is None else config
        kind = default if config.interaction is None else config.interaction
        if config.coating is not None and kind is not InteractionType.REFRACTIVE:
            raise ValueError(f"coating of {label!r} got a coating; it takes None unless the surface is REFRACTIVE")
        if kind is InteractionType.REFLECTIVE and config.reflectance is None:
            raise ValueError(f"reflectance of {label!r} got None; a REFLECTIVE surface takes a reflectance")
        if config.reflectance is not None and kind is not InteractionType.REFLECTIVE:
            raise ValueError(f"reflectance of {label!r} got a value; it takes None unless the surface is REFLECTIVE")
        if config.bsdf is not None and kind is InteractionType.ABSORBING:
            raise ValueError(f"bsdf of {label!r} got a {type(config.bsdf).__name__}; an ABSORBING surface takes None")
        scatter = {name: getattr(config, name) for name in ("bsdf", "scatter_fraction", "importance")}
        if kind is InteractionType.REFRACTIVE:
            surface = RefractiveComponent(cs, shape, front, back, name=label, coating=config.coating, **scatter)
        elif kind is InteractionType.REFLECTIVE:
            surface = ReflectiveComponent(
                cs, shape, config.reflectance, material_front=front, material_back=back, name=label, **scatter
            )
        else:
            surface = AbsorbingComponent(cs, shape, front, label, material_back=back)
        self.surfaces.append(surface)

    def _aperture(self, part: str, config: SurfaceConfig | None, default: Number) -> Number:
        """The aperture radius of a face: its own, or the component's."""
        return default if config is None or config.aperture_radius is None else config.aperture_radius

    def _no_aperture(self, *parts: str) -> None:
        for part in parts:
            config = getattr(self.config, part)
            if config is not None and config.aperture_radius is not None:
                raise ValueError(
                    f"aperture_radius of {self.name}.{part} got {to_float(config.aperture_radius):g};"
                    " it takes None there, because that surface takes its size from its neighbours"
                )


def _check_config(config: Any, kind: type, name: str) -> None:
    if not isinstance(config, kind):
        raise TypeError(f"config of {name!r} got {type(config).__name__}; it takes a {kind.__name__}")


class Lens(CompoundComponent):
    """A lens with its front vertex at the origin of ``cs``.

    Surfaces: ``name.front`` (ambient to glass), ``name.back`` (glass to ambient), ``name.edge`` (glass inside, ambient
    outside, absorbing unless configured) and, where the faces differ in aperture, ``name.rim``. Raises ValueError for
    faces that touch or cross.
    """

    def __init__(self, name: str, cs: CoordinateSystem, config: LensConfig) -> None:
        _check_config(config, LensConfig, name)
        super().__init__(name, cs, config)
        self._no_aperture("edge", "rim")
        glass, ambient = as_material(config.material, "material"), as_material(config.ambient, "ambient")
        a_front = self._aperture("front", config.front, config.front_aperture_radius)
        a_back = config.front_aperture_radius if config.back_aperture_radius is None else config.back_aperture_radius
        a_back = self._aperture("back", config.back, a_back)
        front = ConicGeometry(config.r1, config.conic1, a_front)
        back = ConicGeometry(config.r2, config.conic2, a_back)
        back_cs = CoordinateSystem(z=config.thickness, reference_cs=cs)
        edge = EdgeGeometry(front, back, back_cs, name)

        refract, absorb = InteractionType.REFRACTIVE, InteractionType.ABSORBING
        self._add("front", config.front, refract, cs, front, ambient, glass)
        self._add("back", config.back, refract, back_cs, back, glass, ambient)
        self._add("edge", config.edge, absorb, cs, edge, glass, ambient)
        step = to_float(a_back) - to_float(a_front)
        if step > _SAME_APERTURE:  # the ring continues the front face, so glass lies behind it
            self._add("rim", config.rim, absorb, cs, RimGeometry(front, back), ambient, glass)
        elif step < -_SAME_APERTURE:
            self._add("rim", config.rim, absorb, back_cs, RimGeometry(back, front), glass, ambient)

    @property
    def volume(self) -> Volume:
        """The glass as a closed solid of the lens's name, of its surfaces as they are now."""
        from .volume import Volume

        return Volume(self.name, self.surfaces, self.surfaces[0].material_back)


class Doublet(CompoundComponent):
    """A cemented doublet with its front vertex at the origin of ``cs``.

    Surfaces: ``name.front``, ``name.cemented``, ``name.back``, ``name.edge_crown`` and ``name.edge_flint``, the edges
    with glass inside and the ambient medium outside, absorbing unless configured. Raises ValueError for faces that
    touch or cross.
    """

    def __init__(self, name: str, cs: CoordinateSystem, config: DoubletConfig) -> None:
        _check_config(config, DoubletConfig, name)
        super().__init__(name, cs, config)
        self._no_aperture("front", "cemented", "back", "edge")
        crown, flint = as_material(config.material1, "material1"), as_material(config.material2, "material2")
        ambient = as_material(config.ambient, "ambient")
        faces = [
            ConicGeometry(radius, conic, config.aperture_radius)
            for radius, conic in (
                (config.r1, config.conic1),
                (config.r2, config.conic2),
                (config.r3, config.conic3),
            )
        ]
        middle_cs = CoordinateSystem(z=config.thickness1, reference_cs=cs)
        back_cs = CoordinateSystem(z=config.thickness2, reference_cs=middle_cs)
        edge1 = EdgeGeometry(faces[0], faces[1], middle_cs, name)
        edge2 = EdgeGeometry(faces[1], faces[2], back_cs, name)

        refract, absorb = InteractionType.REFRACTIVE, InteractionType.ABSORBING
        self._add("front", config.front, refract, cs, faces[0], ambient, crown)
        self._add("cemented", config.cemented, refract, middle_cs, faces[1], crown, flint)
        self._add("back", config.back, refract, back_cs, faces[2], flint, ambient)
        self._add("edge_crown", config.edge, absorb, cs, edge1, crown, ambient)
        self._add("edge_flint", config.edge, absorb, middle_cs, edge2, flint, ambient)

    @property
    def volumes(self) -> list[Volume]:
        """The two glasses as closed solids, ``name.crown`` and ``name.flint``, which share the cemented surface."""
        from .volume import Volume

        front, cemented, back, edge_crown, edge_flint = self.surfaces
        return [
            Volume(f"{self.name}.crown", [front, cemented, edge_crown], front.material_back),
            Volume(f"{self.name}.flint", [cemented, back, edge_flint], back.material_front),
        ]


class Mirror(CompoundComponent):
    """A conic mirror with its vertex at the origin of ``cs``; its one surface is ``name.surface``."""

    def __init__(self, name: str, cs: CoordinateSystem, config: MirrorConfig) -> None:
        _check_config(config, MirrorConfig, name)
        super().__init__(name, cs, config)
        own = SurfaceConfig() if config.surface is None else config.surface
        for field in ("reflectance", "coating"):
            if getattr(own, field) is not None:
                raise ValueError(f"{field} of {name + '.surface'!r} got a value; it takes None, see MirrorConfig")
        if own.interaction not in (None, InteractionType.REFLECTIVE):
            raise ValueError(f"interaction of {name + '.surface'!r} got {own.interaction}; a mirror takes REFLECTIVE")
        aperture = self._aperture("surface", config.surface, config.aperture_radius)
        ambient = as_material(config.ambient, "ambient")
        self.surfaces.append(
            ReflectiveComponent(
                cs,
                ConicGeometry(config.radius, config.conic, aperture),
                config.reflectance,
                bsdf=own.bsdf,
                material_front=ambient,
                name=f"{name}.surface",
                scatter_fraction=own.scatter_fraction,
                importance=own.importance,
            )
        )


COMPOUNDS: dict[type, type[CompoundComponent]] = {LensConfig: Lens, DoubletConfig: Doublet, MirrorConfig: Mirror}
