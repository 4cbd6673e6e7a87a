"""The advantages that can be named in a recipe."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from dph.recipe.section import Whole
from dph.recipe.term import BASE_CORRECT, LOGPROBS, REF_LOGPROBS, Term, parameters

_SCALE = (
    Literal["std", "none"],
    Field("std", description="divide by the group's standard deviation, or not"),
)
_BBG = {
    "k": (Whole, Field(16, ge=1, description="the k of Pass@k")),
    "tau": (float, Field(0.01, ge=0, description="gates below tau (n + 1) are closed")),
    "scale": _SCALE,
}

ADVANTAGES: Mapping[str, Term] = MappingProxyType(
    {
        "group": Term(
            path="dph.loss.objectives.advantages:GroupAdvantage",
            summary="reward minus the group's mean (GRPO, Dr. GRPO)",
            parameters=parameters(scale=_SCALE),
        ),
        "maxrl": Term(
            path="dph.loss.objectives.advantages:MaxRL",
            summary="reward minus the group's mean, in units of the mean (MaxRL)",
            parameters=parameters(),
        ),
        "f_grpo": Term(
            path="dph.loss.objectives.advantages:FocalAdvantage",
            summary="GRPO's times (1 - success rate)^gamma (F-GRPO)",
            parameters=parameters(
                gamma=(float, Field(0.5, ge=0, description="power of the failure rate; 0: GRPO")),
                scale=_SCALE,
            ),
        ),
        "ucpo": Term(
            path="dph.loss.objectives.advantages:UniformCorrect",
            summary="GRPO's, with more of the credit for improbable right answers (UCPO)",
            parameters=parameters(
                tau=(
                    float,
                    Field(0.2, ge=0, le=1, description="share that goes by improbability; 0: GRPO"),
                ),
                scale=_SCALE,
            ),
            reads=frozenset({LOGPROBS}),
        ),
        "pass_at_k": Term(
            path="dph.loss.objectives.advantages:PassAtK",
            summary="standardised Pass@k of the subsets a sample is in (Pass@k training)",
            parameters=parameters(k=(Whole, Field(4, ge=1, description="the k of Pass@k"))),
        ),
        "pkpo": Term(
            path="dph.loss.objectives.advantages:PKPO",
            summary="unbiased gradient of the best of k rewards (PKPO)",
            parameters=parameters(
                k=(Whole, Field(4, ge=1, description="the k of Pass@k")),
                baseline=(
                    Literal["none", "leave_one_out", "k_minus_one"],
                    Field("k_minus_one", description="what is taken off without adding bias"),
                ),
            ),
        ),
        "differential_smoothing": Term(
            path="dph.loss.objectives.advantages:DifferentialSmoothing",
            summary="GRPO's, flattening right answers and sharpening wrong ones",
            parameters=parameters(
                gamma_p=(
                    float,
                    Field(0.01, ge=0, description="taken off a nat of log-prob of right answers"),
                ),
                gamma_n=(
                    float | None,
                    Field(
                        None,
                        ge=0,
                        description="added a nat of log-prob of wrong answers; default: gamma_p",
                    ),
                ),
                scale=_SCALE,
                logprob=(
                    Literal["sum", "mean"],
                    Field("sum", description="of an answer's tokens: sum (the paper's) or mean"),
                ),
            ),
            reads=frozenset({LOGPROBS}),
        ),
        "bbg": Term(
            path="dph.loss.objectives.advantages:BayesianBoundaryGate",
            summary="GRPO's times what the problem can still add to Pass@k, by pre-sampling (BBG)",
            parameters=parameters(**_BBG),
            reads=frozenset({BASE_CORRECT}),
        ),
        "alpha_dpg": Term(
            path="dph.loss.objectives.advantages:AlphaDPG",
            summary="alpha-divergence to the initial policy's right answers (alpha-DPG)",
            parameters=parameters(
                alpha=(
                    float,
                    Field(0.5, ge=0, lt=1, description="0: forward KL; towards 1: reverse KL"),
                ),
                clip=(
                    float,
                    Field(10.0, gt=0, description="bound on (p / pi)^(1 - alpha) - 1"),
                ),
            ),
            reads=frozenset({LOGPROBS, REF_LOGPROBS, BASE_CORRECT}),
        ),
        "flowrl": Term(
            path="dph.loss.objectives.advantages:FlowRL",
            summary="distance to the initial policy tilted by rewards (FlowRL)",
            parameters=parameters(
                beta=(
                    float,
                    Field(15.0, ge=0, description="nats a token of a standardised reward of 1"),
                ),
                scale=_SCALE,
            ),
            reads=frozenset({LOGPROBS, REF_LOGPROBS}),
        ),
        "bbg_group": Term(
            path="dph.loss.objectives.advantages:BayesianBoundaryGateOfGroup",
            summary="GRPO's times what the problem can still add to Pass@k, by the group at hand",
            parameters=parameters(**_BBG),
        ),
    }
)
"""How rewards of a group become advantages."""
