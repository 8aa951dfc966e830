"""Thin films against closed forms: Fresnel, Airy, quarter and half waves, metals, frustrated total reflection."""

import cmath
import math

import numpy as np
import pytest
import torch

import nsq
from nsq.coatings import check_coating, coating_table
from nsq.thinfilm import AngularCoating, ThinFilmCoating

D = torch.float64
GREEN = torch.tensor([0.55], dtype=D)
ANGLES = np.array([0.0, 10.0, 30.0, 45.0, 60.0, 80.0, 89.0, 89.99])
MGF2, TIO2 = nsq.NSQMaterial.constant(1.38), nsq.NSQMaterial.constant(2.35)
METAL = nsq.NSQMaterial.constant(0.2, 3.4)
DYED = nsq.NSQMaterial.constant(1.8, 0.15)


def index(n):
    return torch.tensor([n], dtype=D)


def cosines(degrees=ANGLES):
    return torch.tensor(np.cos(np.radians(degrees)), dtype=D)


def polarized(layers, n_in, n_out, degrees=ANGLES, **options):
    """R_s, T_s, R_p, T_p at 0.55 µm, a float array (4, A)."""
    tables = ThinFilmCoating(layers).polarized_table(GREEN, cosines(degrees), index(n_in), index(n_out), **options)
    assert all(table.shape == (1, len(degrees)) and table.dtype == D for table in tables)
    return np.stack([table[0].detach().numpy() for table in tables])


def amplitudes(n1, n2, cos1, cos2):
    """Fresnel's r_s, t_s, r_p, t_p, of tangential fields for p."""
    s, p = n1 * cos1 + n2 * cos2, n2 * cos1 + n1 * cos2
    return (n1 * cos1 - n2 * cos2) / s, 2 * n1 * cos1 / s, (n1 * cos2 - n2 * cos1) / p, 2 * n1 * cos2 / p


def refracted(n1, cos1, n2):
    """The cosine in medium 2, of the wave that decays."""
    root = cmath.sqrt(1 - (n1 / n2) ** 2 * (1 - cos1**2))
    return root if (n2 * root).imag >= 0 else -root


def airy(n0, n1, n2, thickness, degrees):
    """R_s, T_s, R_p, T_p of one film, by the sum over its internal reflections."""
    c0 = math.cos(math.radians(degrees))
    c1, c2 = refracted(n0, c0, n1), refracted(n0, c0, n2)
    turn = cmath.exp(2j * math.pi * n1 * c1 * thickness / 0.55)
    out = []
    front, back = amplitudes(n0, n1, c0, c1), amplitudes(n1, n2, c1, c2)
    for k, admittances in ((0, (n0 * c0, n2 * c2)), (2, (n0 / c0, n2 / c2))):
        below = 1 + front[k] * back[k] * turn**2
        r = (front[k] + back[k] * turn**2) / below
        t = front[k + 1] * back[k + 1] * turn / below
        out += [abs(r) ** 2, complex(admittances[1]).real / admittances[0] * abs(t) ** 2]
    return out


@pytest.mark.parametrize(("n_in", "n_out"), [(1.0, 1.5), (1.5, 1.0), (1.33, 1.33), (1.0, 4.0)])
def test_no_layers_are_fresnel(n_in, n_out):
    found = polarized([], n_in, n_out)
    for angle, (r_s, t_s, r_p, t_p) in zip(ANGLES, found.T, strict=True):
        c0 = math.cos(math.radians(angle))
        s, _, p, _ = amplitudes(n_in, n_out, c0, refracted(n_in, c0, n_out))
        assert (r_s, r_p) == pytest.approx((abs(s) ** 2, abs(p) ** 2), abs=1e-14)
        assert (r_s + t_s, r_p + t_p) == pytest.approx((1.0, 1.0), abs=1e-12)
        if n_in * math.sin(math.radians(angle)) > n_out:
            assert (t_s, t_p) == (0.0, 0.0)
            assert (r_s, r_p) == pytest.approx((1.0, 1.0), abs=1e-14)


