"""From an Optiland scene to one of ours, object by object. Tensors stay the objects they are, with their graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from optiland import nonsequential as peer
from optiland.coatings import BaseCoating
from optiland.optic import Optic

import nsq

from ...numbers import is_tensor_number, to_float


def from_optiland(scene: peer.NSQScene | Optic, **options: Any) -> nsq.NSQScene:
    """The same scene for this tracer: names, order, poses, media, scatter, sources, detectors and sampling policy.

    Surfaces are taken as they are now, so what was changed after a lens was added is kept, and so are the media of its
    edge, which Optiland puts in vacuum. Compounds become groups of surfaces of the same names.

    Args:
        scene: an Optiland NSQScene, or a sequential Optic, which Optiland's own ``sequential_to_nonsequential``
            converts first.
        options: for that converter, such as ``detector_pixels``.

    Raises TypeError for anything else and for classes of the user's own, whose code the kernels cannot run.
    """
    if isinstance(scene, Optic):
        scene = peer.sequential_to_nonsequential(scene, **options)
    elif options:
        raise TypeError(f"options got {sorted(options)}; they are for the conversion of a sequential Optic")
    if not isinstance(scene, peer.NSQScene):
        raise TypeError(f"scene got {type(scene).__name__}; it takes an optiland NSQScene or Optic")
    return _Conversion().scene(scene)


def can_be_met(surface: Any) -> bool:
    """False for the edge of a lens whose faces meet at its rim or cross there: Optiland finds no ray on it."""
    geometry = surface.geometry
    if type(geometry) is not peer.CylindricalFrustumGeometry:
        return True
    return to_float(number(geometry.z_back)) > to_float(number(geometry.z_front))


class _Conversion:
    """One conversion: what is shared in Optiland's scene, a frame or a medium, is shared in ours."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._names: set[str] = set()

    def scene(self, scene: peer.NSQScene) -> nsq.NSQScene:
        out = nsq.NSQScene()
        for name, source in scene.source_registry._registry.items():
            out.source_registry.add(name, self._convert(_SOURCES, source, "source", name))
        for compound in scene.component_registry.compounds:
            group = nsq.CompoundComponent(compound.name, self.frame(compound.coordinate_system), None)
            group.surfaces = [self._surface(s, compound.name) for s in compound.surfaces if can_be_met(s)]
            out.component_registry.add(compound.name, group)
        for name, detector in scene.detector_registry._registry.items():
            out.detector_registry.add(name, self._convert(_DETECTORS, detector, "detector", name))
        policy = getattr(scene, "sampling_policy", None)
        if policy is not None:
            names = ("reflect_prob", "split_depth", "split_budget", "rr_start_flux")
            out.sampling_policy = nsq.SamplingPolicy(**{name: getattr(policy, name) for name in names})
        return out

    def _convert(self, table: dict[type, Callable[..., Any]], obj: Any, noun: str, name: str) -> Any:
        """What the table makes of ``obj``; a TypeError or ValueError on the way says which named object it is of."""
        if not name:
            return _entry(table, obj, noun)(self, obj)
        try:
            return _entry(table, obj, "it")(self, obj)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{noun} {name!r}: {error}") from error

    def _surface(self, surface: Any, owner: str) -> Any:
        made = self._convert(_SURFACES, surface, "surface", surface.name or owner)
        name, copies = surface.name or owner, 1
        while name in self._names:  # ledgers are kept by name
            copies += 1
            name = f"{surface.name or owner}#{copies}"
        self._names.add(name)
        made.name = name
        return made

    def frame(self, cs: Any) -> nsq.CoordinateSystem | None:
        if cs is None:
            return None
        numbers = {name: number(getattr(cs, name)) for name in ("x", "y", "z", "rx", "ry", "rz")}
        return self._once(cs, lambda: nsq.CoordinateSystem(**numbers, reference_cs=self.frame(cs.reference_cs)))

    def medium(self, medium: Any) -> nsq.NSQMaterial:
        if medium is None or medium.optiland_material is None:
            return nsq.VACUUM
        return self._once(medium, lambda: nsq.NSQMaterial(_Medium(medium.optiland_material)))

    def bsdf(self, bsdf: Any) -> Any:
        return None if bsdf is None else self._once(bsdf, lambda: self._convert(_BSDFS, bsdf, "bsdf", ""))

    def geometry(self, geometry: Any) -> nsq.FinitePlaneGeometry:
        return self._convert(_GEOMETRIES, geometry, "geometry", "")

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if id(key) not in self._made:
            self._made[id(key)] = make()
        return self._made[id(key)]

    def emission(self, source: Any) -> dict[str, Any]:
        spectrum = nsq.Spectrum(wavelengths=source.spectrum.wavelengths, weights=source.spectrum.weights)
        medium = getattr(source, "medium", None)
        return {
            "cs": self.frame(source.cs), "spectrum": spectrum, "total_flux": number(source.total_flux),
            "medium": None if medium is None else self.medium(medium),
        }  # fmt: skip

    def scatter(self, surface: Any) -> dict[str, Any]:
        return {"bsdf": self.bsdf(surface.bsdf), "scatter_fraction": number(surface.scatter_fraction)}


