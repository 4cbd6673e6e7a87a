"""The options that several verbs of ``dph-corpus`` share."""

from dataclasses import MISSING, Field, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from dph.cli.display.output import json_text, open_progress, table_text
from dph.cli.options import FAILED, one_of
from dph.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.table import Table
    from rich.text import Text

    from dph_corpus.settings import SettingOption
    from dph_corpus.shards import Corpus, Flow, Passage


_PACKAGE = Path(__file__).parents[1]
RECIPES = (_PACKAGE / "shipped_recipes", _PACKAGE.parents[1] / "recipes")
"""In a wheel, and in a checkout or an unpacked source distribution."""

_COUNTS, _NAME = 12, 80
"""Counts that are printed, and characters of their names."""
_LANGUAGES = 12
"""Kinds of documents that are listed by themselves, those with most bytes."""


def print_corpus(corpus: "Corpus", *, as_json: bool) -> None:
    """Print the manifest, or tables of it."""
    from dph_corpus.remote import shown

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
        f"in {len(corpus.shards)} shards -> {shown(corpus.directory)}"
    )


def say_loss(corpus: "Corpus", *, as_json: bool, allowed: bool = False) -> None:
    """Say what a stage lost by damage; exit if that is more than it kept and not ``allowed``."""
    from dph_corpus.ingest.run import loss_of

    line, too_much = loss_of(corpus)
    if line:
        typer.echo(_shown(line), err=as_json)
    if too_much and not allowed:
        raise typer.Exit(FAILED)


def _listed(counts: "Mapping[str, int]") -> str:
    """The largest counts, in the order of their names, and how many others there are."""
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    more = [f"and {len(ranked) - _COUNTS} others"] if len(ranked) > _COUNTS else []
    names = [f"{_shown(name[:_NAME])} {counts[name]}" for name in sorted(ranked[:_COUNTS])]
    return ", ".join([*names, *more])


def _passages(flow: "Flow") -> "Table":
    table = table_of("type", "language", numbers=("documents", "kept", "MB", "kept MB", "share"))
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
    table = table_of("dropped for", numbers=("documents", "alone", "MB"), last="for example")
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


def table_of(*names: str, numbers: tuple[str, ...], last: str = "") -> "Table":
    """An empty table: columns of words, of numbers, and one more of words."""
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


def place_of(text: str) -> Path:
    """The path of a corpus that may lie in a store (``s3://bucket/prefix``)."""
    if "://" not in text or text.startswith("hf://datasets/"):  # rows of the Hub are ingested
        return Path(text)
    from dph_corpus.remote import placed

    try:
        return placed(text)
    except SettingsError as error:
        raise typer.BadParameter(str(error)) from error


def _of_this_machine(text: str) -> Path:
    if "://" in text and not text.startswith("hf://datasets/"):
        raise typer.BadParameter(
            f"must be a path of this machine, got {text}; ingest, licences, dedup, transform, "
            "filter, decontaminate and mix can write to a store"
        )
    return Path(text)


_INPUT = (
    "Directory written by a stage, rows: .jsonl (.gz, .zst), .parquet, .arrow, hf://datasets/NAME."
)
_OUT = "Directory to write; a killed run continues there."

InputOption = Annotated[
    Path, typer.Option("--input", metavar="PATH", parser=_of_this_machine, help=_INPUT)
]
OutOption = Annotated[
    Path, typer.Option("--out", metavar="DIR", parser=_of_this_machine, help=_OUT)
]
AnyInputOption = Annotated[
    Path,
    typer.Option(
        "--input",
        metavar="PATH|URL",
        parser=place_of,
        help=f"{_INPUT[:-1]}; or the URL of such a directory, s3://bucket/raw.",
    ),
]
AnyOutOption = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="DIR|URL",
        parser=place_of,
        help=f"{_OUT[:-1]}. At a URL such as s3://bucket/code, other machines can help: "
        "`dph-corpus work`.",
    ),
]
ShardsOption = Annotated[
    int | None,
    typer.Option(
        "--shards", min=1, metavar="N", help="Number of shards [default: one per 128 MB]."
    ),
]


def run_over_shards(
    name: str,
    source: Path,
    out: Path,
    run: "Callable[..., Corpus]",
    *,
    workers: int | None,
    as_json: bool,
) -> "Corpus":
    """Open the input of a verb, run its stage over all shards, and print what it made."""
    from dph.cli.grade import default_workers
    from dph_corpus.ingest.run import open_input

    number = workers or default_workers()
    corpus = open_input(source, out, workers=number)
    with open_progress().task(name, len(corpus.shards), "shards") as advance:
        made = run(corpus, out, workers=number, on_progress=advance)
    print_corpus(made, as_json=as_json)
    if corpus.directory.parent == out:  # it was ingested just now
        say_loss(corpus, as_json=as_json)
    say_loss(made, as_json=as_json)
    return made


def settings_options(
    kind: type[Any], after: "Mapping[str, Sequence[str]]" = MappingProxyType({})
) -> "Callable[[Callable[..., None]], Callable[..., None]]":
    """Give a verb an option for each field of its settings (``dph_corpus.settings``).

    The verb takes ``settings``, a ``kind``, and its own options. What is required comes first,
    else options of settings, but for those of the verb that come ``after`` one of these.
    """

    def decorate(verb: "Callable[..., None]") -> "Callable[..., None]":
        found = {name: _parameter(each) for name, each in _fields(kind).items()}
        given = signature(verb, eval_str=True).parameters
        own = {name: each for name, each in given.items() if name != "settings"}
        names = [(name, *after.get(name, ())) for name in found]
        order = dict.fromkeys([*(each for group in names for each in group), *own])
        parameters = [{**own, **found}[name].replace(kind=Parameter.KEYWORD_ONLY) for name in order]
        parameters.sort(key=lambda each: each.default is not Parameter.empty)

        @wraps(verb)
        def command(**values: Any) -> None:
            settings = kind(**{name: values.pop(name) for name in found})
            verb(settings=settings, **values)

        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def _fields(kind: type[Any]) -> dict[str, tuple["Field[Any]", Any]]:
    """The fields that are options, and their types."""
    hints = get_type_hints(kind)
    return {
        each.name: (each, hints[each.name]) for each in fields(kind) if "option" in each.metadata
    }


def _parameter(given: tuple["Field[Any]", Any]) -> Parameter:
    of_field, hint = given
    told: SettingOption = of_field.metadata["option"]
    info = typer.Option(
        told.flag or f"--{of_field.name.replace('_', '-')}",
        metavar=told.metavar or None,
        help=told.help,
        min=told.least,
        max=told.most,
        parser=_chooser(told.choices) if told.choices else None,
    )
    default = Parameter.empty if of_field.default is MISSING else of_field.default
    return Parameter(
        of_field.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, info]
    )


def _chooser(choices: "Sequence[str]") -> "Callable[[str], str]":
    def chosen(name: str) -> str:
        return one_of(name, choices)

    return chosen


def named_values(texts: "Sequence[str]", flag: str, *, empty: bool = False) -> dict[str, str]:
    """The values of an option that is given as NAME=VALUE, once for a name; ``empty`` ones too."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not (value or empty) or name in found:
            raise SettingsError(
                f"{flag} must be given once for each name, as NAME=VALUE; got {text!r}"
            )
        found[name] = value
    return found
