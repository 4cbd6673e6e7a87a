"""Who takes part in a training run, and what comes of it."""

from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph.model.sampler.graded import GradedSampler
from dph.runs.train.evaluations import Evaluations
from dph.runs.train.self_consistency import SelfConsistency


@dataclass(frozen=True, slots=True, kw_only=True)
class Actors:
    """The policy, who samples and grades for it, and what only some methods need beside."""

    policy: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    reference: PreTrainedModel | None
    draw: GradedSampler
    self_consistency: SelfConsistency | None = None
    evaluations: Evaluations | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Where the weights are, and whether training was stopped before its last step."""

    checkpoint: Path
    step: int
    stopped: bool
