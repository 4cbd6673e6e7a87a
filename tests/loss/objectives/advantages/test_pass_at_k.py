from itertools import combinations
from math import sqrt
from statistics import mean

import pytest
import torch

from dph.errors import DataError, SettingsError
from dph.loss.objectives import PassAtK
from enumerated_policy import all_binary_groups


def by_enumeration(rewards, k):
    """Every subset of k is worth its best answer; standardised, and averaged over its members."""
    worth = {
        subset: max(rewards[i] for i in subset) for subset in combinations(range(len(rewards)), k)
    }
    centre = mean(worth.values())
    deviation = sqrt(mean((value - centre) ** 2 for value in worth.values()))
    if not deviation:
        return [0.0] * len(rewards)
    return [
        mean((value - centre) / deviation for subset, value in worth.items() if i in subset)
        for i in range(len(rewards))
    ]


@pytest.mark.parametrize("n", [4, 5, 6])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_it_is_the_mean_over_all_subsets_of_k(n, k):
    rewards = all_binary_groups(n)
    found = PassAtK(k)(rewards)
    for values, advantages in zip(rewards.tolist(), found.tolist(), strict=True):
        assert advantages == pytest.approx(by_enumeration(values, k), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_the_sum_over_a_group_is_0(k):
    sums = PassAtK(k)(all_binary_groups(8)).sum(-1)
    assert torch.allclose(sums, torch.zeros_like(sums), atol=1e-12)


def test_two_right_of_four_by_hand():
    # Of six pairs one is all wrong: R = 5/6, s = sqrt(5)/6. Right: (1/6) / s. A wrong answer is
    # in three pairs, one of them all wrong: (1/6 - 1/3) / s.
    found = PassAtK(2)(torch.tensor([[1.0, 1.0, 0.0, 0.0]], dtype=torch.float64))
    assert found[0].tolist() == pytest.approx([1 / sqrt(5)] * 2 + [-1 / sqrt(5)] * 2, rel=1e-12)


def test_groups_whose_every_subset_succeeds_or_fails_have_exactly_0():
    rewards = torch.tensor([[0.0] * 4, [1.0, 1.0, 1.0, 0.0], [1.0] * 4])
    assert PassAtK(2)(rewards).tolist() == [[0.0] * 4] * 3


def test_what_makes_no_sense_is_refused():
    with pytest.raises(SettingsError, match="k of pass_at_k must be at least 1, got 0"):
        PassAtK(0)
    with pytest.raises(DataError, match="k=5 needs k samples a group, got 4"):
        PassAtK(5)(torch.zeros(1, 4))
