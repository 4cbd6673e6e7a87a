"""Evaluated runs: their comparison, and their problems with answers grouped by text."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dph.errors import DataError
from dph.records import Outcome, Problem
from dph.runs.directory import EvaluationDirectory
from dph.runs.evaluate.comparison import ChangedProblem, RunComparison, changed_problems
from dph.runs.evaluate.comparison import compare as compare_scores
from dph.runs.evaluate.intervals import Band, powers_of_two, simultaneous_band
from dph.runs.evaluate.metrics import Retention, effective_styles, retention
from dph.runs.evaluate.samples_file import GREEDY_INDEX, comparable_scores, is_foreign, read_samples
from dph.runs.evaluate.scores import SetScores, differences

Key = tuple[str, str]
"""Set and problem id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectCount:
    """Correct samples of a problem; None if its gold answer could not be graded."""

    correct: int | None
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerGroup:
    """Equal answers with the same verdict; ``samples`` are those of each run, by their index."""

    text: str
    outcome: Outcome
    reward: float
    reason: str
    style: str | None
    tokens: int
    finished: bool
    samples: tuple[tuple[int, ...], ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of samples of each run."""
        return tuple(sum(index != GREEDY_INDEX for index in of_run) for of_run in self.samples)

    @property
    def greedy(self) -> tuple[bool, ...]:
        """For each run whether this is its greedy answer, which is not a sample."""
        return tuple(GREEDY_INDEX in of_run for of_run in self.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProblem:
    """A problem and the answers of the runs.

    ``problem`` is None if it was not kept. ``base`` is the initial policy's score, if known.
    """

    set_name: str
    problem_id: str
    problem: Problem | None
    scores: tuple[CorrectCount, ...]
    base: CorrectCount | None
    answers: tuple[AnswerGroup, ...]


def counted(table: pa.Table) -> dict[Key, CorrectCount]:
    """By problem, in the table's order."""
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
        (row["set"], row["problem_id"]): CorrectCount(
            correct=None if row["bad_sum"] else row["correct_sum"], samples=row["correct_count"]
        )
        for row in grouped.to_pylist()
    }


def with_outcome(tables: Sequence[pa.Table], outcome: Outcome) -> set[Key]:
    """The problems with an answer of this outcome in one of the tables."""
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
    base: Mapping[Key, CorrectCount],
    outcome: Outcome | None = None,
) -> list[ShownProblem]:
    """The problems ``keys`` with the answers of one or two runs, grouped.

    ``outcome`` leaves out answers of another outcome; scores still count all of them.
    """
    scores = [counted(_only(table, keys)) for table in tables]
    rows = [_rows(_only(table, keys)) for table in tables]
    nothing = CorrectCount(correct=0, samples=0)
    return [
        ShownProblem(
            set_name=key[0],
            problem_id=key[1],
            problem=problems.get(key),
            scores=tuple(of_run.get(key, nothing) for of_run in scores),
            base=base.get(key),
            answers=equal_answers([of_run.get(key, []) for of_run in rows], outcome),
        )
        for key in keys
    ]


def require_problem(problem_id: str, known: Sequence[Key]) -> list[Key]:
    """The problems with this id, in any set."""
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


