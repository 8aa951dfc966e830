"""The sieve before the search for events keeps every ray that has one: gradients have the bits of a search of all."""

import numpy as np
import pytest
import torch

import nsq
from kernels.trace import suspects

RAYS = 4000


def silhouettes():
    """A ball, a half-open tube and a ring in a diverging beam, then a lens off axis: every kind of edge is passed."""
    size = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    scene = nsq.NSQScene()
    spectrum = nsq.Spectrum.monochromatic(0.55)
    scene.add_source("S", nsq.CoordinateSystem(z=-30.0), nsq.PointSourceConfig(spectrum=spectrum, half_angle_deg=14.0))
    for name, frame, geometry in (
        ("ball", nsq.CoordinateSystem(x=-2.0, z=0.0), nsq.SphereGeometry(1.5 * size)),
        ("tube", nsq.CoordinateSystem(x=3.0, rx=0.4), nsq.CylindricalFrustumGeometry(size, 1.5 * size, -1.0, 2.0)),
        ("ring", nsq.CoordinateSystem(z=4.0, ry=0.3), nsq.AnnularPlaneGeometry(2.0 * size, 5.0)),
        ("plate", nsq.CoordinateSystem(x=1.0, y=3.0, z=6.0, rz=0.5), nsq.FinitePlaneGeometry(2.0 * size, 3.0)),
    ):
        scene.add_component(name, nsq.AbsorbingComponent(frame, geometry))
    lens = nsq.LensConfig(
        r1=30.0 * size, r2=-40.0, thickness=3.0, material=nsq.NSQMaterial.constant(1.5), front_aperture_radius=4.0
    )
    scene.add_lens("L", nsq.CoordinateSystem(x=-2.0, z=12.0), lens)
    plate = nsq.IrradianceDetectorConfig(width=18.0, height=18.0, num_pixels_x=8, num_pixels_y=8)
    scene.add_detector("D", nsq.CoordinateSystem(z=25.0), plate)
    return scene, size


def gradient(precision):
    scene, size = silhouettes()
    data = scene.trace(RAYS, seed=3, precision=precision).detectors["D"].data
    (data * torch.linspace(0.0, 1.0, data.numel(), dtype=torch.float64).reshape(data.shape)).sum().backward()
    return size.grad.item()


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_the_sieve_keeps_every_ray_that_has_an_event(precision, monkeypatch):
    threads = nsq.get_num_threads()
    nsq.set_num_threads(1)  # rays that share out differently would be summed in another order
    try:
        kept = []
        plain = suspects.Suspects.find

        def watched(self, count, where):
            kept.append((plain(self, count, where), count))
            return kept[-1][0]

        monkeypatch.setattr(suspects.Suspects, "find", watched)
        sieved = gradient(precision)

        def every(self, count, where):
            self.cells.assign(np.arange(len(self.cells), dtype=np.int32))
            return count

        monkeypatch.setattr(suspects.Suspects, "find", every)
        assert gradient(precision) == sieved != 0.0
    finally:
        nsq.set_num_threads(threads)
    near, rays = np.sum(kept, axis=0)
    # and it is one: here the bands cover about a third
    assert 0.02 * rays < near < 0.7 * rays
