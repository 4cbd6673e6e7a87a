import json
import shutil
from types import SimpleNamespace

from lab.study.costs import read_costs, write_costs


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
