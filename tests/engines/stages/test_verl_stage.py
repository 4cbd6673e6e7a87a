"""verl's log becomes metrics and its weights a checkpoint, which says what it is."""

import json
import math
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import dph.runs.train
from dph.engines.stages.verl_command import Command
from dph.engines.stages.verl_stage import (
    SAME_IN_VERL,
    StepLog,
    adopt,
    require_made_from,
    run_command,
    step_of_verl,
)
from dph.errors import CheckpointError, TrainingError
from dph.model.loading import load_model
from dph.runs.directory import RunDirectory, latest_checkpoint, read_metrics
from dph.runs.train.checkpoints import read_progress, read_verifiers
from dph.runs.train.tracking import MetricsLog, Trackers
from engines.stages.recipes import make_recipe
from tiny_models import build_model, build_tokenizer


def plan(directory):
    return SimpleNamespace(
        recipe=make_recipe("verl"),
        directory=RunDirectory(directory),
        verifier=SimpleNamespace(name="exact", version="3"),
        prompts=SimpleNamespace(tokenizer=build_tokenizer()),
        training_key=lambda: "abcd",
    )


@pytest.fixture
def weights(tmp_path):
    """A directory as verl leaves it: float32 weights, bfloat16 in the configuration."""
    build_model().save_pretrained(tmp_path / "left")
    config = json.loads((tmp_path / "left" / "config.json").read_text())
    (tmp_path / "left" / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    (tmp_path / "left" / "training_args.bin").write_bytes(b"a pickle")
    return tmp_path / "left"


def test_it_holds_the_same_weights_and_names_their_dtype(weights, tmp_path):
    found = adopt(plan(tmp_path), weights, step=10)
    assert found.checkpoint == latest_checkpoint(tmp_path / "checkpoints")
    assert json.loads((found.checkpoint / "config.json").read_text())["dtype"] == "float32"
    names = {path.name for path in found.checkpoint.iterdir()}
    assert {"model.safetensors", "tokenizer.json", "trainer.json"} <= names
    assert "training_args.bin" not in names
    before, after = build_model(), load_model(found.checkpoint, device="cpu")
    for name, value in before.state_dict().items():
        assert torch.equal(value, after.state_dict()[name])


def test_the_newest_says_how_far_it_is_and_what_graded_it(weights, tmp_path):
    adopt(plan(tmp_path), weights, step=5)
    found = adopt(plan(tmp_path), weights, step=10)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step_000010"]
    progress = read_progress(found.checkpoint, digest="abcd")
    assert (progress.step, progress.optimizer_steps) == (10, 60)  # 2 mini-batches, 3 epochs
    assert [v.version for v in read_verifiers(found.checkpoint)] == ["3"]
    with pytest.raises(CheckpointError, match="other settings"):
        read_progress(found.checkpoint, digest="efgh")


def test_a_directory_without_weights_is_no_checkpoint(weights, tmp_path):
    (weights / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="one dtype"):
        adopt(plan(tmp_path), weights, step=10)
    assert latest_checkpoint(tmp_path / "checkpoints") is None


def test_a_place_keeps_the_recipe_that_first_trained_there(tmp_path):
    require_made_from(tmp_path / "verl", "aaaa", done=0)
    require_made_from(tmp_path / "verl", "bbbb", done=0)  # the first ran out of memory in step 1
    require_made_from(tmp_path / "verl", "bbbb", done=4)
    with pytest.raises(CheckpointError, match="were made with other settings"):
        require_made_from(tmp_path / "verl", "aaaa", done=1)


def python(text, **environment):
    words = [sys.executable, "-c", text]
    return Command(what="training", words=words, environment=environment)


def is_there(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process}/stat") as file:  # noqa: PTH123 - of the kernel
        return file.read().rpartition(")")[2].split()[0] != "Z"


def test_it_is_watched_while_it_runs_and_once_more_at_its_end(tmp_path):
    seen = []
    text = (
        "import os, time; told = os.environ; "
        "print(told['A'], told['DPH_PARENT_PID'], 'PATH' in told, flush=True); time.sleep(1)"
    )
    log, watch = tmp_path / "log", lambda: seen.append(1)
    run_command(python(text, A="b"), log=log, watch=watch)
    assert len(seen) > 2
    assert log.read_text() == f"b {os.getpid()} True\n"  # our environment, with what is said beside


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sys; print('dph: no pool'); print('bye'); sys.exit(1)", "no pool"),
        ("raise ValueError('5 apples')", "ValueError: 5 apples"),
        ("print('[rank1]: x.OneError: first'); raise KeyError('last')", "x.OneError: first"),
        ("import sys; print('halt'); sys.exit(3)", "halt"),
        ("import os; os.kill(os.getpid(), 9)", "ended by signal 9: it left no message"),
    ],
)
def test_a_failure_says_why_and_where_the_log_is(tmp_path, text, reason):
    with pytest.raises(TrainingError) as failed:
        run_command(python(text), log=tmp_path / "log")
    assert str(failed.value) == f"{reason} (the whole log: {tmp_path / 'log'})"


def test_whatever_it_started_ends_when_watching_it_fails(tmp_path):
    text = (
        "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', "
        "'import time; time.sleep(60)']); print(child.pid, flush=True); time.sleep(60)"
    )
    log = tmp_path / "log"

    def watch():
        if log.read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_command(python(text), log=log, watch=watch)
    grandchild, deadline = int(log.read_text()), time.monotonic() + 60
    while is_there(grandchild) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_there(grandchild)


def append(path, text):
    with path.open("a") as file:
        file.write(text)


def line(step, **data):
    return json.dumps({"step": step, "data": data}) + "\n"


def test_a_step_is_written_once_its_line_is_there(tmp_path):
    told = []
    log = StepLog(
        path=tmp_path / "log.jsonl",
        recipe=make_recipe("verl"),
        metrics=MetricsLog(tmp_path / "metrics.jsonl", step=1),
        trackers=Trackers(()),
        on_step=told.append,
    )
    whole = line(2, **{"dph/reward": 1.5})
    append(log.path, whole[:9])
    log.follow()
    assert told == []
    append(log.path, whole[9:])
    log.follow()
    assert [(one["step"], one["reward"]) for one in told] == [(2, 1.5)]
    (written,) = read_metrics(tmp_path / "metrics.jsonl")
    assert (written["step"], written["reward"]) == (2, 1.5)


LINE = {
    **dict.fromkeys(SAME_IN_VERL.values(), 2.0),
    "dph/reward": 0.25,
    "dph/correct": 0.25,
    "dph/zero_variance": 0.5,
    "dph/unfinished": 0.125,
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
    assert (found["outcome_wrong"], found["unfinished"]) == (0.75, 0.125)
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
    names = (*SAME_IN_VERL, "reward", "correct", "zero_variance", "unfinished", "kl_penalty")
    assert [name for name in names if f'"{name}"' not in text] == []
