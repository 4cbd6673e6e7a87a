"""The options that several verbs share."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

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
