"""A row of fine-tuning as texts: a prompt and a response, or messages."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dph.errors import DataError


@dataclass(frozen=True, slots=True)
class InstructRow:
    """A row, the part it comes from, and a key of what it says.

    ``key`` is a SHA-256 over its texts, so that equal rows have one, and their order by it is that
    of no file.
    """

    part: str
    content: Mapping[str, Any]
    key: str

    def line(self) -> str:
        """The row as a line of JSON; ``source`` says its part."""
        return json.dumps({**self.content, "source": self.part}, ensure_ascii=False)

    @property
    def prompt(self) -> str:
        """What is asked: all texts but the last."""
        *asked, _ = row_texts(self.content)
        return "\n".join(asked)

    @property
    def text(self) -> str:
        """All that is said."""
        return "\n".join(row_texts(self.content))


def instruct_row(part: str, value: Any, place: str) -> InstructRow:
    """Check a row.

    Raises:
        DataError: it has neither messages nor a prompt and a response.
    """
    if not isinstance(value, Mapping) or len(texts := [*row_texts(value)]) < 2:
        raise DataError(
            f"{place}: a row has a prompt and a response, or messages; got {value!r:.80}"
        )
    key = hashlib.sha256(json.dumps(texts).encode("utf-8", "surrogatepass")).hexdigest()
    return InstructRow(part, value, key)


def row_texts(row: Mapping[str, Any]) -> Iterator[str]:
    """What is said, turn by turn; nothing of what has another form."""
    turns = row.get("messages")
    if turns is None:
        prompt, answer = row.get("prompt"), row.get("response")
        if not isinstance(answer, str):
            return
        turns = [*(prompt if isinstance(prompt, list) else [{"content": prompt}])]
        turns.append({"content": answer})
    for turn in turns:
        if isinstance(turn, Mapping) and isinstance(turn.get("content"), str):
            yield turn["content"]
