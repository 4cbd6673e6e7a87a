"""What a row of verl's data is to the package: a problem, its tokens, the tokens that end it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from transformers import GenerationConfig, PreTrainedTokenizerBase

from dph.engines.verl.settings import SharedSettings
from dph.model.prompts import encode_prompt
from dph.records import Problem
from dph.tasks.verl import problem_of_row

_COLUMNS = ("data_source", "prompt", "reward_model", "extra_info")


def problem_of_fields(fields: Mapping[str, Any], settings: SharedSettings) -> Problem:
    """The problem of a row as verl hands it to an agent loop or a reward manager.

    Raises:
        DataError: the row is malformed; the message names the column.
    """
    row = {name: _plain(fields[name]) for name in _COLUMNS if name in fields}
    row.setdefault("prompt", _plain(fields.get("raw_prompt")))
    index = int(fields.get("index", 0))
    return problem_of_row(
        row, place=f"row {index}", position=index, ground_truth=settings.ground_truth
    )


def prompt_ids(
    tokenizer: PreTrainedTokenizerBase, problem: Problem, settings: SharedSettings
) -> tuple[int, ...]:
    """The prompt's tokens, the same as in ``dph presample`` and ``dph train``.

    Raises:
        ModelError: a chat, but the tokenizer has no chat template or its template refuses it.
    """
    return encode_prompt(
        tokenizer, problem.prompt, chat=settings.chat, system_prompt=settings.system_prompt
    )


def stop_ids(config: DictConfig, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """The tokens that end an answer: the tokenizer's and the model's generation config's."""
    ids = set() if tokenizer.eos_token_id is None else {int(tokenizer.eos_token_id)}
    directory = Path(config.actor_rollout_ref.model.path)
    if (directory / "generation_config.json").is_file():
        ends = GenerationConfig.from_pretrained(directory).eos_token_id
        ids.update([ends] if isinstance(ends, int) else ends or [])
    return tuple(sorted(ids))


def _plain(value: Any) -> Any:
    """A value without the arrays that verl wraps its fields in."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if key not in _ADDED}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


_ADDED = ("num_turns", "rollout_reward_scores")
"""What verl's own reward managers write into ``extra_info``."""
