"""A policy that can be enumerated: expectations of its gradient are sums over all groups."""

from itertools import product
from math import prod

import torch

LOGITS = (0.3, -0.7, 0.9, -1.6)
"""Four answers: 0.29, 0.11, 0.53 and 0.04 likely, roughly."""


def probabilities():
    return torch.tensor(LOGITS, dtype=torch.float64).softmax(-1)


def all_groups(n):
    """Every group of n answers, a row each, and how likely it is."""
    likely = probabilities()
    rows = list(product(range(len(LOGITS)), repeat=n))
    weights = [prod(float(likely[answer]) for answer in row) for row in rows]
    return torch.tensor(rows), torch.tensor(weights, dtype=torch.float64)


def expected_gradient(advantages, groups, weights):
    """E[(1/n) sum of A_i grad log pi(y_i)] with respect to the logits."""
    scores = torch.eye(len(LOGITS), dtype=torch.float64) - probabilities()
    each = (advantages[..., None] * scores[groups]).mean(1)
    return (weights[:, None] * each).sum(0)


def gradient_of(objective):
    logits = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(objective(logits.softmax(-1)), logits)
    return gradient


def mean_of_the_best(rewards, k):
    """As a function of the probabilities: the mean of the largest of k answers' rewards."""

    def objective(likely):
        return sum(
            torch.stack([likely[answer] for answer in row]).prod() * max(rewards[a] for a in row)
            for row in product(range(len(LOGITS)), repeat=k)
        )

    return objective


def all_binary_groups(n):
    return torch.tensor(list(product((0.0, 1.0), repeat=n)), dtype=torch.float64)
