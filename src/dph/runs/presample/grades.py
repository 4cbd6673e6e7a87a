"""What the samples of a pool came to, problem by problem and all together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dph.records import UNGRADED, Outcome, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Ungradable:
    """A problem without a verdict: the outcome that says so, and the reason of its first sample."""

    problem_id: str
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grades:
    """The verdicts on n samples and a final one of every problem.

    ``correct`` counts the first n samples, ``outcomes`` counts all of them.
    """

    correct: Mapping[str, int]
    final_correct: Mapping[str, bool]
    ungradable: tuple[Ungradable, ...]
    outcomes: Mapping[str, int]


def read_grades(problems: Sequence[Problem], pieces: Sequence[pa.Table], n: int) -> Grades:
    """Count the verdicts in ``pieces``, tables of graded samples."""
    by_problem: dict[str, Counter[str]] = {p.problem_id: Counter() for p in problems}
    correct = dict.fromkeys(by_problem, 0)
    final = dict.fromkeys(by_problem, False)
    for piece in pieces:
        columns = (piece[name].to_pylist() for name in ("problem_id", "sample_index", "outcome"))
        for problem_id, index, outcome in zip(*columns, strict=True):
            by_problem[problem_id][outcome] += 1
            if index == n:
                final[problem_id] = outcome == Outcome.CORRECT
            else:
                correct[problem_id] += outcome == Outcome.CORRECT
    whys = {i: why for i, found in by_problem.items() if (why := ungradable_outcome(found))}
    return Grades(
        correct=correct,
        final_correct=final,
        ungradable=_with_reasons(whys, pieces),
        outcomes=_in_order(sum(by_problem.values(), Counter())),
    )


def ungradable_outcome(outcomes: Mapping[str, int]) -> Outcome | None:
    """Why a problem with these outcomes cannot be graded; None if it can.

    One BAD_GOLD is enough: it is about the problem, and answers without a statement or a number
    never come as far as the gold answer. A crash may be the fault of the one answer that was
    graded, so a problem counts as ungradable only if each of its graded samples crashed; samples
    that were cut off are not graded.

    >>> ungradable_outcome({"WRONG": 7, "BAD_GOLD": 2})
    <Outcome.BAD_GOLD: 'BAD_GOLD'>
    >>> ungradable_outcome({"CRASHED": 8, "CUT_OFF": 1})
    <Outcome.CRASHED: 'CRASHED'>
    >>> ungradable_outcome({"CRASHED": 8, "WRONG": 1})
    """
    if outcomes.get(Outcome.BAD_GOLD):
        return Outcome.BAD_GOLD
    crashed = outcomes.get(Outcome.CRASHED, 0)
    graded = sum(outcomes.values()) - outcomes.get(Outcome.CUT_OFF, 0)
    return Outcome.CRASHED if crashed and crashed == graded else None


def _with_reasons(
    whys: Mapping[str, Outcome], pieces: Sequence[pa.Table]
) -> tuple[Ungradable, ...]:
    """The problems of ``whys``, each with the reason of its first sample of that outcome."""
    wanted = pc.field("outcome").isin([outcome.value for outcome in UNGRADED])
    reasons: dict[tuple[str, str], str] = {}
    for piece in pieces:
        for row in piece.select(["problem_id", "outcome", "reason"]).filter(wanted).to_pylist():
            reasons.setdefault((row["problem_id"], row["outcome"]), row["reason"])
    return tuple(
        Ungradable(problem_id=problem_id, outcome=why, reason=reasons[problem_id, why])
        for problem_id, why in whys.items()
    )


def _in_order(outcomes: Counter[str]) -> dict[str, int]:
    """Those that occurred, in the order of ``Outcome``."""
    return {outcome.value: outcomes[outcome] for outcome in Outcome if outcomes[outcome]}
