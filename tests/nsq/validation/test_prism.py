"""A prism: the deviation at every angle of incidence, its minimum, and the spectrum at minimum deviation."""

import numpy as np
import pytest

import nsq

from .tools import CS, columns, enclose, glass, pencil

APEX = np.radians(60.0)
STILL = nsq.SamplingPolicy(reflect_prob=0.2, rr_start_flux=0.0)


def deviations(medium, incidences, rays_each=24, spectrum=None):
    """Incidence and deviation (radians) of the light that goes straight through a prism, and its wavelengths."""
    scene = nsq.NSQScene()
    # the faces lean by half of the apex to either side of the y axis; the light meets the first one at a point of it
    lean = 0.5 * APEX
    for name, sign, media in (("first", -1.0, (nsq.VACUUM, medium)), ("second", 1.0, (medium, nsq.VACUUM))):
        cs = CS(y=-10.0, z=10.0 * sign * np.tan(lean), rx=-sign * lean)
        scene.add_component(name, nsq.RefractiveComponent(cs, nsq.FinitePlaneGeometry(20.0, 40.0), *media))
    normal = np.array([0.0, -np.sin(lean), np.cos(lean)])  # of the first face, into the glass
    along = np.array([0.0, np.cos(lean), np.sin(lean)])
    point = np.array([0.0, -10.0, -10.0 * np.tan(lean)])
    for i, angle in enumerate(incidences):
        direction = np.cos(angle) * normal + np.sin(angle) * along
        options = {} if spectrum is None else {"spectrum": spectrum}
        pencil(scene, f"{i}", point - 5.0 * direction, direction, **options)
    enclose(scene, "D", 100.0)
    scene.sampling_policy = STILL
    rays = scene.trace(rays_each * len(incidences), max_depth=3, min_flux_fraction=0.0, seed=4).detectors["D"]
    _, direction, _, ids = columns(rays)
    # what either face reflects leaves on the side that the light came from
    straight = (direction @ normal > 0.0) & (direction @ (normal * [1.0, -1.0, 1.0]) > 0.0)
    angle = np.repeat(incidences, rays_each)[ids[straight]]
    towards = np.cos(angle)[:, None] * normal + np.sin(angle)[:, None] * along
    across = np.cross(towards, direction[straight])[:, 0]
    return angle, np.arctan2(across, np.sum(towards * direction[straight], axis=1)), rays.wavelength.numpy()[straight]


def law(angle, n):
    return angle + np.arcsin(np.sin(APEX) * np.sqrt(n**2 - np.sin(angle) ** 2) - np.cos(APEX) * np.sin(angle)) - APEX


@pytest.mark.parametrize("n", [1.3, 1.5, 1.7])
def test_deviation_at_every_incidence(n):
    least = np.arcsin(n * np.sin(0.5 * APEX))
    incidences = least + np.radians(np.linspace(-8.0, 8.0, 9))
    angle, deviation, _ = deviations(glass(n), incidences)
    assert len(np.unique(angle)) == 9
    assert np.abs(deviation) == pytest.approx(law(angle, n), abs=1e-12)
    assert np.all(np.sign(deviation) == np.sign(deviation[0]))


@pytest.mark.parametrize("n", [1.3, 1.5, 1.7])
def test_minimum_deviation(n):
    """2 asin(n sin(A / 2)) - A at the symmetric passage; around it the deviation is stationary, and larger."""
    least = np.arcsin(n * np.sin(0.5 * APEX))
    step = 1e-3
    angle, deviation, _ = deviations(glass(n), np.array([least - step, least, least + step]))
    below, middle, above = (np.mean(np.abs(deviation[angle == a])) for a in (least - step, least, least + step))
    assert middle == pytest.approx(2.0 * least - APEX, abs=1e-13)
    slope, bend = (above - below) / (2.0 * step), (above - 2.0 * middle + below) / step**2
    assert bend > 0.5
    assert abs(slope) < step * bend  # the third derivative times step^2, of order one each
    assert min(below, above) > middle


def test_the_spectrum_at_minimum_deviation():
    """A catalogue glass: the index of each line from where the prism sends it, at its own minimum and away from it."""
    medium = nsq.NSQMaterial.from_glass("N-F2")
    lines = nsq.Spectrum(np.array([0.45, 0.55, 0.65]), np.ones(3))
    incidence = np.arcsin(float(medium.n(0.55)) * np.sin(0.5 * APEX))
    _, deviation, wavelength = deviations(medium, np.array([incidence]), rays_each=200, spectrum=lines)
    found = {w: np.abs(deviation[wavelength == w]) for w in lines.wavelengths}
    for w, values in found.items():
        assert values == pytest.approx(law(incidence, float(medium.n(w))), abs=1e-12)
    middle = found[0.55][0]
    assert np.sin(0.5 * (middle + APEX)) / np.sin(0.5 * APEX) == pytest.approx(1.623656507, abs=2e-6)
    assert found[0.45][0] > middle > found[0.65][0]
