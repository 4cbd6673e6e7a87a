"""``dph-corpus filter``: drop documents by the rules of a preset."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.display.output import json_text, table_text
from dph.cli.options import JsonOption, WorkersOption, one_of
from dph_corpus.cli.options import (
    AnyInputOption,
    AnyOutOption,
    named_values,
    place_of,
    print_corpus,
    run_over_shards,
)

if TYPE_CHECKING:
    from dph_corpus.explaining import StageWord


def show(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR|URL", parser=place_of, help="Directory written by a stage."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Print what a stage made and what each reason dropped.

    Counts are in documents and bytes, by kind.
    """
    from dph_corpus import open_corpus

    print_corpus(open_corpus(directory), as_json=as_json)


def explain(
    document_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the document.")],
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR|URL",
            parser=place_of,
            help="Directories of stages, or a parent directory of several.",
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Print what each stage made of one document.

    It prints whether the document was kept, changed or dropped, and every verdict.
    """
    from dph_corpus.explaining import explain as explain_document
    from dph_corpus.explaining import text_digest
    from dph_corpus.remote import shown

    words = explain_document(document_id, directories)
    if as_json:
        stages = [
            {
                "stage": word.stage,
                "directory": shown(word.directory),
                "kept": word.kept and {**word.kept.row(), "text": text_digest(word.kept.text)},
                "dropped": dict(word.dropped) if word.dropped else None,
                "rows": {name: list(rows) for name, rows in word.rows.items()},
            }
            for word in words
        ]
        typer.echo(json_text({"id": document_id, "stages": stages}))
        return
    for word in words:
        typer.echo(f"{word.stage} ({shown(word.directory)}): {_outcome(word)}")
        for name, rows in word.rows.items():
            lines = _table(name, rows).split("\n")
            typer.echo("\n".join(f"  {line}".rstrip() for line in lines))


def _outcome(word: "StageWord") -> str:
    from dph_corpus.explaining import text_digest

    if word.kept is not None:
        kind = f"{word.kept.doc_type}, {word.kept.language or 'language unknown'}"
        digest = text_digest(word.kept.text)
        return f"kept ({kind}, {word.kept.bytes} bytes, sha256 {digest}...)"
    if word.dropped is None:
        return "did not see it"
    facts = [
        f"{name} {word.dropped[name]}"
        for name in ("value", "threshold", "kept_id", "note")
        if word.dropped[name] not in (None, "")
    ]
    others = [reason for reason in word.dropped["reasons"] if reason != word.dropped["reason"]]
    facts += [f"also {', '.join(others)}"] if others else []
    return f"dropped for {word.dropped['reason']}" + (f" ({'; '.join(facts)})" if facts else "")


def _table(name: str, rows: Any) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    columns = [column for column in rows[0] if column != "id"]
    table = Table(*columns, title=name, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_shown(row[column])) for column in columns))
    return table_text(table)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else ascii(value).strip("'")


def _preset(name: str) -> str:
    from dph_corpus.rules.presets import PRESETS

    return name if name.endswith(".toml") else one_of(name, PRESETS)


PresetOption = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="NAME|FILE",
        parser=_preset,
        help="opencoder (as released), fixed (with its errors corrected), sql (fixed, plus rules "
        "for SQL), or a file of your thresholds and rules that ends in .toml; `dph-corpus rules` "
        "lists them.",
    ),
]


def filter_documents(
    source: AnyInputOption,
    out: AnyOutOption,
    preset: PresetOption = "fixed",
    thresholds: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="RULE[.KIND]=CONDITION",
            help="Drop by another condition, '> 0.5' or '< 2 or > 10'; '' disables the rule. May "
            "be repeated.",
        ),
    ] = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Drop documents by rules on their text.

    Every rule's verdict and every signal is written: verdicts.parquet has a row for each rule that
    applies to a document (id, kind, rule, value, threshold, fires, thinned, drops), and
    signals.parquet has the values of each document. `dph-corpus tune` shows both.
    """
    from dph_corpus.rules.stage import filter_spec
    from dph_corpus.stage_run import run_stage

    spec = filter_spec(preset, named_values(thresholds or (), "--threshold", empty=True))
    run = partial(run_stage, spec)
    run_over_shards("filter", source, out, run, workers=workers, as_json=as_json)


def rules(
    preset: PresetOption = "fixed",
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/corpus-rules.md, all presets.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List a preset's rules.

    The list has the condition and the purpose of each rule, and names rules that can never fire.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from dph_corpus.rules.own import open_preset
    from dph_corpus.rules.presets import rules_document

    if markdown:
        typer.echo(rules_document(), nl=False)
        return
    found = open_preset(preset)
    if as_json:
        rows = [
            {**asdict(rule), "conditions": {k: c.text for k, c in rule.conditions.items()}}
            for rule in found.rules.values()
        ]
        typer.echo(json_text({"preset": preset, "rules": rows, "left_out": dict(found.left_out)}))
        return
    table = Table("rule", "drops", "catches", box=SIMPLE_HEAD, pad_edge=False)
    for rule in found.rules.values():
        notes = [f"never fires: {rule.dead}"] if rule.dead else []
        notes += ["drops 4 of 5 of them"] if rule.thinned else []
        table.add_row(rule.name, rule.thresholds(), "; ".join([rule.catches, *notes]))
    typer.echo(table_text(table))
    for name, reason in found.left_out.items():
        typer.echo(f"\nleft out: {name}: {reason}")
