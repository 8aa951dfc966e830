"""Irradiance on curved shapes and on the faces of meshes: where light lands, areas of pixels, and their derivatives."""

import math
import warnings

import numpy as np
import pytest
import torch

import nsq
from nsq.geometries_mesh import MeshGeometry
from nsq.geometries_sag import AsphereGeometry, BiconicGeometry, ToroidGeometry
from nsq.pixels import pixel_grid

from .scenes import GREEN
from .validation.tools import CS, chi_square, glass, pencil

RNG = np.random.default_rng(7)
LINES = nsq.Spectrum(np.array([0.45, 0.55, 0.65]), np.array([1.0, 2.0, 1.5]))


def box(half=(2.0, 3.0, 4.0)):
    """Vertices and faces of a box about the origin, wound outwards; two triangles a side."""
    corners = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)]) * half
    faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6],
             [0, 6, 4], [1, 5, 7], [1, 7, 3]]  # fmt: skip
    return corners, np.array(faces)


SHAPES = {
    "sphere": lambda: nsq.SphereGeometry(10.0),
    "sphere with a rim": lambda: nsq.SphereGeometry(10.0, 6.0),
    "frustum": lambda: nsq.CylindricalFrustumGeometry(3.0, 5.0, 1.0, 4.0),
    "disk": lambda: nsq.FinitePlaneGeometry(aperture_radius=5.0),
    "ring": lambda: nsq.AnnularPlaneGeometry(2.0, 5.0, 1.0),
    "conic": lambda: nsq.ConicGeometry(-10.0, 0.5, 7.0),
    "hyperbola": lambda: nsq.ConicGeometry(6.0, -2.5, 7.0),
    "flat conic": lambda: nsq.ConicGeometry(0.0, 0.0, 7.0),
    "asphere": lambda: AsphereGeometry(12.0, -1.0, 6.0, {3: 1e-3, 4: -2e-4}),
    "biconic": lambda: BiconicGeometry(9.0, -14.0, -0.5, 0.4, aperture_radius=6.0),
    "toroid": lambda: ToroidGeometry(15.0, 9.0, aperture_radius=6.0),
}
TOTALS = {
    "sphere": 400.0 * np.pi,
    "sphere with a rim": 2.0 * 2.0 * np.pi * 10.0 * 2.0,
    "frustum": np.pi * 8.0 * math.sqrt(13.0),
    "disk": 25.0 * np.pi,
    "ring": 21.0 * np.pi,
    "flat conic": 49.0 * np.pi,
}


# ---- areas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("splat", ["hard", "bilinear", "gaussian"])
@pytest.mark.parametrize("name", TOTALS)
def test_areas_sum_to_the_closed_form(name, splat):
    for nx, ny in ((7, 5), (1, 1), (16, 3)):
        areas = pixel_grid(SHAPES[name](), nx, ny).areas(splat, 0.7)
        assert areas.shape == (nx * ny,)
        assert float(areas.sum()) == pytest.approx(TOTALS[name], rel=1e-12)


