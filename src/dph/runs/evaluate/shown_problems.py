"""Problems of evaluated runs as a person reads them: prompt, gold, and answers grouped by text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dph.errors import DataError
from dph.records import Outcome, Problem
from dph.runs.evaluate.samples_file import GREEDY_INDEX

Key = tuple[str, str]
"""Set and problem id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Correct samples of a problem; None where its gold answer could not be graded."""

    correct: int | None
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerGroup:
    """Equal answers with the same verdict; ``counts`` are samples of each run, in their order.

    ``greedy`` says for each run whether this is its greedy answer, which is no sample.
    """

    text: str
    outcome: Outcome
    reward: float
    reason: str
    style: str | None
    counts: tuple[int, ...]
    greedy: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProblem:
    """A problem and what the runs answered; ``problem`` is None where nobody kept it.

    ``base`` is what the initial policy scored, where that is known.
    """

    set_name: str
    problem_id: str
    problem: Problem | None
    scores: tuple[Counted, ...]
    base: Counted | None
    answers: tuple[AnswerGroup, ...]


def counted(table: pa.Table) -> dict[Key, Counted]:
    """The scores of every problem of a samples table, in the table's order."""
    sampled = table.filter(pc.field("sample_index") >= 0)
    flags = pa.table(
        {
            "set": sampled["set"],
            "problem_id": sampled["problem_id"],
            "correct": pc.equal(sampled["outcome"], Outcome.CORRECT.value).cast(pa.int64()),
            "bad": pc.equal(sampled["outcome"], Outcome.BAD_GOLD.value).cast(pa.int64()),
        }
    )
    grouped = flags.group_by(["set", "problem_id"], use_threads=False).aggregate(
        [("correct", "sum"), ("correct", "count"), ("bad", "sum")]
    )
    return {
        (row["set"], row["problem_id"]): Counted(
            correct=None if row["bad_sum"] else row["correct_sum"], samples=row["correct_count"]
        )
        for row in grouped.to_pylist()
    }


def with_outcome(tables: Sequence[pa.Table], outcome: Outcome) -> set[Key]:
    """The problems of which any answer, in any of the tables, came to ``outcome``."""
    found = set()
    for table in tables:
        part = table.filter(pc.field("outcome") == outcome.value)
        found |= set(zip(part["set"].to_pylist(), part["problem_id"].to_pylist(), strict=True))
    return found


def shown_problems(
    keys: Sequence[Key],
    tables: Sequence[pa.Table],
    problems: Mapping[Key, Problem],
    *,
    base: Mapping[Key, Counted],
    outcome: Outcome | None = None,
) -> list[ShownProblem]:
    """The problems ``keys`` with the answers of one or two runs, grouped.

    ``outcome`` leaves out answers that came to another one; scores still count them all.
    """
    scores = [counted(_only(table, keys)) for table in tables]
    rows = [_rows(_only(table, keys)) for table in tables]
    nothing = Counted(correct=0, samples=0)
    return [
        ShownProblem(
            set_name=key[0],
            problem_id=key[1],
            problem=problems.get(key),
            scores=tuple(of_run.get(key, nothing) for of_run in scores),
            base=base.get(key),
            answers=_groups([of_run.get(key, []) for of_run in rows], outcome),
        )
        for key in keys
    ]


def require_problem(problem_id: str, known: Sequence[Key]) -> list[Key]:
    """The problems with this id, in whichever set.

    Raises:
        DataError: there is none.
    """
    found = [key for key in known if key[1] == problem_id]
    if not found:
        some = ", ".join(repr(key[1]) for key in known[:3])
        raise DataError(
            f"there is no problem {problem_id!r} among the {len(known)} that were evaluated "
            f"(such as {some})"
        )
    return found


def _only(table: pa.Table, keys: Sequence[Key]) -> pa.Table:
    ids = pa.array(sorted({problem_id for _, problem_id in keys}), pa.string())
    return table.filter(pc.is_in(table["problem_id"], value_set=ids))


def _rows(table: pa.Table) -> dict[Key, list[dict[str, object]]]:
    found: dict[Key, list[dict[str, object]]] = {}
    for row in table.to_pylist():
        found.setdefault((row["set"], row["problem_id"]), []).append(row)
    return found


def _groups(
    runs: Sequence[Sequence[Mapping[str, object]]], outcome: Outcome | None
) -> tuple[AnswerGroup, ...]:
    """Equal answers of all runs together, the most frequent first."""
    counts: dict[tuple[object, ...], list[int]] = {}
    greedy: dict[tuple[object, ...], list[bool]] = {}
    rewards: dict[tuple[object, ...], float] = {}
    for place, rows in enumerate(runs):
        for row in rows:
            if outcome is not None and row["outcome"] != outcome.value:
                continue
            key = (row["text"], row["outcome"], row["reason"], row["style"])
            rewards.setdefault(key, float(str(row["reward"])))
            sampled = row["sample_index"] != GREEDY_INDEX
            counts.setdefault(key, [0] * len(runs))[place] += int(sampled)
            greedy.setdefault(key, [False] * len(runs))[place] |= not sampled
    ordered = sorted(counts, key=lambda key: -sum(counts[key]))
    return tuple(
        AnswerGroup(
            text=str(key[0]),
            outcome=Outcome(str(key[1])),
            reward=rewards[key],
            reason=str(key[2]),
            style=None if key[3] is None else str(key[3]),
            counts=tuple(counts[key]),
            greedy=tuple(greedy[key]),
        )
        for key in ordered
    )
