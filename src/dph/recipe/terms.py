"""The terms that a loss is made of: one row for each that can be named in a recipe.

A row says where the formula lives, what it does in one line, and which parameters it takes, with
their types, ranges and meanings (their defaults are those of the formula's own signature, which a
test compares). Nothing is imported here: settings are read without torch.

To add a term to the package: a file with the formula, a row here, a test against an oracle. A term
of one's own needs no row: it is named by its import path, ``module:callable``, and its parameters
are what that callable takes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, create_model

from dph._base.import_path import is_import_path, load_callable
from dph.recipe.section import Section, Whole

__all__ = [
    "ADVANTAGES",
    "DIVERGENCES",
    "PENALTIES",
    "SURROGATES",
    "Term",
    "checked_parameters",
    "reads",
    "reads_reference",
]


# What a row of the tables of terms is.

LOGPROBS, REF_LOGPROBS, BASE_CORRECT = "logprobs", "ref_logprobs", "base_correct"
READS = frozenset({LOGPROBS, REF_LOGPROBS, BASE_CORRECT})
"""Inputs of an advantage other than rewards: the samples' log-probs and lengths, the initial
policy's log-probs of them, and how many answers of that policy were right in pre-sampling."""
READ_IN_OWN_LOOP = {
    BASE_CORRECT: "the number of the initial policy's right answers to a problem",
    REF_LOGPROBS: "the initial policy's log-probs of new samples",
}
"""Those that other engines do not give an advantage, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A row: where a term's formula is, and what can be set of it.

    ``reads_reference``: it needs the initial policy's log-probs of *new* samples, and so that
    model in every step. ``reads_distributions``: it acts on stored next-token distributions, not
    on the log-probs of stored tokens. ``reads``: inputs of an advantage other than rewards, some of
    ``READS``.
    """

    path: str
    summary: str
    parameters: type[Section]
    reads_reference: bool = False
    reads_distributions: bool = False
    reads: frozenset[str] = frozenset()


def parameters(**fields: Any) -> type[Section]:
    """The table of settings with these fields, each a type and a ``Field``."""
    return create_model("Parameters", __base__=Section, **fields)


