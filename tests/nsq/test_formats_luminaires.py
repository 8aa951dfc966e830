"""Luminaire files: IES LM-63 and EULUMDAT, and the distributions they hold."""

import math

import numpy as np
import pytest

import nsq
from nsq.formats import AngularDistribution, read_eulumdat, read_ies, write_eulumdat, write_ies

FORMATS = [(read_ies, write_ies), (read_eulumdat, write_eulumdat)]
IDS = ["ies", "eulumdat"]


def lambertian(peak=100.0, step=1.0):
    theta = np.arange(0.0, 180.0 + step / 2, step)
    return AngularDistribution(theta, [0.0], peak * np.maximum(np.cos(np.radians(theta)), 0.0)[:, None])


def lopsided(seed=3, num_phi=12, name="a lamp"):
    """A distribution without symmetry."""
    rng = np.random.default_rng(seed)
    theta, phi = np.linspace(0.0, 180.0, 19), np.arange(num_phi) * (360.0 / num_phi)
    values = rng.uniform(0.0, 500.0, (19, num_phi))
    values[[0, -1]] = values[[0, -1], :1]  # a pole is one direction
    return AngularDistribution(theta, phi, values, name, lamp_lumens=1234.5, input_watts=17.25)


def test_total_lumens_of_known_distributions():
    assert lambertian().total_lumens() == pytest.approx(100.0 * math.pi, rel=1e-4)
    isotropic = AngularDistribution([0.0, 180.0], [0.0], [[2.0], [2.0]])
    assert isotropic.total_lumens() == pytest.approx(8.0 * math.pi, rel=1e-14)
    planes = AngularDistribution([0.0, 60.0], [0.0, 10.0, 200.0], np.full((2, 3), 3.0))
    assert planes.total_lumens() == pytest.approx(2.0 * math.pi * 0.5 * 3.0, rel=1e-14)
    # linear in theta: the integral of t sin(t) over 0 to pi/2 is 1
    ramp = AngularDistribution([0.0, 45.0, 90.0], [0.0], np.radians([[0.0], [45.0], [90.0]]))
    assert ramp.total_lumens() == pytest.approx(2.0 * math.pi, rel=1e-13)


def test_the_total_is_that_of_the_interpolation():
    lamp = lopsided()
    theta, phi = (np.arange(720) + 0.5) / 4.0, (np.arange(720) + 0.5) / 2.0
    values = lamp.at(theta[:, None], phi[None, :])
    total = np.sum(values * np.sin(np.radians(theta))[:, None]) * np.radians(0.25) * np.radians(0.5)
    assert lamp.total_lumens() == pytest.approx(total, rel=1e-5)


def test_intensity_in_a_direction():
    lamp = AngularDistribution([0.0, 90.0], [0.0, 90.0, 180.0, 270.0], [[4.0] * 4, [0.0, 1.0, 2.0, 3.0]])
    assert lamp.at(90.0, 0.0) == 0.0
    assert lamp.at(90.0, 45.0) == pytest.approx(0.5)
    assert lamp.at(90.0, 315.0) == pytest.approx(1.5)  # around the circle
    assert lamp.at(90.0, -90.0) == pytest.approx(3.0)
    assert lamp.at(45.0, 720.0) == pytest.approx(2.0)
    assert lamp.at(90.1, 0.0) == 0.0
    assert lamp.at(np.zeros((2, 1)), np.zeros(3)).shape == (2, 3)
    finer = lamp.resampled([0.0, 30.0, 90.0], [0.0, 45.0, 90.0, 180.0, 270.0])
    assert finer.at(60.0, 30.0) == pytest.approx(lamp.at(60.0, 30.0))
    assert lamp.scaled(2.0).total_lumens() == pytest.approx(2.0 * lamp.total_lumens())
    assert lamp.watts_per_sr(nsq.Spectrum.monochromatic(0.55))[0, 0] == pytest.approx(4.0 / (683.002 * 0.99495))


