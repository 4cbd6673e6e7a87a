"""The stores of distributions that another engine reads: where they lie, how they are tilted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from dph.errors import SettingsError
from dph.recipe.methods import METHODS
from dph.recipe.objective import ObjectiveSettings
from dph.recipe.recipe import load_recipe, messages
from dph.recipe.section import FilePath, Section
from dph.recipe.stores import Targets, Values, wrong_targets

_READ = ("place", "tilt", "values", "targets")
"""What of a recipe's [stores.<name>] matters once the store has been made."""


class EngineStore(Section):
    """A finished store, and how its distributions are tilted when they are read."""

    place: FilePath = Field(description="directory of the store, as `dph presample` left it")
    tilt: float = Field(0.0, ge=0, description="as stores.<name>.tilt of a recipe")
    values: Values = Field("agreement", description="as stores.<name>.values of a recipe")
    targets: Targets = Field("distributions", description="as stores.<name>.targets of a recipe")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if wrong := wrong_targets(self.targets, self.values, self.tilt):
            raise ValueError(wrong)
        return self


def engine_stores(
    given: Mapping[str, Any] | str | None,
    objective: ObjectiveSettings,
    *,
    source: object = None,
    method: str | None = None,
) -> dict[str, EngineStore]:
    """The stores that the anchors of ``objective`` read, by name.

    Args:
        given: for each name a directory, or a table of ``place``, ``tilt``, ``values`` and
            ``targets``; or the whole as JSON text. What it does not say is as in the recipe or the
            method.
        objective: the terms whose anchors name them.
        source: what the objective was read from. The path of a recipe brings its stores.
        method: a named method, which brings its own.

    Raises:
        SettingsError: a store is not given a place, no anchor reads it, or a key is unknown.
    """
    tables = _tables(given)
    named = {a.distributions for a in objective.anchors.values() if a.distributions is not None}
    if unread := sorted(set(tables) - named):
        known = ", ".join(sorted(named)) or "none"
        raise SettingsError(f"stores.{unread[0]}: no anchor reads it; anchors read: {known}")
    said = _said(source, method)
    found = {}
    for anchor, settings in objective.active_anchors.items():
        name = settings.distributions
        if name is not None:
            table = {**said.get(name, {}), **tables.get(name, {})}
            found[name] = _store(name, table, f"objective.anchors.{anchor}.distributions")
    return found


def _tables(given: Mapping[str, Any] | str | None) -> dict[str, Mapping[str, Any]]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise SettingsError(f"stores is not JSON: {error}: {given!r:.80}") from error
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SettingsError(f"stores must be a table of stores by name, got {given!r:.80}")
    return {name: _table(name, value) for name, value in given.items()}


def _table(name: str, value: object) -> Mapping[str, Any]:
    if isinstance(value, str | Path):
        return {"place": value}
    if isinstance(value, EngineStore):
        return value.model_dump()
    if not isinstance(value, Mapping):
        raise SettingsError(
            f"stores.{name} must be a directory, or a table of {', '.join(_READ)}, got "
            f"{value!r:.80}"
        )
    return {key: entry for key, entry in value.items() if entry is not None}


def _said(source: object, method: str | None) -> dict[str, dict[str, Any]]:
    """What a recipe or a method says of its stores, as far as it matters here."""
    stores: Mapping[str, Any] = {}
    if method is not None:
        stores = METHODS.get(method, {}).get("stores", {})
    elif isinstance(source, str) and source.endswith(".toml"):
        stores = {n: s.model_dump() for n, s in load_recipe(Path(source)).stores.items()}
    return {
        name: {key: table[key] for key in _READ if table.get(key) is not None}
        for name, table in stores.items()
    }


def _store(name: str, table: Mapping[str, Any], reader: str) -> EngineStore:
    if "place" not in table:
        raise SettingsError(
            f"{reader} = {name!r} needs stores.{name}: the directory of that store, as "
            "`dph presample` left it (stores/<name> in a run directory)"
        )
    try:
        return EngineStore.model_validate(dict(table))
    except ValidationError as error:
        raise SettingsError(f"stores.{name}: {'; '.join(messages(error))}") from error