# The advantages that can be named in a recipe.

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
                    Field("k_minus_one", description="baseline, which adds no bias"),
                ),
            ),
        ),
        "differential_smoothing": Term(
            path="dph.loss.objectives.advantages:DifferentialSmoothing",
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


_CLIP = {
    "clip_low": (
        float,
        Field(0.2, gt=0, lt=1, description="the ratio is clipped below at 1 - this"),
    ),
    "clip_high": (
        float,
        Field(0.2, gt=0, description="the ratio is clipped above at 1 + this"),
    ),
}

_SHARE = Field(2e-4, gt=0, le=1, description="share of a mini-batch's tokens, at least one token")

SURROGATES: Mapping[str, Term] = MappingProxyType(
    {
        "clipped": Term(
            path="dph.loss.objectives.policy:ClippedSurrogate",
            summary="ratio times advantage, with separate clip bounds (PPO, DAPO)",
            parameters=parameters(**_CLIP),
        ),
        "clip_cov": Term(
            path="dph.loss.objectives.covariance:ClipCov",
            summary="clipped, without some tokens of high covariance of log-prob and advantage",
            parameters=parameters(
                **_CLIP,
                share=(float, _SHARE),
                cov_low=(
                    float,
                    Field(1.0, description="covariance above which a token may be removed"),
                ),
                cov_high=(
                    float,
                    Field(5.0, description="covariance above which it is always kept"),
                ),
            ),
        ),
        "flow_balance": Term(
            path="dph.loss.objectives.flow_balance:FlowBalance",
            summary="squared distance of an answer's log-ratio a token from its advantage (FlowRL)",
            parameters=parameters(**_CLIP),
        ),
        "unclipped": Term(
            path="dph.loss.objectives.policy:UnclippedSurrogate",
            summary="ratio times advantage, without bounds",
            parameters=parameters(),
        ),
    }
)
"""What is maximised on new samples."""


PENALTIES: Mapping[str, Term] = MappingProxyType(
    {
        "kl": Term(
            path="dph.loss.objectives.penalties:KLPenalty",
            summary="distance to the initial policy on new samples",
            parameters=parameters(
                estimator=(
                    Literal["k2", "k3"],
                    Field(
                        "k3",
                        description="k2: gradient of the reverse KL; k3: the usual 'KL' loss "
                        "(forward-KL gradient)",
                    ),
                )
            ),
            reads_reference=True,
        ),
        "entropy": Term(
            path="dph.loss.objectives.penalties:EntropyBonus",
            summary="minus the entropy of the next-token distributions: a bonus for wide ones",
            parameters=parameters(),
        ),
        "exact_reverse_kl": Term(
            path="dph.loss.objectives.penalties:ExactReverseKL",
            summary="KL(policy || initial policy), exact over the vocabulary",
            parameters=parameters(),
            reads_reference=True,
        ),
        "exact_forward_kl": Term(
            path="dph.loss.objectives.penalties:ExactForwardKL",
            summary="KL(initial policy || policy), exact over the vocabulary",
            parameters=parameters(),
            reads_reference=True,
        ),
        "kl_cov": Term(
            path="dph.loss.objectives.covariance:KLCov",
            summary="distance to the old policy at the tokens of highest covariance",
            parameters=parameters(share=(float, _SHARE)),
        ),
    }
)
"""What is added on new samples."""

DIVERGENCES: Mapping[str, Term] = MappingProxyType(
    {
        "forward_kl": Term(
            path="dph.loss.divergences.forward_kl:ForwardKL",
            summary="mass-covering: KL(initial policy || policy)",
            parameters=parameters(
                form=(Literal["k3", "nll"], Field("k3", description="form of the forward KL"))
            ),
        ),
        "jensen_shannon": Term(
            path="dph.loss.divergences.jensen_shannon:JensenShannon",
            summary="both against their mean, on stored answers alone",
            parameters=parameters(),
        ),
        "alpha": Term(
            path="dph.loss.divergences.alpha:Alpha",
            summary="between reverse (0) and forward KL (1)",
            parameters=parameters(
                alpha=(float, Field(0.5, gt=0, lt=1, description="alpha (1: forward KL)"))
            ),
        ),
        "reverse_kl": Term(
            path="dph.loss.divergences.reverse_kl:ReverseKL",
            summary="mode-seeking: KL(policy || initial policy), on stored answers",
            parameters=parameters(),
        ),
        "jensen_shannon_definition": Term(
            path="dph.loss.divergences.jensen_shannon:JensenShannonDefinition",
            summary="Jensen-Shannon by its definition: half on stored answers, half on new ones",
            parameters=parameters(),
            reads_reference=True,
        ),
        "distribution_kl": Term(
            path="dph.loss.divergences.distribution_kl:DistributionKL",
            summary="KL(stored next-token distribution || policy), exact over tokens and the rest",
            parameters=parameters(
                floor=(
                    float,
                    Field(
                        0.0,
                        ge=0,
                        le=1,
                        description="an answer costs only below this share of its initial "
                        "probability; 0: always",
                    ),
                )
            ),
            reads_distributions=True,
        ),
    }
)
"""What ties the policy to stored answers of the initial policy."""


def checked_parameters(
    table: Mapping[str, Term], name: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters of the term ``name``, complete and in range; one's own are left as they are.

    Raises:
        ValueError: there is no such term, it takes no such parameter, or a value is out of range.
    """
    if is_import_path(name):
        return dict(given)
    if name not in table:
        near = get_close_matches(name, table, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"there is no {name!r}: choose one of {', '.join(table)}, or name your own as "
            f"'module:callable'{hint}"
        )
    parameters = table[name].parameters
    if unknown := sorted(set(given) - set(parameters.model_fields)):
        known = ", ".join(parameters.model_fields) or "none"
        raise ValueError(f"{name!r} has no parameter {unknown[0]!r}; it takes: {known}")
    return parameters.model_validate(dict(given)).model_dump()


def reads_reference(table: Mapping[str, Term], name: str, directories: Sequence[Path] = ()) -> bool:
    """Whether the term needs the initial policy's log-probs of new samples.

    One's own says so by an attribute ``reads_reference``. A divergence with ``on_policy`` does in
    any case: what it is given there is a distance to the initial policy.

    Raises:
        SettingsError: one's own cannot be imported.
    """
    if is_import_path(name):
        own = load_callable(name, directories)
        return bool(getattr(own, "reads_reference", False)) or hasattr(own, "on_policy")
    return table[name].reads_reference


def reads(name: str, directories: Sequence[Path] = ()) -> frozenset[str]:
    """Inputs of the advantage ``name`` in addition to the samples' rewards.

    One's own says so by an attribute ``reads``.

    Raises:
        SettingsError: one's own cannot be imported.
    """
    if is_import_path(name):
        return frozenset(getattr(load_callable(name, directories), "reads", ()))
    return ADVANTAGES[name].reads