def test_areas_of_revolution_in_closed_form():
    """A cap, a hemisphere and a paraboloid, and the paraboloid as an asphere and as a biconic."""
    a, r = 6.0, 10.0
    paraboloid = 2.0 / 3.0 * np.pi * r * r * ((1.0 + (a / r) ** 2) ** 1.5 - 1.0)
    for shape, expected in (
        (nsq.ConicGeometry(r, 0.0, a), 2.0 * np.pi * r * (r - math.sqrt(r * r - a * a))),
        (nsq.ConicGeometry(-r, 0.0, r), 2.0 * np.pi * r * r),
        (nsq.ParaboloidGeometry(r, a), paraboloid),
        (AsphereGeometry(0.0, 0.0, a, {2: 0.5 / r}), paraboloid),
        (BiconicGeometry(r, r, -1.0, -1.0, aperture_radius=a), paraboloid),
    ):
        assert float(pixel_grid(shape, 9, 12).areas().sum()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", [n for n in SHAPES if n not in ("sphere", "sphere with a rim", "frustum")])
def test_areas_of_single_pixels_by_brute_force(name):
    """Slopes by differences on a fine grid, counted where it lies inside the rims."""
    shape, nx, ny, fine = SHAPES[name](), 5, 4, 300
    reach = shape.outer_radius if name == "ring" else shape.aperture_radius
    hole = shape.inner_radius if name == "ring" else 0.0
    x, y = (reach * (2.0 * (np.arange(n * fine) + 0.5) / (n * fine) - 1.0) for n in (nx, ny))
    x, y = np.meshgrid(x, y)
    if hasattr(shape, "profile"):
        height = lambda x, y: shape.profile(np.hypot(x, y))  # noqa: E731
    elif hasattr(shape, "sag"):
        height = lambda x, y: shape.sag(x, y).numpy()  # noqa: E731
    else:
        height = lambda x, y: 0.0 * x  # noqa: E731
    h = 1e-5
    slope_x = (height(x + h, y) - height(x - h, y)) / (2.0 * h)
    slope_y = (height(x, y + h) - height(x, y - h)) / (2.0 * h)
    rho = np.hypot(x, y)
    density = np.where((rho <= reach) & (rho >= hole), np.sqrt(1.0 + slope_x**2 + slope_y**2), 0.0)
    cell = (2.0 * reach / nx / fine) * (2.0 * reach / ny / fine)
    expected = density.reshape(ny, fine, nx, fine).sum(axis=(1, 3)) * cell
    found = pixel_grid(shape, nx, ny).areas().reshape(ny, nx).numpy()
    assert found == pytest.approx(expected, abs=3e-4 * expected.max())


def test_areas_round_a_cone_follow_its_radius():
    """A band from z to z' of a cone of radius r(z): pi (r + r') times the length of its side."""
    found = pixel_grid(SHAPES["frustum"](), 4, 3).areas().reshape(3, 4).numpy()
    r = np.linspace(3.0, 5.0, 4)
    bands = np.pi * (r[1:] + r[:-1]) * math.sqrt(13.0) / 3.0
    assert found == pytest.approx(np.tile(bands[:, None] / 4.0, 4), rel=1e-12)


def test_a_rim_leaves_the_waist_of_a_sphere_bare():
    found = pixel_grid(SHAPES["sphere with a rim"](), 3, 10).areas().reshape(10, 3).numpy()
    # a cap is 2 high, one row of ten
    full = 2.0 * np.pi * 10.0 * 2.0 / 3.0
    assert found[[0, 9]] == pytest.approx(np.full((2, 3), full), rel=1e-12)
    assert np.all(found[1:9] == 0.0)


def test_triangles_have_their_areas():
    found = pixel_grid(MeshGeometry(box()), 256, 256).areas().numpy()
    sides = np.repeat([24.0, 24.0, 16.0, 16.0, 12.0, 12.0], 2)
    assert found == pytest.approx(sides, rel=1e-12)


AREA_NUMBERS = {
    "sphere": lambda r, a: nsq.SphereGeometry(r, a),
    "frustum": lambda a, b: nsq.CylindricalFrustumGeometry(a, b, -1.0, 0.3 * a + b),
    "ring": lambda a, b: nsq.AnnularPlaneGeometry(0.2 * a, b),
    "conic": lambda r, k: nsq.ConicGeometry(r, k * 0.1, 0.5 * r),
    "asphere": lambda r, a: AsphereGeometry(r, -1.0, 0.5 * a, {3: 1e-4 * r, 4: 1e-5 * a}),
    "toroid": lambda r, q: ToroidGeometry(r, 2.0 * q, aperture_radius=0.3 * r),
    "mesh": lambda a, b: MeshGeometry((torch.stack([a * 0.0, a * 0.0, a * 0.0, a, b * 0.2, a * 0.1, a * 0.3, b, b])
                                       .reshape(3, 3), np.array([[0, 1, 2]]))),
}  # fmt: skip


@pytest.mark.parametrize("splat", ["hard", "bilinear"])
@pytest.mark.parametrize("name", AREA_NUMBERS)
def test_areas_differentiate(name, splat):
    values = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (9.0, 5.0)]
    splat = "hard" if name == "mesh" else splat
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.autograd.gradcheck(lambda *v: pixel_grid(AREA_NUMBERS[name](*v), 4, 3).areas(splat), values)


# ---- where light lands -----------------------------------------------------------------------------------------------


