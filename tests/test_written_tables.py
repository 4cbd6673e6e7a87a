"""The tables of docs/ that are written from rows of the package are what the rows say."""

import importlib
import shutil
import sys
from pathlib import Path

import pytest

from dph.recipe.methods import METHOD_ROWS

ROOT = Path(__file__).parents[1]
PAGES = ("methods.md", "guides/grading.md")


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("written_tables")


def test_the_pages_are_what_make_tables_writes(tables, tmp_path, monkeypatch):
    (tmp_path / "docs" / "guides").mkdir(parents=True)
    for page in PAGES:
        shutil.copy(ROOT / "docs" / page, tmp_path / "docs" / page)
    monkeypatch.setattr(sys, "argv", ["written_tables.py", "--root", str(tmp_path)])
    tables.main()
    for page in PAGES:
        written, there = (root / "docs" / page for root in (tmp_path, ROOT))
        assert written.read_text(encoding="utf-8") == there.read_text(encoding="utf-8"), page


def test_every_method_has_a_line_and_every_cell_says_something(tables):
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    lines = list(tables.method_lines(page))
    assert [line[0].strip("`") for line in lines] == [*METHOD_ROWS, "dph interpolate"]
    assert all(len(line) == len(tables.COLUMNS["methods"]) and all(line) for line in lines)


def test_what_was_measured_stays_where_it_was(tables):
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    (line,) = [line for line in tables.method_lines(page) if line[0] == "`grpo`"]
    changed = page.replace(line[-1], "sql-2: 1.0 / 2.0")
    (line,) = [line for line in tables.method_lines(changed) if line[0] == "`grpo`"]
    assert line[-1] == "sql-2: 1.0 / 2.0"
