"""Closed solids and where they leak."""

import math

import numpy as np
import pytest
import torch

import nsq
from nsq.geometries_mesh import MeshGeometry
from nsq.geometries_sag import EvenAsphereGeometry

from .generated_scenes import generated

HERE = nsq.CoordinateSystem()
TILTED = nsq.CoordinateSystem(x=3.0, y=-2.0, z=50.0, rx=0.3, ry=-0.2, rz=1.0)
GLASS = nsq.NSQMaterial.constant(1.5)


def face(geometry, cs=HERE, name="S"):
    return nsq.RefractiveComponent(cs, geometry, nsq.VACUUM, GLASS, name=name)


def lens(cs=TILTED, **changes):
    shape = {"r1": 50.0, "r2": -60.0, "thickness": 6.0, "material": GLASS, "front_aperture_radius": 10.0}
    return nsq.Lens("L", cs, nsq.LensConfig(**{**shape, **changes}))


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 3),
        ({"back_aperture_radius": 8.0}, 4),
        ({"back_aperture_radius": 12.0}, 4),
        ({"r1": math.inf, "r2": 0.0}, 3),
        ({"r1": -50.0, "r2": 60.0}, 3),
        ({"r1": 12.0, "r2": 11.0, "thickness": 1.0, "front_aperture_radius": 9.5}, 3),  # the mean rim lies in the air
        ({"r1": 12.0, "r2": 14.0, "conic1": -2.0, "conic2": -0.5}, 3),
        ({"r1": 50.0, "r2": 40.0, "thickness": 2.0, "back_aperture_radius": 5.0}, 4),
    ],
)
def test_a_lens_is_closed(changes, count):
    volume = lens(**changes).volume
    assert volume.name == "L"
    assert len(volume.boundary) == count
    assert volume.interior is GLASS


def test_a_doublet_is_two_solids_that_share_a_surface():
    config = nsq.DoubletConfig(60.0, -45.0, -130.0, 6.0, 2.5, "N-BK7", "N-SF5", aperture_radius=9.0)
    crown, flint = nsq.Doublet("N", TILTED, config).volumes
    assert (crown.name, flint.name) == ("N.crown", "N.flint")
    assert [s.name for s in crown.boundary] == ["N.front", "N.cemented", "N.edge_crown"]
    assert [s.name for s in flint.boundary] == ["N.cemented", "N.back", "N.edge_flint"]
    assert crown.boundary[1] is flint.boundary[0]
    assert (crown.interior.name, flint.interior.name) == ("N-BK7", "N-SF5")
    together = nsq.Volume.union(crown, flint)
    assert [s.name for s in together] == ["N.front", "N.cemented", "N.edge_crown", "N.back", "N.edge_flint"]


def box(cs, size=4.0, leave_out=()):
    """A cube of rectangles."""
    half, quarter = size / 2.0, math.pi / 2.0
    poses = [
        {"z": half},
        {"z": -half, "rx": math.pi},
        {"x": half, "ry": quarter},
        {"x": -half, "ry": -quarter},
        {"y": half, "rx": -quarter},
        {"y": -half, "rx": quarter},
    ]
    square = nsq.FinitePlaneGeometry(size, size)
    return [
        face(square, nsq.CoordinateSystem(**pose, reference_cs=cs), name=f"side {i}")
        for i, pose in enumerate(poses)
        if i not in leave_out
    ]


def test_a_box_of_rectangles_is_closed():
    assert len(nsq.Volume("box", box(TILTED), GLASS).boundary) == 6
    with pytest.raises(nsq.NonWatertightVolumeError, match=r"box.*not watertight.*side") as caught:
        nsq.Volume("box", box(TILTED, leave_out=(4,)), GLASS)
    assert caught.value.place.shape == (3,)


def test_a_ball_a_rod_and_a_cone_are_closed():
    ball = nsq.Volume("ball", [face(nsq.SphereGeometry(5.0), TILTED)], GLASS)
    assert len(ball.boundary) == 1
    disks = [nsq.FinitePlaneGeometry(aperture_radius=2.0)] * 2
    ends = [
        face(disk, nsq.CoordinateSystem(z=z, reference_cs=TILTED)) for disk, z in zip(disks, (0.0, 9.0), strict=True)
    ]
    rod = [face(nsq.CylindricalFrustumGeometry(2.0, 2.0, 0.0, 9.0), TILTED), *ends]
    assert len(nsq.Volume("rod", rod, GLASS).boundary) == 3
    cone = [face(nsq.CylindricalFrustumGeometry(2.0, 0.0, 0.0, 9.0), TILTED), ends[0]]
    assert len(nsq.Volume("cone", cone, GLASS).boundary) == 2


