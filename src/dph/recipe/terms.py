"""The terms that a loss is made of: one row for each that can be named in a recipe.

A row has the import path of the formula, a line on it, and its parameters with their types, ranges
and meanings (their defaults are those of the formula's own signature, which a test compares).
Nothing is imported here: settings are read without torch.

To add a term to the package: a file with the formula, a row here, a test against an oracle. With
``method`` and its settings it is a named method too, which docs/methods.md and the labels of
reports, quickstarts and studies know by that row; an advantage's needs no settings and means GRPO
with that advantage. A term of your own needs no row: it is named
by its import path, ``module:callable``, and its parameters are what that callable takes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, create_model

from dph._base.import_path import is_import_path, load_callable
from dph.recipe.section import Fraction, Section, Whole

LOGPROBS, REF_LOGPROBS = "logprobs", "ref_logprobs"
"""Inputs of an advantage other than rewards: the samples' log-probs and lengths, and the initial
policy's log-probs of them."""
READ_IN_OWN_LOOP = {REF_LOGPROBS: "the initial policy's log-probs of new samples"}
"""Those that other engines do not give an advantage, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A row: a name for settings, its line in docs/methods.md and its label in reports.

    Attributes:
        label: its name as people write it.
        formula: one line; the symbols are those of docs/methods.md.
        use: when to use it.
        settings: the tables that are laid under a recipe's; an advantage's row leaves them out and
            means GRPO with that advantage.
        strength: the one setting that says how strong it is; None where there is nothing to set.
        source: the paper; '' where it is ours or everybody's.
        cost: of a step, beyond GRPO's; '' for none.
        stored: artefacts that it needs; '' for none.
    """

    label: str
    formula: str
    use: str
    settings: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    strength: str | None = None
    source: str = ""
    cost: str = ""
    stored: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A row: the import path of a term's formula, and its parameters.

    ``reads_reference``: it needs the initial policy's log-probs of *new* samples, and so that
    model in every step. ``reads``: inputs of an advantage other than rewards.
    ``counts``: it counts right answers, so an advantage that needs rewards of 0 or 1.
    ``method``: the method of the term's name, where there is one. ``misfit``: why
    parameters that are in range do not fit together, or None.
    """

    path: str
    summary: str
    parameters: type[Section] = Section
    reads_reference: bool = False
    reads: frozenset[str] = frozenset()
    counts: bool = False
    method: Method | None = None
    misfit: Callable[[Any], str | None] = lambda _: None


def parameters(**fields: Any) -> type[Section]:
    """The table of settings with these fields, each a type and a ``Field``."""
    return create_model("Parameters", __base__=Section, **fields)


_SCALE = (
    Literal["std", "none"],
    Field("std", description="divide by the group's standard deviation, or not"),
)

ADVANTAGES: Mapping[str, Term] = MappingProxyType(
    {
        "group": Term(
            path="dph.loss.objectives.advantages.group:GroupAdvantage",
            summary="reward minus the group's mean (GRPO, Dr. GRPO)",
            parameters=parameters(scale=_SCALE),
        ),
        "maxrl": Term(
            path="dph.loss.objectives.advantages.group:MaxRL",
            counts=True,
            summary="reward minus the group's mean, in units of the mean (MaxRL)",
            method=Method(
                label="MaxRL",
                source="arXiv:2602.02710",
                formula="A = (r - mean) / mean, 0 where mean = 0",
                use="with hard problems and rewards of 0 and 1",
            ),
        ),
        "f_grpo": Term(
            path="dph.loss.objectives.advantages.group:FocalAdvantage",
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
            path="dph.loss.objectives.advantages.group:UniformCorrect",
            counts=True,
            summary="GRPO's, with more of the credit for improbable right answers (UCPO)",
            parameters=parameters(
                tau=(Fraction, Field(0.2, description="share given by improbability; 0: GRPO")),
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
            path="dph.loss.objectives.advantages.pass_at_k:PassAtK",
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
            path="dph.loss.objectives.advantages.pass_at_k:PKPO",
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
            path="dph.loss.objectives.advantages.group:DifferentialSmoothing",
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
            path="dph.loss.objectives.advantages.distributions:FlowRL",
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
            path="dph.loss.objectives.advantages.bbg:BayesianBoundaryGateOfGroup",
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

_CLIP = {
    "clip_low": (
        float,
        Field(0.2, gt=0, lt=1, description="the ratio is clipped below at 1 - this"),
    ),
    "clip_high": (float, Field(0.2, gt=0, description="the ratio is clipped above at 1 + this")),
}

SURROGATES: Mapping[str, Term] = MappingProxyType(
    {
        "clipped": Term(
            path="dph.loss.objectives.surrogates:ClippedSurrogate",
            summary="ratio times advantage, with separate clip bounds (PPO, DAPO)",
            parameters=parameters(**_CLIP),
        ),
        "flow_balance": Term(
            path="dph.loss.objectives.surrogates:FlowBalance",
            summary="squared distance of an answer's log-ratio a token from its advantage (FlowRL)",
            parameters=parameters(**_CLIP),
        ),
        "unclipped": Term(
            path="dph.loss.objectives.surrogates:UnclippedSurrogate",
            summary="ratio times advantage, without bounds",
        ),
    }
)
"""Terms that are maximised on new samples."""


PENALTIES: Mapping[str, Term] = MappingProxyType(
    {
        "kl": Term(
            path="dph.loss.objectives.penalties:KLPenalty",
            summary="distance to the initial policy on new samples",
            parameters=parameters(
                estimator=(
                    Literal["k2", "k3", "unbiased"],
                    Field(
                        "k3",  # of recipes that do not say it, so that older runs continue
                        description="unbiased: value and gradient of the reverse KL; k2: its "
                        "gradient only, on-policy; k3: its value, with a forward-KL gradient",
                    ),
                )
            ),
            reads_reference=True,
        ),
        "entropy": Term(
            path="dph.loss.objectives.penalties:EntropyBonus",
            summary="minus the entropy of the next-token distributions: a bonus for wide ones",
        ),
        "exact_reverse_kl": Term(
            path="dph.loss.objectives.penalties:ExactReverseKL",
            summary="KL(policy || initial policy), exact over the vocabulary",
            reads_reference=True,
        ),
        "exact_forward_kl": Term(
            path="dph.loss.objectives.penalties:ExactForwardKL",
            summary="KL(initial policy || policy), exact over the vocabulary",
            reads_reference=True,
        ),
    }
)
"""Terms that are added on new samples."""

DIVERGENCES: Mapping[str, Term] = MappingProxyType(
    {
        "forward_kl": Term(
            path="dph.loss.divergences.f_divergences:ForwardKL",
            summary="mass-covering: KL(initial policy || policy)",
            parameters=parameters(
                form=(Literal["k3", "nll"], Field("k3", description="form of the forward KL"))
            ),
        ),
        "jensen_shannon": Term(
            path="dph.loss.divergences.f_divergences:JensenShannon",
            summary="both against their mean, on stored answers alone",
        ),
        "alpha": Term(
            path="dph.loss.divergences.f_divergences:Alpha",
            summary="between reverse (0) and forward KL (1)",
            parameters=parameters(
                alpha=(float, Field(0.5, gt=0, lt=1, description="alpha (1: forward KL)"))
            ),
        ),
        "reverse_kl": Term(
            path="dph.loss.divergences.f_divergences:ReverseKL",
            summary="mode-seeking: KL(policy || initial policy), on stored answers",
        ),
        "jensen_shannon_definition": Term(
            path="dph.loss.divergences.f_divergences:JensenShannonDefinition",
            summary="Jensen-Shannon by its definition: half on stored answers, half on new ones",
            reads_reference=True,
        ),
    }
)
"""Terms that tie the policy to stored answers of the initial policy."""


def checked_parameters(
    table: Mapping[str, Term], name: str, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The parameters of the term ``name``, complete and in range; user-defined ones as they are."""
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
    own = parameters.model_validate(dict(given))
    if why := table[name].misfit(own):
        raise ValueError(why)
    return own.model_dump()


def reads_reference(table: Mapping[str, Term], name: str, directories: Sequence[Path] = ()) -> bool:
    """True if the term needs the initial policy's log-probs of new samples.

    Your own has an attribute ``reads_reference``. A divergence with ``on_policy`` does in any case:
    it is given a distance to the initial policy there.
    """
    if is_import_path(name):
        own = load_callable(name, directories)
        return bool(getattr(own, "reads_reference", False)) or hasattr(own, "on_policy")
    return table[name].reads_reference


def reads(name: str, directories: Sequence[Path] = ()) -> frozenset[str]:
    """Inputs of the advantage ``name`` other than rewards; your own names them in ``reads``."""
    if is_import_path(name):
        return frozenset(getattr(load_callable(name, directories), "reads", ()))
    return ADVANTAGES[name].reads
