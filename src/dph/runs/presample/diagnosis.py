"""A split that training cannot use: what was found, and what is probably the cause."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from dph.errors import PoolError
from dph.records import UNGRADED, Outcome, Problem
from dph.runs.presample.manifest import Counts, Manifest


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


MOST = 0.5
"""An outcome with at least this share of the answers is what a failed split is blamed on."""


def require_usable(path: Path, found: Manifest, *, rehearses: bool, explores: int) -> None:
    """Refuse a pool that holds too little for a run.

    Args:
        path: where the pool lies.
        found: its manifest.
        rehearses: whether the run needs stored answers.
        explores: how many problems the run needs to explore; 0 where it takes them elsewhere.
    """
    missing = shortage(found.counts, rehearses=rehearses, explores=explores)
    if missing:
        raise PoolError(f"the pool {path} holds {missing}; {account(found, explores=explores)}")


def shortage(counts: Counts, *, rehearses: bool = True, explores: int = 1) -> str:
    """Shortage of a split, such as ``no problem to explore``; '' if there is enough."""
    if counts.exploration < explores:
        if not counts.exploration:
            return "no problem to explore"
        return (
            f"{counts.exploration} problems to explore, fewer than train.problems_per_step = "
            f"{explores}"
        )
    return "no rehearsal sample" if rehearses and not counts.rehearsal else ""


def account(found: Manifest, *, explores: int = 1) -> str:
    """Numbers of problems solved, the outcomes of all samples, and the probable cause."""
    counts, n = found.counts, found.source.answers
    solved = ", ".join(f"{c} of {n}: {k}" for c, k in enumerate(counts.histogram) if k)
    return (
        f"problems by correct samples: {solved or 'none'}; ungradable: {counts.ungradable}; "
        f"outcomes of all answers: {shares_text(counts.outcomes) or 'not known'}; likely cause: "
        f"{likely_cause(found, explores=explores)}"
    )


def shares_text(outcomes: Mapping[str, int]) -> str:
    """``WRONG 75.0%, CORRECT 25.0%``, the largest first.

    >>> shares_text({"CORRECT": 1, "WRONG": 3})
    'WRONG 75.0%, CORRECT 25.0%'
    """
    total = sum(outcomes.values())
    ordered = sorted(outcomes.items(), key=lambda item: -item[1])
    return ", ".join(f"{outcome} {100 * count / total:.1f}%" for outcome, count in ordered)


def cut_off_share(counts: Counts) -> float | None:
    """The fraction of all answers that ``max_tokens`` cut off; None where there is none."""
    total = sum(counts.outcomes.values())
    return counts.outcomes.get(Outcome.CUT_OFF, 0) / total if total else None


def likely_cause(found: Manifest, *, explores: int = 1) -> str:
    """Likely cause of a failed split, and a remedy."""
    counts, verifier = found.counts, f"the verifier {_verifier(found)!r}"
    cut_off = cut_off_share(counts) or 0.0
    if cut_off >= MOST:
        return (
            f"{_percent(cut_off)} of the answers were cut off at sampling.max_tokens = "
            f"{found.source.max_tokens}: raise it, or make the model end its answers "
            f"(sampling.stop)"
        )
    graded = {name: count for name, count in counts.outcomes.items() if name != Outcome.CUT_OFF}
    total = sum(graded.values())
    if total and graded.get(Outcome.CORRECT) == total:
        return (
            f"{verifier} called every answer correct: either it accepts everything, or the "
            f"problems are too easy"
        )
    for outcome, cause in _CAUSES.items():
        if total and graded.get(outcome, 0) >= MOST * total:
            return f"{verifier} {cause.format(share=_percent(graded[outcome] / total))}"
    return _cause_in_the_rule(found, explores)


_CAUSES = {
    Outcome.BAD_GOLD: (
        "could not use the gold answer for {share} of the answers: ungradable.parquet says why"
    ),
    Outcome.CRASHED: "crashed on {share} of the answers: samples.parquet has the tracebacks",
    Outcome.TIMED_OUT: (
        "timed out on {share} of the answers: raise data.verifier_timeout, or make it faster"
    ),
    Outcome.NO_ANSWER: (
        "found no answer in {share} of the responses: the prompt must ask for the form that it "
        "reads"
    ),
    Outcome.INVALID: (
        "could not evaluate {share} of the answers: samples.parquet says why, one by one"
    ),
    Outcome.OVER_LIMIT: (
        "ran into its limits on {share} of the answers: samples.parquet says into which"
    ),
}


def _cause_in_the_rule(found: Manifest, explores: int) -> str:
    """The cause where the answers were graded and came out right and wrong."""
    counts, n = found.counts, found.source.answers
    threshold = found.rule.threshold if found.rule else n
    if counts.prompts < explores:
        return f"there are only {counts.prompts} problems: lower train.problems_per_step"
    if counts.rehearsal:
        higher = f"raise presample.threshold, which is {threshold} of {n}, or " * (threshold < n)
        return f"the model masters too many of the problems: {higher}use harder ones"
    best = max((c for c, problems in enumerate(counts.histogram) if problems), default=0)
    if best >= threshold:
        return (
            "the final sample of every near-perfect problem was wrong: use more problems, or lower "
            f"presample.threshold, which is {threshold} of {n}"
        )
    if best:
        return (
            f"no problem was solved more than {best} of {n} times: lower presample.threshold, "
            f"which is {threshold}, use easier problems or a stronger model"
        )
    return (
        f"the verifier {_verifier(found)!r} called none of the first {n} answers to any problem "
        f"correct: check that it accepts a right answer, or use easier problems"
    )


def _verifier(found: Manifest) -> str:
    return found.values.graded_by if found.values else ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"
