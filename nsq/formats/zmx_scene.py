"""Scenes from sequential prescriptions, with an account of what was dropped or guessed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .._files import PathLike
from ..components import AbsorbingComponent, ReflectiveComponent, RefractiveComponent
from ..compounds import CompoundComponent
from ..configs import (
    CollimatedSourceConfig,
    DoubletConfig,
    IrradianceDetectorConfig,
    LensConfig,
    MirrorConfig,
    PointSourceConfig,
)
from ..coordinates import CoordinateSystem
from ..geometries import AnnularPlaneGeometry, ConicGeometry, CylindricalFrustumGeometry
from ..geometries_sag import AsphereGeometry
from ..glass import find_page
from ..materials import VACUUM, NSQMaterial, as_material
from ..numbers import to_float
from ..scene import NSQScene
from ..spectrum import Spectrum
from .zmx import ZmxPrescription, ZmxSurface, read_zmx

_MIRROR = "MIRROR"
_DEFAULT_LINE_UM = 0.5875618  # d
_KINDS = ("guessed", "dropped", "unsupported")
_ASPHERES = {"EVENASPH": 2, "ODDASPHE": 1}  # parameter n is the coefficient of this power of the distance, times n
# names of Zemax's glass catalogues -> suppliers in the database
_SUPPLIERS = {"CDGM-ZEMAX": "CDGM", "CDGM_CHINA": "CDGM"}


@dataclass(frozen=True)
class ReportEntry:
    """Something that the scene does not take from the file as it is there.

    Attributes:
        kind: "guessed", a number that the file lacks; "dropped", something without which the scene is still the file's
            system on its axis; "unsupported", something without which it is another system.
        surface: number in the file, or None for the system. text: what, and what was done about it.
    """

    kind: str
    surface: int | None
    text: str

    def __str__(self) -> str:
        where = "system" if self.surface is None else f"surface {self.surface}"
        return f"{self.kind}: {where}: {self.text}"


@dataclass
class ConversionReport:
    """What became of a prescription.

    Attributes:
        file: its path. entries: in the order of the file.
        parts: name in the scene -> numbers of the surfaces it was made from.
        focal_length: paraxial, at the primary wavelength, mm; infinite for an afocal system.
        back_focal_distance: paraxial, from the last surface before the image along +z, mm.
    """

    file: str
    entries: list[ReportEntry] = field(default_factory=list)
    parts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    focal_length: float = math.inf
    back_focal_distance: float = math.inf

    def of(self, kind: str) -> list[ReportEntry]:
        """The entries of one kind."""
        return [entry for entry in self.entries if entry.kind == kind]

    def __str__(self) -> str:
        head = f"{self.file}: {len(self.parts)} parts, focal length {self.focal_length:g} mm"
        return "\n".join([head, *(f"  - {entry}" for entry in self.entries)])


def scene_from_zmx(
    source: PathLike | ZmxPrescription, num_pixels: int = 256, stop: bool = True
) -> tuple[NSQScene, ConversionReport]:
    """A scene of lenses, doublets and mirrors from a sequential prescription, and a report of what it leaves out.

    The vertex of surface 1 is the origin; lengths are converted to mm. A glass between two faces becomes a lens "L1",
    "L2" and so on, two cemented glasses a doublet, a mirror "M1" and so on with reflectance 1, the aperture stop an
    absorbing ring "stop" where it is a surface of its own, and the image a detector "image". Lenses with aspheric faces
    and groups of more glasses become compounds of surfaces with absorbing edges from rim to rim. The source "source"
    shines on the axis in the file's wavelengths, 1 W: a beam as wide as the entrance pupil for an object at infinity,
    else a point.

    Args:
        source: a path, or what `read_zmx` gave.
        num_pixels: of the detector, along each side.
        stop: False leaves the ring of the stop out, which is no lens, doublet or mirror and so cannot be saved as JSON.

    Warns once where something is unsupported, and the report says what. Raises OSError, and ValueError naming the file
    and the surface for an unknown glass, for a mirror on glass, and for faces that cross. A scene with aspheres or
    groups of more than two glasses traces and cannot be saved as JSON.
    """
    prescription = source if isinstance(source, ZmxPrescription) else read_zmx(source)
    return _Converter(prescription).convert(num_pixels, stop)


class _Converter:
    def __init__(self, prescription: ZmxPrescription) -> None:
        self.p, self.unit = prescription, prescription.unit
        self.surfaces = prescription.surfaces
        self.scene, self.report = NSQScene(), ConversionReport(prescription.file)
        self.z: list[float] = []
        self.counts = {"L": 0, "M": 0}
        self.media: dict[int, NSQMaterial] = {}

    def say(self, kind: str, surface: int | None, text: str) -> None:
        self.report.entries.append(ReportEntry(kind, surface, text))

    def fail(self, surface: ZmxSurface, what: str) -> ValueError:
        return ValueError(f"{self.p.file}, surface {surface.number} (line {surface.line}): {what}")

    def made(self, surface: ZmxSurface, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (TypeError, ValueError) as error:
            raise self.fail(surface, str(error)) from error

    # ---- numbers ----

    def radius(self, surface: ZmxSurface) -> float:
        return self.unit / surface.curvature if surface.curvature else math.inf

    def semi_diameter(self, surface: ZmxSurface) -> float:
        if surface.semi_diameter > 0.0:
            return surface.semi_diameter * self.unit
        guess = self.largest()
        self.say("guessed", surface.number, f"has no semi-diameter; {guess:g} mm, the largest there is, was taken")
        return guess

    def largest(self) -> float:
        inner = [s.semi_diameter for s in self.surfaces[1:-1]]
        beam = 0.5 * self.p.aperture if self.p.aperture_kind == "ENPD" else 0.0
        size = max([*inner, beam]) * self.unit
        if not size > 0.0:
            raise ValueError(f"{self.p.file}: has no semi-diameter and no entrance pupil, so nothing tells its size")
        return size

    def places(self) -> None:
        z = 0.0
        self.z = [-math.inf, 0.0]
        for surface in self.surfaces[1:-1]:
            if not math.isfinite(surface.thickness):
                raise self.fail(surface, "its thickness is infinite; only the object's may be")
            z += surface.thickness * self.unit
            self.z.append(z)

    def medium(self, surface: ZmxSurface) -> NSQMaterial:
        """The glass after a surface."""
        if surface.number not in self.media:
            self.media[surface.number] = self.find_glass(surface)
        return self.media[surface.number]

    def find_glass(self, surface: ZmxSurface) -> NSQMaterial:
        suppliers = [_SUPPLIERS.get(name, name) for name in self.p.catalogues]
        problem: Exception | None = None
        for supplier in [*suppliers, None]:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    page = find_page(surface.glass, supplier)
                except ValueError as error:
                    problem = error
                    continue
            for warning in caught:
                self.say("guessed", surface.number, str(warning.message))
            if page.name.casefold() != surface.glass.casefold():
                self.say("guessed", surface.number, f"glass {surface.glass!r} was taken to be {page.name}")
            return as_material(page.source, "material")
        if surface.index > 1.0:
            self.say(
                "guessed",
                surface.number,
                f"glass {surface.glass!r} is not known; the file's nd = {surface.index:g} was taken for every line",
            )
            return NSQMaterial.constant(surface.index)
        raise self.fail(surface, f"glass {surface.glass!r}: {problem}")

    # ---- parts ----

    def convert(self, num_pixels: int, stop: bool) -> tuple[NSQScene, ConversionReport]:
        for keyword, lines in self.p.dropped.items():
            listed = ", ".join(str(line) for line in lines[:10]) + (" ..." if len(lines) > 10 else "")
            self.say("dropped", None, f"{keyword} is not known (lines {listed})")
        for surface in self.surfaces:
            self.check_kind(surface)
        if self.surfaces[0].glass:
            self.say("unsupported", 0, f"the object lies in {self.surfaces[0].glass}; vacuum was taken")
        self.places()
        place, last = 1, len(self.surfaces) - 1
        while place < last:
            surface = self.surfaces[place]
            if surface.glass.upper() == _MIRROR:
                self.add_mirror(surface)
                place += 1
            elif surface.glass:
                end = place
                while self.surfaces[end].glass and end < last:
                    end += 1
                self.add_glass(self.surfaces[place : end + 1])
                place = end + 1
            else:
                self.add_air(surface, stop)
                place += 1
        self.paraxial()
        self.add_source()
        self.add_detector(num_pixels)
        if self.report.of("unsupported"):
            first = self.report.of("unsupported")[0]
            warnings.warn(f"{self.p.file}: {first}; see the report", UserWarning, stacklevel=3)
        return self.scene, self.report

    def check_kind(self, surface: ZmxSurface) -> None:
        terms = {n: v for n, v in surface.parameters.items() if v != 0.0}
        if surface.kind == "STANDARD" or (surface.kind == "COORDBRK" and not terms):
            return
        if surface.kind in _ASPHERES and all(0 < n <= 16 and n * _ASPHERES[surface.kind] > 1 for n in terms):
            return
        done = "was left out" if surface.kind == "COORDBRK" else "the conic it is based on was taken"
        listed = ", ".join(f"{n}: {v:g}" for n, v in sorted(terms.items())[:8])
        self.say("unsupported", surface.number, f"type {surface.kind} with terms {{{listed}}}; {done}")

    def add_glass(self, faces: list[ZmxSurface]) -> None:
        glasses = faces[:-1]
        if any(s.glass.upper() == _MIRROR for s in faces):
            raise self.fail(faces[0], "glass with a mirror on it is not supported")
        if faces[-1].number == len(self.surfaces) - 1:
            raise self.fail(faces[0], "the image lies in glass, which is not supported")
        for face in faces:
            if face.stop:
                self.say("dropped", face.number, "the stop is a face of glass; the face's own aperture stops light")
        thicknesses = [g.thickness * self.unit for g in glasses]
        if all(t < 0.0 for t in thicknesses):  # light goes along -z, after a mirror
            faces, glasses, thicknesses = faces[::-1], glasses[::-1], [-t for t in thicknesses[::-1]]
        if not all(t > 0.0 for t in thicknesses):
            raise self.fail(glasses[0], f"its thickness is {glasses[0].thickness:g}; glass takes one that is not 0")
        apertures = [self.semi_diameter(face) for face in faces]
        name = self.name("L", faces)
        radii = [self.radius(face) for face in faces]
        cs = CoordinateSystem(z=self.z[faces[0].number])
        media = [self.medium(g) for g in glasses]
        if len(glasses) > 2 or any(self.terms(face) for face in faces):
            self.add_stack(name, faces, thicknesses, media, apertures)
            return
        if len(glasses) == 1:
            self.made(
                faces[0],
                lambda: self.scene.add_lens(
                    name,
                    cs,
                    LensConfig(
                        r1=radii[0],
                        r2=radii[1],
                        thickness=thicknesses[0],
                        material=media[0],
                        front_aperture_radius=apertures[0],
                        back_aperture_radius=apertures[1],
                        conic1=faces[0].conic,
                        conic2=faces[1].conic,
                    ),
                ),
            )
            return
        if max(apertures) - min(apertures) > 1e-9:
            self.say(
                "guessed",
                faces[0].number,
                f"the faces of a doublet share one semi-diameter; {max(apertures):g} mm, the largest, was taken",
            )
        self.made(
            faces[0],
            lambda: self.scene.add_doublet(
                name,
                cs,
                DoubletConfig(
                    *radii,
                    *thicknesses,
                    *media,
                    aperture_radius=max(apertures),
                    conic1=faces[0].conic,
                    conic2=faces[1].conic,
                    conic3=faces[2].conic,
                ),
            ),
        )

    def terms(self, surface: ZmxSurface) -> dict[int, float]:
        """Powers of the distance from the axis in mm, and their coefficients, of an asphere."""
        step = _ASPHERES.get(surface.kind, 0)
        powers = {n * step: value for n, value in surface.parameters.items() if step and value != 0.0}
        if any(not 2 <= power <= 32 for power in powers):
            return {}  # reported as unsupported
        return {power: value * self.unit ** (1 - power) for power, value in powers.items()}

    def shape(self, surface: ZmxSurface, aperture: float) -> ConicGeometry | AsphereGeometry:
        terms = self.terms(surface)
        if terms:
            return AsphereGeometry(self.radius(surface), surface.conic, aperture, terms)
        return ConicGeometry(self.radius(surface), surface.conic, aperture)

    def add_stack(
        self, name: str, faces: list[ZmxSurface], thicknesses: list[float], media: list, apertures: list
    ) -> None:
        """Faces of any shape and number, with a cone from each rim to the next, as one compound."""
        cs = CoordinateSystem(z=self.z[faces[0].number])
        stack = CompoundComponent(name, cs, None)
        around = [VACUUM, *media, VACUUM]
        rims, z = [], 0.0
        for i, (face, aperture) in enumerate(zip(faces, apertures, strict=True)):
            shape = self.made(face, lambda f=face, a=aperture: self.shape(f, a))
            sag = shape.sag(aperture, 0.0) if isinstance(shape, AsphereGeometry) else shape.sag(aperture)
            rims.append((aperture, z + to_float(sag)))
            frame = CoordinateSystem(z=z, reference_cs=cs)
            stack.surfaces.append(
                RefractiveComponent(frame, shape, around[i], around[i + 1], name=f"{name}.face{i + 1}")
            )
            z += thicknesses[i] if i < len(thicknesses) else 0.0
        for i, medium in enumerate(media):
            (r_front, z_front), (r_back, z_back) = rims[i : i + 2]
            wall = self.made(faces[i], lambda a=(r_front, r_back, z_front, z_back): CylindricalFrustumGeometry(*a))
            stack.surfaces.append(AbsorbingComponent(cs, wall, medium, f"{name}.edge{i + 1}", material_back=VACUUM))
        self.scene.add_component(name, stack)

    def add_mirror(self, surface: ZmxSurface) -> None:
        name = self.name("M", [surface])
        self.say("guessed", surface.number, "a mirror's reflectance is not in the file; 1 was taken")
        if self.terms(surface):
            shape = self.made(surface, lambda: self.shape(surface, self.semi_diameter(surface)))
            cs = CoordinateSystem(z=self.z[surface.number])
            self.scene.add_component(name, ReflectiveComponent(cs, shape, 1.0, name=name))
            return
        config = self.made(
            surface,
            lambda: MirrorConfig(
                self.radius(surface), 1.0, conic=surface.conic, aperture_radius=self.semi_diameter(surface)
            ),
        )
        self.made(surface, lambda: self.scene.add_mirror(name, CoordinateSystem(z=self.z[surface.number]), config))

    def add_air(self, surface: ZmxSurface, stop: bool) -> None:
        if not surface.stop:
            if surface.kind != "COORDBRK":
                self.say("dropped", surface.number, "has vacuum on both sides and is no stop")
            return
        inner = surface.semi_diameter * self.unit
        if not stop or not inner > 0.0:
            why = "" if not stop else ", since it has no semi-diameter"
            self.say("dropped", surface.number, f"the stop was left out{why}")
            return
        if surface.curvature:
            self.say("guessed", surface.number, "the stop is curved; a flat one was taken")
        outer = max(1.25 * self.largest(), 2.0 * inner)
        ring = AnnularPlaneGeometry(inner, outer)
        self.scene.add_component(
            "stop", AbsorbingComponent(CoordinateSystem(z=self.z[surface.number]), ring, name="stop")
        )
        self.report.parts["stop"] = (surface.number,)
        self.say("guessed", surface.number, f"the stop's outer radius is not in the file; {outer:g} mm was taken")

    def name(self, letter: str, surfaces: list[ZmxSurface]) -> str:
        self.counts[letter] += 1
        name = f"{letter}{self.counts[letter]}"
        self.report.parts[name] = tuple(sorted(s.number for s in surfaces))
        return name

    # ---- light ----

    def line(self) -> float:
        return self.p.wavelengths[self.p.primary] if self.p.wavelengths else _DEFAULT_LINE_UM

    def paraxial(self) -> None:
        """Focal length and back focal distance by the paraxial equations (y-nu), at the primary wavelength."""
        line, height, slope, index = self.line(), 1.0, 0.0, 1.0
        for surface in self.surfaces[1:-1]:
            if surface.glass.upper() == _MIRROR:
                after = -index
            elif surface.glass:
                n = self.made(surface, lambda s=surface: to_float(self.medium(s).n(line)))
                after = math.copysign(n, index)
            else:
                after = math.copysign(1.0, index)
            curvature = surface.curvature / self.unit + 2.0 * self.terms(surface).get(2, 0.0)
            power = (after - index) * curvature
            slope = (index * slope - height * power) / after
            index = after
            if surface.number < len(self.surfaces) - 2:
                height += surface.thickness * self.unit * slope
        if slope != 0.0:
            self.report.focal_length = -1.0 / (index * slope)
            self.report.back_focal_distance = -height / slope

    def add_source(self) -> None:
        if not self.p.wavelengths:
            self.say("guessed", None, f"no wavelength; {_DEFAULT_LINE_UM:g} µm was taken")
        spectrum = Spectrum(self.p.wavelengths or [_DEFAULT_LINE_UM], self.p.weights or [1.0])
        off_axis = sum(1 for x, y in self.p.fields if x or y)
        if off_axis:
            self.say("dropped", None, f"{off_axis} fields off the axis; the source shines on the axis")
        first, distance = self.surfaces[1], self.surfaces[0].thickness * self.unit
        if math.isinf(distance):
            radius = self.beam_radius(first)
            z = min(self.z[1:]) - 2.0 * self.largest() - radius
            config = self.made(first, lambda: CollimatedSourceConfig(spectrum, aperture_radius=radius))
            self.scene.add_source("source", CoordinateSystem(z=z), config)
            return
        if not distance > 0.0:
            raise self.fail(self.surfaces[0], f"the object's thickness is {distance:g} mm; it takes one above 0")
        if self.p.aperture_kind == "OBNA" and 0.0 < self.p.aperture < 1.0:
            angle = math.degrees(math.asin(self.p.aperture))
        else:
            angle = math.degrees(math.atan(self.semi_diameter(first) / distance))
            self.say("guessed", None, f"the source's cone of {angle:.4g} deg is as wide as surface 1")
        self.scene.add_source(
            "source", CoordinateSystem(z=-distance), PointSourceConfig(spectrum, half_angle_deg=angle)
        )

    def beam_radius(self, first: ZmxSurface) -> float:
        kind, value = self.p.aperture_kind, self.p.aperture
        if kind == "ENPD" and value > 0.0:
            return 0.5 * value * self.unit
        if kind == "FNUM" and value > 0.0 and math.isfinite(self.report.focal_length):
            return 0.5 * abs(self.report.focal_length) / value
        radius = self.semi_diameter(first)
        self.say("guessed", None, f"no diameter of the entrance pupil; a beam as wide as surface 1, {radius:g} mm")
        return radius

    def add_detector(self, num_pixels: int) -> None:
        image = self.surfaces[-1]
        if image.curvature:
            self.say("dropped", image.number, "the image is curved; a flat detector was taken")
        half = image.semi_diameter * self.unit
        if not half > 0.0:
            half = 0.5 * self.largest()
            self.say("guessed", image.number, f"has no semi-diameter; a detector {2.0 * half:g} mm wide was taken")
        config = IrradianceDetectorConfig(2.0 * half, 2.0 * half, num_pixels, num_pixels)
        self.scene.add_detector("image", CoordinateSystem(z=self.z[image.number]), config)
        self.report.parts["image"] = (image.number,)
