"""Runs that differ in their seed alone, as one method.

A seed may bring a world of its own (that of a quickstart does), so places count by the last part of
their path: ``a/base_model`` and ``b/base_model`` are one model to this. Two runs of one seed are
never seeds of one thing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dph.errors import DataError
from dph.recipe import STRENGTHS, Recipe
from dph.recipe.keys import flat
from dph.results.charts.aggregate import aggregate_sets
from dph.results.charts.palette import BASE, Look, looks_by_method, run_labels
from dph.results.report.comparison_view import settings_without_seeds
from dph.runs.evaluate.pass_at_k import require_k_fits
from dph.runs.evaluate.progress_file import (
    PROGRESS_FILE,
    measured_steps,
    read_progress_file,
    rows_of_step,
    step_summary,
)
from dph.runs.evaluate.samples_file import samples_digest
from dph.runs.found_runs import FoundRun, find_runs
from dph.runs.layout import SAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """One run, or the seeds of one; ``name`` stands in tables and legends."""

    name: str
    runs: tuple[FoundRun, ...]

    @property
    def recipe(self) -> Recipe | None:
        """That of the first; the others differ in seeds and places."""
        return self.runs[0].recipe

    @property
    def method(self) -> str | None:
        """None where the run has no recipe or its recipe names no method."""
        return None if self.recipe is None else self.recipe.method

    @property
    def strength(self) -> float | None:
        """The value of the one setting that says how strong the method is; None without one."""
        return None if self.recipe is None else strength_of(self.recipe)


def strength_of(recipe: Recipe) -> float | None:
    """The value that ``dph.recipe.STRENGTHS`` names for the recipe's method."""
    key = STRENGTHS.get(str(recipe.method))
    value = dict(flat(recipe.model_dump(mode="json"))).get(key) if key is not None else None
    return float(value) if isinstance(value, (int, float)) else None


def group_runs(found: Sequence[FoundRun], *, apart: bool = False) -> list[RunGroup]:
    """The runs as methods, in the order in which they come up; ``apart`` keeps each alone."""
    groups: dict[str, list[FoundRun]] = {}
    for run in found:
        key = str(run.path) if apart or run.recipe is None else _likeness(run.recipe)
        groups.setdefault(key, []).append(run)
    split: list[list[FoundRun]] = []
    for runs in groups.values():
        split += [runs] if _are_seeds(runs) else [[run] for run in runs]
    names = _names(split)
    return [RunGroup(name=name, runs=tuple(runs)) for name, runs in zip(names, split, strict=True)]


def _are_seeds(runs: Sequence[FoundRun]) -> bool:
    seeds = [run.recipe.seed if run.recipe is not None else None for run in runs]
    return len(set(seeds)) == len(seeds)


def _likeness(recipe: Recipe) -> str:
    return str(_by_last_part(settings_without_seeds(recipe)))


def _by_last_part(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _by_last_part(of_key) for key, of_key in sorted(value.items())}
    if isinstance(value, list):
        return [_by_last_part(one) for one in value]
    return Path(value).name if isinstance(value, str) and "/" in value else value


def _names(groups: Sequence[Sequence[FoundRun]]) -> list[str]:
    """The directory's name where all seeds have it, else the method's.

    Where two clash the strength is added, and where that does not help either, the path says more.
    """
    short = [_short(runs) for runs in groups]
    count = Counter(short)
    longer = [
        name if count[name] == 1 else _with_strength(name, runs[0].recipe)
        for name, runs in zip(short, groups, strict=True)
    ]
    count = Counter(longer)
    labels = run_labels([runs[0].path for runs in groups])
    return [
        name if count[name] == 1 else labels[str(runs[0].path)]
        for name, runs in zip(longer, groups, strict=True)
    ]


def _short(runs: Sequence[FoundRun]) -> str:
    names = {run.path.absolute().name for run in runs}
    recipe = runs[0].recipe
    if len(names) == 1 or recipe is None or recipe.method is None:
        return runs[0].path.absolute().name
    return recipe.method


def _with_strength(name: str, recipe: Recipe | None) -> str:
    strength = None if recipe is None else strength_of(recipe)
    return name if strength is None else f"{name}_{strength:g}"


