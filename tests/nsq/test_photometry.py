"""Eyes: tables of the standard observers, lumens, lux and candela."""

import warnings

import numpy as np
import pytest
import torch

import nsq

GRID = np.arange(38, 79) / 100.0
GREEN = nsq.Spectrum.monochromatic(0.55)
INFRARED = nsq.Spectrum.monochromatic(1.064)


class Bins:
    """A spectral result by hand: 1 x 2 pixels, three bins."""

    def __init__(self, wavelengths, irradiance):
        self.wavelengths = np.asarray(wavelengths)
        self.irradiance = np.asarray(irradiance, dtype=np.float64)
        self.x_coords, self.y_coords = np.array([-0.5, 0.5]), np.array([0.0])
        self.total_flux = torch.tensor(self.irradiance.sum())  # pixels of 1 mm²


class FarField:
    theta, phi = np.array([15.0, 45.0, 75.0]), np.array([-90.0, 90.0])
    intensity = np.full((3, 2), 0.25)
    total_flux = 2.0


def irradiance_map(data, width=4.0, height=2.0):
    ny, nx = np.shape(data)
    flux = torch.tensor(np.asarray(data, dtype=np.float64).ravel(), requires_grad=True)
    return nsq.IrradianceMap(
        name="D",
        data=flux,
        width=width,
        height=height,
        num_pixels_x=nx,
        num_pixels_y=ny,
        num_rays_hit=1,
        total_flux=flux.sum(),
    )


def test_tables_of_the_standard_observers():
    photopic, scotopic = nsq.v_lambda(GRID), nsq.v_lambda(GRID, "scotopic")
    assert photopic.sum() == pytest.approx(10.6858, abs=1e-4)  # CIE: the integral in nm over 10
    assert scotopic.sum() == pytest.approx(9.7081, abs=1e-4)
    known = {0.45: 0.038, 0.5: 0.323, 0.51: 0.503, 0.55: 0.99495, 0.56: 0.995, 0.6: 0.631, 0.61: 0.503, 0.7: 0.004102}
    for wavelength, value in known.items():
        assert nsq.v_lambda(wavelength) == pytest.approx(value, rel=1e-9)
    known = {0.45: 0.455, 0.5: 0.982, 0.51: 0.997, 0.55: 0.481, 0.6: 0.03315, 0.7: 1.78e-5}
    for wavelength, value in known.items():
        assert nsq.v_lambda(wavelength, "scotopic") == pytest.approx(value, rel=1e-9)
    assert 0.56 - 0.01 <= GRID[np.argmax(photopic)] <= 0.56
    assert GRID[np.argmax(scotopic)] == pytest.approx(0.51)
    for table in (photopic, scotopic):  # one hill
        steps = np.sign(np.diff(table))
        assert np.sum(np.diff(steps) != 0) == 1


def test_linear_between_and_nothing_outside():
    assert nsq.v_lambda(0.555) == pytest.approx((0.99495 + 0.995) / 2)
    assert nsq.v_lambda(0.503) == pytest.approx(0.7 * 0.323 + 0.3 * 0.503)
    for wavelength in (0.1, 0.3799, 0.7801, 1.5):
        assert nsq.v_lambda(wavelength) == 0.0
    assert isinstance(nsq.v_lambda(0.5), float)
    assert nsq.v_lambda(np.full((2, 3), 0.5)).shape == (2, 3)
    assert nsq.v_lambda(torch.tensor([0.5, 0.6])).shape == (2,)
    low, high = nsq.VISIBLE_BAND_UM
    assert nsq.v_lambda(low) == 0.000039
    assert nsq.v_lambda(high) == 0.00001499


def test_efficacy_of_light_at_the_peak():
    assert nsq.luminous_efficacy_of_spectrum([0.555], [7.0]) == pytest.approx(683.0, rel=0.01)
    assert nsq.luminous_efficacy_of_spectrum([0.507], [1.0], "scotopic") == pytest.approx(1700.0, rel=0.01)
    half = nsq.luminous_efficacy_of_spectrum([0.55, 1.0], [1.0, 1.0])
    assert half == pytest.approx(nsq.KM_PHOTOPIC * 0.99495 / 2, rel=1e-12)
    # equal-energy light over the band: 683 * 106.86 nm / 400 nm, up to the two end points
    flat = nsq.luminous_efficacy_of_spectrum(np.linspace(0.38, 0.78, 4001), np.ones(4001))
    assert flat == pytest.approx(683.002 * 10.6858 / 40, rel=1e-3)


def test_lumens_and_watts_are_inverse():
    spectrum = nsq.Spectrum([0.45, 0.55, 0.65], [1.0, 2.0, 1.0])
    watts = nsq.lumens_to_watts(800.0, spectrum)
    assert watts * nsq.luminous_efficacy_of_spectrum(spectrum.wavelengths, spectrum.weights) == pytest.approx(800.0)
    lumens = torch.tensor(683.0, requires_grad=True, dtype=torch.float64)
    watts = nsq.lumens_to_watts(lumens, GREEN)
    watts.backward()
    assert float(lumens.grad) == pytest.approx(1.0 / (683.002 * 0.99495), rel=1e-12)


