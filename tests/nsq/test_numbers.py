"""What may be a scene number, and how many of them become one tensor."""

import numpy as np
import pytest
import torch

from nsq.numbers import check_count, check_number, is_tensor_number, stack, suggest, to_float


@pytest.mark.parametrize(
    "value",
    [1, 1.5, np.float32(2.0), np.int64(3), np.array(4.0), torch.tensor(5.0), torch.tensor(6.0, dtype=torch.float64)],
)
def test_numbers_come_back_as_the_object_they_are(value):
    assert check_number(value, "x", positive=True) is value


def test_a_tensor_keeps_its_graph():
    leaf = torch.tensor(2.0, requires_grad=True)
    made = leaf * 3.0
    assert check_number(made, "x") is made
    made.backward()
    assert leaf.grad.item() == 3.0


@pytest.mark.parametrize(
    "value",
    [
        *("1", True, np.bool_(True), None, 1j, [1.0], (1.0,), object(), np.array("a"), np.array(1j)),
        *(torch.tensor(1), torch.tensor(True), torch.tensor(1j), torch.tensor(1.0, dtype=torch.float16)),
    ],
)
def test_what_is_no_real_number_is_a_type_error(value):
    with pytest.raises(TypeError, match=r"^width got .*takes a finite number > 0"):
        check_number(value, "width", positive=True)


@pytest.mark.parametrize(
    ("value", "options"),
    [
        (float("nan"), {"finite": False}),
        (torch.tensor(float("nan")), {}),
        (np.float64("nan"), {}),
        (float("inf"), {}),
        (0.0, {"positive": True}),
        (torch.tensor(-1.0, requires_grad=True), {"nonnegative": True}),
        (0.5, {"minimum": 1.0}),
        (1.5, {"maximum": 1.0}),
    ],
)
def test_out_of_range_is_a_value_error(value, options):
    with pytest.raises(ValueError, match=r"^width got .*takes a"):
        check_number(value, "width", **options)


@pytest.mark.parametrize("value", [torch.ones(1), torch.ones(2, 2), np.ones(1), np.ones(0)])
def test_more_than_a_0d_number_is_a_value_error_about_shape(value):
    with pytest.raises(ValueError, match=r"^x got shape .*takes one number"):
        check_number(value, "x")


def test_infinity_and_none_pass_where_they_are_allowed():
    assert check_number(float("-inf"), "x", finite=False) == float("-inf")
    assert check_number(None, "x", none_ok=True) is None


@pytest.mark.parametrize("value", [1, 7.0, 1e5, np.int32(4), np.float64(4.0), np.array(4)])
def test_counts(value):
    count = check_count(value, "num_rays")
    assert type(count) is int
    assert count == value


@pytest.mark.parametrize(
    ("value", "error"),
    [
        *((v, ValueError) for v in (0, -3, 2.5, float("nan"), float("inf"))),
        *((v, TypeError) for v in (True, "3", None, [3], torch.tensor(3))),
    ],
)
def test_bad_counts(value, error):
    with pytest.raises(error, match=r"^num_rays got .*takes a whole number >= 1"):
        check_count(value, "num_rays")


def test_stack_is_float64_and_reaches_leaves_in_their_own_dtype():
    single = torch.tensor(0.1, requires_grad=True)
    double = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    out = stack([1, single, np.float32(0.5), double, single * 2.0, 3.0])
    assert out.dtype == torch.float64
    assert out.detach().numpy() == pytest.approx([1, np.float32(0.1), 0.5, 0.2, np.float32(0.2), 3])
    out.backward(torch.tensor([1.0, 10.0, 100.0, 1000.0, 10000.0, 0.0], dtype=torch.float64))
    assert single.grad.dtype == torch.float32
    assert single.grad.item() == 20010.0
    assert double.grad.dtype == torch.float64
    assert double.grad.item() == 1000.0


def test_stack_of_plain_numbers_has_no_graph():
    assert stack([]).shape == (0,)
    out = stack([1.0, 2, np.float64(3)])
    assert not out.requires_grad
    assert out.tolist() == [1.0, 2.0, 3.0]


def test_reading_a_number():
    assert to_float(torch.tensor(1.5, requires_grad=True)) == 1.5
    assert is_tensor_number(torch.tensor(1.0))
    assert not is_tensor_number(torch.ones(1))
    assert not is_tensor_number(torch.tensor(1))


GLASSES = ["SF5", "J-BK7A", "P-BK7", "N-BK7", "N-BK7HT", "S-BSL7"]


@pytest.mark.parametrize("name", ["NBK7", "BK7", "n-bk7", "BK-7", "N BK7", "N-BK77", "N-KB7"])
def test_suggestions_see_through_dashes_and_case(name):
    assert suggest(name, GLASSES) == " Did you mean 'N-BK7'?"


def test_nothing_near_suggests_nothing():
    assert suggest("unobtainium", GLASSES) == ""
    assert suggest("x", []) == ""
    assert suggest("--", GLASSES) == ""
