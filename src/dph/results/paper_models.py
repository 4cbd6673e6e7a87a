"""Methods and their initial policies, read from run directories for figures and tables."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from dph.errors import DataError
from dph.results.diagnosis.styles import set_style_counts
from dph.results.over_seeds import aggregate_sets
from dph.results.read.found_runs import Family, RunGroup, base_families, find_runs, group_runs
from dph.results.read.run_results import RunResults
from dph.results.vocabulary import (
    BASE,
    OVER_PROBLEMS,
    OVER_SEEDS,
    Look,
    looks_by_method,
    require_shown_k,
    shown_ks,
)
from dph.runs.directory import PROGRESS_FILE
from dph.runs.evaluate.intervals import bootstrap
from dph.runs.evaluate.metrics import RETENTION_K, require_k_fits, second_draw, solved_by
from dph.runs.evaluate.progress_file import measured_steps, rows_of_step, step_summary
from dph.runs.evaluate.samples_file import comparable_scores
from dph.runs.evaluate.scores import SetScores, set_summary


def full_summary(
    table: pa.Table,
    set_name: str,
    scores: SetScores,
    base: SetScores | None,
    *,
    retention_k: int,
    seed: int,
) -> dict[str, Any]:
    """The object of evaluation.json, with ``ci95`` of effective styles, keep and explore too.

    ``table`` are the samples that ``scores`` were made from. Intervals are bootstraps over
    problems; the base model's first draw, which says what there was to keep, is held fixed with
    its problem.
    """
    ks = shown_ks(scores.samples)
    summary = set_summary(scores, ks=ks, seed=seed, base=base, retention_k=retention_k)
    if scores.shares:
        counts = set_style_counts(table, set_name, scores)
        named = counts.answers[:, [style is not None for style in counts.styles]]
        effective = bootstrap(lambda of: _effective(named[of].sum(axis=1)), len(named), seed=seed)
        summary["ci95"]["effective_styles"] = list(effective)
    if base is not None:
        summary["ci95"] |= _retention_intervals(scores, base, retention_k, seed)
    return summary


def _effective(counts: Int[np.ndarray, "block styles"]) -> Float[np.ndarray, "block"]:
    """exp(entropy) of each row's shares (``evaluate.styles``); NaN where nothing counts."""
    totals = counts.sum(axis=1, keepdims=True)
    shares = counts / np.where(totals > 0, totals, 1)
    logs = np.log(np.where(shares > 0, shares, 1.0))
    return np.where(totals[:, 0] > 0, np.exp(-(shares * logs).sum(axis=1)), nan)


def _retention_intervals(
    scores: SetScores, base: SetScores, k: int, seed: int
) -> dict[str, list[float]]:
    again = second_draw(scores.correct, k)
    if again is None or base.samples < k:
        return {}
    solved = solved_by(base.correct, k)
    sides = {"keep": solved, "explore": ~solved}

    def share(drawn: np.ndarray, side: np.ndarray) -> Float[np.ndarray, "block"]:
        """The mean over the drawn problems of one side; NaN where none was drawn."""
        count, total = side[drawn].sum(axis=1), (again * side)[drawn].sum(axis=1)
        return np.where(count > 0, total / np.where(count > 0, count, 1), nan)

    return {
        name: list(bootstrap(partial(share, side=side), len(again), seed=seed))
        for name, side in sides.items()
        if side.any()
    }


