from math import inf, nan

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dph.errors import ModelError
from dph.model.policies import interpolated_weights


def pair(**changes):
    """Two small sets of weights; ``changes`` are of the second."""
    base = {"a": torch.tensor([1.0, -2.0]), "b": torch.tensor([[0.5]])}
    final = {"a": torch.tensor([3.0, -2.0]), "b": torch.tensor([[0.25]])}
    return base, {**final, **changes}


def test_half_way_is_the_mean_and_a_quarter_a_quarter_of_the_way():
    base, final = pair()
    half = interpolated_weights(base, final, 0.5)
    assert half["a"].tolist() == [2.0, -2.0]
    assert half["b"].tolist() == [[0.375]]
    assert interpolated_weights(base, final, 0.25)["a"].tolist() == [1.5, -2.0]
    assert interpolated_weights(base, final, 0.75)["a"].tolist() == [2.5, -2.0]


def test_beyond_the_ends_the_line_goes_on():
    base, final = pair()
    assert interpolated_weights(base, final, 1.5)["a"].tolist() == [4.0, -2.0]
    assert interpolated_weights(base, final, -0.5)["a"].tolist() == [0.0, -2.0]


FLOATS = st.floats(width=32, allow_nan=False)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=8))
def test_zero_and_one_give_the_two_models_to_the_bit(values):
    base, final = ({"w": torch.tensor([v[i] for v in values])} for i in (0, 1))
    for weight, end in ((0.0, base), (1.0, final)):
        found = interpolated_weights(base, final, weight)["w"]
        assert torch.equal(found.view(torch.int32), end["w"].view(torch.int32))


FINITE = st.floats(-1e6, 1e6, width=32)


@given(FINITE, FINITE, st.floats(0, 1))
def test_it_is_linear_to_a_few_roundings(start, end, weight):
    base, final = {"w": torch.tensor([start])}, {"w": torch.tensor([end])}
    exact = start + weight * (end - start)
    # Three roundings (change, product, sum), each of at most 2^-24 of what is rounded.
    bound = 3 * 2**-24 * (abs(start) + abs(end) + abs(end - start)) + 1e-37
    assert abs(float(interpolated_weights(base, final, weight)["w"]) - exact) <= bound


def test_a_half_precision_pair_is_computed_and_given_in_single_precision():
    base = {"w": torch.tensor([1.0], dtype=torch.bfloat16)}
    final = {"w": torch.tensor([1.0078125], dtype=torch.bfloat16)}  # the next number of bfloat16
    found = interpolated_weights(base, final, 0.5)["w"]
    assert found.dtype == torch.float32
    assert float(found) == 1.00390625


def test_infinite_elements_that_are_alike_stay():
    base, final = {"w": torch.tensor([-inf, 1.0])}, {"w": torch.tensor([-inf, 2.0])}
    assert interpolated_weights(base, final, 0.5)["w"].tolist() == [-inf, 1.5]


def test_what_holds_no_floating_point_numbers_has_to_be_alike():
    base, final = pair(steps=torch.tensor([3]))
    base["steps"] = torch.tensor([3])
    assert interpolated_weights(base, final, 0.5)["steps"].tolist() == [3]
    final["steps"] = torch.tensor([4])
    with pytest.raises(ModelError, match=r"steps differs .* torch.int64"):
        interpolated_weights(base, final, 0.5)


def test_weights_of_one_model_alone_are_named():
    base, final = pair(c=torch.zeros(1))
    with pytest.raises(ModelError, match=r"1 are in only one of them.*c \(in the second\)"):
        interpolated_weights(base, final, 0.5)


def test_other_shapes_are_named():
    base, final = pair(a=torch.zeros(3))
    with pytest.raises(ModelError, match=r"the first is a: \(2,\) and \(3,\)"):
        interpolated_weights(base, final, 0.5)


def test_tied_weights_stay_tied_and_another_tie_is_refused():
    shared = [torch.tensor([1.0]), torch.tensor([2.0])]
    base, final = ({"head": tensor, "embedding": tensor} for tensor in shared)
    found = interpolated_weights(base, final, 0.5)
    assert found["head"].tolist() == found["embedding"].tolist() == [1.5]
    final["head"] = torch.tensor([2.0])
    with pytest.raises(ModelError, match="ties embedding and head"):
        interpolated_weights(base, final, 0.5)


@pytest.mark.parametrize("weight", [nan, inf])
def test_a_weight_is_finite(weight):
    with pytest.raises(ValueError, match="must be finite"):
        interpolated_weights(*pair(), weight)
