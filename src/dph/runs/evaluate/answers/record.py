"""One graded answer of any tool, what its columns are called, and rows of such columns."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
    """The user's name of what says right or wrong, in a file whose other columns are known."""
    if others := [name for name in _named if name != "correct"]:
        raise SettingsError(f"the columns of {tool} are known: {others[0]!r} cannot be named there")
    return _named.get("correct")


_WORDS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def verdict_of(value: Any, place: str, name: str) -> tuple[Outcome, float]:
    """The outcome and reward that a value stands for.

    A bool, a number in [0, 1], of which 1 is right, or, unless it is a reward, a text of these or
    an ``Outcome``.
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
    """A text, the texts of chat messages or of parts of one, or "" for nothing."""
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


NO_SET = "answers"
"""The set of rows that name none."""
Names = Mapping[str, str | None]


def read_answer_rows(rows: Iterator[PlacedRow], first: Row) -> tuple[str, Iterator[GradedAnswer]]:
    """The column that says what is right, and the answers."""
    correct = _names(first)["correct"]
    return str(correct), (answer for placed in rows for answer in _answers(*placed))


def _names(row: Row) -> Names:
    """Our columns by the names that they have in a row; a column of one name is no other."""
    named = named_columns()
    taken = set(named.values())
    usual = {name: [one for one in of if one not in taken] for name, of in USUAL.items()}
    usual |= {name: [column] for name, column in named.items()}
    return {name: next((one for one in of if one in row), None) for name, of in usual.items()}


def _answers(place: str, row: Any) -> Iterator[GradedAnswer]:
    """The answer of a row; several where the row has lists of answers and of verdicts."""
    row = row if isinstance(row, dict) else {}
    of = _names(row)
    _require_columns(row, place, of)
    cells = {name: None if column is None else row[column] for name, column in of.items()}
    said, given = cells["response"], cells["correct"]
    pairs = [(said, given)]
    if isinstance(given, list):
        if not isinstance(said, list) or len(said) != len(given):
            raise DataError(
                f"{place}: {of['correct']} is a list of another length than the answers"
            )
        pairs = list(zip(said, given, strict=True))
    prompt = prompt_of(cells["prompt"], place)
    gold = None if cells["gold"] is None else str(cells["gold"])
    problem_id = cells["problem_id"]
    if of["problem_id"] and (isinstance(problem_id, bool) or not isinstance(problem_id, str | int)):
        raise DataError(f"{place}: problem_id must be text or a whole number, got {problem_id!r}")
    for text, verdict in pairs:
        outcome, reward = _verdict(row, verdict, str(of["correct"]), place)
        yield GradedAnswer(
            set_name=NO_SET if cells["set"] is None else str(cells["set"]),
            problem_id=id_of_prompt(prompt, gold) if problem_id is None else str(problem_id),
            place=place,
            outcome=outcome,
            reward=reward,
            text=text_of(text, place),
            reason=str(row.get("reason") or ""),
            style=row.get("style") or None,
            index=_index(row, place) if len(pairs) == 1 else None,
            prompt=prompt,
            gold=gold,
        )


def _verdict(row: Row, value: Any, name: str, place: str) -> tuple[Outcome, float]:
    """The outcome, with the reward next to it, where there is one."""
    if name != "outcome":
        return verdict_of(value, place, name)
    if value is None:
        return verdict_of(row.get("reward"), place, "reward")
    outcome, reward = verdict_of(value, place, name)
    return outcome, verdict_of(row["reward"], place, "reward")[1] if "reward" in row else reward


def _index(row: Row, place: str) -> int | None:
    value = row.get("sample_index")
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
    if value is not None and not whole:
        raise DataError(f"{place}: sample_index must be a whole number, got {value!r}")
    return None if value is None else int(value)


def with_numbers(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of a CSV file, in which all is text: numbers are read, and an empty cell is none."""
    filled: dict[str, Any] = {name: cell or None for name, cell in row.items()}
    for name in ("reward", "sample_index"):
        with suppress(KeyError, ValueError, TypeError):  # refused as text, or as nothing
            filled[name] = float(filled[name])
    return filled


def _require_columns(row: Row, place: str, names: Names) -> None:
    if gone := [column for name, column in named_columns().items() if names[name] is None]:
        raise DataError(f"{place}: there is no column {gone[0]!r}, only {', '.join(row)}")
    lacking = [] if names["problem_id"] or names["prompt"] else ["problem_id"]
    lacking += [] if names["correct"] else ["reward"]
    if lacking:
        raise DataError(
            f"{place}: there is no {' and no '.join(map(repr, lacking))}, only "
            f"{', '.join(row) or 'nothing'}; expected are problem_id (or prompt) and correct, "
            "outcome or reward in every row (--column names others), or a file of verl, TRL, "
            "lm-eval, Inspect, lighteval or evalplus"
        )
