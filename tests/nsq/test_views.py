"""Sections and views of scenes: curves lie where the surfaces are, solids close, and a picture says what it shows."""

import matplotlib

matplotlib.use("Agg")

import itertools
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
import trimesh

import nsq
from nsq.intersect import intersect_scene
from nsq.plotting.parts import scene_parts
from nsq.plotting.sections import PLANES, Plane, cut, outlines
from nsq.plotting.tessellate import tessellate

from .scenes import gauss_point_doublet, singlet

GLASS = nsq.NSQMaterial.constant(1.5)
CS = nsq.CoordinateSystem
YZ = Plane(*PLANES["YZ"])
SHAPES = {
    "rectangle": nsq.FinitePlaneGeometry(4.0, 6.0),
    "disk": nsq.FinitePlaneGeometry(aperture_radius=3.0),
    "ellipsoid": nsq.ConicGeometry(9.0, 0.4, 5.0),
    "hemisphere": nsq.ConicGeometry(-5.0, 0.0, 5.0),
    "paraboloid": nsq.ParaboloidGeometry(-12.0, 5.0),
    "sphere": nsq.SphereGeometry(5.0),
    "caps": nsq.SphereGeometry(5.0, aperture_radius=3.0),
    "frustum": nsq.CylindricalFrustumGeometry(5.0, 2.0, -1.0, 4.0),
    "cone": nsq.CylindricalFrustumGeometry(0.0, 2.0, -1.0, 4.0),
    "annulus": nsq.AnnularPlaneGeometry(2.0, 5.0, 1.5),
    "asphere": nsq.EvenAsphereGeometry(20.0, -1.0, 5.0, (1e-4, -1e-6)),
    "biconic": nsq.BiconicGeometry(15.0, -25.0, aperture_radius=5.0),
    "toroid": nsq.ToroidGeometry(15.0, 30.0, aperture_radius=5.0),
    "mesh": nsq.MeshGeometry(trimesh.creation.icosphere(subdivisions=4, radius=5.0)),
}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def section(geometry, cs, plane):
    scene = nsq.NSQScene()
    scene.add_component("part", nsq.RefractiveComponent(cs, geometry, nsq.VACUUM, GLASS))
    (piece,) = scene_parts(scene).pieces
    return cut(plane.project(piece.vertices), piece.faces)


def in_space(curve, plane):
    points = np.zeros((len(curve), 3))
    points[:, plane.across], points[:, plane.up] = curve.T
    points[:, plane.normal] = plane.offset
    return points


def first_hits(geometry, pose, plane, start, way):
    """Distances along rays (n, 2) in the plane to where they first meet the shape; infinite for a miss."""
    start, way = in_space(start, plane), in_space(way, YZ)
    rays = nsq.NSQRayBundle(*start.T, *way.T, flux=np.ones(len(start)), wavelength=np.ones(len(start)))
    return intersect_scene(rays, [nsq.RefractiveComponent(pose, geometry, nsq.VACUUM, GLASS)])[0].numpy()


@pytest.mark.parametrize("name", SHAPES)
def test_a_tilted_section_is_where_the_trace_meets_the_shape(name):
    pose, plane = CS(x=0.4, y=-1.0, z=30.0, rx=0.3, ry=-0.4, rz=0.2), Plane(*PLANES["YZ"], 0.9)
    curves = section(SHAPES[name], pose, plane)

    # rays at random in the plane: what they hit lies on the section
    rng = np.random.default_rng(5)
    angle, start = rng.uniform(-np.pi, np.pi, 400), rng.normal((30.0, -1.0), 4.0, (400, 2))
    way = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    t = first_hits(SHAPES[name], pose, plane, start, way)
    met = np.isfinite(t)
    assert met.sum() > 20
    hits = start[met] + t[met, None] * way[met]
    points = np.concatenate(
        [np.linspace(a, b, 2 + int(np.hypot(*(b - a)) / 0.02)) for c in curves for a, b in itertools.pairwise(c)]
    )
    assert np.linalg.norm(hits[:, None] - points[None], axis=2).min(axis=1).max() < 0.02  # mm, of shapes 10 mm wide

    # rays straight at the middle of each piece, from 0.1 mm away: they meet the shape there
    for curve in curves if name != "caps" else []:  # of a sphere with an aperture, the nearer meeting alone counts
        step = np.diff(curve, axis=0)[1:-1]
        step = step / np.linalg.norm(step, axis=1, keepdims=True)
        middle, across = 0.5 * (curve[1:-2] + curve[2:-1]), np.stack([-step[:, 1], step[:, 0]], axis=1)
        if len(middle):
            t = first_hits(SHAPES[name], pose, plane, middle - 0.1 * across, across)
            assert np.abs(t - 0.1).max() < 0.01


