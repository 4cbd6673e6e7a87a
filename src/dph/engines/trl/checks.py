"""Checks before the first step: the pool is this model's, and TRL can resume here."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from accelerate.utils import is_peft_model
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerCallback

from dph.engines.trl.config import DPHConfig
from dph.errors import CheckpointError, ModelError
from dph.model.policies import tokenizer_fingerprint, weight_fingerprint
from dph.runs.presample.manifest import Manifest, require_policy
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.policy_rows import require_reference
from dph.runs.train.updating import TrainingForward

CHECK_TOKENS = 16384
"""Padded tokens of one forward when the pool's log-probs are compared."""


def require_pool_of_model(
    manifest: Manifest,
    directory: Path,
    *,
    model: nn.Module,
    processing_class: object,
    args: DPHConfig,
) -> None:
    """Refuse a pool of another model, tokenizer or precision.

    Another temperature is refused too.

    Weights below an adapter are not compared by fingerprint, since PEFT renames them; the
    log-probs at step 0 tell.

    Raises:
        PoolError: names what differs, both values, and what to do.
        ModelError: the processing class is not a plain tokenizer.
    """
    if not isinstance(processing_class, PreTrainedTokenizerBase):
        raise ModelError(
            "stored answers are only text, so the processing class must be a tokenizer, got "
            f"{type(processing_class).__name__}"
        )
    require_policy(
        directory,
        manifest,
        tokenizer_fingerprint=tokenizer_fingerprint(processing_class),
        temperature=args.temperature,
        dtype=args.precision,
        model_fingerprint=None if is_peft_model(model) else weight_fingerprint(model),
    )


def require_whole_rollouts(args: DPHConfig, step: int) -> None:
    """Refuse to resume between two optimizer steps that share a rollout.

    Raises:
        CheckpointError: names the step, and steps at which TRL resumes exactly.
    """
    per_rollout = args.steps_per_rollout
    if (step / per_rollout).is_integer():
        return
    raise CheckpointError(
        f"the checkpoint is of step {step}, in the middle of a rollout of {per_rollout:g} "
        "optimizer steps (steps_per_generation * num_iterations / gradient_accumulation_steps): "
        "TRL would draw the rollout again with different weights. Resume from a step that is a "
        f"multiple of {per_rollout:g} (set save_steps so), or use `dph train`, which saves whole "
        "rollouts and resumes to the bit"
    )


class StartChecks(TrainerCallback):  # type: ignore[misc]
    """Looks at the weights that training starts from, which a checkpoint may have replaced."""

    def __init__(
        self,
        pools: Sequence[Sequence[RehearsalSample]],
        policy: Callable[[], PreTrainedModel],
        *,
        pad_id: int,
        max_tokens: int,
    ) -> None:
        """``policy`` gives the model once training begins: TRL may wrap or move it until then."""
        self._pools = pools
        self._policy = policy
        self._pad_id = pad_id
        self._max_tokens = max_tokens

    def on_train_begin(self, args: DPHConfig, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Compare log-probs with the pool's at step 0; later, the step with the rollouts.

        Raises:
            PoolError: the stored log-probs are not the policy's.
            CheckpointError: a resume in the middle of a rollout.
        """
        if state.global_step:
            require_whole_rollouts(args, state.global_step)
            return
        forward = TrainingForward(
            model=self._policy(),
            pad_id=self._pad_id,
            temperature=args.temperature,
            dtype=args.precision,
            token_budget=CHECK_TOKENS,
            max_tokens=self._max_tokens,
        )
        for samples in self._pools:
            require_reference(samples, forward)
