"""Results of a training: a model directory with its provenance, and the log."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import tomli_w
from huggingface_hub import ModelCardData
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dph import __version__
from dph._base.files import atomic_path, make_directory, read_json, write_json, write_text
from dph.errors import ModelError
from dph.lab.base.recipes import LMRecipe

# The model card of a base model or a fine-tuned one.


def lm_card(recipe: LMRecipe, facts: Mapping[str, Any], *, tags: Sequence[str] = ()) -> str:
    """The card as markdown, with the Hub's metadata before it.

    Args:
        recipe: what the model was made by; paths lose their directories.
        facts: what to say of data and result, by name.
        tags: more tags of the Hub.
    """
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
    """Prepare ``directory`` for a training made from ``made_from``; True if it is finished.

    Args:
        directory: of the training.
        made_from: all that the weights depend on, as JSON.
        replace: remove what was made from something else.

    Raises:
        ModelError: something else lies there, and ``replace`` is False.
    """
    marker = make_directory(directory) / MADE_FROM
    found = read_json(marker) if marker.is_file() else None
    if found is not None and found != made_from:
        if not replace:
            changed = sorted(k for k in {*found, *made_from} if found.get(k) != made_from.get(k))
            raise ModelError(
                f"{directory} has a training that differs in {', '.join(changed)}; "
                "choose another directory or remove it"
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
    write_text(directory / METRICS, "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows))
    with atomic_path(directory / MODEL) as temporary:
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        (temporary / "README.md").write_text(card, encoding="utf-8")
        write_json(temporary / MADE_FROM, read_json(directory / MADE_FROM))
    shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)
    return directory / MODEL


_TIMES = ("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_loss")
"""What no two runs share; the trainer's own mean loss counts from the last start alone."""


def last_loss(log: Sequence[Mapping[str, Any]]) -> float | None:
    """The last mean loss that was logged, nats a token."""
    losses = [row["loss"] for row in log if "loss" in row]
    return losses[-1] if losses else None
