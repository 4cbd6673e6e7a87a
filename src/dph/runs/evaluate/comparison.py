"""Models compared on the same problems: every difference is paired.

Evaluated runs (``compare``), or graded samples of any tool, whose numbers of samples may differ
(``summarize_rewards``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from dph._base.tables import Frame, data_frame, html_table
from dph.errors import DataError, SettingsError
from dph.records import Outcome
from dph.runs.evaluate.answers.read import read_answers
from dph.runs.evaluate.intervals import (
    RESAMPLES,
    Band,
    Difference,
    all_equal,
    bootstrap_mean,
    gaussian_band,
    paired_difference,
    powers_of_two,
    simultaneous_band,
)
from dph.runs.evaluate.metrics import RETENTION_K, Retention
from dph.runs.evaluate.scores import (
    SetScores,
    differences,
    metric_values,
    require_same_problems,
    retention_of,
)


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
    return [
        ChangedProblem(
            problem_id=model.problem_ids[i],
            correct=int(counts[i]),
            samples=model.samples,
            baseline_correct=int(before[i]),
            baseline_samples=baseline.samples,
        )
        for i in np.argsort(-change, kind="stable")[:most]
        if change[i] > 0
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """One metric of one run on one set, and how far it is from the baseline's.

    ``difference`` (run - baseline, paired over problems) is None for the baseline itself. The
    interval is ``exact`` if all problems have one value, otherwise by the bootstrap.
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


class RunComparison(list[ComparisonRow]):
    """The rows of a comparison, which a notebook shows as a table."""

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
        return html_table(("set", "metric", "run", "%", "difference, points"), map(_texts, self))


_COLUMNS = pa.schema(
    [(name, pa.string()) for name in ("set", "metric")]
    + [("k", pa.int64()), ("run", pa.string())]
    + [(name, pa.float64()) for name in ("value", "lo", "hi")]
    + [(f"difference{end}", pa.float64()) for end in ("", "_lo", "_hi")]
)


def _texts(row: ComparisonRow) -> tuple[str, ...]:
    value = f"{100 * row.value:.1f} [{100 * row.lo:.1f}, {100 * row.hi:.1f}]"
    d = row.difference
    difference = f"{100 * d.mean:+.1f} [{100 * d.lo:+.1f}, {100 * d.hi:+.1f}]" if d else ""
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
    ordered by set, metric, run. Greedy is left out on a set on which a run has no greedy answers.
    """
    if not runs:
        raise DataError("nothing to compare: no runs were given")
    against = baseline if baseline is not None else next(iter(runs))
    if against not in runs:
        raise SettingsError(f"there is no run {against!r} to compare with, only {', '.join(runs)}")
    rows = []
    for set_name in runs[against]:
        values = _values_of_set(runs, against, set_name, ks)
        for metric in values[against]:
            if not all(metric in of_run for of_run in values.values()):
                continue
            theirs = values[against][metric]
            for run, of_run in values.items():
                mine, apart = of_run[metric], None
                lo, hi = bootstrap_mean(mine, seed=seed, resamples=resamples)
                if run != against:
                    apart = paired_difference(mine, theirs, seed=seed, resamples=resamples)
                rows.append(
                    ComparisonRow(
                        set_name=set_name,
                        metric=metric,
                        run=run,
                        value=float(mine.mean()),
                        lo=lo,
                        hi=hi,
                        difference=apart,
                        exact=all_equal(mine),
                    )
                )
    return rows


def _values_of_set(
    runs: Mapping[str, Mapping[str, SetScores]], baseline: str, set_name: str, ks: Sequence[int]
) -> dict[str, dict[str, Float[np.ndarray, "problems"]]]:
    """By run and metric, the values of the problems of a set, which must be the baseline's."""
    values = {}
    for run, sets in runs.items():
        if set_name not in sets:
            raise DataError(f"run {run!r} was not evaluated on set {set_name!r} of {baseline!r}")
        require_same_problems(
            sets[set_name],
            runs[baseline][set_name],
            name_a=f"{set_name!r} of run {run!r}",
            name_b=f"{set_name!r} of run {baseline!r}",
        )
        values[run] = metric_values(sets[set_name], ks)
    return values


