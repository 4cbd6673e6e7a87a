"""The prompts of a forecast: labelled ones, and some of those to consolidate on."""

from dataclasses import dataclass
from pathlib import Path

from dph.errors import DataError
from dph.recipe import Recipe, StoreSettings
from dph.recipe.stores import PromptFileSettings
from dph.records import Problem
from dph.runs.during_training import some_problems
from dph.runs.plan import RunPlan
from dph.runs.presample.stores.prompts import require_no_tests, same_prompts, store_prompts
from dph.runs.store_stage import known_problems
from dph.tasks.problems import load_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The prompts of a forecast.

    Attributes:
        where: what the labelled ones are, for people.
        labelled: some problems with gold answers, none of an evaluation set.
        unlabelled: some of the prompts to consolidate on.
        planned: how many of those there are.
    """

    where: str
    labelled: tuple[Problem, ...]
    unlabelled: tuple[Problem, ...]
    planned: int


def prompts_asked(plan: RunPlan, *, prompts: int, labelled: Path | None) -> Asked:
    """Prompts of a forecast: a function of the files, the numbers and the recipe's seed.

    Raises:
        DataError: a file is missing or malformed, has questions of an evaluation set, or no
            training problem is left that is none.
    """
    name, store = only_store(plan.recipe)
    seed, known = plan.stores[name].seed, known_problems(plan)
    tests = [problem for problems in known.sets.values() for problem in problems]
    if labelled is None:
        where = "training problems"
        taken = {problem.problem_id for problem in same_prompts(plan.problems, tests)}
        rows = [problem for problem in plan.problems if problem.problem_id not in taken]
        if not rows:
            raise DataError(
                f"all {len(taken)} training problems also belong to an evaluation set, which a "
                f"forecast does not use: name a file of other problems (--labelled FILE)"
            )
    else:
        where = f"problems of {labelled}"
        rows = load_problems(labelled, columns=plan.recipe.data.columns)
        require_no_tests("--labelled", rows, PromptFileSettings(), known)
    planned = store_prompts(f"stores.{name}", store, known, seed=seed)
    return Asked(
        where=where,
        labelled=some_problems(rows, name="forecast, labelled", count=prompts, seed=seed),
        unlabelled=some_problems(planned, name="forecast", count=prompts, seed=seed),
        planned=len(planned),
    )


def only_store(recipe: Recipe) -> tuple[str, StoreSettings]:
    """The store of a consolidation's recipe, and its name."""
    ((name, store),) = recipe.used_stores.items()
    return name, store
