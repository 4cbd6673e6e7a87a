"""Runs that are kept up with, without a browser."""

import json
import os

import pytest

from dph.errors import DataError
from dph.results.view.served_runs import ServedRuns
from dph.results.view.snapshot import LOGS, state_of
from dph.runs.evaluate.samples_file import read_samples, write_samples
from live_server import request, serving, wait_for
from report_runs import make_runs


def test_a_state_is_another_as_soon_as_a_file_is_longer_newer_or_another(tmp_path):
    seen = {state_of([tmp_path], LOGS)}
    path = tmp_path / "metrics.jsonl"
    path.write_text("a")
    seen.add(state_of([tmp_path], LOGS))
    path.write_text("ab")
    seen.add(state_of([tmp_path], LOGS))
    os.utime(path, ns=(1, 1))
    seen.add(state_of([tmp_path], LOGS))
    (tmp_path / "new").write_text("ab")
    os.utime(tmp_path / "new", ns=(1, 1))
    (tmp_path / "new").rename(path)
    seen.add(state_of([tmp_path], LOGS))
    assert len(seen) == 5
    assert state_of([tmp_path], LOGS) in seen
    assert state_of([tmp_path / "elsewhere"], LOGS) not in seen


def test_a_directory_without_a_run_is_refused(tmp_path):
    with pytest.raises(DataError, match="is not a run and contains none"):
        ServedRuns([tmp_path])


def test_a_new_step_is_in_the_charts_and_a_damaged_line_is_told(tmp_path):
    run = make_runs(tmp_path / "made", sets={"dev": 2}) / "grpo"
    for name in ("samples.parquet", "evaluation.json", "recipe.toml"):
        (run / name).unlink()
    with serving([run]) as found:
        first = found.get("state")["charts"]
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": 41, "reward": 7.5}) + "\n")
        wait_for(lambda: found.get("state")["charts"] != first, seconds=20)
        reward = next(chart for chart in found.get("charts") if chart["title"] == "Reward")
        assert (reward["columns"]["x"][-1], reward["columns"]["value"][-1]) == (41, 7.5)
        with (run / "metrics.jsonl").open("a") as file:
            file.write("garbage\n")
        wait_for(lambda: "line 42 is damaged" in found.get("state")["reading"], seconds=20)
        reward = next(chart for chart in found.get("charts") if chart["title"] == "Reward")
        assert reward["columns"]["x"][-1] == 41  # what was read is still shown


def test_nothing_in_the_run_directories_is_written(tmp_path):
    runs = make_runs(tmp_path / "made", sets={"dev": 3})
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    with serving([runs]) as found:
        wait_for(lambda: found.get("state")["answers"].endswith("-analysed"))
        for address in ("/", "/api/index", "/api/problem?set=dev&id=dev-0000&shown=r0"):
            assert request(found.port, address)[0] == 200
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


def test_runs_that_cannot_be_compared_are_served_without_and_it_says_so(tmp_path):
    runs = make_runs(tmp_path / "made", sets={"dev": 3})
    table = read_samples(runs / "grpo" / "samples.parquet")
    write_samples(runs / "grpo" / "samples.parquet", table.slice(0, 9), digest="fewer")
    with serving([runs]) as found:
        wait_for(lambda: "could not be compared" in found.get("state")["reading"])
        listed = found.get("problems", set="dev", shown="r0 r1 r2")
        assert listed["count"] == 3
