"""The options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

ROW_FILES = ".parquet, .jsonl or .csv, the last two also as .gz"
"""What files of rows are, for people; dph.files.rows has the names."""

RecipeArgument = Annotated[Path, typer.Argument(metavar="RECIPE", help="Recipe, a TOML file.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a setting; may be repeated."),
]
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