class Pattern:
    """A far field by hand: Lambertian, 1 W."""

    theta, phi = np.arange(90) + 0.5, np.arange(36) * 10.0 - 175.0
    intensity = np.repeat(np.cos(np.radians(theta))[:, None] / math.pi, 36, axis=1)
    total_flux = 1.0


def test_a_far_field_becomes_a_distribution(tmp_path):
    lamp = AngularDistribution.from_far_field(Pattern(), 0.55, name="panel")
    assert lamp.total_lumens() == pytest.approx(683.002 * 0.99495, rel=2e-3)
    assert (lamp.phi[0], lamp.phi[-1], lamp.theta[0], lamp.theta[-1]) == (5.0, 355.0, 0.0, 90.0)
    spectrum = nsq.Spectrum([0.55, 0.95], [1.0, 1.0])
    assert AngularDistribution.from_far_field(Pattern(), spectrum).total_lumens() == pytest.approx(
        0.5 * lamp.total_lumens()
    )
    write_ies(lamp.resampled(np.arange(0.0, 91.0), np.arange(0.0, 360.0, 10.0)), tmp_path / "p.ies")
    assert read_ies(tmp_path / "p.ies").total_lumens() == pytest.approx(lamp.total_lumens(), rel=1e-3)


@pytest.mark.parametrize(("read", "write"), FORMATS, ids=IDS)
@pytest.mark.parametrize("make", [lopsided, lambertian])
def test_what_is_written_is_read(read, write, make, tmp_path):
    lamp = make()
    write(lamp, tmp_path / "lamp")
    twin = read(tmp_path / "lamp")
    assert np.array_equal(twin.theta, lamp.theta)
    assert np.array_equal(twin.phi, lamp.phi)
    assert twin.intensity == pytest.approx(lamp.intensity, rel=1e-13)
    assert read is read_eulumdat or np.array_equal(twin.intensity, lamp.intensity)
    assert twin.name == lamp.name
    assert twin.input_watts == (lamp.input_watts or 0.0)
    assert twin.total_lumens() == pytest.approx(lamp.total_lumens(), rel=1e-13)
    assert max(len(line) for line in (tmp_path / "lamp").read_text().splitlines()) < 256


IES_1995 = """IESNA:LM-63-1995
[TEST] 1
[LUMINAIRE] streetlight
TILT=NONE
2 1000 1.5  3 {planes} 1 1 0.1 0.2 0
0.5 1.0 40
0 45, 90
{angles}
{values}
"""


def ies(angles, values):
    return IES_1995.format(planes=len(angles), angles=" ".join(map(str, angles)), values="\n".join(values))


def test_ies_factors_and_an_axis_of_symmetry(tmp_path):
    (tmp_path / "a.ies").write_text(ies([0], ["100 50", "0"]))
    lamp = read_ies(tmp_path / "a.ies")
    assert lamp.intensity.tolist() == [[75.0], [37.5], [0.0]]
    assert (lamp.phi.tolist(), lamp.theta.tolist()) == ([0.0], [0.0, 45.0, 90.0])
    assert (lamp.name, lamp.lamp_lumens, lamp.input_watts) == ("streetlight", 2000.0, 40.0)


@pytest.mark.parametrize(
    ("angles", "expected"),
    [
        ([0, 45, 90], {0: 1, 45: 2, 90: 3, 135: 2, 180: 1, 225: 2, 270: 3, 315: 2}),
        ([0, 90, 180], {0: 1, 90: 2, 180: 3, 270: 2}),
        ([90, 180, 270], {0: 2, 90: 1, 180: 2, 270: 3}),
        ([0, 120, 360], {0: 1, 120: 2}),
    ],
)
def test_ies_symmetries(angles, expected, tmp_path):
    (tmp_path / "a.ies").write_text(ies(angles, [f"{v} {v} {v}" for v in (1, 2, 3)]))
    lamp = read_ies(tmp_path / "a.ies")
    assert dict(zip(lamp.phi.tolist(), (lamp.intensity[0] / 0.75).tolist(), strict=True)) == expected