def test_the_unpolarised_table_is_the_mean():
    r_s, t_s, r_p, t_p = polarized([(MGF2, 0.1)], 1.0, 1.5)
    r, t = ThinFilmCoating([(MGF2, 0.1)]).angular_table(GREEN, cosines(), index(1.0), index(1.5))
    assert r[0].numpy() == pytest.approx(0.5 * (r_s + r_p), abs=1e-15)
    assert t[0].numpy() == pytest.approx(0.5 * (t_s + t_p), abs=1e-15)


def test_quarter_wave_of_magnesium_fluoride():
    found = polarized([(MGF2, 0.55 / (4.0 * 1.38))], 1.0, 1.52, np.array([0.0]))[:, 0]
    wanted = ((1.52 - 1.38**2) / (1.52 + 1.38**2)) ** 2
    assert found == pytest.approx([wanted, 1.0 - wanted, wanted, 1.0 - wanted], abs=1e-14)
    assert wanted == pytest.approx(0.0126, abs=5e-5)
    ideal = nsq.NSQMaterial.constant(math.sqrt(1.52))
    found = polarized([(ideal, 0.55 / (4.0 * math.sqrt(1.52)))], 1.0, 1.52, np.array([0.0]))
    assert found[[0, 2], 0] == pytest.approx([0.0, 0.0], abs=1e-30)


@pytest.mark.parametrize("pairs", [1, 3, 8])
def test_quarter_wave_stack(pairs):
    """(HL)^N H on glass: R = ((n0 - Y) / (n0 + Y))^2 with Y = (nH / nL)^(2N) nH^2 / ns."""
    high, low = (TIO2, 0.55 / (4.0 * 2.35)), (MGF2, 0.55 / (4.0 * 1.38))
    found = polarized([high, low] * pairs + [high], 1.0, 1.52, np.array([0.0]))
    admittance = (2.35 / 1.38) ** (2 * pairs) * 2.35**2 / 1.52
    wanted = ((1.0 - admittance) / (1.0 + admittance)) ** 2
    assert found[:, 0] == pytest.approx([wanted, 1.0 - wanted, wanted, 1.0 - wanted], abs=1e-12)


@pytest.mark.parametrize("angle", [0.0, 50.0])
def test_a_half_wave_is_absent(angle):
    cosine = math.sqrt(1.0 - (math.sin(math.radians(angle)) / 2.35) ** 2)
    layers = [(TIO2, 0.55 / (2.0 * 2.35 * cosine))]
    there, bare = (polarized(stack, 1.0, 1.52, np.array([angle])) for stack in (layers, []))
    assert there == pytest.approx(bare, abs=1e-13)


@pytest.mark.parametrize(
    ("film", "n_in", "n_out"),
    [(1.38, 1.0, 1.52), (2.35, 1.52, 1.0), (0.2 + 3.4j, 1.0, 1.52), (1.8 + 0.15j, 1.52, 1.0), (1.0, 1.5, 1.5)],
)
@pytest.mark.parametrize("thickness", [0.0, 0.03, 0.4])
def test_one_film_is_the_sum_of_its_reflections(film, n_in, n_out, thickness):
    material = nsq.NSQMaterial.constant(complex(film).real, complex(film).imag)
    found = polarized([(material, thickness)], n_in, n_out)
    for angle, shares in zip(ANGLES, found.T, strict=True):
        assert shares == pytest.approx(airy(n_in, film, n_out, thickness, angle), rel=1e-9, abs=1e-12)


