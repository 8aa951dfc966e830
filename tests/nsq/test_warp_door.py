"""The trace as a step on a ``wp.Tape``: against torch, against finite differences, and what it refuses."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import warp as wp

import nsq
import nsq.warp

from . import scenes

ROOT = Path(__file__).parents[2]
RAYS = 2000


@wp.kernel
def scale(x: wp.array(dtype=wp.float64), by: wp.float64, out: wp.array(dtype=wp.float64)):
    i = wp.tid()
    out[i] = by * x[i]


@wp.kernel
def weigh(image: wp.array(dtype=wp.float64), weights: wp.array(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    i = wp.tid()
    wp.atomic_add(loss, 0, weights[i] * image[i] * image[i])


def faces_of(scene):
    return [surface.geometry for surface in scene.surfaces[:2]]


def weights_of(size):
    return np.random.default_rng(3).random(size)


def on_tape(door, values, name="radii", backward=1):
    """Loss of the singlet's map, gradient at what the radii are made from, and the tape."""
    source = wp.array(values, dtype=wp.float64, requires_grad=True)
    made = wp.zeros(len(values), dtype=wp.float64, requires_grad=True)
    loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scale, dim=len(values), inputs=[source, wp.float64(2.0)], outputs=[made])
        readings = door.trace({name: made}, RAYS, min_flux_fraction=0.0, seed=5)
        flat = readings.maps["D"].flatten()
        wp.launch(weigh, dim=flat.size, inputs=[flat, wp.array(weights_of(flat.size))], outputs=[loss])
    for _ in range(backward):
        tape.backward(loss)
    return float(loss.numpy()[0]), source.grad.numpy(), tape, readings


def test_the_tape_reaches_through_the_trace_what_torch_finds_there():
    scene = scenes.singlet()
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.1, rr_start_flux=0.0)
    door = nsq.warp.prepare(scene, {"radii": [(geometry, "radius") for geometry in faces_of(scene)]})
    loss, gradient, tape, readings = on_tape(door, [25.0, -40.0])
    assert len(tape.launches) == 3  # two kernels and one trace

    leaves = [torch.tensor(r, dtype=torch.float64, requires_grad=True) for r in (50.0, -80.0)]
    for geometry, leaf in zip(faces_of(scene), leaves, strict=True):
        geometry.radius = leaf
    film = scene.trace(RAYS, min_flux_fraction=0.0, seed=5).detectors["D"]
    expected = (torch.tensor(weights_of(film.data.numel())) * film.data**2).sum()
    expected.backward()
    assert np.array_equal(readings.maps["D"].numpy().ravel(), film.data.detach().numpy())
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    assert gradient == pytest.approx([2.0 * leaf.grad.item() for leaf in leaves], rel=1e-10)


def test_the_scene_is_as_it_was():
    scene = scenes.singlet()
    front, _ = faces_of(scene)
    door = nsq.warp.prepare(scene, {"r": (front, "radius")})
    before = front.radius
    door.trace({"r": wp.array([70.0], dtype=wp.float64)}, 100)
    assert front.radius is before
    with pytest.raises(ValueError, match="num_rays"):
        door.trace({"r": wp.array([70.0], dtype=wp.float64)}, 0)
    assert front.radius is before


def test_two_backward_passes_add_and_zero_clears():
    scene = scenes.singlet()
    door = nsq.warp.prepare(scene, {"radii": (faces_of(scene)[0], "radius")})
    made = wp.array([60.0], dtype=wp.float64, requires_grad=True)
    with wp.Tape() as tape:
        total = door.trace({"radii": made}, RAYS, seed=5).total_flux["D"]
    tape.backward(total)
    once = made.grad.numpy().copy()
    assert once[0] != 0.0
    tape.backward(total)
    assert np.array_equal(made.grad.numpy(), 2.0 * once)
    tape.zero()
    assert made.grad.numpy()[0] == 0.0
    tape.backward(total)
    assert np.array_equal(made.grad.numpy(), once)


