"""Terms that choose tokens over a whole mini-batch by their covariance: clip_cov and kl_cov."""

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch

from dph.errors import DataError, SettingsError
from dph.loss.objectives import ChoosesTokens, ClipCov, KLCov
from dph.loss.objectives.surrogates import (
    check_share,
    clipped_policy_loss,
    share_of,
    token_covariances,
)
from new_samples import policy_tokens


def batch(old_shift=0.0):
    """Eight tokens; log pi has the mean -2, A the mean 0."""
    logprobs = torch.tensor([[-1.0, -0.5, -1.75, 1.0], [-1.0, -2.0, -2.0, -8.75]])
    logprobs = logprobs.double()
    return policy_tokens(logprobs, [2.0, -2.0], old=logprobs - old_shift)


def test_each_token_has_its_part_of_the_covariance_over_all_tokens():
    expected = [[2.0, 3.0, 0.5, 6.0], [-2.0, 0.0, 0.0, 13.5]]
    torch.testing.assert_close(token_covariances(batch()), torch.tensor(expected).double())
    # means over the three tokens that count: log pi -3, A (3 + 3 + 0) / 3 = 2
    tokens = policy_tokens(
        [[-1.0, -3.0], [-5.0, 9.0]], [3.0, 0.0], mask=[[True] * 2, [True, False]]
    )
    assert token_covariances(tokens).tolist() == [[2.0, 0.0], [4.0, -math.inf]]


def test_the_parts_add_up_to_the_covariance():
    torch.manual_seed(0)
    tokens = policy_tokens(-torch.rand(5, 4), torch.randn(5))
    advantages = tokens.advantages[:, None].expand(5, 4).flatten()
    joint = torch.stack([tokens.logprobs.flatten(), advantages])
    expected = float(torch.cov(joint, correction=0)[0, 1])
    assert float(token_covariances(tokens).mean()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("share", "tokens", "expected"), [(0.5, 7, 3), (2e-4, 7, 1), (1.0, 7, 7), (0.5, 0, 0)]
)
def test_a_share_is_rounded_down_and_at_least_one_token(share, tokens, expected):
    assert share_of(torch.arange(10)[None] < tokens, share) == expected


def test_clip_cov_chooses_only_tokens_strictly_between_the_bounds():
    chosen = ClipCov(share=1.0).choose(batch(), 0)
    assert chosen.tolist() == [[True, True, False, False], [False] * 4]
    at_bounds = ClipCov(share=1.0, cov_low=2.0, cov_high=6.0).choose(batch(), 0)
    assert at_bounds.tolist() == [[False, True, False, False], [False] * 4]


@pytest.mark.parametrize(
    ("shift", "options", "rows"),
    [
        (0.3, {}, [0, 0]),  # A > 0 and r = e^0.3 > 1.2 in the whole first row
        (0.3, {"clip_high": 0.4}, [2, 0]),
        # A < 0 and r = e^-0.3 < 0.8 in the whole second row, which has a candidate below 20
        (-0.3, {"cov_high": 20.0}, [3, 0]),
        (-0.3, {"cov_high": 20.0, "clip_low": 0.4}, [3, 1]),
    ],
)
def test_tokens_whose_ratio_is_clipped_already_are_not_chosen(shift, options, rows):
    chosen = ClipCov(share=1.0, **options).choose(batch(old_shift=shift), 0)
    assert chosen.sum(-1).tolist() == rows


def test_the_share_is_of_all_tokens_and_the_draw_is_fair_whatever_the_padding():
    tokens, term, counts = batch(), ClipCov(share=0.125), Counter()  # one of eight
    names = ("logprobs", "old_logprobs", "ref_logprobs", "mask")
    padded = {name: torch.nn.functional.pad(getattr(tokens, name), (0, 3)) for name in names}
    wider = replace(tokens, **padded)
    for seed in range(400):
        chosen = term.choose(tokens, seed)
        assert chosen.sum() == 1
        counts[int(chosen.flatten().nonzero())] += 1
        if seed < 20:
            assert torch.equal(chosen, term.choose(tokens, seed))
            assert torch.equal(torch.nn.functional.pad(chosen, (0, 3)), term.choose(wider, seed))
    assert set(counts) == {0, 1}
    assert 150 <= counts[0] <= 250  # five standard errors of a fair coin


def test_chosen_tokens_leave_the_loss_and_the_others_are_as_they_were():
    tokens = batch()
    leaf = tokens.logprobs.clone().requires_grad_()
    chosen = ClipCov(share=1.0).choose(tokens, 0)
    found = ClipCov()(replace(tokens, logprobs=leaf, chosen=chosen)).loss
    plain = clipped_policy_loss(
        leaf, tokens.old_logprobs, tokens.advantages, clip_low=0.2, clip_high=0.2
    ).loss
    (gradient,) = torch.autograd.grad(found.sum(), leaf)
    (expected,) = torch.autograd.grad(plain.sum(), leaf)
    assert torch.equal(gradient, torch.where(chosen, 0.0, expected))
    assert torch.equal(found, torch.where(chosen, 0.0, plain))


def test_kl_cov_chooses_the_tokens_of_highest_covariance_within_the_mask():
    assert KLCov().choose(batch(), 0).tolist() == [[False] * 4, [False, False, False, True]]
    half = KLCov(share=0.5).choose(batch(), 0)
    assert half.tolist() == [[True, True, False, True], [False, False, False, True]]
    mask = torch.tensor([[True, True, False, False], [True, False, False, False]])
    tokens = replace(batch(), mask=mask)
    assert torch.equal(KLCov(share=1.0).choose(tokens, 0), mask)


def test_the_distance_to_the_old_policy_counts_at_the_chosen_tokens_alone():
    leaf = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([[-1.5, -1.5], [-3.0, -3.0]], dtype=torch.float64)
    chosen = torch.tensor([[True, True], [True, False]])
    tokens = replace(policy_tokens(leaf.detach(), [1.0, -1.0], old=old), chosen=chosen)
    values = KLCov()(replace(tokens, logprobs=leaf))
    assert values.tolist() == [[0.5, 0.5], [0.0, 0.0]]
    (gradient,) = torch.autograd.grad(values.sum(), leaf)
    # the sign of the distance; 0 where there is none yet
    assert gradient.tolist() == [[1.0, -1.0], [0.0, 0.0]]


@pytest.mark.parametrize("term", [ClipCov(), KLCov()])
def test_a_term_that_chooses_refuses_tokens_of_which_none_were_chosen(term):
    assert isinstance(term, ChoosesTokens)
    with pytest.raises(DataError, match="none were chosen"):
        term(batch())


def test_bounds_the_wrong_way_round_and_a_share_out_of_range_are_refused():
    with pytest.raises(SettingsError, match=r"cov_low must be below cov_high, got 5\.0, 1\.0"):
        ClipCov(cov_low=5.0, cov_high=1.0)
    for share in (0.0, 1.5, math.nan):
        with pytest.raises(SettingsError, match="kl_cov: share must be above 0 and at most 1, got"):
            check_share("kl_cov", share)
