"""The stores of distributions that another engine reads: where they lie, how they are tilted."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from dph.errors import SettingsError
from dph.recipe.methods import METHODS
from dph.recipe.objective import REHEARSAL, SHORTHAND, ObjectiveSettings, expand_shorthand
from dph.recipe.recipe import load_recipe, merged, messages
from dph.recipe.section import FilePath, Section
from dph.recipe.stores import Targets, Values, wrong_targets

# ``[objective]`` as the configuration of another engine gives it: one reader for all of them.

DEFAULT: Mapping[str, Any] = {"divergence": "forward_kl", "eta": 0.01}
"""The objective of an engine that was told neither terms nor a method: the paper's forward KL."""


def engine_objective(
    given: Mapping[str, Any] | str | None,
    *,
    method: str | None = None,
    beside: Mapping[str, Any] | None = None,
) -> ObjectiveSettings:
    """The settings of the loss.

    Args:
        given: the section as a table, as JSON text, or the path of a recipe that has it. It is
            the whole objective: without it, and without a method, ``DEFAULT`` is.
        method: a named method, whose settings lie under the others.
        beside: keys of the section that stand outside of it, short names above all (``eta``);
            None is "not given".

    Raises:
        SettingsError: something is unknown, out of range, or given twice with different values.
    """
    flat = {name: value for name, value in (beside or {}).items() if value is not None}
    try:
        if not given and method is None:
            return ObjectiveSettings.model_validate({**DEFAULT, **flat})
        table = _joined(
            expand_shorthand(_objective_table(given, method)), expand_shorthand(flat), ""
        )
        found = ObjectiveSettings.model_validate(merged(_under(table, method), table))
    except ValidationError as error:
        wrong = "; ".join(messages(error))
        raise SettingsError(_in_the_words_given(wrong, flat)) from error
    except ValueError as error:  # of the short names
        raise SettingsError(str(error)) from error
    _refuse_recent(found)
    return found


def _refuse_recent(objective: ObjectiveSettings) -> None:
    for name, anchor in objective.active_anchors.items():
        if anchor.recent is not None:
            raise SettingsError(
                f"objective.anchors.{name}.samples = {anchor.samples!r}: only `dph train` keeps "
                f"the policy's own recent answers; here, name a pool or a store"
            )


def _objective_table(
    given: Mapping[str, Any] | str | None, method: str | None
) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("{"):
        try:
            found: dict[str, Any] = json.loads(given)
        except ValueError as error:
            raise SettingsError(f"objective is not JSON: {error}: {given!r:.80}") from error
        return found
    if not given.endswith(".toml"):
        raise SettingsError(
            f"objective must be a table, JSON text or the path of a recipe (.toml), got {given!r}"
        )
    if method is not None:
        raise SettingsError(
            f"method={method!r} cannot go with the recipe {given}, which sets its own method"
        )
    recipe = load_recipe(Path(given))
    if recipe.self_consistency.active:
        raise SettingsError(
            f"the recipe {given} learns from unlabelled prompts (self_consistency), which only "
            "this package's own engine does (dph train)"
        )
    return recipe.objective.model_dump(exclude_unset=True, exclude_none=True)


def _under(table: Mapping[str, Any], method: str | None) -> Mapping[str, Any]:
    """Defaults for ``table``."""
    if method is None:
        # ``eta`` alone is the weight of some divergence: of the one that DEFAULT names.
        anchors = table.get("anchors")
        named = isinstance(anchors, Mapping) and REHEARSAL in anchors
        default = {"divergence": DEFAULT["divergence"]}
        return {"anchors": {REHEARSAL: default}} if named else {}
    if method not in METHODS:
        raise SettingsError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if "self_consistency" in METHODS[method]:
        raise SettingsError(
            f"method={method!r} learns from unlabelled prompts, which only this package's own "
            "engine does (dph train)"
        )
    return METHODS[method]["objective"]


def _joined(table: Mapping[str, Any], more: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Both tables in one; common keys must have equal values."""
    joined = dict(table)
    for name, value in more.items():
        there = joined.get(name, value)
        if isinstance(there, Mapping) and isinstance(value, Mapping):
            joined[name] = _joined(there, value, f"{place}{name}.")
        elif there != value:
            raise SettingsError(
                f"objective.{place}{name} is {there!r}, and also {value!r}: set it only once"
            )
        else:
            joined[name] = value
    return joined


def _in_the_words_given(message: str, flat: Mapping[str, Any]) -> str:
    """``eta`` instead of ``anchors.rehearsal.weight``, where the former was written."""
    for name, path in SHORTHAND.items():
        if name in flat:
            message = message.replace(".".join(path), name)
    return message


_READ = ("place", "tilt", "values", "targets")
"""Settings of a recipe's [stores.<name>] that matter once the store has been made."""


class EngineStore(Section):
    """A finished store, and how its distributions are tilted when they are read."""

    place: FilePath = Field(description="directory of the store, written by `dph presample`")
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
    named = {a.store for a in objective.anchors.values() if a.store is not None}
    if unread := sorted(set(tables) - named):
        known = ", ".join(sorted(named)) or "none"
        raise SettingsError(f"stores.{unread[0]}: no anchor reads it; anchors read: {known}")
    said = _said(source, method)
    found = {}
    for anchor, settings in objective.active_anchors.items():
        name = settings.store
        if name is not None:
            table = {**said.get(name, {}), **tables.get(name, {})}
            found[name] = _store(name, table, f"objective.anchors.{anchor}")
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
    """Settings of stores in a recipe or a method, as far as they matter here."""
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
            f"{reader}.samples = 'store:{name}' needs stores.{name}: the directory of that store, "
            f"written by `dph presample` (stores/<name> in a run directory)"
        )
    try:
        return EngineStore.model_validate(dict(table))
    except ValidationError as error:
        raise SettingsError(f"stores.{name}: {'; '.join(messages(error))}") from error
