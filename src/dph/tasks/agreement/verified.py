"""Agreement by a verifier: an answer agrees with another if it is right where that one is the gold.

For every class the first answer in it stands for all of it: answer i is of the class of the first
representative r with grade(answer i, gold made of r) = CORRECT. So n answers with m results take at
most n m gradings instead of n squared, and equal answers are graded once. Where a verifier's
equality is not transitive (a tolerance, partial rewards), this order decides.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

from dph.errors import DataError, SettingsError
from dph.records import Outcome, Problem, Verdict
from dph.tasks.agreement.base import Classes
from dph.tasks.verifiers.base import Gold, GoldOfAnswer, Verifier, verifier_identity
from dph.tasks.verifiers.table import VERIFIERS

GOLDS: Mapping[str, str] = MappingProxyType(
    {name: row.gold for name, row in VERIFIERS.items() if row.gold}
)
"""The verifiers that can compare answers, and the import path of the ``GoldOfAnswer`` of each."""


def _gold_of_answer(name: str) -> GoldOfAnswer:
    found: GoldOfAnswer = resolve_name(GOLDS[name])
    return found


def labelled(problem: Problem, verifier: Verifier) -> bool:
    """Whether the problem has a gold answer for a verifier of ``GOLDS``; False for any other."""
    return verifier.name in GOLDS and any(
        problem.answer.get(name) is not None for name in _gold_of_answer(verifier.name).fields
    )


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
        self._verifier, self._golds = verifier, _gold_of_answer(verifier.name)

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
