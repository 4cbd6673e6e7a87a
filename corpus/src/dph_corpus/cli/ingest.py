"""``dph-corpus ingest``: files, wherever they lie, to documents."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dph.cli.display.output import open_progress
from dph.cli.options import JsonOption, WorkersOption
from dph_corpus.cli.options import (
    AnyInputOption,
    AnyOutOption,
    ShardsOption,
    named_values,
    print_corpus,
    run_over_shards,
    say_loss,
)


def transform(
    source: AnyInputOption,
    out: AnyOutOption,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove copyright notices, and mask private data.

    Notices at the top of a file are removed. E-mail addresses, public IP addresses, keys and
    passwords become <email>, <ip>, <key> and <password>; changes.parquet has their numbers in each
    document.
    """
    from dph_corpus.stage_run import run_stage
    from dph_corpus.transform.cleaning import transform_spec

    run = partial(run_stage, transform_spec())
    run_over_shards("transform", source, out, run, workers=workers, as_json=as_json)


def licences(
    source: AnyInputOption,
    out: AnyOutOption,
    allow: Annotated[
        str,
        typer.Option(
            "--allow",
            metavar="NAMES",
            help="Kinds of licences (permissive, public-domain, copyleft-limited, copyleft, ...) "
            "or SPDX identifiers, separated by commas.",
        ),
    ] = "permissive,public-domain",
    aliases: Annotated[
        list[str] | None,
        typer.Option(
            "--alias",
            metavar="TEXT=SPDX",
            help="Meaning of a text that is not SPDX; may be repeated.",
        ),
    ] = None,
    keep_unstated: Annotated[
        bool, typer.Option("--keep-unstated", help="Keep documents that state no licence.")
    ] = False,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep documents whose licence is allowed.

    Licences are SPDX expressions: `A OR B` needs one allowed licence, `A AND B` needs both. Names
    that can mean only one licence, such as "MIT License", are read too, and written as SPDX.
    Documents are dropped for licence, unknown (not an expression) or unstated; the manifest counts
    licences.
    """
    from dph_corpus.licences import licence_spec
    from dph_corpus.stage_run import run_stage

    names = [name.strip() for name in allow.split(",") if name.strip()]
    spec = licence_spec(names, named_values(aliases or (), "--alias"), keep_unstated=keep_unstated)
    run = partial(run_stage, spec)
    run_over_shards("licences", source, out, run, workers=workers, as_json=as_json)


def ingest(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]PATH",
            help="Directories, git repositories, archives (.tar.gz, .zip, ...), and files: .jsonl "
            "(.gz, .zst), .parquet, .arrow, .warc (.gz, .zst). Or rows on the Hub, "
            "hf://datasets/OWNER/NAME, and if needed @REVISION and ?config=NAME&split=NAME.",
        ),
    ],
    out: AnyOutOption,
    about: Annotated[
        Path | None,
        typer.Option(
            "--about",
            metavar="FILE",
            help="Facts about the inputs: rows of source (its name), and repo, stars, commit_time, "
            "licence, url, natural_language where known.",
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="FIELD=NAME",
            help="Column of the rows that holds a field; may be repeated (text=code).",
        ),
    ] = None,
    allow_loss: Annotated[
        bool,
        typer.Option("--allow-loss", help="End with 0 even if more is damaged than could be read."),
    ] = False,
    shards: ShardsOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read files and write them as a corpus.

    Each document has its language, type and origin. Links and files that are binary, oversized
    (over 8 MB), undecodable or broken are counted by reason and listed in skipped.parquet. The last
    line says how much was lost; if that is more than was read, the exit code is 1.
    """
    from dph.cli.grade import default_workers
    from dph_corpus.ingest.reading import column_choices
    from dph_corpus.ingest.run import ingest as run_ingest
    from dph_corpus.ingest.sources import plan

    chosen = column_choices(columns or ())
    units = plan(inputs, about=about, columns=chosen, out=out)
    with open_progress().task("ingest", len(units), "parts of inputs") as advance:
        corpus = run_ingest(
            units, out, shards=shards, workers=workers or default_workers(), on_progress=advance
        )
    print_corpus(corpus, as_json=as_json)
    say_loss(corpus, as_json=as_json, allowed=allow_loss)