def test_a_section_through_the_axis_is_exact():
    geometry = nsq.ConicGeometry(9.0, 0.4, 5.0)
    (curve,) = section(geometry, CS(), YZ)
    assert np.abs(curve[:, 1]).max() == pytest.approx(5.0, abs=1e-12)
    assert curve[:, 0] == pytest.approx(geometry.profile(np.abs(curve[:, 1])), abs=1e-12)


def test_sections_are_open_or_closed_as_the_shapes_are():
    closed = [name for name, shape in SHAPES.items() for c in section(shape, CS(), YZ) if np.allclose(c[0], c[-1])]
    assert closed == ["sphere", "mesh"]
    assert [len(section(SHAPES[n], CS(), YZ)) for n in ("caps", "frustum", "annulus", "disk")] == [2, 2, 2, 1]
    assert section(nsq.SphereGeometry(1.0), CS(x=2.0), YZ) == []


def test_the_area_of_an_outline_is_that_of_the_lens():
    parts = scene_parts(singlet())
    curves = [c for piece in parts.pieces if piece.label == "L" for c in cut(YZ.project(piece.vertices), piece.faces)]
    (outline,) = outlines(curves)
    y, z = outline[:, 1], outline[:, 0]
    area = 0.5 * abs(np.sum(z * np.roll(y, -1) - y * np.roll(z, -1)))
    cap = 100.0**2 * np.arcsin(0.125) - 12.5 * np.sqrt(100.0**2 - 12.5**2)  # between a circle and its chord
    gap = 2.0 * 12.5 * (5.0 - 2.0 * (100.0 - np.sqrt(100.0**2 - 12.5**2)))
    assert area == pytest.approx(gap + 2.0 * cap, rel=1e-4)


def test_a_hole_is_not_filled():
    ball = trimesh.creation.icosphere(subdivisions=3, radius=5.0)
    hollow = trimesh.creation.icosphere(subdivisions=3, radius=2.0)
    hollow.invert()
    outer, inner = outlines(section(nsq.MeshGeometry(ball + hollow), CS(), YZ))
    signed = [0.5 * np.sum(c[:, 0] * np.roll(c[:, 1], -1) - c[:, 1] * np.roll(c[:, 0], -1)) for c in (outer, inner)]
    assert signed[0] * signed[1] < 0.0
    assert abs(sum(signed)) == pytest.approx(np.pi * 21.0, rel=0.02)


def test_a_shape_that_is_not_known_is_named():
    with pytest.raises(TypeError, match="str"):
        tessellate("round", 8, 1.0)


def test_a_picture_is_to_scale_labelled_and_in_mm():
    figure, ax = gauss_point_doublet().view(num_rays=0)
    assert ax.get_aspect() == 1.0
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("z (mm)", "y (mm)")
    assert {text.get_text() for text in ax.texts} >= {"P", "G", "DB", "D"}
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    assert left < -120.0
    assert right > 100.0
    assert min(abs(low), high) > 12.0
    assert len(ax.patches) >= 2  # crown and flint are filled
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {
        "refracting",
        "absorbing",
        "detector",
        "source",
    }


@pytest.mark.parametrize(("projection", "labels"), [("XZ", ("z (mm)", "x (mm)")), ("XY", ("x (mm)", "y (mm)"))])
def test_other_planes(projection, labels):
    _, ax = singlet().view(num_rays=0, projection=projection, offset=0.5)
    assert (ax.get_xlabel(), ax.get_ylabel()) == labels


def test_labels_do_not_lie_on_each_other():
    scene = nsq.NSQScene()
    for k in range(6):
        lens = nsq.LensConfig(r1=40.0, r2=-40.0, thickness=4.0, material=GLASS, front_aperture_radius=8.0)
        scene.add_lens(f"long name {k}", CS(z=6.0 * k), lens)
    figure, ax = scene.view()
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(ax.get_window_extent().y1 >= box.y1 for box in boxes)


def test_a_scene_that_cannot_be_traced_yet_is_drawn():
    _, ax = nsq.NSQScene().view()
    assert ax.get_xlim()[0] < ax.get_xlim()[1]
    scene = nsq.NSQScene()
    radius = torch.tensor(-80.0, requires_grad=True)
    scene.add_mirror("M", CS(z=10.0), nsq.MirrorConfig(radius=radius, reflectance=0.9))
    _, ax = scene.view(legend=False)
    assert [text.get_text() for text in ax.texts] == ["M"]


def test_axes_and_their_limits_may_be_given():
    figure, own = plt.subplots()
    drawn = singlet().view(num_rays=0, ax=own, xlim=(40.0, 60.0), ylim=(-15.0, 15.0), title="lens")
    assert drawn == (figure, own)
    assert (own.get_xlim(), own.get_ylim(), own.get_title()) == ((40.0, 60.0), (-15.0, 15.0), "lens")
    assert [t.get_text() for t in own.texts if t.get_text()] == ["L"]
    assert figure.legends == []


