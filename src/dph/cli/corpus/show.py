"""``dph corpus show``: what a stage kept and dropped."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.options import JsonOption


def show(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory that a stage made.")],
    as_json: JsonOption = False,
) -> None:
    """Print what a stage made: documents and bytes by kind, and what each reason dropped."""
    from dph.cli.corpus.summary import print_corpus
    from dph.corpus import open_corpus

    print_corpus(open_corpus(directory), as_json=as_json)