def test_total_reflection_is_frustrated_by_a_narrow_gap():
    """Glass, air, glass at 45 degrees: from everything at no gap to nothing at a wide one."""
    air = nsq.VACUUM
    shares = [polarized([(air, gap)], 1.5, 1.5, np.array([45.0]))[:, 0] for gap in (0.0, 0.02, 0.1, 0.5, 5.0)]
    for r_s, t_s, r_p, t_p in shares:
        assert (r_s + t_s, r_p + t_p) == pytest.approx((1.0, 1.0), abs=1e-12)
    passed = np.array(shares)[:, 1]
    assert passed[0] == pytest.approx(1.0, abs=1e-14)
    assert np.all(np.diff(passed) < 0.0)
    assert passed[-1] < 1e-15
    # 1 / T_s = 1 + sinh(x)^2 (1 - n^2)^2 / (4 n^2 cos^2 (n^2 sin^2 - 1))
    x = 2.0 * math.pi * 0.1 / 0.55 * math.sqrt(1.125 - 1.0)
    wanted = 1.0 / (1.0 + math.sinh(x) ** 2 * (1.0 - 2.25) ** 2 / (4.0 * 1.125 * (1.125 - 1.0)))
    assert passed[2] == pytest.approx(wanted, rel=1e-12)


def test_a_thick_metal_is_a_mirror():
    found = polarized([(METAL, 1000.0)], 1.0, 1.52)
    for angle, (r_s, t_s, r_p, t_p) in zip(ANGLES, found.T, strict=True):
        c0 = math.cos(math.radians(angle))
        s, _, p, _ = amplitudes(1.0, 0.2 + 3.4j, c0, refracted(1.0, c0, 0.2 + 3.4j))
        assert (r_s, r_p) == pytest.approx((abs(s) ** 2, abs(p) ** 2), abs=1e-13)
        assert (t_s, t_p) == (0.0, 0.0)


def test_a_weak_absorber_is_beer_lambert():
    grey = nsq.NSQMaterial.constant(1.5, 1e-4)
    _, t_s, _, t_p = polarized([(grey, 200.0)], 1.5, 1.5, np.array([0.0, 60.0]))
    wanted = np.exp(-4.0 * np.pi * 1e-4 * 200.0 / 0.55 / np.array([1.0, 0.5]))
    assert t_s == pytest.approx(wanted, rel=1e-5)
    assert t_p == pytest.approx(wanted, rel=1e-5)


def random_stack(seed):
    rng = np.random.default_rng(seed)
    numbers = zip(rng.uniform(0.1, 4.0, 6), rng.uniform(0.0, 2.0, 6), strict=True)
    materials = [nsq.NSQMaterial.constant(n, k) for n, k in numbers]
    return [(material, thickness) for material, thickness in zip(materials, rng.uniform(0.0, 0.3, 6), strict=True)]


@pytest.mark.parametrize("seed", range(5))
def test_energy_and_reciprocity(seed):
    """R + T <= 1 from both sides; T is the same along a path and back."""
    layers, inside = random_stack(seed), np.linspace(0.0, 41.0, 30)
    outside = np.degrees(np.arcsin(1.5 * np.sin(np.radians(inside))))
    ahead = polarized(layers, 1.5, 1.0, inside)
    back = polarized(layers, 1.0, 1.5, outside, from_back=True)
    for shares in (ahead, back):
        assert np.all(shares >= 0.0)
        assert np.all(shares[0] + shares[1] <= 1.0 + 1e-12)
        assert np.all(shares[2] + shares[3] <= 1.0 + 1e-12)
    assert ahead[[1, 3]] == pytest.approx(back[[1, 3]], rel=1e-7)  # of the angles' own rounding near grazing
    assert abs(ahead[0] - back[0]).max() > 1e-3  # R is not


def test_the_first_layer_is_next_to_the_front():
    layers = [(METAL, 0.01), (DYED, 0.1)]
    front = polarized(layers, 1.0, 1.5)
    assert polarized(layers[::-1], 1.0, 1.5, from_back=True) == pytest.approx(front, abs=1e-15)
    # a thick layer hides what lies behind it
    thick = [(METAL, 5.0), (DYED, 0.1)]
    assert polarized(thick, 1.0, 1.5)[0] == pytest.approx(polarized([(METAL, 5.0)], 1.0, 1.5)[0], abs=1e-12)
    assert polarized(thick, 1.5, 1.0, from_back=True)[0] != pytest.approx(front[0], abs=1e-3)


