"""The options that several verbs of ``dph corpus`` share."""

from pathlib import Path
from typing import Annotated

import typer

InputOption = Annotated[
    Path,
    typer.Option(
        "--input",
        metavar="PATH",
        help="Directory that a stage made, or a file of documents: .jsonl (.gz, .zst), .parquet.",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="Directory to write; go on there after a kill."),
]
ShardsOption = Annotated[
    int | None,
    typer.Option("--shards", min=1, metavar="N", help="Shards [default: one per 128 MB]."),
]


def named_values(texts: list[str], flag: str) -> dict[str, str]:
    """The values of an option that is given as NAME=VALUE, once for a name.

    Raises:
        SettingsError: one has another form, or its name is there already.
    """
    from dph.errors import SettingsError

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not value or name in found:
            raise SettingsError(f"{flag} is given once for a name, as NAME=VALUE; got {text!r}")
        found[name] = value
    return found
