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
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, metavar="N", help="Worker processes [default: one per core]."),
]
