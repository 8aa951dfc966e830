"""Aspheres, biconics, toroids and meshes as data: sags in closed form, derivatives, and what is refused."""

import math
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import nsq
from nsq.geometries_mesh import MeshGeometry
from nsq.geometries_sag import AsphereGeometry, BiconicGeometry, EvenAsphereGeometry, ToroidGeometry

INF = math.inf
D = torch.float64
X = np.array([0.0, 3.0, -2.0, 1.5, 0.0])
Y = np.array([0.0, 4.0, 1.0, -3.5, 4.9])
RHO2 = X**2 + Y**2
SHAPES = [
    EvenAsphereGeometry(50.0, -0.5, 6.0, (1e-5, -2e-7)),
    AsphereGeometry(-40.0, 0.3, 6.0, {3: 1e-4, 4: -1e-5, 7: 1e-8}),
    BiconicGeometry(50.0, -30.0, -0.5, 0.7, aperture_radius=6.0),
    ToroidGeometry(50.0, 30.0, -0.5, aperture_radius=6.0),
    ToroidGeometry(-25.0, 80.0, aperture_radius=6.0),
]


def label(shape):
    return type(shape).__name__


# ---- aspheres, biconics, toroids -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("radius", "conic"), [(50.0, 0.0), (-30.0, -2.5), (40.0, 0.8), (INF, 0.0), (0.0, -1.0)])
def test_without_coefficients_an_asphere_is_a_conic(radius, conic):
    wanted = nsq.ConicGeometry(radius, conic, 6.0).profile(np.sqrt(RHO2))
    for shape in (
        EvenAsphereGeometry(radius, conic, 6.0),
        AsphereGeometry(radius, conic, 6.0),
        BiconicGeometry(radius, radius, conic, conic, aperture_radius=6.0),
    ):
        assert shape.sag(X, Y).dtype == D
        assert shape.sag(X, Y).numpy() == pytest.approx(wanted, abs=1e-15)


def test_coefficients_are_those_of_powers_of_rho():
    even = EvenAsphereGeometry(50.0, -0.5, 6.0, (1e-5, -2e-7, 3e-9))
    rho = np.sqrt(RHO2)
    wanted = nsq.ConicGeometry(50.0, -0.5, 6.0).profile(rho) + 1e-5 * rho**4 - 2e-7 * rho**6 + 3e-9 * rho**8
    assert even.sag(X, Y).numpy() == pytest.approx(wanted, rel=1e-14)
    assert even.powers == (4, 6, 8)
    assert even.numbers() == (50.0, -0.5, 6.0, 1e-5, -2e-7, 3e-9)
    odd = AsphereGeometry(INF, 0.0, 6.0, {3: 1e-3, 2: 0.01})
    assert odd.sag(X, Y).numpy() == pytest.approx(1e-3 * rho**3 + 0.01 * rho**2, rel=1e-14)
    assert odd.powers == (3, 2)
    assert odd.numbers() == (INF, 0.0, 6.0, 1e-3, 0.01)
    assert {shape.ROW for shape in (even, odd)} == {"asphere"}


def test_a_biconic_is_a_conic_along_each_axis():
    shape = BiconicGeometry(50.0, -30.0, -0.5, 0.7, aperture_radius=6.0)
    rho = np.linspace(0.0, 6.0, 7)
    assert shape.sag(rho, 0.0).numpy() == pytest.approx(nsq.ConicGeometry(50.0, -0.5, 6.0).profile(rho), abs=1e-15)
    assert shape.sag(0.0, rho).numpy() == pytest.approx(nsq.ConicGeometry(-30.0, 0.7, 6.0).profile(rho), abs=1e-15)
    assert shape.ROW == "biconic"
    assert shape.numbers() == (50.0, -30.0, -0.5, 0.7, 6.0)


def test_a_toroid_of_equal_radii_is_a_sphere():
    for radius in (20.0, -20.0):
        wanted = nsq.ConicGeometry(radius, 0.0, 6.0).profile(np.sqrt(RHO2))
        assert ToroidGeometry(radius, radius, aperture_radius=6.0).sag(X, Y).numpy() == pytest.approx(wanted, abs=1e-14)


