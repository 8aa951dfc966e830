"""Continuous spectra as lines: power, moments, colours, files."""

import numpy as np
import pytest

import nsq
from nsq import spectra

FWHM = 2.0 * np.sqrt(2.0 * np.log(2.0))  # of a Gaussian with standard deviation 1


def moments(spectrum):
    share = spectrum.weights / spectrum.weights.sum()
    mean = share @ spectrum.wavelengths
    return mean, share @ (spectrum.wavelengths - mean) ** 2


def chromaticity(spectrum):
    """CIE 1931 x, y, by the multi-lobe fit of Wyman, Sloan and Shirley (JCGT 2, 2013)."""

    def lobe(center, below, above):
        nm = 1000.0 * spectrum.wavelengths
        return np.exp(-0.5 * ((nm - center) / np.where(nm < center, below, above)) ** 2)

    x = 1.056 * lobe(599.8, 37.9, 31.0) + 0.362 * lobe(442.0, 16.0, 26.7) - 0.065 * lobe(501.1, 20.4, 26.2)
    y = 0.821 * lobe(568.8, 46.9, 40.5) + 0.286 * lobe(530.9, 16.3, 31.1)
    z = 1.217 * lobe(437.0, 11.8, 36.0) + 0.681 * lobe(459.0, 26.0, 13.8)
    sums = np.array([spectrum.weights @ c for c in (x, y, z)])
    return sums[:2] / sums.sum()


def test_lines():
    spectrum = spectra.lines([0.4358, 0.5461], [2.0, 1.0])
    assert spectrum == nsq.Spectrum([0.4358, 0.5461], [2.0, 1.0])
    assert spectra.lines([0.5, 0.6, 0.7]).weights.tolist() == [1.0, 1.0, 1.0]


def test_a_gaussian_has_its_mean_and_width():
    spectrum = spectra.gaussian(0.55, 0.02, lines=41)
    mean, variance = moments(spectrum)
    assert len(spectrum.wavelengths) == 41
    assert mean == pytest.approx(0.55, abs=1e-12)
    bin_width = 0.06 / 41
    # the truncation at 1.5 widths takes 0.6 % of the variance, the bins their spread inside
    expected = (0.02 / FWHM) ** 2 * 0.9945 - bin_width**2 / 12.0
    assert variance == pytest.approx(expected, rel=1e-3)
    assert spectrum.wavelengths.min() > 0.52
    assert spectrum.wavelengths.max() < 0.58


def test_each_line_is_its_bins_power_at_its_centroid():
    spectrum = spectra.from_density(lambda wl: wl**2, (0.4, 0.7), lines=3)
    edges = np.array([0.4, 0.5, 0.6, 0.7])
    power = np.diff(edges**3) / 3.0
    centroid = np.diff(edges**4) / 4.0 / power
    assert spectrum.wavelengths == pytest.approx(centroid, rel=1e-13)
    assert spectrum.weights / spectrum.weights.sum() == pytest.approx(power / power.sum(), rel=1e-13)


@pytest.mark.parametrize("lines", [1, 2, 7, 40, 400])
def test_power_and_mean_do_not_depend_on_the_number_of_lines(lines):
    fine = moments(spectra.black_body(4000.0, lines=4000))
    coarse = moments(spectra.black_body(4000.0, lines=lines))
    assert coarse[0] == pytest.approx(fine[0], rel=1e-6)
    assert coarse[1] <= fine[1] + 1e-12
    assert coarse[1] >= fine[1] - (0.4 / lines) ** 2 / 4.0


def test_a_black_body_by_its_laws():
    # Wien: the strongest line at 2897.77 µm K / T; a band around it holds its known share of sigma T^4
    spectrum = spectra.black_body(5000.0, band=(0.2, 15.0), lines=5000)
    bin_width = 14.8 / 5000
    assert spectrum.wavelengths[np.argmax(spectrum.weights)] == pytest.approx(2897.77 / 5000.0, abs=bin_width)
    # the median of black-body radiation lies at lambda T = 4107 µm K
    assert spectrum.wavelengths[np.searchsorted(spectrum.cumulative, 0.5)] == pytest.approx(4107.0 / 5000.0, rel=0.01)
    # at 6500 K a black body has this chromaticity, and 2856 K is illuminant A
    assert chromaticity(spectra.black_body(6500.0, lines=200)) == pytest.approx([0.3135, 0.3237], abs=0.002)
    assert chromaticity(spectra.black_body(2856.0, lines=200)) == pytest.approx([0.4476, 0.4074], abs=0.003)


