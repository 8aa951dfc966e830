"""Scenes for files, and their ways through a file."""

import json

import numpy as np

import nsq

from .scenes import FDC, singlet


def through_a_file(scene, tmp_path):
    scene.to_json(tmp_path / "scene.json")
    return nsq.NSQScene.from_json(tmp_path / "scene.json")


def through_text(scene, **options):
    return nsq.scene_from_dict(json.loads(json.dumps(nsq.scene_to_dict(scene, **options))))


def full_scene():
    """One of everything, by hand."""
    scene = nsq.NSQScene()
    bench = nsq.CoordinateSystem(z=10, rx=0.1)
    water = nsq.NSQMaterial.constant(1.33)
    point = nsq.PointSourceConfig(spectrum=FDC, total_flux=3, half_angle_deg=25.0, medium=water)
    scene.add_source("P", nsq.CoordinateSystem(z=-50), point)
    coated = nsq.SurfaceConfig(coating=nsq.SimpleCoating(0.98, 0.01))
    lens = nsq.LensConfig(50, np.inf, 5, "N-BK7", front_aperture_radius=10, front=coated, ambient=water)
    scene.add_lens("L", nsq.CoordinateSystem(x=1.5, reference_cs=bench), lens)
    doublet = nsq.DoubletConfig(60, -45, -130, 6, 2.5, "N-BK7", "N-SF5", aperture_radius=9)
    scene.add_doublet("DB", nsq.CoordinateSystem(z=30, reference_cs=bench), doublet)
    scene.add_mirror("M", nsq.CoordinateSystem(z=90), nsq.MirrorConfig(-200, 0.95, conic=-1))
    screen = nsq.IrradianceDetectorConfig(20, 10, num_pixels_x=7, num_pixels_y=5, splat="gaussian", splat_sigma=0.75)
    scene.add_detector("D", nsq.CoordinateSystem(z=60), screen)
    scene.add_detector("R", nsq.CoordinateSystem(z=61), nsq.RayDatabaseConfig(5, 5, max_rays=17, absorb=False))
    return scene


def mesh_scene():
    """One mesh in two places, and a group of surfaces about it."""
    scene = singlet()
    corners = [(0, 0, 0), (9, 0, 0), (0, 9, 0), (0, 0, 9.1)]
    mesh = nsq.MeshGeometry((corners, [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]))
    glass = nsq.NSQMaterial.constant(1.5)
    scene.add_component("A", nsq.RefractiveComponent(nsq.CoordinateSystem(z=60), mesh, glass, nsq.VACUUM))
    group = nsq.CompoundComponent("G", nsq.CoordinateSystem(z=70), None)
    shape = nsq.EvenAsphereGeometry(50.0, -1.0, 9.0, (1e-5, 0.0, -2e-9))
    group.surfaces = [
        nsq.RefractiveComponent(nsq.CoordinateSystem(z=70), mesh, nsq.VACUUM, glass, name="G.1"),
        nsq.AbsorbingComponent(nsq.CoordinateSystem(z=75), shape, name="G.2"),
    ]
    scene.add_component("G", group)
    return scene
