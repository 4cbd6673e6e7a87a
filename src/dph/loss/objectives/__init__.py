"""What is minimised: pure functions of per-token log-probs (nats), one concept a file.

Log-probs have shape [rows, tokens], one completion a row. Losses come per token; weights of
rows (``reduction``) turn them into scalars that add up over micro-batches. The loss is a sum of
terms (``terms``), put together by ``objective`` from the tables of ``dph.recipe.terms``.
"""

from dph.loss.objectives.advantages import (
    PKPO,
    AlphaDPG,
    BayesianBoundaryGate,
    BayesianBoundaryGateOfGroup,
    DifferentialSmoothing,
    FlowRL,
    FocalAdvantage,
    GroupAdvantage,
    MaxRL,
    PassAtK,
    UniformCorrect,
    alpha_pseudo_rewards,
    boundary_gate,
    graded_advantages,
    group_advantages,
    has_signal,
    maxrl_advantages,
    reads_of,
)
from dph.loss.objectives.covariance import ClipCov
from dph.loss.objectives.objective import DualAscent
from dph.loss.objectives.penalties import EntropyBonus
from dph.loss.objectives.penalties import ExactForwardKL, ExactReverseKL
from dph.loss.objectives.flow_balance import FlowBalance
from dph.loss.objectives.covariance import KLCov
from dph.loss.objectives.penalties import KLPenalty, kl_penalty
from dph.loss.objectives.mixed import (
    POLICY,
    Beside,
    LossBatch,
    MixedLoss,
    anchor_term,
    distribution_term,
    mixed_loss,
    policy_tokens,
)
from dph.loss.objectives.objective import (
    SURROGATE,
    Anchor,
    Objective,
    WeightedPenalty,
    make_objective,
)
from dph.loss.objectives.penalties import overlong_penalty
from dph.loss.objectives.policy import ClippedSurrogate, clipped_policy_loss, importance_ratio
from dph.loss.objectives.reduction import Reduction, row_weights, weighted_sum
from dph.loss.objectives.terms import (
    Advantage,
    AnyAdvantage,
    Buckets,
    ChoosesTokens,
    GroupSamples,
    Penalty,
    PolicyTerm,
    PolicyTokens,
    ReadingAdvantage,
    Surrogate,
    VocabularyPenalty,
)
from dph.loss.objectives.policy import UnclippedSurrogate

__all__ = [
    "PKPO",
    "POLICY",
    "SURROGATE",
    "Advantage",
    "AlphaDPG",
    "Anchor",
    "AnyAdvantage",
    "BayesianBoundaryGate",
    "BayesianBoundaryGateOfGroup",
    "Beside",
    "Buckets",
    "ChoosesTokens",
    "ClipCov",
    "ClippedSurrogate",
    "DifferentialSmoothing",
    "DualAscent",
    "EntropyBonus",
    "ExactForwardKL",
    "ExactReverseKL",
    "FlowBalance",
    "FlowRL",
    "FocalAdvantage",
    "GroupAdvantage",
    "GroupSamples",
    "KLCov",
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
    "alpha_pseudo_rewards",
    "anchor_term",
    "boundary_gate",
    "clipped_policy_loss",
    "distribution_term",
    "graded_advantages",
    "group_advantages",
    "has_signal",
    "importance_ratio",
    "kl_penalty",
    "make_objective",
    "maxrl_advantages",
    "mixed_loss",
    "overlong_penalty",
    "policy_tokens",
    "reads_of",
    "row_weights",
    "weighted_sum",
]
