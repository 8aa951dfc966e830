"""Scatter lobes as data: what they check, their integrals in closed form, and the tables that the device reads."""

import math

import numpy as np
import pytest
import torch

import nsq
from nsq.bsdfs import ABgBSDF, GaussianBSDF, HarveyShackBSDF, LambertianBSDF, SpecularBRDF, TabulatedBSDF, check_bsdf

UP = np.array([[0.0, 0.0, 1.0]])


def incidence(*degrees):
    """Directions at these angles of incidence, and normals that face them."""
    angle = np.radians(degrees)
    directions = np.stack([np.sin(angle), 0.0 * angle, -np.cos(angle)], axis=1)
    return directions, np.repeat(UP, len(degrees), axis=0)


def write(path, theta_i, theta_s, function, heading=None):
    lines = [] if heading is None else [heading]
    lines += [f"{i!r},{s!r},{float(function(i, s))!r}" for i in theta_i for s in theta_s]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def smooth(tmp_path):
    """A lobe that is nowhere flat."""
    theta_i, theta_s = [0.0, 20.0, 55.0, 90.0], [0.0, 10.0, 25.0, 40.0, 70.0, 90.0]
    return write(tmp_path / "smooth.csv", theta_i, theta_s, lambda i, s: 0.25 * math.exp(-s / 40.0) * (1.0 - i / 300.0))


# ---- Harvey-Shack, ABg, Gaussian -------------------------------------------------------------------------------------


def test_abg_scatters_what_its_closed_form_says():
    lobe = ABgBSDF(0.01, 0.001, 2.0)
    assert lobe.total_integrated_scatter == pytest.approx(math.pi * 0.01 * math.log(1001.0), rel=1e-14)
    assert lobe.total_integrated_scatter == pytest.approx(0.217045, rel=5e-6)


@pytest.mark.parametrize("b", [1e-8, 1e-3, 0.5])
@pytest.mark.parametrize("g", [0.0, 0.7, 1.0, 1.5, 2.0, 2.7, 4.0])
def test_abg_quadrature_and_closed_forms_agree(b, g):
    """Against the integral in u = beta^g, whose integrand is smooth, by its hypergeometric closed form in scipy."""
    from scipy.special import hyp2f1

    lobe = ABgBSDF(1e-6 * b, b, g)
    # int_0^1 beta / (b + beta^g) d beta = 2F1(1, 2/g; 1 + 2/g; -1/b) / (2 b)
    shape = 0.5 / (b + 1.0) if g == 0.0 else hyp2f1(1.0, 2.0 / g, 1.0 + 2.0 / g, -1.0 / b) / (2.0 * b)
    assert lobe.total_integrated_scatter == pytest.approx(2.0 * math.pi * 1e-6 * b * shape, rel=1e-9)
    assert lobe.cumulative()[-1] == pytest.approx(lobe.total_integrated_scatter, rel=1e-6)


def test_harvey_shack_keeps_the_whole_disk_of_radius_2():
    lobe = HarveyShackBSDF(10.0, math.sqrt(1e-3), 2.0)  # the same curve as a = 0.01, b = 0.001, g = 2
    assert lobe.total_integrated_scatter == pytest.approx(math.pi * 0.01 * math.log1p(4000.0), rel=1e-3)
    assert lobe.total_integrated_scatter == pytest.approx(0.26057, abs=5e-6)
    beta = np.linspace(0.0, 1.0, 7)
    assert lobe.value(beta) == pytest.approx(ABgBSDF(0.01, 0.001, 2.0).value(beta), rel=1e-12)
    assert HarveyShackBSDF(1e3, 0.1, 2.0).total_integrated_scatter == 1.0  # at most 1


def test_the_table_of_harvey_shack_is_the_trapezoid_rule():
    lobe = HarveyShackBSDF(1e-2, 0.05, 1.5)
    table = lobe.table()
    assert table.shape == (4097,)
    assert table.dtype == np.float64
    beta = np.linspace(0.0, 2.0, 4096)
    density = 1e-2 / (1.0 + (beta / 0.05) ** 1.5) * 2.0 * np.pi * beta
    running = [np.trapezoid(density[: k + 1], beta[: k + 1]) for k in (0, 1, 100, 4095)]
    assert table[0] == 2.0
    assert table[[1, 2, 101, 4096]] == pytest.approx(np.array(running) / running[-1], rel=1e-12)
    assert table[-1] == 1.0


