"""`check_gradients`: its verdicts on composed scenes, with visibility and without, and what it refuses."""

import math

import numpy as np
import pytest
import torch

import nsq

from . import visibility_scenes as at
from .scenes import GREEN

CS = nsq.CoordinateSystem
STILL = nsq.SamplingPolicy(reflect_prob=0.3, rr_start_flux=0.0)


def number(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def flux(result):
    return result.detectors["D"].total_flux


def relay(v):
    """Two lenses with a field stop between them, which a tilted beam meets off its centre."""
    scene = nsq.NSQScene()
    scene.sampling_policy = STILL
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=4.0)
    scene.add_source("S", CS(z=-10.0, ry=0.02), beam)
    glass = nsq.NSQMaterial.constant(1.5)
    lens = nsq.LensConfig(60.0, -60.0, 3.0, glass, front_aperture_radius=6.0)
    scene.add_lens("L1", CS(), lens)
    stop = nsq.AnnularPlaneGeometry(v["stop"], 20.0)
    scene.add_component("stop", nsq.AbsorbingComponent(CS(x=v["shift"], z=35.0), stop))
    scene.add_lens("L2", CS(z=80.0), lens)
    scene.add_detector("D", CS(z=120.0), nsq.IrradianceDetectorConfig(12.0, 12.0, num_pixels_x=12, num_pixels_y=12))
    return scene


def luminaire(v):
    """A point source in a parabolic reflector with a rim, seen through a round port beside its axis."""
    scene = nsq.NSQScene()
    source = nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=70.0)
    scene.add_source("S", CS(z=-5.0, rx=0.15), source)
    scene.add_mirror("M", CS(), nsq.MirrorConfig(-10.0, 0.9, conic=-1.0, aperture_radius=v["rim"]))
    frame = nsq.AnnularPlaneGeometry(v["port"], 60.0)
    scene.add_component("port", nsq.AbsorbingComponent(CS(x=2.0, z=-30.0), frame))
    scene.add_detector("D", CS(z=-60.0), nsq.IrradianceDetectorConfig(50.0, 50.0, num_pixels_x=8, num_pixels_y=8))
    return scene