def test_ies_tilt_is_not_applied_and_says_so(tmp_path):
    text = ies([0], ["100 50 0"]).replace("TILT=NONE", "TILT=INCLUDE\n1\n2\n0 90\n1 0.5")
    (tmp_path / "a.ies").write_text(text)
    with pytest.warns(UserWarning, match="TILT=INCLUDE is not applied"):
        assert read_ies(tmp_path / "a.ies").intensity[0, 0] == 75.0
    (tmp_path / "a.ies").write_text(text.replace("INCLUDE\n1\n2\n0 90\n1 0.5", "/etc/passwd"))
    with pytest.warns(UserWarning, match="is not applied"):
        read_ies(tmp_path / "a.ies")


def ldt(symmetry, planes, held, sets=1, theta=(0.0, 90.0)):
    """A file of ``planes`` C planes of which ``held`` values are there, one a plane."""
    rows = ["company", "3", str(symmetry), str(len(planes)), "0", str(len(theta)), "0", "7", "lamp", "1", "f", "today"]
    rows += ["0"] * 10 + ["100", "80", "2", "0", str(sets)]
    for i in range(sets):
        rows += ["1", "LED", str(500 * (i + 1)), "3000", "80", "10,5"]
    rows += ["0"] * 10 + [str(p) for p in planes] + [str(t) for t in theta]
    return "\r\n".join(rows + [str(v) for v in held for _ in theta]) + "\r\n"


@pytest.mark.parametrize(
    ("symmetry", "held", "expected"),
    [
        (0, [1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 7, 8]),
        (1, [5], [5]),
        (2, [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 4, 3, 2]),
        (3, [7, 8, 1, 2, 3], [1, 2, 3, 2, 1, 8, 7, 8]),
        (4, [1, 2, 3], [1, 2, 3, 2, 1, 2, 3, 2]),
    ],
)
def test_eulumdat_symmetries(symmetry, held, expected, tmp_path):
    planes = [45.0 * i for i in range(8)]
    (tmp_path / "a.ldt").write_text(ldt(symmetry, planes, held))
    lamp = read_eulumdat(tmp_path / "a.ldt")
    assert lamp.phi.tolist() == (planes if symmetry != 1 else [0.0])
    assert lamp.intensity[1].tolist() == expected  # cd/klm, conversion factor 2, 500 lm
    assert (lamp.lamp_lumens, lamp.input_watts, lamp.name) == (500.0, 10.5, "lamp")


def test_eulumdat_sets_of_lamps(tmp_path):
    (tmp_path / "a.ldt").write_text(ldt(1, [0.0], [5], sets=2))
    assert read_eulumdat(tmp_path / "a.ldt", lamp_set=1).intensity[0, 0] == 10.0
    with pytest.raises(ValueError, match=r"a\.ldt: lamp_set got 2"):
        read_eulumdat(tmp_path / "a.ldt", lamp_set=2)


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (read_ies, "", ["TILT="]),
        (read_ies, "\0\0\0", ["byte 0"]),
        (read_ies, ies([0], ["100 50"]), ["ends after 2 of 3", "candela"]),
        (read_ies, ies([0], ["100 50 x"]), ["line 9", "'x'"]),
        (read_ies, ies([0], ["100 50 nan"]), ["line 9", "nan"]),
        (read_ies, ies([0], ["100 50 -1"]), ["intensity", "negative"]),
        (read_ies, ies([0, 100], ["1 1 1"] * 2), ["horizontal angles", "100"]),
        (read_ies, ies([0], ["1 1 1"]).replace("  3 1 1", "  3 1 2"), ["photometric type", "2"]),
        (read_ies, ies([0], ["1 1 1"]).replace("  3 1 1", "  1e9 1 1"), ["vertical angles", "1e+09"]),
        (read_ies, ies([0], ["1 1 1"]).replace("0 45, 90", "0 95, 90"), ["theta", "increase"]),
        (read_eulumdat, "", ["ends at line 0"]),
        (read_eulumdat, "x\n5\n", ["line 2", "type of luminaire", "5"]),
        (read_eulumdat, ldt(4, [0.0, 120.0, 240.0], [1]), ["multiple of 4"]),
        (read_eulumdat, ldt(0, [0.0, 0.0], [1, 1]), ["C planes", "increase"]),
        (read_eulumdat, ldt(1, [0.0], []), ["ends at line", "intensity 1 of 2"]),
        (read_eulumdat, ldt(1, [0.0], ["x"]), ["intensity 1 of 2", "'x'"]),
        (read_eulumdat, ldt(1, [0.0], [1], theta=(0.0, 200.0)), ["theta", "200"]),
    ],
)
def test_files_that_are_wrong(read, text, words, tmp_path):
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.txt") as caught:
        read(tmp_path / "bad.txt")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*is not applied")
