"""A world small enough to enumerate: every expectation is a finite sum, in float64.

A policy is a table of logits: one row of ``VOCABULARY`` logits for every prefix of up to
``TOKENS`` - 1 tokens. The truths are written on whole distributions, from the definitions in
textbooks, and share no formula with the package.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from torch import Tensor

VOCABULARY, TOKENS = 3, 3
SEQUENCES = torch.tensor(list(product(range(VOCABULARY), repeat=TOKENS)))

# Relative to the truth; sums of 27 x 3 float64 terms of size up to 1e3.
RELATIVE = 1e-10
ABSOLUTE = 1e-12

Definition = Callable[[Tensor, Tensor], Tensor]


def prefix_index(step: int) -> Tensor:
    """Row of the logits table at ``step`` for every sequence."""
    index = torch.zeros(len(SEQUENCES), dtype=torch.long)
    for earlier in range(step):
        index = index * VOCABULARY + SEQUENCES[:, earlier]
    return index


@dataclass(frozen=True)
class Policy:
    logits: list[Tensor]

    def token_logprobs(self) -> Tensor:
        """Log-probs of shape [sequences, tokens]."""
        steps = [
            self.logits[t].log_softmax(-1)[prefix_index(t), SEQUENCES[:, t]] for t in range(TOKENS)
        ]
        return torch.stack(steps, dim=1)

    def probabilities(self) -> Tensor:
        """Probabilities of shape [sequences]."""
        return self.token_logprobs().sum(1).exp()

    def gradient(self, scalar: Tensor) -> Tensor:
        grads = torch.autograd.grad(scalar, self.logits, retain_graph=True, allow_unused=True)
        return torch.cat(
            [
                (torch.zeros_like(table) if grad is None else grad).flatten()
                for grad, table in zip(grads, self.logits, strict=True)
            ]
        )


def make_policy(seed: int, *, near: Policy | None = None, scale: float = 1.0) -> Policy:
    generator = torch.Generator().manual_seed(seed)
    tables = []
    for t in range(TOKENS):
        noise = torch.randn(VOCABULARY**t, VOCABULARY, generator=generator, dtype=torch.float64)
        base = near.logits[t].detach() if near else 0.0
        tables.append((base + scale * noise).requires_grad_())
    return Policy(tables)


REFERENCE = make_policy(0)
NEAR = make_policy(1, near=REFERENCE, scale=0.3)
FAR = make_policy(2, near=REFERENCE, scale=1.5)
REF_LOGPROBS = REFERENCE.token_logprobs().detach()
every_policy = pytest.mark.parametrize("policy", [NEAR, FAR], ids=["near", "far"])


def prefix_probabilities(policy: Policy, step: int) -> Tensor:
    """Probability of every prefix of ``step`` tokens, without gradient."""
    return policy.probabilities().detach().reshape(VOCABULARY**step, -1).sum(1)


def token_truth(definition: Definition, policy: Policy, *, prefixes: Policy) -> Tensor:
    """Sum over steps of E_prefix[ definition(pi(.|prefix), pi_ref(.|prefix)) ].

    The prefixes are distributed as ``prefixes`` and carry no gradient.
    """
    total = torch.zeros((), dtype=torch.float64)
    for t in range(TOKENS):
        pi, ref = policy.logits[t].softmax(-1), REFERENCE.logits[t].softmax(-1).detach()
        total = total + (prefix_probabilities(prefixes, t) * definition(pi, ref)).sum()
    return total


def sequence_truth(definition: Definition, policy: Policy) -> Tensor:
    return definition(policy.probabilities(), REFERENCE.probabilities().detach())


def forward_kl(pi: Tensor, ref: Tensor) -> Tensor:
    return (ref * (ref.log() - pi.log())).sum(-1)


def reverse_kl(pi: Tensor, ref: Tensor) -> Tensor:
    return (pi * (pi.log() - ref.log())).sum(-1)


def reference_to_mixture(pi: Tensor, ref: Tensor) -> Tensor:
    return (ref * (ref.log() - ((pi + ref) / 2).log())).sum(-1)


def policy_to_mixture(pi: Tensor, ref: Tensor) -> Tensor:
    return (pi * (pi.log() - ((pi + ref) / 2).log())).sum(-1)


def twice_jensen_shannon(pi: Tensor, ref: Tensor) -> Tensor:
    return reference_to_mixture(pi, ref) + policy_to_mixture(pi, ref)


def alpha(a: float) -> Definition:
    return lambda pi, ref: ((pi ** (1 - a) * ref**a).sum(-1) - 1) / (a * (a - 1))


def expectation(probabilities: Tensor, token_values: Tensor) -> Tensor:
    """Sum over tokens, mean over sequences drawn with ``probabilities`` (no gradient)."""
    return (probabilities.detach() * token_values.sum(1)).sum()


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=RELATIVE, atol=ABSOLUTE)


def assert_different(actual: Tensor, expected: Tensor) -> None:
    assert (actual - expected).norm() > 1e-3 * expected.norm()
