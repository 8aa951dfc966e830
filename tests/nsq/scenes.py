"""Scenes that several tests trace, and what is read from a result."""

import numpy as np

import nsq

LEDGER = (
    "num_rays_absorbed",
    "num_rays_escaped",
    "num_rays_flux_killed",
    "num_rays_depth_killed",
    "total_flux_detected",
    "total_flux_absorbed",
    "total_flux_bulk_absorbed",
    "total_flux_escaped",
    "total_flux_lost",
)
# Three lines, the middle one twice as strong
FDC = nsq.Spectrum(wavelengths=np.array([0.4861, 0.5876, 0.6563]), weights=np.array([1.0, 2.0, 1.0]))
GREEN = nsq.Spectrum.monochromatic(0.55)


def placed(frame, **pose):
    """A coordinate system, in the frame of another one if there is one."""
    return nsq.CoordinateSystem(**pose, reference_cs=frame)


def singlet(frame=None, k=0.0):
    """A collimated beam through a biconvex lens onto a bilinear map of 16 x 16 pixels."""
    scene = nsq.NSQScene()
    beam = nsq.CollimatedSourceConfig(spectrum=GREEN, total_flux=1.0, aperture_radius=5.0)
    scene.add_source("S", placed(frame), beam)
    glass = nsq.NSQMaterial.constant(1.5187, k)
    lens = nsq.LensConfig(r1=100.0, r2=-100.0, thickness=5.0, material=glass, front_aperture_radius=12.5)
    scene.add_lens("L", placed(frame, z=50.0), lens)
    screen = nsq.IrradianceDetectorConfig(width=20.0, height=20.0, num_pixels_x=16, num_pixels_y=16)
    scene.add_detector("D", placed(frame, z=150.0), screen)
    return scene


def gauss_point_doublet(frame=None):
    """A point source and a Gaussian beam of three lines through an achromat onto a tilted map with a Gaussian splat."""
    scene = nsq.NSQScene()
    scene.add_source(
        "P",
        placed(frame, x=0.5, z=-120.0),
        nsq.PointSourceConfig(spectrum=FDC, total_flux=2.0, half_angle_deg=6.0),
    )
    beam = nsq.CollimatedSourceConfig(
        spectrum=FDC, total_flux=1.0, aperture_radius=8.0, profile="gaussian", gaussian_sigma=3.0
    )
    scene.add_source("G", placed(frame, z=-20.0), beam)
    glasses = {"material1": nsq.NSQMaterial.constant(1.5168, 0.0), "material2": nsq.NSQMaterial.constant(1.6727, 0.0)}
    achromat = nsq.DoubletConfig(
        r1=62.8, r2=-45.7, r3=-128.2, thickness1=4.0, thickness2=2.5, aperture_radius=12.0, **glasses
    )
    scene.add_doublet("DB", placed(frame, z=0.0), achromat)
    screen = nsq.IrradianceDetectorConfig(
        width=24.0, height=16.0, num_pixels_x=12, num_pixels_y=8, splat="gaussian", splat_sigma=0.7
    )
    scene.add_detector("D", placed(frame, z=100.0, rx=0.05), screen)
    return scene


def ledger(result):
    """Every entry of the ledger as floats."""
    return {name: float(getattr(result, name)) for name in LEDGER}


def closure(result):
    """What the ledger leaves unexplained, W."""
    out = (
        result.total_flux_detected
        - result.total_flux_tapped
        + result.total_flux_absorbed
        + result.total_flux_bulk_absorbed
        + result.total_flux_coating
        + result.total_flux_escaped
        + result.total_flux_lost
    )
    return abs(result.total_flux_in - out)
