import torch

from dph.loss.objectives import ClippedSurrogate, UnclippedSurrogate
from new_samples import policy_tokens

LOGPROBS, OLD = [[-1.0, -2.0], [-3.0, -1.0]], [[-2.0, -2.0], [-1.0, -1.1]]


def test_the_loss_is_minus_ratio_times_advantage_everywhere():
    tokens = policy_tokens(LOGPROBS, [2.0, -1.0], old=OLD)
    term = UnclippedSurrogate()(tokens)
    ratio = (tokens.logprobs - tokens.old_logprobs).exp()
    torch.testing.assert_close(term.loss, -torch.tensor([[2.0], [-1.0]]).double() * ratio)
    assert not term.clipped_low.any()
    assert not term.clipped_high.any()


def test_it_is_the_clipped_loss_where_no_bound_is_active():
    tokens = policy_tokens(LOGPROBS, [2.0, -1.0])
    torch.testing.assert_close(UnclippedSurrogate()(tokens).loss, ClippedSurrogate()(tokens).loss)
