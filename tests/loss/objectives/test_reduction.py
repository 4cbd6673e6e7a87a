import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dph.errors import DataError, SettingsError
from dph.loss.objectives import row_weights, weighted_sum

LENGTHS = torch.tensor([1, 3, 2])
VALUES = torch.tensor([[6.0, 9.0, 9.0], [1.0, 2.0, 3.0], [4.0, 8.0, 9.0]])
MASK = torch.arange(3)[None] < LENGTHS[:, None]


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("token_mean", (6 + 6 + 12) / 6),
        ("sequence_mean", (6 / 1 + 6 / 3 + 12 / 2) / 3),
        ("fixed_length", (6 + 6 + 12) / (3 * 5)),
    ],
)
def test_each_reduction_is_the_mean_that_its_name_says(reduction, expected):
    weights = row_weights(LENGTHS, reduction=reduction, max_tokens=5)
    assert weighted_sum(VALUES, MASK, weights).item() == pytest.approx(expected, rel=1e-6)


every_reduction = pytest.mark.parametrize(
    "reduction", ["token_mean", "sequence_mean", "fixed_length"]
)


@every_reduction
@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=8), st.data())
def test_rows_without_tokens_change_nothing_wherever_they_stand(reduction, lengths, data):
    order = data.draw(st.permutations([*lengths, 0, 0]))
    kept = [n for n in order if n > 0]
    with_empty = row_weights(
        torch.tensor(order, dtype=torch.long), reduction=reduction, max_tokens=9
    )
    without = row_weights(torch.tensor(kept, dtype=torch.long), reduction=reduction, max_tokens=9)
    assert [w for w, n in zip(with_empty.tolist(), order, strict=True) if n] == without.tolist()
    assert all(w == 0.0 for w, n in zip(with_empty.tolist(), order, strict=True) if not n)


@pytest.mark.parametrize("reduction", ["token_mean", "sequence_mean"])
@settings(deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=40))
def test_a_constant_has_itself_as_its_mean(reduction, lengths):
    tensor = torch.tensor(lengths)
    weights = row_weights(tensor, reduction=reduction)
    assert (weights.double() * tensor).sum().item() == pytest.approx(1.0, rel=1e-6)


def test_nothing_outside_the_mask_reaches_the_sum_or_the_gradient():
    values = torch.tensor([[1.0, math.nan], [math.inf, math.nan]], requires_grad=True)
    mask = torch.tensor([[True, False], [False, False]])
    total = weighted_sum(values, mask, torch.tensor([0.5, 2.0]))
    total.backward()
    assert total.item() == 0.5
    assert values.grad.tolist() == [[0.5, 0.0], [0.0, 0.0]]


def test_bad_input_is_refused():
    with pytest.raises(SettingsError, match="needs max_tokens >= 1, got None"):
        row_weights(LENGTHS, reduction="fixed_length")
    with pytest.raises(DataError, match="3 tokens, above max_tokens=2"):
        row_weights(LENGTHS, reduction="fixed_length", max_tokens=2)
    with pytest.raises(DataError, match="at least 0, got -1"):
        row_weights(torch.tensor([-1, 2]), reduction="token_mean")


@pytest.mark.usefixtures("no_type_checks")
def test_an_unknown_reduction_is_refused():
    with pytest.raises(SettingsError, match="token_mean, sequence_mean, fixed_length, got 'mean'"):
        row_weights(LENGTHS, reduction="mean")
