"""Runs that differ in their seed alone, as one: means with intervals that speak of another seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dph.recipe import Recipe
from dph.results.charts.aggregate import aggregate_sets
from dph.results.report.report_data import ReportData, ReportRun

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
    """What makes two runs seeds of one thing when it is equal, in the order of its keys."""
    table = recipe.model_dump(mode="json")
    for key in ("seed", "name", "notes", "track"):
        table.pop(key, None)
    for section in _SEEDS:
        table[section].pop("seed", None)
    table["presample"].pop("pool", None)
    return dict(sorted(table.items()))