def test_luminous_efficacy_of_a_hot_body():
    # a black body of 6640 K has the greatest luminous efficacy of all, 96 lm/W (over the whole spectrum)
    spectrum = spectra.black_body(6640.0, band=(0.1, 20.0), lines=5000)
    efficacy = nsq.luminous_efficacy_of_spectrum(spectrum.wavelengths, spectrum.weights)
    assert efficacy == pytest.approx(96.1, rel=0.01)


def test_a_cold_body_does_not_underflow():
    spectrum = spectra.black_body(20.0)
    assert np.all(np.isfinite(spectrum.weights))
    assert spectrum.wavelengths.min() > 0.75


@pytest.mark.parametrize(("preset", "temperature"), [("white_3000K", 3000.0), ("white_6500K", 6500.0)])
def test_white_leds_have_the_colour_of_their_black_body(preset, temperature):
    white, body = chromaticity(spectra.led(preset, 200)), chromaticity(spectra.black_body(temperature, lines=400))
    assert white == pytest.approx(body, abs=0.002)
    efficacy = nsq.luminous_efficacy_of_spectrum(*_columns(spectra.led(preset)))
    assert 290.0 < efficacy < 400.0


def _columns(spectrum):
    return spectrum.wavelengths, spectrum.weights


@pytest.mark.parametrize(("preset", "center"), [("red", 0.63), ("green", 0.525), ("blue", 0.46)])
def test_coloured_leds(preset, center):
    assert moments(spectra.led(preset))[0] == pytest.approx(center, abs=1e-9)


def test_a_spectrum_traces():
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=spectra.led("white_3000K", 20), total_flux_lumens=100.0)
    scene.add_source("S", nsq.CoordinateSystem(), beam)
    scene.add_detector("D", nsq.CoordinateSystem(z=5.0), nsq.RayDatabaseConfig(10.0, 10.0))
    seen = scene.trace(20_000, seed=2).detectors["D"]
    assert float(nsq.to_photometric(seen, "luminous_flux")) == pytest.approx(100.0, rel=0.02)


def test_a_table_is_integrated_exactly():
    triangle = spectra.from_table([0.5, 0.6, 0.7], [0.0, 1.0, 0.0], lines=4)
    assert triangle.weights / triangle.weights.sum() == pytest.approx([0.125, 0.375, 0.375, 0.125], rel=1e-12)
    assert triangle.wavelengths[:2] == pytest.approx([0.5 + 0.05 * 2 / 3, 0.55 + 0.05 * 5 / 9], rel=1e-12)
    assert moments(triangle)[0] == pytest.approx(0.6, rel=1e-13)
    wide = spectra.from_table([0.7, 0.5, 0.6], [0.0, 0.0, 1.0], lines=8, band=(0.45, 0.85))
    assert moments(wide)[0] == pytest.approx(0.6, rel=1e-13)
    assert wide.wavelengths.min() > 0.5


@pytest.mark.parametrize("separator", [" ", "\t", ",", ";", " ,  "])
def test_two_columns_from_a_file(separator, tmp_path):
    path = tmp_path / "s.txt"
    rows = [f"{nm}{separator}{value}" for nm, value in ((500, 0.0), (600, 1.0), (700, 0.0))]
    path.write_text("\n".join(["# made by a meter", "wavelength power", "", *rows, ""]))
    assert spectra.from_file(path, "nm", lines=4) == spectra.from_table([0.5, 0.6, 0.7], [0.0, 1.0, 0.0], lines=4)
    assert spectra.from_file(path, "nm", lines=None) == nsq.Spectrum([0.5, 0.6, 0.7], [0.0, 1.0, 0.0])


