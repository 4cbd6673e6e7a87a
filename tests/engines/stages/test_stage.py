"""Weights of an engine become a checkpoint of the run, which says what it is."""

import json
import os
import sys
import time
from types import SimpleNamespace

import pytest
import torch

from dph.engines.stages.stage import adopt, require_made_from, run_command
from dph.errors import CheckpointError, TrainingError
from dph.model.loading import load_model
from dph.runs.directory import RunDirectory, latest_checkpoint
from dph.runs.train.checkpoints import read_progress, read_verifiers
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


def python(text):
    return [sys.executable, "-c", text]


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
    run_command(python(text), environment={"A": "b"}, log=log, watch=watch)
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
        run_command(python(text), environment={}, log=tmp_path / "log")
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
        run_command(python(text), environment={}, log=log, watch=watch)
    grandchild, deadline = int(log.read_text()), time.monotonic() + 60
    while is_there(grandchild) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_there(grandchild)
