"""The stored samples that a run rehearses: a pool or a named store for each of its anchors."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from dph.recipe import Recipe
from dph.recipe.objective import AnchorSettings
from dph.runs.layout import store_directory
from dph.runs.presample.tables import DistributionSample
from dph.runs.presample.manifest import Source, read_manifest
from dph.runs.presample.pool import Pool, RehearsalSample, load_pool
from dph.runs.presample.pool import require_same_policy
from dph.runs.presample.stores.manifest import read_store_manifest
from dph.runs.presample.stores.store import load_store, require_store_policy
from dph.runs.train.rows import StoredRow


def require_stores(recipe: Recipe, pool: Path) -> None:
    """Find out that a store is not there before hours of pre-sampling; ``pool`` is yet to be made.

    Raises:
        PoolError: it is missing, or is no pool.
    """
    for anchor in recipe.objective.active_anchors.values():
        if anchor.store is not None and anchor.store.resolve() != pool.resolve():
            read_manifest(anchor.store / "manifest.json")


def stored_samples(
    recipe: Recipe, directory: Path, pool: Pool | None, source: Source, *, initial: bool
) -> dict[str, Sequence[StoredRow]]:
    """The samples of every anchor of a run in ``directory``, by its name.

    ``source`` is what this run would sample now; ``initial`` says that its weights are still those
    that were sampled.

    Raises:
        PoolError: a store is missing, damaged, or another policy's.
    """
    anchors = recipe.objective.active_anchors
    named = {name: a.distributions for name, a in anchors.items() if a.distributions is not None}
    pools = {name: anchor for name, anchor in anchors.items() if name not in named}
    loaded: dict[str, tuple[DistributionSample, ...]] = {}  # anchors may share a store
    for store in dict.fromkeys(named.values()):
        path, settings = store_directory(recipe, directory, store), recipe.stores[store]
        manifest = read_store_manifest(path / "manifest.json")
        require_store_policy(path, manifest, source, initial=initial)
        loaded[store] = load_store(
            path, tilt=settings.tilt, values=settings.values, targets=settings.targets
        )
    stores: dict[str, Sequence[StoredRow]] = dict(
        anchor_stores(pools, pool, source, initial=initial)
    )
    return {**stores, **{name: loaded[store] for name, store in named.items()}}


def anchor_stores(
    anchors: Mapping[str, AnchorSettings], pool: Pool | None, source: Source, *, initial: bool
) -> dict[str, Sequence[RehearsalSample]]:
    """The samples of every anchor, by its name: of the store it names, or of the run's pool.

    ``source`` is what this run would sample now; ``initial`` says that its weights are still those
    that were sampled.

    Raises:
        PoolError: a store is missing, damaged, or another policy's.
    """
    stores: dict[str, Sequence[RehearsalSample]] = {}
    for name, anchor in anchors.items():
        if anchor.recent is not None:
            continue  # the loop fills them
        if anchor.store is not None:
            own = load_pool(anchor.store)
            require_same_policy(
                anchor.store,
                own.manifest,
                tokenizer_fingerprint=source.tokenizer_fingerprint,
                temperature=source.temperature,
                dtype=source.dtype,
                model_fingerprint=source.model_fingerprint if initial else None,
            )
            stores[name] = own.rehearsal
        elif pool is not None:
            stores[name] = pool.rehearsal
    return stores
