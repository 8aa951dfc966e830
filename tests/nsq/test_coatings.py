"""Coatings and reflectances as tables over wavelength."""

import numpy as np
import pytest
import torch

import nsq
from nsq.coatings import check_coating, check_reflectance, reflectance_table

TWO = torch.tensor([0.5, 0.6], dtype=torch.float64)


def test_constant_shares():
    coating = nsq.SimpleCoating(0.7, reflectance=0.2)
    assert (coating.transmittance, coating.reflectance) == (0.7, 0.2)
    reflectance, transmittance = coating.table(TWO)
    assert reflectance.tolist() == [0.2, 0.2]
    assert transmittance.tolist() == [0.7, 0.7]
    assert nsq.SimpleCoating(0.7).reflectance == 0


def test_gradients_reach_tensors_and_callables():
    t = torch.tensor(0.5, requires_grad=True)
    slope = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    reflectance, transmittance = nsq.SimpleCoating(t, lambda wl: slope * wl).table(TWO)
    assert reflectance.detach().numpy() == pytest.approx([0.2, 0.24])
    (reflectance.sum() + transmittance.sum()).backward()
    assert t.grad.item() == 2.0
    assert slope.grad.item() == pytest.approx(1.1)


def test_scalar_callables_and_coatings_make_a_mirror():
    assert reflectance_table(0.9, TWO).tolist() == [0.9, 0.9]
    assert reflectance_table(lambda wl: 0.8 if wl < 0.55 else 0.9, TWO).tolist() == [0.8, 0.9]
    assert reflectance_table(nsq.SimpleCoating(0.1, 0.85), TWO).tolist() == [0.85, 0.85]
    assert reflectance_table(nsq.SimpleCoating(0.0, lambda wl: 0.5 + 0.0 * wl), TWO).tolist() == [0.5, 0.5]
    parameter = torch.tensor(0.9, requires_grad=True)
    reflectance_table(parameter, TWO).sum().backward()
    assert parameter.grad.item() == 2.0


@pytest.mark.parametrize("table", [lambda wl: 2.0 * wl, lambda wl: np.nan, lambda wl: wl - 1.0])
def test_callables_are_checked_where_they_are_evaluated(table):
    with pytest.raises(ValueError, match=r"^reflectance got .* at 0.[56] µm; it takes a number >= 0 and <= 1"):
        reflectance_table(table, TWO)


def test_more_light_than_came_is_refused():
    with pytest.raises(ValueError, match=r"^transmittance and reflectance got a sum of 1.1"):
        nsq.SimpleCoating(0.9, 0.2)
    with pytest.raises(ValueError, match=r"^reflectance \+ transmittance got 1.1 at 0.5 µm"):
        nsq.SimpleCoating(0.6, lambda wl: wl).table(TWO)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_shares_out_of_range(share):
    with pytest.raises(ValueError, match=r"^transmittance got"):
        nsq.SimpleCoating(share)
    with pytest.raises(ValueError, match=r"^reflectance got"):
        nsq.SimpleCoating(0.0, share)
    with pytest.raises(ValueError, match=r"^reflectance got"):
        check_reflectance(share)


class Jones:
    def jones(self, wavelength):
        return np.eye(2)


def test_polarized_coatings_are_not_there_yet():
    with pytest.raises(NotImplementedError, match="polarized"):
        check_coating(Jones(), "coating")
    with pytest.raises(NotImplementedError, match="polarized"):
        check_reflectance(Jones())
    both = Jones()
    both.reflectance, both.transmittance = 0.1, 0.9
    assert check_coating(both, "coating") is both


def test_what_is_no_coating():
    assert check_coating(None, "coating") is None
    with pytest.raises(TypeError, match=r"^coating got 0.5 of type float; it takes None or a coating"):
        check_coating(0.5, "coating")
    with pytest.raises(TypeError, match=r"^reflectance got None; a mirror takes"):
        check_reflectance(None)
    with pytest.raises(TypeError, match=r"^reflectance got 'silver'"):
        check_reflectance("silver")
