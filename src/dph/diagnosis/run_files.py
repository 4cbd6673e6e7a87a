"""What a diagnosis reads: two evaluations, the problems of their sets, and the log of training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph.errors import DataError
from dph.files import read_json
from dph.records import Problem
from dph.runs.layout import CONSOLIDATION
from dph.settings import Recipe, load_recipe
from dph.tasks.problems import load_problems
from dph.training.metrics_file import read_metrics

SAMPLES, EVALUATION, RECIPE = "samples.parquet", "evaluation.json", "recipe.toml"
_ABOVE = 2
"""How far above an evaluation its run lies at most: models/<name>/ and interpolated/<x>/."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """A run and what it is compared with, as they lie on disk; ``recipe`` where a run has one."""

    run: Path
    baseline: Path
    recipe: Recipe | None

    @property
    def samples(self) -> Path:
        """The run's graded samples."""
        return samples_file(self.run)

    @property
    def baseline_samples(self) -> Path:
        """The baseline's graded samples."""
        return samples_file(self.baseline)

    def log(self) -> list[dict[str, Any]]:
        """The rows of the run's ``metrics.jsonl``; none where nothing was trained here.

        Raises:
            DataError: a line is damaged.
        """
        return read_metrics(self.run / "metrics.jsonl") if self.run.is_dir() else []

    def consolidation_steps(self) -> int:
        """Updates that followed RL, of which the run's log says nothing."""
        return len(read_metrics(self.run / CONSOLIDATION / "metrics.jsonl"))

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
    of the initial policy: ``base/`` in the run or beside it, if it says that it is of the recipe's
    model.

    Raises:
        DataError: the run or the other was not evaluated, both are the same, or no baseline was
        found. SettingsError: the run's recipe is not valid.
    """
    recipe = _recipe(run)
    samples_file(run)
    baseline = against if against is not None else _initial_policy(run, recipe)
    if samples_file(baseline).resolve() == samples_file(run).resolve():
        raise DataError(f"{run} is compared with itself: both are {samples_file(run)}")
    return RunFiles(run=run, baseline=baseline, recipe=recipe)


def samples_file(place: Path) -> Path:
    """The samples of an evaluation: the file itself, or the one in its directory.

    Raises:
        DataError: there is none.
    """
    if place.is_file():
        return place
    found = place / SAMPLES
    if not found.is_file():
        raise DataError(f"{place} was not evaluated: there is no {found}; run `dph evaluate`")
    return found


def _recipe(run: Path) -> Recipe | None:
    """The recipe of the run that an evaluation belongs to."""
    for directory in [run, *run.absolute().parents[:_ABOVE]]:
        if (directory / RECIPE).is_file():
            return load_recipe(directory / RECIPE)
    return None


def _initial_policy(run: Path, recipe: Recipe | None) -> Path:
    wanted = None if recipe is None else Path(recipe.model.path).resolve()
    places = [run / "base", run.absolute().parent / "base"]
    for place in places:
        if not (place / SAMPLES).is_file() or not (place / EVALUATION).is_file():
            continue
        model = read_json(place / EVALUATION).get("model", "")
        if wanted is None or Path(model).resolve() == wanted:
            return place
    raise DataError(
        f"there is no evaluation of the initial policy{'' if wanted is None else f' {wanted}'} in "
        f"{_listed(places)}; name what to compare {run} with (--against)"
    )


def _listed(places: Sequence[Path]) -> str:
    return " or ".join(map(str, places))