Sets = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A method, or an initial policy (``method`` is None), with evaluation.json's ``sets``.

    ``runs`` is over how many runs the numbers are means; with more than one the intervals are
    t-intervals over them, with one they are bootstraps over problems.
    """

    name: str
    method: str | None
    strength: float | None
    runs: int
    sets: Sets
    is_base: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Initial policies first; ``notes`` say what could not be shown, and why."""

    models: tuple[Model, ...]
    other_tasks: frozenset[str]
    """Sets with another grader than the training problems."""
    notes: tuple[str, ...]

    @property
    def sets(self) -> list[str]:
        return list(dict.fromkeys(name for model in self.models for name in model.sets))

    def on(self, set_name: str) -> dict[str, Mapping[str, Any]]:
        return {m.name: m.sets[set_name] for m in self.models if set_name in m.sets}

    def first_of(self, method: str) -> str:
        return next(model.name for model in self.models if model.method == method)

    def looks(self) -> dict[str, Look]:
        return looks_by_method({m.name: BASE if m.is_base else m.method for m in self.models})

    def interval_note(self) -> str:
        several = {model.runs > 1 for model in self.models}
        if len(several) == 2:
            return f"{OVER_SEEDS} where there are several, else over problems"
        return OVER_SEEDS if several == {True} else OVER_PROBLEMS


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRequest:
    """Request for a figure or table of run directories, or directories of runs.

    ``sets`` empty: all; ``k`` None: the usual one; ``seed`` is that of the bootstrap. ``apart``
    keeps runs apart that differ only in their seed.
    """

    places: Sequence[Path]
    sets: Sequence[str] = ()
    k: int | None = None
    seed: int = 0
    apart: bool = False


def read_models(asked: FigureRequest, *, retention_k: int = RETENTION_K) -> Models:
    """The evaluated runs and what they began with; keep and explore are of ``retention_k`` samples.

    Raises:
        DataError: no run was evaluated, a set is unknown, a file is damaged, or a run and its
            initial policy were evaluated on other problems.
        SettingsError: a recipe is not valid, or retention_k is below 1.
    """
    found = find_runs(asked.places)
    notes = [run.why_alone for run in found if run.why_alone]
    evaluated = [run for run in found if run.is_evaluated]
    if not evaluated:
        raise DataError(f"no run was evaluated: {', '.join(notes)}")
    bases = {run.base.path.resolve() for run in evaluated if run.base is not None}
    groups = group_runs([r for r in evaluated if r.path.resolve() not in bases], apart=asked.apart)
    families = base_families(groups, evaluated)
    summaries: dict[RunResults, Sets] = {}
    policies: dict[str, list[RunResults]] = {}
    for family in families:
        summaries |= _summaries(family, retention_k, asked.seed)
        if family.base is not None:
            policies.setdefault(family.base_name, []).append(family.base)
    named = [
        *((name, None, None, runs, True) for name, runs in policies.items()),
        *((one.name, one.method, one.strength, one.runs, False) for one in groups),
    ]
    models = [
        Model(
            name=name,
            method=method,
            strength=strength,
            runs=len(runs),
            sets=_over_runs([summaries[run] for run in runs]),
            is_base=is_base,
        )
        for name, method, strength, runs, is_base in named
    ]
    return Models(
        models=tuple(_with_sets(models, asked.sets)),
        other_tasks=_other_tasks(groups),
        notes=tuple(notes),
    )


def _summaries(family: Family, retention_k: int, seed: int) -> dict[RunResults, Sets]:
    """The sets of every directory of a family, without problems that cannot be graded."""
    tables = {str(run.path): run.answers() for run in family.all}
    scores = comparable_scores(tables)
    base = {} if family.base is None else scores[str(family.base.path)]
    return {
        run: {
            name: full_summary(
                tables[str(run.path)], name, of_set, base.get(name),
                retention_k=retention_k, seed=seed,
            )
            for name, of_set in scores[str(run.path)].items()
        }
        for run in family.all
    }  # fmt: skip


def _over_runs(sets: Sequence[Sets]) -> Sets:
    return sets[0] if len(sets) == 1 else aggregate_sets(sets)


def _with_sets(models: Sequence[Model], wanted: Sequence[str]) -> Iterable[Model]:
    known = list(dict.fromkeys(name for model in models for name in model.sets))
    for name in wanted:
        if name not in known:
            raise DataError(f"no run was evaluated on {name!r}, only on {', '.join(known)}")
    for model in models:
        if chosen := {name: model.sets[name] for name in wanted or known if name in model.sets}:
            yield replace(model, sets=chosen)


