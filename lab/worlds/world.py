"""A world: problems, prompts without labels, and a base model that knows both.

A world is a small task of our own whose effects show on a CPU in minutes. Everything in it is drawn
from one seed.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

from dph._base.files import make_directory, read_json, sha256, write_json
from dph.errors import DataError, SettingsError
from dph.records import Problem

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


@dataclass(frozen=True, slots=True)
class PlacedWorld:
    """A ``World`` that is no more than its files."""

    directory: Path
    seed: int

    def problems_path(self, name: str) -> Path:
        """The file of a set."""
        return self.directory / f"{name}.jsonl"

    def build(
        self,
        made_from: Mapping[str, Any],
        draw: Callable[[], Mapping[str, Sequence[Problem]]],
        describe: Callable[[Mapping[str, Sequence[Problem]]], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        """Write the sets that are drawn, then the manifest; keep a whole world of the same.

        ``describe`` says of the sets what else the manifest holds.
        """
        from dph.tasks.problems import save_problems  # noqa: PLC0415 - it loads numpy

        if is_complete(self.directory, made_from):
            return
        problems = draw()
        make_directory(self.directory)
        for name, of_set in problems.items():
            save_problems(self.problems_path(name), of_set)
        hashes = {path.name: sha256(path) for path in map(self.problems_path, problems)}
        found = {**made_from, **describe(problems), "sha256": hashes}
        write_json(self.directory / MANIFEST, found)


class Build(Protocol):
    """Writes the world of a seed."""

    def __call__(self, directory: Path, *, seed: int, sizes: Any = None) -> Any:
        """Write the world into ``directory``; keep it if it is already there and whole.

        ``sizes`` is a record of how many problems each set holds [default: the kind's own].
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
        """Train the base model and save it; a finished one that was made from the same is kept."""
        ...


@dataclass(frozen=True, slots=True)
class ByPath:
    """A function by its import path, loaded when it is first called.

    >>> ByPath("math:hypot")(3, 4)
    5.0
    """

    path: str

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function."""
        return resolve_name(self.path)(*arguments, **named)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldKind:
    """A kind of world: a row of ``lab.worlds.table``.

    A kind is known without torch, so the functions that need more are a ``ByPath``.

    Attributes:
        summary: what is learnt on it, for the table of all worlds.
        sets: the evaluation sets, in the order in which ``settings`` has them: ``in_domain``,
            ``cross_domain`` and others.
        optimizer: the settings of AdamW that GRPO does best with on this world.
        strengths: how strong each method is where a study does not say; a method that is
            missing has the strength of its own table.
        base_steps: training steps of the base model.
        sizes: the dataclass of how many problems each set holds; a study makes it from a table.
        build: writes a world.
        train_base_model: makes its base model.
        settings: the world's tables of a recipe, whatever the method: data (with evaluation sets),
            sampling, presample, and ``train`` with ``optimizer``.
    """

    summary: str
    sets: tuple[str, ...]
    optimizer: Mapping[str, float]
    strengths: Mapping[str, float] = field(default_factory=dict)
    base_steps: int
    sizes: type[Any]
    build: Build
    train_base_model: TrainBaseModel
    settings: Callable[[Any], dict[str, dict[str, Any]]]


def require_sizes(sizes: Any, of: str = "problem") -> None:
    """Refuse an empty set; ``sizes`` is a record of how many problems each set holds."""
    for name in (each.name for each in fields(sizes)):
        if (size := getattr(sizes, name)) < 1:
            raise SettingsError(f"the set {name} needs at least 1 {of}, got {size}")


def fingerprint(world: World) -> str:
    """A hash over the whole world: that of its manifest, which holds all others."""
    return sha256(world.directory / MANIFEST)


def is_complete(directory: Path, made_from: Mapping[str, Any]) -> bool:
    """Whether a world that was made from the same lies in ``directory``, whole."""
    if not (directory / MANIFEST).exists():
        return False
    manifest = read_json(directory / MANIFEST)
    for name, wanted in made_from.items():
        if manifest.get(name) != wanted:
            raise DataError(
                f"{directory} holds a world with {name}={manifest.get(name)}, not {wanted}; "
                "choose another directory (--out) or remove it"
            )
    return all(
        (directory / name).is_file() and sha256(directory / name) == digest
        for name, digest in manifest["sha256"].items()
    )


# Near-duplicates of test questions: equal but for constants, and so answered by the same query.

_CONSTANT = re.compile(r"\b\d+\b|'[^']*'")


def without_constants(prompt: str) -> str:
    """A prompt with every number and every quoted text as one word.

    >>> without_constants("show fee of screening with turnout below 24 and site is 'Lima' ->")
    'show fee of screening with turnout below N and site is N ->'
    """
    return _CONSTANT.sub("N", prompt)
