"""Functions that check, pre-sample and train: this package's own, or those of another engine.

The others are named by their import paths, because they lie above this package and are loaded
where a recipe asks for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from dph._base.import_path import load_callable
from dph.recipe import Recipe
from dph.recipe.section import Engine
from dph.runs.presample.manifest import Manifest
from dph.runs.progress import ProgressDisplay
from dph.runs.train.preparation import Trained
from dph.runs.workbench import Workbench


class Check(Protocol):
    """Refuses what the engine cannot do, before anything is written."""

    def __call__(self, bench: Workbench) -> None:
        """Raise DphError where the engine is missing or cannot have the recipe."""
        ...


class Presample(Protocol):
    """Makes the pool, or takes the one that is there."""

    def __call__(
        self,
        bench: Workbench,
        directory: Path,
        progress: ProgressDisplay,
        *,
        may_split_again: bool = True,
    ) -> Manifest:
        """Return the pool's manifest."""
        ...


class Train(Protocol):
    """Trains, or continues where a run was stopped."""

    def __call__(
        self,
        bench: Workbench,
        directory: Path,
        progress: ProgressDisplay,
        *,
        digest: str | None = None,
    ) -> Trained:
        """Return where the checkpoint is."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages that an engine does in its own way."""

    check: Check
    presample: Presample
    train: Train


_OWN = {
    "check": "dph.runs.engines:nothing_to_check",
    "presample": "dph.runs.presampling_stage:presample_stage",
    "train": "dph.runs.training_stage:train_stage",
}
_PATHS: Mapping[Engine, Mapping[str, str]] = MappingProxyType(
    {
        "own": _OWN,
        "trl": {
            "check": "dph.engines.stages.trl_stage:check",
            "presample": _OWN["presample"],
            "train": "dph.engines.stages.trl_stage:train_stage",
        },
        "verl": {
            "check": "dph.engines.stages.verl_stage:check",
            "presample": "dph.engines.stages.verl_stage:presample_stage",
            "train": "dph.engines.stages.verl_stage:train_stage",
        },
    }
)


def stages_of(recipe: Recipe) -> Stages:
    """The stages of the engine that ``train.engine`` names."""
    return Stages(**{name: load_callable(p) for name, p in _PATHS[recipe.train.engine].items()})


def nothing_to_check(bench: Workbench) -> None:
    """Our own engine can do whatever a recipe can say."""
