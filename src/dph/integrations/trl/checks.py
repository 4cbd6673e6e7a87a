"""What must hold before the first step: the pool is this model's, and TRL can resume here."""

from typing import TYPE_CHECKING, Any

from accelerate.utils import is_peft_model
from transformers import PreTrainedTokenizerBase, TrainerCallback

from dph.errors import CheckpointError, ModelError
from dph.integrations.trl.config import DPHConfig
from dph.models.fingerprint import tokenizer_fingerprint, weight_fingerprint
from dph.presampling.manifest import Source
from dph.presampling.pool import require_fit
from dph.training.checks import require_reference
from dph.training.update import Forward

if TYPE_CHECKING:
    from dph.integrations.trl.trainer import DPHTrainer

CHECK_TOKENS = 16384
"""Padded tokens of one forward when the pool's log-probs are compared."""


def require_fitting_pool(trainer: "DPHTrainer") -> None:
    """Refuse a pool that another model, tokenizer, temperature or precision made.

    Weights below an adapter are not compared by fingerprint, since PEFT renames them; the
    log-probs at step 0 tell.

    Raises:
        PoolError: names what differs, both values, and what to do.
        ModelError: the processing class is no plain tokenizer.
    """
    tokenizer = trainer.processing_class
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ModelError(
            "stored answers are text alone, so the processing class must be a tokenizer, got "
            f"{type(tokenizer).__name__}"
        )
    manifest = trainer.pool.manifest
    found: dict[str, object] = {
        "tokenizer_fingerprint": tokenizer_fingerprint(tokenizer),
        "temperature": trainer.args.temperature,
        "dtype": trainer.args.precision,
    }
    if not is_peft_model(trainer.model):
        found["model_fingerprint"] = weight_fingerprint(trainer.model)
    expected: Source = manifest.source.model_copy(update=found)
    # The checked fields are the four above; the others are those of the pool itself.
    require_fit(trainer.pool_path, manifest, expected, manifest.rule)


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
        "TRL would draw the rollout anew with other weights. Resume from a step that is a "
        f"multiple of {per_rollout:g} (set save_steps so), or use `dph train`, which saves whole "
        "rollouts and resumes to the bit"
    )


class StartChecks(TrainerCallback):  # type: ignore[misc]
    """Looks at the weights that training starts from, which a checkpoint may have replaced."""

    def __init__(self, trainer: "DPHTrainer") -> None:
        self._trainer = trainer

    def on_train_begin(self, args: DPHConfig, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Compare log-probs with the pool's at step 0; later, the step with the rollouts.

        Raises:
            PoolError: the stored log-probs are not the policy's.
            CheckpointError: a resume in the middle of a rollout.
        """
        if state.global_step:
            require_whole_rollouts(args, state.global_step)
            return
        trainer = self._trainer
        require_reference(
            trainer.pool.rehearsal,
            Forward(
                model=trainer.accelerator.unwrap_model(trainer.model),
                pad_id=trainer.pad_id,
                temperature=trainer.temperature,
                dtype=args.precision,
                token_budget=CHECK_TOKENS,
                max_tokens=trainer.max_completion_length,
            ),
        )
