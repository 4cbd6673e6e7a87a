"""Recall and synthesis as stages of a cookbook: pages that are like a corpus, rows that hold."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from corpus.tests.recall.planted_pages import pages, seeds
from corpus.tests.synth.small_generators import SHIPS
from dph._base.files import read_json
from dph._base.files.rows import read_rows
from dph.runs.progress import Silent
from dph_corpus.cookbook.run import run_cookbook
from dph_corpus.cookbook.settings import load_cookbook
from small_corpora import rows_file

TOML = Path(__file__).with_name("synth.toml")


def lines(path, documents):
    rows = [{"id": d.id, "text": d.text, "path": d.path, "url": d.url} for d in documents]
    rows_file(path, rows)


@pytest.mark.slow
def test_pages_are_recalled_before_copies_go_and_rows_are_written_once(tmp_path):
    found, _ = pages(each=12)
    lines(tmp_path / "known.jsonl", seeds(30))
    lines(tmp_path / "web.jsonl", found)
    (tmp_path / "databases" / "navy").mkdir(parents=True)
    with sqlite3.connect(tmp_path / "databases" / "navy" / "navy.sqlite") as connection:
        connection.executescript(SHIPS)
    connection.close()
    shutil.copy(TOML, tmp_path)
    cookbook, out = load_cookbook(tmp_path / TOML.name), tmp_path / "out"
    made = run_cookbook(cookbook, out, Silent(), workers=1)
    assert list(made)[:3] == ["ingest", "recall", "dedup"]
    recalled = read_json(out / "corpora" / "web" / "recall" / "manifest.json")
    assert 0 < recalled["documents"] < len(found)
    assert (
        read_json(out / "corpora" / "web" / "dedup" / "manifest.json")["history"][1]
        == (recalled["history"][1])
    )
    rows = [row for _, row in read_rows(out / "corpora" / "queries" / "synth" / "rows.parquet")]
    assert rows
    assert all(row["killed"] * 2 >= row["mutants"] > 0 for row in rows)
    report = (out / "report.md").read_text()
    assert f"| recall | {recalled['documents']} |" in report
    funnel = report.partition("## The corpus queries\n\n")[2].splitlines()
    assert funnel[2].startswith(f"| synth | {len(rows)} |")
    written = (out / "corpora" / "queries" / "synth" / "rows.parquet").stat().st_mtime_ns
    assert run_cookbook(cookbook, out, Silent(), workers=1) == made
    assert (out / "corpora" / "queries" / "synth" / "rows.parquet").stat().st_mtime_ns == written
