"""Reinforcement learning with verifiable rewards that keeps what the model already could.

The root holds only the nouns and the errors, so ``import dph`` is instant and never loads
torch. Reach for the rest by namespace: ``from dph.divergences import JensenShannon``.
"""

from dph.errors import (
    CheckpointError,
    DataError,
    DphError,
    ModelError,
    PoolError,
    SettingsError,
    TrainingError,
    VerifierError,
)
from dph.records import Completion, GradedCompletion, Outcome, Problem, Verdict

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "Completion",
    "DataError",
    "DphError",
    "GradedCompletion",
    "ModelError",
    "Outcome",
    "PoolError",
    "Problem",
    "SettingsError",
    "TrainingError",
    "Verdict",
    "VerifierError",
]