def _other_tasks(groups: Sequence[RunGroup]) -> frozenset[str]:
    return frozenset(
        name
        for group in groups
        if (recipe := group.recipe) is not None
        for name, of_set in recipe.data.sets.items()
        if of_set.verifier not in (None, recipe.data.verifier)
    )


# What runs measured while they trained, step by step: ``progress.parquet``, or their log.

Steps = Mapping[int, Mapping[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """By run, and step, the summary of every set; ``notes`` name what measured nothing."""

    runs: Mapping[str, Steps]
    looks: Mapping[str, Look]
    k: int
    notes: tuple[str, ...]
    several: bool
    """True if a line is the mean of several seeds."""

    def on(self, set_name: str) -> dict[str, dict[int, Mapping[str, Any]]]:
        found = {
            name: {step: sets[set_name] for step, sets in steps.items() if set_name in sets}
            for name, steps in self.runs.items()
        }
        return {name: steps for name, steps in found.items() if steps}

    @property
    def sets(self) -> list[str]:
        measured = (sets for steps in self.runs.values() for sets in steps.values())
        return list(dict.fromkeys(name for sets in measured for name in sets))


_LOGGED = re.compile(r"eval/(.+)/pass_at_(\d+)")


def _logged_steps(run: RunResults) -> Steps:
    """Pass@k as the log has it: all that is known of a run of TRL with ``PassAtKCallback``."""
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for row in run.log():
        for match in filter(None, map(_LOGGED.fullmatch, row)):
            name, (set_name, k) = match[0], match.groups()
            sets = found.setdefault(row["step"], {})
            of_set = sets.setdefault(
                set_name, {"pass_at_k": {}, "ci95": {}, "styles": {}, "problems": 0}
            )
            of_set["pass_at_k"][k] = row[name]
            of_set["ci95"][f"pass_at_{k}"] = [row[f"{name}_lo"], row[f"{name}_hi"]]
    return found


def read_progress(asked: FigureRequest) -> MeasuredRuns:
    """Pass@k of the runs at every step that was measured; the usual k is 8, or all samples.

    Seeds of one run are one line, over the steps that all of them have.

    Raises:
        DataError: no run measured anything, or a file is damaged.
        SettingsError: a run has fewer than k samples, or a recipe is not valid.
    """
    found = find_runs(asked.places)
    tables = {run: table for run in found if (table := run.progress()).num_rows}
    logged = {run: said for run in found if run not in tables and (said := _logged_steps(run))}
    measured = [run for run in found if run in tables or run in logged]
    notes = [f"{run.path}: no {PROGRESS_FILE}" for run in found if run not in measured]
    if not measured:
        raise DataError(
            "no run was measured while it trained (evaluate.every is 0, and TRL had no "
            f"PassAtKCallback): {'; '.join(notes)}"
        )
    samples = [min(table["samples"].to_pylist()) for table in tables.values()]
    known = [
        {int(k) for sets in said.values() for of_set in sets.values() for k in of_set["pass_at_k"]}
        for said in logged.values()
    ]
    k = asked.k or min(8, *samples, *map(max, known))  # the paper's Figure 5 shows Pass@8
    for limit in samples:
        require_k_fits(k, limit)
    for ks in known:
        require_shown_k(k, map(str, sorted(ks)))
    groups = group_runs(measured, apart=asked.apart)
    measurements: dict[RunResults, Steps] = logged | {
        run: {
            step: step_summary(rows_of_step(table, step), ks=[k], seed=asked.seed)
            for step in measured_steps(table)
        }
        for run, table in tables.items()
    }
    return MeasuredRuns(
        runs={
            group.name: {
                step: _over_runs([measurements[run][step] for run in group.runs])
                for step in sorted(set.intersection(*[{*measurements[run]} for run in group.runs]))
            }
            for group in groups
        },
        looks=looks_by_method({group.name: group.method for group in groups}),
        k=k,
        notes=tuple(notes),
        several=any(len(group.runs) > 1 for group in groups),
    )
