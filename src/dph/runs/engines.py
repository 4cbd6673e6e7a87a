"""Functions that check, pre-sample and train: this package's own, or those of another engine.

``dph.recipe.engines`` names them by import path, because the others lie above this package; they
are loaded where a recipe asks for them.
"""

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Protocol

from dph.recipe import Recipe
from dph.recipe.engines import ENGINES
from dph.runs.plan import RunPlan
from dph.runs.presample.manifest import Manifest
from dph.runs.progress import ProgressDisplay
from dph.runs.train.preparation import Trained


class Check(Protocol):
    """Refuses what the engine cannot do, before anything is written."""

    def __call__(self, plan: RunPlan) -> None:
        """Raise DphError where the engine is missing or cannot have the recipe."""
        ...


class Presample(Protocol):
    """Makes the pool, or takes the one that is there."""

    def __call__(
        self,
        plan: RunPlan,
        progress: ProgressDisplay,
        *,
        may_split_again: bool = True,
    ) -> Manifest:
        """Return the pool's manifest."""
        ...


class Train(Protocol):
    """Trains, or continues where a run was stopped."""

    def __call__(self, plan: RunPlan, progress: ProgressDisplay) -> Trained:
        """Return where the checkpoint is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages that an engine does in its own way."""

    check: Check
    presample: Presample
    train: Train


def stages_of(recipe: Recipe) -> Stages:
    """The stages of the engine that ``train.engine`` names."""
    row = ENGINES[recipe.train.engine]
    return Stages(
        check=resolve_name(row.check),
        presample=resolve_name(row.presample),
        train=resolve_name(row.train),
    )


def nothing_to_check(plan: RunPlan) -> None:
    """Our own engine can do whatever a recipe can say."""
