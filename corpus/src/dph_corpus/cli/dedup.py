"""``dph-corpus dedup``: copies and near-copies go, the best file of a group stays."""

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from dph.cli.display.output import json_text, open_progress
from dph.cli.options import ROW_FILES, JsonOption, WorkersOption
from dph.errors import SettingsError
from dph_corpus.cli.options import (
    AnyInputOption,
    AnyOutOption,
    ShardsOption,
    named_values,
    place_of,
    print_corpus,
    run_over_shards,
)


def tokenize(
    source: AnyInputOption,
    out: AnyOutOption,
    tokenizer: Annotated[
        Path,
        typer.Option(
            "--tokenizer", metavar="DIR", help="Saved tokenizer, a directory with tokenizer.json."
        ),
    ],
    form: Annotated[
        Literal["megatron", "datatrove"],
        typer.Option(
            "--format", help="megatron: .bin and .idx; datatrove: .ds, which nanotron reads too."
        ),
    ] = "megatron",
    end: Annotated[
        str | None,
        typer.Option(
            "--end",
            metavar="TOKEN",
            help="Token after each document [default: the tokenizer's eos_token].",
        ),
    ] = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write token ids for other trainers.

    The files have the format of Megatron, or that of datatrove and nanotron: for every shard, its
    ids and an index of its documents. Documents keep their order, which is by hash. A special token
    that a text spells out is encoded as text.
    """
    from dph.cli.grade import default_workers
    from dph_corpus.ingest.run import open_input
    from dph_corpus.remote import shown
    from dph_corpus.token_shards import tokenize as write_tokens

    number = workers or default_workers()
    corpus = open_input(source, out, workers=number)
    with open_progress().task("tokenize", len(corpus.shards), "shards") as advance:
        made = write_tokens(
            corpus,
            out,
            tokenizer=tokenizer,
            form=form,
            end=end,
            workers=number,
            on_progress=advance,
        )
    if as_json:
        typer.echo(json_text(dict(made)))
        return
    typer.echo(
        f"tokenize: {made['documents']} documents, {made['tokens']} tokens of "
        f"{made['bytes_per_token']} bytes in {len(made['shards'])} shards -> {shown(out)}"
    )


_TOLD = 0.01
"""A part that is short of more than this share of what it was to have is told of in a line."""


def mix(
    out: AnyOutOption,
    parts: Annotated[
        list[str], typer.Option("--part", metavar="NAME=DIR", help="A corpus; may be repeated.")
    ],
    budget: Annotated[
        int, typer.Option("--budget", min=1, metavar="BYTES", help="Total bytes of text.")
    ],
    shares: Annotated[
        list[str] | None,
        typer.Option(
            "--share",
            metavar="NAME=WEIGHT",
            help="Share of each part; only ratios matter [default: OpenCoder's annealing "
            "mixture, code 83.94, algorithmic 12.44, synthetic 2.71, textbook 0.91].",
        ),
    ] = None,
    caps: Annotated[
        list[str] | None,
        typer.Option("--cap", metavar="LANGUAGE=BYTES", help="Maximum size of a language."),
    ] = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write one corpus with a share of each input.

    The share of each part is a uniform sample; documents that do not fit into the rest of the share
    are skipped. If a part is too small, its shortfall is reported and not filled from other parts.
    """
    from dph.cli.grade import default_workers
    from dph_corpus.mix import ANNEALING, Mixture
    from dph_corpus.mix import mix as run_mix
    from dph_corpus.shards import open_corpus

    mixture = Mixture(
        budget=budget,
        shares=_numbers(shares, "--share") if shares else ANNEALING,
        caps={name: int(value) for name, value in _numbers(caps or [], "--cap").items()},
    )
    corpora = {
        name: open_corpus(place_of(path)) for name, path in named_values(parts, "--part").items()
    }
    with open_progress().task("mix", len(corpora), "parts") as advance:
        mixed = run_mix(corpora, out, mixture=mixture, workers=workers or default_workers())
        advance(len(corpora), "")
    print_corpus(mixed, as_json=as_json)
    for name, quota in mixture.quotas().items():
        short = mixed.manifest.flow.counts[f"short {name}"]
        if not as_json and short > _TOLD * quota:
            typer.echo(f"short: {name} has {(quota - short) / 1e6:.2f} of {quota / 1e6:.2f} MB")
    for language, cap in mixture.caps.items():
        if not as_json and cap and mixed.manifest.flow.counts.get(f"taken {language}") == 0:
            typer.echo(f"cap: nothing in {language} was taken")


def _numbers(texts: list[str], flag: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in named_values(texts, flag).items():
        try:
            found[name] = float(value)
            if not math.isfinite(found[name]):
                raise ValueError(value)
        except ValueError as error:
            raise SettingsError(f"{flag} {name} must be a number, got {value!r}") from error
    return found


def decontaminate(
    source: AnyInputOption,
    out: AnyOutOption,
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
            help="Also drop documents that define a function that a test asks for (for rows of "
            "questions and answers; common names match much of any Python corpus).",
        ),
    ] = False,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop documents that share text with a test set.

    Shared text is 10 words in a row, 20 characters of a script without blanks, a shorter item as a
    whole (from 7 words or 14 characters on), a SQL query or the name of a database. DIR/dropped has
    what each document shared, and the counts. The last line says how many items are too short.
    """
    from dph_corpus.decontaminate import DEFAULT_CHECKS, ENTRY_POINT, TOO_SHORT
    from dph_corpus.decontaminate import decontaminate as run_decontaminate

    sets = {name: Path(path) for name, path in named_values(tests, "--tests").items()}
    checks = (*DEFAULT_CHECKS, ENTRY_POINT) if entry_points else DEFAULT_CHECKS
    run = partial(run_decontaminate, sets=sets, checks=checks)
    made = run_over_shards("decontaminate", source, out, run, workers=workers, as_json=as_json)
    for name, (short, items) in made.manifest.history[-1]["settings"][TOO_SHORT].items():
        line = f"{name}: {short} of {items} items are too short to be found by their text"
        typer.echo(line, err=as_json)


def dedup(
    source: AnyInputOption,
    out: AnyOutOption,
    preset: Annotated[
        str,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="opencoder: 16 bands of 128 MinHashes; loose: 14 of 8, and exact similarity to "
            "the kept file; exact: only exact copies.",
        ),
    ] = "opencoder",
    least_jaccard: Annotated[
        float | None,
        typer.Option(
            "--least-jaccard",
            metavar="J",
            help="Drop a near-copy only if its exact similarity to a kept file is at least this "
            "[default: 0.7 for loose, else unchecked].",
        ),
    ] = None,
    shards: ShardsOption = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop copies and near-copies of documents.

    Copies are found by SHA-256, near-copies by MinHash over runs of 5 words. Of a group, the file
    with most stars is kept; ties go to the one committed last, then to the smallest id.
    """
    from dph_corpus.dedup.run import dedup as run_dedup
    from dph_corpus.settings import preset as named

    run = partial(run_dedup, nearness=named(preset, least_jaccard), shards=shards)
    run_over_shards("dedup", source, out, run, workers=workers, as_json=as_json)