def chipped(v):
    """A square light pipe of which a plate covers part of the end, met after reflections at its sides."""
    scene = nsq.NSQScene()
    source = nsq.PointSourceConfig(spectrum=GREEN, half_angle_deg=25.0)
    scene.add_source("S", CS(z=-0.5), source)
    for k in range(4):
        sign = 1.0 - 2.0 * (k // 2)
        if k % 2:
            cs, side = CS(x=sign, z=6.0, ry=0.5 * math.pi), nsq.FinitePlaneGeometry(12.0, 2.0)
        else:
            cs, side = CS(y=sign, z=6.0, rx=0.5 * math.pi), nsq.FinitePlaneGeometry(2.0, 12.0)
        scene.add_component(f"side{k}", nsq.ReflectiveComponent(cs, side, 0.95))
    chip = nsq.FinitePlaneGeometry(4.0, 4.0)
    scene.add_component("chip", nsq.AbsorbingComponent(CS(x=v["chip"] + 2.0, z=12.01, rz=v["turn"]), chip))
    scene.add_detector("D", CS(z=14.0), nsq.IrradianceDetectorConfig(12.0, 12.0, num_pixels_x=8, num_pixels_y=8))
    return scene


def hexagon(v):
    """A mirror of six triangles, whose corners lie inside the beam; the detector takes half of what it reflects."""
    ring = [[math.cos(k * math.pi / 3.0), math.sin(k * math.pi / 3.0), -0.004] for k in range(6)]
    vertices = v["size"] * torch.tensor([[0.0, 0.0, 0.0], *ring], dtype=torch.float64)
    faces = np.array([[0, k + 1, (k + 1) % 6 + 1] for k in range(6)])
    scene = nsq.NSQScene()
    scene.add_source("S", CS(z=-20.0), nsq.CollimatedSourceConfig(spectrum=GREEN, aperture_radius=2.0))
    mirror = nsq.MeshGeometry((vertices, faces))
    scene.add_component("M", nsq.ReflectiveComponent(CS(rx=0.32), mirror, 0.9))
    scene.add_detector("D", CS(z=-22.0, y=12.0), nsq.IrradianceDetectorConfig(16.0, 9.0, 8, 8))
    return scene


SCENES = {
    "relay": ({"stop": 1.3, "shift": 0.0}, relay, {"stop": 0.03, "shift": 0.05}),
    "luminaire": ({"rim": 4.5, "port": 3.0}, luminaire, {"rim": 0.1, "port": 0.1}),
    "light pipe": ({"chip": -0.3, "turn": 0.2}, chipped, {"chip": 0.03, "turn": 0.05}),
    "hexagon": ({"size": 1.4}, hexagon, {"size": 0.03}),
}


def check(name, num_rays=150_000, num_seeds=6, **options):
    values, build, step = SCENES[name]
    params = {key: number(value) for key, value in values.items()}
    return nsq.check_gradients(
        lambda: build(params), params, flux, num_rays=num_rays, num_seeds=num_seeds, step=step, **options
    )


@pytest.mark.parametrize("name", SCENES)
def test_composed_scenes(name):
    """Within three standard errors, of which each is below 5 % of the largest value; and off, it fails."""
    found = check(name)
    largest = max(abs(row.difference) for row in found.rows)
    assert found.agrees, str(found)
    assert all(row.standard_error < 0.05 * largest for row in found.rows), str(found)
    off = check(name, num_rays=40_000, visibility="off")
    assert not off.agrees, str(off)


def test_a_wrong_gradient_differs_and_a_noisy_one_is_called_so():
    """A stop of radius a: half the gradient differs from the difference; a handful of rays cannot tell."""
    a = number(1.2)
    scene = at.obstacle(nsq.AnnularPlaneGeometry(a, 9.0))

    def halved(result):
        total = flux(result)
        return 0.5 * total + 0.5 * total.detach()

    right = nsq.check_gradients(scene, {"a": a}, flux, num_rays=50_000, step=0.05)
    assert right.agrees, str(right)
    assert right.rows[0].gradient == pytest.approx(2.4 * math.pi * at.E, rel=0.03)
    assert nsq.check_gradients(scene, {"a": a}, halved, num_rays=50_000, step=0.05).rows[0].verdict == "differs"
    few = nsq.check_gradients(scene, {"a": a}, flux, num_rays=40, num_seeds=4, step=0.001)
    assert few.rows[0].verdict == "too noisy to tell"
    assert not few.agrees
    # parameters stand where they stood, and the table says what was found
    assert a.item() == 1.2
    assert "gradient" in str(right)
    assert "agrees" in str(right)


def test_a_tensor_of_several_numbers_is_checked_along_a_direction():
    vertices = torch.tensor([[-1.0, -0.8, 0.0], [1.1, -0.9, 0.1], [0.1, 1.2, 0.05]], dtype=torch.float64)
    vertices.requires_grad_()
    scene = at.obstacle(nsq.MeshGeometry((vertices, np.array([[0, 1, 2]]))))
    found = nsq.check_gradients(scene, {"corners": vertices}, flux, num_rays=100_000, num_seeds=4, step=0.05)
    assert found.rows[0].name == "corners, in a direction"
    assert found.agrees, str(found)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"scene": 3}, TypeError, "scene got int"),
        ({"params": {}}, TypeError, "params got"),
        ({"params": {"a": 1.0}}, TypeError, r"params\['a'\] got 1.0"),
        ({"params": {"a": torch.tensor(1.0)}}, ValueError, r"params\['a'\] got a tensor that is no leaf"),
        ({"loss": lambda result: 1.0}, TypeError, "loss got float"),
        ({"num_seeds": 1}, ValueError, "num_seeds got 1"),
        ({"seed": 1}, ValueError, "seed got a value"),
        ({"step": {"b": 0.1}}, ValueError, "step got no entry 'a'"),
        ({"step": -1.0}, ValueError, "step of 'a' got -1"),
    ],
)
def test_bad_arguments_are_named(changes, error, message):
    a = number(1.2)
    arguments = {"scene": at.obstacle(nsq.AnnularPlaneGeometry(a, 9.0)), "params": {"a": a}, "loss": flux,
                 "num_rays": 100, "num_seeds": 2, **changes}  # fmt: skip
    with pytest.raises(error, match=message):
        nsq.check_gradients(arguments.pop("scene"), arguments.pop("params"), arguments.pop("loss"), **arguments)
