"""What is minimised: pure functions of per-token log-probs (nats), one concept a file.

Log-probs have shape [rows, tokens], one completion a row. Losses come per token; weights of
rows (``reduction``) turn them into scalars that add up over micro-batches.
"""

from dph.objectives.advantages import group_advantages, has_signal
from dph.objectives.kl_penalty import kl_penalty
from dph.objectives.mixed import LossBatch, MixedLoss, mixed_loss, rehearsal_term
from dph.objectives.overlong import overlong_penalty
from dph.objectives.policy import PolicyTerm, clipped_policy_loss, importance_ratio
from dph.objectives.reduction import Reduction, row_weights, weighted_sum

__all__ = [
    "LossBatch",
    "MixedLoss",
    "PolicyTerm",
    "Reduction",
    "clipped_policy_loss",
    "group_advantages",
    "has_signal",
    "importance_ratio",
    "kl_penalty",
    "mixed_loss",
    "overlong_penalty",
    "rehearsal_term",
    "row_weights",
    "weighted_sum",
]
