"""Stores that runs of one world and seed share: a place for each way of drawing, made once."""

from collections.abc import Iterator
from pathlib import Path

from dph.lab.study.row_files import OF_VOTES, Score
from dph.recipe import Recipe, StoreSettings, recipe_digest
from dph.runs.layout import CONSOLIDATION, store_directory
from dph.runs.presample.stores.manifest import read_store_manifest
from dph.runs.presample.stores.vote import store_vote
from dph.runs.progress import Silent
from dph.runs.store_stage import shared_store_stage
from dph.runs.workbench import Workbench


def with_shared_stores(recipe: Recipe, directory: Path) -> Recipe:
    """The recipe with its stores below ``directory``; other values or targets share one."""
    stores = {
        name: store.model_copy(update={"place": directory / f"{name}-{_drawn(store)}"})
        for name, store in recipe.stores.items()
        if name != recipe.consolidation.store  # which the run's own policy fills
    }
    stores = {**recipe.stores, **stores}
    return recipe.model_copy(update={"stores": stores})


def made_stores(bench: Workbench, run: Path, lock: Path) -> int:
    """Make the stores that the run reads, and return how many answers are in them.

    Raises:
        DphError: as of ``shared_store_stage``.
    """
    made = shared_store_stage(bench, run, Silent(), lock=lock)
    return sum(manifest.counts.answers for manifest in made.values())


def consolidated_answers(recipe: Recipe, run: Path) -> int:
    """How many answers the trained policy drew for what followed RL."""
    if not recipe.consolidation.active:
        return 0
    store = store_directory(recipe, run / CONSOLIDATION, str(recipe.consolidation.store))
    return read_store_manifest(store / "manifest.json").counts.answers


def votes(recipe: Recipe, run: Path) -> Iterator[Score]:
    """How often the consensus of each store is right that the run learnt from by agreement.

    Nothing where no prompt of a store has a label to tell.
    """
    places = {name: store_directory(recipe, run, name) for name in recipe.used_stores}
    if recipe.consolidation.active:
        own = str(recipe.consolidation.store)
        places[own] = store_directory(recipe, run / CONSOLIDATION, own)
    for name, place in places.items():
        store = recipe.stores[name]
        found = store_vote(place, values=store.values) if store.compares else None
        if found is not None:
            known = zip(OF_VOTES, (found.right, found.share, found.answers_right), strict=True)
            for metric, value in known:
                yield Score(
                    set=f"stores.{name}", metric=metric, k=None, value=value, problems=found.prompts
                )


def _drawn(store: StoreSettings) -> str:
    drawing = store.model_dump(mode="json", exclude={"place", "tilt", "values", "targets"})
    return recipe_digest({**drawing, "compares": store.compares, "grades": store.grades})[:8]
