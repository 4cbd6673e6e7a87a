"""The verifiers of a recipe, without the parts that need torch."""

from collections.abc import Callable
from functools import partial

from dph.recipe import Recipe
from dph.tasks.verifiers import make_verifier
from dph.tasks.verifiers.base import Verifier


def verifier_maker(recipe: Recipe) -> Callable[[str], Verifier]:
    """Verifiers by name, with the recipe's databases, workers, time limit and own modules."""
    data = recipe.data
    return partial(
        make_verifier,
        databases=data.databases,
        workers=data.verifier_workers,
        timeout=data.verifier_timeout,
        modules=data.modules,
        **data.verifier_settings,
    )
