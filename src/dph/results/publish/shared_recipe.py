"""A recipe that may leave the machine: without the directories that things lie in."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from dph.recipe import Recipe, recipe_toml
from dph.recipe.keys import pattern_of
from dph.recipe.places import PLACES


def shared_recipe(recipe: Recipe) -> str:
    """The resolved recipe as TOML, with the last name of every path; names on the Hub stay."""
    return tomli_w.dumps(_shared(tomllib.loads(recipe_toml(recipe)), ""))


def _shared(table: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name: _value(value, f"{prefix}{name}") for name, value in table.items()}


def _value(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return _shared(value, f"{key}.")
    if pattern_of(key) not in PLACES:
        return value
    return [_last(one) for one in value] if isinstance(value, list) else _last(value)


def _last(path: str) -> str:
    return Path(path).name if Path(path).is_absolute() else path