def _entry(table: dict[type, Callable[..., Any]], obj: Any, noun: str) -> Callable[..., Any]:
    if type(obj) not in table:
        known = sorted(kind.__name__ for kind in table)
        raise TypeError(f"{noun} got {type(obj).__name__}; the adapter takes one of {known}")
    return table[type(obj)]


def number(value: Any) -> Any:
    """A scene number: a tensor of one entry as it is, anything else as a float; None stays None."""
    if value is None:
        return None
    if isinstance(value, torch.Tensor):
        value = value.reshape(()) if value.dim() else value
        return value if is_tensor_number(value) else float(value)
    return float(np.asarray(value).reshape(()))


class _Medium:
    """n and k of an Optiland material, one wavelength at a time: in Python floats, whatever its backend's precision."""

    def __init__(self, material: Any) -> None:
        self.material = material
        self.name = str(getattr(material, "name", None) or type(material).__name__)

    def n(self, wavelength: Any) -> Any:
        return number(self.material.n(float(wavelength)))

    def k(self, wavelength: Any) -> Any:
        return number(self.material.k(float(wavelength)))


def _coating(coating: Any) -> nsq.SimpleCoating | None:
    if coating is None:
        return None
    return nsq.SimpleCoating(number(coating.transmittance), number(coating.reflectance))


def _reflectance(value: Any) -> Any:
    if isinstance(value, BaseCoating):
        return number(value.reflectance)
    if callable(value):
        return lambda wavelength: number(value(float(wavelength)))
    return number(value)


def _refractive(make: _Conversion, s: Any) -> nsq.RefractiveComponent:
    media = make.medium(s.material_front), make.medium(s.material_back)
    return nsq.RefractiveComponent(
        make.frame(s.cs), make.geometry(s.geometry), *media, coating=_coating(s.coating), **make.scatter(s)
    )


def _reflective(make: _Conversion, s: Any) -> nsq.ReflectiveComponent:
    return nsq.ReflectiveComponent(
        make.frame(s.cs), make.geometry(s.geometry), _reflectance(s.reflectance),
        material_front=make.medium(s.material_front), **make.scatter(s),
    )  # fmt: skip


def _absorbing(make: _Conversion, s: Any) -> nsq.AbsorbingComponent:
    return nsq.AbsorbingComponent(make.frame(s.cs), make.geometry(s.geometry), make.medium(s.material_front))


def _same(kind: type, *names: str) -> Callable[[_Conversion, Any], Any]:
    """Converts to the class ``kind`` by the numbers of these names."""
    return lambda make, obj: kind(**{name: number(getattr(obj, name)) for name in names})


