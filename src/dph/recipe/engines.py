"""The engines that a recipe can name, and which of its settings each of them refuses.

The engines stand above recipes, and a recipe is checked without torch or verl. So an entry
names the parts of an engine by import path, only in this table. A test holds every path to the
name that it leads to, and the wings that they lead to against ``[tool.dph.arrows]``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

from dph.errors import SettingsError
from dph.recipe.keys import pattern_of
from dph.recipe.schema import Recipe
from dph.recipe.section import Engine, flat


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The values of a setting that an engine does not support, as in JSON; by default none.

    With ``only`` it supports no other value, with ``never`` any but these; ``why`` ends the
    sentence that refuses one.
    """

    only: tuple[Any, ...] | None = None
    never: tuple[Any, ...] = ()
    why: str = ""

    def refuses(self, value: Any) -> bool:
        return value in self.never or (self.only is not None and value not in self.only)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEntry:
    """Import paths of the parts of an engine.

    Attributes:
        settings: the table with a ``Row`` for each setting of a recipe; '' for our own engine,
            which has all of them.
        check: the function that refuses a run before anything is written; '' where nothing is.
        presample: the stage that makes the pool.
        train: the training stage.
        memory: the estimate of the memory of training and sampling.
    """

    settings: str = ""
    check: str = ""
    memory: str = "dph.runs.memory:estimate"
    presample: str = "dph.runs.presampling_stage:presample_stage"
    train: str


ENGINES: Mapping[Engine, EngineEntry] = MappingProxyType(
    {
        "own": EngineEntry(train="dph.runs.training_stage:train_stage"),
        "verl": EngineEntry(
            settings="dph.engines.verl_rows:VERL_ROWS",
            memory="dph.engines.stages.memory:estimate_per_gpu",
            check="dph.engines.stages.verl_stage:check",
            presample="dph.engines.stages.verl_stage:presample_stage",
            train="dph.engines.stages.verl_stage:train_stage",
        ),
    }
)
"""Every engine by its name in ``train.engine``."""


def engine_settings(engine: Engine) -> Mapping[str, Row]:
    path = ENGINES[engine].settings
    rows: Mapping[str, Row] = resolve_name(path) if path else {}
    return rows


def require_engine_can(recipe: Recipe) -> None:
    """Refuse every setting that ``train.engine`` cannot have, all at once."""
    engine = recipe.train.engine
    if not (rows := engine_settings(engine)):
        return
    table = recipe.model_dump(mode="json")
    for kind in ("penalties", "anchors"):  # those that weigh nothing are not in use
        active = getattr(recipe.objective, f"active_{kind}")
        table["objective"][kind] = {name: table["objective"][kind][name] for name in active}
    if refused := [
        f"{key} = {value!r} is not possible with train.engine = {engine!r}: {row.why}"
        for key, value in flat(table)
        if (row := rows.get(pattern_of(key))) is not None and row.refuses(value)
    ]:
        raise SettingsError("; ".join(refused))
