"""``dph sft``: supervised fine-tuning in stages, by TRL's SFTTrainer, on responses alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase, set_seed

from dph._base.files import only_writer, sha256
from dph._base.randomness import generator
from dph.errors import DataError, SettingsError
from dph.lab.base.checkpointed import train_on, trainer_settings
from dph.lab.base.recipes import SFTRecipe, SFTStageSettings
from dph.lab.base.results import CHECKPOINTS, MODEL, begin, finish, last_loss, lm_card
from dph.lab.base.rows import EncodedRows, read_sft_rows
from dph.model.fingerprint import directory_fingerprint
from dph.model.loading import load_model, load_tokenizer
from dph.runs.progress import ProgressDisplay

VERSION = 1
"""Counts up when the same recipe and rows give other weights."""


def train_sft(
    recipe: SFTRecipe, directory: Path, progress: ProgressDisplay, *, replace: bool = False
) -> Path:
    """Train every stage, each from the weights of the one before; returns the last one's model.

    A stage leaves ``directory/<stage>/model``. Finished stages that were made from the same are
    kept; one that was killed goes on from its newest checkpoint.

    Args:
        recipe: what is trained.
        directory: where the stages write.
        progress: told of the steps.
        replace: remove a stage that was made from something else.

    Raises:
        SettingsError: TRL is not installed, or the device is not there.
        DataError: rows are missing or malformed, or another process writes there.
        ModelError: the model cannot be used, or ``directory`` holds something else.
        TrainingError: a loss is not finite.
    """
    require_trl()
    model = recipe.model
    with only_writer(directory):
        for stage in recipe.stages:
            model = _train_stage(recipe, stage, model, directory / stage.name, progress, replace)
    return model


def require_trl() -> None:
    """Find out before anything is written.

    Raises:
        SettingsError: TRL is not installed.
    """
    try:
        import trl  # noqa: F401, PLC0415  # slow to load, and an extra
    except ImportError as error:
        raise SettingsError(
            "supervised fine-tuning needs TRL: pip install 'dph-rl[sft]'"
        ) from error


def _train_stage(
    recipe: SFTRecipe,
    stage: SFTStageSettings,
    initial: Path,
    directory: Path,
    progress: ProgressDisplay,
    replace: bool,
) -> Path:
    if begin(directory, _made_from(recipe, stage, initial), replace=replace):
        return directory / MODEL
    if recipe.device.threads:
        torch.set_num_threads(recipe.device.threads)
    tokenizer = load_tokenizer(initial)
    rows = read_sft_rows(stage.rows, tokenizer, chat=recipe.chat, max_tokens=stage.max_tokens)
    trainer = make_trainer(recipe, stage, initial, tokenizer, rows, directory / CHECKPOINTS)
    train_on(trainer, directory / CHECKPOINTS, progress, title=f"sft {stage.name}")
    log = trainer.state.log_history
    facts = {
        "stage": stage.name,
        "initial weights": f"SHA-256 `{directory_fingerprint(initial)}`",
        "rows": len(rows.rows),
        "rows left out": dict(rows.left_out) or "none",
        "tokens learnt an epoch": sum(row.learnt for row in rows.rows),
        "packed sequences": len(trainer.train_dataset),
        "last loss (nats a token)": last_loss(log),
    }
    card = lm_card(recipe, facts, tags=["sft"])
    model = trainer.accelerator.unwrap_model(trainer.model)
    return finish(directory, model, tokenizer, log=log, card=card)


def make_trainer(
    recipe: SFTRecipe,
    stage: SFTStageSettings,
    initial: Path,
    tokenizer: PreTrainedTokenizerBase,
    rows: EncodedRows,
    checkpoints: Path,
) -> Any:
    """TRL's trainer over packed rows in a random order.

    Packed rows do not see each other: TRL gives every row positions from 0, by which transformers
    masks them whatever the attention.
    """
    from datasets import Dataset, disable_progress_bars  # noqa: PLC0415  # slow, and an extra
    from trl import SFTConfig, SFTTrainer  # noqa: PLC0415

    disable_progress_bars()
    set_seed(recipe.seed)
    order = generator(recipe.seed, "sft rows", stage.name).permutation(len(rows.rows))
    shuffled = [rows.rows[int(index)] for index in order]
    dataset = Dataset.from_dict(
        {
            "input_ids": [list(row.ids) for row in shuffled],
            "labels": [list(row.labels) for row in shuffled],
        }
    )
    model = load_model(initial, device="cpu", attention=recipe.device.attention).train()
    model.config.use_cache = False
    arguments: dict[str, Any] = {
        **trainer_settings(
            checkpoints,
            optimizer=stage,
            device=recipe.device,
            seed=recipe.seed,
            sequences_per_step=stage.sequences_per_step,
            sequences_at_once=stage.sequences_at_once,
            checkpoint_every=stage.checkpoint_every,
        ),
        "num_train_epochs": stage.epochs,
        "warmup_steps": stage.warmup_steps,
        "lr_scheduler_type": stage.schedule,
        "max_length": stage.max_tokens,
        "packing": True,
    }
    return SFTTrainer(
        model=model,
        args=SFTConfig(**arguments),
        train_dataset=dataset,
        processing_class=tokenizer,
    )


def _made_from(recipe: SFTRecipe, stage: SFTStageSettings, initial: Path) -> Mapping[str, Any]:
    """All that the weights depend on; places do not count, contents do."""
    return {
        "version": VERSION,
        "stage": stage.model_dump(mode="json", exclude={"rows"}),
        "settings": recipe.model_dump(mode="json", include={"seed", "chat", "device"}),
        "initial": directory_fingerprint(initial),
        "rows": [_digest(path) for path in stage.rows],
    }


def _digest(path: Path) -> str:
    if not path.is_file():
        raise DataError(f"there is no file of rows {path}")
    return sha256(path)