def test_a_source_in_lumens():
    scene = nsq.NSQScene()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (nsq.PointSourceConfig, nsq.CollimatedSourceConfig, nsq.ExtendedSourceConfig):
            scene.add_source(kind.__name__, nsq.CoordinateSystem(), kind(spectrum=GREEN, total_flux_lumens=100.0))
    for source in scene.sources:
        assert source.total_flux == pytest.approx(100.0 / (683.002 * 0.99495), rel=1e-12)


def test_a_source_in_lumens_carries_a_gradient():
    lumens = torch.tensor(50.0, requires_grad=True)
    scene = nsq.NSQScene()
    config = nsq.PointSourceConfig(spectrum=GREEN, total_flux_lumens=lumens, half_angle_deg=20.0)
    scene.add_source("S", nsq.CoordinateSystem(), config)
    screen = nsq.IrradianceDetectorConfig(width=20.0, height=20.0, num_pixels_x=2, num_pixels_y=2)
    scene.add_detector("D", nsq.CoordinateSystem(z=5.0), screen)
    seen = scene.trace(500).detectors["D"]
    seen.total_flux.backward()
    assert seen.total_flux_float == pytest.approx(50.0 / (683.002 * 0.99495), rel=1e-6)
    assert float(lumens.grad) == pytest.approx(1.0 / (683.002 * 0.99495), rel=1e-5)
    assert nsq.to_photometric(seen, "luminous_flux", wavelength_um=0.55).value == pytest.approx(50.0, rel=1e-6)


def test_two_fluxes_warn_and_an_invisible_one_raises():
    scene = nsq.NSQScene()
    both = nsq.PointSourceConfig(spectrum=GREEN, total_flux=2.0, total_flux_lumens=100.0)
    with pytest.warns(UserWarning, match="total_flux_lumens") as caught:
        scene.add_source("S", nsq.CoordinateSystem(), both)
    assert caught[0].filename == __file__
    unseen = nsq.PointSourceConfig(spectrum=INFRARED, total_flux_lumens=100.0)
    with pytest.raises(ValueError, match="negligible overlap"):
        scene.add_source("T", nsq.CoordinateSystem(), unseen)
    assert scene.source_names == ["S"]


def test_illuminance_of_a_map():
    seen = irradiance_map([[1.0, 2.0], [3.0, 0.0]])
    lux = nsq.to_photometric(seen, wavelength_um=0.55)
    assert lux.data == pytest.approx(seen.irradiance * 1e6 * 683.002 * 0.99495, rel=1e-12)
    assert lux.total == pytest.approx(6.0 * 683.002 * 0.99495, rel=1e-12)
    assert lux.total == pytest.approx(lux.data.sum() * seen.pixel_area * 1e-6, rel=1e-12)
    assert (lux.quantity, lux.weighting) == ("illuminance", "photopic")
    assert np.array_equal(lux.x_coords, seen.x_coords)
    dim = nsq.to_photometric(seen, weighting="scotopic", wavelength_um=0.55)
    assert dim.total == pytest.approx(6.0 * 1700.0 * 0.481, rel=1e-12)


def test_illuminance_of_bins_sums_them_without_their_width():
    bins = Bins([0.45, 0.55, 0.65], [[[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]]])
    lux = nsq.to_photometric(bins)
    v = np.array([0.038, 0.99495, 0.107])
    assert lux.data == pytest.approx(1e6 * 683.002 * np.array([[v @ [1, 2, 3], v @ [0, 1, 0]]]), rel=1e-12)
    assert lux.total == pytest.approx(lux.data.sum() * 1e-6, rel=1e-12)
    flux = nsq.to_photometric(bins, "luminous_flux")
    assert float(flux) == pytest.approx(lux.total, rel=1e-12)
    assert (flux.unit, flux.quantity) == ("lm", "luminous_flux")
    dark = nsq.to_photometric(Bins([0.45, 0.55, 0.65], np.zeros((1, 2, 3))))
    assert dark.total == 0.0
    assert not dark.data.any()


def test_candela_of_a_far_field():
    candela = nsq.to_photometric(FarField(), "luminous_intensity", wavelength_um=0.55)
    assert candela.data == pytest.approx(np.full((3, 2), 0.25 * 683.002 * 0.99495), rel=1e-12)
    assert candela.total == pytest.approx(2.0 * 683.002 * 0.99495, rel=1e-12)
    assert candela.x_coords.tolist() == [-90.0, 90.0]


def test_lumens_of_single_rays():
    column = {name: torch.zeros(3, dtype=torch.float64) for name in (*"xyzLMN", "path_length")}
    rays = nsq.RayDatabase(
        name="R",
        **column,
        flux=torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64),
        wavelength=torch.tensor([0.55, 0.45, 1.0], dtype=torch.float64),
        ray_id=torch.arange(3),
    )
    flux = nsq.to_photometric(rays, "luminous_flux")
    assert float(flux) == pytest.approx(683.002 * (0.99495 + 2 * 0.038), rel=1e-12)
    with pytest.raises(TypeError, match="no irradiance"):
        nsq.to_photometric(rays)