@pytest.mark.parametrize("flat", [0.0, INF, -INF])
def test_a_toroid_with_a_flat_side_is_a_cylinder(flat):
    along_x, along_y = ToroidGeometry(flat, 20.0, aperture_radius=6.0), ToroidGeometry(20.0, flat, aperture_radius=6.0)
    profile = nsq.ConicGeometry(20.0, 0.0, 6.0).profile
    assert along_x.sag(X, Y).numpy() == pytest.approx(profile(Y), abs=1e-15)
    assert along_y.sag(X, Y).numpy() == pytest.approx(profile(X), abs=1e-15)


@pytest.mark.parametrize("shape", SHAPES[3:], ids=label)
def test_a_toroid_keeps_its_distance_from_the_axis_of_the_sweep(shape):
    """sqrt(x^2 + (z - R)^2) = |R - g(y)|, with the curve g in the plane x = 0."""
    z, g = shape.sag(X, Y).numpy(), shape.sag(0.0, Y).numpy()
    assert np.hypot(X, z - shape.radius_x) == pytest.approx(np.abs(shape.radius_x - g), rel=1e-14)
    assert g == pytest.approx(nsq.ConicGeometry(shape.radius_y, shape.conic_y, 6.0).profile(Y), abs=1e-15)
    assert shape.ROW == "toroid"
    assert shape.numbers() == (shape.radius_x, shape.radius_y, shape.conic_y, 6.0)


@pytest.mark.parametrize("shape", SHAPES, ids=label)
def test_the_implicit_function_is_0_on_the_surface_and_rises_along_z(shape):
    q = torch.stack([torch.tensor(X), torch.tensor(Y), shape.sag(X, Y)], dim=1)
    assert shape.implicit(q).abs().max() == 0.0
    assert shape.implicit(q + torch.tensor([0.0, 0.0, 0.25])).numpy() == pytest.approx(np.full(5, 0.25))
    q.requires_grad_()
    (slope,) = torch.autograd.grad(shape.implicit(q).sum(), q)
    assert slope[0].tolist() == [0.0, 0.0, 1.0]  # at the vertex
    assert slope[:, 2].tolist() == [1.0] * 5


def rebuilt(shape, numbers):
    """The same shape of other numbers."""
    if isinstance(shape, EvenAsphereGeometry):
        return EvenAsphereGeometry(*numbers[:3], numbers[3:])
    if isinstance(shape, AsphereGeometry):
        return AsphereGeometry(*numbers[:3], dict(zip(shape.powers, numbers[3:], strict=True)))
    return type(shape)(*numbers[:-1], aperture_radius=numbers[-1])


@pytest.mark.parametrize("shape", SHAPES, ids=label)
def test_gradients_reach_every_number_and_the_points(shape):
    numbers = [torch.tensor(v, dtype=D, requires_grad=True) for v in shape.numbers()]
    points = [torch.tensor(v[1:], requires_grad=True) for v in (X, Y)]  # gradcheck steps off the vertex's 0

    def sag(x, y, *values):
        return rebuilt(shape, values).sag(x, y)

    assert torch.autograd.gradcheck(sag, (*points, *numbers), eps=1e-6, atol=1e-8, rtol=1e-5)
    at_vertex = rebuilt(shape, numbers).sag(0.0, 0.0)
    slopes = torch.autograd.grad(at_vertex, numbers, allow_unused=True)
    assert all(slope is None or slope == 0.0 for slope in slopes)


def test_a_flat_asphere_has_finite_gradients():
    radius = torch.tensor(INF, dtype=D, requires_grad=True)
    conic = torch.tensor(0.0, dtype=D, requires_grad=True)
    a4 = torch.tensor(0.0, requires_grad=True)
    EvenAsphereGeometry(radius, conic, 6.0, (a4,)).sag(X, Y).sum().backward()
    assert (radius.grad.item(), conic.grad.item()) == (0.0, 0.0)
    assert a4.grad.item() == pytest.approx((RHO2**2).sum())
    assert a4.grad.dtype == torch.float32


