import json
import shutil

import pytest


@pytest.fixture
def trained(dph, example, tmp_path):
    run = tmp_path / "run"
    assert dph("train", example, "--out", run, "--set", "method=grpo")[0] == 0
    return run


def test_the_newest_checkpoint_is_evaluated(dph, example, trained):
    code, out, _ = dph("evaluate", example, "--out", trained, "--set", "method=grpo", "--json")
    content = json.loads(out)
    assert code == 0
    assert content["schema"] == 2
    assert content["sets"]["train"]["problems"] == 12
    assert json.loads((trained / "evaluation.json").read_text()) == content
    assert (trained / "samples.parquet").is_file()


def test_the_initial_policy_is_measured_beside_the_run(dph, example, tmp_path):
    words = ("evaluate", example, "--model", example.parent / "model", "--out", tmp_path / "run")
    code, out, _ = dph(*words)
    assert code == 0
    assert "pass@8" in out
    assert (tmp_path / "run" / "base" / "evaluation.json").is_file()
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_any_other_model_gets_a_place_of_its_own(dph, example, tmp_path):
    shutil.copytree(example.parent / "model", tmp_path / "other")
    words = ("evaluate", example, "--model", "other", "--out", tmp_path / "run", "--json")
    code, out, _ = dph(*words)
    place = tmp_path / "run" / "models" / "other"
    assert code == 0
    assert json.loads((place / "evaluation.json").read_text()) == json.loads(out)


def test_the_newest_checkpoint_is_the_one_with_the_largest_number(dph, example, trained):
    checkpoints = trained / "checkpoints"
    shutil.copytree(checkpoints / "step_000004", checkpoints / "step_1000000")
    shutil.copytree(checkpoints / "step_000004", checkpoints / "step_999999")
    (checkpoints / "step_9999999_of_somebody").mkdir()
    assert dph("evaluate", example, "--out", trained)[0] == 0
    assert json.loads((trained / "evaluation.json").read_text())["model"].endswith("step_1000000")
