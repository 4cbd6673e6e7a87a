"""``dph corpus explain``: every stage's verdict on one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dph.cli.options import JsonOption

if TYPE_CHECKING:
    from dph.corpus.explaining import StageWord


def explain(
    document_id: Annotated[str, typer.Argument(metavar="ID", help="Of the document.")],
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Directories of stages, or one that holds those of several."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Print what each stage made of one document: kept, changed or dropped, and every verdict."""
    from dph.cli.display.output import json_text
    from dph.corpus.explaining import explain as explain_document

    words = explain_document(document_id, directories)
    if as_json:
        typer.echo(json_text({"id": document_id, "stages": [_content(word) for word in words]}))
        return
    for word in words:
        typer.echo(f"{word.stage} ({word.directory}): {_outcome(word)}")
        for name, rows in word.rows.items():
            typer.echo(_indented(_table(name, rows)))


def _outcome(word: "StageWord") -> str:
    from dph.corpus.explaining import text_digest

    if word.kept is not None:
        kind = f"{word.kept.doc_type}, {word.kept.language or 'language unknown'}"
        digest = text_digest(word.kept.text)
        return f"kept ({kind}, {word.kept.bytes} bytes, sha256 {digest}...)"
    if word.dropped is None:
        return "never saw it"
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

    from dph.cli.display.output import table_text

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


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n"))


def _content(word: "StageWord") -> dict[str, Any]:
    from dph.corpus.explaining import text_digest

    kept = word.kept
    return {
        "stage": word.stage,
        "directory": str(word.directory),
        "kept": None if kept is None else {**kept.row(), "text": text_digest(kept.text)},
        "dropped": dict(word.dropped) if word.dropped else None,
        "rows": {name: list(rows) for name, rows in word.rows.items()},
    }
