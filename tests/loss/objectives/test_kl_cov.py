from dataclasses import replace

import pytest
import torch

from dph.errors import DataError
from dph.loss.objectives import ChoosesTokens, KLCov
from new_samples import policy_tokens


def batch():
    """Covariances 2, 3, 0.5, 6 and -2, 0, 0, 13.5 (see test_clip_cov)."""
    logprobs = torch.tensor([[-1.0, -0.5, -1.75, 1.0], [-1.0, -2.0, -2.0, -8.75]])
    return policy_tokens(logprobs, [2.0, -2.0])


def test_it_chooses_the_tokens_of_highest_covariance():
    assert isinstance(KLCov(), ChoosesTokens)
    assert KLCov().choose(batch(), 0).tolist() == [[False] * 4, [False, False, False, True]]
    half = KLCov(share=0.5).choose(batch(), 0)
    assert half.tolist() == [[True, True, False, True], [False, False, False, True]]


def test_tokens_outside_the_mask_are_never_chosen():
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


def test_without_a_choice_there_is_no_penalty():
    with pytest.raises(DataError, match="none were chosen"):
        KLCov()(batch())
