"""The anchors of a run with their stored answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dph.loss.divergences import DistributionDivergence, Divergence
from dph.loss.objectives import make_objective
from dph.recipe import ObjectiveSettings
from dph.recipe.engine_stores import EngineStore
from dph.runs.presample.manifest import Manifest
from dph.runs.presample.pool import load_pool
from dph.runs.presample.stores.manifest import StoreManifest, read_store_manifest
from dph.runs.presample.stores.store import load_store
from dph.runs.train.order import Drawing, drawing_of
from dph.runs.train.preparation import require_kinds
from dph.runs.train.rows import StoredRow


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStore:
    """A pool, or a store of distributions: what it was made from, and its answers."""

    directory: Path
    manifest: Manifest | StoreManifest
    samples: Sequence[StoredRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnchor:
    """A divergence, its weight, and the store whose answers it acts on."""

    name: str
    divergence: Divergence | DistributionDivergence
    weight: float
    drawing: Drawing
    store: OpenStore


def open_anchors(
    objective: ObjectiveSettings,
    *,
    pool: str,
    per_step: int,
    stores: Mapping[str, EngineStore],
) -> tuple[StoredAnchor, ...]:
    """Every anchor that weighs anything; a store that serves several of them is read once.

    Raises:
        PoolError: a store is missing or damaged, or holds what its anchor can do nothing with.
    """
    terms = make_objective(objective)
    settings = objective.active_anchors
    sources: dict[str, Path | EngineStore] = {}
    for name in terms.anchors:
        distributions = settings[name].distributions
        sources[name] = settings[name].store or Path(pool)
        if distributions is not None:
            sources[name] = stores[distributions]
    opened = {source: _open(source) for source in set(sources.values())}
    require_kinds(terms, {name: opened[source].samples for name, source in sources.items()})
    return tuple(
        StoredAnchor(
            name=name,
            divergence=term.divergence,
            weight=term.weight,
            drawing=drawing_of(settings[name], per_step),
            store=opened[sources[name]],
        )
        for name, term in terms.anchors.items()
    )


def stores_of(anchors: Sequence[StoredAnchor]) -> list[OpenStore]:
    """The stores of the anchors, each once."""
    return list({id(anchor.store): anchor.store for anchor in anchors}.values())


def _open(source: Path | EngineStore) -> OpenStore:
    if isinstance(source, Path):
        pool = load_pool(source)
        return OpenStore(directory=source, manifest=pool.manifest, samples=pool.rehearsal)
    return OpenStore(
        directory=source.place,
        manifest=read_store_manifest(source.place / "manifest.json"),
        samples=load_store(
            source.place, tilt=source.tilt, values=source.values, targets=source.targets
        ),
    )