@pytest.mark.parametrize("n_layer", [1.2, 0.75])
def test_the_critical_angle_of_a_layer_is_a_regular_point(n_layer):
    """Where the wave in a layer runs along it, both roots meet; values and derivatives pass smoothly."""
    thickness = torch.tensor(0.2, dtype=D, requires_grad=True)
    coating = ThinFilmCoating([(nsq.NSQMaterial.constant(n_layer), thickness)])
    c = math.sqrt(1.0 - (n_layer / 1.5) ** 2)
    around = torch.tensor([c - 1e-6, c - 1e-15, c, c + 1e-15, c + 1e-6], dtype=D)
    values, slopes = [], []
    for k in range(5):
        r, _ = coating.angular_table(GREEN, around[k : k + 1], index(1.5), index(1.5))
        values.append(r.item())
        slopes.append(torch.autograd.grad(r.sum(), thickness)[0].item())
    for row in (values, slopes):
        assert np.isfinite(row).all()
        assert row[1:4] == pytest.approx([0.5 * (row[0] + row[4])] * 3, rel=1e-8)


def test_gradients_reach_thicknesses_and_indices():
    lines = torch.tensor([0.45, 0.65], dtype=D)
    c = torch.tensor([1.0, 0.7, 0.2], dtype=D)
    values = [1.38, 0.01, 0.09, 2.2, 0.3, 0.06, 1.0, 1.52]
    numbers = [torch.tensor(v, dtype=D, requires_grad=True) for v in values]

    def table(n1, k1, d1, n2, k2, d2, n_in, n_out):
        coating = ThinFilmCoating([(nsq.NSQMaterial.constant(n1, k1), d1), (nsq.NSQMaterial.constant(n2, k2), d2)])
        return torch.cat(coating.polarized_table(lines, c, n_in.expand(2), n_out.expand(2)))

    assert torch.autograd.gradcheck(table, numbers, eps=1e-6, atol=1e-8, rtol=1e-6)


def test_gradients_beyond_the_critical_angle():
    d = torch.tensor(0.05, dtype=D, requires_grad=True)
    c = torch.tensor([0.9, 0.3, 0.0], dtype=D)

    def table(thickness):
        return torch.cat(ThinFilmCoating([(METAL, thickness)]).polarized_table(GREEN, c, index(1.5), index(1.0)))

    assert torch.autograd.gradcheck(table, (d,), eps=1e-6, atol=1e-9, rtol=1e-6)


def test_a_float32_thickness_gets_its_gradient():
    d = torch.tensor(0.1, requires_grad=True)
    r, _ = ThinFilmCoating([("N-BK7", d)]).angular_table(GREEN, cosines(), index(1.0), index(2.0))
    r.sum().backward()
    assert d.grad.dtype == torch.float32
    assert d.grad.item() != 0.0


def test_dispersion_follows_the_wavelength():
    lines = torch.tensor([0.45, 0.65], dtype=D)
    c = torch.ones(1, dtype=D)
    r, _ = ThinFilmCoating([("N-SF11", 0.1)]).angular_table(lines, c, torch.ones(2), torch.full((2,), 1.5))
    for k, line in enumerate(lines.tolist()):
        n = nsq.NSQMaterial.from_glass("N-SF11").n(line)
        phase = 2.0 * math.pi * n * 0.1 / line
        e, h = math.cos(phase) - 1j * 1.5 / n * math.sin(phase), 1.5 * math.cos(phase) - 1j * n * math.sin(phase)
        assert r[k, 0].item() == pytest.approx(abs((e - h) / (e + h)) ** 2, rel=1e-6)