def test_a_tube_is_closed_by_its_rings():
    walls = [face(nsq.CylindricalFrustumGeometry(r, r, 0.0, 5.0), HERE, f"wall {r}") for r in (2.0, 3.0)]
    rings = [face(nsq.AnnularPlaneGeometry(2.0, 3.0, z), HERE, f"ring {z}") for z in (0.0, 5.0)]
    tube = nsq.Volume("tube", [*walls, *rings], GLASS)
    assert len(tube.boundary) == 4
    with pytest.raises(nsq.NonWatertightVolumeError, match=r"ring 0\.0"):
        nsq.Volume("tube", [walls[0], *rings], GLASS)


CUBE = np.array([(x, y, z) for x in (0.0, 2.0) for y in (0.0, 2.0) for z in (0.0, 2.0)])
SIDES = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
TRIANGLES = np.array([t for a, b, c, d in SIDES for t in ((a, b, c), (a, c, d))])


def test_a_mesh_is_closed_where_every_edge_has_two_triangles():
    mesh = MeshGeometry((CUBE + 30.0, TRIANGLES))
    assert len(nsq.Volume("cube", [face(mesh, TILTED)], GLASS).boundary) == 1
    holed = MeshGeometry((CUBE, TRIANGLES[:-1]))
    with pytest.raises(nsq.NonWatertightVolumeError, match=r"3 edges of the mesh 'S'.*two triangles") as caught:
        nsq.Volume("cube", [face(holed)], GLASS)
    assert caught.value.place.max() <= 2.0


def test_a_mesh_of_loose_triangles_is_closed_where_they_meet(tmp_path):
    """As STL files hold them: every triangle with corners of its own."""
    corners = CUBE[TRIANGLES].reshape(-1, 3)
    loose = MeshGeometry((corners, np.arange(len(corners)).reshape(-1, 3)))
    assert len(nsq.Volume("cube", [face(loose, TILTED)], GLASS).boundary) == 1
    corners[4] += [0.0, 0.0, 1e-3]
    torn = MeshGeometry((corners, loose.faces))
    with pytest.raises(nsq.NonWatertightVolumeError, match="do not belong to two triangles") as caught:
        nsq.Volume("cube", [face(torn)], GLASS)
    assert np.abs(corners[[3, 4, 5]] - caught.value.place).sum(axis=1).min() <= 2.1  # at a triangle with that corner


def test_a_mesh_whose_triangles_wind_against_each_other():
    turned = TRIANGLES.copy()
    turned[5] = turned[5, ::-1]
    with pytest.raises(
        nsq.NonWatertightVolumeError, match=r"3 edges of the mesh 'S'.*wind against each other"
    ) as caught:
        nsq.Volume("cube", [face(MeshGeometry((CUBE, turned)))], GLASS)
    corners = CUBE[TRIANGLES[5]]
    middles = 0.5 * (corners + np.roll(corners, 1, axis=0))
    assert np.abs(middles - caught.value.place).sum(axis=1).min() < 1e-12


def test_an_asphere_closes_a_rod():
    asphere = EvenAsphereGeometry(20.0, -0.5, 3.0, (1e-4,))
    height = float(asphere.sag(3.0, 0.0))
    end = face(nsq.FinitePlaneGeometry(aperture_radius=3.0), nsq.CoordinateSystem(z=height + 5.0))
    wall = face(nsq.CylindricalFrustumGeometry(3.0, 3.0, height, height + 5.0))
    assert len(nsq.Volume("rod", [face(asphere), wall, end], GLASS).boundary) == 3
    with pytest.raises(nsq.NonWatertightVolumeError, match=r"a gap of 0\.\d+ mm"):
        nsq.Volume("rod", [face(EvenAsphereGeometry(20.0, -0.5, 3.0, (2e-4,))), wall, end], GLASS)


