"""The rows of a study: gathered in one table, gone on from, never of two base models."""

import dataclasses
import json

import pyarrow.parquet as pq
import pytest

from dph.errors import DataError
from dph.runs.progress import Silent
from lab.study.outputs import make_report, write_outputs
from lab.study.planner import Planner
from lab.study.results import Results, planned_rows
from lab.study.rows import read_rows
from lab.study.rule_lock import current_lock
from lab.study.runner import Runner
from lab.study.settings import load_study
from small_study import STUDY


@pytest.fixture
def gathered(small, finished):
    """The small study after its end: its table, and the rows as they were in files."""
    planner, places, rows = finished
    report = make_report(small, planner.plan(rows), rows, current_lock(small, places, rows))
    write_outputs(report, places, rows)
    return planner, places, rows


def moved(row, digest):
    return dataclasses.replace(row, base_sha256=digest)


def test_the_table_takes_the_files_in_and_holds_every_field_of_every_row(gathered):
    _, places, rows = gathered
    assert list(places.rows.glob("*.json")) == []
    assert read_rows(places) == rows


def test_a_study_goes_on_from_its_table_alone(gathered, instant):
    planner, places, rows = gathered
    for name in ("costs", "work", "report.json"):
        path = places.out / name
        path.rename(path.with_name(f"was-{name}"))
    jobs = instant()
    assert Runner(planner, places, jobs).run(Silent()) == rows
    assert jobs.started == []


def test_a_run_that_the_plan_no_longer_asks_for_stays(write, gathered):
    _, places, rows = gathered
    study = load_study(write(STUDY.replace("strengths = [0.1]", "strengths = [0.2]")))
    lock = current_lock(study, places, rows)
    write_outputs(make_report(study, Planner(study).plan(rows), rows, lock), places, rows)
    assert read_rows(places) == rows
    unasked = [r for r in pq.read_table(places.parquet).to_pylist() if r["label"] is None]
    assert {(row["method"], row["strength"]) for row in unasked} == {("rkl", 0.1)}


def test_every_row_of_the_table_names_its_base_commit_and_versions(gathered):
    _, places, _ = gathered
    table = pq.read_table(places.parquet)
    for name in ("base_sha256", "commit", "versions"):
        assert table[name].null_count == 0
        assert "" not in table[name].to_pylist()


def test_rows_of_one_seed_from_two_base_models_are_an_error_that_names_both(finished):
    planner, places, rows = finished
    path = sorted(places.rows.glob("*.s0.dph_f*"))[0]
    row = json.loads(path.read_text())
    path.write_text(json.dumps({**row, "base_sha256": "f" * 64}))
    was = row["base_sha256"]
    with pytest.raises(DataError, match=rf"{was}, {path.stem} with {'f' * 64}"):
        read_rows(places)
    mixed = {**rows, path.stem: moved(rows[path.stem], "f" * 64)}
    with pytest.raises(DataError, match="share their base model"):
        Results(planned_rows(planner.plan(rows), mixed))


def test_another_seed_or_world_may_have_another_base_model(finished):
    planner, _, rows = finished
    other = {run: moved(row, str(row.seed) * 4) for run, row in rows.items()}
    assert Results(planned_rows(planner.plan(other), other)).worlds == ("sql",)


def test_a_table_of_another_schema_is_refused(gathered):
    _, places, _ = gathered
    table = pq.read_table(places.parquet)
    pq.write_table(table.replace_schema_metadata({"dph.schema": "1"}), places.parquet)
    with pytest.raises(DataError, match=r"study\.parquet has the schema 1, not 2"):
        read_rows(places)


def test_a_damaged_table_is_named(gathered):
    _, places, _ = gathered
    places.parquet.write_bytes(places.parquet.read_bytes()[:100])
    with pytest.raises(DataError, match=r"study\.parquet is damaged: restore it"):
        read_rows(places)
