from collections import Counter
from dataclasses import replace

import pytest
import torch

from dph.errors import DataError, SettingsError
from dph.loss.objectives import ChoosesTokens, ClipCov
from dph.loss.objectives.surrogates import clipped_policy_loss
from new_samples import policy_tokens


def batch(old_shift=0.0):
    """Eight tokens; log pi has the mean -2, A the mean 0.

    The covariances are 2, 3, 0.5, 6 in the first row and -2, 0, 0, 13.5 in the second.
    """
    logprobs = torch.tensor([[-1.0, -0.5, -1.75, 1.0], [-1.0, -2.0, -2.0, -8.75]])
    logprobs = logprobs.double()
    return policy_tokens(logprobs, [2.0, -2.0], old=logprobs - old_shift)


def covariances(tokens):
    advantages = tokens.advantages[:, None].expand_as(tokens.logprobs)
    return (tokens.logprobs - tokens.logprobs.mean()) * (advantages - advantages.mean())


def test_the_batch_is_what_it_says():
    expected = [[2.0, 3.0, 0.5, 6.0], [-2.0, 0.0, 0.0, 13.5]]
    torch.testing.assert_close(covariances(batch()), torch.tensor(expected).double())


def test_it_chooses_tokens():
    assert isinstance(ClipCov(), ChoosesTokens)


def test_only_tokens_strictly_between_the_bounds_are_chosen():
    chosen = ClipCov(share=1.0).choose(batch(), 0)
    assert chosen.tolist() == [[True, True, False, False], [False] * 4]
    at_bounds = ClipCov(share=1.0, cov_low=2.0, cov_high=6.0).choose(batch(), 0)
    assert at_bounds.tolist() == [[False, True, False, False], [False] * 4]


def test_tokens_whose_ratio_is_clipped_already_are_not_chosen():
    # A > 0 and r = e^0.3 > 1.2 in the whole first row
    assert not ClipCov(share=1.0).choose(batch(old_shift=0.3), 0).any()
    assert ClipCov(share=1.0, clip_high=0.4).choose(batch(old_shift=0.3), 0).sum() == 2
    # A < 0 and r = e^-0.3 < 0.8 in the whole second row, which has a candidate below 20
    below = ClipCov(share=1.0, cov_high=20.0).choose(batch(old_shift=-0.3), 0)
    assert below.sum(-1).tolist() == [3, 0]
    wider = ClipCov(share=1.0, cov_high=20.0, clip_low=0.4).choose(batch(old_shift=-0.3), 0)
    assert wider.sum(-1).tolist() == [3, 1]


def test_the_share_is_of_all_tokens_and_the_draw_is_fair():
    counts = Counter()
    for seed in range(400):
        chosen = ClipCov(share=0.125).choose(batch(), seed)  # one of eight
        assert chosen.sum() == 1
        counts[int(chosen.flatten().nonzero())] += 1
    assert set(counts) == {0, 1}
    assert 150 <= counts[0] <= 250  # five standard errors of a fair coin


def test_the_same_seed_draws_the_same_whatever_the_padding():
    tokens = batch()
    wider = replace(
        tokens,
        **{
            name: torch.nn.functional.pad(getattr(tokens, name), (0, 3))
            for name in ("logprobs", "old_logprobs", "ref_logprobs", "mask")
        },
    )
    term = ClipCov(share=0.125)
    for seed in range(20):
        chosen = term.choose(tokens, seed)
        assert torch.equal(chosen, term.choose(tokens, seed))
        assert torch.equal(chosen, term.choose(wider, seed)[:, :4])
        assert not term.choose(wider, seed)[:, 4:].any()


def test_chosen_tokens_leave_the_loss_and_the_others_are_as_they_were():
    tokens = batch()
    leaf = tokens.logprobs.clone().requires_grad_()
    chosen = ClipCov(share=1.0).choose(tokens, 0)
    tokens = replace(tokens, logprobs=leaf, chosen=chosen)
    found = ClipCov().__call__(tokens).loss
    plain = clipped_policy_loss(
        leaf, tokens.old_logprobs, tokens.advantages, clip_low=0.2, clip_high=0.2
    ).loss
    (gradient,) = torch.autograd.grad(found.sum(), leaf)
    (expected,) = torch.autograd.grad(plain.sum(), leaf)
    assert (gradient[chosen] == 0).all()
    assert (found[chosen] == 0).all()
    assert torch.equal(gradient[~chosen], expected[~chosen])
    assert torch.equal(found[~chosen], plain[~chosen])


def test_without_a_choice_there_is_no_loss():
    with pytest.raises(DataError, match="none were chosen"):
        ClipCov()(batch())


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(SettingsError, match=r"cov_low must be below cov_high, got 5\.0, 1\.0"):
        ClipCov(cov_low=5.0, cov_high=1.0)
