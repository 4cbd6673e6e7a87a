"""The request of a verb: a valid recipe, and a directory that can be written."""

import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dph.cli.display.output import quiet_libraries
from dph.errors import DataError
from dph.model.hub import resolve_names
from dph.recipe import Recipe, load_recipe
from dph.recipe.section import read_override
from dph.runs.directory import RunDirectory

if TYPE_CHECKING:
    from dph.runs.job import RunJob
    from dph.runs.prepare import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A recipe, all of whose names on the Hub have their commits, and where its run lies."""

    recipe: Recipe
    directory: Path
    taken: tuple[str, ...] = ()
    """Note of the place that was taken, for a name that could mean two."""

    @property
    def pool(self) -> Path:
        return RunDirectory(self.directory).pool(self.recipe)

    @contextmanager
    def prepared(self, stage: "Stage", *, accept_verifier: bool = False) -> Iterator["RunJob"]:
        """``prepare`` of the request; what was taken is said once nothing is refused any more."""
        quiet_libraries()
        from dph.runs.prepare import prepare

        with prepare(
            self.recipe, self.directory, stage=stage, accept_verifier=accept_verifier
        ) as job:
            for line in self.taken:
                print(f"dph: {line}", file=sys.stderr)  # noqa: T201
            yield job


def read_request(
    path: Path, *, overrides: Sequence[str] | None, seed: int | None, out: Path | None
) -> Request:
    """Read the recipe, check the directory, and fetch what is named on the Hub.

    Nothing is created but files in the Hub's cache.
    """
    recipe = load_recipe(path, overrides=overrides or (), seed=seed)
    directory = RunDirectory.of(recipe, out).path
    require_writable(directory)
    # model.path as it was written, before it was made absolute
    model = tomllib.loads(path.read_text(encoding="utf-8")).get("model", {})
    given = map(read_override, overrides or ())
    models = [model.get("path"), *(value for key, value in given if key == "model.path")]
    written = None if models[-1] is None else str(models[-1])
    resolved = resolve_names(recipe, run=directory, written=written)
    return Request(recipe=resolved.recipe, directory=directory, taken=resolved.taken)


def require_writable(directory: Path) -> None:
    """Check that ``directory`` is writable or could be created, without creating it."""
    ancestor = directory.absolute()
    while not ancestor.exists() and ancestor != ancestor.parent:
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise DataError(f"cannot write into the directory {directory}: {ancestor} is a file")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise DataError(f"cannot write into the directory {directory}: {ancestor} is read-only")
