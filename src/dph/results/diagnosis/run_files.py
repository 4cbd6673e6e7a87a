"""Inputs of a diagnosis: two evaluations, the problems of their sets, and the log of training."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.recipe import Recipe
from dph.records import Problem
from dph.results.diagnosis.changes import ProblemChange, problem_changes, smallest_rates
from dph.runs.evaluate.evaluated_runs import require_evaluated
from dph.runs.evaluate.samples_file import comparable_scores, read_samples
from dph.runs.evaluate.scores import SetScores
from dph.runs.found_runs import find_base, run_recipe
from dph.runs.layout import CONSOLIDATION, METRICS, RECIPE
from dph.runs.train.metrics_file import read_metrics
from dph.tasks.problems import load_problems

# One level for a whole diagnosis, shared by its questions and its sets.
#
# A diagnosis asks five questions of every set: which problems were lost, which gained, which
# styles died, whether the totals moved, which features the lost have. Each question gets a fifth
# of the level. Within a question a set comes in as its smallest adjusted p-value, which is small
# with a chance of at most itself where nothing happened; sets are selected by Benjamini and
# Hochberg (1995), and of S sets, R of them selected, every list is made at R / S of the
# question's level. So a comparison of a model with itself names anything at all with a chance of
# at most the level, and of the selected sets' lists a false share of at most a fifth of it is
# expected, on average over them.
#
# **Source**: Benjamini and Bogomolov (2014), Selective inference on multiple families of
# hypotheses, Journal of the Royal Statistical Society B 76. One list over all sets would be
# simpler, and wrong to read set by set: a hundred problems found on one set would pay for false
# ones on another.

FDR = 0.05
"""The level of a whole diagnosis unless another is asked for."""
QUESTIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Levels that an adjusted p-value of each question must reach for something to be named."""

    lost: float
    gained: float
    styles: float
    totals: float
    features: float


def question_level(fdr: float) -> float:
    """Share of each question in the whole level.

    >>> question_level(0.05)
    0.01
    """
    return fdr / QUESTIONS


def list_level(smallest: Sequence[float], level: float) -> float:
    """The level of every set's list, from the smallest adjusted p-value of each set.

    Sets that are not selected have nothing at or below it.

    >>> list_level([0.001, 0.5], 0.01), list_level([0.001, 0.009], 0.01), list_level([0.5], 0.01)
    (0.005, 0.01, 0.01)
    """
    ordered = sorted(smallest)
    selected = [rank for rank, p in enumerate(ordered, 1) if p <= level * rank / len(ordered)]
    return level * (selected[-1] if selected else 1) / len(ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """A run and what it is compared with, as they lie on disk; ``recipe`` where a run has one."""

    run: Path
    baseline: Path
    recipe: Recipe | None

    @property
    def samples(self) -> Path:
        """The run's graded samples."""
        return require_evaluated(self.run)

    @property
    def baseline_samples(self) -> Path:
        """The baseline's graded samples."""
        return require_evaluated(self.baseline)

    def log(self) -> list[dict[str, Any]]:
        """The rows of the run's ``metrics.jsonl``; none where nothing was trained here.

        Raises:
            DataError: a line is damaged.
        """
        return read_metrics(self.run / METRICS) if self.run.is_dir() else []

    def consolidation_steps(self) -> int:
        """Updates that followed RL, of which the run's log says nothing."""
        return len(read_metrics(self.run / CONSOLIDATION / METRICS))

    def problems(self, set_name: str) -> Mapping[str, Problem]:
        """The problems of a set by id.

        Raises:
            DataError: there is no recipe that names the set, or its file cannot be read.
        """
        if self.recipe is None:
            raise DataError(f"there is no {RECIPE} in or above {self.run}")
        if set_name not in self.recipe.data.sets:
            raise DataError(f"the recipe of {self.run} names no set {set_name!r}")
        path = self.recipe.data.sets[set_name].path
        return {problem.problem_id: problem for problem in load_problems(path)}


def find_run_files(run: Path, against: Path | None) -> RunFiles:
    """Paths of the evaluations of ``run`` and of its baseline.

    ``against`` is a directory with a samples.parquet or that file itself. None takes the evaluation
    of the initial policy (``dph.runs.found_runs``).

    Raises:
        DataError: the run or the other was not evaluated, both are the same, or no baseline was
        found. SettingsError: the run's recipe is not valid.
    """
    samples = require_evaluated(run)
    baseline = against
    if baseline is None:
        base = find_base(run)
        if base.directory is None:
            raise DataError(f"{base.why_none}; --against names another to compare with")
        baseline = base.directory
    if require_evaluated(baseline).resolve() == samples.resolve():
        raise DataError(f"{run} is compared with itself: both are {samples}")
    return RunFiles(run=run, baseline=baseline, recipe=run_recipe(run))


# The verdict on every problem of an evaluated run: the same wherever a problem is called lost.


def change_levels(
    pairs: Iterable[tuple[SetScores, SetScores]], level: float
) -> tuple[float, float]:
    """The false discovery rates of the lists of lost and gained problems, of all sets together.

    ``pairs`` are a run and its baseline on each set that both were evaluated on: a level depends
    on how many there are, so that leaving one out would change verdicts on the others.
    """
    rates = [smallest_rates(mine, theirs) for mine, theirs in pairs]
    lost, gained = zip(*rates, strict=True)
    return list_level(lost, level), list_level(gained, level)


def problem_verdicts(
    run: Path, against: Path | None = None, *, fdr: float = FDR
) -> dict[tuple[str, str], ProblemChange]:
    """Change of each problem, by set and id, as ``dph diagnose`` says it.

    Problems that one of the two was not evaluated on, or that cannot be graded, are left out.

    Raises:
        DataError: something was not evaluated, or not on the same problems.
    """
    files = find_run_files(run, against)
    places = {"run": files.samples, "baseline": files.baseline_samples}
    scores = comparable_scores(
        {label: read_samples(path, texts=False) for label, path in places.items()}
    )
    pairs = {
        name: (mine, scores["baseline"][name])
        for name, mine in scores["run"].items()
        if name in scores["baseline"]
    }
    if not pairs:
        return {}
    lost, gained = change_levels(pairs.values(), question_level(fdr))
    return {
        (name, change.problem_id): change
        for name, (mine, theirs) in pairs.items()
        for change in problem_changes(mine, theirs, lost_level=lost, gained_level=gained)
    }
