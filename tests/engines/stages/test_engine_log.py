"""A growing log is read line by line, and each becomes one of metrics.jsonl."""

import json
import math
from pathlib import Path

import dph.runs.train
from dph.engines.stages.engine_log import SAME_IN_VERL, LogReader, StepLog, step_of_verl
from dph.runs.directory import read_metrics
from dph.runs.train.tracking import MetricsLog, Trackers
from engines.stages.recipes import make_recipe


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def line(step, **data):
    return json.dumps({"step": step, "data": data}) + "\n"


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


LINE = {
    **dict.fromkeys(SAME_IN_VERL.values(), 2.0),
    "dph/reward": 0.25,
    "dph/correct": 0.25,
    "dph/zero_variance": 0.5,
    "dph/outcome_correct": 0.25,
    "dph/outcome_wrong": 0.75,
    "dph/ungraded_answers": 1,
    "actor/dph/divergence": 0.125,
    "actor/kl_loss": 0.5,
    "actor/dph/penalty/mine": 0.25,
}


def test_verdicts_are_ours_and_the_rest_is_verls():
    found = step_of_verl(LINE, make_recipe("verl"))
    assert (found["reward"], found["correct"], found["zero_variance"]) == (0.25, 0.25, 0.5)
    assert (found["policy_loss"], found["grad_norm"], found["seconds"]) == (2.0, 2.0, 2.0)
    assert (found["divergence"], found["kl_penalty"]) == (0.125, 0.75)
    assert found["tokens"] == 2.0 * 6 * 4
    assert found["outcome_wrong"] == 0.75
    assert "ungraded_answers" not in found
    # What verl did not say is not a number.
    found = step_of_verl({"response_length/mean": 3.0}, make_recipe("verl"))
    assert math.isnan(found["reward"])
    assert found["tokens"] == 3.0 * 6 * 4


def test_several_anchors_stand_apart_as_in_our_own_log():
    two = {
        "objective.anchors.far.divergence": "alpha",
        "objective.anchors.far.weight": 0.1,
        "objective.anchors.rehearsal.weight": 0.2,
    }
    line = {"actor/dph/divergence/rehearsal": 1.0, "actor/dph/divergence/far": 2.0}
    found = step_of_verl(line, make_recipe("verl", **two))
    assert (found["anchor_rehearsal"], found["anchor_far"], found["divergence"]) == (1.0, 2.0, 3.0)


def test_every_name_is_one_of_our_own_log():
    sources = Path(dph.runs.train.__file__).parent
    text = (sources / "tracking.py").read_text() + (sources / "loop.py").read_text()
    names = (*SAME_IN_VERL, "reward", "correct", "zero_variance", "kl_penalty")
    assert [name for name in names if f'"{name}"' not in text] == []
