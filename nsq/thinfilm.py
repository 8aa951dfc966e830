"""Coatings whose shares of flux depend on the angle: stacks of thin films, and functions of the angle.

Both give tables over wavelength and over the cosine of the angle of incidence, for light that is not polarised, by
``angular_table``. The media on the two sides come with the question, since they belong to the surface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._names import named_arguments
from .materials import NSQMaterial, as_material
from .numbers import Number, check_number, stack

_SLACK = 1e-9
_GRAZING = 1e-12  # cosines below count as this one: at 0 the shares of equal media are 0 / 0
_SMALL = 1e-4  # phases below take the series of sin(x) / x
_TINY = 1e-30


@named_arguments
class ThinFilmCoating:
    """A stack of homogeneous layers between a surface's two media, coherent within the stack.

    Args:
        layers: pairs (material, thickness), from the one next to ``material_front`` to the one next to
            ``material_back``. A material is a glass name, an NSQMaterial or an object with ``n`` and ``k``; the
            thickness is in µm, >= 0. No layers at all is the bare interface.

    Attributes:
        layers: the pairs, a tuple with every material as an NSQMaterial; reassignable, `validate` takes what the
            constructor takes.

    Gradients reach thicknesses, and whatever the materials' n and k are made of. What layers absorb is lost in the
    coating. Raises TypeError and ValueError naming the layer, from 0.
    """

    def __init__(self, layers: Sequence[tuple[Any, Number]] = ()) -> None:
        self.layers = layers
        self.validate()

    def validate(self) -> None:
        """Check every layer; materials given by name become NSQMaterials."""
        try:
            pairs = [(material, thickness) for material, thickness in self.layers]
        except (TypeError, ValueError):
            raise TypeError(f"layers got {self.layers!r}; it takes pairs (material, thickness in µm)") from None
        checked: list[tuple[NSQMaterial, Number]] = []
        for place, (material, thickness) in enumerate(pairs):
            check_number(thickness, f"layers[{place}] thickness", nonnegative=True)
            checked.append((as_material(material, f"layers[{place}] material"), thickness))
        self.layers = tuple(checked)

    def angular_table(
        self,
        wavelengths: torch.Tensor,
        cosines: torch.Tensor,
        n_in: torch.Tensor,
        n_out: torch.Tensor,
        *,
        from_back: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Reflectance and transmittance of unpolarised light, each (W, A) float64 and attached: the means of s and p.

        Arguments as for `polarized_table`.
        """
        r_s, t_s, r_p, t_p = self.polarized_table(wavelengths, cosines, n_in, n_out, from_back=from_back)
        return 0.5 * (r_s + r_p), 0.5 * (t_s + t_p)

    def polarized_table(
        self,
        wavelengths: torch.Tensor,
        cosines: torch.Tensor,
        n_in: torch.Tensor,
        n_out: torch.Tensor,
        *,
        from_back: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """R_s, T_s, R_p, T_p: shares of flux, each (W, A) float64 and attached, also to ``n_in`` and ``n_out``.

        Args:
            wavelengths: (W,) in µm.
            cosines: (A,) of the angles of incidence, 0 to 1.
            n_in, n_out: (W,) indices of the medium that light comes from and of the one behind the stack.
            from_back: light comes from the back and meets the last layer first.

        Characteristic matrices after Macleod, Thin-Film Optical Filters, chapter 2, for fields that vary as
        exp(-i omega t), so that n + i k with k > 0 absorbs. Both media are taken as transparent here. Beyond the
        critical angle T is 0, and R is 1 less what absorbing layers take.
        """
        lines = wavelengths.to(torch.float64)
        c0 = cosines.to(torch.float64).clamp(min=_GRAZING)[None, :]
        first, last = (n.to(torch.float64)[:, None] for n in (n_in, n_out))
        # gamma = n cos(theta) in each medium; gamma^2 follows from Snell's law without cancellation
        above = first * c0
        below_squared = (last - first) * (last + first) + above**2
        below = _forward_root(below_squared)
        fields_s = (torch.ones_like(below), below)
        fields_p = (below, (last**2).expand_as(below).to(below.dtype))
        loss = torch.zeros_like(above)
        for index, thickness in self._from_exit(lines, from_back):
            squared = (index - first) * (index + first) + above**2
            cosine, sine_over_gamma, damping = _phase(squared, 2.0 * math.pi * thickness / lines[:, None])
            loss = loss + damping
            index_squared = (index**2).expand_as(squared)
            fields_s = _through(fields_s, cosine, sine_over_gamma, squared * sine_over_gamma)
            fields_p = _through(
                fields_p, cosine, squared / index_squared * sine_over_gamma, index_squared * sine_over_gamma
            )
        through = torch.exp(-2.0 * loss) * 4.0 * above * below.real
        r_s, over_s = _shares(above * fields_s[0], fields_s[1])
        r_p, over_p = _shares(first**2 * fields_p[0], above * fields_p[1])
        return r_s, through * over_s, r_p, through * (first * last) ** 2 * over_p

    def _from_exit(self, lines: torch.Tensor, from_back: bool) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Complex index (W, 1) and thickness () of each layer, the one that light meets last first."""
        if not self.layers:
            return []
        order = self.layers if from_back else self.layers[::-1]
        thicknesses = stack([thickness for _, thickness in order], lines.device)
        made = []
        for (material, _), thickness in zip(order, thicknesses, strict=True):
            n, k = material.index_table(lines)
            made.append((torch.complex(n, k)[:, None], thickness))
        return made

    def __repr__(self) -> str:
        inside = ", ".join(f"({material!r}, {thickness!r})" for material, thickness in self.layers)
        return f"ThinFilmCoating([{inside}])"


def _forward_root(squared: torch.Tensor) -> torch.Tensor:
    """The root of a real number as a complex one: positive, or positive imaginary, which decays."""
    size = torch.sqrt(squared.abs().clamp(min=_TINY))
    nothing = torch.zeros_like(size)
    passes = squared > 0.0
    return torch.complex(torch.where(passes, size, nothing), torch.where(passes, nothing, size))


def _phase(squared: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """cos(d), sin(d) / gamma and their common damping s for d = ``scale`` * gamma, gamma^2 = ``squared``.

    The first two are to be multiplied by exp(s), which would overflow in thick absorbing layers. They are even in
    gamma, so either root serves.
    """
    squared = torch.where(squared.abs() < _TINY, torch.full_like(squared, _TINY), squared)
    phase = scale * torch.sqrt(squared)
    damping = phase.imag.abs().detach()
    ahead, back = torch.exp(1j * phase - damping), torch.exp(-1j * phase - damping)
    small = phase.abs() < _SMALL
    divisor = torch.where(small, torch.ones_like(phase), phase)
    ratio = torch.where(small, (1.0 - phase**2 / 6.0) * torch.exp(-damping), (ahead - back) / (2j * divisor))
    return 0.5 * (ahead + back), scale * ratio, damping


def _through(
    fields: tuple[torch.Tensor, torch.Tensor], cosine: torch.Tensor, upper: torch.Tensor, lower: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tangential electric and magnetic field in front of a layer from those behind it."""
    electric, magnetic = fields
    return cosine * electric - 1j * upper * magnetic, cosine * magnetic - 1j * lower * electric


def _shares(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """|(a - b) / (a + b)|^2 and 1 / |a + b|^2."""
    total = a + b
    over = 1.0 / (total.real**2 + total.imag**2)
    rest = a - b
    return (rest.real**2 + rest.imag**2) * over, over


@named_arguments
class AngularCoating:
    """A coating by a function of wavelength and angle, the same from both sides.

    Args:
        function: (wavelength_um, cos_i) -> (R, T), shares of flux of unpolarised light, where cos_i is the cosine of
            the angle of incidence. It is tried with tensors of shapes (W, 1) and (1, A), and with one pair of Python
            floats after the other if it does not take these. Gradients reach what it is made of.

    What is neither reflected nor transmitted is lost in the coating. Raises TypeError for what is no function.
    """

    def __init__(self, function: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self.function = function
        self.validate()

    def validate(self) -> None:
        if not callable(self.function):
            raise TypeError(
                f"function got {self.function!r} of type {type(self.function).__name__};"
                " it takes a function (wavelength_um, cos_i) -> (R, T)"
            )

    def angular_table(
        self,
        wavelengths: torch.Tensor,
        cosines: torch.Tensor,
        n_in: torch.Tensor | None = None,
        n_out: torch.Tensor | None = None,
        *,
        from_back: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Reflectance and transmittance, each (W, A) float64 and attached, at ``wavelengths`` (W,) in µm and
        ``cosines`` (A,); the media and the side do not matter.

        Raises ValueError naming wavelength and cosine where a share leaves [0, 1] or the two sum to more than 1.
        """
        shares = self._at_once(wavelengths, cosines)
        if shares is None:
            shares = self._one_by_one(wavelengths, cosines)
        reflectance, transmittance = shares
        for name, table in (
            ("reflectance", reflectance),
            ("transmittance", transmittance),
            ("reflectance + transmittance", reflectance + transmittance),
        ):
            bad = ~((table >= -_SLACK) & (table <= 1.0 + _SLACK))
            if bool(bad.any()):
                w, a = bad.nonzero()[0].tolist()
                raise ValueError(
                    f"{name} got {float(table[w, a].detach()):g} at {float(wavelengths[w]):g} µm and cos_i ="
                    f" {float(cosines[a]):g}; it takes a number >= 0 and <= 1"
                )
        return reflectance, transmittance

    def _at_once(self, wavelengths: torch.Tensor, cosines: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        try:
            values = self.function(wavelengths[:, None], cosines[None, :])
            first, second = (torch.as_tensor(v, dtype=torch.float64, device=cosines.device) for v in values)
            shape = (len(wavelengths), len(cosines))
            return first.expand(shape), second.expand(shape)
        except Exception:
            return None  # takes numbers only, or fails for them too: the calls one by one tell

    def _one_by_one(self, wavelengths: torch.Tensor, cosines: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat: list[Any] = []
        for wavelength in wavelengths.tolist():
            for cosine in cosines.tolist():
                values = tuple(self.function(wavelength, cosine))
                if len(values) != 2:
                    raise ValueError(f"function got {len(values)} results at {wavelength:g} µm; it takes two, R and T")
                flat += [check_number(v, name, finite=False) for v, name in zip(values, ("R", "T"), strict=True)]
        table = stack(flat, cosines.device).reshape(len(wavelengths), len(cosines), 2)
        return table[..., 0], table[..., 1]

    def __repr__(self) -> str:
        return f"AngularCoating({self.function!r})"
