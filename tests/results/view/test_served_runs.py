"""Runs that are kept up with, without a browser."""

import json
import os

import pytest

from dph.errors import DataError
from dph.results.view import LOGS, ServedRuns, state_of
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
        wait_for(lambda: "line 42 is damaged" in found.get("state")["error"], seconds=20)
        reward = next(chart for chart in found.get("charts") if chart["title"] == "Reward")
        assert reward["columns"]["x"][-1] == 41  # what was read is still shown


def test_nothing_in_the_run_directories_is_written(tmp_path):
    runs = make_runs(tmp_path / "made", sets={"dev": 3})
    before = {path: path.stat().st_mtime_ns for path in runs.rglob("*")}
    with serving([runs]) as found:
        for address in ("/", "/data/index", "/data/answers-0-0", "/api/state"):
            assert request(found.port, address)[0] == 200
    assert {path: path.stat().st_mtime_ns for path in runs.rglob("*")} == before


def test_runs_that_cannot_be_compared_are_refused_and_later_ones_leave_the_page(tmp_path):
    runs = make_runs(tmp_path / "made", sets={"dev": 3})
    path = runs / "grpo" / "samples.parquet"
    whole = read_samples(path)
    with serving([runs]) as found:
        page = found.get("state")["answers"]
        write_samples(path, whole.slice(0, 9), digest="fewer")
        wait_for(lambda: "cannot be compared" in found.get("state")["error"], seconds=20)
        assert found.get("state")["answers"] == page
    with pytest.raises(DataError, match="cannot be compared"):
        ServedRuns([runs])


@pytest.mark.parametrize("name", ["answers-9-9", "..%2f..%2fetc%2fpasswd", "index%00", "style.css"])
def test_a_part_that_does_not_exist_is_not_found(server, name):
    assert request(server.port, f"/data/{name}")[0] == 404