def test_the_unit_is_the_callers(tmp_path):
    path = tmp_path / "s.txt"
    path.write_text("0.5 1\n0.6 2\n")
    assert spectra.from_file(path, "um", lines=None) == nsq.Spectrum([0.5, 0.6], [1.0, 2.0])
    path.write_text("500 1\n600 2\n")
    with pytest.raises(ValueError, match=r"s\.txt.*µm"):
        spectra.from_file(path, "um")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", ["holds no numbers"]),
        (b"500 1\n600\n", ["line 2", "'600'"]),
        (b"500 1\n600 x\n", ["line 2", "two numbers"]),
        (b"500 1\n600 nan\n", ["line 2", "nan"]),
        (b"500 1\n600 -1\n", ["line 2", "-1"]),
        (b"500 1\n500 2\n", ["0.5 twice"]),
        (b"500 1\n", ["at least 2"]),
        (b"500 0\n600 0\n", ["sum to 0"]),
        (b"\xff\xfe5\x000\x000\x00", ["byte 0"]),
    ],
)
def test_files_that_are_no_spectrum(text, words, tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"bad\.txt") as caught:
        spectra.from_file(path, "nm")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: spectra.gaussian(0.55, 0.0), ValueError, ["fwhm", "0.0"]),
        (lambda: spectra.gaussian(0.55, 0.5), ValueError, ["fwhm", "0.5", "band"]),
        (lambda: spectra.gaussian(0.55, 0.02, lines=0), ValueError, ["lines", "0"]),
        (lambda: spectra.gaussian(0.55, 0.02, lines=10**9), ValueError, ["lines", "10000"]),
        (lambda: spectra.gaussian("green", 0.02), TypeError, ["center", "green"]),
        (lambda: spectra.black_body(-5.0), ValueError, ["temperature_K", "-5.0"]),
        (lambda: spectra.black_body(300.0, band=(0.7, 0.4)), ValueError, ["band", "order"]),
        (lambda: spectra.black_body(300.0, band=0.5), TypeError, ["band", "pair"]),
        (lambda: spectra.black_body(3000.0, band=(400.0, 700.0)), ValueError, ["µm"]),
        (lambda: spectra.led("white"), ValueError, ["preset", "white_3000K"]),
        (lambda: spectra.from_density(lambda wl: 0.0 * wl, (0.4, 0.5)), ValueError, ["density", "0.4"]),
        (lambda: spectra.from_density(lambda wl: wl - 0.45, (0.4, 0.5)), ValueError, ["density", "negative"]),
        (lambda: spectra.from_density(lambda wl: 1.0, (0.4, 0.5)), ValueError, ["density", "shape"]),
        (lambda: spectra.from_table([0.5, 0.6], [1, 1], band=(0.7, 0.8)), ValueError, ["0.7", "power"]),
        (lambda: spectra.from_file("s.txt", "mm"), ValueError, ["unit", "'mm'"]),
        (lambda: spectra.from_file("nowhere.txt", "nm"), FileNotFoundError, ["nowhere.txt"]),
    ],
)
def test_errors_say_what_is_wrong(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_corrupted_files(tmp_path):
    good = "\n".join(f"{nm} {0.01 * (nm - 400):.4f}" for nm in range(400, 700, 5)).encode()
    rng, path, refused = np.random.default_rng(21), tmp_path / "bad.txt", 0
    words = [b"NaN", b"-1e999", b"x", b"\x00\xff", b"9" * 500, b"", b"\n\n", b"1 2 3"]
    for _ in range(500):
        a = int(rng.integers(len(good)))
        b = min(len(good), a + int(rng.integers(1, 20)))
        path.write_bytes(good[:a] + words[rng.integers(len(words))] + good[b:])
        try:
            spectrum = spectra.from_file(path, "nm")
        except ValueError as error:
            refused += "bad.txt" in str(error)
        else:
            assert np.all(np.isfinite(spectrum.weights))
    assert refused > 250