@pytest.mark.parametrize(("read", "write"), FORMATS, ids=IDS)
def test_corrupted_files(read, write, tmp_path):
    write(lopsided(num_phi=4), tmp_path / "good")
    good, rng, path, refused = (tmp_path / "good").read_bytes(), np.random.default_rng(63), tmp_path / "bad", 0
    words = [b"NaN", b"-1e999", b"1e9", b"99999999999999999999", b"x", b"\x00\xff", b"", b"-5", b"\r\n", b"9" * 5000]
    for turn in range(500):
        a = int(rng.integers(min(len(good), 400) if turn % 2 else len(good)))
        b = min(len(good), a + int(rng.integers(1, 30)))
        path.write_bytes(good[:a] if turn % 5 == 0 else good[:a] + words[rng.integers(len(words))] + good[b:])
        try:
            lamp = read(path)
        except ValueError as error:
            refused += "bad" in str(error)
        else:
            assert np.isfinite(lamp.total_lumens())
    assert refused > 150


@pytest.mark.parametrize(("read", "write"), FORMATS, ids=IDS)
def test_no_file_and_no_place(read, write, tmp_path):
    with pytest.raises(FileNotFoundError, match="none"):
        read(tmp_path / "none.txt")
    with pytest.raises(OSError, match="nowhere"):
        write(lopsided(), tmp_path / "nowhere" / "lamp")


def test_what_the_formats_do_not_take(tmp_path):
    with pytest.raises(ValueError, match=r"theta goes from 0 to 60"):
        write_ies(AngularDistribution([0.0, 60.0], [0.0], [[1.0], [1.0]]), tmp_path / "a.ies")
    with pytest.raises(ValueError, match=r"phi begins at 5"):
        write_ies(AngularDistribution([0.0, 90.0], [5.0, 95.0], np.ones((2, 2))), tmp_path / "a.ies")
    with pytest.raises(ValueError, match=r"0 lm"):
        write_eulumdat(AngularDistribution([0.0, 90.0], [0.0], np.zeros((2, 1))), tmp_path / "a.ldt")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.0, 90.0], [0.0], [[1.0]]), ["intensity", "(1, 1)", "(2, 1)"]),
        (([90.0, 0.0], [0.0], [[1.0], [1.0]]), ["theta", "increase"]),
        (([0.0, 181.0], [0.0], [[1.0], [1.0]]), ["theta", "181"]),
        (([0.0, 90.0], [0.0, 360.0], np.ones((2, 2))), ["phi", "360"]),
        (([0.0, 90.0], [0.0], [[1.0], [-1.0]]), ["intensity", "negative"]),
        (([], [0.0], np.ones((0, 1))), ["theta", "(0,)"]),
    ],
)
def test_a_distribution_checks_its_numbers(arguments, words):
    with pytest.raises(ValueError, match=".") as caught:
        AngularDistribution(*arguments)
    for word in words:
        assert word in str(caught.value)


def test_a_plot_is_polar():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ax = lopsided().plot()
    assert ax.name == "polar"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["C0-C180", "C90-C270"]
    plt.close("all")
