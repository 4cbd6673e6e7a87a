"""A method that is not in the package: three engines are given it by its import path alone."""

import torch

RELATIVE = "own_advantage:relative_to_mean"
COMPARING = "own_advantage:nearness"
SURPRISING = "own_advantage:surprise"


def relative_to_mean(rewards):
    """(r - mean) / mean of every group; 0 where nobody was rewarded."""
    mean = rewards.mean(-1, keepdim=True)
    return torch.where(mean > 0, (rewards - mean) / mean, 0.0)


def nearness(rewards, samples):
    """R - mean, less a tenth of log(pi / pi_ref) of the answer."""
    ratio = samples.logprobs - samples.ref_logprobs
    return rewards - rewards.mean(-1, keepdim=True) - 0.1 * ratio


nearness.reads = frozenset({"logprobs", "ref_logprobs"})


def surprise(rewards, samples):
    """R - mean, less a tenth of the mean log-prob of the answer's tokens."""
    return rewards - rewards.mean(-1, keepdim=True) - 0.1 * samples.logprobs / samples.lengths


surprise.reads = frozenset({"logprobs"})
