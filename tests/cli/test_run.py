import json
import os
import signal
from pathlib import Path

import pytest

from dph.runs import training_stage as stage


@pytest.mark.parametrize("method", ["dph_f", "grpo"])
def test_someones_own_task_runs_from_pool_to_evaluation(dph, example, tmp_path, method):
    run = tmp_path / "run"
    code, out, err = dph("run", example, "--set", f"method={method}", "--out", run, "--json")
    content = json.loads(out)
    assert code == 0, err
    assert (content["pool"] is not None) == (method == "dph_f")
    assert content["base"]["sets"]["train"]["keep"] == content["base"]["sets"]["train"]["keep_null"]
    assert content["training"]["step"] == 4
    assert content["evaluation"]["sets"]["train"]["problems"] == 12
    assert (run / "recipe.toml").is_file()


def test_what_is_done_is_kept(dph, example, tmp_path):
    words = ("run", example, "--out", tmp_path / "run")
    first = dph(*words)
    again = dph(*words)
    assert (first[0], again[0]) == (0, 0)
    assert first[1] == again[1]
    assert "pass@8" in first[1]
    assert "training" not in again[2]


def test_an_interrupted_run_is_not_evaluated(dph, example, tmp_path, monkeypatch):
    original = stage._note

    def interrupt(metrics):
        os.kill(os.getpid(), signal.SIGTERM)
        return original(metrics)

    monkeypatch.setattr(stage, "_note", interrupt)
    code, out, err = dph("run", example, "--set", "method=grpo", "--out", tmp_path / "run")
    assert code == 130
    assert "checkpoint after 1 steps" in out
    assert "stopped after step 1" in err
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_the_sets_are_checked_before_the_training(dph, example, tmp_path):
    code, _, err = dph("run", example, "--set", "data.sets.more=nope.jsonl")
    assert code == 2
    assert "nope.jsonl" in err
    assert not (tmp_path / "runs").exists()


def test_every_evaluation_set_is_opened_once(dph, example, tmp_path, monkeypatch):
    opened, original = [], Path.open

    def counted(self, *args, **kwargs):
        opened.append(self.name)
        return original(self, *args, **kwargs)

    (example.parent / "dev.jsonl").write_bytes((example.parent / "problems.jsonl").read_bytes())
    monkeypatch.setattr(Path, "open", counted)
    dev = f"data.sets.dev={example.parent / 'dev.jsonl'}"
    code, _, err = dph(
        "run", example, "--set", "method=grpo", "--set", dev, "--out", tmp_path / "r"
    )
    assert code == 0, err
    assert opened.count("dev.jsonl") == 1
