"""Rows of graded answers: our columns, those that ``dph grade`` writes, and other names."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from dph.errors import DataError
from dph.records import Outcome
from dph.runs.evaluate.answers.record import (
    USUAL,
    GradedAnswer,
    PlacedRow,
    Row,
    id_of_prompt,
    named_columns,
    prompt_of,
    text_of,
    verdict_of,
)

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
        with contextlib.suppress(KeyError, ValueError, TypeError):  # refused as text, or as nothing
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
