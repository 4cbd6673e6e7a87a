"""A recipe whose run was trained without a consolidation, with one: that of ``dph_broad``."""

import tomllib
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from dph.recipe.methods import AFTER, CONSOLIDATION
from dph.recipe.recipe import load_recipe, merged, recipe_of, recipe_toml
from dph.recipe.samples import store_named
from dph.recipe.schema import Recipe

_CONSOLIDATION = "consolidation"


def consolidating_recipe(
    path: Path, prompts: Path, *, overrides: Sequence[str] = (), seed: int | None = None
) -> Recipe:
    """The recipe in ``path`` with an active ``[consolidation]`` on the prompts in a file.

    Where the recipe says nothing of a consolidation it is ``dph_broad``'s; what it says, and the
    overrides, win. What was consolidated already is consolidated in the same way once more.

    Raises:
        SettingsError: the recipe is missing or invalid, or what is asked for is no consolidation.
    """
    recipe = load_recipe(path)
    table = tomllib.loads(recipe_toml(recipe))
    table["model"].pop("adapter", None)  # the weights that follow are whole
    table = deepcopy(merged(table, _said(recipe)))  # or the method's own tables would change
    store = table["stores"][store_named(table[_CONSOLIDATION]["samples"])]
    store.pop("place", None)  # another model's answers may lie there
    store["file"] = str(prompts.resolve())
    found = recipe_of(table, beside=path.resolve().parent, overrides=overrides, seed=seed)
    _require_agreement(found)
    return found


def _said(recipe: Recipe) -> dict[str, Any]:
    """The settings of the consolidation, and of its store where there is none of its name."""
    own, usual = recipe.consolidation, CONSOLIDATION[_CONSOLIDATION]
    said: dict[str, Any] = {"updates": own.updates or usual["updates"]}
    if recipe.method == _CONSOLIDATION:
        (anchor,) = recipe.objective.active_anchors.values()
        train = recipe.train  # its learning rate is that of the consolidation
        said = {"samples": anchor.samples, "updates": train.steps, "rate": 1.0}
        said |= {"rows": anchor.per_step, "final_rate": train.final_rate}
        said |= {"checkpoint_every": train.checkpoint_every}
    elif own.samples is None:
        said |= usual
    name = store_named(said.get("samples", own.samples))
    missing = {name: CONSOLIDATION["stores"][AFTER]} if name not in recipe.stores else {}
    return {_CONSOLIDATION: said, "stores": missing}


def _require_agreement(recipe: Recipe) -> None:
    settings = recipe.consolidation
    if not settings.active:
        raise SettingsError(
            "consolidation.updates = 0 asks for no consolidation: set it to 1 or more"
        )
    key, store = f"stores.{settings.store}", recipe.stores[str(settings.store)]
    if store.prompts != "unlabelled":
        raise SettingsError(
            f"{key}.prompts = {store.prompts!r}: --prompts gives the file of all prompts; set "
            f"{key}.prompts=unlabelled, or let a recipe's [consolidation] make the prompts"
        )
    if store.values == "correct" or not store.tilt > 0:
        raise SettingsError(
            f"{key} has values = {store.values!r} and tilt = {store.tilt:g}: that learns nothing "
            f"from agreement; set values to 'agreement' or 'distinct', and a tilt above 0"
        )
