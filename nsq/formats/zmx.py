"""Lens prescriptions of Zemax (.zmx), sequential: the numbers of the file, as they are."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from .._files import PathLike, read_bounded

_LONGEST_FILE = 4 * 1024 * 1024  # bytes
_MOST_SURFACES = 2000
_MOST_UNKNOWN = 200
_UNITS_MM = {"MM": 1.0, "CM": 10.0, "IN": 25.4, "METER": 1000.0}


@dataclass
class ZmxSurface:
    """One surface. Lengths are in the file's unit.

    Attributes:
        number: its place, 0 for the object. kind: its type, such as "STANDARD".
        curvature: 1 / radius. conic: conic constant. thickness: distance to the next surface, may be infinite.
        glass: name, "MIRROR", or "" for the ambient medium. index, abbe: nd and Vd that the file gives beside the name,
            0 where it gives none.
        semi_diameter: 0 where the file gives none. stop: whether it is the aperture stop.
        parameters: by number. comment: a text. line: where it begins in the file.
    """

    number: int
    kind: str = "STANDARD"
    curvature: float = 0.0
    conic: float = 0.0
    thickness: float = 0.0
    glass: str = ""
    index: float = 0.0
    abbe: float = 0.0
    semi_diameter: float = 0.0
    stop: bool = False
    parameters: dict[int, float] = field(default_factory=dict)
    comment: str = ""
    line: int = 0


@dataclass
class ZmxPrescription:
    """A sequential system.

    Attributes:
        file: its path. name: its title. unit: length of the file's unit in mm.
        aperture_kind: the keyword of the system aperture, such as "ENPD" for the diameter of the entrance pupil, or "".
        aperture: its value, in the file's unit for a length.
        wavelengths, weights: µm, lines with a weight above 0 in order. primary: place of the primary one among them.
        fields: (x, y) of every field, in degrees or the file's unit as ``field_kind`` says: 0 angles, 1 object heights,
            2 paraxial and 3 real image heights.
        catalogues: names of glass catalogues in the file's order.
        surfaces: from the object to the image.
        dropped: keyword -> lines of the file, for what the reader knows nothing about.
    """

    file: str
    name: str = ""
    unit: float = 1.0
    aperture_kind: str = ""
    aperture: float = 0.0
    wavelengths: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    primary: int = 0
    fields: list[tuple[float, float]] = field(default_factory=list)
    field_kind: int = 0
    catalogues: list[str] = field(default_factory=list)
    surfaces: list[ZmxSurface] = field(default_factory=list)
    dropped: dict[str, list[int]] = field(default_factory=dict)


# of no account for where light goes: bookkeeping, merit functions, tolerances, displays
_BOOKKEEPING = """
    VERS NOTE PFIL LANG ROPD PICB HYPR HIDE MIRR SLAB MAZH XDAT PZUP COFN COFP BLNK TOL TOLF TVAR MNUM MOFF GLRS
    SDMA SCBD POLS PKUP EFFL ENVD GFAC GSTD RAIM PUSH FWGN VDXN VDYN VCXN VCYN VANN OPDX RFLS NSCD MCOM GCDN
    ZVDX ZVDY ZVCX ZVCY ZVAN PRAM PREC CSYS IGNR DMFS BOOS DWFR RWRE CFIG USAN ANGU TCMM SOLV CTEX PPAR PKMA
    EDPF
