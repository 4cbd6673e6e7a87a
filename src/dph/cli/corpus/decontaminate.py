"""``dph corpus decontaminate``: documents that hold parts of a test set go."""

from pathlib import Path
from typing import Annotated

import typer

from dph.cli.corpus.options import EngineOption, InputOption, OutOption, named_values, open_workers
from dph.cli.options import ROW_FILES, JsonOption, WorkersOption


def decontaminate(
    source: InputOption,
    out: OutOption,
    tests: Annotated[
        list[str],
        typer.Option(
            "--tests", metavar="NAME=FILE", help=f"A test set, {ROW_FILES}; may be repeated."
        ),
    ],
    entry_points: Annotated[
        bool,
        typer.Option(
            "--entry-points",
            help="Also drop what defines a function that a test asks for (for rows of questions "
            "and answers; common names hit much of any Python corpus).",
        ),
    ] = False,
    workers: WorkersOption = None,
    engine: EngineOption = "cores",
    as_json: JsonOption = False,
) -> None:
    """Drop documents that share 10 words in a row, a SQL query or a database with a test set.

    What each of them shared is in DIR/dropped, and counted.
    """
    from dph.cli.corpus.summary import print_corpus
    from dph.cli.display.progress import open_progress
    from dph.corpus.decontaminate.run import DEFAULT_CHECKS
    from dph.corpus.decontaminate.run import decontaminate as run_decontaminate
    from dph.corpus.decontaminate.test_sets import ENTRY_POINT
    from dph.corpus.opening import open_input

    sets = {name: Path(path) for name, path in named_values(tests, "--tests").items()}
    count = open_workers(engine, workers)
    checks = (*DEFAULT_CHECKS, ENTRY_POINT) if entry_points else DEFAULT_CHECKS
    corpus = open_input(source, out, workers=count)
    with open_progress().task("decontaminate", len(corpus.shards), "shards") as advance:
        kept = run_decontaminate(
            corpus, out, sets=sets, checks=checks, workers=count, on_progress=advance
        )
    print_corpus(kept, as_json=as_json)
