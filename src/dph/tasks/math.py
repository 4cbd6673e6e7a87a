"""Math: the paper's evaluation sets, a training set, any file of problems and answers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph._base.files.rows import read_rows
from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.tasks.verifiers.math.answer import last_boxes

BOXED_INSTRUCTION = "Please reason step by step, and put your final answer within \\boxed{}."
"""Instruction of Qwen2.5-Math, which everyone uses who grades boxed answers."""

_OWN_FIELDS = frozenset({"problem", "answer", "solution", "id", "problem_id", "prompt", "context"})
_WHOLE_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MathSet:
    """A set of problems: its file and how many samples a problem its scores are reported for.

    ``samples`` is n of Mean@n, ``ks`` are those of Pass@k, after Tables 3, 4 and 8 of
    arXiv:2509.07430; a training set has none.
    """

    name: str
    file: str
    samples: int | None = None
    ks: tuple[int, ...] = ()


MATH_SETS: Mapping[str, MathSet] = MappingProxyType(
    {
        each.name: each
        for each in (
            MathSet(name="aime24", file="aime24.parquet", samples=64, ks=(64,)),
            MathSet(name="aime25", file="aime25.parquet", samples=64, ks=(64,)),
            MathSet(name="amc23", file="amc23.parquet", samples=64, ks=(64,)),
            MathSet(name="math500", file="math500.parquet", samples=16, ks=(8, 16)),
            MathSet(name="olympiadbench", file="olympiadbench.parquet", samples=16, ks=(8, 16)),
            MathSet(name="minerva", file="minerva_math.parquet", samples=16, ks=(8, 16)),
            MathSet(name="college_math", file="college_math.parquet", samples=16, ks=(8, 16)),
            MathSet(name="gsm8k", file="gsm8k_test.parquet", samples=16, ks=(8, 16)),
            MathSet(name="train", file="train.parquet"),
        )
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MathProblems:
    """The problems of a file, and the rows that became none: where they stand and why."""

    problems: list[Problem]
    dropped: list[tuple[str, str]]


def load_math_set(directory: Path, name: str, *, integers: bool = False) -> MathProblems:
    """The problems of a set in MATH_SETS from its parquet file in ``directory``.

    Raises:
        SettingsError: there is no such set.
        DataError: the file is missing or malformed.
    """
    if name not in MATH_SETS:
        raise SettingsError(f"the sets are {', '.join(MATH_SETS)}, got {name!r}")
    return load_math(directory / MATH_SETS[name].file, name=name, integers=integers)


def load_math(path: Path, *, name: str, integers: bool = False) -> MathProblems:
    r"""The problems of any file of rows (dph._base.files.rows) with ``problem`` and ``answer``.

    Without an ``answer`` the last ``\boxed{}`` of ``solution`` is the gold answer. Ids are
    ``<name>-<number>``, by the row's ``problem_id`` or ``id``, or its position from 0. Every other
    field but the solution goes along.

    Args:
        path: the file.
        name: of the set; begins the ids.
        integers: keep only problems whose answer is a whole number.

    Raises:
        DataError: the file is missing, a row has no ``problem``, or an id is used twice.
    """
    problems: list[Problem] = []
    dropped: list[tuple[str, str]] = []
    places: dict[str, str] = {}
    for position, (place, row) in enumerate(read_rows(path)):
        problem_id = f"{name}-{_number(row, position, place)}"
        if problem_id in places:
            raise DataError(
                f"{place}: the id of {problem_id!r} was already used at {places[problem_id]}"
            )
        places[problem_id] = place
        gold = _gold(row)
        if not gold:
            dropped.append((place, "no answer"))
        elif integers and not _WHOLE_NUMBER.fullmatch(gold):
            dropped.append((place, "the answer is not a whole number"))
        else:
            problems.append(_problem(problem_id, row, gold, place))
    return MathProblems(problems=problems, dropped=dropped)


def math_prompt(problem: str) -> str:
    """The problem, and on the next line how to answer."""
    return f"{problem.strip()}\n{BOXED_INSTRUCTION}"


def _number(row: Any, position: int, place: str) -> Any:
    if not isinstance(row, dict):
        raise DataError(f"{place}: a problem is a JSON object, got {row!r:.80}")
    return next((row[f] for f in ("problem_id", "id") if row.get(f) not in (None, "")), position)


def _gold(row: Mapping[str, Any]) -> str | None:
    answer = row.get("answer")
    if answer is None or not str(answer).strip():
        boxes = last_boxes(str(row.get("solution") or ""))
        return boxes[-1] if boxes else None
    return str(answer).strip()


def _problem(problem_id: str, row: Mapping[str, Any], gold: str, place: str) -> Problem:
    text = row.get("problem")
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{place}: 'problem' must be text, got {text!r:.80}")
    others = {f: v for f, v in row.items() if f not in _OWN_FIELDS and v is not None}
    return Problem(
        problem_id=problem_id, prompt=math_prompt(text), answer={"answer": gold} | others
    )
