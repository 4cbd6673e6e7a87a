"""The terms that a loss is made of: one row for each that can be named in a recipe.

A row says where the formula lives, what it does in one line, and which parameters it takes, with
their types, ranges and meanings (their defaults are those of the formula's own signature, which a
test compares). Nothing is imported here: settings are read without torch.

To add a term to the package: a file with the formula, a row here, a test against an oracle. A term
of one's own needs no row: it is named by its import path, ``module:callable``, and its parameters
are what that callable takes.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field

from dph._base.import_path import is_import_path, load_callable
from dph.recipe.advantage_terms import ADVANTAGES
from dph.recipe.term import Term
from dph.recipe.term import parameters as _parameters

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
            parameters=_parameters(**_CLIP),
        ),
        "clip_cov": Term(
            path="dph.loss.objectives.clip_cov:ClipCov",
            summary="clipped, without some tokens of high covariance of log-prob and advantage",
            parameters=_parameters(
                **_CLIP,
                share=(float, _SHARE),
                cov_low=(float, Field(1.0, description="covariance above which a token may go")),
                cov_high=(float, Field(5.0, description="covariance above which it may not")),
            ),
        ),
        "flow_balance": Term(
            path="dph.loss.objectives.flow_balance:FlowBalance",
            summary="squared distance of an answer's log-ratio a token from its advantage (FlowRL)",
            parameters=_parameters(**_CLIP),
        ),
        "unclipped": Term(
            path="dph.loss.objectives.unclipped:UnclippedSurrogate",
            summary="ratio times advantage, without bounds",
            parameters=_parameters(),
        ),
    }
)
"""What is maximised on new samples."""


PENALTIES: Mapping[str, Term] = MappingProxyType(
    {
        "kl": Term(
            path="dph.loss.objectives.kl_penalty:KLPenalty",
            summary="distance to the initial policy on new samples",
            parameters=_parameters(
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
            path="dph.loss.objectives.entropy:EntropyBonus",
            summary="minus the entropy of the next-token distributions: a bonus for wide ones",
            parameters=_parameters(),
        ),
        "exact_reverse_kl": Term(
            path="dph.loss.objectives.exact_kl:ExactReverseKL",
            summary="KL(policy || initial policy), exact over the vocabulary",
            parameters=_parameters(),
            reads_reference=True,
        ),
        "exact_forward_kl": Term(
            path="dph.loss.objectives.exact_kl:ExactForwardKL",
            summary="KL(initial policy || policy), exact over the vocabulary",
            parameters=_parameters(),
            reads_reference=True,
        ),
        "kl_cov": Term(
            path="dph.loss.objectives.kl_cov:KLCov",
            summary="distance to the old policy at the tokens of highest covariance",
            parameters=_parameters(share=(float, _SHARE)),
        ),
    }
)
"""What is added on new samples."""

DIVERGENCES: Mapping[str, Term] = MappingProxyType(
    {
        "forward_kl": Term(
            path="dph.loss.divergences.forward_kl:ForwardKL",
            summary="mass-covering: KL(initial policy || policy)",
            parameters=_parameters(
                form=(Literal["k3", "nll"], Field("k3", description="form of the forward KL"))
            ),
        ),
        "jensen_shannon": Term(
            path="dph.loss.divergences.jensen_shannon:JensenShannon",
            summary="both against their mean, on stored answers alone",
            parameters=_parameters(),
        ),
        "alpha": Term(
            path="dph.loss.divergences.alpha:Alpha",
            summary="between reverse (0) and forward KL (1)",
            parameters=_parameters(
                alpha=(float, Field(0.5, gt=0, lt=1, description="alpha (1: forward KL)"))
            ),
        ),
        "reverse_kl": Term(
            path="dph.loss.divergences.reverse_kl:ReverseKL",
            summary="mode-seeking: KL(policy || initial policy), on stored answers",
            parameters=_parameters(),
        ),
        "jensen_shannon_definition": Term(
            path="dph.loss.divergences.jensen_shannon_definition:JensenShannonDefinition",
            summary="Jensen-Shannon by its definition: half on stored answers, half on new ones",
            parameters=_parameters(),
            reads_reference=True,
        ),
        "distribution_kl": Term(
            path="dph.loss.divergences.distribution_kl:DistributionKL",
            summary="KL(stored next-token distribution || policy), exact over tokens and the rest",
            parameters=_parameters(
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
    """What the advantage ``name`` reads of the samples beside their rewards.

    One's own says so by an attribute ``reads``.

    Raises:
        SettingsError: one's own cannot be imported.
    """
    if is_import_path(name):
        return frozenset(getattr(load_callable(name, directories), "reads", ()))
    return ADVANTAGES[name].reads
