"""Maps, ray tables and the ledger."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.patches import StepPatch

import nsq


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def make_map(data=None, **changes):
    data = torch.arange(6, dtype=torch.float64) if data is None else data
    numbers = {"width": 6.0, "height": 4.0, "num_pixels_x": 3, "num_pixels_y": 2, "num_rays_hit": 7, **changes}
    return nsq.IrradianceMap(name="D", data=data, total_flux=data.sum(), **numbers)


def make_rays(n=5, **changes):
    rng = np.random.default_rng(2)
    columns = {c: torch.tensor(rng.normal(size=n)) for c in ("x", "y", "z", "L", "M", "N", "flux", "path_length")}
    columns["wavelength"] = torch.tensor(rng.choice([0.4861, 0.5876, 0.6563], n))
    return nsq.RayDatabase(name="R", ray_id=torch.arange(n), **{**columns, **changes})


def test_a_map_divides_flux_by_pixel_area():
    made = make_map()
    assert made.irradiance.shape == (2, 3)
    assert made.irradiance == pytest.approx(np.arange(6.0).reshape(2, 3) / 4.0)
    assert made.to_numpy() == pytest.approx(made.irradiance)
    assert made.x_coords == pytest.approx([-2.0, 0.0, 2.0])
    assert made.y_coords == pytest.approx([-1.0, 1.0])
    assert (made.num_rays_hit, made.total_flux_float) == (7, 15.0)
    assert isinstance(made.total_flux_float, float)
    assert made.irradiance.sum() * made.pixel_area == pytest.approx(15.0)
    assert "15 W" in repr(made)


def test_a_map_stays_attached_and_its_arrays_do_not():
    leaf = torch.arange(6, dtype=torch.float64, requires_grad=True)
    width = torch.tensor(6.0, requires_grad=True)
    made = make_map(leaf * 2.0, width=width)
    assert isinstance(made.irradiance, np.ndarray)
    assert made.width == 6.0
    (made.data[4] + made.total_flux).backward()
    assert leaf.grad.tolist() == [2.0, 2.0, 2.0, 2.0, 4.0, 2.0]


def test_a_map_of_the_wrong_size_is_refused():
    with pytest.raises(ValueError, match=r"^data got shape \(5,\); it takes \(6,\)"):
        make_map(torch.ones(5))


def test_a_map_is_drawn_in_mm():
    ax = make_map().plot()
    (image,) = ax.images
    assert image.get_extent() == [-3.0, 3.0, -2.0, 2.0]
    assert (image.origin, image.get_cmap().name, image.get_clim()[0]) == ("lower", "viridis", 0.0)
    assert image.colorbar.ax.get_ylabel() == "W/mm²"
    assert (ax.get_ylabel(), ax.get_title()) == ("y (mm)", "D   15 W")
    figure, own = plt.subplots()
    assert make_map().plot(ax=own, cmap="gray", vmax=2.0) is own
    assert (own.images[0].get_cmap().name, own.images[0].get_clim()) == ("gray", (0.0, 2.0))
    assert own.get_xlabel() == "x (mm)"
    assert len(figure.axes) == 2  # the map and its colour bar


def cuts(made):
    """The axes of the two cuts of a plot, the one below the map first."""
    figure = made.plot().figure
    figure.canvas.draw()
    found = [a for a in figure.axes if any(isinstance(p, StepPatch) for p in a.patches)]
    return sorted(found, key=lambda a: a.get_position().y0)


def test_a_map_of_its_own_has_cuts_through_the_middle():
    data = torch.arange(5 * 7, dtype=torch.float64)
    made = make_map(data, num_pixels_x=7, num_pixels_y=5)
    below, beside = cuts(made)
    assert (below.get_xlabel(), below.get_ylabel()) == ("x (mm)", "W/mm²")
    values, edges, _ = below.patches[0].get_data()
    assert values == pytest.approx(made.irradiance[2])
    assert edges == pytest.approx(np.linspace(-3.0, 3.0, 8))
    assert beside.patches[0].get_data()[0] == pytest.approx(made.irradiance[:, 3])
    # of many rows, the mean of the middle ones: 2 of 128
    many = torch.arange(128, dtype=torch.float64).repeat_interleave(2)
    made = make_map(many, num_pixels_x=2, num_pixels_y=128)
    below, _ = cuts(made)
    assert below.patches[0].get_data()[0] == pytest.approx(made.irradiance[63:65].mean(axis=0))


def test_a_noisy_pixel_does_not_darken_a_map():
    rng = np.random.default_rng(3)
    counts = torch.tensor(rng.poisson(2.0, 256 * 256), dtype=torch.float64)
    made = make_map(counts, num_pixels_x=256, num_pixels_y=256, num_rays_hit=int(counts.sum()))
    image = make_map(counts, num_pixels_x=256, num_pixels_y=256, num_rays_hit=int(counts.sum())).plot().images[0]
    mean, peak = made.irradiance.mean(), made.irradiance.max()
    assert peak > 4.0 * mean
    assert mean < image.get_clim()[1] < 1.6 * mean
    assert image.colorbar.extend == "max"
    # a spot that many rays share is no noise, however small
    counts[1000] = 1e5
    image = make_map(counts, num_pixels_x=256, num_pixels_y=256, num_rays_hit=int(counts.sum())).plot().images[0]
    assert image.get_clim()[1] == pytest.approx(1e5 / made.pixel_area)
    assert image.colorbar.extend == "neither"


@pytest.mark.parametrize("pixels", [1, 64, 2048])
def test_maps_of_any_size_and_without_light_are_drawn(pixels):
    for data in (torch.zeros(pixels * pixels, dtype=torch.float64), torch.ones(pixels * pixels, dtype=torch.float64)):
        ax = make_map(data, num_pixels_x=pixels, num_pixels_y=pixels).plot()
        ax.figure.canvas.draw()
        assert ax.images[0].get_clim()[1] > 0.0


def test_a_ray_table_is_drawn_as_spots_by_wavelength():
    rays = make_rays()
    ax = rays.plot()
    (spots,) = ax.collections
    assert np.asarray(spots.get_offsets()) == pytest.approx(np.stack([rays.x.numpy(), rays.y.numpy()], axis=1))
    assert np.asarray(spots.get_array()) == pytest.approx(rays.wavelength.numpy())
    assert spots.colorbar.ax.get_ylabel() == "wavelength (µm)"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x (mm)", "y (mm)")
    assert rays.plot(plane="zy").get_xlabel() == "z (mm)"
    make_rays(0).plot()
    with pytest.raises(ValueError, match=r"^plane got 'xx'"):
        rays.plot(plane="xx")


def test_a_small_spot_is_drawn_in_micrometres_about_its_centroid():
    x = torch.tensor([3.000, 3.001, 3.002, 3.003], dtype=torch.float64)
    flux = torch.tensor([1.0, 1.0, 1.0, 3.0], dtype=torch.float64)
    ax = make_rays(4, x=x, y=torch.zeros(4, dtype=torch.float64), flux=flux).plot()
    assert np.asarray(ax.collections[0].get_offsets())[:, 0] == pytest.approx([-2.0, -1.0, 0.0, 1.0])
    assert ax.get_xlabel() == "x - 3.002 mm (µm)"
    assert "RMS radius 1.15 µm" in ax.get_title()  # sqrt((4 + 1 + 0 + 3) / 6)


def test_many_rays_are_thinned():
    ax = make_rays(50_001).plot()
    assert len(ax.collections[0].get_offsets()) == 16_667


def test_a_notebook_shows_numbers_and_a_thumbnail():
    for shown in (make_map(), make_rays()):
        text = shown._repr_html_()
        assert "<table>" in text
        assert f"{shown.num_rays_hit}" in text
        assert "data:image/png;base64,iVBOR" in text
    assert (
        "&lt;b&gt;"
        in nsq.RayDatabase(
            name="<b>", **{column: make_rays().__dict__[column] for column in make_rays().to_numpy()}
        )._repr_html_()
    )
    assert plt.get_fignums() == []


def test_a_ray_table_adds_up():
    flux = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64, requires_grad=True)
    rays = make_rays(3, flux=flux)
    assert (rays.num_rays, rays.num_rays_hit) == (3, 3)
    rays.total_flux.backward()
    assert flux.grad.tolist() == [1.0, 1.0, 1.0]
    assert rays.total_flux_float == 7.0
    # of many rays the last few may be kept
    few = make_rays(3, num_rays_hit=10, total_flux=torch.tensor(20.0))
    assert (few.num_rays, few.num_rays_hit, few.total_flux_float) == (3, 10, 20.0)
    columns = {"x", "y", "z", "L", "M", "N", "flux", "path_length", "wavelength", "ray_id"}
    assert set(few.to_numpy()) == columns
    with pytest.raises(ValueError, match=r"^x got shape \(2,\); it takes \(3,\)"):
        make_rays(3, x=torch.ones(2))


@pytest.mark.parametrize("name", ["map.npz", "map"])
def test_a_map_survives_a_file(tmp_path, name):
    leaf = torch.rand(6, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    made = make_map(leaf)
    path = made.save(tmp_path / name)
    assert path == tmp_path / "map.npz"
    assert [p.name for p in tmp_path.iterdir()] == ["map.npz"]
    twin = nsq.IrradianceMap.load(path)
    assert torch.equal(twin.data, leaf.detach())
    assert twin.total_flux == made.total_flux.detach()
    for field in ("name", "width", "height", "num_pixels_x", "num_pixels_y", "num_rays_hit"):
        assert getattr(twin, field) == getattr(made, field)
    with np.load(path) as file:
        assert np.array_equal(file["irradiance"], made.irradiance)
        assert np.array_equal(file["x_coords"], made.x_coords)


def test_a_ray_table_survives_a_file(tmp_path):
    made = make_rays(num_rays_hit=9)
    twin = nsq.RayDatabase.load(made.save(tmp_path / "rays.npz"))
    for column, values in made.to_numpy().items():
        assert np.array_equal(twin.to_numpy()[column], values)
    assert twin.ray_id.dtype == torch.int64
    assert (twin.name, twin.num_rays_hit, twin.total_flux_float) == ("R", 9, made.total_flux_float)


def test_files_of_another_kind_are_refused(tmp_path):
    path = make_rays().save(tmp_path / "rays.npz")
    with pytest.raises(
        ValueError, match=r"rays\.npz: holds RayDatabase; it takes a file that IrradianceMap.save wrote"
    ):
        nsq.IrradianceMap.load(path)
    np.savez(tmp_path / "other.npz", a=1)
    with pytest.raises(ValueError, match="nothing known"):
        nsq.RayDatabase.load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        nsq.IrradianceMap.load(tmp_path / "none.npz")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = make_map().save(tmp_path / "map.npz")
    before = path.read_bytes()

    def broken(stream, **arrays):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(OSError, match="disk full"):
        make_map().save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["map.npz"]


def test_the_ledger_closes_over_coatings_and_taps():
    result = nsq.SimulationResult(
        detectors={"D": make_map()},
        num_rays_total=1000,
        total_flux_in=2.0,
        total_flux_detected=1.5,
        total_flux_tapped=0.5,
        total_flux_absorbed=0.25,
        total_flux_coating=0.25,
        total_flux_bulk_absorbed=0.125,
        total_flux_escaped=0.25,
        total_flux_lost=0.125,
    )
    assert result.flux_conservation_error == 0.0
    result.total_flux_coating = 0.0
    assert result.flux_conservation_error == pytest.approx(0.125)
    assert nsq.SimulationResult().flux_conservation_error == 0.0
    assert result.ray_paths is None
    text = result.report()
    for word in ("1000", "tapped", "mirrors and coatings", "75.0000%", "escaped", "detector D: 15 W, 7 rays"):
        assert word in text, word
    assert repr(result).startswith("SimulationResult(")
    assert "\n" not in repr(result)
    assert "tensor" not in repr(result)
