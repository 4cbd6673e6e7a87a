"""Terms of a user: a surrogate without clipping, and a penalty on confident tokens."""

import torch

from dph.loss.objectives import PolicyTerm

PLAIN, CONFIDENT, READING = "own_terms:plain", "own_terms:confident", "own_terms:Reading"


def plain(tokens):
    """-A r, unclipped."""
    ratio = (tokens.logprobs - tokens.old_logprobs).exp()
    never = torch.zeros_like(tokens.mask)
    return PolicyTerm(
        loss=-tokens.advantages[:, None] * ratio, clipped_low=never, clipped_high=never
    )


class Reading:
    """The same, of a surrogate that asks for the initial policy's log-probs."""

    reads_reference = True

    def __call__(self, tokens):
        return plain(tokens)


def confident(tokens, power=2.0):
    return (power * tokens.logprobs).exp()