def read(shape, rays, frame=None, seed=1, spectral=False, source=None, back=0.0, **options):
    """The result of a detector on a shape, lit by the pencils ``rays`` of (origin, direction) in its own frame."""
    scene, frame = nsq.NSQScene(), frame or CS()
    for i, (origin, direction) in enumerate(rays):
        pencil(scene, f"S{i}", origin, direction, frame=frame)
    if source is not None:
        scene.add_source("S", CS(z=-back, reference_cs=frame), source)
    kind = nsq.SpectralDetectorConfig if spectral else nsq.IrradianceDetectorConfig
    scene.add_detector("D", CS(reference_cs=frame), kind(shape=shape, **options))
    return scene.trace(max(1, len(rays)) if source is None else 200_000, seed=seed).detectors["D"]


FRAMES = [None, CS(x=3.0, y=-2.0, z=50.0, rx=0.4, ry=-0.7, rz=1.1)]


@pytest.mark.parametrize("frame", FRAMES)
def test_azimuth_and_height_on_a_sphere_and_a_cone(frame):
    """Pencils from the axis to points of known azimuth and height, one by one."""
    for shape in (nsq.SphereGeometry(10.0), nsq.CylindricalFrustumGeometry(4.0, 9.0, -2.0, 8.0)):
        low, high = (-10.0, 10.0) if isinstance(shape, nsq.SphereGeometry) else (-2.0, 8.0)
        for phi, z in ((-175.0, -1.3), (-40.0, 3.1), (1.0, 7.6), (88.0, -1.8), (179.0, 0.2)):
            r = math.sqrt(100.0 - z * z) if low == -10.0 else 4.0 + 0.5 * (z + 2.0)
            point = np.array([r * math.cos(math.radians(phi)), r * math.sin(math.radians(phi)), z])
            start = np.array([0.1, 0.0, 0.5])
            result = read(shape, [(start, point - start)], frame, num_pixels_x=12, num_pixels_y=20, splat="hard")
            column, row = int((phi + 180.0) / 30.0), int((z - low) / (high - low) * 20)
            where = np.argmax(result.data.numpy())
            assert divmod(where, 12) == (row, column)
            assert result.x_coords[column] == pytest.approx(phi, abs=15.0)
            assert result.y_coords[row] == pytest.approx(z, abs=0.5 * (high - low) / 20 + 1e-12)
            assert result.total_flux_float == pytest.approx(1.0, rel=1e-12)
            assert result.irradiance[row, column] == pytest.approx(1.0 / float(result.pixel_areas[where]), rel=1e-12)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", ["disk", "ring", "conic", "asphere", "biconic", "toroid"])
def test_x_and_y_on_shapes_over_a_plane(name, frame):
    shape = SHAPES[name]()
    reach = shape.outer_radius if name == "ring" else shape.aperture_radius
    for x, y in ((2.9, 0.4), (-1.3, 3.1), (0.2, -4.3)):
        result = read(shape, [((x, y, -20.0), (0.0, 0.0, 1.0))], frame, num_pixels_x=11, num_pixels_y=8, splat="hard")
        column, row = int((x + reach) / (2.0 * reach) * 11), int((y + reach) / (2.0 * reach) * 8)
        assert divmod(np.argmax(result.data.numpy()), 11) == (row, column)
        assert (result.width, result.height) == (2.0 * reach, 2.0 * reach)


@pytest.mark.parametrize("splat", ["hard", "bilinear", "gaussian"])
def test_a_lamp_in_the_middle_lights_a_sphere_evenly(splat):
    """I / R^2 in every pixel, those at the poles and at the seam of the azimuth too."""
    lamp = nsq.PointSourceConfig(spectrum=GREEN, total_flux=2.0, half_angle_deg=180.0)
    shape = nsq.SphereGeometry(10.0)
    result = read(shape, [], FRAMES[1], source=lamp, num_pixels_x=12, num_pixels_y=8, splat=splat)
    assert result.total_flux_float == pytest.approx(2.0, rel=1e-12)
    assert result.num_rays_hit == 200_000
    if splat == "hard":
        chi_square(result.data.numpy() * 100_000, np.full(96, 1.0 / 96.0))
    # 2083 rays a pixel; a splat averages over neighbours, so their spread is below that of counts
    even = 2.0 / (400.0 * np.pi)
    assert result.irradiance == pytest.approx(np.full((8, 12), even), rel=4.5 / math.sqrt(200_000 / 96))


