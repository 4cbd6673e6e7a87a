"""Advantages from the rewards of a group: a row for each that a recipe can name.

To add one to the package: a file with the formula, a row here, a test against an oracle. With
``method`` it is a named method too, GRPO with that advantage: docs/methods.md, the labels of
reports, quickstarts and studies know it by that row.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from dph._base.import_path import is_import_path, load_callable
from dph.recipe.section import Whole
from dph.recipe.terms import LOGPROBS, REF_LOGPROBS, Method, Term, parameters

_SCALE = (
    Literal["std", "none"],
    Field("std", description="divide by the group's standard deviation, or not"),
)

ADVANTAGES: Mapping[str, Term] = MappingProxyType(
    {
        "group": Term(
            path="dph.loss.objectives.advantages:GroupAdvantage",
            summary="reward minus the group's mean (GRPO, Dr. GRPO)",
            parameters=parameters(scale=_SCALE),
        ),
        "maxrl": Term(
            path="dph.loss.objectives.advantages:MaxRL",
            counts=True,
            summary="reward minus the group's mean, in units of the mean (MaxRL)",
            parameters=parameters(),
            method=Method(
                label="MaxRL",
                source="arXiv:2602.02710",
                formula="A = (r - mean) / mean, 0 where mean = 0",
                use="with hard problems and rewards of 0 and 1",
            ),
        ),
        "f_grpo": Term(
            path="dph.loss.objectives.advantages:FocalAdvantage",
            counts=True,
            summary="GRPO's times (1 - success rate)^gamma (F-GRPO)",
            parameters=parameters(
                gamma=(float, Field(0.5, ge=0, description="power of the failure rate; 0: GRPO")),
                scale=_SCALE,
            ),
            method=Method(
                label="F-GRPO",
                source="arXiv:2602.06717",
                strength="objective.advantage.gamma",
                formula="A = (1 - mean)^gamma A_GRPO",
                use="if many problems are easy",
            ),
        ),
        "ucpo": Term(
            path="dph.loss.objectives.advantages:UniformCorrect",
            counts=True,
            summary="GRPO's, with more of the credit for improbable right answers (UCPO)",
            parameters=parameters(
                tau=(
                    float,
                    Field(0.2, ge=0, le=1, description="share given by improbability; 0: GRPO"),
                ),
                scale=_SCALE,
            ),
            reads=frozenset({LOGPROBS}),
            method=Method(
                label="UCPO",
                source="arXiv:2605.00365",
                strength="objective.advantage.tau",
                formula=(
                    "right answers share n+ A_GRPO as (1 - tau) / n+ + tau v / sum v, v = 1 / q"
                ),
                cost="own, verl: -; TRL: a forward pass of the new samples",
                use="if several answers can be right",
            ),
        ),
        "pass_at_k": Term(
            path="dph.loss.objectives.advantages:PassAtK",
            counts=True,
            summary="standardised Pass@k of the subsets a sample is in (Pass@k training)",
            parameters=parameters(k=(Whole, Field(4, ge=1, description="the k of Pass@k"))),
            method=Method(
                label="Pass@k training",
                source="arXiv:2508.10751",
                strength="objective.advantage.k",
                formula="mean standardised Pass@k of the subsets of k that a sample is in",
                use="if Pass@k is what counts",
            ),
        ),
        "pkpo": Term(
            path="dph.loss.objectives.advantages:PKPO",
            summary="unbiased gradient of the best of k rewards (PKPO)",
            parameters=parameters(
                k=(Whole, Field(4, ge=1, description="the k of Pass@k")),
                baseline=(
                    Literal["none", "leave_one_out", "k_minus_one"],
                    Field("k_minus_one", description="baseline, which adds no bias"),
                ),
            ),
            misfit=lambda own: (
                "k must be at least 2 with baseline = 'k_minus_one', got 1"
                if (own.k, own.baseline) == (1, "k_minus_one")
                else None
            ),
            method=Method(
                label="PKPO",
                source="arXiv:2505.15201",
                strength="objective.advantage.k",
                formula=(
                    "A / n = sum over subsets of k with the sample of (max - max without it) / "
                    "C(n, k)"
                ),
                use="the same, unbiased, and for rewards between 0 and 1",
            ),
        ),
        "differential_smoothing": Term(
            path="dph.loss.objectives.advantages:DifferentialSmoothing",
            counts=True,
            summary="GRPO's, flattening right answers and sharpening wrong ones",
            parameters=parameters(
                gamma_p=(
                    float,
                    Field(
                        0.01, ge=0, description="subtracted per nat of log-prob of right answers"
                    ),
                ),
                gamma_n=(
                    float | None,
                    Field(
                        None,
                        ge=0,
                        description="added per nat of log-prob of wrong answers; default: gamma_p",
                    ),
                ),
                scale=_SCALE,
                logprob=(
                    Literal["sum", "mean"],
                    Field("sum", description="sum over an answer's tokens (as the paper) or mean"),
                ),
            ),
            reads=frozenset({LOGPROBS}),
            method=Method(
                label="Differential smoothing",
                source="arXiv:2511.19942",
                strength="objective.advantage.gamma_p",
                formula=(
                    "A_GRPO - gamma_p log pi_old(y) if right, + gamma_n log pi_old(y) if wrong; "
                    "sum of log-probs (this row) or mean per token"
                ),
                cost="own, verl: -; TRL: a forward pass of the new samples",
                use="to flatten right answers only",
            ),
        ),
        "flowrl": Term(
            path="dph.loss.objectives.advantages:FlowRL",
            summary="distance to the initial policy tilted by rewards (FlowRL)",
            parameters=parameters(
                beta=(
                    float,
                    Field(15.0, ge=0, description="nats per token for a reward of 1 deviation"),
                ),
                scale=_SCALE,
            ),
            reads=frozenset({LOGPROBS, REF_LOGPROBS}),
        ),
        "bbg_group": Term(
            path="dph.loss.objectives.advantages:BayesianBoundaryGateOfGroup",
            counts=True,
            summary="GRPO's times what the problem can still add to Pass@k, by the group at hand",
            parameters=parameters(
                k=(Whole, Field(16, ge=1, description="the k of Pass@k")),
                tau=(float, Field(0.01, ge=0, description="gates below tau (n + 1) are closed")),
                scale=_SCALE,
            ),
        ),
    }
)
"""Functions from rewards of a group to advantages."""


def reads(name: str, directories: Sequence[Path] = ()) -> frozenset[str]:
    """Inputs of the advantage ``name`` other than rewards; your own names them in ``reads``."""
    if is_import_path(name):
        return frozenset(getattr(load_callable(name, directories), "reads", ()))
    return ADVANTAGES[name].reads
