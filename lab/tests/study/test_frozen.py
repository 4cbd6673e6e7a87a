"""The frozen studies: what their pages say is what their rows say, by the rule of their lock."""

import hashlib
import re

import pyarrow.parquet as pq
import pytest

from dph._base.files import read_json
from dph._base.files.rows import read_rows as read_lines
from dph.results.charts.text_table import markdown
from lab.study.frozen import FOLDER, frozen_report, pages
from lab.study.tables import all_tables

ROWS = sorted(FOLDER.rglob("study.parquet"))
IN_PROGRESS = ("real-spider",)
TIMED = FOLDER / "step-costs"
LINES = sorted(
    path
    for path in FOLDER.rglob("*.jsonl")
    if path.name != "costs.jsonl" and path.parent.name not in ("step-costs", "quickstart")
)
INTERVAL = re.compile(r"\d+\.\d ± \d+\.\d")


def of_folder(path):
    return str(path.relative_to(FOLDER))


def cells(table):
    return [line for line in table.splitlines() if line.startswith("|")]


def test_every_page_has_the_tables_of_its_rows():
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, path


def test_the_studys_own_tables_are_those_of_its_rows():
    report = frozen_report(FOLDER / "sql-world")
    tables = {table.name: cells(markdown(table)) for table in all_tables(report)}
    found = {path.stem: path for path in (FOLDER / "sql-world/results/tables").glob("*.md")}
    del tables["choices"]  # a lock holds those alone that runs on report seeds rest on
    del tables["power"]  # the study's own has a row for each length of training, too
    known = {name: path for name, path in found.items() if name in tables}
    assert len(known) >= 15
    for name, path in known.items():
        assert cells(path.read_text(encoding="utf-8")) == tables[name], name


@pytest.mark.parametrize("path", ROWS, ids=of_folder)
def test_rows_obey_the_locked_rule_and_name_what_made_them(path):
    lock = read_json(path.with_name("rule.lock.json"))
    rule = path.parents[1] / "rule.toml"
    assert lock["rule_sha256"] == hashlib.sha256(rule.read_bytes()).hexdigest()
    table = pq.read_table(path).to_pylist()
    seeds = {*lock["seeds_development"], *lock["seeds_report"]}
    for row in table:
        assert row["commit"]
        assert row["versions"]
        assert len(row["base_sha256"]) == 64
        assert row["seed"] in seeds
        assert row["rule_sha256"] in (None, lock["rule_sha256"])
    reported = {row["seed"] for row in table if row["split"] == "report"}
    assert reported == {*lock["seeds_report"]} or path.parents[1].name in IN_PROGRESS
    assert reported <= {*lock["seeds_report"]}


@pytest.mark.parametrize("path", LINES, ids=of_folder)
def test_every_other_row_names_what_made_it(path):
    rows = [row for _, row in read_lines(path)]
    assert rows
    for row in rows:
        if path.parent.name == "cookbook":  # rows of a pipeline: its recipe stands for the base
            assert row["recipe"]
            assert row["computed_by"]
            continue
        digests = [value for name, value in row.items() if name in ("base", "base_sha256")]
        digests += [row["model_sha256"]] if "model_sha256" in row else []
        assert all(len(digest) == 64 for digest in digests)
        assert digests
        assert row["commit"]
        assert row["versions"]
        assert isinstance(row["seed"], int)


def test_rows_of_seconds_name_their_machine_and_their_day():
    rows = [row for _, row in read_lines(TIMED / "rows.jsonl")]
    assert len(rows) > 20
    assert all(row["machine"] and row["date"] for row in rows)


def test_every_interval_that_a_page_tells_stands_in_a_table():
    tables = "".join(path.read_text() for path in FOLDER.rglob("tables/*.md"))
    lines = [line for text in pages().values() for line in text.splitlines()]
    in_tables = {*INTERVAL.findall(tables)}
    in_tables |= {found for line in lines if line[:1] == "|" for found in INTERVAL.findall(line)}
    told = {found for line in lines if line[:1] != "|" for found in INTERVAL.findall(line)}
    assert len(told) > 100
    assert told - in_tables == set()
