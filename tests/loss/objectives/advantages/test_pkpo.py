from itertools import combinations
from statistics import mean

import pytest
import torch

from dph.errors import DataError, SettingsError
from dph.loss.objectives import PKPO
from enumerated_policy import (
    all_binary_groups,
    all_groups,
    expected_gradient,
    gradient_of,
    mean_of_the_best,
)

BINARY = [0.0, 1.0, 0.0, 1.0]
GRADED = [0.25, -1.0, 0.5, 2.0]
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
@pytest.mark.parametrize("n", [4, 5, 6])
def test_it_is_the_sum_over_all_subsets(n, k, baseline):
    generator = torch.Generator().manual_seed(n)
    rewards = torch.cat(
        [all_binary_groups(n), torch.randn(20, n, generator=generator, dtype=torch.float64)]
    )
    found = PKPO(k, baseline)(rewards)
    for values, advantages in zip(rewards.tolist(), found.tolist(), strict=True):
        assert advantages == pytest.approx(by_enumeration(values, k, baseline), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("rewards", [BINARY, GRADED], ids=["binary", "graded"])
@pytest.mark.parametrize(("n", "k"), [(4, 2), (4, 3), (5, 2)])
def test_the_expected_gradient_is_exactly_that_of_the_best_of_k(n, k, rewards, baseline):
    groups, weights = all_groups(n)
    values = torch.tensor(rewards, dtype=torch.float64)
    found = expected_gradient(PKPO(k, baseline)(values[groups]), groups, weights)
    expected = gradient_of(mean_of_the_best(rewards, k))
    assert torch.allclose(found, expected, rtol=1e-10, atol=1e-13)


def test_the_best_of_one_without_a_baseline_is_the_reward():
    rewards = torch.tensor([[3.0, 1.0, 2.0, 0.0]])
    assert PKPO(1, "none")(rewards).tolist() == rewards.tolist()
    # 4 / 3 of the means of the other three, which are 1, 5/3, 4/3 and 2.
    found = PKPO(1, "leave_one_out")(rewards)[0].tolist()
    assert found == pytest.approx([5 / 3, -11 / 9, 2 / 9, -8 / 3], rel=1e-6)


def test_where_one_answer_more_or_less_makes_no_difference_it_has_exactly_0():
    rewards = torch.tensor([[0.1] * 8, [1.0] * 7 + [0.0], [0.0] * 8])
    assert PKPO(3)(rewards).tolist() == [[0.0] * 8] * 3


def test_the_order_of_the_samples_does_not_matter():
    rewards = torch.tensor([[1.0, 0.0, 0.5, 2.0, 0.5]])
    order = [3, 1, 4, 0, 2]
    assert torch.equal(PKPO(2)(rewards)[:, order], PKPO(2)(rewards[:, order]))


def test_the_baseline_of_k_minus_one_varies_least():
    groups, weights = all_groups(5)
    values = torch.tensor(BINARY, dtype=torch.float64)[groups]
    size = [
        float((weights[:, None] * PKPO(3, baseline)(values).square()).sum())
        for baseline in BASELINES
    ]
    assert size[2] < size[1] < size[0]


def test_what_makes_no_sense_is_refused():
    with pytest.raises(SettingsError, match="k of pkpo must be at least 2 with baseline='k_minus"):
        PKPO(1)
    with pytest.raises(SettingsError, match="k of pkpo must be at least 1"):
        PKPO(0, "none")
    with pytest.raises(DataError, match="baseline='leave_one_out' needs 5 samples a group, got 4"):
        PKPO(4, "leave_one_out")(torch.zeros(1, 4))


@pytest.mark.usefixtures("no_type_checks")
def test_an_unknown_baseline_is_refused():
    with pytest.raises(SettingsError, match="'none', 'leave_one_out' or 'k_minus_one', got 'mean'"):
        PKPO(4, "mean")
