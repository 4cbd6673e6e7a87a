"""Agreement by a verifier: an answer agrees with another if it is right where that one is the gold.

For every class the first answer in it stands for all of it: answer i is of the class of the first
representative r with grade(answer i, gold made of r) = CORRECT. So n answers with m results take at
most n m gradings instead of n squared, and equal answers are graded once. Where a verifier's
equality is not transitive (a tolerance, partial rewards), this order decides.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.agreement.base import Classes
from dph.tasks.verifiers.base import Verifier, verifier_identity
from dph.tasks.verifiers.code.task import FIELDS as CODE_FIELDS
from dph.tasks.verifiers.code.task import extract_program
from dph.tasks.verifiers.exact import NumberTooLongError, last_number
from dph.tasks.verifiers.math.answer import find_answer
from dph.tasks.verifiers.qwen.answer import qwen_answer
from dph.tasks.verifiers.sql.extraction import SQLSource, extract_sql
from dph.tasks.verifiers.sql.verifier import SQLVerifier

# What an answer would be as a gold answer: one row for each verifier that can compare answers.

Gold = Mapping[str, Any]
"""Fields that make a problem whose gold answer is some model's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldOfAnswer:
    """Question to a verifier about two answers.

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
    """The boxes, or the text after a phrase; other expressions are not compared."""
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


def compares(verifier: Verifier) -> bool:
    """Whether answers can be compared by this verifier."""
    return verifier.name in GOLDS


class VerifierComparer:
    """Classes by a verifier of ``GOLDS``; whoever made the verifier closes it.

    Raises:
        SettingsError: the verifier cannot compare two answers.
    """

    def __init__(self, verifier: Verifier) -> None:
        if not compares(verifier):
            raise SettingsError(
                f"the verifier {verifier.name!r} cannot compare two answers; these can: "
                f"{', '.join(GOLDS)}"
            )
        self._verifier, self._golds = verifier, GOLDS[verifier.name]

    @property
    def identity(self) -> dict[str, Any]:
        """That of the verifier."""
        return verifier_identity(self._verifier)

    def close(self) -> None:
        """Do nothing: the verifier is not this one's."""

    def classes(
        self, problems: Sequence[Problem], answers: Sequence[Sequence[str | None]]
    ) -> list[Classes]:
        """The classes of the answers to each prompt.

        Raises:
            DataError: a problem lacks what the verifier needs apart from a gold answer.
            VerifierError: the verifier broke.
        """
        groups = [
            self._group(problem, group) for problem, group in zip(problems, answers, strict=True)
        ]
        self._leave_out_silent(groups)
        while waiting := [group for group in groups if group.open]:
            self._next_class(waiting)
        return [group.classes() for group in groups]

    def _group(self, problem: Problem, answers: Sequence[str | None]) -> "_Group":
        group = _Group(problem, [None] * len(answers))
        for index, response in enumerate(answers):
            gold = None if response is None else self._golds.make(self._verifier, response)
            if gold is not None and response is not None:
                key = json.dumps(gold, sort_keys=True)
                group.keys[index] = key
                group.results.setdefault(key, _Result(response, gold))
        group.open = list(group.results)
        return group

    def _leave_out_silent(self, groups: Sequence["_Group"]) -> None:
        for gold in self._golds.silent:
            asked = [(group, key) for group in groups for key in group.open]
            verdicts = self._grade([(group, group.results[key], gold) for group, key in asked])
            for (group, key), verdict in zip(asked, verdicts, strict=True):
                if verdict.outcome is Outcome.BAD_GOLD:
                    raise DataError(
                        f"answers to {group.problem.problem_id!r} cannot be compared: "
                        f"{verdict.reason}"
                    )
                if verdict.outcome is not Outcome.WRONG:  # it says nothing, or cannot be evaluated
                    group.open.remove(key)

    def _next_class(self, groups: Sequence["_Group"]) -> None:
        """Let the first open answer of every group be a gold for the open ones, itself included."""
        asked = [(group, key) for group in groups for key in group.open]
        first = {id(group): group.open[0] for group in groups}
        verdicts = self._grade(
            [(g, g.results[key], g.results[first[id(g)]].gold) for g, key in asked]
        )
        for (group, key), verdict in zip(asked, verdicts, strict=True):
            representative = first[id(group)]
            if key == representative:  # comes first of its group
                group.open.remove(key)
                if verdict.outcome is Outcome.CORRECT:
                    group.members[key] = key
            elif representative in group.members and verdict.outcome is Outcome.CORRECT:
                group.members[key] = representative
                group.open.remove(key)

    def _grade(self, asked: Sequence[tuple["_Group", "_Result", Gold]]) -> list[Verdict]:
        problems = [
            replace(group.problem, answer={**group.problem.answer, **gold})
            for group, _, gold in asked
        ]
        return self._verifier.grade(problems, [result.response for _, result, _ in asked])


@dataclass(frozen=True, slots=True)
class _Result:
    """The first response that gives a result, and that result as a gold."""

    response: str
    gold: Gold


@dataclass(slots=True)
class _Group:
    """The answers to one problem while they are put into classes; results are named by a key."""

    problem: Problem
    keys: list[str | None]
    """Of every answer, its result."""
    results: dict[str, _Result] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    members: dict[str, str] = field(default_factory=dict)
    """Results with a class, and the result that stands for it."""

    def classes(self) -> Classes:
        """Numbered in the order in which they first occur."""
        named = [None if key is None else self.members.get(key) for key in self.keys]
        numbers = {key: i for i, key in enumerate(dict.fromkeys(k for k in named if k is not None))}
        return tuple(None if key is None else numbers[key] for key in named)