@pytest.mark.parametrize("shift", [1e-5, -1e-5, 0.25])
def test_a_gap_is_found_where_it_is(shift):
    part = lens(cs=HERE)
    back = part.surfaces[1].cs
    loose = nsq.CoordinateSystem(x=shift, z=back.z, reference_cs=HERE)
    part.surfaces[1].cs = loose
    with pytest.raises(nsq.NonWatertightVolumeError, match="not watertight") as caught:
        _ = part.volume
    error = caught.value
    assert error.volume == "L"
    assert f"{abs(shift):g} mm" in str(error)
    assert abs(error.place[0]) == pytest.approx(10.0, abs=0.3)  # where the rims are furthest apart
    assert error.place[1] == pytest.approx(0.0, abs=1e-6)
    assert error.place[2] == pytest.approx(6.0 - 10.0**2 / 60.0 / (1.0 + math.sqrt(1.0 - 1.0 / 36.0)), abs=0.01)


def test_less_than_the_tolerance_is_no_gap():
    part = lens(cs=HERE)
    part.surfaces[1].cs = nsq.CoordinateSystem(x=5e-7, z=part.surfaces[1].cs.z)
    assert len(part.volume.boundary) == 3


@pytest.mark.parametrize(
    ("boundary", "reason"),
    [
        ([], "empty"),
        ([face(nsq.PlaneGeometry())], "'S' is infinite"),
        ([face(nsq.ConicGeometry(50.0, 0.0, 5.0))], "no other rim"),
        ([face(nsq.SphereGeometry(5.0, 3.0))], "gap of 8 mm"),
        # rims that meet and enclose nothing
        ([face(nsq.ConicGeometry(50.0, 0.0, 5.0)), face(nsq.ConicGeometry(50.0, 0.0, 5.0))], "not watertight"),
        (
            [face(nsq.FinitePlaneGeometry(aperture_radius=2.0)), face(nsq.FinitePlaneGeometry(aperture_radius=2.0))],
            "meet",
        ),
    ],
)
def test_what_is_not_closed(boundary, reason):
    with pytest.raises(nsq.NonWatertightVolumeError, match="not watertight") as caught:
        nsq.Volume("V", boundary, GLASS)
    assert reason in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_union_takes_volumes_lists_and_surfaces():
    first, second, third = lens(), lens(cs=HERE), face(nsq.PlaneGeometry())
    parts = nsq.Volume.union(first.volume, [second.surfaces, third], third)
    assert parts == [*first.surfaces, *second.surfaces, third]
    assert nsq.Volume.union() == []
    with pytest.raises(TypeError, match=r"parts got str"):
        nsq.Volume.union("lens")


@pytest.mark.parametrize("operation", [nsq.Volume.intersection, nsq.Volume.difference])
def test_other_operations_say_what_is_missing(operation):
    with pytest.raises(NotImplementedError, match="boolean surface evaluator"):
        operation(lens().volume, lens().volume)


def test_a_lens_of_tensors_and_wrong_arguments():
    radius = torch.tensor(50.0, requires_grad=True)
    assert len(lens(r1=radius).volume.boundary) == 3
    with pytest.raises(TypeError, match=r"boundary got Lens"):
        nsq.Volume("V", [lens()], GLASS)
    with pytest.raises(TypeError, match=r"interior got 1\.5"):
        nsq.Volume("V", lens().surfaces, 1.5)
    with pytest.raises(ValueError, match="no glass"):
        nsq.Volume("V", lens().surfaces, "N-BK8")


def test_the_error_points_into_the_world():
    part = lens(cs=TILTED)
    part.surfaces.pop()
    with pytest.raises(nsq.NonWatertightVolumeError) as caught:
        _ = part.volume
    place = caught.value.place
    assert np.linalg.norm(place - np.array([3.0, -2.0, 50.0])) < 15.0


def test_lenses_and_doublets_of_any_shape_are_closed():
    made = 0
    for seed in range(60):
        for compound in generated(seed).component_registry.compounds:
            made += 1 if isinstance(compound, nsq.Lens) and compound.volume else 0
            made += len(compound.volumes) if isinstance(compound, nsq.Doublet) else 0
    assert made > 50
