"""Both sides of Theorem 1 of arXiv:2509.07430, and of the inequalities that do hold.

The theorem as we have it (not from the paper but from somebody's transcription, docs/theory.md):

    J(pi) - L_old(pi) >= -2 gamma alpha_1 eps_pi / (1 - gamma)^2 + eps_f
    eps_f = delta / (1 - gamma) - C_f gamma alpha_2 eps_ref / (1 - gamma)^2

    alpha_1 = max over states of KL(pi || pi_old)      eps_pi = max |A of pi|
    alpha_2 = max over states of D_f(pi || pi_ref)     eps_ref = max |A of pi_ref|
    Assumption 1: in every state, E over pi_ref of A (of pi) >= delta > 0

``delta`` below is the largest that the assumption allows; it is evaluated for the advantages of pi
and for those of pi_old, since the transcription does not say which.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from lab.benchmarks.theory.mdp import MDP, Array

DivergenceName = Literal["forward_kl", "reverse_kl", "jensen_shannon"]

C_F: dict[DivergenceName, float] = {"forward_kl": 0.5, "reverse_kl": 0.5, "jensen_shannon": 1.0}
"""The constants of TV^2 <= C_f D_f: Pinsker's, and Pinsker's on both halves of Jensen-Shannon,
whose generator u log u - (u + 1) log((u + 1) / 2) is the sum of the halves, not their mean."""


def kl(p: Array, q: Array) -> Array:
    """KL(p || q) of every row, nats; inf where q lacks what p has."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * (np.log(p) - np.log(q)), 0.0)
    return np.asarray(terms.sum(-1))


def divergence(name: DivergenceName, policy: Array, reference: Array) -> Array:
    """D_f(policy || reference) of every row: E over the reference of f(policy / reference)."""
    if name == "reverse_kl":
        return kl(policy, reference)
    if name == "forward_kl":
        return kl(reference, policy)
    middle = (policy + reference) / 2
    return kl(policy, middle) + kl(reference, middle)


def total_variation(p: Array, q: Array) -> Array:
    """Half the sum of |p - q| of every row."""
    return np.asarray(np.abs(p - q).sum(-1) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The trained, the old and the reference policy."""

    policy: Array
    old: Array
    reference: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """An inequality left >= right."""

    left: float
    right: float

    @property
    def holds(self) -> bool:
        """Up to the rounding of a few solves."""
        return self.left >= self.right - 1e-9 * max(1.0, abs(self.left), abs(self.right))


def margin(mdp: MDP, policies: Policies, *, over: Literal["policy", "old"]) -> float:
    """The largest delta of Assumption 1: min over states of E over pi_ref of the advantage."""
    base = policies.policy if over == "policy" else policies.old
    return float((policies.reference * mdp.advantages(base)).sum(-1).min())


def bonus(
    mdp: MDP, policies: Policies, *, delta: float, name: DivergenceName, scale: float = 1.0
) -> float:
    """eps_f of the theorem, with ``scale`` times C_f."""
    alpha = float(divergence(name, policies.policy, policies.reference).max())
    largest = float(np.abs(mdp.advantages(policies.reference)).max())
    price = scale * C_F[name] * mdp.gamma * alpha * largest / (1 - mdp.gamma) ** 2
    return delta / (1 - mdp.gamma) - (price if mdp.gamma else 0.0)  # 0 * inf is NaN


def theorem_1(mdp: MDP, policies: Policies, *, eps_f: float) -> Bound:
    """J(pi) - L_old(pi) against the theorem's right side with this ``eps_f``."""
    return Bound(
        left=mdp.value(policies.policy) - mdp.surrogate(policies.policy, policies.old),
        right=_trust_region(mdp, policies, advantages_of=policies.policy) + eps_f,
    )


def trust_region(mdp: MDP, policies: Policies) -> Bound:
    """What holds of it: TRPO's bound (arXiv:1502.05477, theorem 1), with Pinsker's inequality.

    J(pi) - L_old(pi) >= -2 gamma alpha_1 eps / (1 - gamma)^2, eps = max |A of pi_old|.
    """
    return Bound(
        left=mdp.value(policies.policy) - mdp.surrogate(policies.policy, policies.old),
        right=_trust_region(mdp, policies, advantages_of=policies.old),
    )


def near_the_reference(mdp: MDP, policies: Policies, *, name: DivergenceName) -> Bound:
    """What closeness to the reference does give, over the *old* policy and not over L.

    J(pi) - J(old) >= delta / (1 - gamma) - 2 sqrt(C_f alpha_2) eps_ref / (1 - gamma),
    delta = min over states of E over pi_ref of A_old.

    Proof: by the performance difference J(ref) - J(old) = sum of visits_ref E_ref A_old, which is
    at least delta / (1 - gamma). And J(pi) - J(ref) = sum of visits_pi E_pi A_ref, where
    E_ref A_ref = 0, so that |E_pi A_ref| <= 2 TV(pi, ref) eps_ref, and TV <= sqrt(C_f D_f).
    """
    delta = margin(mdp, policies, over="old")
    alpha = float(divergence(name, policies.policy, policies.reference).max())
    largest = float(np.abs(mdp.advantages(policies.reference)).max())
    loss = 2 * np.sqrt(C_F[name] * alpha) * largest
    return Bound(
        left=mdp.value(policies.policy) - mdp.value(policies.old),
        right=float((delta - loss) / (1 - mdp.gamma)),
    )


def _trust_region(mdp: MDP, policies: Policies, *, advantages_of: Array) -> float:
    alpha = float(kl(policies.policy, policies.old).max())
    largest = float(np.abs(mdp.advantages(advantages_of)).max())
    return -2 * mdp.gamma * alpha * largest / (1 - mdp.gamma) ** 2