def test_a_hemisphere_is_whole():
    rim = BiconicGeometry(5.0, 5.0, aperture_radius=5.0).sag(3.0, 4.0)
    assert rim.item() == pytest.approx(5.0)
    assert EvenAsphereGeometry(5.0, 0.0, 5.0).sag(3.0, 4.0).item() == pytest.approx(5.0)
    assert EvenAsphereGeometry(5.0, 0.0, 5.0).sag(6.0, 0.0).item() == pytest.approx(36.0 / 5.0)  # radicand counts as 0


@pytest.mark.parametrize("shape", SHAPES, ids=label)
def test_the_surface_lies_in_its_range_of_heights(shape):
    rng = np.random.default_rng(4)
    rho, phi = 6.0 * np.sqrt(rng.random(20_000)), 2.0 * np.pi * rng.random(20_000)
    z = shape.sag(rho * np.cos(phi), rho * np.sin(phi)).numpy()
    low, high = shape.z_range()
    assert low <= z.min() <= z.max() <= high
    assert high - low < 1.05 * (z.max() - z.min()) + 1e-6


GRAD = torch.tensor(1.0, requires_grad=True)


@pytest.mark.parametrize(
    ("build", "arguments", "error", "words"),
    [
        (EvenAsphereGeometry, (5.0, 0.0, 5.1), ValueError, ["aperture_radius", "5.1", "at most 5"]),
        (EvenAsphereGeometry, (math.nan, 0.0, 5.0), ValueError, ["radius", "nan"]),
        (EvenAsphereGeometry, (50.0, INF, 5.0), ValueError, ["conic", "inf"]),
        (EvenAsphereGeometry, (50.0, 0.0, 0.0), ValueError, ["aperture_radius", "> 0"]),
        (EvenAsphereGeometry, (50.0, 0.0, 5.0, {4: 1e-5}), TypeError, ["coefficients", "dict", "(a4, a6, ...)"]),
        (EvenAsphereGeometry, (50.0, 0.0, 5.0, 1e-5), TypeError, ["coefficients", "float"]),
        (EvenAsphereGeometry, (50.0, 0.0, 5.0, (1e-5, "b")), TypeError, ["coefficients[1]", "'b'"]),
        (EvenAsphereGeometry, (50.0, 0.0, 5.0, (0.0,) * 20), ValueError, ["coefficients", "20 numbers", "up to 40"]),
        (AsphereGeometry, (50.0, 0.0, 5.0, (1e-5,)), TypeError, ["coefficients", "tuple", "mapping"]),
        (AsphereGeometry, (50.0, 0.0, 5.0, {1: 0.1}), ValueError, ["coefficients' power", "1", ">= 2"]),
        (AsphereGeometry, (50.0, 0.0, 5.0, {2.5: 0.1}), ValueError, ["coefficients' power", "2.5"]),
        (AsphereGeometry, (50.0, 0.0, 5.0, {41: 0.1}), ValueError, ["coefficients' power", "41", "40"]),
        (AsphereGeometry, (50.0, 0.0, 5.0, {4: math.nan}), ValueError, ["coefficients[4]", "nan"]),
    ],
)
def test_bad_aspheres(build, arguments, error, words):
    with pytest.raises(error) as caught:
        build(*arguments)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("build", "arguments", "words"),
    [
        (BiconicGeometry, {"radius_x": 5.0, "radius_y": 50.0, "aperture_radius": 5.1}, ["radius_x 5", "at most 5"]),
        (BiconicGeometry, {"radius_x": 50.0, "radius_y": 5.0, "aperture_radius": 5.1}, ["radius_y 5", "at most 5"]),
        (BiconicGeometry, {"radius_x": 50.0, "radius_y": 5.0, "aperture_radius": -1.0}, ["aperture_radius", "> 0"]),
        (BiconicGeometry, {"radius_x": 50.0, "radius_y": math.nan, "aperture_radius": 1.0}, ["radius_y", "nan"]),
        (ToroidGeometry, {"radius_x": 50.0, "radius_y": 5.0, "aperture_radius": 5.1}, ["radius_y 5", "at most 5"]),
        (ToroidGeometry, {"radius_x": 5.0, "radius_y": 50.0, "aperture_radius": 5.1}, ["radius_x 5", "not reach"]),
        (ToroidGeometry, {"radius_x": 5.0, "radius_y": 5.0, "conic_y": INF, "aperture_radius": 1.0}, ["conic_y"]),
    ],
)
def test_bad_biconics_and_toroids(build, arguments, words):
    with pytest.raises(ValueError, match=r"got") as caught:
        build(**arguments)
    for word in words:
        assert word in str(caught.value)


