import dataclasses
import json
import shutil
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from dph.errors import DataError
from dph.runs.progress import Silent
from lab.study.costs import read_costs, write_costs
from lab.study.outputs import make_report, write_outputs
from lab.study.planner import Planner
from lab.study.results import Results, planned_rows
from lab.study.rows import read_row_files, read_rows
from lab.study.rule_lock import current_lock
from lab.study.runner import Runner
from lab.study.settings import load_study
from small_study import STUDY, InstantJobs


@pytest.fixture
def gathered(report, finished):
    """The small study after its end: its table, and the rows as they were in files."""
    planner, places, rows = finished
    write_outputs(report, places, rows)
    return planner, places, rows


def test_the_table_takes_the_files_in_and_holds_every_field_of_every_row(gathered):
    _, places, rows = gathered
    assert list(places.rows.glob("*.json")) == []
    assert read_rows(places) == rows


def test_a_study_goes_on_from_its_table_alone(gathered):
    planner, places, rows = gathered
    for name in ("costs", "work", "report.json"):
        path = places.out / name
        path.rename(path.with_name(f"was-{name}"))
    jobs = InstantJobs()
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


def test_rows_of_one_seed_from_two_base_models_are_an_error_that_names_both(finished):
    planner, places, rows = finished
    path = sorted(places.rows.glob("*.s0.dph_f*"))[0]
    row = json.loads(path.read_text())
    path.write_text(json.dumps({**row, "base_sha256": "f" * 64}))
    was = row["base_sha256"]
    with pytest.raises(DataError, match=rf"{was}, {path.stem} with {'f' * 64}"):
        read_rows(places)
    mixed = {**rows, path.stem: dataclasses.replace(rows[path.stem], base_sha256="f" * 64)}
    with pytest.raises(DataError, match="share their base model"):
        Results(planned_rows(planner.plan(rows), mixed))


def test_a_table_of_another_schema_or_a_damaged_one_is_refused(gathered):
    _, places, _ = gathered
    table = pq.read_table(places.parquet)
    pq.write_table(table.replace_schema_metadata({"dph.schema": "1"}), places.parquet)
    with pytest.raises(DataError, match=r"study\.parquet has the schema 1, not 3"):
        read_rows(places)
    places.parquet.write_bytes(places.parquet.read_bytes()[:100])
    with pytest.raises(DataError, match=r"study\.parquet is damaged: restore it"):
        read_rows(places)


def test_a_damaged_row_is_named_with_what_is_wrong(finished):
    _, places, _ = finished
    path = sorted(places.rows.glob("*.json"))[0]
    intact = json.loads(path.read_text())
    score = {**intact["scores"][0], "value": "0.5"}
    for change, message in [
        ({"seed": "0"}, "seed: Input should be a valid integer, got '0'"),
        ({"steps": None}, "steps: .* got None"),
        ({"more": 1}, "more: .* got 1"),
        ({"scores": [{"set": "x"}]}, r"scores\.0\.metric: "),
        ({"scores": 1}, "scores: .* got 1"),
        ({"learning_rate": float("nan")}, "learning_rate: .* got nan"),
        ({"scores": [score]}, r"scores\.0\.value: "),
        ({"scores": [{**score, "value": float("nan")}]}, r"scores\.0\.value: "),
    ]:
        path.write_text(json.dumps({**intact, **change}))
        match = rf"{path.name} is damaged \({message}.*remove it to run"
        with pytest.raises(DataError, match=match):
            read_row_files(places.rows)


def test_costs_of_runs_that_were_computed_elsewhere_stay(tmp_path):
    path = tmp_path / "costs.jsonl"
    places = SimpleNamespace(costs=tmp_path / "costs", all_costs=path)
    places.costs.mkdir()
    before = {"elsewhere": {"train": 2.0}, "again": {"train": 3.0}, "gone": {"train": 4.0}}
    path.write_text("".join(json.dumps({"run": r, "seconds": s}) + "\n" for r, s in before.items()))
    (places.costs / "again.json").write_text('{"train": 5.0}')
    (places.costs / "here.json").write_text('{"train": 6.0}')
    write_costs(places, dict.fromkeys(["here", "again", "elsewhere", "unfinished"]))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = [(line["run"], line["seconds"]["train"]) for line in lines]
    assert found == [("again", 5.0), ("elsewhere", 2.0), ("here", 6.0)]


def test_what_is_left_is_estimated_by_runs_that_were_computed_elsewhere(finished):
    planner, places, rows = finished
    write_costs(places, rows)
    runs = planner.plan(rows).runs
    here = read_costs(places, rows)
    shutil.rmtree(places.costs)
    elsewhere = read_costs(places, rows)
    assert elsewhere.measured
    assert elsewhere.seconds == here.seconds
    assert [elsewhere.expected(run) for run in runs] == [here.expected(run) for run in runs]
    places.all_costs.unlink()
    assert not read_costs(places, rows).measured