def test_values_are_those_of_the_call():
    """An array that is written again after the trace does not change what the backward pass replays."""
    scene = scenes.singlet()
    door = nsq.warp.prepare(scene, {"r": (faces_of(scene)[0], "radius")})
    gradients = []
    for later in (60.0, 300.0):
        made = wp.array([60.0], dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            total = door.trace({"r": made}, RAYS, seed=5).total_flux["D"]
        made.fill_(later)
        tape.backward(total)
        gradients.append(made.grad.numpy()[0])
    assert gradients[0] == gradients[1]


def test_without_a_tape_or_a_gradient_nothing_is_recorded():
    scene = scenes.singlet()
    door = nsq.warp.prepare(scene, {"r": (faces_of(scene)[0], "radius")})
    plain = door.trace({"r": wp.array([60.0], dtype=wp.float32, requires_grad=True)}, RAYS, seed=5)
    assert not plain.maps["D"].requires_grad
    with wp.Tape() as tape:
        constant = door.trace({"r": wp.array([60.0], dtype=wp.float32)}, RAYS, seed=5)
    assert not tape.launches
    assert not constant.maps["D"].requires_grad
    assert np.array_equal(plain.maps["D"].numpy(), constant.maps["D"].numpy())


def test_every_kind_of_detector_has_its_arrays():
    """Flux of a source scales every reading: d(total) / d(flux) is the total of one watt."""
    scene = nsq.NSQScene()
    source = nsq.PointSourceConfig(spectrum=scenes.FDC, half_angle_deg=20.0)
    scene.add_source("S", nsq.CoordinateSystem(), source)
    plate = {"width": 20.0, "height": 10.0}
    pixels = {"num_pixels_x": 8, "num_pixels_y": 4, "absorb": False}
    at = nsq.CoordinateSystem
    scene.add_detector("map", at(z=1.0), nsq.IrradianceDetectorConfig(**plate, **pixels))
    scene.add_detector("lines", at(z=2.0), nsq.SpectralDetectorConfig(**plate, **pixels, num_bins=3))
    scene.add_detector("rays", at(z=3.0), nsq.RayDatabaseConfig(**plate, absorb=False))
    scene.add_detector("far", at(z=4.0), nsq.FarFieldDetectorConfig(num_theta=9, num_phi=12, splat="bilinear"))
    door = nsq.warp.prepare(scene, {"flux": (scene.sources[0], "total_flux")})
    for name in scene.detector_names:
        flux = wp.array([3.0], dtype=wp.float64, requires_grad=True)
        with wp.Tape() as tape:
            readings = door.trace({"flux": flux}, 500)
        assert {k: v.shape for k, v in readings.maps.items()} == {"map": (4, 8), "lines": (3, 4, 8), "far": (9, 12)}
        assert readings.rays["rays"]["path_length"].shape == (500,)
        assert readings.total_flux[name].numpy() == pytest.approx([3.0])
        parts = readings.rays["rays"]["flux"] if name == "rays" else readings.maps[name]
        assert parts.numpy().sum() == pytest.approx(3.0)
        tape.backward(grads={parts: wp.full(parts.shape, 1.0, dtype=wp.float64)})
        assert flux.grad.numpy() == pytest.approx([1.0])
    assert readings.result.total_flux_in == pytest.approx(3.0)


def plate_of_triangles():
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=scenes.GREEN, aperture_radius=2.0)
    scene.add_source("S", nsq.CoordinateSystem(z=-5.0), beam)
    corners = [[-3.0, -3.0, 0.0], [3.0, -3.0, 0.2], [3.0, 3.0, 0.1], [-3.0, 3.0, -0.3], [0.0, 0.0, 0.4]]
    mesh = nsq.MeshGeometry((corners, [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]))
    glass = nsq.NSQMaterial.constant(1.5)
    scene.add_component("W", nsq.RefractiveComponent(nsq.CoordinateSystem(), mesh, nsq.VACUUM, glass))
    scene.add_detector("D", nsq.CoordinateSystem(z=20.0), nsq.RayDatabaseConfig(width=60.0, height=60.0))
    scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=0.1, rr_start_flux=0.0)
    return scene, mesh, np.array(corners)


@pytest.mark.parametrize(("dtype", "tolerance"), [(wp.vec3d, 1e-7), (wp.vec3, 1e-5), (wp.float64, 1e-7)])
def test_vertices_of_any_dtype_against_finite_differences(dtype, tolerance):
    """Heights of the corners move no ray to another triangle: the beam runs along them."""
    scene, mesh, corners = plate_of_triangles()
    door = nsq.warp.prepare(scene, {"water": (mesh, "vertices")})
    direction = np.random.default_rng(2).normal(size=corners.shape) * [0.0, 0.0, 1.0]

    def rays_of(vertices):
        return door.trace({"water": vertices}, 400, min_flux_fraction=0.0, seed=2).rays["D"]["x"]

    vertices = wp.array(corners, dtype=dtype, requires_grad=True)
    with wp.Tape() as tape:
        column = rays_of(vertices)
    weights = weights_of(column.size)
    tape.backward(grads={column: wp.array(weights, dtype=wp.float64)})
    ends = [rays_of(wp.array(corners + s * direction, dtype=wp.vec3d)).numpy() @ weights for s in (1e-5, -1e-5)]
    assert np.sum(vertices.grad.numpy() * direction) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=tolerance)


