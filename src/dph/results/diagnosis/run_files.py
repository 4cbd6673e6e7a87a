"""What a diagnosis reads: two evaluations, the problems of their sets, and the log of training."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.recipe import Recipe
from dph.records import Problem
from dph.runs.base_evaluation import find_base, run_recipe
from dph.runs.evaluate.evaluated_runs import require_evaluated
from dph.runs.layout import CONSOLIDATION, METRICS, RECIPE
from dph.runs.train.metrics_file import read_metrics
from dph.tasks.problems import load_problems


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
    """Where the evaluations of ``run`` and of what it is compared with lie.

    ``against`` is a directory with a samples.parquet or that file itself. None takes the evaluation
    of the initial policy (``dph.runs.base_evaluation``).

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