"""
_SILENT = frozenset(_BOOKKEEPING.split())
_APERTURES = ("ENPD", "FNUM", "OBNA", "FLOA")


class _Parser:
    def __init__(self, file: str) -> None:
        self.out = ZmxPrescription(file)
        self._line = 0
        self._weights: dict[int, tuple[float, float]] = {}
        self._x: list[float] = []
        self._y: list[float] = []
        self._num_fields = 0
        self._num_waves = 0
        self._old_waves: list[float] = []
        self._old_weights: list[float] = []
        self._primary = 1

    def fail(self, what: str) -> ValueError:
        return ValueError(f"{self.out.file}, line {self._line}: {what}")

    def number(self, words: list[str], place: int, what: str, default: float | None = None) -> float:
        if len(words) <= place:
            if default is not None:
                return default
            raise self.fail(f"{words[0]} has {len(words) - 1} values, and lacks {what}")
        text = words[place]
        if text.upper() in ("INFINITY", "-INFINITY"):
            return -math.inf if text.startswith("-") else math.inf
        try:
            value = float(text)
        except ValueError:
            raise self.fail(f"{words[0]}: {what} is {text[:40]!r}; it takes a number") from None
        if math.isnan(value):
            raise self.fail(f"{words[0]}: {what} is {text!r}; it takes a number")
        return value

    def finite(self, words: list[str], place: int, what: str, default: float | None = None) -> float:
        value = self.number(words, place, what, default)
        if math.isinf(value):
            raise self.fail(f"{words[0]}: {what} is {words[place]!r}; it takes a finite number")
        return value

    def whole(self, words: list[str], place: int, what: str, low: int, high: int) -> int:
        value = self.finite(words, place, what)
        if value != math.floor(value) or not low <= value <= high:
            raise self.fail(f"{words[0]}: {what} is {words[place]!r}; it takes {low} to {high}")
        return int(value)

    def parse(self, text: str) -> ZmxPrescription:
        for number, line in enumerate(text.splitlines(), start=1):
            self._line = number
            words = line.split()
            if not words:
                continue
            keyword = words[0].upper()
            # what belongs to a surface is indented under it
            handlers = _OF_SURFACE if line[0].isspace() and self.out.surfaces else _OF_SYSTEM
            handler = handlers.get(keyword) or _OF_SYSTEM.get(keyword) or _OF_SURFACE.get(keyword)
            if handler is not None:
                if handler in _OF_SURFACE.values() and not self.out.surfaces:
                    raise self.fail(f"{keyword} comes before any SURF")
                handler(self, words)
            elif keyword not in _SILENT:
                self.drop(keyword[:20], number)
        return self.finish()

    def drop(self, keyword: str, line: int) -> None:
        if keyword not in self.out.dropped and len(self.out.dropped) >= _MOST_UNKNOWN:
            raise self.fail(f"{keyword!r} is the {_MOST_UNKNOWN + 1}th keyword that is not known; this is no such file")
        self.out.dropped.setdefault(keyword, []).append(line)

    def finish(self) -> ZmxPrescription:
        out = self.out
        if len(out.surfaces) < 3:
            raise ValueError(f"{out.file}: holds {len(out.surfaces)} surfaces; a prescription takes at least 3")
        weights = self._old_weights + [1.0] * (len(self._old_waves) - len(self._old_weights))
        lines = self._weights or dict(enumerate(zip(self._old_waves, weights, strict=False), start=1))
        last = self._num_waves or math.inf  # a file may go on with wavelengths that are not in use
        lit = {place: line for place, line in sorted(lines.items()) if place <= last and line[1] > 0.0}
        out.wavelengths = [line[0] for line in lit.values()]
        out.weights = [line[1] for line in lit.values()]
        out.primary = list(lit).index(self._primary) if self._primary in lit else 0
        pairs = list(zip(self._x, self._y, strict=False)) if self._x and self._y else []
        out.fields = pairs[: self._num_fields] if self._num_fields else pairs
        return out

    # ---- keywords of the system ----

    def mode(self, words: list[str]) -> None:
        if len(words) > 1 and words[1].upper() != "SEQ":
            raise self.fail(f"MODE is {words[1][:20]!r}; it takes SEQ, a sequential prescription")

    def title(self, words: list[str]) -> None:
        self.out.name = " ".join(words[1:])[:200]

    def units(self, words: list[str]) -> None:
        name = words[1].upper() if len(words) > 1 else ""
        if name not in _UNITS_MM:
            raise self.fail(f"UNIT is {name[:20]!r}; it takes one of {sorted(_UNITS_MM)}")
        self.out.unit = _UNITS_MM[name]

    def aperture(self, words: list[str]) -> None:
        self.out.aperture_kind = words[0].upper()
        self.out.aperture = self.finite(words, 1, "the aperture", 0.0)

    def wave(self, words: list[str]) -> None:
        place = self.whole(words, 1, "the wavelength's number", 1, 1000)
        self._weights[place] = (self.wavelength(words, 2), self.weight(words, 3))

    def waves(self, words: list[str]) -> None:
        self._old_waves = [self.wavelength(words, i) for i in range(1, min(len(words), 25))]

    def wave_weights(self, words: list[str]) -> None:
        self._old_weights = [self.weight(words, i) for i in range(1, min(len(words), 25))]

    def wavelength(self, words: list[str], place: int) -> float:
        value = self.finite(words, place, "a wavelength")
        if not 0.0 < value <= 20.0:
            raise self.fail(f"{words[0]}: a wavelength is {value:g}; it takes µm, above 0 and at most 20")
        return value

    def weight(self, words: list[str], place: int) -> float:
        value = self.finite(words, place, "a weight", 1.0)
        if value < 0.0:
            raise self.fail(f"{words[0]}: a weight is {value:g}; it takes a number >= 0")
        return value

    def primary(self, words: list[str]) -> None:
        self._primary = self.whole(words, 1, "the primary wavelength", 1, 1000)

    def field_type(self, words: list[str]) -> None:
        self.out.field_kind = self.whole(words, 1, "the type of fields", 0, 10)
        if len(words) > 3:
            self._num_fields = self.whole(words, 3, "the number of fields", 0, 1000)
        if len(words) > 4:
            self._num_waves = self.whole(words, 4, "the number of wavelengths", 0, 1000)

    def fields_x(self, words: list[str]) -> None:
        self._x = [self.finite(words, i, "a field") for i in range(1, len(words))]

    def fields_y(self, words: list[str]) -> None:
        self._y = [self.finite(words, i, "a field") for i in range(1, len(words))]

    def catalogues(self, words: list[str]) -> None:
        self.out.catalogues = [w.upper()[:40] for w in words[1:21]]

    def surface(self, words: list[str]) -> None:
        number = self.whole(words, 1, "the surface's number", 0, _MOST_SURFACES)
        if number != len(self.out.surfaces):
            raise self.fail(f"SURF is {number}; it takes {len(self.out.surfaces)}, the next one")
        self.out.surfaces.append(ZmxSurface(number, line=self._line))

    # ---- keywords of a surface ----

    @property
    def current(self) -> ZmxSurface:
        return self.out.surfaces[-1]

    def kind(self, words: list[str]) -> None:
        self.current.kind = words[1].upper()[:20] if len(words) > 1 else "STANDARD"

    def curvature(self, words: list[str]) -> None:
        self.current.curvature = self.finite(words, 1, "the curvature")

    def conic(self, words: list[str]) -> None:
        self.current.conic = self.finite(words, 1, "the conic constant")

    def thickness(self, words: list[str]) -> None:
        self.current.thickness = self.number(words, 1, "the thickness")

    def glass(self, words: list[str]) -> None:
        self.current.glass = words[1][:40] if len(words) > 1 else ""
        self.current.index = self.finite(words, 4, "nd", 0.0)
        self.current.abbe = self.finite(words, 5, "Vd", 0.0)

    def diameter(self, words: list[str]) -> None:
        self.current.semi_diameter = abs(self.finite(words, 1, "the semi-diameter"))

    def stop(self, words: list[str]) -> None:
        self.current.stop = True

    def parameter(self, words: list[str]) -> None:
        place = self.whole(words, 1, "the parameter's number", 0, 300)
        self.current.parameters[place] = self.finite(words, 2, "the parameter")

    def comment(self, words: list[str]) -> None:
        self.current.comment = " ".join(words[1:])[:200]


_Handler = Callable[[_Parser, list[str]], None]
_OF_SYSTEM: dict[str, _Handler] = {
    "MODE": _Parser.mode,
    "NAME": _Parser.title,
    "UNIT": _Parser.units,
    **dict.fromkeys(_APERTURES, _Parser.aperture),
    "WAVM": _Parser.wave,
    "WAVL": _Parser.waves,
    "WWGT": _Parser.wave_weights,
    "PWAV": _Parser.primary,
    "FTYP": _Parser.field_type,
    "XFLN": _Parser.fields_x,
    "YFLN": _Parser.fields_y,
    "GCAT": _Parser.catalogues,
    "SURF": _Parser.surface,
}
_OF_SURFACE: dict[str, _Handler] = {
    "TYPE": _Parser.kind,
    "CURV": _Parser.curvature,
    "CONI": _Parser.conic,
    "DISZ": _Parser.thickness,
    "GLAS": _Parser.glass,
    "DIAM": _Parser.diameter,
    "STOP": _Parser.stop,
    "PARM": _Parser.parameter,
    "COMM": _Parser.comment,
}


def read_zmx(path: PathLike) -> ZmxPrescription:
    """The numbers of a sequential prescription, in the file's unit.

    The file is text in UTF-8, UTF-16 with a byte order mark, or Latin-1, of at most 4 MiB. Keywords that say nothing
    about where light goes are passed over; unknown ones are listed in ``dropped``.

    Raises OSError, and ValueError naming the file and the line for what is no sequential prescription or no number.
    """
    file = os.fspath(path)
    raw = read_bounded(path, _LONGEST_FILE)
    try:
        encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding == "utf-16":
            raise ValueError(f"{file}: no UTF-16 text at byte {error.start}") from None
        text = raw.decode("latin-1")
    if "\0" in text:
        raise ValueError(f"{file}: holds byte 0; it takes text")
    return _Parser(file).parse(text)
