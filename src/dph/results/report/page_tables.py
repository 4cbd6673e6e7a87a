"""The tables of a page, for the template: the comparison, seeds, and what was run and stored."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json
from dph.errors import DataError
from dph.recipe.keys import flat
from dph.results.charts.text_table import UNKNOWN, count, percent
from dph.results.over_seeds import aggregate_sets
from dph.results.read.run_groups import group_runs
from dph.results.report.report_data import ReportData, ReportRun
from dph.results.vocabulary import metric_title, set_label, table_ks
from dph.runs.directory import RunDirectory, is_made, read_software
from dph.runs.evaluate.comparison import ComparisonRow
from dph.runs.presample.manifest import Counts, read_manifest
from dph.runs.stage_costs import RunCost, run_cost

# Runs that differ in their seed alone, as one: means with intervals that speak of another seed.


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedGroup:
    """Runs of one recipe with several seeds; ``sets`` is evaluation.json's, ``ci95`` over seeds."""

    labels: Sequence[str]
    method: str
    sets: Mapping[str, Any]


def seed_groups(data: ReportData) -> list[SeedGroup]:
    """The groups of two runs and more; t-intervals (``dph.results.over_seeds``).

    Raises:
        DataError: such runs were evaluated on other sets or with other k.
    """
    labels = {run.results: run.label for run in data.runs if run.recipe and run.evaluation}
    return [
        SeedGroup(
            labels=[labels[run] for run in group.runs],
            method=group.method or "",
            sets=aggregate_sets([run.evaluation["sets"] for run in group.runs if run.evaluation]),
        )
        for group in group_runs(list(labels))
        if len(group.runs) > 1
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A value with its interval, and the difference to the first run where there is one.

    ``direction`` is 1 or -1 where the difference's 95% interval does not hold 0, else 0.
    """

    value: str
    interval: str = ""
    difference: str = ""
    difference_interval: str = ""
    direction: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A run's cells, in the order of the table's titles."""

    key: str
    label: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTable:
    """The comparison on one set; ``against`` is the label of what differences are to."""

    name: str
    problems: int
    samples: int
    against: str
    titles: Sequence[str]
    lines: Sequence[Line]


def set_tables(data: ReportData) -> list[SetTable]:
    """A table for each set."""
    return [_set_table(data, name, rows) for name, rows in data.comparison.items()]


def _set_table(data: ReportData, name: str, rows: Sequence[ComparisonRow]) -> SetTable:
    found = {(row.metric, row.run): row for row in rows}
    keys = list(dict.fromkeys(row.run for row in rows))
    scores = {key: data.run(key).scores[name] for key in keys}
    samples = min(of_run.samples for of_run in scores.values())
    metrics = {"greedy": "greedy", "mean": f"mean@{samples}"}
    metrics |= {f"pass_at_{k}": metric_title(f"pass_at_{k}") for k in table_ks(samples)}
    shown = {metric: title for metric, title in metrics.items() if (metric, keys[0]) in found}
    lines = [
        Line(
            key=key,
            label=data.run(key).label,
            cells=[*(_cell(found[m, key]) for m in shown), *_evaluated(data, key, name)],
        )
        for key in keys
    ]
    return SetTable(
        name=set_label(name),
        problems=len(scores[keys[0]].problem_ids),
        samples=samples,
        against=data.run(keys[0]).label,
        titles=[*shown.values(), "styles", "keep", "explore", "cut off"],
        lines=lines,
    )


def _cell(row: ComparisonRow) -> Cell:
    interval = f"{100 * row.lo:.1f} to {100 * row.hi:.1f}"
    apart = row.difference
    if apart is None:
        return Cell(value=percent(row.value), interval=interval)
    return Cell(
        value=percent(row.value),
        interval=interval,
        difference=_signed(apart.mean),
        difference_interval=f"{_signed(apart.lo)} to {_signed(apart.hi)}",
        direction=(apart.lo > 0) - (apart.hi < 0),
    )


def _evaluated(data: ReportData, key: str, name: str) -> list[Cell]:
    """Effective styles, keep and explore (with what the base scores itself), share cut off."""
    summary: Mapping[str, Any] = (data.run(key).evaluation or {}).get("sets", {}).get(name, {})
    return [
        Cell(value=count(summary.get("effective_styles"))),
        *(_with_null(summary, metric) for metric in ("keep", "explore")),
        Cell(value=percent(summary.get("cut_off"))),
    ]


def _with_null(summary: Mapping[str, Any], metric: str) -> Cell:
    value, null = summary.get(metric), summary.get(f"{metric}_null")
    if value is None:
        return Cell(value=UNKNOWN)
    return Cell(value=percent(value), interval="" if null is None else f"null {percent(null)}")


def _signed(value: float) -> str:
    """Percentage points with their sign; a minus sign as wide as a plus."""
    return f"{round(100 * value, 1) + 0.0:+.1f}".replace("-", "\N{MINUS SIGN}")


# What was stored of each run's models: how far answers agree, and how often on a wrong result.


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """A store that a run read: whose it is, what it is called, and what its manifest counts."""

    key: str
    label: str
    name: str
    counts: Counts


def store_facts(runs: Sequence[ReportRun]) -> list[StoreFacts]:
    """The stores that are still where their runs had them; a run does not need them afterwards.

    Raises:
        PoolError: a manifest is damaged.
    """
    return [
        StoreFacts(
            key=run.key, label=run.label, name=name, counts=read_manifest(place, "store").counts
        )
        for run in runs
        for name, place in _stores(run)
        if is_made(place)
    ]


def _stores(run: ReportRun) -> Iterator[tuple[str, Path]]:
    if run.recipe is None:
        return
    used = {name: RunDirectory(run.path).store(run.recipe, name) for name in run.recipe.used_stores}
    if run.recipe.consolidation.active:
        after = str(run.recipe.consolidation.store)
        used[after] = RunDirectory(run.path).consolidation.store(run.recipe, after)
    yield from used.items()


# What was run: models, seeds, steps, what training cost, and the settings that differ.

_NOT_SHOWN = frozenset({"name", "method", "seed", "notes"})
"""Columns of their own, or names of places."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """One run's line; None where its directory does not say."""

    key: str
    label: str
    path: str
    method: str | None
    model: str | None
    seed: int | None
    steps: int
    cost: RunCost
    samples: int | None
    verifiers: str
    software: str


def run_facts(run: ReportRun) -> RunFacts:
    """Facts that the directory of a run holds."""
    recipe, document = run.recipe, run.evaluation or {}
    return RunFacts(
        key=run.key,
        label=run.label,
        path=_place(run.path),
        method=None if recipe is None else recipe.method,
        model=str(recipe.model.path) if recipe is not None else document.get("model"),
        seed=None if recipe is None else recipe.seed,
        steps=max((int(row["step"]) for row in run.log), default=0),
        cost=run_cost(run.path, run.recipe),
        samples=document.get("samples"),
        verifiers=_verifiers(run),
        software=_software(run),
    )


def _place(path: Path) -> str:
    """The path from the working directory on, where it lies in it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path)


def differing_settings(runs: Sequence[ReportRun]) -> dict[str, dict[str, str]]:
    """Each setting that is not the same in all runs with a recipe: key, then run, then value."""
    tables = {
        run.key: dict(flat(run.recipe.model_dump(mode="json", exclude_none=True)))
        for run in runs
        if run.recipe is not None
    }
    keys = dict.fromkeys(key for settings in tables.values() for key in settings)
    values = {k: {run: str(of.get(k, "not set")) for run, of in tables.items()} for k in keys}
    return {
        key: of_runs
        for key, of_runs in values.items()
        if len(set(of_runs.values())) > 1 and key not in _NOT_SHOWN
    }


def _verifiers(run: ReportRun) -> str:
    """Verifiers that gave the rewards, by name and version; of the newest checkpoint."""
    newest = max(RunDirectory(run.path).checkpoints.glob("step_*/trainer.json"), default=None)
    if newest is None:
        return "" if run.recipe is None else str(run.recipe.data.verifier)
    trainer = read_json(newest)
    if not isinstance(trainer, dict) or not isinstance(trainer.get("verifiers", []), list):
        raise DataError(f"{newest} is damaged: its verifiers are not a list")
    return ", ".join(f"{one['name']} {one['version']}" for one in trainer.get("verifiers", []))


def _software(run: ReportRun) -> str:
    """Software that trained the run; where that changed, with the step."""
    told: list[str] = []
    for row in read_software(run.path):
        since = f"from step {row['first_step']} on " if told else ""
        told.append(since + ", ".join(f"{k} {v}" for k, v in row.items() if k != "first_step"))
    return "; ".join(told)