def test_what_is_wrong_is_named():
    scene = scenes.singlet()
    front, _ = faces_of(scene)
    mesh = nsq.MeshGeometry(([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0, 1, 2]]))
    one = wp.array([60.0], dtype=wp.float64)
    with pytest.raises(TypeError, match="scene got str"):
        nsq.warp.prepare("scene", {})
    with pytest.raises(TypeError, match="parameters got list"):
        nsq.warp.prepare(scene, [])
    with pytest.raises(TypeError, match="'r' got 'radius'"):
        nsq.warp.prepare(scene, {"r": "radius"})
    with pytest.raises(AttributeError, match="no attribute 'radiu'. Did you mean 'radius'"):
        nsq.warp.prepare(scene, {"r": (front, "radiu")})
    with pytest.raises(ValueError, match="empty list"):
        nsq.warp.prepare(scene, {"r": []})
    with pytest.raises(ValueError, match="precision"):
        nsq.warp.prepare(scene, {}, precision="float16")
    door = nsq.warp.prepare(scene, {"radius": (front, "radius"), "mesh": (mesh, "vertices")})
    vertices = wp.zeros(3, dtype=wp.vec3)
    with pytest.raises(KeyError, match="Did you mean 'radius'"):
        door.trace({"radus": one, "mesh": vertices}, 10)
    with pytest.raises(KeyError, match=r"lack the parameters \['mesh'\]"):
        door.trace({"radius": one}, 10)
    with pytest.raises(TypeError, match="'radius' got ndarray"):
        door.trace({"radius": np.ones(1), "mesh": vertices}, 10)
    with pytest.raises(TypeError, match="'radius' got dtype int32"):
        door.trace({"radius": wp.array([6], dtype=wp.int32), "mesh": vertices}, 10)
    with pytest.raises(ValueError, match=r"'radius' got shape \(2,\); it takes \(1,\)"):
        door.trace({"radius": wp.zeros(2, dtype=float), "mesh": vertices}, 10)
    with pytest.raises(ValueError, match=r"'mesh' got shape \(2, 3\); it takes \(3, 3\)"):
        door.trace({"radius": one, "mesh": wp.zeros(2, dtype=wp.vec3)}, 10)
    with pytest.raises(ValueError, match="nan"):
        door.trace({"radius": wp.full(1, np.nan, dtype=float), "mesh": vertices}, 10)


def test_a_parameter_that_is_not_differentiated_raises():
    """A number that the scene does not read gives no silent zero."""
    scene = scenes.singlet()
    made = wp.array([60.0], dtype=wp.float64, requires_grad=True)
    door = nsq.warp.prepare(scene, {"spare": (nsq.ConicGeometry(50.0, 0.0, 5.0), "radius")})
    with wp.Tape(), pytest.raises(RuntimeError, match="'spare' requires a gradient"):
        door.trace({"spare": made}, 100)


def load_example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_pool_finds_its_first_state_and_its_gradient_is_that_of_differences(tmp_path, monkeypatch):
    pool = load_example("warp_pool")
    assert "torch" not in vars(pool)
    door, rng = pool.pool(), np.random.default_rng(1)
    target, _ = pool.look(door, wp.array(0.8 * rng.normal(size=9), dtype=float), 5000, seed=1)
    start, direction = 0.1 * rng.normal(size=9), rng.normal(size=9)
    exact = float(pool.evaluate(door, start, target, 5000)[1].numpy() @ direction)
    high, low = (pool.evaluate(door, start + s * 1e-4 * direction, target, 5000)[0] for s in (1.0, -1.0))
    assert exact == pytest.approx((high - low) / 2e-4, rel=1e-3)

    monkeypatch.setattr(sys, "argv", ["warp_pool", "--rays", "5000", "--out", str(tmp_path / "a" / "pool.png")])
    assert pool.main() == 0
    assert (tmp_path / "a" / "pool.png").read_bytes().startswith(b"\x89PNG")


def test_particles_spread_by_the_forces_of_their_neighbours(tmp_path, monkeypatch):
    particles = load_example("warp_particles")
    monkeypatch.setattr(sys, "argv", ["warp_particles", "--points", "1000", "--out", str(tmp_path / "p.png")])
    assert particles.main() == 0
    assert (tmp_path / "p.png").exists()
