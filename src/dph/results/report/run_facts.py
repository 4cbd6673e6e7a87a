"""Facts of runs: models, seeds, steps, costs of training, and the settings that differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph._base.files import read_json
from dph.errors import DataError
from dph.recipe import Recipe
from dph.results.report.report_data import ReportRun
from dph.runs.layout import CONSOLIDATION, read_software, store_directory
from dph.runs.presample.stores.manifest import StoreCounts, read_store_manifest
from dph.runs.stage_costs import RunCost, run_cost

# What was stored of each run's models: how far answers agree, and how often on a wrong result.


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """A store that a run read: whose it is, what it is called, and what its manifest counts."""

    key: str
    label: str
    name: str
    counts: StoreCounts


def store_facts(runs: Sequence[ReportRun]) -> list[StoreFacts]:
    """The stores that are still where their runs had them; a run does not need them afterwards.

    Raises:
        PoolError: a manifest is damaged.
    """
    return [
        StoreFacts(key=run.key, label=run.label, name=name, counts=read_store_manifest(path).counts)
        for run in runs
        for name, path in _manifests(run)
        if path.is_file()
    ]


def _manifests(run: ReportRun) -> Iterator[tuple[str, Path]]:
    if run.recipe is None:
        return
    used = {name: store_directory(run.recipe, run.path, name) for name in run.recipe.used_stores}
    if run.recipe.consolidation.active:
        after = str(run.recipe.consolidation.store)
        used[after] = store_directory(run.recipe, run.path / CONSOLIDATION, after)
    for name, directory in used.items():
        yield name, directory / "manifest.json"


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
    flat = {run.key: _flat(run.recipe) for run in runs if run.recipe is not None}
    keys = list(dict.fromkeys(key for settings in flat.values() for key in settings))
    values = {key: {run: of.get(key, "not set") for run, of in flat.items()} for key in keys}
    return {
        key: of_runs
        for key, of_runs in values.items()
        if len(set(of_runs.values())) > 1 and key not in _NOT_SHOWN
    }


def _flat(recipe: Recipe) -> dict[str, str]:
    return dict(_leaves(recipe.model_dump(mode="json", exclude_none=True), ""))


def _leaves(table: Mapping[str, Any], above: str) -> list[tuple[str, str]]:
    found = []
    for key, value in table.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{above}{key}.")
        else:
            found.append((f"{above}{key}", str(value)))
    return found


def _verifiers(run: ReportRun) -> str:
    """Verifiers that gave the rewards, by name and version; of the newest checkpoint."""
    newest = max((run.path / "checkpoints").glob("step_*/trainer.json"), default=None)
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
