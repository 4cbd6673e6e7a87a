"""A model's tokenizer, read without transformers (which loads torch)."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from dph.errors import DataError, ModelError
from dph.files import read_json

_UNSAID = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """The tokenizer itself, and whether a chat template lies beside it."""

    tokenizer: Tokenizer
    has_template: bool

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
    templates = (directory / "chat_template.jinja", directory / "chat_template.json")
    has_template = any(t.is_file() for t in templates) or any(
        config.get("chat_template") for config in configs
    )
    return TokenizerFiles(tokenizer=tokenizer, has_template=has_template)


def _said(configs: list[Mapping[str, Any]], key: str) -> Any:
    """A token as the first file that speaks of it says; some class's default where none does."""
    return next((config[key] for config in configs if key in config), _UNSAID)
