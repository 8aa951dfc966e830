"""What to build: sources, lenses, mirrors and detectors by their numbers.

Configs are frozen; every number may be a 0-d ``torch`` tensor with a graph, which is kept as the object it is. They
raise TypeError for arguments of the wrong kind and ValueError for values out of range, naming the argument. Lengths are
in mm, wavelengths in µm, fluxes in W, angles in degrees.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._names import named_arguments
from .bsdfs import BaseBSDF, check_bsdf
from .coatings import check_coating, check_reflectance
from .geometries import Geometry
from .importance import Importance, check_importance
from .materials import VACUUM, NSQMaterial
from .numbers import Number, check_choice, check_constant, check_count, check_flag, check_number
from .pixels import check_extent
from .spectrum import Spectrum

PROFILES = ("tophat", "gaussian")
SPLATS = ("bilinear", "gaussian", "hard")
FAR_FIELD_SPLATS = ("hard", "bilinear")
_NANOMETRES = 100.0  # wavelength edges that all lie above this were meant in nm


class InteractionType(enum.Enum):
    """What a surface does with a ray."""

    REFRACTIVE = "refract"
    REFLECTIVE = "reflect"
    ABSORBING = "absorb"


def check_medium(value: Any, name: str, *, none_ok: bool = False) -> None:
    """Check an argument that `nsq.materials.as_material` will turn into a medium."""
    medium = callable(getattr(value, "n", None)) and callable(getattr(value, "k", None))
    if (value is None and none_ok) or isinstance(value, str | NSQMaterial) or medium:
        return
    raise TypeError(f"{name} got {value!r} of type {type(value).__name__}; it takes a glass name or an NSQMaterial")


def check_emission(spectrum: Any, total_flux: Any, medium: Any) -> None:
    """Check what all sources share."""
    if not isinstance(spectrum, Spectrum):
        raise TypeError(f"spectrum got {spectrum!r} of type {type(spectrum).__name__}; it takes a Spectrum")
    check_number(total_flux, "total_flux", nonnegative=True)
    check_medium(medium, "medium", none_ok=True)


def check_half_angle(value: Any) -> None:
    check_number(value, "half_angle_deg", positive=True, maximum=180.0)


def check_profile(profile: Any, gaussian_sigma: Any) -> None:
    """Check a beam profile; a width is for the Gaussian one alone."""
    check_choice(profile, "profile", PROFILES)
    check_number(gaussian_sigma, "gaussian_sigma", positive=True, none_ok=True)
    if gaussian_sigma is not None and profile != "gaussian":
        raise ValueError(f"gaussian_sigma got {gaussian_sigma!r} with profile={profile!r}; it takes profile='gaussian'")


def check_pixels(detector: Any) -> None:
    """Check the grid and the splat of an irradiance detector or of its config."""
    check_extent(detector.width, detector.height, detector.shape, detector.splat)
    check_count(detector.num_pixels_x, "num_pixels_x")
    check_count(detector.num_pixels_y, "num_pixels_y")
    check_choice(detector.splat, "splat", SPLATS)
    check_number(detector.splat_sigma, "splat_sigma")
    check_flag(detector.absorb, "absorb")


def check_bins(wavelength_bins: Any) -> np.ndarray:
    """Check the edges of wavelength bins and return them: (nb + 1,) float64, rising, in µm."""
    try:
        edges = np.array(wavelength_bins, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        takes = "it takes a sequence of edges in µm, constants"
        raise TypeError(f"wavelength_bins got {wavelength_bins!r}; {takes}") from None
    if edges.ndim != 1 or len(edges) < 2:
        raise ValueError(f"wavelength_bins got shape {edges.shape}; it takes at least two edges, shape (nb + 1,)")
    if np.all(edges > _NANOMETRES):
        raise ValueError(f"wavelength_bins got {edges[0]:g} to {edges[-1]:g}; edges must be in µm, not in nm")
    if not np.all(np.isfinite(edges)) or edges[0] < 0.0 or np.any(np.diff(edges) <= 0.0):
        raise ValueError(f"wavelength_bins got {edges.tolist()}; it takes finite edges >= 0 that rise, in µm")
    return edges


def bin_edges(config: SpectralDetectorConfig) -> np.ndarray:
    """The edges (num_bins + 1,) in µm of equal bins from ``wl_min`` to ``wl_max``, as ``numpy.linspace`` gives them."""
    return np.linspace(float(config.wl_min), float(config.wl_max), check_count(config.num_bins, "num_bins") + 1)


def check_directions(detector: Any, bins_theta: str, bins_phi: str) -> None:
    """Check the grid and the splat of a far-field detector or of its config, whose bins have these names."""
    check_count(getattr(detector, bins_theta), bins_theta)
    check_count(getattr(detector, bins_phi), bins_phi)
    check_choice(detector.splat, "splat", FAR_FIELD_SPLATS)
    check_flag(detector.absorb, "absorb")


@named_arguments
@dataclass(frozen=True, eq=False)
class PointSourceConfig:
    """A point that emits uniformly into a cone about local +z.

    Args:
        spectrum: the lines it emits.
        total_flux: W, >= 0. Differentiable.
        total_flux_lumens: lm, >= 0, in place of ``total_flux``; photopic. Differentiable.
        half_angle_deg: of the cone, 0 < angle <= 180; 90 is a hemisphere, 180 a sphere. Differentiable.
        medium: where its rays start, a glass name or an NSQMaterial; None is vacuum.
    """

    spectrum: Spectrum
    total_flux: Number = 1.0
    total_flux_lumens: Number | None = None
    half_angle_deg: Number = 90.0
    medium: NSQMaterial | str | None = None

    def __post_init__(self) -> None:
        check_emission(self.spectrum, self.total_flux, self.medium)
        check_number(self.total_flux_lumens, "total_flux_lumens", nonnegative=True, none_ok=True)
        check_half_angle(self.half_angle_deg)


@named_arguments
@dataclass(frozen=True, eq=False)
class CollimatedSourceConfig:
    """A disk that emits along local +z.

    Args:
        spectrum, total_flux, total_flux_lumens, medium: as for `PointSourceConfig`.
        aperture_radius: of the disk, mm, > 0. Differentiable.
        profile: "tophat", or "gaussian" cut off at the disk's rim.
        gaussian_sigma: standard deviation in x and in y before the cut, mm, > 0; None is half the aperture radius. For
            the Gaussian profile only. Differentiable.
    """

    spectrum: Spectrum
    total_flux: Number = 1.0
    total_flux_lumens: Number | None = None
    aperture_radius: Number = 1.0
    profile: str = "tophat"
    gaussian_sigma: Number | None = None
    medium: NSQMaterial | str | None = None

    def __post_init__(self) -> None:
        check_emission(self.spectrum, self.total_flux, self.medium)
        check_number(self.total_flux_lumens, "total_flux_lumens", nonnegative=True, none_ok=True)
        check_number(self.aperture_radius, "aperture_radius", positive=True)
        check_profile(self.profile, self.gaussian_sigma)


@named_arguments
@dataclass(frozen=True, eq=False)
class ExtendedSourceConfig:
    """A rectangle or disk that emits into a cone about local +z from each of its points.

    Args:
        spectrum, total_flux, total_flux_lumens, medium: as for `PointSourceConfig`.
        width, height: of the rectangle along x and y, mm, > 0. Differentiable.
        aperture_radius: makes it a disk of this radius, mm, > 0. Differentiable.
        half_angle_deg: of the cone, 0 < angle <= 180: Lambertian from 90 on, uniform in solid angle below.
            Differentiable below 90.
    """

    spectrum: Spectrum
    total_flux: Number = 1.0
    total_flux_lumens: Number | None = None
    width: Number = 1.0
    height: Number = 1.0
    aperture_radius: Number | None = None
    half_angle_deg: Number = 90.0
    medium: NSQMaterial | str | None = None

    def __post_init__(self) -> None:
        check_emission(self.spectrum, self.total_flux, self.medium)
        check_number(self.total_flux_lumens, "total_flux_lumens", nonnegative=True, none_ok=True)
        check_number(self.width, "width", positive=True)
        check_number(self.height, "height", positive=True)
        check_number(self.aperture_radius, "aperture_radius", positive=True, none_ok=True)
        check_half_angle(self.half_angle_deg)


@named_arguments
@dataclass(frozen=True, eq=False)
class SurfaceConfig:
    """How one surface of a lens, doublet or mirror differs from the usual.

    Args:
        bsdf: how it scatters, such as LambertianBSDF(0.9); None does not. For surfaces that refract or reflect.
        scatter_fraction: share of the flux that a ``bsdf`` scatters, 0 to 1. Differentiable.
        coating: of a refracting surface; replaces Fresnel's equations there.
        aperture_radius: of a lens face or a mirror, in place of the component's own, mm, > 0.
        interaction: REFRACTIVE, REFLECTIVE or ABSORBING; None is refractive for a face, absorbing for an edge or rim.
        reflectance: of a REFLECTIVE surface: a number in [0, 1], a callable of the wavelength in µm, or a coating.
        importance: an ImportanceTarget, or several, that a share of the scattered rays is aimed at.
    """

    bsdf: BaseBSDF | None = None
    scatter_fraction: Number = 1.0
    coating: Any = None
    aperture_radius: Number | None = None
    interaction: InteractionType | None = None
    reflectance: Any = None
    importance: Importance = None

    def __post_init__(self) -> None:
        check_bsdf(self.bsdf, "bsdf")
        check_importance(self.importance, self.bsdf)
        check_number(self.scatter_fraction, "scatter_fraction", minimum=0.0, maximum=1.0)
        check_coating(self.coating, "coating")
        check_number(self.aperture_radius, "aperture_radius", positive=True, none_ok=True)
        if self.interaction is not None and not isinstance(self.interaction, InteractionType):
            raise TypeError(f"interaction got {self.interaction!r}; it takes an InteractionType or None")
        if self.reflectance is not None:
            check_reflectance(self.reflectance)


def _check_surfaces(config: Any, names: tuple[str, ...]) -> None:
    for name in names:
        surface = getattr(config, name)
        if surface is not None and not isinstance(surface, SurfaceConfig):
            raise TypeError(f"{name} got {type(surface).__name__}; it takes a SurfaceConfig or None")


@named_arguments
@dataclass(frozen=True, eq=False)
class LensConfig:
    """A lens of two conic faces.

    Args:
        r1, r2: vertex radii of the front and the back face, mm; positive puts the centre on +z, 0 and infinities mean
            flat. Differentiable.
        thickness: between the vertices, mm, > 0. Differentiable.
        material: glass name or NSQMaterial.
        front_aperture_radius, back_aperture_radius: of the faces, mm, > 0; the back is as wide as the front if None.
        conic1, conic2: conic constants. Differentiable.
        front, back, edge, rim: what differs at these surfaces.
        ambient: the medium around the lens, a glass name or an NSQMaterial.
    """

    r1: Number
    r2: Number
    thickness: Number
    material: NSQMaterial | str
    front_aperture_radius: Number
    back_aperture_radius: Number | None = None
    conic1: Number = 0.0
    conic2: Number = 0.0
    front: SurfaceConfig | None = None
    back: SurfaceConfig | None = None
    edge: SurfaceConfig | None = None
    rim: SurfaceConfig | None = None
    ambient: NSQMaterial | str = VACUUM

    def __post_init__(self) -> None:
        check_number(self.r1, "r1", finite=False)
        check_number(self.r2, "r2", finite=False)
        check_number(self.thickness, "thickness", positive=True)
        check_medium(self.material, "material")
        check_number(self.front_aperture_radius, "front_aperture_radius", positive=True)
        check_number(self.back_aperture_radius, "back_aperture_radius", positive=True, none_ok=True)
        check_number(self.conic1, "conic1")
        check_number(self.conic2, "conic2")
        _check_surfaces(self, ("front", "back", "edge", "rim"))
        check_medium(self.ambient, "ambient")


@named_arguments
@dataclass(frozen=True, eq=False)
class DoubletConfig:
    """A cemented doublet of three conic faces; media 1 and 2 in the order light along +z meets them.

    Args:
        r1, r2, r3: vertex radii, mm, signs as for `LensConfig`. Differentiable.
        thickness1, thickness2: mm, > 0. Differentiable.
        material1, material2: glass names or NSQMaterials.
        aperture_radius: of all three faces, mm, > 0.
        conic1, conic2, conic3: conic constants. Differentiable.
        front, cemented, back: what differs at the faces; edge: at both edges.
        ambient: the medium around the doublet.
    """

    r1: Number
    r2: Number
    r3: Number
    thickness1: Number
    thickness2: Number
    material1: NSQMaterial | str
    material2: NSQMaterial | str
    aperture_radius: Number
    conic1: Number = 0.0
    conic2: Number = 0.0
    conic3: Number = 0.0
    front: SurfaceConfig | None = None
    cemented: SurfaceConfig | None = None
    back: SurfaceConfig | None = None
    edge: SurfaceConfig | None = None
    ambient: NSQMaterial | str = VACUUM

    def __post_init__(self) -> None:
        for name in ("r1", "r2", "r3"):
            check_number(getattr(self, name), name, finite=False)
        for name in ("thickness1", "thickness2", "aperture_radius"):
            check_number(getattr(self, name), name, positive=True)
        for name in ("conic1", "conic2", "conic3"):
            check_number(getattr(self, name), name)
        for name in ("material1", "material2", "ambient"):
            check_medium(getattr(self, name), name)
        _check_surfaces(self, ("front", "cemented", "back", "edge"))


@named_arguments
@dataclass(frozen=True, eq=False)
class MirrorConfig:
    """A conic mirror that reflects from both sides.

    Args:
        radius: vertex radius, mm, sign as for `LensConfig`. Differentiable.
        reflectance: required; a number in [0, 1], a callable of the wavelength in µm, or a scalar coating.
            Differentiable.
        conic: conic constant. Differentiable.
        aperture_radius: mm, > 0.
        surface: what differs at the surface.
        ambient: the medium on both sides.
    """

    radius: Number
    reflectance: Any
    conic: Number = 0.0
    aperture_radius: Number = 25.0
    surface: SurfaceConfig | None = None
    ambient: NSQMaterial | str = VACUUM

    def __post_init__(self) -> None:
        check_number(self.radius, "radius", finite=False)
        check_reflectance(self.reflectance)
        check_number(self.conic, "conic")
        check_number(self.aperture_radius, "aperture_radius", positive=True)
        _check_surfaces(self, ("surface",))
        check_medium(self.ambient, "ambient")


@named_arguments
@dataclass(frozen=True, eq=False)
class IrradianceDetectorConfig:
    """A detector of pixels: a rectangle in the plane z = 0, or any shape with borders.

    Args:
        width, height: full extents of the rectangle along x and y, mm, > 0. Differentiable.
        num_pixels_x, num_pixels_y: >= 1; a mesh has one pixel for each triangle instead.
        splat: how a hit spreads over pixels: "bilinear" over four, "gaussian", or "hard" into one.
        splat_sigma: of the Gaussian splat, in pixels; 0 or less is as "hard".
        absorb: False lets rays pass after reading them.
        shape: a geometry in place of the rectangle; see `IrradianceDetector`.
    """

    width: Number | None = None
    height: Number | None = None
    num_pixels_x: int = 256
    num_pixels_y: int = 256
    splat: str = "bilinear"
    splat_sigma: Number = 0.5
    absorb: bool = True
    shape: Geometry | None = None

    def __post_init__(self) -> None:
        check_pixels(self)


@named_arguments
@dataclass(frozen=True, eq=False)
class SpectralDetectorConfig:
    """A detector of pixels, on a rectangle or any shape with borders, that keeps bins of wavelength apart.

    Args:
        width, height, num_pixels_x, num_pixels_y, splat, splat_sigma, absorb, shape: as for
            `IrradianceDetectorConfig`.
        wl_min, wl_max: where the first bin begins and the last one ends, µm. Light outside goes to the end bins.
        num_bins: of equal width, >= 1.
    """

    width: Number | None = None
    height: Number | None = None
    num_pixels_x: int = 256
    num_pixels_y: int = 256
    wl_min: float = 0.4
    wl_max: float = 0.7
    num_bins: int = 100
    splat: str = "bilinear"
    splat_sigma: Number = 0.5
    absorb: bool = True
    shape: Geometry | None = None

    def __post_init__(self) -> None:
        check_pixels(self)
        low, high = check_constant(self.wl_min, "wl_min"), check_constant(self.wl_max, "wl_max")
        check_count(self.num_bins, "num_bins")
        if not 0.0 <= low < high:
            raise ValueError(f"wl_min and wl_max got {low:g} and {high:g}; they take 0 <= wl_min < wl_max, in µm")
        check_bins(bin_edges(self))


@named_arguments
@dataclass(frozen=True, eq=False)
class FarFieldDetectorConfig:
    """A detector of directions in the plane z = 0, wide enough for every ray that comes its way.

    Args:
        num_theta: bins of the angle to the axis, from 0 to 90 degrees, >= 1.
        num_phi: bins of azimuth, from -180 to 180 degrees, >= 1.
        absorb: False lets rays pass after reading them.
        splat: "hard", each ray into the bin that holds its direction, or "bilinear", over four bins. A hard splat has
            no derivative with respect to where the light goes.
    """

    num_theta: int = 90
    num_phi: int = 360
    absorb: bool = True
    splat: str = "hard"

    def __post_init__(self) -> None:
        check_directions(self, "num_theta", "num_phi")


@named_arguments
@dataclass(frozen=True, eq=False)
class RayDatabaseConfig:
    """A rectangular detector in the plane z = 0 that keeps every ray it sees.

    Args:
        width, height: full extents along x and y, mm, > 0.
        max_rays: keep the last that many; 0 keeps all.
        absorb: False lets rays pass after reading them.
    """

    width: Number
    height: Number
    max_rays: int = 0
    absorb: bool = True

    def __post_init__(self) -> None:
        check_number(self.width, "width", positive=True)
        check_number(self.height, "height", positive=True)
        check_count(self.max_rays, "max_rays", minimum=0)
        check_flag(self.absorb, "absorb")
