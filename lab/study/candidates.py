"""Candidates of a method: every combination of its strengths, learning rates and weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from dph.recipe import METHODS, Recipe, recipe_digest
from lab.study.settings import BASE, BudgetSettings, MethodSettings, StudyFile
from lab.study.sites import RunRequest, Site, dotted, files_named, own_recipe, world_recipe
from lab.worlds import world_kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One way of running a method; None leaves it to the method, the recipe or the world."""

    strength: float | None = None
    learning_rate: float | None = None
    interpolate: float | None = None

    @property
    def firmness(self) -> tuple[float, float, float]:
        """Larger for what stays closer to the base model: a strength, a weight, a step."""
        return (
            self.strength or 0.0,
            -(1.0 if self.interpolate is None else self.interpolate),
            -(self.learning_rate or 0.0),
        )


def candidates_of(
    method: MethodSettings,
    file: StudyFile,
    *,
    chosen: Mapping[str, Candidate],
    usual_strength: float | None,
) -> tuple[Candidate, ...] | None:
    """Candidates of ``method``; None while a method that it follows has not been chosen.

    ``chosen`` are the choices that were made on this world, by label; ``usual_strength`` is the
    method's strength where neither a grid nor another method says it.
    """
    strengths: tuple[float | None, ...] = method.strengths or (usual_strength,)
    rates: tuple[float | None, ...] = method.learning_rates or (file.study.learning_rate,)
    if method.strength_of is not None:
        if method.strength_of not in chosen:
            return None
        strengths = (chosen[method.strength_of].strength,)
    if method.learning_rates is None and (label := rate_follows(method, file)) is not None:
        if label not in chosen:
            return None
        rates = (chosen[label].learning_rate,)
    weights: tuple[float | None, ...] = method.interpolate or (None,)
    return tuple(
        Candidate(strength=s, learning_rate=r, interpolate=w)
        for s, r, w in product(strengths, rates, weights)
    )


def rate_follows(method: MethodSettings, file: StudyFile) -> str | None:
    """The label of the method whose learning rate this one takes."""
    if method.learning_rates is not None:
        return None
    if method.learning_rate_of is not None:
        return method.learning_rate_of
    common = file.study.learning_rate_of
    return None if common == method.label else common


def number_of_candidates(method: MethodSettings) -> int:
    """Number of candidates, known before anything is chosen."""
    grids = (method.strengths, method.learning_rates, method.interpolate)
    return prod(len(grid) for grid in grids if grid is not None)


def is_developed(method: MethodSettings) -> bool:
    """Whether it is run on development seeds: not where all of it is another method's choice."""
    follows = method.strength_of is not None or method.learning_rate_of is not None
    return number_of_candidates(method) > 1 or not follows


def require_no_circle(file: StudyFile) -> None:
    """Refuse methods that wait for each other."""
    by_label = {method.label: method for method in file.methods}
    for start in file.methods:
        waiting, seen = [start.label], list[str]()
        while waiting:
            label = waiting.pop()
            if label in seen and label == start.label:
                raise SettingsError(
                    f"{start.label!r} depends on its own choice, through "
                    f"{', '.join(map(repr, seen))}"
                )
            if label in seen:
                continue
            seen.append(label)
            method = by_label[label]
            followed = (method.strength_of, rate_follows(method, file))
            waiting += [name for name in followed if name is not None]


# A method on a world, run in one way: what its runs of all seeds have in common.


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Plain values of a run, whatever its seed; the base model is a variant without training.

    ``learning_rate`` and ``steps`` are what the recipe says in the end, ``k`` those of Pass@k.
    ``pool`` is the name of the store of pre-sampled answers that it reads, one of those that lie
    beside the base model.
    """

    site: Site
    asked: RunRequest | None
    interpolate: float | None
    learning_rate: float | None
    steps: int
    pool: str | None
    training: str
    """A short hash of what decides the trained weights; variants that share it share a run."""
    k: tuple[int, ...] = ()
    step: int | None = None
    """Of the checkpoint that takes the base model's place in an interpolation."""
    layers: tuple[int, int] | None = None
    """First and end of the layers that are interpolated; None: all weights are."""

    @property
    def method(self) -> str:
        """The name of the method, or ``base``."""
        return BASE if self.asked is None else self.asked.method

    @property
    def strength(self) -> float | None:
        """As it was asked for."""
        return None if self.asked is None else self.asked.strength

    def training_id(self, seed: int) -> str:
        """The name of the run's directory: weights that are trained once."""
        return f"{self.site.name}.s{seed}.{self._words()}.{self.training}"

    def run_id(self, seed: int) -> str:
        """The name of the run's results. The same in every clone of the study."""
        weight = "" if self.interpolate is None else f".x{self.interpolate:g}"
        start = "" if self.step is None else f".from{self.step}"
        layers = "" if self.layers is None else ".layers{}-{}".format(*self.layers)
        return self.training_id(seed) + weight + start + layers

    def _words(self) -> str:
        if self.asked is None:
            return BASE
        strength = "" if self.strength is None else f"_{self.strength:g}"
        return f"{self.method}{strength}.lr{self.learning_rate:g}.n{self.steps}"