@pytest.mark.parametrize("splat", ["hard", "bilinear", "gaussian"])
def test_an_even_beam_on_a_disk_reads_evenly_out_to_the_rim(splat):
    """Wherever a pixel has a hundredth of its size inside the rim; those beyond the rim read nothing."""
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, total_flux=25.0 * np.pi, aperture_radius=5.0)
    shape = nsq.FinitePlaneGeometry(aperture_radius=5.0 + 1e-9)
    result = read(shape, [], CS(z=5.0), source=beam, back=9.0, num_pixels_x=12, num_pixels_y=10, splat=splat)
    areas = result.pixel_areas.reshape(10, 12).numpy()
    full = 100.0 / 120.0
    inside = areas > 0.01 * full
    # a rim cuts the parts of a pixel, of which the middle counts
    rim = 0.0 if splat == "hard" else 0.12
    sigma = 1.0 / np.sqrt(200_000 * areas[inside] / (25.0 * np.pi))
    deviation = np.abs(result.irradiance[inside] - 1.0)
    assert np.all(deviation < 4.5 * sigma + rim * (areas[inside] < 0.5 * full) + 0.01 * rim)
    assert np.all(result.irradiance[areas == 0.0] == 0.0)


def test_a_beam_on_a_cap_falls_off_with_the_cosine():
    """Flux over true area is the beam's irradiance times the cosine of incidence, averaged over the pixel."""
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, total_flux=36.0 * np.pi, aperture_radius=6.0)
    cap = nsq.ConicGeometry(-7.0, 0.0, 6.0 + 1e-9)
    result = read(cap, [], CS(z=9.0), source=beam, back=9.0, num_pixels_x=9, num_pixels_y=9, splat="hard")
    flat = pixel_grid(nsq.FinitePlaneGeometry(aperture_radius=6.0), 9, 9).areas()
    chi_square(result.data.numpy() * 200_000 / (36.0 * np.pi), flat.numpy() / (36.0 * np.pi))
    x, y = np.meshgrid(result.x_coords, result.y_coords)
    cosine = np.sqrt(np.maximum(0.0, 1.0 - (x * x + y * y) / 49.0))
    middle = np.hypot(x, y) < 4.0
    # the mean over a pixel differs from the middle's by less than a percent here
    assert result.irradiance[middle] == pytest.approx(cosine[middle], rel=0.01 + 4.5 / math.sqrt(200_000 / 64))


def test_faces_of_a_mesh_read_what_falls_on_them():
    """A lamp in a box: each triangle gets its solid angle, by van Oosterom and Strackee; spectra in bins besides."""
    vertices, faces = box()
    a, b, c = (vertices[faces[:, k]] - (0.3, -0.4, 0.9) for k in range(3))
    la, lb, lc = (np.linalg.norm(v, axis=1) for v in (a, b, c))
    triple = np.sum(a * np.cross(b, c), axis=1)
    below = la * lb * lc + np.sum(a * b, axis=1) * lc + np.sum(b * c, axis=1) * la + np.sum(c * a, axis=1) * lb
    share = 2.0 * np.arctan2(triple, below) / (4.0 * np.pi)
    assert share.sum() == pytest.approx(1.0, rel=1e-12)
    scene = nsq.NSQScene()
    lamp = nsq.PointSourceConfig(spectrum=LINES, half_angle_deg=180.0)
    scene.add_source("S", CS(x=0.3, y=-0.4, z=0.9, reference_cs=FRAMES[1]), lamp)
    shape = MeshGeometry((vertices, faces))
    spectral = nsq.SpectralDetectorConfig(shape=shape, splat="hard", num_bins=3, absorb=True)
    scene.add_detector("D", FRAMES[1], spectral)
    result = scene.trace(100_000, seed=2).detectors["D"]
    assert result.total_flux_float == pytest.approx(1.0, rel=1e-12)
    counts = result.flux.numpy().reshape(3, 12) * 100_000
    chi_square(counts, np.outer([1.0 / 4.5, 2.0 / 4.5, 1.5 / 4.5], share))
    assert result.irradiance.shape == (1, 12, 3)
    areas = np.repeat([24.0, 24.0, 16.0, 16.0, 12.0, 12.0], 2)
    assert result.irradiance.sum(axis=2)[0] == pytest.approx(counts.sum(axis=0) / 100_000 / areas, rel=1e-9)
    assert result.x_coords.tolist() == list(range(12))


