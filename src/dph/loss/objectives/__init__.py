"""Objectives to minimise: pure functions of per-token log-probs (nats).

Log-probs have shape [rows, tokens], one completion a row. Losses come per token; weights of
rows (``reduction``) turn them into scalars that add up over micro-batches. The loss is a sum of
terms (``terms``), put together by ``objective``; ``dph.runs.objective`` makes one of settings.
"""

from typing import NoReturn

from dph.loss.objectives.advantages.bbg import BayesianBoundaryGateOfGroup, boundary_gate
from dph.loss.objectives.advantages.distributions import FlowRL
from dph.loss.objectives.advantages.graded import graded_advantages, reads_of
from dph.loss.objectives.advantages.group import (
    DifferentialSmoothing,
    FocalAdvantage,
    GroupAdvantage,
    MaxRL,
    UniformCorrect,
    group_advantages,
    has_signal,
    maxrl_advantages,
)
from dph.loss.objectives.advantages.pass_at_k import PKPO, PassAtK
from dph.loss.objectives.mixed import (
    POLICY,
    LossBatch,
    MixedLoss,
    anchor_term,
    mixed_loss,
    policy_tokens,
)
from dph.loss.objectives.objective import (
    Anchor,
    Objective,
    Reduction,
    WeightedPenalty,
    row_weights,
    weighted_sum,
)
from dph.loss.objectives.penalties import (
    EntropyBonus,
    ExactForwardKL,
    ExactReverseKL,
    KLPenalty,
    kl_penalty,
    overlong_penalty,
)
from dph.loss.objectives.surrogates import (
    ClippedSurrogate,
    FlowBalance,
    UnclippedSurrogate,
    clipped_policy_loss,
    importance_ratio,
)
from dph.loss.objectives.terms import (
    Advantage,
    AnyAdvantage,
    GroupSamples,
    Penalty,
    PolicyTerm,
    PolicyTokens,
    ReadingAdvantage,
    Surrogate,
    VocabularyPenalty,
)

__all__ = [
    "PKPO",
    "POLICY",
    "Advantage",
    "Anchor",
    "AnyAdvantage",
    "BayesianBoundaryGateOfGroup",
    "ClippedSurrogate",
    "DifferentialSmoothing",
    "EntropyBonus",
    "ExactForwardKL",
    "ExactReverseKL",
    "FlowBalance",
    "FlowRL",
    "FocalAdvantage",
    "GroupAdvantage",
    "GroupSamples",
    "KLPenalty",
    "LossBatch",
    "MaxRL",
    "MixedLoss",
    "Objective",
    "PassAtK",
    "Penalty",
    "PolicyTerm",
    "PolicyTokens",
    "ReadingAdvantage",
    "Reduction",
    "Surrogate",
    "UnclippedSurrogate",
    "UniformCorrect",
    "VocabularyPenalty",
    "WeightedPenalty",
    "anchor_term",
    "boundary_gate",
    "clipped_policy_loss",
    "graded_advantages",
    "group_advantages",
    "has_signal",
    "importance_ratio",
    "kl_penalty",
    "maxrl_advantages",
    "mixed_loss",
    "overlong_penalty",
    "policy_tokens",
    "reads_of",
    "row_weights",
    "weighted_sum",
]


def __getattr__(name: str) -> NoReturn:
    if name == "make_objective":
        raise ImportError("make_objective moved to dph.runs.objective: the loss reads no settings")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
