"""A growing log is read line by line, and each becomes one of metrics.jsonl."""

import json

from dph.engines.stages.engine_log import LogReader, StepLog
from dph.runs.directory import read_metrics
from dph.runs.train.tracking import MetricsLog, Trackers


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def line(step, **data):
    return json.dumps({"step": step, "data": data}) + "\n"


def test_half_a_line_waits_for_its_end(tmp_path):
    reader = LogReader(tmp_path / "log.jsonl")
    assert reader.new_lines() == []
    whole = line(1, loss=2.0)
    append(reader.path, whole + whole[:9])
    assert reader.new_lines() == [(1, {"loss": 2.0})]
    assert reader.new_lines() == []
    append(reader.path, whole[9:])
    assert reader.new_lines() == [(1, {"loss": 2.0})]


def test_a_step_is_written_once_its_line_is_there(tmp_path):
    told = []
    log = StepLog(
        reader=LogReader(tmp_path / "log.jsonl"),
        metrics=MetricsLog(tmp_path / "metrics.jsonl", step=1),
        trackers=Trackers(()),
        convert=lambda logged: {"reward": 2 * logged["loss"]},
        on_step=told.append,
    )
    whole = line(2, loss=1.5)
    append(log.reader.path, whole[:9])
    log.follow()
    assert told == []
    append(log.reader.path, whole[9:])
    log.follow()
    assert told == [{"step": 2, "reward": 3.0}]
    assert read_metrics(tmp_path / "metrics.jsonl") == told
