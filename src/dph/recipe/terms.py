"""The terms that a loss is made of: one row for each that can be named in a recipe.

Advantages have a table of their own, ``dph.recipe.advantages``.

A row has the import path of the formula, a line on it, and its parameters with their types, ranges
and meanings (their defaults are those of the formula's own signature, which a test compares).
Nothing is imported here: settings are read without torch.

To add a term to the package: a file with the formula, a row here, a test against an oracle. With
``method`` and its settings it is a named method too. A term of your own needs no row: it is named
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
from dph.recipe.section import Section

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
    parameters: type[Section]
    reads_reference: bool = False
    reads: frozenset[str] = frozenset()
    counts: bool = False
    method: Method | None = None
    misfit: Callable[[Any], str | None] = lambda _: None


def parameters(**fields: Any) -> type[Section]:
    """The table of settings with these fields, each a type and a ``Field``."""
    return create_model("Parameters", __base__=Section, **fields)


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
            parameters=parameters(),
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
            parameters=parameters(),
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
            parameters=parameters(),
        ),
        "jensen_shannon_definition": Term(
            path="dph.loss.divergences.f_divergences:JensenShannonDefinition",
            summary="Jensen-Shannon by its definition: half on stored answers, half on new ones",
            parameters=parameters(),
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
    """Whether the term needs the initial policy's log-probs of new samples.

    Your own has an attribute ``reads_reference``. A divergence with ``on_policy`` does in any case:
    it is given a distance to the initial policy there.
    """
    if is_import_path(name):
        own = load_callable(name, directories)
        return bool(getattr(own, "reads_reference", False)) or hasattr(own, "on_policy")
    return table[name].reads_reference
