"""Which settings of a recipe the engine that it names cannot have."""

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from dph.errors import SettingsError
from dph.recipe.engine_row import Row
from dph.recipe.keys import flat, pattern_of
from dph.recipe.schema import Recipe
from dph.recipe.trl_rows import TRL_ROWS
from dph.recipe.verl_rows import VERL_ROWS

ENGINE_ROWS: Mapping[str, Mapping[str, Row]] = MappingProxyType(
    {"trl": TRL_ROWS, "verl": VERL_ROWS}
)
"""For each engine but our own, what becomes of every setting."""


def require_engine_can(recipe: Recipe) -> None:
    """Refuse every setting that ``train.engine`` cannot have, all at once.

    Raises:
        SettingsError: names the settings, their values, why, and what can be done.
    """
    if refused := list(_refused(recipe)):
        raise SettingsError("; ".join(refused))


def _refused(recipe: Recipe) -> Iterator[str]:
    engine = recipe.train.engine
    rows = ENGINE_ROWS.get(engine)
    if rows is None:
        return
    for key, value in flat(_in_use(recipe)):
        row = rows.get(pattern_of(key))
        if row is not None and row.refuses(value):
            yield f"{key} = {value!r} cannot be had with train.engine = {engine!r}: {row.why}"


def _in_use(recipe: Recipe) -> dict[str, Any]:
    """The settings as JSON has them, without terms that weigh nothing."""
    table = recipe.model_dump(mode="json")
    objective = recipe.objective
    active: dict[str, Collection[str]] = {
        "penalties": objective.active_penalties,
        "anchors": objective.active_anchors,
    }
    for kind, terms in active.items():
        table["objective"][kind] = {
            name: term for name, term in table["objective"][kind].items() if name in terms
        }
    return table
