"""Runs side by side on the same problems: every difference is paired."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from dph._base.tables import Frame, data_frame, html_table
from dph.errors import DataError, SettingsError
from dph.runs.evaluate.intervals import (
    RESAMPLES,
    Difference,
    all_equal,
    bootstrap_mean,
    paired_difference,
)
from dph.runs.evaluate.scores import SetScores, metric_values, require_same_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedProblem:
    """Number of samples of a problem that two models answered correctly."""

    problem_id: str
    correct: int
    samples: int
    baseline_correct: int
    baseline_samples: int

    @property
    def change(self) -> float:
        """The share of correct samples, minus that of the baseline."""
        return self.correct / self.samples - self.baseline_correct / self.baseline_samples


def changed_problems(model: SetScores, baseline: SetScores, *, most: int) -> list[ChangedProblem]:
    """At most ``most`` problems whose share of correct samples changed, the largest change first.

    Equal changes stay in the order of the set.
    """
    if most < 0:
        raise SettingsError(f"the number of problems must be at least 0, got {most}")
    require_same_problems(model, baseline, name_a="the model", name_b="the baseline")
    counts, before = model.correct_counts, baseline.correct_counts
    change = np.abs(counts / model.samples - before / baseline.samples)
    ranked = np.argsort(-change, kind="stable")[:most]
    return [
        ChangedProblem(
            problem_id=model.problem_ids[i],
            correct=int(counts[i]),
            samples=model.samples,
            baseline_correct=int(before[i]),
            baseline_samples=baseline.samples,
        )
        for i in ranked
        if change[i] > 0
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One metric of one run on one set, and how far it is from the baseline's.

    ``difference`` (run - baseline, paired over problems) is None for the baseline itself. The
    interval is ``exact`` where all problems have one value, else by the bootstrap.
    """

    set_name: str
    metric: str
    run: str
    value: float
    lo: float
    hi: float
    difference: Difference | None
    exact: bool = False

    @property
    def k(self) -> int | None:
        """The k of Pass@k; None for another metric."""
        start, _, k = self.metric.rpartition("_")
        return int(k) if start == "pass_at" else None


class RunComparison(Sequence[ComparisonRow]):
    """The rows of a comparison: a sequence, which a notebook shows as a table."""

    def __init__(self, rows: Sequence[ComparisonRow]) -> None:
        self._rows = tuple(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RunComparison({list(self._rows)!r})"

    def table(self, *, arrow: bool = False) -> Frame:
        """The rows as a DataFrame, or with ``arrow=True`` as a pyarrow Table.

        Columns: set, metric (greedy, mean, pass_at_k), k (of Pass@k), run, and as fractions value,
        lo, hi, difference, difference_lo, difference_hi; the last three are missing for the
        baseline.
        """
        rows = [
            {
                "set": row.set_name,
                "metric": row.metric if row.k is None else "pass_at_k",
                "k": row.k,
                "run": row.run,
                **{name: float(getattr(row, name)) for name in ("value", "lo", "hi")},
                "difference": row.difference and row.difference.mean,
                "difference_lo": row.difference and row.difference.lo,
                "difference_hi": row.difference and row.difference.hi,
            }
            for row in self
        ]
        return data_frame(pa.Table.from_pylist(rows, schema=_COLUMNS), arrow=arrow)

    def _repr_html_(self) -> str:
        head = ("set", "metric", "run", "%", "difference, points")
        return html_table(head, map(_texts, self))


_COLUMNS = pa.schema(
    [(name, pa.string()) for name in ("set", "metric")]
    + [("k", pa.int64()), ("run", pa.string())]
    + [(name, pa.float64()) for name in ("value", "lo", "hi")]
    + [(f"difference{end}", pa.float64()) for end in ("", "_lo", "_hi")]
)


def _texts(row: ComparisonRow) -> tuple[str, ...]:
    value = f"{100 * row.value:.1f} [{100 * row.lo:.1f}, {100 * row.hi:.1f}]"
    found = row.difference
    numbers = () if found is None else (100 * found.mean, 100 * found.lo, 100 * found.hi)
    difference = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*numbers) if numbers else ""
    return row.set_name, row.metric, row.run, value, difference


def compare(
    runs: Mapping[str, Mapping[str, SetScores]],
    baseline: str | None,
    ks: Sequence[int],
    seed: int,
    *,
    resamples: int = RESAMPLES,
) -> list[ComparisonRow]:
    """Greedy, mean and Pass@k of every run on every set of the baseline, with differences to it.

    ``runs`` holds each run's scores by set; ``baseline`` None takes the first run. Rows are
    ordered by set, metric, run. Greedy is left out on a set where a run has no greedy answers.

    Raises:
        DataError: there are no runs, a run lacks a set of the baseline, or has other problems.
        SettingsError: there is no run ``baseline``, or a k does not fit the samples.
    """
    if not runs:
        raise DataError("nothing to compare: no runs were given")
    against = baseline if baseline is not None else next(iter(runs))
    if against not in runs:
        raise SettingsError(f"there is no run {against!r} to compare with, only {', '.join(runs)}")
    return [
        row
        for set_name in runs[against]
        for row in compared(
            {
                run: metric_values(scores, ks)
                for run, scores in _of_set(runs, against, set_name).items()
            },
            against,
            seed,
            set_name=set_name,
            resamples=resamples,
        )
    ]


def _of_set(
    runs: Mapping[str, Mapping[str, SetScores]], baseline: str, set_name: str
) -> dict[str, SetScores]:
    chosen = {}
    for run, sets in runs.items():
        if set_name not in sets:
            raise DataError(f"run {run!r} was not evaluated on set {set_name!r} of {baseline!r}")
        require_same_problems(
            sets[set_name],
            runs[baseline][set_name],
            name_a=f"{set_name!r} of run {run!r}",
            name_b=f"{set_name!r} of run {baseline!r}",
        )
        chosen[run] = sets[set_name]
    return chosen


def compared(
    values: Mapping[str, Mapping[str, Float[np.ndarray, "problems"]]],
    baseline: str,
    seed: int,
    *,
    set_name: str = "",
    resamples: int = RESAMPLES,
) -> list[ComparisonRow]:
    """A row for each metric that all runs have, and run; ``values`` by run, metric and problem."""
    rows = []
    for metric in values[baseline]:
        if not all(metric in of_run for of_run in values.values()):
            continue
        for run, of_run in values.items():
            mine, theirs = of_run[metric], values[baseline][metric]
            lo, hi = bootstrap_mean(mine, seed=seed, resamples=resamples)
            difference = (
                None
                if run == baseline
                else paired_difference(mine, theirs, seed=seed, resamples=resamples)
            )
            rows.append(
                ComparisonRow(
                    set_name=set_name,
                    metric=metric,
                    run=run,
                    value=float(mine.mean()),
                    lo=lo,
                    hi=hi,
                    difference=difference,
                    exact=all_equal(mine),
                )
            )
    return rows
