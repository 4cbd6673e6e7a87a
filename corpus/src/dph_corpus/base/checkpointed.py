"""Running a trainer of transformers so that a kill costs no more than the steps since a checkpoint.

The trainer writes a checkpoint file by file, and one that a kill cut off looks like any other. So
each is marked when it is whole, and only marked ones are gone on from.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from math import gcd, inf, isfinite
from pathlib import Path, PurePath
from typing import Any

import tomli_w
import torch
from huggingface_hub import ModelCardData
from torch import Tensor
from torch.nn.utils import get_total_norm
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from dph import __version__
from dph._base.files import (
    atomic_path,
    make_directory,
    read_json,
    write_json,
    write_json_lines,
    write_text,
)
from dph.errors import ModelError, SettingsError, TrainingError
from dph.runs.progress import ProgressDisplay
from dph_corpus.base.recipes import AdamSettings, DeviceSettings, LMRecipe

# What recipes say in the words of transformers' TrainingArguments.

_NEWER = "activation_checkpointing"
_CHECKPOINTING = (
    _NEWER if _NEWER in TrainingArguments.__dataclass_fields__ else "gradient_checkpointing"
)
"""Its name in this release of transformers."""


def trainer_settings(
    directory: Path,
    *,
    optimizer: AdamSettings,
    device: DeviceSettings,
    seed: int,
    sequences_per_step: int,
    sequences_at_once: int,
    checkpoint_every: int,
) -> dict[str, Any]:
    """Arguments that every trainer gets; checkpoints lie in ``directory``."""
    if device.device == "cuda" and not torch.cuda.is_available():
        raise SettingsError('device is "cuda", but there is no CUDA device; use "cpu" or "auto"')
    processes = 1 if device.device == "cpu" else max(1, torch.cuda.device_count())
    together = sequences_at_once * processes
    if sequences_per_step % together:
        raise SettingsError(
            "need sequences_per_step a multiple of sequences_at_once times devices, got "
            f"{sequences_per_step=}, {sequences_at_once=}, devices={processes}"
        )
    return {
        "output_dir": str(directory),
        "per_device_train_batch_size": sequences_at_once,
        "gradient_accumulation_steps": sequences_per_step // together,
        "learning_rate": optimizer.learning_rate,
        "adam_beta1": optimizer.betas[0],
        "adam_beta2": optimizer.betas[1],
        "adam_epsilon": optimizer.eps,
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.max_grad_norm,
        "optim": "adamw_torch",
        "seed": seed,
        "bf16": device.dtype == "bfloat16",
        "use_cpu": device.device == "cpu",
        _CHECKPOINTING: device.gradient_checkpointing,
        "save_strategy": "steps",
        "save_steps": checkpoint_every,
        # A checkpoint is marked as whole after older ones are removed: two, so that one always is.
        "save_total_limit": 2,
        # A mean over steps never spans a checkpoint: after a kill it is that of the same steps.
        "logging_steps": gcd(10, checkpoint_every),
        # Otherwise a loss that is NaN is logged as the mean of the others, in the end as 0.
        "logging_nan_inf_filter": False,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


_WHOLE = "whole"


def train_on(trainer: Trainer, directory: Path, progress: ProgressDisplay, *, title: str) -> None:
    """Train to the end, from the newest whole checkpoint in ``directory`` if there is one."""
    newest = newest_checkpoint(directory)
    trainer.remove_callback(PrinterCallback)
    steps = int(trainer.args.max_steps)
    if steps <= 0:
        batch = trainer.args.train_batch_size * trainer.args.gradient_accumulation_steps
        steps = int(-(-len(trainer.train_dataset) // batch) * trainer.args.num_train_epochs)
    with progress.task(title, steps, "steps") as advance:
        trainer.add_callback(_Watch(directory, advance))
        trainer.train(resume_from_checkpoint=str(newest) if newest else None)


def newest_checkpoint(directory: Path) -> Path | None:
    """The newest whole checkpoint; those that a kill cut off are removed."""
    found = sorted(directory.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    whole = [path for path in found if (path / _WHOLE).is_file()]
    for path in set(found) - set(whole):
        shutil.rmtree(path)
    return whole[-1] if whole else None


class _Watch(TrainerCallback):  # type: ignore[misc]  # transformers is untyped
    """Marks whole checkpoints, reports progress, and ends a run that has lost its numbers.

    Of the loss the trainer keeps a sum on the device until it is logged. Its gradient is there in
    every step, and is not finite if the loss is not.
    """

    def __init__(self, directory: Path, advance: Callable[[int, str], object]) -> None:
        self._directory, self._advance, self._told = directory, advance, 0

    def on_pre_optimizer_step(self, _args: Any, state: Any, _control: Any, **seen: Any) -> None:
        gradients = [p.grad for p in seen["model"].parameters() if p.grad is not None]
        step = state.global_step + 1  # counted once the optimizer has stepped
        self._require(gradients, f"the loss or its gradient is not finite in step {step}")

    def on_step_end(self, _args: Any, state: Any, control: Any, **seen: Any) -> None:
        if control.should_save or state.global_step >= state.max_steps:
            weights = [p.detach() for p in seen["model"].parameters()]
            self._require(weights, f"weights are not finite after step {state.global_step}")
        self._advance(state.global_step - self._told, "")
        self._told = state.global_step

    def on_log(self, _args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
        for name in {"loss", "grad_norm"} & set(logs or {}):
            if not isfinite(logs[name]):
                raise self._lost(f"{name} is {logs[name]} up to step {state.global_step}")
        if "loss" in (logs or {}):
            self._advance(0, f"loss {logs['loss']:.3f}")

    def on_save(self, args: Any, state: Any, _control: Any, **_: Any) -> None:
        write_text(Path(args.output_dir) / f"checkpoint-{state.global_step}" / _WHOLE, "")

    def _require(self, tensors: Sequence[Tensor], otherwise: str) -> None:
        # The largest magnitude: NaN where one is, and nothing finite overflows.
        if not get_total_norm(tensors, norm_type=inf).isfinite():
            raise self._lost(otherwise)

    def _lost(self, what: str) -> TrainingError:
        newest = newest_checkpoint(self._directory)
        kept = f"the newest checkpoint is {newest}" if newest else "no checkpoint exists yet"
        return TrainingError(f"{what}: {kept}; try a lower learning rate, in another directory")


# Results of a training: a model directory with its card and its provenance, and the log.


def lm_card(recipe: LMRecipe, facts: Mapping[str, Any], *, tags: Sequence[str] = ()) -> str:
    """The card as markdown, with the Hub's metadata before it."""
    metadata = ModelCardData(
        library_name="transformers", pipeline_tag="text-generation", tags=["dph", *tags]
    ).to_yaml()
    table = _without_directories(recipe.model_dump(mode="json", exclude_none=True))
    said = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    notes = f"\n> {recipe.notes}\n" if recipe.notes else ""
    return (
        f"---\n{metadata}\n---\n# {recipe.name}\n\nTrained by dph {__version__}.\n{notes}\n"
        f"## Made from\n\n{said}\n\n## Recipe\n\n```toml\n{tomli_w.dumps(table).strip()}\n```\n"
    )


