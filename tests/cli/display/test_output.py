import json

import pytest
from rich.table import Table

from dph.cli.display.output import json_text, table_text


def test_json_is_one_document_without_nan():
    assert json.loads(json_text({"ä": 1})) == {"ä": 1}
    with pytest.raises(ValueError, match="Out of range"):
        json_text(float("nan"))


def test_a_table_is_never_cut_to_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    table = Table(*(f"column {i}" for i in range(9)))
    table.add_row(*("0123456789" for _ in range(9)))
    assert table_text(table).count("0123456789") == 9


def test_names_are_printed_as_they_are():
    table = Table("run x[kl=0.1]", "[/data/x]")
    table.add_row("p[/data/y]", ":fire:")
    shown = table_text(table)
    assert all(name in shown for name in ("run x[kl=0.1]", "[/data/x]", "p[/data/y]", ":fire:"))


def test_lines_end_without_blanks():
    table = Table("a", "b", box=None)
    table.add_row("1", "")
    assert not any(line.endswith(" ") for line in table_text(table).splitlines())


def test_a_caption_is_not_wrapped_at_the_width_of_its_table():
    table = Table("a", caption="one line of several words")
    table.add_row("1")
    assert table_text(table).endswith("\n\none line of several words")
