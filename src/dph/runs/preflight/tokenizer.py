"""A model's tokenizer, read without transformers (which loads torch)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dph._base.files import read_json
from dph.errors import DataError, ModelError
from dph.model.chat_template import Templates

_UNSAID = object()
_SPECIAL = tuple(f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """The tokenizer itself, the chat templates beside it, and its tokens that they may name."""

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
    """The tokenizer in a model's directory; None where only transformers can read it.

    Raises:
        ModelError: there is none, it is damaged, or it says that it lacks a token we need.
    """
    files = [directory / name for name in ("tokenizer_config.json", "special_tokens_map.json")]
    try:
        configs = [read_json(file) for file in files if file.is_file()]
    except DataError as error:
        raise ModelError(str(error)) from error
    configs = [config for config in configs if isinstance(config, dict)]
    if configs and _said(configs, "eos_token") is None:
        raise ModelError(
            f"the tokenizer in {directory} has no eos token and answers need an end: "
            "set tokenizer.eos_token and save it there"
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
    """Files of their own come before what a config says, as transformers reads them."""
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
