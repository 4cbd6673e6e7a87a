"""A world: problems, prompts without labels, and a base model that knows both.

A world is a small task of our own whose effects show on a CPU in minutes. Everything in it is drawn
from one seed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any, Protocol

from dph._base.files import read_json, sha256
from dph.errors import DataError, SettingsError
from dph.lab.worlds.correlations import CORRELATIONS

# The optimizer of each world: settings of AdamW that GRPO does best with on it (docs/study.md).

FAST: Mapping[str, float] = MappingProxyType({"learning_rate": 5e-4})
"""With which the figures of the first text-to-SQL world were made."""
GENTLE: Mapping[str, float] = MappingProxyType({"learning_rate": 2e-4, "eps": 1e-5})
GENTLER: Mapping[str, float] = MappingProxyType({"learning_rate": 1e-4, "eps": 1e-5})

WORLD_OPTIMIZERS: Mapping[tuple[str, int], Mapping[str, float]] = MappingProxyType(
    {
        ("sql", 1): FAST,
        ("sql", 2): GENTLE,
        ("countdown", 1): GENTLER,
        **{(task, 1): GENTLE for task in CORRELATIONS},
    }
)
"""By task and edition. A world's ``settings`` have the same."""


MANIFEST = "world.json"
UNLABELLED = "unlabelled"
"""The set of prompts without answers; ``part`` of each row is one of ``PARTS``."""
PARTS = ("trained", "others")
"""Prompts about the domain that RL trains, and prompts about the others."""

Progress = Callable[[int], None]
"""Called with the number of steps done since the last call."""


class World(Protocol):
    """A world whose files lie in a directory."""

    @property
    def directory(self) -> Path:
        """Directory of its files."""
        ...

    @property
    def seed(self) -> int:
        """Seed of all draws."""
        ...

    def problems_path(self, name: str) -> Path:
        """The file of a set: ``train``, ``unlabelled``, or one of the evaluation sets."""
        ...


class Build(Protocol):
    """Writes the world of a seed."""

    def __call__(self, directory: Path, *, seed: int, sizes: Any = None) -> Any:
        """Write the world into ``directory``; keep it if it is already there and whole.

        ``sizes`` is a record of how many problems each set holds [default: the kind's own].

        Raises:
            DataError: ``directory`` holds another world or cannot be written.
        """
        ...


class TrainBaseModel(Protocol):
    """Makes the base model of a world."""

    def __call__(
        self,
        world: Any,
        directory: Path,
        *,
        seed: int,
        steps: int,
        on_progress: Progress | None = None,
    ) -> None:
        """Train the base model and save it; a finished one that was made from the same is kept.

        Raises:
            ModelError: ``directory`` holds something else.
            SettingsError: ``steps`` is below 1.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldKind:
    """Kind of worlds: a row of ``WORLDS``, one for each edition.

    Attributes:
        base_steps: training steps that its base model needs.
        sizes: the dataclass of how many problems each set holds; a study makes it from a table.
        build: writes a world.
        train_base_model: makes its base model.
        settings: the world's tables of a recipe: data (with evaluation sets), sampling, presample.
        tiny: sizes of the smallest world on which methods have something to do, where one is known.
        tiny_steps: training steps after which its base model is right now and then.
        unlabelled: which rows of its unlabelled prompts methods take, as ``only`` of a store
            [default: all].
    """

    base_steps: int
    sizes: type[Any]
    build: Build
    train_base_model: TrainBaseModel
    settings: Callable[[Any], dict[str, dict[str, Any]]]
    tiny: Any = None
    tiny_steps: int = 0
    unlabelled: Mapping[str, Any] = field(default_factory=dict)


def fingerprint(world: World) -> str:
    """A hash over the whole world: that of its manifest, which holds all others."""
    return sha256(world.directory / MANIFEST)


def is_complete(directory: Path, made_from: Mapping[str, Any]) -> bool:
    """Whether a world that was made from the same lies in ``directory``, whole.

    Raises:
        DataError: another world lies there.
    """
    if not (directory / MANIFEST).exists():
        return False
    manifest = read_json(directory / MANIFEST)
    for name, wanted in made_from.items():
        if manifest.get(name) != wanted:
            raise DataError(
                f"{directory} holds a world with {name}={manifest.get(name)}, not {wanted}; "
                "choose another directory or remove it"
            )
    return all(
        (directory / name).is_file() and sha256(directory / name) == digest
        for name, digest in manifest["sha256"].items()
    )


# Which worlds there are: one row for each task and edition.

# The evaluation sets of each world, known without loading it.

_BOTH = ("in_domain", "cross_domain")

WORLD_SETS: Mapping[tuple[str, int], tuple[str, ...]] = MappingProxyType(
    {
        ("sql", 1): (*_BOTH, "arithmetic"),
        ("sql", 2): (*_BOTH, "arithmetic"),
        ("countdown", 1): _BOTH,
        **{(task, 1): (*_BOTH, "arithmetic") for task in CORRELATIONS},
    }
)
"""By task and edition. A world's ``settings`` have the same, in this order."""


WORLDS: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "sql": MappingProxyType(
            {
                1: "dph.lab.worlds.sql.first_edition:FIRST_EDITION",
                2: "dph.lab.worlds.sql.second_edition:SECOND_EDITION",
            }
        ),
        "countdown": MappingProxyType({1: "dph.lab.worlds.countdown.base_model:COUNTDOWN"}),
        "sql-hostile-0": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_0"}),
        "sql-hostile-0.25": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_25"}),
        "sql-hostile-0.5": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_50"}),
        "sql-hostile-0.75": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_75"}),
        "sql-hostile-1": MappingProxyType({1: "dph.lab.worlds.sql.hostile_edition:HOSTILE_100"}),
    }
)
"""By task and edition, where its ``WorldKind`` is. The newest edition is the usual one."""


def newest_edition(task: str) -> int:
    """The edition that is meant where none is named.

    Raises:
        SettingsError: there is no such task.
    """
    if task not in WORLDS:
        raise SettingsError(f"there is no task {task!r}; choose one of {', '.join(WORLDS)}")
    return max(WORLDS[task])


def world_kind(task: str, edition: int | None = None) -> WorldKind:
    """Kind of worlds of a task.

    Raises:
        SettingsError: there is no such task or edition.
    """
    edition = edition or newest_edition(task)
    newest_edition(task)
    if edition not in WORLDS[task]:
        known = ", ".join(map(str, WORLDS[task]))
        raise SettingsError(f"the task {task!r} has no world {edition}; it has: {known}")
    kind: WorldKind = resolve_name(WORLDS[task][edition])
    return kind
