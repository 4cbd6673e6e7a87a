import math

import pytest
import torch

from dph.errors import SettingsError
from dph.loss.objectives.surrogates import check_share, share_of, token_covariances
from new_samples import policy_tokens


def test_each_token_has_its_part_of_the_covariance_over_all_tokens():
    # means over the four tokens that count: log pi -2, A (3 * 1 - 3) / 4 = 0
    tokens = policy_tokens(
        [[-1.0, -2.0, -3.0], [-2.0, 7.0, 7.0]],
        [1.0, -3.0],
        mask=[[True, True, True], [True, False, False]],
    )
    nothing = -math.inf
    expected = [[1.0, 0.0, -1.0], [0.0, nothing, nothing]]
    assert token_covariances(tokens).tolist() == expected


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
    mask = torch.arange(10)[None] < tokens
    assert share_of(mask, share) == expected


@pytest.mark.parametrize("share", [0.0, 1.5, math.nan])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(SettingsError, match="kl_cov: share must be above 0 and at most 1, got"):
        check_share("kl_cov", share)


def test_advantages_count_by_how_far_they_are_from_their_mean():
    # means over the three tokens that count: log pi -3, A (3 + 3 + 0) / 3 = 2
    tokens = policy_tokens(
        [[-1.0, -3.0], [-5.0, 9.0]], [3.0, 0.0], mask=[[True] * 2, [True, False]]
    )
    assert token_covariances(tokens).tolist() == [[2.0, 0.0], [4.0, -math.inf]]
