"""Whether a run reads a pool, including for user-defined advantages."""

from dph.recipe import Recipe
from dph.recipe.terms import BASE_CORRECT


def reads_base_counts(recipe: Recipe) -> bool:
    """Whether the advantage reads how many answers of the initial policy were right.

    Raises:
        SettingsError: an advantage of one's own cannot be imported.
    """
    return BASE_CORRECT in recipe.objective.advantage_reads(recipe.data.modules)


def needs_pool(recipe: Recipe) -> bool:
    """Whether training reads a pool.

    Raises:
        SettingsError: an advantage of one's own cannot be imported.
    """
    return recipe.needs_pool or reads_base_counts(recipe)
