"""The options that several verbs share."""

import errno
import os
import sys
import tomllib
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dph.errors import DataError, DphError, SettingsError, is_bad_input
from dph.model.hub import resolve_names
from dph.recipe import Recipe, load_recipe
from dph.recipe.overrides import read_override
from dph.runs.layout import run_directory

# From an error to one line on stderr and an exit code.

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130

_OUTSIDE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
}
"""What the system refuses through no fault of ours: a full disk, a directory without rights, a
file where a directory should be."""

_USAGE_ERROR = typer.BadParameter.__mro__[1]
"""click's UsageError, wherever this version of typer keeps it."""


def exit_code(error: BaseException) -> int:
    """Say what went wrong and return the exit code: 2 bad input, 1 failed, 130 interrupted.

    Only an error that nobody foresaw is shown with its traceback.
    """
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return say_interrupted()
    if isinstance(error, _USAGE_ERROR):
        return _usage(error)
    if isinstance(error, DphError):
        _say(str(error))
        return BAD_INPUT if is_bad_input(error) else FAILED
    if isinstance(error, OSError) and error.errno in _OUTSIDE:
        place = f": {error.filename}" if error.filename else ""
        _say(f"{os.strerror(error.errno)}{place}; what was finished is kept")
        return FAILED
    traceback.print_exception(error, file=sys.stderr)
    _say(f"unexpected {type(error).__name__}: {error}; the traceback is above")
    return FAILED


def say_interrupted() -> int:
    """Say how to go on, and return the exit code."""
    where = "the same command goes on where it stopped (grade: with --resume)"
    print(f"dph: interrupted; {where}", file=sys.stderr)  # noqa: T201
    return INTERRUPTED


def say_errors(messages: Sequence[str]) -> None:
    """Say everything that is wrong, a line each."""
    for message in messages:
        _say(message)


def _usage(error: BaseException) -> int:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # `dph` alone: its message is the help itself
        print(context.get_help() if context else error, file=sys.stderr)  # noqa: T201
        return BAD_INPUT
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    hint = f" (see `{context.command_path} --help`)" if context else ""
    _say(f"{message}{hint}")
    return BAD_INPUT


def _say(message: str) -> None:
    print("dph: error:", " ".join(message.split()), file=sys.stderr)  # noqa: T201


# What a verb was asked for: a valid recipe and a directory that can be written.


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A recipe, all of whose names on the Hub have their commits, and where its run lies."""

    recipe: Recipe
    directory: Path
    taken: tuple[str, ...] = ()
    """What was taken from where, where a name could mean two places."""

    def require_sets(self) -> None:
        """Refuse an evaluation of nothing.

        Raises:
            SettingsError: the recipe names no evaluation set.
        """
        if not self.recipe.data.sets:
            raise SettingsError("there is nothing to evaluate on: name a set in [data.sets]")

    def say_what_was_taken(self) -> None:
        """On stderr, a line each, once nothing is refused any more."""
        for line in self.taken:
            print(f"dph: {line}", file=sys.stderr)  # noqa: T201


def read_request(
    path: Path, *, overrides: Sequence[str] | None, seed: int | None, out: Path | None
) -> Request:
    """Read the recipe, check the directory, and fetch what is named on the Hub.

    Nothing is created but files in the Hub's cache.

    Raises:
        SettingsError: the recipe is missing or invalid.
        DataError: the directory cannot be written, or a file of problems cannot be fetched.
        ModelError: the model cannot be fetched.
    """
    recipe = load_recipe(path, overrides=overrides or (), seed=seed)
    directory = run_directory(recipe, out)
    require_writable(directory)
    resolved = resolve_names(recipe, run=directory, written=_model_as_written(path, overrides))
    return Request(recipe=resolved.recipe, directory=directory, taken=resolved.taken)


def _model_as_written(path: Path, overrides: Sequence[str] | None) -> str | None:
    """``model.path`` before it was made absolute."""
    for override in map(read_override, reversed(overrides or ())):
        if override.key == "model.path":
            return str(override.value)
    model = tomllib.loads(path.read_text(encoding="utf-8")).get("model", {})
    return str(model["path"]) if "path" in model else None


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


ROW_FILES = ".parquet, .jsonl or .csv, the last two also as .gz"
"""What files of rows are, for people; dph._base.files.rows has the names."""

RecipeArgument = Annotated[Path, typer.Argument(metavar="RECIPE", help="Recipe, a TOML file.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated."),
]
SetNamesOption = Annotated[
    list[str] | None,
    typer.Option("--set-name", metavar="NAME", help="Only this set; may be repeated."),
]
OlderSetOption = Annotated[list[str] | None, typer.Option("--set", hidden=True)]
"""Of verbs without a recipe, which had it for a name of a set (``renamed_set``)."""
SeedOption = Annotated[
    int | None, typer.Option("--seed", min=0, metavar="N", help="Override the recipe's seed.")
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Run directory [default: runs/<name>]."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document; progress goes to stderr.")
]
AcceptVerifierOption = Annotated[
    bool,
    typer.Option(
        "--accept-verifier", help="Go on though the verifier's file changed since the run began."
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, metavar="N", help="Worker processes [default: one per core]."),
]


def one_of(name: str, known: Collection[str]) -> str:
    """The name, if it is known: for options whose names are loaded when the command runs.

    Raises:
        typer.BadParameter: it is not; the message has those that are.
    """
    if name not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
    return name


def renamed_set(older: list[str] | None, given: list[str] | None, *, now: str) -> list[str] | None:
    """The names of ``given``, and those of ``--set``, which had another meaning here once.

    Said on stderr: ``--set`` overrides a setting of a recipe, everywhere.
    """
    if not older:
        return given
    typer.echo(f"dph: --set NAME is {now} NAME now; --set KEY=VALUE overrides a setting", err=True)
    return [*(given or ()), *older]
