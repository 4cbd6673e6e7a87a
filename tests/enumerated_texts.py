"""A policy over texts of one or two tokens, enumerated, and FlowRL by hand in plain floats."""

from math import exp, log, sqrt

import torch

BEGINNINGS = ("", "a", "b")
TOKENS = ("a", "b", ".")
TEXTS = (".", "a.", "aa", "ab", "b.", "ba", "bb")
"""All that the policy can say: the point ends a text, and so does the second token."""
REWARDS = (0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0)
PLACES = tuple(
    tuple((BEGINNINGS.index(text[:at]), TOKENS.index(text[at])) for at in range(len(text)))
    for text in TEXTS
)
"""Of each text's tokens the beginning before it and which token it is."""
INITIAL = ((0.5, -0.2, 0.1), (0.3, 0.9, -0.6), (-0.4, 0.2, 0.0))
OLD = ((0.9, -0.5, 0.3), (0.1, 1.2, -0.2), (-0.9, 0.6, 0.4))
NOW = ((1.4, -0.9, 0.1), (0.6, 0.8, -0.3), (-0.2, 0.1, 0.9))
"""Logits of three policies, a row for each beginning."""


def token_logprobs(logits):
    """Log-probs of each text's tokens and where there are some; differentiable in the logits."""
    table = logits.log_softmax(-1)
    rows = [[table[place] for place in places] + [table.new_zeros(())] for places in PLACES]
    mask = [[at < len(text) for at in range(2)] for text in TEXTS]
    return torch.stack([torch.stack(row[:2]) for row in rows]), torch.tensor(mask)


def text_logprobs(logits):
    return token_logprobs(logits)[0].sum(-1)


def lengths():
    return torch.tensor([len(text) for text in TEXTS])


def target(beta, pulls):
    """Log-probs of pi_0(y) exp(|y| (beta pull - c)), with the c that makes them add up to 1."""
    initial, size = text_logprobs(torch.tensor(INITIAL, dtype=torch.float64)), lengths().double()
    tilted = initial + size * beta * torch.tensor(pulls, dtype=torch.float64)
    low, high = -100.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        above = (tilted - size * middle).logsumexp(0) > 0
        low, high = (middle, high) if above else (low, middle)
    return tilted - size * low


def softmax(row):
    powers = [exp(value) for value in row]
    return [power / sum(powers) for power in powers]


def logprob(logits, text):
    return sum(log(softmax(logits[beginning])[token]) for beginning, token in PLACES[text])


def normalised(rewards):
    mean = sum(rewards) / len(rewards)
    std = sqrt(sum((r - mean) ** 2 for r in rewards) / (len(rewards) - 1))
    return [(r - mean) / (std + 1e-6) for r in rewards]


def flowrl_by_hand(group, *, beta, clip_low, clip_high, now=NOW, old=OLD, initial=INITIAL):
    """FlowRL's loss of a group of texts and its gradient by the logits, a dictionary by place."""
    n = len(group)
    rhat = normalised([REWARDS[text] for text in group])

    def residuals(logits):  # without log Z
        return [
            (logprob(logits, text) - logprob(initial, text)) / len(TEXTS[text]) - beta * r
            for text, r in zip(group, rhat, strict=True)
        ]

    log_z = -sum(residuals(old)) / n
    loss, gradient = 0.0, {}
    for text, residual in zip(group, residuals(now), strict=True):
        delta = log_z + residual
        ratio = exp(logprob(now, text) - logprob(old, text))
        weight = min(max(ratio, 1 - clip_low), 1 + clip_high)
        loss += weight * delta**2 / n
        for beginning, token in PLACES[text]:
            for other, likely in enumerate(softmax(now[beginning])):
                score = (other == token) - likely
                part = 2 * weight * delta * score / len(TEXTS[text]) / n
                place = (beginning, other)
                gradient[place] = gradient.get(place, 0.0) + part
    return loss, gradient