def test_a_mesh_beside_other_detectors_and_surfaces_counts_its_own_faces():
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.5, 0.2, -20.0), (0.0, 0.0, 1.0))
    scene.add_lens("L", CS(z=-12.0), nsq.LensConfig(np.inf, np.inf, 2.0, glass(1.5), 9.0))
    tap = nsq.IrradianceDetectorConfig(shape=MeshGeometry(box((3.0, 3.0, 5.0))), splat="hard", absorb=False)
    scene.add_detector("tap", CS(), tap)
    solid = nsq.IrradianceDetectorConfig(shape=MeshGeometry(box()), splat="hard")
    scene.add_detector("D", CS(), solid)
    result = scene.trace(1)
    for name in ("tap", "D"):
        # the two faces at the lowest z are the ninth and tenth; (0.5, 0.2) lies in the second of them
        assert np.flatnonzero(result.detectors[name].data.numpy()).tolist() == [9]


def test_a_tap_on_a_sphere_reads_light_from_both_sides():
    scene = nsq.NSQScene()
    pencil(scene, "S", (1.0, 2.0, -20.0), (0.0, 0.0, 1.0))
    ball = nsq.IrradianceDetectorConfig(shape=nsq.SphereGeometry(5.0), num_pixels_x=4, num_pixels_y=4, absorb=False)
    scene.add_detector("tap", CS(), ball)
    scene.add_detector("D", CS(z=20.0), nsq.IrradianceDetectorConfig(9.0, 9.0))
    result = scene.trace(10)
    assert result.detectors["tap"].num_rays_hit == 20
    assert result.total_flux_tapped == pytest.approx(2.0, rel=1e-12)
    assert result.detectors["D"].total_flux_float == pytest.approx(1.0, rel=1e-12)


def test_a_rectangle_as_a_shape_is_the_plain_detector_to_the_last_bit():
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=5.0)
    scene.add_source("S", CS(rx=0.1), beam)
    cs = CS(x=0.3, z=30.0, ry=0.3)
    pixels = {"num_pixels_x": 9, "num_pixels_y": 7}
    scene.add_detector("plain", cs, nsq.IrradianceDetectorConfig(14.0, 12.0, absorb=False, **pixels))
    scene.add_detector("D", CS(z=40.0), nsq.IrradianceDetectorConfig(90.0, 90.0))
    one = scene.trace(5000).detectors["plain"]
    shape = nsq.FinitePlaneGeometry(14.0, 12.0)
    scene.detector_registry.remove("plain")
    scene.add_detector("shape", cs, nsq.IrradianceDetectorConfig(shape=shape, absorb=False, **pixels))
    other = scene.trace(5000).detectors["shape"]
    assert torch.equal(one.data, other.data)
    assert other.irradiance == pytest.approx(one.irradiance, rel=1e-14)
    assert np.array_equal(one.x_coords, other.x_coords)


# ---- derivatives -----------------------------------------------------------------------------------------------------


def weighted(result):
    """A number of flux, of where it lands and of the areas there."""
    cells = torch.linspace(0.3, 3.0, result.data.numel(), dtype=torch.float64)
    weights = torch.sin(2.3 * cells) + 1.5
    lit = result.pixel_areas > 0.0
    density = result.data[lit] / result.pixel_areas[lit]
    return torch.dot(weights, result.data) + torch.dot(weights.flip(0)[lit], density)


GRADIENTS = {
    "sphere": ({"r": 14.0, "x": 0.7, "rx": 0.2}, lambda v: nsq.SphereGeometry(v["r"])),
    "frustum": (
        {"r_front": 9.0, "r_back": 7.0, "z_front": -15.0, "z_back": 15.0, "x": 0.7, "rx": 1.2},
        lambda v: nsq.CylindricalFrustumGeometry(v["r_front"], v["r_back"], v["z_front"], v["z_back"]),
    ),
    "conic": (
        {"r": -18.0, "conic": 0.3, "a": 12.0, "x": 0.7, "rx": 0.2},
        lambda v: nsq.ConicGeometry(v["r"], v["conic"], v["a"]),
    ),
    "asphere": (
        {"r": -25.0, "c3": 4e-4, "c4": -1e-5, "rx": 0.2},
        lambda v: AsphereGeometry(v["r"], 0.0, 12.0, {3: v["c3"], 4: v["c4"]}),
    ),
    "toroid": ({"r": -30.0, "q": -22.0, "rx": 0.2}, lambda v: ToroidGeometry(v["r"], v["q"], aperture_radius=12.0)),
}  # fmt: skip


