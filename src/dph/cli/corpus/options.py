"""The options that several verbs of ``dph corpus`` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dph.cli.display.output import json_text, table_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.table import Table
    from rich.text import Text

    from dph.corpus.shards import Corpus, Flow, Passage
    from dph.corpus.tasks import Workers


# What a stage did, for people or as JSON: the last thing that each verb prints.

_COUNTS, _NAME = 12, 80
"""Counts that are printed, and characters of their names."""
_LANGUAGES = 12
"""Kinds of documents that are listed by themselves, those with most bytes."""


def print_corpus(corpus: "Corpus", *, as_json: bool) -> None:
    """Print the manifest, or tables of it."""
    manifest = corpus.manifest
    if as_json:
        typer.echo(json_text(manifest.json()))
        return
    flow = manifest.flow
    typer.echo(table_text(_passages(flow)))
    if flow.reasons:
        typer.echo("\n" + table_text(_reasons(flow)))
    for title, counts in (("counted", flow.counts), ("never documents", flow.skipped)):
        if counts:
            typer.echo(f"\n{title}: {_listed(counts)}")
    total = flow.total()
    typer.echo(
        f"\n{manifest.stage}: kept {total.kept_documents} of {total.documents} documents, "
        f"{total.kept_bytes / 1e6:.2f} of {total.bytes / 1e6:.2f} MB "
        f"in {len(corpus.shards)} shards -> {corpus.directory}"
    )


def _listed(counts: "Mapping[str, int]") -> str:
    """The largest counts, in the order of their names, and how many others there are."""
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    more = [f"and {len(ranked) - _COUNTS} others"] if len(ranked) > _COUNTS else []
    names = [f"{_shown(name[:_NAME])} {counts[name]}" for name in sorted(ranked[:_COUNTS])]
    return ", ".join([*names, *more])


def _passages(flow: "Flow") -> "Table":
    table = _table("type", "language", numbers=("documents", "kept", "MB", "kept MB", "share"))
    ranked = sorted(flow.passages.items(), key=lambda item: (-item[1].bytes, item[0]))
    for (doc_type, language), passage in ranked[:_LANGUAGES]:
        table.add_row(str(doc_type), language or "-", *_numbers(passage))
    if rest := ranked[_LANGUAGES:]:
        others = type(rest[0][1])()
        for _, passage in rest:
            others.add(passage)
        table.add_row(f"{len(rest)} more", "", *_numbers(others))
    return table


def _numbers(passage: "Passage") -> list[str]:
    share = passage.kept_bytes / passage.bytes if passage.bytes else 0.0
    return [
        str(passage.documents),
        str(passage.kept_documents),
        f"{passage.bytes / 1e6:.2f}",
        f"{passage.kept_bytes / 1e6:.2f}",
        f"{share:.1%}",
    ]


def _reasons(flow: "Flow") -> "Table":
    table = _table("dropped for", numbers=("documents", "alone", "MB"), last="for example")
    ranked = sorted(flow.reasons.items(), key=lambda item: (-item[1].documents, item[0]))
    for name, reason in ranked:
        example = reason.examples[0] if reason.examples else ""
        table.add_row(
            name,
            str(reason.documents),
            str(reason.solo),
            f"{reason.bytes / 1e6:.2f}",
            _shown(example),
        )
    return table


def _shown(name: str) -> "Text":
    """An id as it is, unless a terminal would take parts of it for commands."""
    from rich.text import Text

    return Text(name if name.isprintable() else ascii(name))


def _table(*names: str, numbers: tuple[str, ...], last: str = "") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right")
    if last:
        table.add_column(last)
    return table


InputOption = Annotated[
    Path,
    typer.Option(
        "--input",
        metavar="PATH",
        help="Directory written by a stage, or a file of documents: .jsonl (.gz, .zst), .parquet.",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", help="Directory to write; a killed run continues there."),
]
ShardsOption = Annotated[
    int | None,
    typer.Option(
        "--shards", min=1, metavar="N", help="Number of shards [default: one per 128 MB]."
    ),
]

EngineOption = Annotated[
    Literal["cores", "ray"],
    typer.Option(
        "--engine",
        help="Place to process shards: processes here, or --workers tasks of a Ray cluster "
        "[default: its CPUs], which must see the same directories.",
    ),
]


def open_workers(engine: str, workers: int | None) -> "Workers":
    """Workers for the shards; a Ray cluster is that of RAY_ADDRESS, or a new one.

    Raises:
        SettingsError: Ray is not installed.
    """
    if engine == "ray":
        from dph._processes.jobs.cores import RayJobs, connected_ray
        from dph.corpus.tasks import do_task

        return RayJobs(workers, connected_ray(), do_task)
    from dph.cli.grade_run import default_workers

    return workers or default_workers()


def named_values(texts: "Sequence[str]", flag: str, *, empty: bool = False) -> dict[str, str]:
    """The values of an option that is given as NAME=VALUE, once for a name; ``empty`` ones too.

    Raises:
        SettingsError: one has another form, or its name is there already.
    """
    from dph.errors import SettingsError

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not (value or empty) or name in found:
            raise SettingsError(
                f"{flag} must be given once for each name, as NAME=VALUE; got {text!r}"
            )
        found[name] = value
    return found
