"""`check_gradients`: its verdicts on composed scenes, with visibility and without, and what it refuses."""

import math

import numpy as np
import pytest
import torch

import nsq
from benchmarks import edge_scenes as at
from benchmarks.composed_scenes import SCENES


def number(value):
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def flux(result):
    return result.detectors["D"].total_flux


@pytest.mark.parametrize("name", SCENES)
def test_composed_scenes(name):
    """Within three standard errors, each of which is below 5 % of the difference; and without visibility, it fails."""
    found = SCENES[name].check(50_000, 6)
    assert found.agrees, str(found)
    assert all(row.standard_error < 0.05 * abs(row.difference) for row in found.rows), str(found)
    off = SCENES[name].check(10_000, 6, visibility="off")
    assert not off.agrees, str(off)


def test_a_wrong_gradient_differs_and_a_noisy_one_is_called_so():
    """A stop of radius a: half the gradient differs from the difference; a handful of rays cannot tell."""
    a = number(1.2)
    scene = at.obstacle(nsq.AnnularPlaneGeometry(a, 9.0))

    def halved(result):
        total = flux(result)
        return 0.5 * total + 0.5 * total.detach()

    right = nsq.check_gradients(scene, {"a": a}, flux, num_rays=50_000, step=0.05)
    assert right.agrees, str(right)
    assert right.rows[0].gradient == pytest.approx(2.4 * math.pi * at.E, rel=0.03)
    assert nsq.check_gradients(scene, {"a": a}, halved, num_rays=50_000, step=0.05).rows[0].verdict == "differs"
    few = nsq.check_gradients(scene, {"a": a}, flux, num_rays=40, num_seeds=4, step=0.001)
    assert few.rows[0].verdict == "too noisy to tell"
    assert not few.agrees
    # parameters stand where they stood, and the table says what was found
    assert a.item() == 1.2
    assert "gradient" in str(right)
    assert "agrees" in str(right)


def test_a_tensor_of_several_numbers_is_checked_along_a_direction():
    vertices = torch.tensor([[-1.0, -0.8, 0.0], [1.1, -0.9, 0.1], [0.1, 1.2, 0.05]], dtype=torch.float64)
    vertices.requires_grad_()
    scene = at.obstacle(nsq.MeshGeometry((vertices, np.array([[0, 1, 2]]))))
    found = nsq.check_gradients(scene, {"corners": vertices}, flux, num_rays=100_000, num_seeds=4, step=0.05)
    assert found.rows[0].name == "corners, in a direction"
    assert found.agrees, str(found)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"scene": 3}, TypeError, "scene got int"),
        ({"params": {}}, TypeError, "params got"),
        ({"params": {"a": 1.0}}, TypeError, r"params\['a'\] got 1.0"),
        ({"params": {"a": torch.tensor(1.0)}}, ValueError, r"params\['a'\] got a tensor that is no leaf"),
        ({"loss": lambda result: 1.0}, TypeError, "loss got float"),
        ({"num_seeds": 1}, ValueError, "num_seeds got 1"),
        ({"seed": 1}, ValueError, "seed got a value"),
        ({"step": {"b": 0.1}}, ValueError, "step got no entry 'a'"),
        ({"step": -1.0}, ValueError, "step of 'a' got -1"),
    ],
)
def test_bad_arguments_are_named(changes, error, message):
    a = number(1.2)
    arguments = {"scene": at.obstacle(nsq.AnnularPlaneGeometry(a, 9.0)), "params": {"a": a}, "loss": flux,
                 "num_rays": 100, "num_seeds": 2, **changes}  # fmt: skip
    with pytest.raises(error, match=message):
        nsq.check_gradients(arguments.pop("scene"), arguments.pop("params"), arguments.pop("loss"), **arguments)