class Variants:
    """Makes variants of a study, each once; a bad setting is found here."""

    def __init__(self, budget: BudgetSettings) -> None:
        self._budget = budget
        self._made: dict[tuple[str, str, Candidate], Variant] = {}

    def of(self, site: Site, method: MethodSettings, candidate: Candidate) -> Variant:
        """The variant of a method's candidate."""
        key = (site.name, method.label, candidate)
        if key not in self._made:
            self._made[key] = self._make(site, method, candidate)
        return self._made[key]

    def base(self, site: Site) -> Variant:
        """The initial policy."""
        return Variant(
            site=site,
            asked=None,
            interpolate=None,
            learning_rate=None,
            steps=0,
            pool=None,
            training=recipe_digest(site.identity, self._evaluation(site)),
        )

    def _make(self, site: Site, method: MethodSettings, candidate: Candidate) -> Variant:
        own = dotted(method.settings, f"methods.{method.label}.settings")
        own_steps = self._budget.steps if site.recipe is None else None
        asked = RunRequest(
            method=method.name,
            strength=candidate.strength,
            learning_rate=candidate.learning_rate,
            steps=own_steps if method.steps is None else method.steps,
            settings={**site.settings, **own},
        )
        recipe = self._checked(site, method, asked)
        presample = {k: v for k, v in asked.settings.items() if k.startswith("presample.")}
        return Variant(
            site=site,
            asked=asked,
            interpolate=candidate.interpolate,
            learning_rate=recipe.train.learning_rate,
            steps=recipe.train.steps,
            k=recipe.evaluate.k,
            step=method.interpolate_from,
            layers=method.interpolate_layers,
            pool=pool_name(presample) if recipe.needs_pool else None,
            training=recipe_digest(
                site.identity,
                self._evaluation(site),
                {
                    "method": {method.name: METHODS[method.name]},
                    "strength": candidate.strength,
                    "learning_rate": recipe.train.learning_rate,
                    "eps": recipe.train.eps,
                    "steps": recipe.train.steps,
                    "settings": dict(sorted(asked.settings.items())),
                    **files_named(asked.settings),
                },
            ),
        )

    def _checked(self, site: Site, method: MethodSettings, asked: RunRequest) -> Recipe:
        try:
            if site.recipe is not None:
                return own_recipe(asked, site.recipe, name="run", pool=Path("pool"), seed=0)
            here = Path()
            return world_recipe(
                asked,
                _unbuilt(site),
                self._budget,
                name="run",
                directory=here,
                pool=here / "pool",
                seed=0,
            )
        except SettingsError as error:
            raise SettingsError(f"{method.label!r} on {site.name}: {error}") from error

    def _evaluation(self, site: Site) -> dict[str, Any]:
        """Other inputs of every result on a world."""
        if site.recipe is not None:
            return {}
        inputs = {"samples", "problems_per_step", "score_every"}
        return self._budget.model_dump(include=inputs, exclude_none=True)


def _unbuilt(site: Site) -> dict[str, dict[str, Any]]:
    """Enough of a world to check a method's settings without building it."""
    assert site.task is not None
    sets = {name: f"{name}.jsonl" for name in site.sets}
    return {
        "data": {"train": "train.jsonl", "sets": sets},
        "train": dict(world_kind(site.task).optimizer),
    }


def pool_name(presample: Mapping[str, Any]) -> str:
    """The directory of a pool: another one for each way of pre-sampling.

    >>> pool_name({}), pool_name({"presample.samples": 4})[:5]
    ('pool', 'pool-')
    """
    return f"pool-{recipe_digest(dict(sorted(presample.items())))[:8]}" if presample else "pool"
