"""A detector that lies on something else reads nothing, and a warning says so."""

import time
import warnings

import numpy as np
import pytest

import nsq
from nsq.coordinates import lower_frames
from nsq.geometries_mesh import MeshGeometry
from nsq.geometries_sag import AsphereGeometry
from nsq.lower import lower

from .test_pixels_on_shapes import box
from .validation.tools import CS, glass, pencil

FRAME = CS(x=3.0, y=-2.0, z=50.0, rx=0.4, ry=-0.7, rz=1.1)


def scene_of(*parts, frame=FRAME):
    """A pencil along z, the parts (name, cs, geometry) as surfaces, those named D... as taps, and a detector behind."""
    scene = nsq.NSQScene()
    pencil(scene, "S", (0.5, 0.3, -40.0), (0.0, 0.0, 1.0), frame=frame)
    for name, cs, geometry in parts:
        cs.reference_cs = frame
        if name.startswith("D"):
            detector = nsq.detectors.RayDatabaseDetector(cs, geometry, name=name, absorb=False)
            scene.detector_registry.add(name, detector)
        else:
            scene.add_component(name, nsq.RefractiveComponent(cs, geometry, nsq.VACUUM, glass(1.2), name=name))
    end = nsq.detectors.RayDatabaseDetector(CS(z=90.0, reference_cs=frame), nsq.FinitePlaneGeometry(400.0, 400.0))
    scene.detector_registry.add("end", end)
    return scene


def named(scene):
    """(detector, what covers it) of every warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lower(scene, 10)
    words = [str(w.message).split("'") for w in caught if "lies on" in str(w.message) and "detector" in str(w.message)]
    return [(w[1], w[3]) for w in words]


PLATE, BALL, CONE = nsq.FinitePlaneGeometry, nsq.SphereGeometry, nsq.CylindricalFrustumGeometry
ASPHERE = AsphereGeometry(30.0, 0.0, 6.0, {4: 1e-4})
HIDDEN = {
    "plane": (PLATE(8.0, 6.0), CS(), PLATE(aperture_radius=3.0), CS()),
    "turned": (PLATE(8.0, 6.0), CS(x=1.0, rz=0.7), PLATE(5.0, 5.0), CS(rx=np.pi)),
    "small face": (PLATE(2000.0, 2000.0), CS(), PLATE(aperture_radius=0.1), CS(x=0.52, y=0.31)),
    "infinite": (nsq.PlaneGeometry(), CS(), PLATE(2.0, 2.0), CS(x=700.0)),
    "infinite face": (PLATE(2.0, 2.0), CS(x=700.0), nsq.PlaneGeometry(), CS(x=3.0, rz=0.3)),
    "ring": (nsq.AnnularPlaneGeometry(1.0, 3.0, 2.0), CS(), PLATE(9.0, 9.0), CS(z=2.0)),
    "sphere": (BALL(5.0), CS(), BALL(5.0), CS()),
    "cap of a sphere": (nsq.ConicGeometry(5.0, 0.0, 2.0), CS(z=-5.0), BALL(5.0), CS()),
    "flat conic": (nsq.ConicGeometry(0.0, 0.0, 4.0), CS(), PLATE(3.0, 3.0), CS()),
    "cone": (CONE(2.0, 4.0, 0.0, 4.0), CS(), CONE(3.0, 5.0, 2.0, 6.0), CS(rz=1.0)),
    "mesh on a mesh": (MeshGeometry(box()), CS(), MeshGeometry(box((2.0, 3.0, 5.0))), CS()),
    "plane on a mesh": (PLATE(2.0, 2.0), CS(z=4.0), MeshGeometry(box()), CS()),
    "mesh on a plane": (MeshGeometry(box()), CS(), PLATE(20.0, 20.0), CS(z=-4.0)),
    "asphere": (AsphereGeometry(30.0, 0.0, 4.0, {4: 1e-4}), CS(), ASPHERE, CS()),
}  # fmt: skip
SEEN = {
    "a micrometre before": (PLATE(8.0, 6.0), CS(z=-1e-3), PLATE(8.0, 6.0), CS()),
    "side by side": (PLATE(8.0, 6.0), CS(), PLATE(8.0, 6.0), CS(x=8.0)),
    "inside a ring": (PLATE(aperture_radius=1.0), CS(), nsq.AnnularPlaneGeometry(1.0, 3.0), CS()),
    "crossing": (PLATE(8.0, 6.0), CS(), PLATE(8.0, 6.0), CS(rx=0.3)),
    "touching": (BALL(5.0), CS(), PLATE(9.0, 9.0), CS(z=-5.0)),
    "inner ball": (BALL(5.0 * (1.0 - 1e-6)), CS(), BALL(5.0), CS()),
    "other cap": (nsq.ConicGeometry(5.0, 0.0, 2.0), CS(z=-5.0), nsq.ConicGeometry(-5.0, 0.0, 2.0), CS(z=5.0)),
    "along a cone": (CONE(2.0, 3.0, 0.0, 2.0), CS(), CONE(3.0, 5.0, 2.0, 6.0), CS()),
    "beside a mesh": (PLATE(2.0, 2.0), CS(x=9.0, z=4.0), MeshGeometry(box()), CS()),
    "other asphere": (AsphereGeometry(30.0, 0.0, 4.0, {4: 2e-4}), CS(), ASPHERE, CS()),
}  # fmt: skip


@pytest.mark.parametrize("case", HIDDEN)
def test_a_detector_on_a_face_is_named(case):
    shape, cs, face, at = HIDDEN[case]
    for frame in (CS(), FRAME):
        assert named(scene_of(("face", at, face), ("D", cs, shape), frame=frame)) == [("D", "face")]
    # and one on another detector, which was registered before it
    scene = scene_of(("D0", at, face), ("D1", cs, shape))
    assert named(scene) == [("D1", "D0")]


@pytest.mark.parametrize("case", SEEN)
def test_a_detector_beside_a_face_is_not(case):
    shape, cs, face, at = SEEN[case]
    for frame in (CS(), FRAME):
        assert named(scene_of(("face", at, face), ("D", cs, shape), frame=frame)) == []


def test_what_is_covered_reads_nothing_and_a_micrometre_off_it_reads():
    """The rule that the warning states, for a lens's face and for two taps."""
    for offset, hits in ((0.0, 0), (-1e-3, 10), (1e-3, 10)):
        scene = scene_of(("face", CS(), PLATE(8.0, 8.0)), ("D", CS(z=offset), PLATE(8.0, 8.0)))
        scene.sampling_policy = nsq.SamplingPolicy(reflect_prob=1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if not offset else "error")
            result = scene.trace(10)
        assert result.detectors["D"].num_rays_hit == hits
        assert result.surfaces["face"].num_hits == 10
        assert result.detectors["end"].num_rays_hit == 10
    pair = scene_of(("D0", CS(), PLATE(8.0, 8.0)), ("D1", CS(), PLATE(8.0, 8.0)))
    with pytest.warns(UserWarning, match="detector 'D1' lies on detector 'D0', which light meets first"):
        result = pair.trace(10)
    assert [result.detectors[n].num_rays_hit for n in ("D0", "D1", "end")] == [10, 0, 10]


