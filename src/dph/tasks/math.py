"""Math: the paper's evaluation sets, a training set, any file of problems and answers."""

import ast
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph._base.files.rows import read_rows
from dph.errors import DataError, SettingsError
from dph.records import Problem
from dph.tasks.problems import ProblemsOfFile
from dph.tasks.verifiers.math.answer import has_box, last_boxes

BOXED_INSTRUCTION = "Please reason step by step, and put your final answer within \\boxed{}."
"""Instruction of Qwen2.5-Math, which everyone uses who grades boxed answers."""

# Names of columns in published files, in lower case; of those that a file has, the first counts.
# MATH, AIME, AMC, NuminaMath, OpenR1, Omni-MATH, Big-Math: problem; GSM8K, OlympiadBench, DeepMath:
# question; DAPO-Math-17k and other files of verl: prompt.
QUESTIONS = ("problem", "question", "prompt")
# OlympiadBench, DeepMath: final_answer; IMO-AnswerBench: short answer; verl: reward_model; MATH,
# Minerva, NuminaMath-CoT: solution, of which only boxes, or a number by itself, count.
ANSWERS = ("answer", "final_answer", "short answer", "ground_truth", "reward_model", "solution")
_OWN_FIELDS = re.compile(
    r"problem|question|answer|id|problem_id|prompt|context|(?:r1_)?solutions?(?:_\d+)?|generations"
    r"|messages|final_answer|reward_model|source_prompt",
    re.IGNORECASE,
)
_WHOLE_NUMBER = re.compile(r"-?\d+")
_ALONE = re.compile(r"-?[\d.,/]+")
# Words for no gold in NuminaMath-1.5.
_NO_GOLD = re.compile(r"proofs?|not[ _]?found|n/?a|nan", re.IGNORECASE)
_LIST_OF_TEXTS = re.compile(r"""\[\s*["'].*["']\s*\]""", re.DOTALL)
_LITERAL = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*,?""", re.DOTALL)
_WITH_THOUSANDS = re.compile(r"[^\d,([{]*\d{1,3}(?:,\d{3})+(?:\.\d+)?[^\d,]*")
_NAMED_BOX = re.compile(r"([A-Za-z])(?:_\{?\w\}?)?\s*=\s*(?=\\boxed)")
_DAPO_PROMPT = re.compile(
    r"Solve the following math problem step by step\. The last line of your response should be"
    r".*?\n\n(.*?)(?:\n\nRemember to put your answer on its own line .*)?",
    re.DOTALL,
)


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


def load_math_set(directory: Path, name: str, **options: Any) -> ProblemsOfFile:
    """The problems of a set in MATH_SETS from its parquet file in ``directory``, by ``load_math``.

    Raises:
        SettingsError: there is no such set.
        DataError: the file is missing or malformed.
    """
    if name not in MATH_SETS:
        raise SettingsError(f"the sets are {', '.join(MATH_SETS)}, got {name!r}")
    return load_math(directory / MATH_SETS[name].file, name=name, **options)


def load_math(
    path: Path,
    *,
    name: str,
    integers: bool = False,
    question: str | None = None,
    answer: str | None = None,
) -> ProblemsOfFile:
    r"""The problems of any file of rows (dph._base.files.rows) with problems and answers.

    The gold is an answer's text, the values of a list, what follows ``####`` (GSM8K), or else
    the last group of boxes of the solution: all of ``\boxed{3}`` and ``\boxed{5}``, but not a box
    of an earlier step. Ids are ``<name>-<number>``, by the row's ``problem_id`` or ``id``, or its
    position from 0. Every other field but solutions goes along.

    Args:
        path: the file.
        name: of the set; begins the ids.
        integers: keep only problems whose answer is a whole number.
        question: column of the problem; None for the first of QUESTIONS.
        answer: column of the gold; None for the first of ANSWERS that has one.

    Raises:
        DataError: the file is missing, a row has no problem, or an id is used twice.
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
        if missing := [c for c in (question, answer) if c is not None and c not in row]:
            raise DataError(f"{place}: no column {missing[0]!r}; there are {', '.join(row)}")
        text = _question(row, question, place)
        gold, why = _gold(row, answer)
        if not gold:
            dropped.append((place, why))
        elif integers and not _WHOLE_NUMBER.fullmatch(gold):
            dropped.append((place, "the answer is not a whole number"))
        else:
            gone = {question, answer}
            others = {
                field: value
                for field, value in row.items()
                if value is not None and field not in gone and not _OWN_FIELDS.fullmatch(field)
            }
            made = {"answer": gold} | others
            problems.append(Problem(problem_id=problem_id, prompt=math_prompt(text), answer=made))
    return ProblemsOfFile(problems=problems, dropped=dropped)


def math_prompt(problem: str) -> str:
    """The problem, and on the next line how to answer."""
    return f"{problem.strip()}\n{BOXED_INSTRUCTION}"


def _number(row: Any, position: int, place: str) -> Any:
    if not isinstance(row, dict):
        raise DataError(f"{place}: a problem is a JSON object, got {row!r:.80}")
    return next((row[f] for f in ("problem_id", "id") if row.get(f) not in (None, "")), position)


def _question(row: Mapping[str, Any], named: str | None, place: str) -> str:
    columns = {str(column).lower(): value for column, value in row.items() if value is not None}
    column = named or next((name for name in QUESTIONS if name in columns), "problem")
    text = row.get(column, columns.get(column))
    if isinstance(text, list) and text and isinstance(text[-1], dict):  # a chat
        text = text[-1].get("content")
    if not isinstance(text, str) or not text.strip():
        raise DataError(
            f"{place}: {column!r} must be text, got {text!r:.80}; the columns are "
            f"{', '.join(map(str, row))}, and the problem is in the first of "
            f"{', '.join(QUESTIONS)}, or in that of --question"
        )
    wrapped = _DAPO_PROMPT.fullmatch(text.strip())
    return wrapped[1] if wrapped else text


def _gold(row: Mapping[str, Any], named: str | None) -> tuple[str, str]:
    """The first gold that a column has, or '' and the reason."""
    columns = {str(column).lower(): value for column, value in row.items()}
    found = [name for name in ANSWERS if name in columns]
    if named:
        return _gold_of(row[named]), "no answer"
    golds = (_gold_of(columns[name], marked=name == "solution") for name in found)
    missing = f"no answer in the columns {', '.join(map(str, row))} (--answer names one)"
    return next(filter(None, golds), ""), "no answer" if found else missing


def _gold_of(value: Any, *, marked: bool = False) -> str:
    """The gold in the value of a column, or ''; with ``marked`` text without a mark is none."""
    if isinstance(value, dict):
        return _gold_of(value.get("ground_truth"))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = "" if value is None else str(value).strip()
    if isinstance(value, str) and _LIST_OF_TEXTS.fullmatch(text):
        with contextlib.suppress(ValueError, SyntaxError):
            # numpy prints no commas, without which Python reads several literals as one.
            value = ast.literal_eval(_LITERAL.sub(r"\1,", text))
    if isinstance(value, list):
        return ", ".join(filter(None, map(_gold_of, value)))
    if "####" in text:
        text = text.rpartition("####")[2].strip()
        return text.replace(",", "") if _WITH_THOUSANDS.fullmatch(text) else text
    names = set(_NAMED_BOX.findall(text))
    if boxes := last_boxes(_NAMED_BOX.sub("", text) if len(names) == 1 else text):
        return ", ".join(boxes)
    unknown = _NO_GOLD.fullmatch(text) or has_box(text) or (marked and not _ALONE.fullmatch(text))
    return "" if unknown else text
