"""What a world gives to methods that learn from its unlabelled prompts."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dph.lab.worlds import UNLABELLED, World, WorldKind
from dph.recipe import METHODS, merged
from dph.recipe.stores import FROM_FILE


def world_tables(kind: WorldKind, world: World, method: str, stores: Path) -> dict[str, Any]:
    """What a world says in the recipe of ``method``; stores that runs share lie in ``stores``."""
    own = unlabelled_tables(method, world.problems_path(UNLABELLED), stores, only=kind.unlabelled)
    return merged(kind.settings(world), own)


def unlabelled_tables(
    method: str, file: Path, stores: Path, *, only: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """The tables of a recipe that say where the prompts of ``method`` are; none if it needs none.

    Args:
        method: a named method.
        file: the world's unlabelled prompts.
        stores: where the stores lie that all methods share.
        only: which of the prompts, by columns of the file [default: all].
    """
    table = METHODS[method]
    prompts = {"file": str(file), **({"only": dict(only)} if only else {})}
    found: dict[str, Any] = {}
    for name, store in table.get("stores", {}).items():
        # What a trained policy answers is no other run's business.
        own_answers = table.get("consolidation", {}).get("store") == name
        place = {} if own_answers else {"place": str(stores / name)}
        own = prompts if store.get("prompts", "unlabelled") in FROM_FILE else {}
        found.setdefault("stores", {})[name] = place | own
    if table.get("self_consistency", {}).get("reward") == "majority":
        found["self_consistency"] = prompts
    return found
