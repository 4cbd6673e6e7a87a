"""One graded answer of any tool, and what its columns are called."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dph.errors import DataError, SettingsError
from dph.records import Outcome

Prompt = str | tuple[Mapping[str, str], ...]
Row = Mapping[str, Any]
PlacedRow = tuple[str, Row]
"""A row, and where it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedAnswer:
    """An answer with its verdict; ``index`` is its place among those to the problem (-1: greedy).

    ``prompt`` and ``gold`` are None where the file has none; ``step`` is that of training.
    """

    set_name: str
    problem_id: str
    place: str
    outcome: Outcome
    reward: float
    text: str = ""
    reason: str = ""
    style: str | None = None
    index: int | None = None
    prompt: Prompt | None = None
    gold: str | None = None
    step: int = 0


USUAL: Mapping[str, tuple[str, ...]] = {
    "problem_id": ("problem_id", "id", "task_id"),
    "prompt": ("prompt", "question", "problem"),
    "response": ("response", "completion", "output", "pred_sql", "program", "text"),
    "gold": ("gold", "answer", "gold_sql", "ground_truth", "target"),
    "correct": ("outcome", "correct", "is_correct", "passed", "reward", "score"),
    "set": ("set",),
}
"""Names that rows may have for a column of ours; the first that is there counts."""

_named: dict[str, str] = {}


def named_columns() -> Mapping[str, str]:
    """Columns that the user named, by our names."""
    return dict(_named)


@contextmanager
def columns_named(given: Mapping[str, str]) -> Iterator[None]:
    """Read files of answers with these names of columns, by ours, until the block ends.

    It holds for all threads: a server reads files again when they change.

    Raises:
        SettingsError: we have no such column.
    """
    if unknown := [name for name in given if name not in USUAL]:
        raise SettingsError(f"there is no column {unknown[0]!r} to name, only {', '.join(USUAL)}")
    before = named_columns()
    _named.clear()
    _named.update(given)
    try:
        yield
    finally:
        _named.clear()
        _named.update(before)


def only_correct_named(tool: str) -> str | None:
    """The user's name of what says right or wrong, in a file whose other columns are known.

    Raises:
        SettingsError: the user named another column.
    """
    if others := [name for name in _named if name != "correct"]:
        raise SettingsError(f"the columns of {tool} are known: {others[0]!r} cannot be named there")
    return _named.get("correct")


_WORDS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def verdict_of(value: Any, place: str, name: str) -> tuple[Outcome, float]:
    """The outcome and reward that a value stands for.

    A bool, a number in [0, 1], of which 1 is right, or, unless it is a reward, a text of these or
    an ``Outcome``.

    Raises:
        DataError: it is something else.
    """
    if isinstance(value, str) and name != "reward":
        if value in Outcome.__members__:
            return Outcome(value), float(value == Outcome.CORRECT)
        value = _WORDS.get(value.strip().lower(), value)
    if isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1:
        return (Outcome.CORRECT if value == 1 else Outcome.WRONG), float(value)
    wanted = {"outcome": f"one of {', '.join(Outcome)}", "reward": "a number in [0, 1]"}
    raise DataError(
        f"{place}: {name} must be {wanted.get(name, 'true, false or a number in [0, 1]')}, got "
        f"{value!r:.80}; --column correct=NAME names another column"
    )


def is_zero_or_one(value: Any) -> bool:
    """Whether a value can only mean right or wrong."""
    return isinstance(value, int | float) and value in (0, 1)


def text_of(value: Any, place: str) -> str:
    """A text, the texts of chat messages or of parts of one, or "" for nothing.

    Raises:
        DataError: it is none of these.
    """
    if value is None or value != value:  # NaN is what pandas has for nothing
        return ""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()  # half of a surrogate pair
    if isinstance(value, Mapping):
        return text_of(value.get("content", value.get("text", "")), place)
    if isinstance(value, Sequence):
        return "\n".join(filter(None, (text_of(part, place) for part in value)))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DataError(f"{place}: an answer is a text or a list of messages, got {value!r:.80}")


def prompt_of(value: Any, place: str) -> Prompt | None:
    """A prompt as a problem has it: a text, or messages of a chat."""
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        return tuple(
            {"role": str(one.get("role", "user")), "content": text_of(one, place)} for one in value
        )
    return text_of(value, place) or None


def id_of_prompt(prompt: Prompt | None, gold: str | None) -> str:
    """A short id for a problem that is known by its text alone: equal for equal texts."""
    return f"prompt-{hashlib.sha256(json.dumps([prompt, gold]).encode()).hexdigest()[:10]}"
