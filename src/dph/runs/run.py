"""A whole run from Python: what ``dph run`` does."""

import logging
from collections.abc import Sequence
from pathlib import Path

from dph.errors import SettingsError
from dph.model.hub import resolve_names
from dph.recipe import Recipe, load_recipe
from dph.runs.layout import run_directory
from dph.runs.pipeline import RunResult, run_stages
from dph.runs.progress import ProgressDisplay, Silent
from dph.runs.workbench import open_workbench

_LOG = logging.getLogger(__name__)


def run(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    seed: int | None = None,
    progress: ProgressDisplay | None = None,
) -> RunResult:
    """Pre-sample where the method needs it, train, and evaluate before and after.

    What is done in ``out`` is kept, so that a run that was stopped goes on. What the recipe names
    on the Hub is fetched first, and pinned.

    Args:
        recipe: a recipe, or the path of one.
        out: the run's directory; default: ``runs/<name>`` under the working directory.
        overrides: ``key=value`` as of ``--set``, for the path of a recipe.
        seed: of everything random, for the path of a recipe.
        progress: what shows how far it is; default: nothing does.

    Raises:
        SettingsError: the recipe is missing or invalid, or overrides are given beside a ``Recipe``.
        DphError: as the stages do.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(Path(recipe), overrides=overrides, seed=seed)
    elif overrides or seed is not None:
        raise SettingsError(
            "overrides and seed belong to the path of a recipe; change a Recipe before it is given"
        )
    directory = run_directory(recipe, Path(out) if out is not None else None)
    resolved = resolve_names(recipe, run=directory)
    for line in resolved.taken:
        _LOG.info("%s", line)
    with open_workbench(resolved.recipe) as bench:
        return run_stages(bench, directory, progress or Silent())
