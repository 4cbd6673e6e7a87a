"""Two families of problems, in which the theorem asks for more than there can be.

On one state without a future J and L are the same function, so the left side is 0 whatever the
policy. And before the first update (pi = pi_old) the left side is 0 in every problem, while eps_f
is positive as soon as the reference is a little better than the policy, and near enough to it:
delta is of the first order in their distance, alpha_2 of the second.
"""

from collections.abc import Iterator

import numpy as np

from lab.benchmarks.theory.bound import Bound, Policies, bonus, margin, theorem_1
from lab.benchmarks.theory.mdp import MDP, bandit, random_mdp

GAMMAS = (0.0, 0.5, 0.9, 0.99)
SHARES = (0.5, 0.1, 0.01, 0.001, 0.0001)


def disputed_case(right: float, reference: float) -> tuple[float, Bound]:
    """Delta and the theorem's two sides: two actions, rewards 1 and 0, one state, gamma 0.

    The policy takes the right action with probability ``right``, its reference with ``reference``;
    the old policy is uniform. (By hand: delta = reference - right, and both J and L are ``right``.)
    """
    mdp = bandit(np.array([1.0, 0.0]))
    policies = Policies(
        policy=np.array([[right, 1 - right]]),
        old=np.array([[0.5, 0.5]]),
        reference=np.array([[reference, 1 - reference]]),
    )
    delta = margin(mdp, policies, over="policy")
    eps_f = bonus(mdp, policies, delta=delta, name="forward_kl")
    return delta, theorem_1(mdp, policies, eps_f=eps_f)


def at_the_start(mdp: MDP, share: float, *, scale: float = 1.0) -> tuple[float, Bound]:
    """eps_f and the two sides before the first update, under a reference that is a little better.

    The old policy is uniform and so is the policy; the reference is ``share`` of the best policy
    and else uniform. ``scale`` multiplies C_f.
    """
    states, actions = mdp.rewards.shape
    uniform = np.full((states, actions), 1 / actions)
    reference = (1 - share) * uniform + share * mdp.best_policy()
    policies = Policies(policy=uniform, old=uniform, reference=reference)
    delta = margin(mdp, policies, over="policy")
    eps_f = bonus(mdp, policies, delta=delta, name="forward_kl", scale=scale)
    return eps_f, theorem_1(mdp, policies, eps_f=eps_f)


def bandit_table() -> str:
    """The disputed case as markdown."""
    pairs = [(0.5, 0.6), (0.5, 0.9), (0.7, 0.9), (0.9, 0.9), (0.95, 0.9), (0.9, 1.0)]
    head = "| P(right) | of pi_ref | delta | left side | right side | |\n"
    head += "|---:|---:|---:|---:|---:|---|\n"
    return head + "".join(_bandit_rows(pairs))


def start_table() -> str:
    """eps_f before the first update, where the left side is 0, as markdown."""
    head = (
        "| gamma | "
        + " | ".join(f"share {share:g}" for share in SHARES)
        + " |\n|---"
        + "|---:" * len(SHARES)
        + "|\n"
    )
    rows = []
    for gamma in GAMMAS:
        mdp = random_mdp(4, 3, gamma, seed=0)
        values = [at_the_start(mdp, share)[0] for share in SHARES]
        rows.append(f"| {gamma:g} | " + " | ".join(f"{v:.3g}" for v in values) + " |\n")
    return head + "".join(rows)


def _bandit_rows(pairs: list[tuple[float, float]]) -> Iterator[str]:
    for right, reference in pairs:
        delta, bound = disputed_case(right, reference)
        verdict = "no claim" if delta <= 1e-12 else "holds" if bound.holds else "**false**"
        claim = f"{bound.right:.2f}" if delta > 1e-12 else "-"
        yield (
            f"| {right:g} | {reference:g} | {delta:.2f} | {bound.left + 0.0:.2f} | {claim} "
            f"| {verdict} |\n"
        )