def lit_shape(name, v, mode="prb", spectral=False):
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=LINES, total_flux=1.3, aperture_radius=3.0)
    scene.add_source("S", CS(x=0.3, y=-0.2, z=-30.0, rx=0.25), beam)
    medium = nsq.NSQMaterial.constant(v.get("n", 1.5), 2e-6)
    scene.add_lens("L", CS(z=-24.0, y=2.0), nsq.LensConfig(25.0, -30.0, 4.0, medium, 9.0))
    if "r_front" in v:
        cs = CS(x=v["x"], rx=v["rx"], y=9.0)
    else:
        cs = CS(x=v.get("x", 0.4), rx=v["rx"], ry=-0.3, y=6.0)
    options = {"num_pixels_x": 12, "num_pixels_y": 10, "shape": GRADIENTS[name][1](v)}
    if spectral:
        scene.add_detector("D", cs, nsq.SpectralDetectorConfig(num_bins=3, **options))
    else:
        scene.add_detector("D", cs, nsq.IrradianceDetectorConfig(**options))
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.3, rr_start_flux=0.0)
    # differences at the same random numbers see no ray change its fate
    backend = nsq.TorchBackend(gradient_mode=mode, visibility="off")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*visibility")
        result = scene.trace(500, max_depth=6, min_flux_fraction=0.0, seed=5, backend=backend).detectors["D"]
    assert result.num_rays_hit > 200
    return result


PARAMETERS = [(name, key) for name, (v, _) in GRADIENTS.items() for key in (*v, "n")]


@pytest.mark.parametrize(("name", "key"), PARAMETERS)
def test_central_differences(name, key):
    nominal = {**GRADIENTS[name][0], "n": 1.5}
    leaf = torch.tensor(nominal[key], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(weighted(lit_shape(name, {**nominal, key: leaf})), leaf)
    step = 1e-6 * abs(nominal[key])
    high, low = (weighted(lit_shape(name, {**nominal, key: nominal[key] + s * step})).item() for s in (1.0, -1.0))
    expected = (high - low) / (2.0 * step)
    assert abs(expected) > 1e-6
    assert gradient.item() == pytest.approx(expected, rel=1e-5)


def test_a_border_that_lies_at_zero_moves_the_pixels():
    """The middle of a frustum's span is 0 here, but it is a tensor, and it moves."""
    nominal = {**GRADIENTS["frustum"][0], "n": 1.5}
    leaf = torch.tensor(-15.0, dtype=torch.float64, requires_grad=True)
    result = lit_shape("frustum", {**nominal, "z_front": leaf})
    cells = torch.arange(result.data.numel(), dtype=torch.float64)
    (gradient,) = torch.autograd.grad(torch.dot(cells // 12, result.data), leaf)
    # rows are spread over z: a row is at (z - z_front) / (z_back - z_front) * 10, so z stays and rows fall
    assert gradient.item() < -1e-3


@pytest.mark.parametrize("name", ["sphere", "conic"])
def test_path_replay_equals_autograd_and_spectra_have_derivatives(name):
    nominal, found = {**GRADIENTS[name][0], "n": 1.5}, []
    for mode, spectral in (("prb", False), ("autograd", False), ("prb", True)):
        leaves = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in nominal.items()}
        result = lit_shape(name, leaves, mode, spectral)
        data = result.flux.sum(dim=0).reshape(-1) if spectral else result.data
        weights = torch.sin(torch.linspace(0.7, 7.0, data.numel(), dtype=torch.float64))
        found.append([g.item() for g in torch.autograd.grad(torch.dot(weights, data), list(leaves.values()))])
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0] == pytest.approx(found[2], rel=1e-9)


def test_irradiance_on_a_mesh_follows_its_vertices():
    """Hard pixels: the flux of each face stays, its area moves with every vertex."""
    vertices, faces = box()
    lamp = nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=180.0)

    def density(points):
        scene = nsq.NSQScene()
        scene.add_source("S", CS(x=0.3), lamp)
        config = nsq.IrradianceDetectorConfig(shape=MeshGeometry((points, faces)), splat="hard")
        scene.add_detector("D", CS(), config)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*hard pixels")
            # differences at the same random numbers see no ray change its face
            result = scene.trace(2000, seed=3, backend=nsq.TorchBackend(visibility="off")).detectors["D"]
        return torch.dot(torch.linspace(1.0, 2.0, 12, dtype=torch.float64), result.data / result.pixel_areas)

    leaf = torch.tensor(vertices, requires_grad=True)
    (gradient,) = torch.autograd.grad(density(leaf), leaf)
    direction = torch.from_numpy(np.random.default_rng(1).standard_normal(vertices.shape))
    high, low = (density(torch.from_numpy(vertices) + s * 1e-7 * direction).item() for s in (1.0, -1.0))
    assert torch.sum(gradient * direction).item() == pytest.approx((high - low) / 2e-7, rel=1e-6)


