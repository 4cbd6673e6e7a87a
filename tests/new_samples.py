"""New samples for the tests of terms."""

import torch

from dph.loss.objectives import PolicyTokens


def policy_tokens(logprobs, advantages, *, old=None, mask=None):
    """Tokens of the policy, float64; on policy unless ``old`` is given, all of them counting."""
    logprobs = torch.as_tensor(logprobs, dtype=torch.float64)
    old = logprobs.detach() if old is None else torch.as_tensor(old, dtype=torch.float64)
    everywhere = torch.ones_like(logprobs, dtype=torch.bool)
    return PolicyTokens(
        logprobs=logprobs,
        old_logprobs=old,
        ref_logprobs=torch.zeros_like(logprobs),
        mask=everywhere if mask is None else torch.as_tensor(mask),
        advantages=torch.as_tensor(advantages, dtype=torch.float64),
    )
