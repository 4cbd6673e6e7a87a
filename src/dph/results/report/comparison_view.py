"""The comparison as rows of cells, for the template."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dph.recipe import Recipe
from dph.results.charts.aggregate import aggregate_sets
from dph.results.charts.cells import UNKNOWN, count, percent
from dph.results.charts.palette import set_label
from dph.results.report.report_data import ReportData, ReportRun, table_ks
from dph.runs.evaluate.comparison import ComparisonRow

# Runs that differ in their seed alone, as one: means with intervals that speak of another seed.

_SEEDS = ("presample", "evaluate")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedGroup:
    """Runs of one recipe with several seeds; ``sets`` is evaluation.json's, ``ci95`` over seeds."""

    labels: Sequence[str]
    method: str
    sets: Mapping[str, Any]


def seed_groups(data: ReportData) -> list[SeedGroup]:
    """The groups of two runs and more; t-intervals (``dph.results.charts.aggregate``).

    Raises:
        DataError: such runs were evaluated on other sets or with other k.
    """
    groups: dict[str, list[ReportRun]] = {}
    for run in data.runs:
        if run.recipe is not None and run.evaluation is not None:
            groups.setdefault(str(settings_without_seeds(run.recipe)), []).append(run)
    return [
        SeedGroup(
            labels=[run.label for run in runs],
            method=str(runs[0].recipe.method) if runs[0].recipe is not None else "",
            sets=aggregate_sets([run.evaluation["sets"] for run in runs if run.evaluation]),
        )
        for runs in groups.values()
        if len(runs) > 1
    ]


def settings_without_seeds(recipe: Recipe) -> dict[str, Any]:
    """Settings that make two runs seeds of one thing when equal, in the order of its keys."""
    table = recipe.model_dump(mode="json")
    for key in ("seed", "name", "notes", "track"):
        table.pop(key, None)
    for section in _SEEDS:
        table[section].pop("seed", None)
    table["presample"].pop("pool", None)
    return dict(sorted(table.items()))


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
    metrics |= {f"pass_at_{k}": f"Pass@{k}" for k in table_ks(samples)}
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
