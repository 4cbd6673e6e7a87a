import json
import os
import signal

import pytest

from dph.recipe.keys import LEFT
from dph.runs import training_stage as stage


def test_someones_own_task_runs_from_pool_to_evaluation_and_what_is_done_is_kept(
    dph, example, tmp_path
):
    run = tmp_path / "run"
    few = ("evaluate.samples=4", "evaluate.k=[1, 4]", "evaluate.retention_k=2")
    words = ("run", example, "--out", run, *(w for setting in few for w in ("--set", setting)))
    code, out, err = dph(*words, "--json")
    content = json.loads(out)
    assert code == 0, err
    assert content["pool"] is not None
    assert content["base"]["sets"]["train"]["keep"] == content["base"]["sets"]["train"]["keep_null"]
    assert content["training"]["step"] == 4
    assert content["evaluation"]["sets"]["train"]["problems"] == 12
    assert (run / "recipe.toml").is_file()
    assert dph(*words, "--json")[1] == out
    code, out, err = dph(*words)
    assert (code, "pass@4" in out, "training" in err) == (0, True, False)


@pytest.fixture
def interrupt(monkeypatch):
    """Send a signal to this process when a step of training is done."""
    note = stage._note

    def by(number):
        def send(metrics):
            os.kill(os.getpid(), number)
            return note(metrics)

        monkeypatch.setattr(stage, "_note", send)

    return by


def test_an_interrupted_run_is_not_evaluated(dph, example, tmp_path, interrupt):
    interrupt(signal.SIGTERM)
    code, out, err = dph("run", example, "--set", "method=grpo", "--out", tmp_path / "run")
    assert code == 130
    assert "checkpoint after 1 steps" in out
    assert "stopped after step 1" in err
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_training_leaves_a_checkpoint_and_says_where(dph, example, tmp_path):
    run = tmp_path / "run"
    code, out, err = dph("train", example, "--set", "method=grpo", "--out", run, "--json")
    content = json.loads(out)
    assert code == 0
    assert content["step"] == 4
    assert not content["stopped"]
    assert (run / "checkpoints" / "step_000004" / "config.json").is_file()
    assert "training grpo: 4/4 steps" in err
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 4


def test_ctrl_c_ends_at_a_checkpoint_and_says_how_to_go_on(
    dph, example, tmp_path, monkeypatch, interrupt
):
    interrupt(signal.SIGINT)
    words = ("train", example, "--out", tmp_path / "run", "--set", "method=grpo")
    code, out, err = dph(*words)
    assert code == 130
    assert "checkpoint after 1 steps" in out
    assert "stopped after step 1, everything is saved\n" in err
    assert "the same command continues" in err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    code, out, _ = dph(*words)
    assert code == 0
    assert "checkpoint after 4 steps" in out


@pytest.mark.slow
def test_a_changed_verifier_file_is_named_and_can_be_accepted(
    dph, refusal, example, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(example.parent)  # before those that other tests left on the path
    own_verifier = example.parent / "verifier.py"
    words = ("train", example, "--out", tmp_path / "run", "--set", "method=grpo")
    assert dph(*words, "--set", "train.steps=2")[0] == 0
    own_verifier.write_text(own_verifier.read_text() + "\n# mended\n")
    said = refusal(*words)
    assert "verifier.py" in said
    assert "changed" in said
    assert "--accept-verifier" in said
    code, out, err = dph(*words, "--accept-verifier")
    assert code == 0, err
    assert "checkpoint after 4 steps" in out
    assert dph(*words)[0] == 0


@pytest.mark.parametrize("left", ["stores", "consolidation"])
def test_a_run_that_only_an_older_version_reads_is_refused_by_one_message(
    dph, example, tmp_path, left
):
    old = tmp_path / "run" / left
    old.mkdir(parents=True)
    (old.parent / "metrics.jsonl").write_text('{"step": 1}\n')
    before = sorted(old.parent.rglob("*"))
    for words in (("train", example, "--out", old.parent), ("compare", old.parent)):
        code, _, err = dph(*words)
        assert (code, LEFT.format(f"the directory {old}") in " ".join(err.split())) == (2, True)
    assert sorted(old.parent.rglob("*")) == before


def test_rows_are_cut_at_their_lengths_so_the_pad_token_changes_no_weights(dph, example, tmp_path):
    settings = ("method=grpo", "train.steps=2", "train.shared_prompts=never")
    weights = []
    for pad in ("<pad>", None):
        path = example.parent / "model" / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": pad}))
        run = tmp_path / str(pad)
        code, _, err = dph("train", example, "--out", run, settings=settings)
        assert code == 0, err
        weights.append((run / "checkpoints" / "step_000002" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]


SMALL = ["method=grpo", "train.steps=1", "train.problems_per_step=2", "evaluate.samples=2"]
WORDS = [word for setting in SMALL for word in ("--set", setting)]
ALWAYS_WRONG = "def grade(response, problem):\n    return False\n"


def test_a_recipe_and_the_one_that_its_run_saves_find_their_modules_from_anywhere(
    dph, refusal, example, tmp_path, monkeypatch
):
    """The working directory has other modules of the same names."""
    (example.parent / "verifier.py").write_text("def grade(response, problem):\n    return True\n")
    (example.parent / "ways.py").write_text("def style(response):\n    return 'mine'\n")
    elsewhere, run = tmp_path / "elsewhere", tmp_path / "run"
    elsewhere.mkdir()
    (elsewhere / "verifier.py").write_text(ALWAYS_WRONG)
    (elsewhere / "ways.py").write_text("def style(response):\n    return 'other'\n")
    monkeypatch.chdir(elsewhere)
    words = ("run", example, "--out", run, *WORDS, "--set", "data.styles=ways:style", "--json")
    code, out, err = dph(*words)
    assert code == 0, err
    assert json.loads(out)["evaluation"]["sets"]["train"]["mean"] == 1.0
    assert str(example.parent) in (run / "recipe.toml").read_text()
    before = (run / "samples.parquet").read_bytes()
    (run / "verifier.py").write_text(ALWAYS_WRONG)
    code, out, err = dph("evaluate", run / "recipe.toml", "--out", run, "--json")
    assert code == 0, err
    found = json.loads(out)["sets"]["train"]
    assert (found["mean"], found["styles"]) == (1.0, {"mine": 1.0})
    assert (run / "samples.parquet").read_bytes() == before  # nothing was drawn or graded again
    assert dph("train", run / "recipe.toml", "--out", run)[0] == 0
    # Without its verifier it takes no other.
    (example.parent / "verifier.py").unlink()
    assert "cannot import 'verifier'" in refusal("evaluate", run / "recipe.toml", "--out", run)