def test_a_far_field_does_not_set_the_scale():
    scene = singlet()
    scene.add_detector("far", CS(z=170.0), nsq.FarFieldDetectorConfig())
    scene.add_component("wall", nsq.AbsorbingComponent(CS(z=-30.0), nsq.PlaneGeometry()))
    _, ax = scene.view(num_rays=0)
    assert ax.get_xlim()[1] < 200.0
    assert ax.get_ylim()[1] < 40.0
    assert {"far", "wall"} <= {text.get_text() for text in ax.texts}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"projection": "ZY"}, ValueError, r"projection got 'ZY'; it takes one of \['YZ', 'XZ', 'XY'\]"),
        ({"color_by": "flux"}, ValueError, "color_by got 'flux'"),
        ({"num_rays": -1}, ValueError, "num_rays got -1"),
        ({"offset": "far"}, TypeError, "offset got 'far'"),
    ],
)
def test_bad_options_are_named(options, error, message):
    with pytest.raises(error, match=message):
        singlet().view(**options)


def test_without_pyvista_a_view_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    with pytest.raises(ImportError, match=r"pip install 'nsq\[view\]'"):
        singlet().view3d()


def test_three_dimensions(tmp_path):
    pytest.importorskip("pyvista")
    path = tmp_path / "scene.png"
    code = (
        "import nsq; from tests.nsq.scenes import singlet; plotter = singlet().view3d(num_rays=0, off_screen=True);"
        f"plotter.screenshot({str(path)!r}); assert len(plotter.meshes) == 6"
    )
    # in a process of its own: what draws may end without a word on a machine that has no display
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_notebook_shows_scenes_and_whole_results():
    scene = singlet()
    assert all(word in scene._repr_html_() for word in ("<table>", "image/png", "NSQScene", ">L<"))
    assert "image/png" not in nsq.NSQScene()._repr_html_()
    result = scene.trace(500, seed=1)
    text = result._repr_html_()
    assert all(word in text for word in ("500 rays", "escaped", "image/png", f"{result.total_flux_detected:.5g} W"))
    assert plt.get_fignums() == []
    assert [a.get_title().split()[0] for a in result.plot().axes if a.get_title()] == ["D"]


def ray_courses(ax):
    return [s for c in ax.collections if c.get_zorder() == 2.0 for s in c.get_segments()]


def test_rays_run_from_the_source_through_the_lens_to_the_detector():
    scene = gauss_point_doublet()
    _, ax = scene.view(num_rays=40)
    courses = ray_courses(ax)
    assert len(courses) == 40
    starts = np.array([c[0] for c in courses])
    assert np.allclose(np.sort(np.unique(np.round(starts[:, 0], 9))), [-120.0, -20.0])
    assert sum(starts[:, 0] == -120.0) == 20  # an equal share of each source
    beam = starts[starts[:, 0] == -20.0]
    assert np.ptp(beam[:, 1]) > 8.0  # spread over the beam
    through = [c for c in courses if len(c) == 5]
    assert len(through) > 25
    for course in through:  # front, cemented, back, and the film, which is tilted
        assert (course[1:4, 0] >= 0.0).all()
        assert (course[1:4, 0] <= 6.5).all()
        assert course[4, 0] == pytest.approx(100.0 + 0.05 * course[4, 1], abs=0.01)


def test_rays_of_a_result_are_drawn_as_they_were_recorded():
    scene = singlet()
    result = scene.trace(3000, seed=4, record_paths=True)
    _, ax = scene.view(result, num_rays=10, color_by="wavelength")
    events = result.ray_paths["events"]
    births = events[events["event_type"] == "birth"]
    height = {round(float(y), 9): abs(float(x)) for x, y in zip(births["x"], births["y"], strict=True)}
    drawn = [height[round(float(c[0, 1]), 9)] for c in ray_courses(ax)]
    assert len(drawn) == 10
    assert max(drawn) < 0.1  # those that start near the plane, of a beam 10 mm wide


@pytest.mark.parametrize("color_by", ["source", "wavelength", "bounce"])
def test_colours_of_rays_are_explained(color_by):
    figure, _ = gauss_point_doublet().view(color_by=color_by, num_rays=12)
    text = " ".join(t.get_text() for t in figure.legends[0].get_texts())
    expected = {"source": "rays of P rays of G", "wavelength": "0.4861 µm 0.5876 µm 0.6563 µm", "bounce": "after 1"}
    assert expected[color_by] in text


def test_ghosts_are_drawn_as_bars_with_their_errors():
    result = singlet().trace(20_000, seed=3)
    ghosts = result.ghosts("D")
    ax = ghosts.plot(limit=2)
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([g.flux for g in ghosts[:2]])
    assert ax.get_yticklabels()[0].get_text() == "L.back, L.front → D"
    assert ax.get_xlabel() == "flux (W)"