class Bowl(nsq.geometries.Geometry):
    """A shape of a user's own, here a sphere's quadric."""

    quadric = staticmethod(BALL.quadric)

    def numbers(self):
        return (5.0, np.inf)


def test_shapes_of_users_are_left_alone():
    assert named(scene_of(("face", CS(), Bowl()), ("D", CS(), Bowl()))) == []
    # a known detector lies on whatever a user's shape is, as far as the quadric and the limits say
    assert named(scene_of(("face", CS(), Bowl()), ("D", CS(), BALL(5.0)))) == [("D", "face")]


def test_the_look_at_a_scene_is_quick():
    """A thousand balls and a mesh of twenty thousand triangles take a few hundredths of a second."""
    import torch

    from nsq.lowering import hidden

    scene = scene_of(("D", CS(), PLATE(8.0, 8.0)))
    for i in range(1000):
        ball = nsq.RefractiveComponent(CS(x=float(i), z=9.0), BALL(0.4), nsq.VACUUM, glass(1.2), name=f"{i}")
        scene.add_component(f"{i}", ball)
    u, v = np.meshgrid(np.linspace(0.0, 9.0, 101), np.linspace(0.0, 9.0, 101), indexing="ij")
    corner = np.arange(101 * 101).reshape(101, 101)
    a, b, c, d = corner[:-1, :-1].ravel(), corner[1:, :-1].ravel(), corner[1:, 1:].ravel(), corner[:-1, 1:].ravel()
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    mesh = MeshGeometry((np.stack([u, v, 0.1 * u * v], -1).reshape(-1, 3), faces))
    scene.add_component("mesh", nsq.RefractiveComponent(CS(), mesh, nsq.VACUUM, glass(1.2), name="mesh"))
    ir = lower(scene, 10)
    items = [*scene.surfaces, *scene.detectors]
    turn, place = lower_frames([item.cs for item in items])
    start = time.process_time()
    with torch.no_grad():
        hidden.warn_of_hidden_detectors(items, len(scene.surfaces), ir.geometry, turn, place)
    assert time.process_time() - start < 1.0
