"""Lines, weights and the draw of a wavelength."""

import copy
import pickle

import numpy as np
import pytest
import torch

import nsq


class Fixed:
    """A generator that gives the numbers it was made with."""

    def __init__(self, numbers):
        self.numbers = np.asarray(numbers)
        self.asked = []

    def uniform(self, ray_id, bounce, slot, offset=0):
        self.asked.append((bounce, slot, offset))
        return self.numbers[np.asarray(ray_id)]


def test_the_first_line_whose_cumulative_weight_reaches_u():
    spectrum = nsq.Spectrum([0.6, 0.4, 0.5], [1.0, 2.0, 1.0])
    assert spectrum.cumulative.tolist() == [0.25, 0.75, 1.0]
    rng = Fixed([0.0, 0.25, 0.2500001, 0.75, 0.76, 1.0 - 2**-32])
    assert spectrum.sample(np.arange(6), 0, rng).tolist() == [0.6, 0.6, 0.4, 0.4, 0.5, 0.5]
    assert rng.asked == [(0, nsq.EventSlot.SOURCE_WAVELENGTH, 0)]


def test_a_single_line_is_not_drawn_for():
    rng = Fixed([])
    assert nsq.Spectrum.monochromatic(0.55).sample(np.arange(3), 0, rng).tolist() == [0.55] * 3
    assert rng.asked == []


def test_the_draw_is_keyed_by_the_ray_alone():
    spectrum, rng = nsq.Spectrum([0.45, 0.55, 0.65], [1, 1, 2]), nsq.NSQRng(3)
    ids = np.arange(2000)
    drawn = spectrum.sample(ids, 0, rng)
    assert np.array_equal(drawn[::-1], spectrum.sample(ids[::-1], 0, rng))
    assert [np.mean(drawn == wl) for wl in (0.45, 0.55, 0.65)] == pytest.approx([0.25, 0.25, 0.5], abs=0.05)


def test_inputs_are_copied_and_nothing_can_be_changed():
    wavelengths, weights = np.array([0.5, 0.6]), np.array([1.0, 3.0])
    spectrum = nsq.Spectrum(wavelengths, weights)
    wavelengths[0] = weights[0] = 9.0
    assert spectrum.wavelengths.tolist() == [0.5, 0.6]
    assert spectrum.weights.tolist() == [1.0, 3.0]
    with pytest.raises(ValueError, match="read-only"):
        spectrum.weights[0] = 2.0
    with pytest.raises(AttributeError, match="cannot be changed"):
        spectrum.weights = weights
    with pytest.raises(AttributeError, match="cannot be changed"):
        del spectrum.weights


def test_copies_and_pickles_are_equal():
    spectrum = nsq.Spectrum(torch.tensor([0.5, 0.6], dtype=torch.float64), (1, 3))
    for twin in (copy.deepcopy(spectrum), pickle.loads(pickle.dumps(spectrum))):
        assert twin == spectrum
        assert hash(twin) == hash(spectrum)
    assert spectrum != nsq.Spectrum([0.5, 0.6], [1, 2])
    assert spectrum != 3


def test_a_gradient_is_refused_and_not_dropped():
    with pytest.raises(NotImplementedError, match=r"^weights got a tensor that requires a gradient"):
        nsq.Spectrum([0.5, 0.6], torch.ones(2, requires_grad=True))
