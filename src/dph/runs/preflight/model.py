"""The model's directory: its config, and that weights and a tokenizer lie there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json
from dph.errors import DataError, ModelError
from dph.model.hub import is_on_hub, model_directory
from dph.recipe import ModelSettings, Recipe
from dph.recipe.extras import PEFT, TORCHAO
from dph.runs.preflight.findings import Findings

_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx")
"""What configs call the longest row of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """What a model's directory says without its weights; None where it does not say it."""

    directory: Path
    context: int | None
    vocabulary: int | None


def check_model(recipe: Recipe, findings: Findings) -> ModelFiles | None:
    """What the model's directory says; None where it is not there or cannot be read.

    A model of the Hub is looked for in the cache alone.
    """
    findings.errors.extend(_missing_packages(recipe))
    directory = _directory(recipe.model, findings)
    if directory is None:
        return None
    if not (directory / "config.json").is_file():
        what = "has no config.json" if directory.is_dir() else "is not a directory"
        findings.errors.append(
            f"model.path: {directory} {what}: need the directory of a saved transformers model"
        )
        return None
    try:
        config = read_json(directory / "config.json")
    except DataError as error:
        findings.errors.append(f"model.path: {error}")
        return None
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        findings.errors.append(f"model.path: {directory / 'config.json'} names no model_type")
        return None
    findings.errors.extend(f"model.path: {error}" for error in _errors(directory, config))
    findings.unchecked.append("the weights and the device: they need torch")
    text = config.get("text_config")
    text = text if isinstance(text, dict) else config
    return ModelFiles(
        directory=directory,
        context=_number(text, *_CONTEXT),
        vocabulary=_number(text, "vocab_size"),
    )


def _missing_packages(recipe: Recipe) -> list[str]:
    """What the model of this package's own loop cannot be trained without."""
    if recipe.train.engine != "own":
        return []  # it is for another environment
    model = recipe.model
    needed = [PEFT] if model.adapter else [TORCHAO] if model.weights == "bfloat16" else []
    return [f"model: {extra.missing}" for extra in needed if not extra.is_installed]


def _directory(model: ModelSettings, findings: Findings) -> Path | None:
    directory = Path(model.path)
    if not is_on_hub(model):
        if model.revision is not None:
            findings.errors.append(
                f"model.revision = {model.revision!r} belongs to a model of the Hub, but "
                f"model.path = {model.path!r} is none"
            )
        if directory.exists():
            return directory
        findings.notes.append(f"model.path is not there: {directory}")
        return None
    at = model.revision or "its main branch"
    try:
        found = model_directory(model)
    except ModelError:
        findings.notes.append(
            f"model.path is not there: {model.path}; a run would fetch the model of that name from "
            f"the Hub, at {at}"
        )
        return None
    findings.notes.append(f"model.path: {model.path} of the Hub, {at}, is in the cache: {found}")
    return found


def _errors(directory: Path, config: Mapping[str, Any]) -> list[str]:
    errors = []
    if config.get("is_encoder_decoder") is True:
        errors.append(f"{config['model_type']} is an encoder-decoder, not a causal model")
    if not any(directory.glob("*.safetensors")):
        errors.append(f"{directory} holds no weights (*.safetensors)")
    return errors


def _number(config: Mapping[str, Any], *names: str) -> int | None:
    values = (config.get(name) for name in names)
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool)), None)
