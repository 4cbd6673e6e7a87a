"""What was stored of each run's models: how far answers agree, and how often on a wrong result."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.results.report.report_data import ReportRun
from dph.runs.layout import CONSOLIDATION, store_directory
from dph.runs.presample.stores.manifest import StoreCounts, read_store_manifest


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
