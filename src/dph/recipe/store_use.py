"""Stores that a recipe reads, and whether they fit their readers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dph.errors import SettingsError
from dph.recipe.objective import ObjectiveSettings
from dph.recipe.stores import FROM_FILE, StoreSettings
from dph.recipe.tables import SelfConsistencySettings

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def stores_in_use(objective: ObjectiveSettings, consistency: SelfConsistencySettings) -> set[str]:
    """The names of the stores that training reads."""
    return {name for _, name in _readers(objective, consistency)}


def with_one_file(stores: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of stores; where one file is named, those that need one and name none get it."""
    tables = {name: dict(s) if isinstance(s, Mapping) else s for name, s in stores.items()}
    given = [table for table in tables.values() if isinstance(table, dict)]
    files = {str(table["file"]): table["file"] for table in given if table.get("file")}
    if len(files) == 1:
        (file,) = files.values()
        for table in given:
            if table.get("prompts", FROM_FILE[0]) in FROM_FILE and table.get("file") is None:
                table["file"] = file
    return tables


def wrong_stores(
    stores: Mapping[str, StoreSettings],
    objective: ObjectiveSettings,
    consistency: SelfConsistencySettings,
) -> str:
    """The first thing that does not fit; '' where everything does."""
    for name in stores:
        if not _NAME.fullmatch(name):
            return f"stores.{name}: a name is letters, digits, '.', '_' and '-', got {name!r}"
    for reader, name in _readers(objective, consistency):
        if name not in stores:
            known = ", ".join(stores) or "none"
            return (
                f"{reader}.samples = 'store:{name}' does not name a store; [stores.<name>] exists "
                f"for: {known}"
            )
    return _wrong_consistency(stores, consistency)


def require_files(
    stores: Mapping[str, StoreSettings], consistency: SelfConsistencySettings
) -> None:
    """Refuse to make or read anything while a file of prompts is not named.

    A recipe without it can still be shown and completed.

    Raises:
        SettingsError: says which key is missing, and what the file holds.
    """
    for name, store in stores.items():
        if store.prompts in FROM_FILE and store.file is None:
            raise SettingsError(
                f"the store {name!r} needs stores.{name}.file: {_WHAT}, or another "
                f"stores.{name}.prompts than {store.prompts!r}"
            )
    if consistency.active and consistency.reward == "majority" and consistency.file is None:
        raise SettingsError(
            f"self_consistency.problems_per_step = {consistency.problems_per_step} needs "
            f"self_consistency.file: {_WHAT}"
        )


_WHAT = (
    "a file of prompts without answers (problem_id, prompt, and the fields other than the answer "
    "that the verifier reads, such as database)"
)


def _readers(
    objective: ObjectiveSettings, consistency: SelfConsistencySettings
) -> Iterator[tuple[str, str]]:
    """The tables whose ``samples`` name a store in use, and that name."""
    for name, anchor in objective.active_anchors.items():
        if anchor.store is not None:
            yield f"objective.anchors.{name}", anchor.store
    if consistency.active and consistency.store is not None:
        yield "self_consistency", consistency.store


def _wrong_consistency(
    stores: Mapping[str, StoreSettings], consistency: SelfConsistencySettings
) -> str:
    if not consistency.active or consistency.reward != "consensus":
        return ""
    if consistency.store is None:
        known = ", ".join(stores) or "none"
        return (
            "self_consistency.reward = 'consensus' needs self_consistency.samples = 'store:NAME', "
            f"a [stores.<name>]; these exist: {known}"
        )
    store = stores[consistency.store]
    if store.answers < 2 or store.prompts == "beginning":
        return (
            f"self_consistency.samples = {consistency.samples!r}: a consensus needs at least 2 "
            f"answers to each prompt, got prompts={store.prompts!r} with answers={store.answers}"
        )
    return ""