def _rows(table: pa.Table) -> dict[Key, list[dict[str, Any]]]:
    found: dict[Key, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault((row["set"], row["problem_id"]), []).append(row)
    return found


def equal_answers(
    runs: Sequence[Sequence[Mapping[str, Any]]], outcome: Outcome | None = None
) -> tuple[AnswerGroup, ...]:
    """Equal answers of all runs together, the most frequent first."""
    first: dict[tuple[object, ...], Mapping[str, Any]] = {}
    samples: dict[tuple[object, ...], list[list[int]]] = {}
    for place, rows in enumerate(runs):
        for row in rows:
            if outcome is not None and row["outcome"] != outcome.value:
                continue
            key = tuple(row[name] for name in ("text", "outcome", "reason", "style", "finished"))
            first.setdefault(key, row)
            samples.setdefault(key, [[] for _ in runs])[place].append(row["sample_index"])
    groups = [
        AnswerGroup(
            **{n: row[n] for n in ("text", "reward", "reason", "style", "tokens", "finished")},
            outcome=Outcome(row["outcome"]),
            samples=tuple(map(tuple, samples[key])),
        )
        for key, row in first.items()
    ]
    return tuple(sorted(groups, key=lambda group: -sum(group.counts)))


Scores = Mapping[str, Mapping[str, SetScores]]
USUAL_KS = (8, 16, 32)


def compare(
    *runs: str | Path, sets: Collection[str] = (), ks: Sequence[int] | None = None, seed: int = 0
) -> RunComparison:
    """Greedy, mean and Pass@k of evaluated runs, with paired differences to the first.

    Args:
        runs: run directories; the first is the baseline.
        sets: only these sets; default: all.
        ks: the k of Pass@k; default: those of 8, 16, 32 that there are samples for.
        seed: of the bootstrap.

    Raises:
        DataError: a run is named twice, was not evaluated, or was evaluated on other problems.
    """
    scores = read_runs([Path(run) for run in runs], sets)
    return RunComparison(compare_scores(scores, None, ks or default_ks(scores), seed))


def read_runs(runs: Sequence[Path], set_names: Collection[str]) -> dict[str, dict[str, SetScores]]:
    """Each run's scores by set, from its ``samples.parquet``; the path is the run's name."""
    tables: dict[str, pa.Table] = {}
    for run in runs:
        if str(run) in tables:
            raise DataError(f"the run {run} is named twice")
        tables[str(run)] = read_samples(require_evaluated(run))
    scores = comparable_scores(tables)
    for label, sets in scores.items():
        for name in set_names:
            if name not in sets:
                raise DataError(f"{label} was evaluated on {', '.join(sets)}, not on {name!r}")
    return {
        label: {name: sets[name] for name in set_names or sets} for label, sets in scores.items()
    }


def require_evaluated(run: Path) -> Path:
    """The samples of a run's evaluation: the file in its directory, or ``run`` itself.

    ``run`` may be a file or a directory of answers that another tool wrote.
    """
    if run.is_file() or is_foreign(run):
        return run
    path = EvaluationDirectory(run).samples
    if not path.is_file():
        raise DataError(f"{run} was not evaluated: there is no {path}; run `dph evaluate`")
    return path


def default_ks(scores: Scores) -> list[int]:
    """The k of 8, 16, 32 for which every set of every run has enough samples, or all samples."""
    samples = min(of_set.samples for sets in scores.values() for of_set in sets.values())
    return [k for k in USUAL_KS if k <= samples] or [samples]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnSet:
    """Abilities and ways of answering that a run kept from the baseline, on a set.

    ``band`` is that of Pass@k at k = 1, 2, 4 ...; None for the baseline itself.
    """

    set_name: str
    run: str
    shares: Mapping[str, float]
    retention: Retention
    changed: Sequence[ChangedProblem]
    band: Band | None

    @property
    def effective_styles(self) -> float | None:
        """None without a style classifier."""
        return effective_styles(self.shares) if self.shares else None


def runs_on_sets(scores: Scores, *, retention_k: int, problems: int, seed: int) -> list[RunOnSet]:
    """Styles, keep and explore of every run on every set of the first, against the first."""
    baseline = next(iter(scores))
    return [
        RunOnSet(
            set_name=name,
            run=run,
            shares=sets[name].shares,
            retention=retention(sets[name].correct, against.correct, k=retention_k),
            changed=changed_problems(sets[name], against, most=problems),
            band=None if run == baseline else pass_at_k_band(sets[name], against, seed),
        )
        for name, against in scores[baseline].items()
        for run, sets in scores.items()
    ]


def pass_at_k_band(run: SetScores, base: SetScores, seed: int) -> Band:
    """The band of the difference of Pass@k at k = 1, 2, 4 ..."""
    ks = powers_of_two(min(run.samples, base.samples))
    return simultaneous_band(differences(run, base, ks), seed=seed)
