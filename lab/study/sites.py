"""Sites of a study: small worlds, and recipes of the user."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dph._base.files import sha256
from dph.errors import SettingsError
from dph.recipe import (
    METHODS,
    STRENGTHS,
    Recipe,
    load_recipe,
    merged,
    recipe_digest,
    resolve_recipe,
)
from dph.recipe.keys import pattern_of
from dph.recipe.places import PLACES
from dph.recipe.section import flat, nested
from lab.study.settings import BudgetSettings, RecipeSettings, StudyFile, WorldSettings
from lab.worlds import UNLABELLED, World, WorldKind, world_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A world of a task, or a recipe; ``settings`` are dotted and hold for all runs.

    ``sets`` are the evaluation sets. ``recipe_hash`` stands for a recipe and the local
    files that it names, so that results on other data are other runs.
    """

    name: str
    sets: tuple[str, ...] = ()
    task: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    base_steps: int | None = None
    recipe: Path | None = None
    recipe_hash: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """A short hash of everything that a result on it depends on; not of where it lies."""
        return recipe_digest(
            {
                "task": self.task,
                "sizes": dict(sorted(self.sizes.items())),
                "base_steps": self.base_steps,
                "recipe": self.recipe_hash,
                "settings": dict(sorted(self.settings.items())),
            }
        )

    def usual_strength(self, method: str) -> float | None:
        """The world's own strength of a method, if there is one."""
        if self.task is None:
            return None
        return world_kind(self.task).strengths.get(method)

    def as_json(self) -> dict[str, Any]:
        """The site's data for a job."""
        return {
            "name": self.name,
            "task": self.task,
            "sizes": dict(self.sizes),
            "base_steps": self.base_steps,
            "recipe": None if self.recipe is None else str(self.recipe),
        }


def sites_of(file: StudyFile, beside: Path) -> tuple[Site, ...]:
    """The worlds and recipes of a study; recipes' paths start at the directory ``beside``."""
    common = dotted(file.settings, "settings")
    sites = [_world(world, common) for world in file.worlds]
    sites += [_recipe(recipe, common, beside) for recipe in file.recipes]
    names = [site.name for site in sites]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingsError(f"two worlds are called {twice[0]!r}; give one of them another name")
    return tuple(sites)


def dotted(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """A table's values by dotted key; both ``a.b = 1`` in quotes and nested tables are read."""
    values = dict(flat(table))
    for key, value in values.items():
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, bool | int | float | str) for part in parts):
            raise SettingsError(f"{where}.{key}: a setting is a plain value, got {value!r:.80}")
        if key in _OWN:
            raise SettingsError(f"{where}.{key} is the study's own: {_OWN[key]}")
    return values


_OWN = {
    "seed": "name seeds in [study]",
    "evaluate.seed": "it is the run's seed",
    "method": "name methods in [[methods]]",
    "name": "it is the run's",
    "train.learning_rate": "give learning_rate in [study] or learning_rates of a method",
    "train.steps": "give steps in [budget] or of a method",
    "presample.pool": "runs share the world's pool",
    "presample.seed": "it is the run's seed",
}


def overrides(values: Mapping[str, Any]) -> Iterator[str]:
    """Dotted values as ``--set`` takes them.

    >>> list(overrides({"train.eps": 1e-05, "data.styles": "sql"}))
    ['train.eps=1e-05', 'data.styles="sql"']
    """
    yield from (f"{key}={json.dumps(value)}" for key, value in values.items())


def made_sizes(kind: type[Any], sizes: Mapping[str, int]) -> Any:
    """The record of how many problems each set of a world holds; None where nothing is said."""
    known = [field.name for field in fields(kind)]
    for name in sizes:
        if name not in known:
            raise SettingsError(f"worlds.sizes: there is no {name!r}, only {', '.join(known)}")
    return kind(**sizes) if sizes else None


