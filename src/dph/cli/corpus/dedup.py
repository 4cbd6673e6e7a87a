"""``dph corpus dedup``: copies and near-copies go, the best file of a group stays."""

from typing import Annotated

import typer

from dph.cli.corpus.options import EngineOption, InputOption, OutOption, ShardsOption, open_workers
from dph.cli.options import JsonOption, WorkersOption


def dedup(
    source: InputOption,
    out: OutOption,
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="opencoder: 16 bands of 128 MinHashes; loose: 14 of 8, and exact similarity to "
            "the kept file; exact: copies alone.",
        ),
    ] = "opencoder",
    least_jaccard: Annotated[
        float | None,
        typer.Option(
            "--least-jaccard",
            metavar="J",
            help="Drop a near-copy only if its exact similarity to a kept file is at least this "
            "[default: 0.7 for loose, else not looked at].",
        ),
    ] = None,
    shards: ShardsOption = None,
    workers: WorkersOption = None,
    engine: EngineOption = "cores",
    as_json: JsonOption = False,
) -> None:
    """Drop copies (SHA-256) and near-copies (MinHash over 5 words in a row).

    Of a group the file with most stars stays, then the one committed last, then the smallest id.
    """
    from dph.cli.corpus.summary import print_corpus
    from dph.cli.display.progress import open_progress
    from dph.corpus.dedup.presets import preset as named
    from dph.corpus.dedup.run import dedup as run_dedup
    from dph.corpus.opening import open_input

    nearness = named(preset, least_jaccard)
    count = open_workers(engine, workers)
    corpus = open_input(source, out, workers=count)
    with open_progress().task("dedup", len(corpus.shards), "shards") as advance:
        kept = run_dedup(
            corpus, out, nearness=nearness, shards=shards, workers=count, on_progress=advance
        )
    print_corpus(kept, as_json=as_json)
