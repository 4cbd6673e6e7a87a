"""The model's directory: its config, and that weights and a tokenizer lie there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dph._base.files import read_json
from dph.errors import DataError, ModelError
from dph.model.hub import is_on_hub, model_directory
from dph.model.prompts import Templates
from dph.recipe import ModelSettings, Recipe
from dph.recipe.extras import BITSANDBYTES, LIGER, PEFT, TORCHAO
from dph.runs.preflight.data import Findings

_UNSAID = object()
_SPECIAL = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """The tokenizer itself, the chat templates next to it, and its tokens that they may name."""

    tokenizer: Tokenizer
    templates: Templates
    special_tokens: Mapping[str, str]

    def length(self, text: str, *, special: bool = True) -> int:
        """Tokens of a text."""
        return len(self.tokenizer.encode(text, add_special_tokens=special).ids)

    def tokens_of_stop(self, text: str) -> list[str]:
        """The tokens of a stop string, which should be one."""
        if self.tokenizer.token_to_id(text) is not None:
            return [text]
        return list(self.tokenizer.encode(text, add_special_tokens=False).tokens)


def read_tokenizer(directory: Path) -> TokenizerFiles | None:
    """The tokenizer in a model's directory; None where only transformers can read it."""
    files = [directory / name for name in ("tokenizer_config.json", "special_tokens_map.json")]
    try:
        configs = [read_json(file) for file in files if file.is_file()]
    except DataError as error:
        raise ModelError(str(error)) from error
    configs = [config for config in configs if isinstance(config, dict)]
    if configs and _said(configs, "eos_token") is None:
        raise ModelError(
            f"the tokenizer in {directory} has no eos token, which answers need in order to end: "
            f"set tokenizer.eos_token and save it there"
        )
    if not (directory / "tokenizer.json").is_file():
        if not configs:
            raise ModelError(f"there is no tokenizer in {directory} (tokenizer.json)")
        return None
    try:
        tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    except Exception as error:  # the Rust side raises bare Exception for a damaged file
        raise ModelError(f"{directory / 'tokenizer.json'} is damaged: {error}") from error
    return TokenizerFiles(
        tokenizer=tokenizer,
        templates=_templates(directory, configs),
        special_tokens=_special_tokens(configs),
    )


def _templates(directory: Path, configs: list[Mapping[str, Any]]) -> Templates:
    """Chat templates: separate files come before those of a config, as in transformers."""
    files = {file.stem: file for file in (directory / "additional_chat_templates").glob("*.jinja")}
    if (directory / "chat_template.jinja").is_file():
        files["default"] = directory / "chat_template.jinja"
    try:
        found = {name: file.read_text(encoding="utf-8") for name, file in files.items()}
        if found:
            return found["default"] if list(found) == ["default"] else found
        said = next((one["chat_template"] for one in configs if "chat_template" in one), None)
        if isinstance(said, list):
            return {str(one["name"]): str(one["template"]) for one in said}
    except (UnicodeDecodeError, KeyError, TypeError) as error:
        raise ModelError(f"the chat templates in {directory} are damaged: {error}") from error
    return said if isinstance(said, str) else None


def _special_tokens(configs: list[Mapping[str, Any]]) -> dict[str, str]:
    """The tokens that a template may name, such as ``bos_token``, as texts."""
    found = {}
    for name in _SPECIAL:
        said = next((config[name] for config in configs if config.get(name) is not None), None)
        text = said.get("content") if isinstance(said, dict) else said
        if isinstance(text, str):
            found[name] = text
    if "eos_token" in found:
        found.setdefault("pad_token", found["eos_token"])  # as dph.model.loading has it
    return found


def _said(configs: list[Mapping[str, Any]], key: str) -> Any:
    """A token as the first file that speaks of it says; some class's default where none does."""
    return next((config[key] for config in configs if key in config), _UNSAID)


_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx")
"""Names in configs of the longest row of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """Facts of a model's directory without its weights; None where unknown."""

    directory: Path
    context: int | None
    vocabulary: int | None


def check_model(recipe: Recipe, findings: Findings) -> ModelFiles | None:
    """Facts of the model's directory; None if it is missing or cannot be read.

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
        findings.errors.append(
            f"model.path: {directory / 'config.json'} does not name a model_type"
        )
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
    """Packages without which the model cannot be trained in this package's own loop."""
    if recipe.train.engine != "own":
        return []  # it is for another environment
    model = recipe.model
    needed = [PEFT] if model.adapter else [TORCHAO] if model.weights == "bfloat16" else []
    needed += [BITSANDBYTES] * (model.weights == "nf4") + [LIGER] * (model.kernels == "liger")
    return [f"model: {extra.missing}" for extra in needed if not extra.is_installed]


def _directory(model: ModelSettings, findings: Findings) -> Path | None:
    directory = Path(model.path)
    if not is_on_hub(model):
        if model.revision is not None:
            findings.errors.append(
                f"model.revision = {model.revision!r} belongs to a model of the Hub, but "
                f"model.path = {model.path!r} is not one"
            )
        if directory.exists():
            return directory
        findings.notes.append(f"model.path does not exist: {directory}")
        return None
    at = model.revision or "its main branch"
    try:
        found = model_directory(model)
    except ModelError:
        findings.notes.append(
            f"model.path does not exist: {model.path}; a run would fetch the model of that name "
            f"from "
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
