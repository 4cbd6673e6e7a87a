"""A method on a world, run in one way: what its runs of all seeds have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dph.errors import SettingsError
from dph.lab.quickstart.recipes import Size
from dph.lab.study.candidates import Candidate
from dph.lab.study.recipes import Asked, own_recipe, world_recipe
from dph.lab.study.settings import BASE, BudgetSettings, MethodSettings
from dph.lab.study.sites import Site, dotted
from dph.lab.worlds.optimizers import WORLD_OPTIMIZERS
from dph.recipe import METHODS, Recipe, recipe_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Plain values of a run, whatever its seed; the base model is a variant without training.

    ``learning_rate`` and ``steps`` are what the recipe says in the end, ``k`` those of Pass@k.
    ``pool`` is the name of the store of pre-sampled answers that it reads, one of those that lie
    beside the base model.
    """

    site: Site
    asked: Asked | None
    interpolate: float | None
    learning_rate: float | None
    steps: int
    pool: str | None
    training: str
    """A short hash of what decides the trained weights; variants that share it share a run."""
    k: tuple[int, ...] = ()

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
        return self.training_id(seed) + weight

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
        """The variant of a method's candidate.

        Raises:
            SettingsError: a setting is unknown, of the wrong type or out of range.
        """
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
        asked = Asked(
            method=method.name,
            strength=candidate.strength,
            learning_rate=candidate.learning_rate,
            steps=method.steps if method.steps is not None else self._steps(site),
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
                },
            ),
        )

    def _checked(self, site: Site, method: MethodSettings, asked: Asked) -> Recipe:
        try:
            if site.recipe is not None:
                return own_recipe(asked, site.recipe, name="run", pool=Path("pool"), seed=0)
            size = size_of(self._budget)
            here = Path()
            return world_recipe(
                asked,
                _unbuilt(site),
                size,
                name="run",
                directory=here,
                pool=here / "pool",
                seed=0,
            )
        except SettingsError as error:
            raise SettingsError(f"{method.label!r} on {site.name}: {error}") from error

    def _steps(self, site: Site) -> int | None:
        return self._budget.steps if site.recipe is None else None

    def _evaluation(self, site: Site) -> dict[str, Any]:
        """What else every result on a world depends on."""
        if site.recipe is not None:
            return {}
        return self._budget.model_dump(include={"samples", "problems_per_step"})


def _unbuilt(site: Site) -> dict[str, dict[str, Any]]:
    """Enough of a world to check a method's settings, without loading it, which loads torch."""
    assert site.task is not None
    assert site.edition is not None
    sets = {name: f"{name}.jsonl" for name in site.sets}
    return {
        "data": {"train": "train.jsonl", "sets": sets},
        "train": dict(WORLD_OPTIMIZERS[site.task, site.edition]),
    }


def size_of(budget: BudgetSettings) -> Size:
    """The budget as the quickstart knows it."""
    return Size(
        steps=budget.steps,
        problems_per_step=budget.problems_per_step,
        samples=budget.samples,
        checkpoint_every=budget.checkpoint_every,
    )


def pool_name(presample: Mapping[str, Any]) -> str:
    """The directory of a pool: another one for each way of pre-sampling.

    >>> pool_name({}), pool_name({"presample.samples": 4})[:5]
    ('pool', 'pool-')
    """
    return f"pool-{recipe_digest(dict(sorted(presample.items())))[:8]}" if presample else "pool"
