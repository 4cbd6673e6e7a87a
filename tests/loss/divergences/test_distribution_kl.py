"""The KL of buckets: against the whole vocabulary, by enumeration."""

import math

import pytest
import torch

from dph.errors import SettingsError
from dph.loss.divergences import DistributionDivergence, DistributionKL
from dph.model.forward.over_vocabulary import bucket_logprobs

WORDS = 24


def distributions(seed=0, positions=6, distance=0.7):
    """What is stored, q, and the policy's logits, which have moved away from it."""
    generator = torch.Generator().manual_seed(seed)
    base = 2 * torch.randn(positions, WORDS, dtype=torch.float64, generator=generator)
    moved = base + distance * torch.randn(base.shape, dtype=torch.float64, generator=generator)
    return base.log_softmax(-1), moved.requires_grad_()


def of_top(q, logits, k):
    """The value with the k likeliest tokens of q and one bucket for the others."""
    ids = q.topk(k, dim=-1).indices
    pi = logits.log_softmax(-1)
    return DistributionKL().over_buckets(bucket_logprobs(q, ids), bucket_logprobs(pi, ids))


def whole(q, logits):
    return (q.exp() * (q - logits.log_softmax(-1))).sum(-1)


def gradient(values, logits):
    return torch.autograd.grad(values.sum(), logits)[0]


def test_it_is_a_divergence_from_distributions():
    assert isinstance(DistributionKL(), DistributionDivergence)


def test_with_every_token_stored_value_and_gradient_are_those_of_the_whole():
    q, logits = distributions()
    found, expected = of_top(q, logits, WORDS), whole(q, logits)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(gradient(found, logits), gradient(expected, logits))


@pytest.mark.parametrize("k", [1, 4, 8, 16])
def test_the_value_is_the_sum_over_tokens_and_the_rest_written_out(k):
    q, logits = distributions()
    found = of_top(q, logits, k).tolist()
    for position in range(len(q)):
        p = q[position].exp().tolist()
        pi = logits[position].softmax(-1).tolist()
        stored = sorted(range(WORDS), key=lambda v: -p[v])[:k]
        rest = [v for v in range(WORDS) if v not in stored]
        expected = sum(p[v] * math.log(p[v] / pi[v]) for v in stored)
        q_rest, pi_rest = (sum(x[v] for v in rest) for x in (p, pi))
        expected += q_rest * math.log(q_rest / pi_rest)
        assert found[position] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("k", [1, 4, 8, 16])
def test_buckets_never_see_more_than_the_whole_and_never_less_than_nothing(k):
    for seed in range(20):
        q, logits = distributions(seed)
        found = of_top(q, logits, k)
        assert (found >= -1e-12).all()
        assert (found <= whole(q, logits) + 1e-12).all()


def test_the_bias_of_the_gradient_falls_with_the_tokens_stored_and_is_none_with_all():
    biases = []
    for k in (1, 4, 8, 16, WORDS):
        off, size = 0.0, 0.0
        for seed in range(30):
            q, logits = distributions(seed)
            exact = gradient(whole(q, logits), logits)
            off += float((gradient(of_top(q, logits, k), logits) - exact).square().sum())
            size += float(exact.square().sum())
        biases.append(math.sqrt(off / size))
    assert biases == sorted(biases, reverse=True)
    assert biases[0] > 2 * biases[2] > 0
    assert biases[-1] < 1e-12


def test_the_gradient_is_the_policys_mass_less_the_targets_in_every_bucket():
    q, logits = distributions()
    ids = q.topk(3, dim=-1).indices
    found = gradient(of_top(q, logits, 3), logits)
    p, pi = q.exp(), logits.detach().softmax(-1)
    expected = pi.clone()
    for position, stored in enumerate(ids.tolist()):
        rest = [v for v in range(WORDS) if v not in stored]
        expected[position, stored] -= p[position, stored]
        share = pi[position, rest] / pi[position, rest].sum()
        expected[position, rest] -= p[position, rest].sum() * share
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_it_is_zero_with_no_pull_where_the_policy_is_the_target():
    q, _ = distributions()
    logits = q.clone().requires_grad_()
    found = of_top(q, logits, 5)
    assert found.abs().max() < 1e-12
    assert gradient(found, logits).abs().max() < 1e-12


def test_only_answers_that_fell_below_the_floor_count():
    log_ratio = torch.tensor([0.5, 0.0, math.log(0.41), math.log(0.39), -30.0])
    assert DistributionKL(floor=0.4).counting(log_ratio).tolist() == [False] * 3 + [True] * 2
    assert DistributionKL(floor=1.0).counting(log_ratio).tolist() == [False] * 2 + [True] * 3
    assert DistributionKL().counting(log_ratio).all()


@pytest.mark.parametrize("floor", [-0.1, 1.1, math.nan])
def test_a_floor_that_is_no_share_is_refused(floor):
    with pytest.raises(SettingsError, match=r"distribution_kl: floor must lie in \[0, 1\], got"):
        DistributionKL(floor=floor)
