"""What a verb was asked for: a valid recipe and a directory that can be written."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dph.errors import DataError
from dph.runs.layout import run_directory
from dph.settings import Recipe, load_recipe

if TYPE_CHECKING:
    from dph.runs.set_problems import SetProblems


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A recipe and where its run lies."""

    recipe: Recipe
    directory: Path


def read_request(
    path: Path, *, overrides: Sequence[str] | None, seed: int | None, out: Path | None
) -> Request:
    """Read the recipe and check the directory; nothing is created.

    Raises:
        SettingsError: the recipe is missing or invalid.
        DataError: the directory cannot be written.
    """
    recipe = load_recipe(path, overrides=overrides or (), seed=seed)
    directory = run_directory(recipe, out)
    require_writable(directory)
    return Request(recipe=recipe, directory=directory)


def require_writable(directory: Path) -> None:
    """Check that ``directory`` is writable or could be created, without creating it.

    Raises:
        DataError: it is a file, lies under one, or may not be written.
    """
    ancestor = directory.absolute()
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise DataError(f"cannot write into the directory {directory}: {ancestor} is a file")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise DataError(f"cannot write into the directory {directory}: {ancestor} is read-only")


def read_sets(recipe: Recipe) -> "SetProblems":
    """Read every evaluation set, before hours of training.

    Raises:
        DataError: a set is missing, empty or malformed.
    """
    from dph.runs.set_problems import SetProblems

    return SetProblems(recipe).load_all()