@pytest.mark.parametrize("lobe", [ABgBSDF(0.01, 0.001, 2.0), ABgBSDF(1e-8, 1e-8, 2.0), GaussianBSDF(0.05)])
def test_radial_tables_rise_from_0_to_1(lobe):
    table = lobe.table()
    assert table[0] == lobe.reach <= 1.0
    assert (table[1], table[-1]) == (0.0, 1.0)
    assert np.all(np.diff(table[1:]) > 0.0)


def test_radial_tables_hold_the_exact_distribution_at_their_steps():
    table = ABgBSDF(0.01, 0.001, 2.0).table()
    beta = np.linspace(0.0, 1.0, len(table) - 1)
    assert table[1:] == pytest.approx(np.log1p(beta**2 / 0.001) / np.log1p(1000.0), abs=1e-12)
    table = GaussianBSDF(0.4).table()
    beta = np.linspace(0.0, 1.0, 4096)
    assert table[1:] == pytest.approx((1.0 - np.exp(-(beta**2) / 0.32)) / (1.0 - np.exp(-1.0 / 0.32)), abs=1e-14)


def test_a_narrow_lobe_has_a_finer_table():
    """The shoulder b^(1/g) stays several steps wide."""
    assert len(ABgBSDF(0.01, 0.001, 2.0).table()) == 4097
    fine = ABgBSDF(1e-9, 1e-7, 2.0).table()
    assert math.sqrt(1e-7) * (len(fine) - 2) > 7.0
    beta = np.linspace(0.0, 1.0, len(fine) - 1)
    assert fine[1:] == pytest.approx(np.log1p(beta**2 / 1e-7) / np.log1p(1e7), abs=1e-10)
    assert len(ABgBSDF(1e-14, 1e-14, 2.0).table()) == 131073


@pytest.mark.parametrize("sigma", [0.01, 0.3, 5.0])
def test_a_gaussian_scatters_everything(sigma):
    lobe = GaussianBSDF(sigma)
    assert lobe.total_integrated_scatter == 1.0
    beta = np.linspace(0.0, lobe.reach, 200001)
    assert np.trapezoid(lobe.value(beta) * 2.0 * np.pi * beta, beta) == pytest.approx(1.0, rel=1e-8)
    assert lobe.value(lobe.reach * 1.01) == 0.0


def test_mean_weights_of_radial_lobes():
    """What leaves the unit disk weighs nothing; against a count of points of the same lobe."""
    angles = (0.0, 30.0, 70.0, 90.0)
    lobe = ABgBSDF(0.01, 0.001, 2.0)
    shares = lobe.reflectance(*incidence(*angles), None)
    assert shares[0] == pytest.approx(1.0, abs=1e-12)
    assert np.all(np.diff(shares) < 0.0)
    rng = np.random.default_rng(5)
    u, phi = rng.random(400_000), 2.0 * np.pi * rng.random(400_000)
    beta = np.sqrt(0.001 * np.expm1(u * np.log1p(1000.0)))
    for angle, share in zip(angles[1:], shares[1:], strict=True):
        x = math.sin(math.radians(angle)) + beta * np.cos(phi)
        inside = np.mean(x**2 + (beta * np.sin(phi)) ** 2 <= 1.0)
        assert share == pytest.approx(inside, abs=4.0 * math.sqrt(inside * (1.0 - inside) / 400_000))
    share = HarveyShackBSDF(10.0, math.sqrt(1e-3), 2.0).reflectance(*incidence(0.0), None)[0]
    assert share == pytest.approx(math.log1p(1e3) / math.log1p(4e3), rel=1e-3)


# ---- tables from a file ----------------------------------------------------------------------------------------------


def test_a_file_is_read_in_any_order(tmp_path, smooth):
    lines = smooth.read_text().splitlines()
    shuffled = [lines[i] for i in np.random.default_rng(1).permutation(len(lines))]
    other = tmp_path / "other.csv"
    other.write_text("# measured\ntheta_i,theta_s,bsdf\n\n" + "\n".join(shuffled))
    a, b = TabulatedBSDF(smooth), TabulatedBSDF(str(other), 0.25)
    assert a.theta_i.tolist() == [0.0, 20.0, 55.0, 90.0]
    assert a.values.shape == (4, 6)
    assert np.array_equal(a.values, b.values)
    assert a.ROW == "tabulated"
    assert b.numbers() == (1.0, 0.25)
    table = a.table()
    assert table.tolist() == [4.0, 6.0, *a.theta_i, *a.theta_s, *a.values.ravel()]