# Runs with the initial policy that they began with: what may be compared problem by problem.


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An evaluated initial policy (None: none was found) and the runs that began with it.

    Families of one ``base_name`` are seeds of one thing.
    """

    base: Path | None
    base_name: str
    runs: tuple[Path, ...]

    @property
    def directories(self) -> tuple[Path, ...]:
        """All of them, the initial policy first."""
        return (*([self.base] if self.base is not None else []), *self.runs)


def base_families(groups: Sequence[RunGroup], evaluated: Sequence[FoundRun]) -> list[Family]:
    """Every run of ``groups`` in its family; runs without a base are separate families.

    Policies that seeds of one method began with are called the same; where that leaves one name, it
    is that of the base model.
    """
    bases: dict[str, Path] = {}
    members: dict[str, list[Path]] = {}
    alone = []
    for run in evaluated:
        if not any(run in group.runs for group in groups):
            continue
        if run.base is None:
            alone.append(Family(base=None, base_name="", runs=(run.path,)))
            continue
        key = _digest(run.base)
        bases.setdefault(key, run.base)
        members.setdefault(key, []).append(run.path)
    names = _family_names(groups, bases)
    return [
        *(
            Family(base=base, base_name=names[key], runs=tuple(members[key]))
            for key, base in bases.items()
        ),
        *alone,
    ]


def _digest(base: Path) -> str:
    """Equal for copies of one evaluation."""
    return samples_digest(base / SAMPLES) or str(base.resolve())


def _family_names(groups: Sequence[RunGroup], bases: dict[str, Path]) -> dict[str, str]:
    first = {key: key for key in bases}
    for group in groups:
        keys = [_digest(run.base) for run in group.runs if run.base is not None]
        joined = {first[key] for key in keys}
        if joined:
            one = min(joined, key=list(bases).index)
            first = {key: one if of in joined else of for key, of in first.items()}
    leaders = list(dict.fromkeys(first.values()))
    if len(leaders) == 1:
        return dict.fromkeys(bases, BASE)
    labels = run_labels([bases[key] for key in leaders])
    return {key: labels[str(bases[of])] for key, of in first.items()}


# What runs measured while they trained, step by step, from their ``progress.parquet``.

USUAL_K = 8
"""The paper's Figure 5 shows Pass@8."""
Steps = Mapping[int, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """By run, and step, the summary of every set; ``notes`` name what measured nothing."""

    runs: Mapping[str, Steps]
    looks: Mapping[str, Look]
    k: int
    notes: tuple[str, ...]
    several: bool
    """Whether a line is the mean of several seeds."""

    def on(self, set_name: str) -> dict[str, dict[int, Mapping[str, Any]]]:
        """The steps at which the runs were measured on a set."""
        found = {
            name: {step: sets[set_name] for step, sets in steps.items() if set_name in sets}
            for name, steps in self.runs.items()
        }
        return {name: steps for name, steps in found.items() if steps}

    @property
    def sets(self) -> list[str]:
        """Every set, in the order they come up."""
        return list(
            dict.fromkeys(
                name for steps in self.runs.values() for sets in steps.values() for name in sets
            )
        )


def read_progress(
    places: Sequence[Path], *, k: int | None = None, seed: int = 0, apart: bool = False
) -> MeasuredRuns:
    """Pass@k of the runs at ``places`` at every step that was measured.

    Seeds of one run are one line, over the steps that all of them have. ``k`` None takes 8, or as
    many samples as there are below that; ``seed`` is that of the bootstrap.

    Raises:
        DataError: no run measured anything, or a file is damaged.
        SettingsError: a run has fewer than k samples, or a recipe is not valid.
    """
    found = find_runs(places)
    tables = {run.path: read_progress_file(run.path / PROGRESS_FILE) for run in found}
    notes = [f"{p}: no {PROGRESS_FILE}" for p, table in tables.items() if not table.num_rows]
    measured = [run for run in found if tables[run.path].num_rows]
    if not measured:
        raise DataError(
            f"no run was measured while it trained (evaluate.every = 0): {'; '.join(notes)}"
        )
    samples = min(min(tables[run.path]["samples"].to_pylist()) for run in measured)
    k = k or min(USUAL_K, samples)
    require_k_fits(k, samples)
    groups = group_runs(measured, apart=apart)
    return MeasuredRuns(
        runs={
            group.name: _over_runs([_steps(tables[run.path], k, seed) for run in group.runs])
            for group in groups
        },
        looks=looks_by_method({group.name: group.method for group in groups}),
        k=k,
        notes=tuple(notes),
        several=any(len(group.runs) > 1 for group in groups),
    )


def _steps(table: pa.Table, k: int, seed: int) -> Steps:
    return {
        step: step_summary(rows_of_step(table, step), ks=[k], seed=seed)
        for step in measured_steps(table)
    }


def _over_runs(runs: Sequence[Steps]) -> Steps:
    if len(runs) == 1:
        return runs[0]
    common = sorted(set.intersection(*(set(steps) for steps in runs)))
    return {step: aggregate_sets([steps[step] for steps in runs]) for step in common}