def read_rewards(path: Path, *, set_name: str | None = None) -> SetScores:
    """Read graded samples of any tool that ``dph.runs.evaluate.answers.read`` knows.

    A sample is correct if its ``outcome`` is CORRECT, or, in a file without outcomes, if its
    reward is 1. One whose grading CRASHED says nothing and is left out. With ``sample_index``
    samples are put into its order and greedy answers (-1) are left out; otherwise they stay in the
    file's order. ``set_name`` takes only rows of this set, which a file of several sets needs.
    """
    answers = read_answers(path).by_problem
    sets = dict.fromkeys(name for name, _ in answers)
    if set_name is not None and set_name not in sets:
        raise DataError(f"{path} has no rows of the set {set_name!r}, only of {', '.join(sets)}")
    if set_name is None and len(sets) > 1:
        raise DataError(f"{path} holds several sets, choose one: {', '.join(sets)}")
    problems, bad = {}, []
    for (name, problem_id), of in answers.items():
        if set_name not in (None, name):
            continue
        drawn = [answer for answer in of if answer.index is None or answer.index >= 0]
        graded = [answer for answer in drawn if answer.outcome is not Outcome.CRASHED]
        if any(answer.outcome is Outcome.BAD_GOLD for answer in graded) or (drawn and not graded):
            bad.append(problem_id)
        elif graded:
            problems[problem_id] = [(a.outcome is Outcome.CORRECT, a.reward) for a in graded]
    if not problems:
        raise DataError(f"{path} has no graded samples" + (" that count" if bad else ""))
    return uneven_scores(problems, bad_gold=bad)


def uneven_scores(
    problems: Mapping[str, Sequence[tuple[bool, float]]], *, bad_gold: Sequence[str] = ()
) -> SetScores:
    """Scores of samples (correct, reward) by problem, whose numbers may differ."""
    counts = np.array([len(samples) for samples in problems.values()])
    correct = np.zeros((len(problems), max(counts, default=0)), dtype=bool)
    rewards = np.zeros(correct.shape)
    for row, samples in enumerate(problems.values()):
        correct[row, : len(samples)], rewards[row, : len(samples)] = zip(*samples, strict=True)
    return SetScores(
        problem_ids=tuple(problems),
        correct=correct,
        rewards=rewards,
        greedy=None,
        shares={},
        counts=counts if len(set(counts.tolist())) > 1 else None,
        bad_gold=tuple(bad_gold),
    )


MODEL, BASE = "model", "base"
"""Names of the two files as the runs of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardsSummary:
    """Everything that a file of graded samples says.

    ``rows`` are those of ``MODEL`` and, with another file, of ``BASE``; ``band`` and the peer's
    have all k of Pass@k. These and ``retention`` are None without another file; the numbers of
    ``retention`` are None below 2 k samples, or if problems differ in their number of samples.
    """

    problems: int
    fewest_samples: int
    most_samples: int
    left_out: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]
    retention: Retention | None
    band: Band | None
    peer: Band | None


def summarize_rewards(
    rewards: SetScores,
    against: SetScores | None = None,
    *,
    ks: Sequence[int] | None = None,
    retention_k: int = RETENTION_K,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> RewardsSummary:
    """Mean reward and unbiased Pass@k over problems, and their differences to ``against``.

    Each problem's Pass@k depends on its own number of samples. A problem that could not be graded
    in one of the files is left out of both. ``ks`` None takes 1, 2, 4 ... up to the fewest
    samples of a problem.
    """
    files = {MODEL: rewards} if against is None else {MODEL: rewards, BASE: against}
    bad = {name for file in files.values() for name in file.bad_gold}
    _require_common_problems(list(files.values()), bad)
    ids = [name for name in rewards.problem_ids if name not in bad]
    if not ids:
        raise DataError("no problem could be graded in both files")
    files = {name: file.only(ids) for name, file in files.items()}
    fewest = min(file.fewest_samples for file in files.values())
    asked = sorted(set(ks)) if ks else powers_of_two(fewest)
    for file in files.values():
        _require_samples(file, asked)
    *_, baseline = files
    runs = {name: {"": file} for name, file in files.items()}
    apart = kept = None
    if against is not None:
        apart = differences(files[MODEL], files[BASE], asked)
        kept = retention_of(files[MODEL], files[BASE], retention_k)
    return RewardsSummary(
        problems=len(ids),
        fewest_samples=fewest,
        most_samples=max(file.samples for file in files.values()),
        left_out=tuple(sorted(bad)),
        rows=tuple(compare(runs, baseline, asked, seed, resamples=resamples)),
        retention=kept,
        band=simultaneous_band(apart, seed=seed, resamples=resamples) if apart else None,
        peer=gaussian_band(apart, seed=seed) if apart else None,
    )


def _require_samples(scores: SetScores, ks: Sequence[int]) -> None:
    fewest = scores.fewest_samples
    for k in ks:
        if not 1 <= k <= fewest:
            least = 0 if scores.counts is None else int(scores.counts.argmin())
            raise SettingsError(
                f"need 1 <= k <= samples, got k={k}, but problem {scores.problem_ids[least]!r} has "
                f"{fewest} samples"
            )


def _require_common_problems(files: Sequence[SetScores], bad: set[str]) -> None:
    sets = [set(file.problem_ids) | bad for file in files]
    names = ("the first", "the second")
    for place, (mine, other) in enumerate(zip(sets, reversed(sets), strict=True)):
        if only := sorted(mine - other):
            raise DataError(
                f"the files cannot be compared problem by problem: {len(only)} of {names[place]} "
                f"are not in {names[1 - place]}, for example {only[0]!r}"
            )
