"""The recipe of one run: a world's or the user's own, a method and one way of running it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dph.lab.quickstart.recipes import Contender, Size, quickstart_recipe
from dph.lab.study.sites import overrides
from dph.recipe import STRENGTHS, Recipe, load_recipe
from dph.recipe.keys import nested


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a run is asked to be; plain values, so that another process can be told.

    ``settings`` are dotted and win over the world's and the method's; None leaves it to them.
    """

    method: str
    strength: float | None = None
    learning_rate: float | None = None
    steps: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def dotted(self) -> dict[str, Any]:
        """All of it but the method, as settings of a recipe."""
        values = dict(self.settings)
        key = STRENGTHS[self.method]
        if key is not None and self.strength is not None:
            values[key] = self.strength
        if self.learning_rate is not None:
            values["train.learning_rate"] = self.learning_rate
        if self.steps is not None:
            values["train.steps"] = self.steps
        return values


def world_recipe(
    asked: Asked,
    world: Mapping[str, Mapping[str, Any]],
    size: Size,
    *,
    name: str,
    directory: Path,
    pool: Path,
    seed: int,
) -> Recipe:
    """A run on a world whose tables are ``world``, with the base model that lies in ``directory``.

    Raises:
        SettingsError: a setting is unknown, of the wrong type or out of range.
    """
    return quickstart_recipe(
        Contender(name, asked.method, None),
        world,
        base_model=directory / "base_model",
        pool=pool,
        seed=seed,
        size=size,
        settings=nested(asked.dotted),
    )


def own_recipe(asked: Asked, path: Path, *, name: str, pool: Path, seed: int) -> Recipe:
    """A run of the user's recipe with this method; its evaluations take the run's seed too.

    Raises:
        SettingsError: as of ``load_recipe``.
    """
    values = {
        "name": name,
        "method": asked.method,
        **asked.dotted,
        "evaluate.seed": seed,
        "presample.seed": seed,
        "presample.pool": str(pool.absolute()),
    }
    return load_recipe(path, overrides=list(overrides(values)), seed=seed)
