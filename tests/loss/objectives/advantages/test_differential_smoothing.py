import pytest
import torch

from dph.errors import DataError, SettingsError
from dph.loss.objectives import DifferentialSmoothing, GroupAdvantage, GroupSamples
from enumerated_policy import (
    all_binary_groups,
    all_groups,
    expected_gradient,
    gradient_of,
    probabilities,
)

RIGHT = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)


def drawn(logprobs):
    return GroupSamples(logprobs=logprobs, lengths=torch.ones_like(logprobs).long())


@pytest.mark.parametrize("n", [4, 5, 6])
def test_right_answers_lose_and_wrong_ones_gain_their_log_prob(n):
    rewards = all_binary_groups(n)
    logprobs = -torch.arange(rewards.numel(), dtype=torch.float64).view_as(rewards)
    found = DifferentialSmoothing(0.25, 0.125)(rewards, drawn(logprobs))
    plain = GroupAdvantage()(rewards).tolist()
    for row, values in enumerate(rewards.tolist()):
        by_hand = [
            plain[row][i] + (-0.25 if r else 0.125) * float(logprobs[row, i])
            for i, r in enumerate(values)
        ]
        assert found[row].tolist() == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(("gamma_p", "gamma_n"), [(0.1, 0.03), (0.0, 0.2), (0.3, 0.0)])
def test_the_expected_gradient_raises_the_entropy_of_right_answers_and_lowers_that_of_wrong_ones(
    gamma_p, gamma_n
):
    n = 4
    groups, weights = all_groups(n)
    term = DifferentialSmoothing(gamma_p, gamma_n, "none")
    found = expected_gradient(
        term(RIGHT[groups], drawn(probabilities().log()[groups])), groups, weights
    )

    def objective(likely):
        rate = (likely * RIGHT).sum()
        of_right, of_wrong = (-(likely * likely.log() * side).sum() for side in (RIGHT, 1 - RIGHT))
        # GRPO's own is (n - 1) / n of the success rate; grad p log p = (log p + 1) grad p.
        return ((n - 1) / n + gamma_p + gamma_n) * rate + gamma_p * of_right - gamma_n * of_wrong

    assert torch.allclose(found, gradient_of(objective), rtol=1e-12, atol=1e-15)


def test_long_answers_count_by_the_sum_of_their_log_probs():
    rewards = torch.tensor([[1.0, 1.0]])
    samples = GroupSamples(logprobs=torch.tensor([[-2.0, -20.0]]), lengths=torch.tensor([[1, 10]]))
    found = DifferentialSmoothing(0.5)(rewards, samples)
    assert found.tolist() == [[1.0, 10.0]]


def test_the_mean_of_a_token_forgets_how_long_an_answer_is():
    # By hand: -20 nats over 10 tokens are -2 a token, and -2 over 1 token are the same.
    rewards = torch.tensor([[1.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    samples = GroupSamples(
        logprobs=torch.tensor([[-2.0, -20.0], [-3.0, -4.0]], dtype=torch.float64),
        lengths=torch.tensor([[1, 10], [2, 16]]),
    )
    term = DifferentialSmoothing(0.5, 0.25, logprob="mean")
    assert term(rewards, samples).tolist() == [[1.0, 1.0], [-0.375, -0.0625]]


def test_the_mean_of_a_token_with_the_coefficients_of_the_authors_of_maxrl_is_their_advantage():
    # Their advantages: (r - mean) / std with the divisor n, here 1 and -1, and 0.05 times the mean
    # log-prob a token, here 2 and 4 nats. Ours divides by the unbiased std, sqrt(1/2) of 2 samples.
    rewards = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    samples = GroupSamples(
        logprobs=torch.tensor([[-6.0, -8.0]], dtype=torch.float64), lengths=torch.tensor([[3, 2]])
    )
    theirs = torch.tensor([[1.0 + 0.05 * 2, -1.0 - 0.05 * 4]], dtype=torch.float64)
    found = DifferentialSmoothing(0.05, logprob="mean")(rewards, samples)
    plain = GroupAdvantage()(rewards)
    signs = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    assert torch.allclose(found - plain, theirs - signs, rtol=0, atol=1e-15)
    assert torch.allclose(plain, signs / 2**0.5, rtol=0, atol=2e-6)


def test_the_sum_is_the_mean_where_every_answer_has_one_token_and_is_run_unless_one_says_mean():
    rewards = all_binary_groups(4)
    one = drawn(-torch.rand(16, 4, generator=torch.Generator().manual_seed(1)).double())
    by_sum, by_mean = (DifferentialSmoothing(0.2, logprob=how) for how in ("sum", "mean"))
    assert torch.equal(by_sum(rewards, one), by_mean(rewards, one))
    ten = GroupSamples(logprobs=one.logprobs, lengths=torch.full((16, 4), 10))
    assert torch.equal(DifferentialSmoothing(0.2)(rewards, ten), by_sum(rewards, ten))
    assert not torch.equal(by_mean(rewards, ten), by_sum(rewards, ten))


def test_one_gamma_stands_for_both_and_none_at_all_is_grpo():
    rewards = all_binary_groups(4)
    samples = drawn(-torch.rand(16, 4, generator=torch.Generator().manual_seed(0)).double())
    both = DifferentialSmoothing(0.2, 0.2)(rewards, samples)
    assert torch.equal(DifferentialSmoothing(0.2)(rewards, samples), both)
    assert torch.equal(DifferentialSmoothing(0.0)(rewards, samples), GroupAdvantage()(rewards))


def test_what_makes_no_sense_is_refused():
    for gammas in ((-0.1,), (0.1, float("inf"))):
        with pytest.raises(SettingsError, match="of differential_smoothing must be finite and at"):
            DifferentialSmoothing(*gammas)
    with pytest.raises(DataError, match="differential_smoothing reads the log-probs"):
        DifferentialSmoothing()(torch.zeros(1, 2), GroupSamples())


@pytest.mark.usefixtures("no_type_checks")
def test_what_is_neither_sum_nor_mean_is_refused():
    with pytest.raises(SettingsError, match="'sum' or 'mean', got 'max'"):
        DifferentialSmoothing(logprob="max")