def test_numbers_keep_their_objects_and_may_be_reassigned():
    shape = BiconicGeometry(GRAD, 30.0, aperture_radius=0.5)
    assert shape.numbers()[0] is GRAD
    shape.radius_y = 0.4
    with pytest.raises(ValueError, match=r"^aperture_radius got 0.5"):
        shape.validate()


# ---- meshes ----------------------------------------------------------------------------------------------------------

CORNERS = np.array([[x, y, z] for x in (0.0, 2.0) for y in (0.0, 2.0) for z in (0.0, 2.0)])
# a cube wound so that its normals point outwards
CUBE = np.array([
    [0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
    [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3],
])  # fmt: skip


def test_a_cube():
    mesh = MeshGeometry((CORNERS, CUBE))
    assert mesh.ROW == "mesh"
    assert mesh.vertices.dtype == D
    assert mesh.faces.dtype == np.int64
    assert mesh.triangles().shape == (12, 3, 3)
    assert mesh.triangles()[3].tolist() == CORNERS[CUBE[3]].tolist()
    assert mesh.is_watertight is True
    assert mesh.volume == pytest.approx(8.0)
    outwards = mesh.triangles().mean(dim=1) - 1.0
    normals = mesh.face_normals
    assert torch.linalg.vector_norm(normals, dim=1).numpy() == pytest.approx(np.ones(12))
    assert ((outwards * normals).sum(dim=1)).numpy() == pytest.approx(np.ones(12))
    assert MeshGeometry((CORNERS, CUBE[:, ::-1])).volume == pytest.approx(-8.0)
    assert repr(mesh) == "MeshGeometry(8 vertices, 12 triangles)"


def test_holes_and_turned_triangles_leak():
    assert MeshGeometry((CORNERS, CUBE[1:])).is_watertight is False
    turned = CUBE.copy()
    turned[4] = turned[4, ::-1]
    assert MeshGeometry((CORNERS, turned)).is_watertight is False
    assert MeshGeometry((CORNERS, np.concatenate([CUBE, CUBE[:1]]))).is_watertight is False


def test_corners_at_one_place_are_one():
    """Triangles with corners of their own, as STL files keep them."""
    soup = MeshGeometry((CORNERS[CUBE].reshape(-1, 3), np.arange(36).reshape(12, 3)))
    assert soup.is_watertight is True


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vertices_keep_their_object_and_get_gradients(dtype):
    vertices = torch.tensor(CORNERS, dtype=dtype, requires_grad=True)
    mesh = MeshGeometry((vertices, torch.tensor(CUBE)))
    assert mesh.vertices is vertices
    assert mesh.triangles().dtype == D
    (mesh.triangles().sum() + mesh.face_normals[0, 0]).backward()
    assert vertices.grad.dtype == dtype
    assert vertices.grad[0, 1].item() == pytest.approx(np.count_nonzero(CUBE == 0))


def test_normals_turn_with_the_vertices():
    vertices = torch.tensor(CORNERS, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: MeshGeometry((v, CUBE)).face_normals, (vertices,))


def test_a_vertex_changed_in_place_before_backward_raises():
    vertices = torch.tensor(CORNERS, requires_grad=True)
    total = MeshGeometry((vertices, CUBE)).triangles().sum()
    with torch.no_grad():
        vertices += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_objects_with_vertices_and_faces_are_meshes():
    mesh = SimpleNamespace(vertices=CORNERS, faces=CUBE.astype(np.uint32))
    made = MeshGeometry(mesh)
    assert made.mesh is mesh
    assert np.array_equal(made.faces, CUBE)
    made.mesh = (CORNERS * 2.0, CUBE)
    assert made.volume == pytest.approx(64.0)
    made.vertices = np.zeros((8, 3))
    with pytest.raises(ValueError, match=r"^faces got 12 triangles without area"):
        made.validate()


@pytest.mark.parametrize(
    ("mesh", "error", "words"),
    [
        (None, TypeError, ["mesh", "NoneType", "(vertices, faces)"]),
        ((CORNERS,), TypeError, ["mesh", "tuple"]),
        (("corners", CUBE), TypeError, ["vertices", "str"]),
        ((CORNERS[:, :2], CUBE), ValueError, ["vertices", "(8, 2)", "(V, 3)"]),
        ((torch.tensor(CORNERS).int(), CUBE), TypeError, ["vertices", "int32", "float64"]),
        ((np.where(CORNERS == 2.0, np.nan, CORNERS), CUBE), ValueError, ["vertices", "nan", "at 1", "finite"]),
        ((CORNERS, CUBE.astype(float)), TypeError, ["faces", "float64", "integers"]),
        ((CORNERS, CUBE.ravel()), ValueError, ["faces", "(36,)", "(F, 3)"]),
        ((CORNERS, CUBE[:0]), ValueError, ["faces", "(0, 3)", "at least one"]),
        ((CORNERS, CUBE + 1), ValueError, ["faces", "[5, 7, 8] at 2", "from 0 to 7"]),
        ((CORNERS, CUBE - 1), ValueError, ["faces", "[-1, 0, 2] at 0", "from 0 to 7"]),
        ((CORNERS, [[0, 1, 3], [2, 2, 5]]), ValueError, ["faces", "1 triangles without area", "[2, 2, 5] at 1"]),
        ((CORNERS * [1, 1, 0], [[0, 4, 6], [0, 1, 4]]), ValueError, ["faces", "[0, 1, 4] at 1"]),
    ],
)
def test_bad_meshes(mesh, error, words):
    with pytest.raises(error) as caught:
        MeshGeometry(mesh)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("ending", ["stl", "obj", "ply"])
def test_files(tmp_path, ending):
    import trimesh

    path = tmp_path / f"cube.{ending}"
    trimesh.Trimesh(CORNERS, CUBE, process=False).export(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        mesh = MeshGeometry.load(path)
        larger = MeshGeometry.load(str(path), scale=10.0)
    assert len(mesh.vertices) == 8
    assert mesh.is_watertight
    assert mesh.volume == pytest.approx(8.0)
    assert larger.volume == pytest.approx(8000.0)
    assert MeshGeometry(trimesh.load_mesh(path)).volume == pytest.approx(8.0)


def test_triangles_without_area_are_left_out_of_a_file(tmp_path):
    path = tmp_path / "sliver.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 2 0 0\nf 1 2 3\nf 1 2 4\n")
    with pytest.warns(UserWarning, match="1 triangles without area left out"):
        assert len(MeshGeometry.load(path).faces) == 1


def test_files_that_are_no_meshes(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"^path got .*none.stl"):
        MeshGeometry.load(tmp_path / "none.stl")
    path = tmp_path / "points.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\n")
    with pytest.raises(ValueError, match=r"^path got .*points.obj', which holds no triangles"):
        MeshGeometry.load(path)
    monkeypatch.setitem(sys.modules, "trimesh", None)
    with pytest.raises(ImportError, match=r"pip install 'nsq\[mesh\]'"):
        MeshGeometry.load(path)