def _world(world: WorldSettings, common: Mapping[str, Any]) -> Site:
    kind = world_kind(world.task)
    made_sizes(kind.sizes, world.sizes)
    return Site(
        name=world.name or world.task,
        sets=kind.sets,
        task=world.task,
        sizes=world.sizes,
        base_steps=world.base_steps,
        settings={**common, **dotted(world.settings, "worlds.settings")},
    )


def _recipe(recipe: RecipeSettings, common: Mapping[str, Any], beside: Path) -> Site:
    path = beside / recipe.path
    settings = {**common, **dotted(recipe.settings, "recipes.settings")}
    loaded = load_recipe(path)
    # The recipe's file, and the local files that it and the study's settings name.
    values = {**dict(flat(loaded.model_dump(mode="json"))), **settings}
    return Site(
        name=recipe.name or loaded.name,
        sets=tuple(loaded.data.sets),
        recipe=path.resolve(),
        recipe_hash=recipe_digest({"recipe": sha256(path), **files_named(values)}),
        settings=settings,
    )


def files_named(values: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 of the local files that dotted settings name, by key."""
    texts = ((k, Path(v)) for k, v in values.items() if isinstance(v, str))
    named = ((key, place) for key, place in texts if pattern_of(key) in PLACES)
    return {key: sha256(place) for key, place in named if place.is_file()}


# The recipe of one run: a world's or the user's own, a method and one way of running it.


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Request of a run; plain values, so that it can be passed to another process.

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


THREADS = 1
"""CPU threads of torch: the models of worlds are too small for more, and weights depend on it."""
WORKERS = 2
"""Processes that grade; they decide nothing but time."""
ROWS_AT_ONCE = 1024
"""Answers that are decoded together where a world does not say; it decides time and memory."""


def world_tables(kind: WorldKind, world: World, method: str) -> dict[str, Any]:
    """A world's settings in the recipe of ``method``, with its prompts without labels for TTRL."""
    if "self_consistency" not in METHODS[method]:
        return kind.settings(world)
    prompts = {"self_consistency": {"file": str(world.problems_path(UNLABELLED))}}
    return merged(kind.settings(world), prompts)


def world_recipe(
    asked: RunRequest,
    world: Mapping[str, Mapping[str, Any]],
    budget: BudgetSettings,
    *,
    name: str,
    directory: Path,
    pool: Path,
    seed: int,
    device: str = "cpu",
) -> Recipe:
    """A run on a world whose tables are ``world``, with the base model in ``directory``."""
    usual = {"sampling": {"max_rows": ROWS_AT_ONCE, "cache_tokens": ROWS_AT_ONCE * 1024}}
    table: dict[str, Any] = {
        "name": name,
        "method": asked.method,
        "seed": seed,
        "model": {
            "path": str(directory / "base_model"),
            "threads": THREADS,
            "device": device,
            "attention": "eager",
        },
        "presample": {"pool": str(pool)},
        "data": {"verifier_workers": WORKERS},
        "train": {
            "steps": budget.steps,
            "problems_per_step": budget.problems_per_step,
            "samples_per_problem": 8,
            "rehearsal_per_step": budget.problems_per_step,
            "microbatch_tokens": 2048,
            "checkpoint_every": budget.checkpoint_every,
        },
        "evaluate": {
            "seed": seed,
            "samples": budget.samples,
            "k": [k for k in (1, 2, 4, 8, 16, 32) if k <= budget.samples],
        },
    }
    chosen = merged(merged(usual, world), table)
    return resolve_recipe(merged(chosen, nested(asked.dotted)))


def own_recipe(asked: RunRequest, path: Path, *, name: str, pool: Path, seed: int) -> Recipe:
    """A run of the user's recipe with this method; its evaluations take the run's seed too."""
    values = {
        "name": name,
        "method": asked.method,
        **asked.dotted,
        "evaluate.seed": seed,
        "presample.seed": seed,
        "presample.pool": str(pool.absolute()),
    }
    return load_recipe(path, overrides=list(overrides(values)), seed=seed)
