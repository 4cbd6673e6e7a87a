"""The smallest recipe, and overrides of it: ``resolved("method=dapo; sampling.max_tokens=2")``."""

import pytest

from dph.errors import SettingsError
from dph.recipe import resolve_recipe
from dph.recipe.section import put, read_override


def table_of(overrides="", **sections):
    table = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}, **sections}
    for each in filter(None, overrides.split(";")):
        put(table, *read_override(each))
    return table


def resolved(overrides="", **sections):
    return resolve_recipe(table_of(overrides, **sections))


def require_refused(message, overrides="", **sections):
    with pytest.raises(SettingsError, match=message):
        resolved(overrides, **sections)
