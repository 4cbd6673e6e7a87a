"""What an answer would be as a gold answer: one row for each verifier that can compare answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dph.records import Problem
from dph.tasks.verifiers.base import Verifier
from dph.tasks.verifiers.code.extraction import extract_program
from dph.tasks.verifiers.code.task import FIELDS as CODE_FIELDS
from dph.tasks.verifiers.math.answer import find_answer
from dph.tasks.verifiers.number import NumberTooLongError, last_number
from dph.tasks.verifiers.qwen.answer import qwen_answer
from dph.tasks.verifiers.sql.extraction import SQLSource, extract_sql
from dph.tasks.verifiers.sql.verifier import SQLVerifier

Gold = Mapping[str, Any]
"""Fields that make a problem whose gold answer is some model's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldOfAnswer:
    """How a verifier is asked about two answers.

    Attributes:
        make: the gold of an answer; None where nothing in it can be taken as one.
        fields: those that hold a gold; a problem that has one of them is labelled.
        silent: golds that say nothing: what equals one of them is no result. They are graded
            against first, so that an answer that cannot be evaluated is never made a gold.
    """

    make: Callable[[Verifier, str], Gold | None]
    fields: tuple[str, ...] = ("answer",)
    silent: tuple[Gold, ...] = ()


def _statement(verifier: Verifier, response: str) -> Gold | None:
    if not isinstance(verifier, SQLVerifier):
        return None
    sources = [SQLSource(name) for name in verifier.own_settings["sources"]]
    found = extract_sql(response, sources)
    return None if found is None else {"gold_sql": found.statement}


def _text(_: Verifier, response: str) -> Gold | None:
    return {"answer": response.strip()} if response.strip() else None


def _number(_: Verifier, response: str) -> Gold | None:
    try:
        number = last_number(response)
    except (NumberTooLongError, ZeroDivisionError):
        return None
    return None if number is None else {"answer": str(number)}


def _boxed(verifier: Verifier, response: str) -> Gold | None:
    """The boxes, or what follows a phrase; an expression without either is no result to compare."""
    found = find_answer(response, verifier.settings["phrases"])
    if found is None or not any(part.strip() for part in found.parts):
        return None
    return {"answer": " ".join(f"\\boxed{{{part}}}" for part in found.parts)}


def _qwen(_: Verifier, response: str) -> Gold | None:
    found = qwen_answer(response)
    return {"answer": f"\\boxed{{{found}}}"} if found.strip() else None


def _program(_: Verifier, response: str) -> Gold | None:
    """The response itself: which of its blocks is the program depends on the problem."""
    return None if extract_program(response, prefix=True) is None else {"same_as": response}


GOLDS: Mapping[str, GoldOfAnswer] = MappingProxyType(
    {
        "sql": GoldOfAnswer(
            make=_statement,
            fields=("gold_sql",),
            silent=({"gold_sql": "SELECT NULL"}, {"gold_sql": "SELECT NULL WHERE 0"}),
        ),
        "math": GoldOfAnswer(make=_boxed),
        "math_qwen": GoldOfAnswer(make=_qwen),
        "code": GoldOfAnswer(make=_program, fields=(*CODE_FIELDS, "same_as")),
        "number": GoldOfAnswer(make=_number),
        "exact": GoldOfAnswer(make=_text),
    }
)
"""By the verifier's name."""


def labelled(problem: Problem, verifier: Verifier) -> bool:
    """Whether the problem has a gold answer for a verifier of ``GOLDS``; False for any other."""
    row = GOLDS.get(verifier.name)
    return row is not None and any(problem.answer.get(name) is not None for name in row.fields)
