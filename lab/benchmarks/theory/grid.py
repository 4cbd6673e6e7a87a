"""The theorem over random problems: how often what it assumes holds, and how often it is false."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lab.benchmarks.theory.bound import (
    Bound,
    DivergenceName,
    Policies,
    bonus,
    margin,
    near_the_reference,
    theorem_1,
    trust_region,
)
from lab.benchmarks.theory.mdp import MDP, Array, random_mdp

GAMMAS = (0.0, 0.3, 0.6, 0.9, 0.99)
SHAPES = ((1, 2), (2, 2), (4, 3))
"""States and actions."""
SEEDS = 20
TOWARDS_BEST = (0.01, 0.1, 0.5, 0.9)
"""How much of the reference policy is the best one; the rest is the old policy."""
DIVERGENCES: tuple[DivergenceName, ...] = ("forward_kl", "jensen_shannon")
PATH = (0.0, 0.25, 0.5, 1.0)
"""How far the trained policy has come from the old one to the reference."""


@dataclass(frozen=True, slots=True)
class Case:
    """One evaluation; ``assumed`` is whether delta > 0, ``useful`` whether eps_f > 0 as well."""

    gamma: float
    assumed: bool
    useful: bool
    theorem: Bound
    trust_region: Bound
    reference: Bound


@dataclass(frozen=True, slots=True)
class Row:
    """The cases of one gamma, counted."""

    gamma: float
    cases: int
    assumed: int
    useful: int
    false: int
    trust_region_false: int
    reference_false: int


def policies_of(mdp: MDP, *, seed: int) -> Iterator[Policies]:
    """Random old policies, references that lie from them towards the best, policies between."""
    random = np.random.default_rng([seed, 1])
    states, actions = mdp.rewards.shape
    old: Array = random.dirichlet(np.ones(actions), states)
    best = mdp.best_policy()
    for share in TOWARDS_BEST:
        reference = (1 - share) * old + share * best
        for way in PATH:
            yield Policies(policy=(1 - way) * old + way * reference, old=old, reference=reference)


def cases(gammas: Sequence[float] = GAMMAS, *, seeds: int = SEEDS) -> Iterator[Case]:
    """Every evaluation of the grid."""
    for gamma in gammas:
        for states, actions in SHAPES:
            for seed in range(seeds):
                mdp = random_mdp(states, actions, gamma, seed=seed)
                for policies in policies_of(mdp, seed=seed):
                    for name in DIVERGENCES:
                        yield _case(mdp, policies, name)


def table(rows: Sequence[Row]) -> str:
    """The rows as markdown."""
    head = (
        "| gamma | evaluations | delta > 0 | and eps_f > 0 | of these the theorem is false "
        "| trust region false | reference bound false |\n|---|---:|---:|---:|---:|---:|---:|\n"
    )
    return head + "".join(
        f"| {row.gamma:g} | {row.cases} | {row.assumed} | {row.useful} | {row.false} "
        f"| {row.trust_region_false} | {row.reference_false} |\n"
        for row in rows
    )


def count(found: Iterator[Case]) -> list[Row]:
    """One row for every gamma."""
    by_gamma: dict[float, list[Case]] = {}
    for case in found:
        by_gamma.setdefault(case.gamma, []).append(case)
    return [
        Row(
            gamma=gamma,
            cases=len(group),
            assumed=sum(case.assumed for case in group),
            useful=sum(case.useful for case in group),
            false=sum(case.useful and not case.theorem.holds for case in group),
            trust_region_false=sum(not case.trust_region.holds for case in group),
            reference_false=sum(not case.reference.holds for case in group),
        )
        for gamma, group in by_gamma.items()
    ]


def _case(mdp: MDP, policies: Policies, name: DivergenceName) -> Case:
    delta = margin(mdp, policies, over="policy")
    eps_f = bonus(mdp, policies, delta=delta, name=name)
    assumed = delta > 1e-9
    return Case(
        gamma=mdp.gamma,
        assumed=assumed,
        useful=assumed and eps_f > 1e-9,
        theorem=theorem_1(mdp, policies, eps_f=eps_f),
        trust_region=trust_region(mdp, policies),
        reference=near_the_reference(mdp, policies, name=name),
    )
