"""Lenses, doublets and mirrors: their surfaces, media, frames, edges and rims."""

import copy

import numpy as np
import pytest
import torch

import nsq
from nsq.coordinates import lower_frames

GLASS = nsq.NSQMaterial.constant(1.5)
FLINT = nsq.NSQMaterial.constant(1.7)
WATER = nsq.NSQMaterial.constant(1.33)
FREE = nsq.CoordinateSystem(z=50.0)
MIRRORED = nsq.SurfaceConfig(interaction=nsq.InteractionType.REFLECTIVE, reflectance=0.9)


def lens(cs=FREE, **changes):
    config = {"r1": 100.0, "r2": -80.0, "thickness": 5.0, "material": GLASS, "front_aperture_radius": 12.5}
    return nsq.Lens("L", cs, nsq.LensConfig(**{**config, **changes}))


def doublet(**changes):
    config = {"r1": 62.8, "r2": -45.7, "r3": -128.2, "thickness1": 4.0, "thickness2": 2.5, "aperture_radius": 12.0}
    return nsq.Doublet("DB", FREE, nsq.DoubletConfig(material1=GLASS, material2=FLINT, **{**config, **changes}))


def media(surface):
    return surface.material_front, surface.material_back


def sag(radius, rho):
    return radius - np.sign(radius) * np.sqrt(radius**2 - rho**2)


def test_a_lens_has_glass_inside_and_the_ambient_outside():
    made = lens(ambient=WATER)
    assert [s.name for s in made.surfaces] == ["L.front", "L.back", "L.edge"]
    assert [s.kind for s in made.surfaces] == ["refract", "refract", "absorb"]
    front, back, edge = made.surfaces
    assert media(front) == (WATER, GLASS)
    assert media(back) == (GLASS, WATER)
    assert media(edge) == (GLASS, WATER)  # n_geom of the edge points outwards
    assert (front.geometry.radius, back.geometry.radius) == (100.0, -80.0)
    assert (made.name, made.coordinate_system, made.config.thickness) == ("L", FREE, 5.0)
    _, origins = lower_frames([s.cs for s in made.surfaces])
    assert origins[:, 2].tolist() == [50.0, 55.0, 50.0]
    assert media(lens().surfaces[0]) == (nsq.VACUUM, GLASS)


def test_the_edge_runs_from_rim_to_rim():
    edge = lens().surfaces[2].geometry
    assert (edge.r_front, edge.r_back) == (12.5, 12.5)
    assert edge.z_front == pytest.approx(sag(100.0, 12.5))
    assert edge.z_back == pytest.approx(5.0 + sag(-80.0, 12.5))


@pytest.mark.parametrize(("a_front", "a_back"), [(10.0, 12.5), (12.5, 10.0)])
def test_the_rim_continues_the_narrower_face(a_front, a_back):
    made = lens(front_aperture_radius=a_front, back_aperture_radius=a_back)
    front, back, edge, rim = made.surfaces
    assert rim.name == "L.rim"
    assert rim.kind == "absorb"
    assert (rim.geometry.inner_radius, rim.geometry.outer_radius) == (10.0, 12.5)
    assert edge.geometry.r_front == edge.geometry.r_back == 12.5
    assert edge.geometry.z_front == pytest.approx(sag(100.0, a_front))
    assert edge.geometry.z_back == pytest.approx(5.0 + sag(-80.0, a_back))
    narrow, radius = (front, 100.0) if a_front < a_back else (back, -80.0)
    assert rim.cs is narrow.cs
    assert rim.geometry.z_offset == pytest.approx(sag(radius, 10.0))
    assert media(rim) == media(narrow)  # +z crosses both the same way


def test_apertures_that_differ_by_rounding_need_no_rim():
    assert len(lens(back_aperture_radius=12.5 + 1e-10).surfaces) == 3


def test_the_edge_follows_the_faces_with_its_graph():
    r1 = torch.tensor(100.0, dtype=torch.float64, requires_grad=True)
    thickness = torch.tensor(5.0, requires_grad=True)
    made = lens(r1=r1, thickness=thickness)
    edge = made.surfaces[2].geometry
    for radius in (100.0, 90.0):
        with torch.no_grad():
            r1.fill_(radius)
        r1.grad = thickness.grad = None
        (edge.z_front + edge.z_back).backward()  # a fresh graph each time
        slope = (sag(radius + 1e-4, 12.5) - sag(radius - 1e-4, 12.5)) / 2e-4
        assert r1.grad.item() == pytest.approx(slope, rel=1e-6)
        assert thickness.grad.item() == 1.0
    with torch.no_grad():
        thickness.fill_(1.0)
    with pytest.raises(ValueError, match=r"^thickness of 'L' got 1, which leaves"):
        made.validate()


def test_an_edge_may_be_given_other_numbers():
    edge = lens().surfaces[2].geometry
    before = edge.z_back
    edge.r_front = 13.0
    assert edge.numbers() == (13.0, 12.5, edge.z_front, before)


def test_constructors_keep_tensors_as_they_are():
    leaves = {name: torch.tensor(v, requires_grad=True) for name, v in (("r1", 90.0), ("r2", -70.0), ("conic1", -0.5))}
    thickness = torch.tensor(6.0, requires_grad=True)
    front, back, _ = lens(thickness=thickness, **leaves).surfaces
    assert front.geometry.radius is leaves["r1"]
    assert front.geometry.conic is leaves["conic1"]
    assert back.geometry.radius is leaves["r2"]
    assert back.cs.z is thickness