_PLACES = ("corpus", "annealing", "path", "continued", "model", "rows")


def _without_directories(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _without_directories(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_directories(item, key) for item in value]
    return PurePath(value).name if key in _PLACES and isinstance(value, str) else value


MODEL, MADE_FROM, METRICS, CHECKPOINTS = "model", "made_from.json", "metrics.jsonl", "checkpoints"


def begin(directory: Path, made_from: Mapping[str, Any], *, replace: bool) -> bool:
    """Prepare ``directory`` for a training made from ``made_from``; True if it is finished."""
    marker = make_directory(directory) / MADE_FROM
    found = read_json(marker) if marker.is_file() else None
    if found is not None and found != made_from:
        if not replace:
            changed = sorted(k for k in {*found, *made_from} if found.get(k) != made_from.get(k))
            raise ModelError(
                f"{directory} has a training that differs in {', '.join(changed)}; "
                "choose another directory (--out) or remove it"
            )
        shutil.rmtree(directory)
        make_directory(directory)
    write_json(marker, dict(made_from))
    return (directory / MODEL / MADE_FROM).is_file()


def finish(
    directory: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    log: Sequence[Mapping[str, Any]],
    card: str,
) -> Path:
    """Save the model with its card, then the log, and remove the checkpoints.

    The model's directory appears whole.
    """
    rows = [{k: v for k, v in row.items() if k not in _TIMES} for row in log]
    write_json_lines(directory / METRICS, rows, sort_keys=True)
    with atomic_path(directory / MODEL) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        (temporary / "README.md").write_text(card, encoding="utf-8")
        write_json(temporary / MADE_FROM, read_json(directory / MADE_FROM))
    shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)
    return directory / MODEL


_TIMES = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss")
"""Values that no two runs share; the trainer's own mean loss counts from the last start alone."""


def last_loss(log: Sequence[Mapping[str, Any]]) -> float | None:
    """The last mean loss that was logged, nats a token."""
    losses = [row["loss"] for row in log if "loss" in row]
    return losses[-1] if losses else None