@pytest.mark.parametrize(
    ("layers", "error", "words"),
    [
        (0.1, TypeError, ["layers", "pairs"]),
        ([0.1], TypeError, ["layers", "pairs"]),
        ([("N-BK7", 0.1, 2)], TypeError, ["layers", "pairs"]),
        ([("N-BK7", 0.1), ("N-BK7", -0.1)], ValueError, ["layers[1] thickness", "-0.1", ">= 0"]),
        ([("NBK7", 0.1)], ValueError, ["layers[0] material", "N-BK7"]),
        ([(1.38, 0.1)], TypeError, ["layers[0] material", "1.38"]),
        ([("N-BK7", "thin")], TypeError, ["layers[0] thickness", "thin"]),
    ],
)
def test_layers_that_are_none(layers, error, words):
    with pytest.raises(error) as caught:
        ThinFilmCoating(layers)
    for word in words:
        assert word in str(caught.value)


def test_surfaces_take_angular_coatings():
    coating = ThinFilmCoating([("N-BK7", 0.1)])
    assert check_coating(coating, "coating") is coating
    config = nsq.SurfaceConfig(coating=coating)
    assert config.coating is coating
    coating.layers = [("N-BK7", -1.0)]
    with pytest.raises(ValueError, match=r"^layers\[0\] thickness"):
        check_coating(coating, "coating")
    with pytest.raises(TypeError, match=r"^coating got ThinFilmCoating, whose shares depend on the angle"):
        coating_table(ThinFilmCoating(), GREEN)


def test_a_function_of_the_angle():
    scale = torch.tensor(0.5, dtype=D, requires_grad=True)
    at_once = AngularCoating(lambda wl, c: (scale * wl * (1.0 - c), 0.3 * c))
    lines, c = torch.tensor([0.5, 0.6], dtype=D), torch.tensor([0.0, 0.5, 1.0], dtype=D)
    r, t = at_once.angular_table(lines, c, torch.ones(2), torch.ones(2))
    assert r.detach().numpy() == pytest.approx(0.5 * lines[:, None].numpy() * (1.0 - c.numpy()))
    assert t.numpy() == pytest.approx(np.tile(0.3 * c.numpy(), (2, 1)))
    r.sum().backward()
    assert scale.grad.item() == pytest.approx(1.1 * 1.5)
    calls = []

    def scalar(wavelength, cosine):
        calls.append((wavelength, cosine))
        return (0.9, 0.1) if cosine < 0.4 else (0.2, scale)

    r, t = AngularCoating(scalar).angular_table(lines, c)
    assert r.tolist() == [[0.9, 0.2, 0.2]] * 2
    assert t.tolist() == [[0.1, 0.5, 0.5]] * 2
    assert t.requires_grad
    assert calls[-1] == (0.6, 1.0)


def test_a_constant_function():
    r, t = AngularCoating(lambda wl, c: (0.2, 0.7)).angular_table(GREEN, cosines())
    assert r.tolist() == [[0.2] * len(ANGLES)]
    assert t.tolist() == [[0.7] * len(ANGLES)]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda wl, c: (1.2, 0.0), r"^reflectance got 1.2 at 0.55 µm and cos_i = 1; it takes a number >= 0 and <= 1"),
        (lambda wl, c: (0.0, c - 0.5), r"^transmittance got -0.\d+ at 0.55 µm"),
        (lambda wl, c: (0.6, 0.6), r"^reflectance \+ transmittance got 1.2"),
        (lambda wl, c: (math.nan, 0.6), r"^reflectance got nan"),
        (lambda wl, c: (0.5,), r"^function got 1 results at 0.55 µm"),
    ],
)
def test_functions_are_checked_where_they_are_evaluated(function, message):
    with pytest.raises(ValueError, match=message):
        AngularCoating(function).angular_table(GREEN, cosines())


def test_what_is_no_function():
    with pytest.raises(TypeError, match=r"^function got 0.5 of type float"):
        AngularCoating(0.5)
