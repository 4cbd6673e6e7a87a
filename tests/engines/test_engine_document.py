"""The table of docs/engines.md is that of the code; DPH_WRITE_DOCS=1 writes it anew."""

import os
from pathlib import Path

from dph.recipe.engines import engine_settings
from dph.recipe.keys import known_keys

DOCUMENT = Path(__file__).parents[2] / "docs" / "engines.md"
BEGIN = "<!-- engine settings: written by tests/engines/test_engine_document.py -->\n"
END = "<!-- end of engine settings -->"


def cell(row):
    text = f"`{row.key}`" if row.kind == "engine" else row.key
    if row.kind == "other":
        return f"not read: of {row.key}"
    if row.only == ():
        return "refused"
    if row.only is not None:
        return f"{text}; only {', '.join(f'`{value!r}`' for value in row.only)}"
    return text + "".join(f"; not `{value!r}`" for value in row.never)


def table():
    lines = ["| setting | TRL | verl |", "|---|---|---|"]
    for key, _ in known_keys():
        cells = [cell(engine_settings(engine)[key]) for engine in ("trl", "verl")]
        lines.append(f"| `{key}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def parts():
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
    written, end, after = rest.partition(END)
    return before, written, end + after


def test_the_document_says_what_becomes_of_every_setting():
    before, _, after = parts()
    if os.environ.get("DPH_WRITE_DOCS"):
        DOCUMENT.write_text(before + BEGIN + table() + after, encoding="utf-8")
    assert parts()[1] == table()