def test_plots_name_their_units():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ax = plt.subplots()[1]
    assert nsq.to_photometric(irradiance_map([[1.0, 2.0]]), wavelength_um=0.55).plot(ax) is ax
    assert (ax.get_ylabel(), ax.images[0].colorbar.ax.get_ylabel()) == ("y (mm)", "lx")
    ax = nsq.to_photometric(FarField(), "luminous_intensity", wavelength_um=0.55).plot()
    assert (ax.get_ylabel(), ax.images[0].colorbar.ax.get_ylabel()) == ("theta (°)", "cd")
    plt.close("all")


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda m: nsq.v_lambda(0.5, "mesopic"), ValueError, ["weighting", "mesopic"]),
        (lambda m: nsq.v_lambda("green"), TypeError, ["wavelength_um", "green"]),
        (lambda m: nsq.luminous_efficacy_of_spectrum([0.5], [1, 2]), ValueError, ["(1,)", "(2,)"]),
        (lambda m: nsq.luminous_efficacy_of_spectrum([0.5], [0.0]), ValueError, ["weights", "sum"]),
        (lambda m: nsq.lumens_to_watts(-1.0, GREEN), ValueError, ["lumens", "-1.0"]),
        (lambda m: nsq.lumens_to_watts(1.0, 0.55), TypeError, ["spectrum", "0.55"]),
        (lambda m: nsq.lumens_to_watts(1.0, INFRARED), ValueError, ["negligible overlap", "1.064"]),
        (lambda m: nsq.to_photometric(m), ValueError, ["wavelength_um"]),
        (lambda m: nsq.to_photometric(m, wavelength_um=1.5), ValueError, ["negligible", "1.5"]),
        (lambda m: nsq.to_photometric(m, "brightness"), TypeError, ["quantity", "brightness"]),
        (lambda m: nsq.to_photometric(m, weighting="x", wavelength_um=0.5), ValueError, ["weighting"]),
        (lambda m: nsq.to_photometric(m, wavelength_um=-0.5), ValueError, ["wavelength_um", "-0.5"]),
        (lambda m: nsq.to_photometric(m, "luminous_intensity", wavelength_um=0.5), TypeError, ["intensity"]),
        (lambda m: nsq.to_photometric(3.0, wavelength_um=0.5), TypeError, ["result", "float"]),
        (lambda m: nsq.to_photometric(Bins([0.8, 0.9, 1.0], np.ones((1, 2, 3)))), ValueError, ["negligible"]),
    ],
)
def test_errors_say_what_is_wrong(call, kind, words):
    with pytest.raises(kind) as caught:
        call(irradiance_map([[1.0]]))
    for word in words:
        assert word in str(caught.value)


def test_photometry_of_traced_results():
    spectrum = nsq.Spectrum([0.45, 0.55, 0.65], [1.0, 2.0, 1.0])
    scene = nsq.NSQScene()
    lamp = nsq.PointSourceConfig(spectrum=spectrum, total_flux_lumens=1000.0, half_angle_deg=30.0)
    scene.add_source("S", nsq.CoordinateSystem(), lamp)
    size = {"width": 20.0, "height": 20.0, "num_pixels_x": 4, "num_pixels_y": 4, "absorb": False}
    bins = nsq.SpectralDetectorConfig(**size, wl_min=0.4, wl_max=0.7, num_bins=3)
    scene.add_detector("W", nsq.CoordinateSystem(z=1.0), bins)
    scene.add_detector(
        "F", nsq.CoordinateSystem(z=2.0), nsq.FarFieldDetectorConfig(num_theta=9, num_phi=4, absorb=False)
    )
    scene.add_detector("R", nsq.CoordinateSystem(z=3.0), nsq.RayDatabaseConfig(20.0, 20.0))
    result = scene.trace(40_000, seed=4).detectors
    for name in ("W", "R"):
        assert float(nsq.to_photometric(result[name], "luminous_flux")) == pytest.approx(1000.0, rel=0.02)
    lux = nsq.to_photometric(result["W"])
    assert lux.data.shape == (4, 4)
    assert lux.total == pytest.approx(lux.data.sum() * 25.0 * 1e-6, rel=1e-9)
    solid_angle = 2.0 * np.pi * (1.0 - np.cos(np.radians(30.0)))
    efficacy = nsq.luminous_efficacy_of_spectrum(spectrum.wavelengths, spectrum.weights)
    candela = nsq.to_photometric(result["F"], "luminous_intensity", wavelength_um=0.55)
    mean = candela.data[:3].mean() * efficacy / (683.002 * 0.99495)
    assert mean == pytest.approx(1000.0 / solid_angle, rel=0.03)
    lamp = nsq.AngularDistribution.from_far_field(result["F"], spectrum)
    assert lamp.total_lumens() == pytest.approx(1000.0, rel=0.25)  # the edge of the beam is a bin wide