# ---- bad input, files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({}, TypeError, "width got None.*or shape="),
        ({"width": 3.0}, TypeError, "height got None"),
        ({"width": 3.0, "shape": nsq.SphereGeometry(3.0)}, ValueError, "width got 3.0 beside a shape"),
        ({"shape": 3.0}, TypeError, "shape got float"),
        ({"shape": nsq.PlaneGeometry()}, ValueError, "shape got PlaneGeometry, which has no borders"),
        ({"shape": MeshGeometry(box())}, ValueError, "splat got 'bilinear'; a mesh"),
    ],
)
def test_what_a_detector_does_not_take(options, kind, message):
    with pytest.raises(kind, match=message):
        nsq.IrradianceDetectorConfig(**options)
    with pytest.raises(kind, match=message):
        nsq.IrradianceDetector(CS(), **options)
    with pytest.raises(kind, match=message):
        nsq.SpectralDetectorConfig(**options)


def test_a_shape_that_went_bad_is_named_before_the_trace():
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    scene.add_detector("ball", CS(), nsq.IrradianceDetectorConfig(shape=nsq.SphereGeometry(3.0)))
    scene.detectors[0].shape.radius = -1.0
    with pytest.raises(ValueError, match="detector 'ball': radius got -1"):
        scene.trace(10)


def test_scenes_and_results_are_read_back(tmp_path):
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.0, 0.0, 0.0), (0.3, 0.2, 1.0))
    scene.add_detector("ball", CS(), nsq.IrradianceDetectorConfig(shape=nsq.SphereGeometry(3.0), num_pixels_x=5,
                                                                  num_pixels_y=4, absorb=False))  # fmt: skip
    cone = nsq.CylindricalFrustumGeometry(4.0, 5.0, -1.0, 9.0)
    scene.add_detector("cone", CS(), nsq.SpectralDetectorConfig(shape=cone, num_pixels_x=6, num_pixels_y=3, num_bins=2))
    scene.add_detector("plain", CS(z=20.0), nsq.IrradianceDetectorConfig(30.0, 30.0, 4, 4))
    path = tmp_path / "scene.json"
    scene.to_json(path)
    again = nsq.NSQScene.from_json(path)
    assert [type(d.geometry).__name__ for d in again.detectors] == [type(d.geometry).__name__ for d in scene.detectors]
    assert again.detectors[2].shape is None
    first, second = scene.trace(100), again.trace(100)
    for name, result in first.detectors.items():
        assert torch.equal(result.data, second.detectors[name].data)
        loaded = type(result).load(result.save(tmp_path / name))
        assert np.array_equal(loaded.irradiance, result.irradiance)
        assert np.array_equal(loaded.y_coords, result.y_coords)
        assert (loaded.grid, loaded.width) == (result.grid, result.width)
        assert torch.equal(loaded.pixel_areas, result.pixel_areas)
    with pytest.raises(ValueError, match="see pixel_areas"):
        _ = first.detectors["ball"].pixel_area


def test_maps_on_shapes_can_be_drawn():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    lamp = nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=180.0)
    for shape, label in ((nsq.SphereGeometry(3.0), "azimuth (degrees)"), (nsq.ConicGeometry(9.0, 0.0, 3.0), "x (mm)"),
                         (MeshGeometry(box()), "face")):  # fmt: skip
        scene = nsq.NSQScene()
        scene.add_source("S", CS(), lamp)
        scene.add_detector("D", CS(), nsq.IrradianceDetectorConfig(shape=shape, num_pixels_x=4, num_pixels_y=4,
                                                                   splat="hard"))  # fmt: skip
        assert scene.trace(10).detectors["D"].plot().get_xlabel() == label
    plt.close("all")
