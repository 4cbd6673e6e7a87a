"""``[objective]`` as the configuration of another engine gives it: one reader for all of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dph.errors import SettingsError
from dph.recipe.methods import METHODS
from dph.recipe.objective import REHEARSAL, SHORTHAND, ObjectiveSettings, expand_shorthand
from dph.recipe.recipe import load_recipe, merged, messages

DEFAULT: Mapping[str, Any] = {"divergence": "forward_kl", "eta": 0.01}
"""The objective of an engine that was told neither terms nor a method: the paper's forward KL."""


def engine_objective(
    given: Mapping[str, Any] | str | None,
    *,
    method: str | None = None,
    short: Mapping[str, Any] | None = None,
) -> ObjectiveSettings:
    """The settings of the loss.

    Args:
        given: the section as a table, as JSON text, or the path of a recipe that has it. It is
            the whole objective: without it, and without a method, ``DEFAULT`` is.
        method: a named method, whose settings ``given`` overrides.
        short: keys of the section from outside it, mostly short names (``eta``); None is "not
            given".
    """
    flat = {name: value for name, value in (short or {}).items() if value is not None}
    try:
        if not given and method is None:
            return ObjectiveSettings.model_validate({**DEFAULT, **flat})
        table = _joined(
            expand_shorthand(_objective_table(given, method)), expand_shorthand(flat), ""
        )
        return ObjectiveSettings.model_validate(merged(_under(table, method), table))
    except ValidationError as error:
        wrong = "; ".join(messages(error))
        for name, path in SHORTHAND.items():
            if name in flat:  # ``eta`` was written, not ``anchors.rehearsal.weight``
                wrong = wrong.replace(".".join(path), name)
        raise SettingsError(wrong) from error
    except ValueError as error:  # of the short names
        raise SettingsError(str(error)) from error


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
        # Only ``eta`` is the weight of the divergence that DEFAULT names.
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