def test_between_angles_the_table_is_bilinear(smooth):
    lobe = TabulatedBSDF(smooth)
    assert lobe.value(lobe.theta_i[:, None], lobe.theta_s) == pytest.approx(lobe.values)
    mean = lobe.values[1:3, 2:4].mean()
    assert lobe.value(37.5, 32.5) == pytest.approx(mean)
    assert lobe.value(90.0, 90.0) == pytest.approx(lobe.values[-1, -1])


def test_outside_of_its_angles_a_table_is_0(tmp_path):
    lobe = TabulatedBSDF(write(tmp_path / "t.csv", [10.0, 20.0], [5.0, 30.0], lambda i, s: 0.2))
    assert lobe.value([9.9, 20.1, 15.0, 15.0], [10.0, 10.0, 4.9, 30.1]).tolist() == [0.0, 0.0, 0.0, 0.0]
    assert lobe.value(10.0, 30.0) == pytest.approx(0.2)
    assert lobe.reflectance(*incidence(0.0, 15.0), None)[0] == 0.0


def test_the_density_table_integrates_the_bilinear_bsdf(smooth):
    lobe = TabulatedBSDF(smooth, sampler="density")
    assert lobe.ROW == "density"
    table = lobe.table()
    n_i, n_s = 4, 6
    grid = 2 + n_i + n_s + n_i * n_s
    assert np.array_equal(table[:grid], TabulatedBSDF(smooth).table())
    m = int(table[grid])
    s, running = table[grid + 1 : grid + 1 + m], table[grid + 1 + m :].reshape(n_i, m)
    assert (s[0], s[-1]) == pytest.approx((0.0, 1.0))
    assert np.all(np.diff(s) > 0.0)
    assert np.all(np.diff(running, axis=1) > 0.0)
    assert not running[:, 0].any()
    theta = np.linspace(0.0, 90.0, 90001)
    for i in range(n_i):
        density = (
            2.0 * np.pi * lobe.value(lobe.theta_i[i], theta) * np.sin(np.radians(theta)) * np.cos(np.radians(theta))
        )
        assert running[i, -1] == pytest.approx(np.trapezoid(density, np.radians(theta)), rel=1e-8)
        half = np.trapezoid(density[:40001], np.radians(theta[:40001]))
        assert np.interp(np.sin(np.radians(40.0)) ** 2, s, running[i]) == pytest.approx(half, rel=1e-7)


def test_a_flat_table_is_lambertian(tmp_path):
    path = write(tmp_path / "flat.csv", [0.0, 90.0], [0.0, 90.0], lambda i, s: 0.6 / math.pi)
    for sampler in ("cosine", "density"):
        lobe = TabulatedBSDF(path, sampler=sampler)
        assert lobe.reflectance(*incidence(0.0, 45.0, 80.0), None) == pytest.approx(0.6, rel=1e-12)