def test_numbers_of_all_kinds_mix():
    leaf = torch.tensor(-80.0, requires_grad=True)
    for thickness in (5, np.float64(5.0), np.array(5.0), torch.tensor(5.0)):
        edge = lens(thickness=thickness, r1=np.float32(100.0), r2=leaf).surfaces[2].geometry
        assert edge.z_back.requires_grad
        assert edge.z_back.item() == pytest.approx(5.0 + sag(-80.0, 12.5))
        assert isinstance(lens(thickness=np.array(5.0)).surfaces[2].geometry.z_back, float)


def test_a_copy_is_a_lens_of_its_own():
    made = lens()
    twin = copy.deepcopy(made)
    twin.surfaces[0].geometry.radius = 60.0
    assert twin.surfaces[2].geometry.z_front == pytest.approx(sag(60.0, 12.5))
    assert made.surfaces[2].geometry.z_front == pytest.approx(sag(100.0, 12.5))


def test_what_a_surface_config_changes():
    coating = nsq.SimpleCoating(0.98, 0.02)
    made = lens(
        front=nsq.SurfaceConfig(coating=coating, aperture_radius=10.0),
        back=MIRRORED,
        edge=nsq.SurfaceConfig(interaction=nsq.InteractionType.REFRACTIVE),
        rim=nsq.SurfaceConfig(interaction=nsq.InteractionType.REFRACTIVE),
    )
    front, back, edge, rim = made.surfaces
    assert front.coating is coating
    assert front.geometry.aperture_radius == 10.0
    assert (back.kind, back.reflectance, media(back)) == ("reflect", 0.9, (GLASS, nsq.VACUUM))
    assert (edge.kind, rim.kind) == ("refract", "refract")
    assert lens(front=nsq.SurfaceConfig(interaction=nsq.InteractionType.ABSORBING)).surfaces[0].kind == "absorb"


def test_a_doublet_has_five_surfaces():
    made = doublet(ambient=WATER)
    names = ["DB.front", "DB.cemented", "DB.back", "DB.edge_crown", "DB.edge_flint"]
    assert [s.name for s in made.surfaces] == names
    assert [s.kind for s in made.surfaces] == ["refract"] * 3 + ["absorb"] * 2
    expected = [(WATER, GLASS), (GLASS, FLINT), (FLINT, WATER), (GLASS, WATER), (FLINT, WATER)]
    assert [media(s) for s in made.surfaces] == expected
    _, origins = lower_frames([s.cs for s in made.surfaces])
    assert origins[:, 2].tolist() == [50.0, 54.0, 56.5, 50.0, 54.0]
    crown, flint = (s.geometry for s in made.surfaces[3:])
    assert crown.z_front == pytest.approx(sag(62.8, 12.0))
    assert crown.z_back == pytest.approx(4.0 + sag(-45.7, 12.0))
    assert flint.z_front == pytest.approx(sag(-45.7, 12.0))
    assert flint.z_back == pytest.approx(2.5 + sag(-128.2, 12.0))


def test_gradients_of_both_thicknesses_reach_the_last_frame():
    leaves = [torch.tensor(v, requires_grad=True) for v in (4.0, 2.5)]
    made = doublet(thickness1=leaves[0], thickness2=leaves[1])
    lower_frames([made.surfaces[2].cs])[1].sum().backward()
    assert [leaf.grad.item() for leaf in leaves] == [1.0, 1.0]


def test_a_mirror():
    made = nsq.Mirror("M", FREE, nsq.MirrorConfig(-300.0, 0.9, conic=-1.0, aperture_radius=40.0, ambient=WATER))
    (surface,) = made.surfaces
    assert (surface.name, surface.kind, surface.reflectance) == ("M.surface", "reflect", 0.9)
    assert media(surface) == (WATER, WATER)
    assert surface.geometry.numbers() == (-300.0, -1.0, 40.0)


def test_single_surfaces():
    plane = nsq.PlaneGeometry()
    refractive = nsq.RefractiveComponent(FREE, plane, "N-BK7", nsq.VACUUM, name="window")
    assert (refractive.kind, refractive.material_front.name, refractive.name) == ("refract", "N-BK7", "window")
    mirror = nsq.ReflectiveComponent(FREE, plane, lambda wl: 0.9)
    assert media(mirror) == (nsq.VACUUM, nsq.VACUUM)
    absorber = nsq.AbsorbingComponent(FREE, plane, GLASS)
    assert media(absorber) == (GLASS, GLASS)
    with pytest.raises(TypeError, match="reflectance"):
        nsq.ReflectiveComponent(FREE, plane)


@pytest.mark.parametrize(
    "changes",
    [
        {"thickness": 0.5},
        {"thickness": 2.0, "r2": 100.0, "r1": 20.0},  # edges cross though the centre is thick enough
        {"r1": 30.0, "r2": 15.0, "thickness": 0.01, "back_aperture_radius": 1.0, "front_aperture_radius": 10.0},
    ],
)
def test_faces_that_cross_are_refused_by_name(changes):
    with pytest.raises(ValueError, match=r"^thickness of 'L' got .* which leaves -.* between its faces"):
        lens(**changes)


@pytest.mark.parametrize(("changes", "thickness"), [({"r1": 20.0}, "4"), ({"r3": -18.0}, "2.5")])
def test_a_doublet_checks_both_gaps(changes, thickness):
    with pytest.raises(ValueError, match=rf"^thickness of 'DB' got {thickness}, which leaves -"):
        doublet(**changes)
