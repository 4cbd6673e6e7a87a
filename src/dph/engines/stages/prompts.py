"""The problems that another engine trains on, and how long their prompts are."""

from collections.abc import Sequence
from pathlib import Path

from dph.records import Problem
from dph.runs.layout import pool_directory
from dph.runs.pool_need import needs_pool
from dph.runs.presample.diagnosis import require_usable
from dph.runs.presample.pool import load_pool
from dph.runs.workbench import Workbench


def longest_prompt(bench: Workbench) -> int:
    """Tokens of the longest prompt of the training problems."""
    return max(len(bench.encode(problem)) for problem in bench.problems)


def problems_to_explore(bench: Workbench, directory: Path) -> Sequence[Problem]:
    """All problems, or those that pre-sampling left open, as ``train.problems`` says.

    Raises:
        PoolError: the pool is missing or damaged, or holds too little for the recipe.
    """
    recipe = bench.recipe
    if not needs_pool(recipe):
        return bench.problems
    path = pool_directory(recipe, directory)
    pool = load_pool(path)
    explores = recipe.train.problems == "exploration"
    require_usable(
        path,
        pool.manifest,
        rehearses=recipe.objective.rehearses_pool,
        explores=recipe.train.problems_per_step if explores else 0,
    )
    return pool.exploration if explores else bench.problems