def test_a_narrow_lobe_loses_energy_to_the_cosine_sampler_alone(tmp_path):
    """BSDF of 20 / sr within about 6 degrees: clipped to 1 / pi by the one, kept by the other."""
    theta_s = [0.0, 2.0, 4.0, 6.0, 8.0, 90.0]
    height = dict(zip(theta_s, [20.0, 20.0, 20.0, 10.0, 0.0, 0.0], strict=True))
    path = write(tmp_path / "narrow.csv", [0.0, 90.0], theta_s, lambda i, s: height[s])
    kept = TabulatedBSDF(path, sampler="density").reflectance(*incidence(0.0), None)[0]
    clipped = TabulatedBSDF(path).reflectance(*incidence(0.0), None)[0]
    theta = np.radians(np.linspace(0.0, 8.0, 80001))
    lobe = np.interp(np.degrees(theta), theta_s, list(height.values()))
    total = np.trapezoid(lobe * 2.0 * np.pi * np.sin(theta) * np.cos(theta), theta)
    assert kept == pytest.approx(total, rel=1e-7)
    assert clipped < math.sin(math.radians(8.0)) ** 2 < 0.03 * kept


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["0 theta_i", "at least 2"]),
        ("0,0,1\n0,90,1\n", ["1 theta_i and 2 theta_s", "at least 2"]),
        ("0,0,1\n0,90,1\n90,0,1\n", ["no value at theta_i = 90, theta_s = 90"]),
        ("0,0,1\n0,90,1\n90,0,1\n90,90,1\n0,0,2\n", ["5 rows for 4 pairs"]),
        ("0,0,1\n0,90,-1\n", ["line 2", "values >= 0"]),
        ("0,0,1\n0,91,1\n", ["line 2", "0 to 90"]),
        ("0,0,1\n0,90\n", ["line 2", "theta_i, theta_s, value"]),
        ("0,0,1\n0,90,nan\n", ["line 2", "theta_i, theta_s, value"]),
        ("a,b,c\n0,0,1\n0,x,1\n", ["line 3", "numbers"]),
    ],
)
def test_files_that_are_no_tables(tmp_path, text, words):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"^path got") as caught:
        TabulatedBSDF(path)
    for word in ("bad.csv", *words):
        assert word in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        TabulatedBSDF(tmp_path / "none.csv")


def test_a_density_does_not_make_light(tmp_path):
    path = write(tmp_path / "bright.csv", [0.0, 40.0], [0.0, 90.0], lambda i, s: 0.4 if i else 0.2)
    TabulatedBSDF(path)
    with pytest.raises(ValueError, match=r"^path got .* scatters 1.25\d* of the flux at theta_i = 40"):
        TabulatedBSDF(path, sampler="density")


# ---- what all lobes share --------------------------------------------------------------------------------------------


def test_numbers_and_rows():
    share = torch.tensor(0.8, requires_grad=True)
    lobe = LambertianBSDF(share, 0.25)
    assert lobe.numbers() == (share, 0.25)
    assert lobe.numbers()[0] is share
    assert lobe.table().size == 0
    assert lobe.reflectance(*incidence(0.0, 60.0), None).requires_grad
    assert LambertianBSDF(0.3).reflectance(*incidence(0.0, 60.0), None).tolist() == [0.3, 0.3]
    assert SpecularBRDF().numbers() == (1.0, 0.0)
    assert SpecularBRDF().reflectance(*incidence(10.0), None).tolist() == [1.0]
    rows = {"specular": SpecularBRDF(), "lambertian": LambertianBSDF(), "radial": GaussianBSDF(0.1)}
    assert {name: lobe.ROW for name, lobe in rows.items()} == {name: name for name in rows}
    assert HarveyShackBSDF(1e-3, 0.01, 2.0).numbers() == (1.0, 0.0)


GRAD = torch.tensor(0.1, requires_grad=True)


@pytest.mark.parametrize(
    ("build", "arguments", "error", "words"),
    [
        (LambertianBSDF, {"reflectance_value": 1.1}, ValueError, ["reflectance_value", "1.1", "<= 1"]),
        (LambertianBSDF, {"reflectance_value": -0.1}, ValueError, ["reflectance_value", ">= 0"]),
        (LambertianBSDF, {"reflectance_value": "white"}, TypeError, ["reflectance_value", "white"]),
        (LambertianBSDF, {"transmissive_fraction": 1.5}, ValueError, ["transmissive_fraction", "1.5"]),
        (LambertianBSDF, {"transmissive_fraction": GRAD}, ValueError, ["transmissive_fraction", "not differentiated"]),
        (HarveyShackBSDF, {"b0": 0.0, "l0": 0.1, "s": 2.0}, ValueError, ["b0", "> 0"]),
        (HarveyShackBSDF, {"b0": 1.0, "l0": -0.1, "s": 2.0}, ValueError, ["l0", "> 0"]),
        (HarveyShackBSDF, {"b0": 1.0, "l0": 0.1, "s": -1.0}, ValueError, ["s", ">= 0"]),
        (HarveyShackBSDF, {"b0": 1.0, "l0": GRAD, "s": 2.0}, ValueError, ["l0", "not differentiated"]),
        (ABgBSDF, {"a": GRAD, "b": 0.1, "g": 2.0}, ValueError, ["a", "not differentiated"]),
        (ABgBSDF, {"a": 0.01, "b": 0.0, "g": 2.0}, ValueError, ["b", "> 0"]),
        (ABgBSDF, {"a": 1.0, "b": 0.001, "g": 2.0}, ValueError, ["a, b and g", "scatter 21.7", "at most 1"]),
        (GaussianBSDF, {"sigma": 0.0}, ValueError, ["sigma", "> 0"]),
        (GaussianBSDF, {"sigma": math.nan}, ValueError, ["sigma", "nan"]),
        (GaussianBSDF, {"sigma": GRAD}, ValueError, ["sigma", "not differentiated"]),
    ],
)
def test_bad_numbers(build, arguments, error, words):
    with pytest.raises(error) as caught:
        build(**arguments)
    for word in words:
        assert word in str(caught.value)


