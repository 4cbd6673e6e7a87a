"""Evaluated runs, read from their directories and set side by side."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from dph.errors import DataError
from dph.runs.evaluate.comparison import ChangedProblem, changed_problems
from dph.runs.evaluate.comparison import ComparisonRow
from dph.runs.evaluate.comparison import compare as compare_scores
from dph.runs.evaluate.retention import Retention, retention
from dph.runs.evaluate.samples_file import comparable_scores, read_samples
from dph.runs.evaluate.scores import SetScores
from dph.runs.evaluate.retention import effective_styles

Scores = Mapping[str, Mapping[str, SetScores]]
USUAL_KS = (8, 16, 32)


def compare(
    *runs: str | Path,
    sets: Collection[str] = (),
    ks: Sequence[int] | None = None,
    seed: int = 0,
) -> list[ComparisonRow]:
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
    return compare_scores(scores, None, ks or default_ks(scores), seed)


def read_runs(runs: Sequence[Path], set_names: Collection[str]) -> dict[str, dict[str, SetScores]]:
    """Each run's scores by set, from its ``samples.parquet``; the path is the run's name.

    Raises:
        DataError: a run is named twice, was not evaluated, or lacks a set that was asked for.
    """
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

    Raises:
        DataError: there is none.
    """
    if run.is_file():
        return run
    path = run / "samples.parquet"
    if not path.is_file():
        raise DataError(f"{run} was not evaluated: there is no {path}; run `dph evaluate`")
    return path


def default_ks(scores: Scores) -> list[int]:
    """Those of 8, 16, 32 that every set of every run has the samples for; else all samples."""
    samples = min(of_set.samples for sets in scores.values() for of_set in sets.values())
    return [k for k in USUAL_KS if k <= samples] or [samples]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOnSet:
    """What a run has left of the baseline's abilities and of its ways of answering, on a set."""

    set_name: str
    run: str
    shares: Mapping[str, float]
    retention: Retention
    changed: Sequence[ChangedProblem]

    @property
    def effective_styles(self) -> float | None:
        """None without a style classifier."""
        return effective_styles(self.shares) if self.shares else None


def runs_on_sets(scores: Scores, *, retention_k: int, problems: int) -> list[RunOnSet]:
    """Styles, keep and explore of every run on every set of the first, against the first."""
    baseline = next(iter(scores))
    return [
        RunOnSet(
            set_name=name,
            run=run,
            shares=sets[name].shares,
            retention=retention(sets[name].correct, against.correct, k=retention_k),
            changed=changed_problems(sets[name], against, most=problems),
        )
        for name, against in scores[baseline].items()
        for run, sets in scores.items()
    ]
