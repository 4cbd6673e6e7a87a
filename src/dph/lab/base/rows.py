"""Rows of supervised fine-tuning: which tokens a model reads, and which it learns to say.

A row has a ``prompt`` (a text, or messages) and a ``response``; or ``messages`` alone, of which all
that the assistant says is learnt.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from dph._base.files.rows import read_rows
from dph.errors import DataError, ModelError
from dph.model.prompts import encode_prompt

IGNORED = -100
"""The label of a token that is read and not learnt."""


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """Token ids, and for each the label: itself where it is learnt, else IGNORED."""

    ids: tuple[int, ...]
    labels: tuple[int, ...]

    @property
    def learnt(self) -> int:
        """Number of tokens that are learnt."""
        return sum(label != IGNORED for label in self.labels)


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """The rows that are trained on, and how many were left out, by reason."""

    rows: Sequence[EncodedRow]
    left_out: Counter[str] = field(default_factory=Counter)


def read_sft_rows(
    paths: Sequence[Path], tokenizer: PreTrainedTokenizerBase, *, chat: bool, max_tokens: int
) -> EncodedRows:
    """The rows of all files, in order.

    A row over ``max_tokens`` is left out and counted as ``too_long``: cut off, it would teach an
    answer without its end.

    Raises:
        DataError: a file cannot be read, a row is malformed, or none is left.
        ModelError: a chat, but the tokenizer has no chat template.
    """
    kept: list[EncodedRow] = []
    left_out: Counter[str] = Counter()
    for path in paths:
        for place, row in read_rows(path):
            encoded = encode_row(row, tokenizer, chat=chat, place=place)
            if len(encoded.ids) > max_tokens:
                left_out["too_long"] += 1
            else:
                kept.append(encoded)
    if not kept:
        raise DataError(
            f"no row is left of {', '.join(map(str, paths))}: "
            f"{left_out['too_long']} are longer than max_tokens={max_tokens}"
        )
    return EncodedRows(kept, left_out)


def encode_row(
    row: Any, tokenizer: PreTrainedTokenizerBase, *, chat: bool, place: str
) -> EncodedRow:
    """One row as tokens; ``place`` says where it stands, for messages.

    The prompt is encoded as in reinforcement learning and the response apart from it, so that RL
    begins with the very tokens that were learnt.

    Raises:
        DataError: the row is malformed.
        ModelError: a chat, but the tokenizer has no chat template or its template refuses it.
    """
    if not isinstance(row, Mapping):
        raise DataError(f"{place}: a row must be an object, got {row!r:.80}")
    if row.get("messages") is not None:
        return _conversation(_messages(row["messages"], place), tokenizer, place)
    prompt, response = row.get("prompt"), row.get("response")
    if not isinstance(response, str) or not response:
        raise DataError(f"{place}: response must be a text, got {response!r:.80}")
    if not isinstance(prompt, str):
        turns = _messages(prompt, place)
        answer = {"role": "assistant", "content": response}
        return _conversation([*turns, answer], tokenizer, place, last_only=True)
    if chat:
        turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": response}]
        return _conversation(turns, tokenizer, place)
    read = encode_prompt(tokenizer, prompt)
    said = (*tokenizer.encode(response, add_special_tokens=False), tokenizer.eos_token_id)
    return EncodedRow((*read, *said), (*[IGNORED] * len(read), *said))


def _messages(value: Any, place: str) -> list[dict[str, str]]:
    good = isinstance(value, Sequence) and not isinstance(value, str) and value
    if not good or not all(
        isinstance(m, Mapping) and isinstance(m.get("content"), str) and m.get("role")
        for m in value
    ):
        raise DataError(f"{place}: messages must be a list of role and content, got {value!r:.80}")
    return [{"role": m["role"], "content": m["content"]} for m in value]


def _conversation(
    turns: Sequence[Mapping[str, str]],
    tokenizer: PreTrainedTokenizerBase,
    place: str,
    *,
    last_only: bool = False,
) -> EncodedRow:
    """Learn the assistant's text after each prompt, through its end of turn."""
    answers = [i for i, turn in enumerate(turns) if turn["role"] == "assistant" and i]
    if not answers:
        raise DataError(f"{place}: the assistant says nothing after a prompt")
    ids: list[int] = []
    labels: list[int] = []
    before = ""
    for index in answers[-1:] if last_only else answers:
        asked = _text(tokenizer, turns[:index], ask=True)
        whole = _text(tokenizer, turns[: index + 1], ask=False)
        if not asked.startswith(before) or not whole.startswith(asked):
            raise ModelError(
                f"{place}: the chat template rewrites earlier turns when another follows, so the "
                f"assistant's text cannot be separated from the rest: use rows with one answer each"
            )
        # Apart, as in RL: a prompt has the same tokens whatever is answered.
        read = tokenizer.encode(asked[len(before) :], add_special_tokens=False)
        said = tokenizer.encode(whole[len(asked) :], add_special_tokens=False)
        ids += [*read, *said]
        labels += [*[IGNORED] * len(read), *said]
        before = whole
    return EncodedRow(tuple(ids), tuple(labels))


def _text(
    tokenizer: PreTrainedTokenizerBase, turns: Sequence[Mapping[str, str]], *, ask: bool
) -> str:
    """The turns in the chat template's words; ``ask``: up to where the assistant speaks."""
    if tokenizer.chat_template is None:
        raise ModelError(
            "the tokenizer has no chat template, which rows of messages need: use rows of prompt "
            "and response as text (chat = false), or save a chat_template with the tokenizer"
        )
    try:
        text = tokenizer.apply_chat_template(
            [dict(turn) for turn in turns], tokenize=False, add_generation_prompt=ask
        )
    except TemplateError as error:
        raise ModelError(f"the chat template refuses a row: {error}") from error
    return str(text)