def test_a_bad_sampler(smooth):
    with pytest.raises(ValueError, match=r"^sampler got 'cosin'.*Did you mean 'cosine'"):
        TabulatedBSDF(smooth, sampler="cosin")


def test_surfaces_keep_the_object():
    lobe, share = LambertianBSDF(0.9), torch.tensor(0.3, requires_grad=True)
    config = nsq.SurfaceConfig(bsdf=lobe, scatter_fraction=share)
    lens = nsq.Lens("L", nsq.CoordinateSystem(), nsq.LensConfig(50.0, -50.0, 5.0, "N-BK7", 10.0, front=config))
    assert lens.surfaces[0].bsdf is lobe
    assert lens.surfaces[0].scatter_fraction is share
    assert lens.surfaces[1].bsdf is None
    mirror = nsq.Mirror("M", nsq.CoordinateSystem(), nsq.MirrorConfig(0.0, 0.9, surface=config))
    assert mirror.surfaces[0].bsdf is lobe
    lobe.reflectance_value = 2.0  # checked again with the scene
    with pytest.raises(ValueError, match=r"^reflectance_value got 2.0"):
        mirror.validate()


def test_what_surfaces_take():
    assert check_bsdf(None, "bsdf") is None
    with pytest.raises(TypeError, match=r"^bsdf got 0.5 of type float; it takes None or a scatter lobe"):
        nsq.SurfaceConfig(bsdf=0.5)
    edge = nsq.SurfaceConfig(bsdf=LambertianBSDF())
    with pytest.raises(ValueError, match=r"^bsdf of 'L.edge' got a LambertianBSDF; an ABSORBING surface takes None"):
        nsq.Lens("L", nsq.CoordinateSystem(), nsq.LensConfig(50.0, -50.0, 5.0, "N-BK7", 10.0, edge=edge))


def test_arguments_of_sample():
    lobe, rng = LambertianBSDF(), nsq.NSQRng(1)
    with pytest.raises(ValueError, match=r"^incident got shape \(1, 3\); it takes \(2, 3\)"):
        lobe.sample(2, UP, UP, None, rng, np.arange(2), 0)
    with pytest.raises(TypeError, match=r"^rng got NoneType; it takes an NSQRng"):
        lobe.sample(1, UP, -UP, None, None, np.arange(1), 0)
    with pytest.raises(ValueError, match=r"^incident and normals got shapes"):
        lobe.reflectance(UP, UP[0], None)


class _Cone(nsq.RadialBSDF):
    """A lobe of a user's own."""

    reach = None
    total_integrated_scatter = 1.0

    def __init__(self, reach, level):
        self.reach, self.level = reach, level

    def value(self, distance):
        return self.level + 0.0 * np.asarray(distance)


@pytest.mark.parametrize(
    ("reach", "level", "words"),
    [
        (3.0, 1.0, "reach got 3"),
        (torch.tensor(0.5, requires_grad=True), 1.0, "reach got a tensor that requires a gradient"),
        (0.5, -1.0, "value of _Cone got numbers below 0"),
        (0.5, float("nan"), "value of _Cone got numbers below 0"),
        (0.5, 0.0, "value of _Cone got numbers below 0"),
    ],
)
def test_a_lobe_of_a_user_is_checked(reach, level, words):
    with pytest.raises(ValueError, match=words):
        _Cone(reach, level).table()
    assert _Cone(0.5, 1.0).table()[-1] == 1.0