def _collimated(make: _Conversion, s: Any) -> nsq.CollimatedSource:
    sigma = number(s.gaussian_sigma) if s.profile == "gaussian" else None
    return nsq.CollimatedSource(
        **make.emission(s), aperture_radius=number(s.aperture_radius), profile=s.profile, gaussian_sigma=sigma
    )


def _extended(make: _Conversion, s: Any) -> nsq.ExtendedSource:
    names = ("width", "height", "aperture_radius", "half_angle_deg")
    return nsq.ExtendedSource(**make.emission(s), **{name: number(getattr(s, name)) for name in names})


def _pixels(make: _Conversion, d: Any) -> dict[str, Any]:
    return {
        "cs": make.frame(d.cs), "width": number(d.width), "height": number(d.height), "num_pixels_x": d.num_pixels_x,
        "num_pixels_y": d.num_pixels_y, "splat": d.splat, "splat_sigma": number(d.splat_sigma), "absorb": d.absorb,
    }  # fmt: skip


def _far_field(make: _Conversion, d: Any) -> nsq.FarFieldDetector:
    return nsq.FarFieldDetector(
        make.frame(d.cs), float(d._theta_edges[-1]), d.num_bins_theta, d.num_bins_phi,
        aperture_radius=number(d.geometry.aperture_radius), absorb=d.absorb,
    )  # fmt: skip


def _ray_database(make: _Conversion, d: Any) -> nsq.RayDatabaseDetector:
    return nsq.RayDatabaseDetector(
        make.frame(d.cs), make.geometry(d.geometry), store_rays=bool(d.store_rays), max_rays=d.max_rays,
        absorb=d.absorb,
    )  # fmt: skip


# Optiland's class -> what makes ours of one of its objects
_GEOMETRIES = {
    peer.PlaneGeometry: lambda make, g: nsq.PlaneGeometry(),
    peer.FinitePlaneGeometry: _same(nsq.FinitePlaneGeometry, "width", "height", "aperture_radius"),
    peer.ConicGeometry: _same(nsq.ConicGeometry, "radius", "conic", "aperture_radius"),
    peer.ParaboloidGeometry: _same(nsq.ConicGeometry, "radius", "conic", "aperture_radius"),
    peer.SphereGeometry: _same(nsq.SphereGeometry, "radius", "aperture_radius"),
    peer.CylindricalFrustumGeometry: _same(
        nsq.CylindricalFrustumGeometry, "r_front", "r_back", "z_front", "z_back"
    ),
    peer.AnnularPlaneGeometry: _same(nsq.AnnularPlaneGeometry, "inner_radius", "outer_radius", "z_offset"),
    peer.MeshGeometry: lambda make, g: nsq.MeshGeometry(g.mesh),
}  # fmt: skip
_BSDFS = {
    peer.SpecularBRDF: lambda make, b: nsq.SpecularBRDF(),
    peer.LambertianBSDF: _same(nsq.LambertianBSDF, "reflectance_value", "transmissive_fraction"),
    peer.HarveyShackBSDF: _same(nsq.HarveyShackBSDF, "b0", "l0", "s", "transmissive_fraction"),
    peer.TabulatedBSDF: lambda make, b: nsq.TabulatedBSDF(b.path, number(b.transmissive_fraction)),
}
_SURFACES = {
    peer.RefractiveComponent: _refractive,
    peer.ReflectiveComponent: _reflective,
    peer.AbsorbingComponent: _absorbing,
}
_SOURCES = {
    peer.PointSource: lambda make, s: nsq.PointSource(**make.emission(s), half_angle_deg=number(s.half_angle_deg)),
    peer.CollimatedSource: _collimated,
    peer.ExtendedSource: _extended,
}
_DETECTORS = {
    peer.IrradianceDetector: lambda make, d: nsq.IrradianceDetector(**_pixels(make, d)),
    peer.SpectralDetector: lambda make, d: nsq.SpectralDetector(
        **_pixels(make, d), wavelength_bins=np.asarray(d.wavelength_bins)
    ),
    peer.FarFieldDetector: _far_field,
    peer.RayDatabaseDetector: _ray_database,
}
