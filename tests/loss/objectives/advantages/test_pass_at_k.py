from itertools import combinations
from math import sqrt
from statistics import mean

import pytest
import torch

from dph.loss.objectives import PKPO, PassAtK
from enumerated_policy import (
    all_binary_groups,
    all_groups,
    expected_gradient,
    gradient_of,
    mean_of_the_best,
)


def standardised(rewards, k):
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


@pytest.mark.parametrize("n", [4, 6])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pass_at_k_is_the_mean_over_all_subsets_of_k(n, k):
    rewards = all_binary_groups(n)
    found = PassAtK(k)(rewards)
    for values, advantages in zip(rewards.tolist(), found.tolist(), strict=True):
        assert advantages == pytest.approx(standardised(values, k), rel=1e-9, abs=1e-12)


def test_two_right_of_four_by_hand_and_where_every_subset_succeeds_or_fails_exactly_0():
    # Of six pairs one is all wrong: R = 5/6, s = sqrt(5)/6. Right: (1/6) / s. A wrong answer is
    # in three pairs, one of them all wrong: (1/6 - 1/3) / s.
    found = PassAtK(2)(torch.tensor([[1.0, 1.0, 0.0, 0.0]], dtype=torch.float64))
    assert found[0].tolist() == pytest.approx([1 / sqrt(5)] * 2 + [-1 / sqrt(5)] * 2, rel=1e-12)
    rewards = torch.tensor([[0.0] * 4, [1.0, 1.0, 1.0, 0.0], [1.0] * 4])
    assert PassAtK(2)(rewards).tolist() == [[0.0] * 4] * 3


BASELINES = ["none", "leave_one_out", "k_minus_one"]


def by_enumeration(rewards, k, baseline):
    """The sums over subsets that the equations say, times the size of the group."""
    n = len(rewards)

    def best(subset):
        return max(rewards[j] for j in subset)

    subsets = list(combinations(range(n), k))
    found = []
    for i in range(n):
        mine = [s for s in subsets if i in s]
        if baseline == "k_minus_one":
            gained = sum(best(s) - best([j for j in s if j != i]) for s in mine)
        else:
            gained = sum(best(s) for s in mine)
        share = gained / len(subsets)
        if baseline == "leave_one_out":
            others = [j for j in range(n) if j != i]
            share -= k / (n - 1) * mean(best(s) for s in combinations(others, k))
        found.append(n * share)
    return found


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("n", [4, 6])
def test_pkpo_is_the_sum_over_all_subsets(n, k, baseline):
    generator = torch.Generator().manual_seed(n)
    rewards = torch.cat(
        [all_binary_groups(n), torch.randn(20, n, generator=generator, dtype=torch.float64)]
    )
    found = PKPO(k, baseline)(rewards)
    for values, advantages in zip(rewards.tolist(), found.tolist(), strict=True):
        assert advantages == pytest.approx(by_enumeration(values, k, baseline), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("rewards", [[0.0, 1.0, 0.0, 1.0], [0.25, -1.0, 0.5, 2.0]])
@pytest.mark.parametrize(("n", "k"), [(4, 2), (4, 3), (5, 2)])
def test_pkpos_expected_gradient_is_exactly_that_of_the_best_of_k(n, k, rewards, baseline):
    groups, weights = all_groups(n)
    values = torch.tensor(rewards, dtype=torch.float64)
    found = expected_gradient(PKPO(k, baseline)(values[groups]), groups, weights)
    expected = gradient_of(mean_of_the_best(rewards, k))
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-13)


def test_the_best_of_one_is_the_reward_and_what_makes_no_difference_has_exactly_0():
    rewards = torch.tensor([[3.0, 1.0, 2.0, 0.0]])
    assert PKPO(1, "none")(rewards).tolist() == rewards.tolist()
    # 4 / 3 of the means of the other three, which are 1, 5/3, 4/3 and 2.
    found = PKPO(1, "leave_one_out")(rewards)[0].tolist()
    assert found == pytest.approx([5 / 3, -11 / 9, 2 / 9, -8 / 3], rel=1e-6)
    rewards = torch.tensor([[0.1] * 8, [1.0] * 7 + [0.0], [0.0] * 8])
    assert PKPO(3)(rewards).tolist() == [[0.0] * 8] * 3
