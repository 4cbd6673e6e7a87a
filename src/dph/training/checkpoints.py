"""Checkpoints: a transformers directory, the optimizer in safetensors, and a little JSON.

    checkpoints/step_000040/
      config.json model.safetensors tokenizer.json ...   AutoModelForCausalLM reads it
      optimizer.safetensors                              "<parameter index>.<name>"
      trainer.json                                       step, position, recipe digest

Written to a temporary name and renamed, so whatever is there is whole.
"""

import re
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph.errors import CheckpointError, DataError, TrainingError
from dph.files import atomic_path, make_directory, read_json, write_json
from dph.training.order import Position

_NAME = re.compile(r"step_(\d{6,})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far training has come; with the weights and the optimizer, all there is to its state."""

    step: int = 0
    optimizer_steps: int = 0
    position: Position = field(default_factory=Position)


def latest_checkpoint(directory: Path) -> Path | None:
    """The checkpoint with the most steps, or None."""
    return next(reversed(_in_order(directory)), None)


def save_checkpoint(
    directory: Path,
    progress: Progress,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    optimizer: torch.optim.Optimizer,
    *,
    digest: str,
    keep: int,
) -> Path:
    """Write ``step_NNNNNN`` and remove all but the newest ``keep`` checkpoints."""
    path = make_directory(directory) / f"step_{progress.step:06d}"
    try:
        with atomic_path(path) as temporary:
            temporary.mkdir()
            model.save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)
            save_file(_flat_state(optimizer), temporary / "optimizer.safetensors")
            write_json(temporary / "trainer.json", {"digest": digest, **asdict(progress)})
    except SafetensorError as error:  # its way to say that the disk is full
        raise TrainingError(f"cannot write the checkpoint {path}: {error}") from error
    for old in _in_order(directory)[:-keep]:
        shutil.rmtree(old)
    return path


def read_progress(path: Path, *, digest: str) -> Progress:
    """The progress that a checkpoint holds.

    Raises:
        CheckpointError: it is damaged, or was made with other settings.
    """
    try:
        content = read_json(path / "trainer.json")
        found = content.pop("digest")
        progress = Progress(**{**content, "position": Position(**content["position"])})
    except (DataError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"the checkpoint {path} is damaged: {error}") from error
    if found != digest:
        raise CheckpointError(
            f"the checkpoint {path} was made with other settings; continue with the recipe in its "
            "run directory, or train into another one (--out)"
        )
    return progress


def load_optimizer(path: Path, optimizer: torch.optim.Optimizer) -> None:
    """Put the optimizer back into the state that a checkpoint holds.

    Raises:
        CheckpointError: the file is missing, damaged, or of another model.
    """
    try:
        tensors = load_file(path / "optimizer.safetensors")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"the checkpoint {path} is damaged: {error}") from error
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, tensor in tensors.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = tensor
    current = optimizer.state_dict()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for number, values in state.items():
        shape = values["exp_avg"].shape
        if number >= len(parameters) or parameters[number].shape != shape:
            raise CheckpointError(
                f"the checkpoint {path} belongs to another model: parameter {number} has shape "
                f"{tuple(shape)} there"
            )
    optimizer.load_state_dict({"state": state, "param_groups": current["param_groups"]})


def _in_order(directory: Path) -> list[Path]:
    found = [path for path in directory.glob("step_*") if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step_")))


def _flat_state(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    return {
        f"{index}.{name}": value.detach().cpu().contiguous()
        for index, values in optimizer.state_dict()["state"].items()
        for name, value in values.items()
    }
