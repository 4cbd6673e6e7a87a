import json
import os
import signal

import pytest

from dph.runs import training_stage as stage


def test_training_leaves_a_checkpoint_and_says_where(dph, example, tmp_path):
    run = tmp_path / "run"
    assert dph("presample", example, "--out", run)[0] == 0
    code, out, err = dph("train", example, "--out", run, "--json")
    content = json.loads(out)
    assert code == 0
    assert content["step"] == 4
    assert not content["stopped"]
    assert (run / "checkpoints" / "step_000004" / "config.json").is_file()
    assert "training dph_f: 4/4 steps" in err
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 4


def test_a_finished_training_is_not_repeated(dph, example, tmp_path):
    run = tmp_path / "run"
    words = ("train", example, "--out", run, "--set", "method=grpo")
    assert dph(*words)[0] == 0
    code, out, err = dph(*words)
    assert code == 0
    assert out.startswith("checkpoint after 4 steps:")
    assert "training" not in err


def test_ctrl_c_ends_at_a_checkpoint_and_says_how_to_go_on(dph, example, tmp_path, monkeypatch):
    original = stage._note

    def interrupt(metrics):
        os.kill(os.getpid(), signal.SIGINT)
        return original(metrics)

    monkeypatch.setattr(stage, "_note", interrupt)
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


@pytest.fixture
def own_verifier(example, monkeypatch):
    """The example's verifier file, found before those that other tests left on the path."""
    monkeypatch.syspath_prepend(example.parent)
    return example.parent / "verifier.py"


@pytest.mark.parametrize("verb", ["train", "run"])
def test_a_changed_verifier_file_is_named_and_can_be_accepted(
    dph, example, own_verifier, tmp_path, verb
):
    words = (verb, example, "--out", tmp_path / "run", "--set", "method=grpo")
    assert dph(*words, "--set", "train.steps=2")[0] == 0
    own_verifier.write_text(own_verifier.read_text() + "\n# mended\n")
    code, _, err = dph(*words)
    assert code == 2
    assert "verifier.py" in err
    assert "changed" in err
    assert "--accept-verifier" in err
    code, out, err = dph(*words, "--accept-verifier")
    assert code == 0, err
    assert "checkpoint after 4 steps" in out
    assert dph(*words)[0] == 0


def test_a_verifier_that_crashes_over_most_answers_ends_the_run_and_keeps_what_is_done(
    dph, example, own_verifier, tmp_path
):
    words = ("train", example, "--out", tmp_path / "run", "--set", "method=grpo")
    assert dph(*words, "--set", "train.steps=2")[0] == 0
    whole = own_verifier.read_text()
    own_verifier.write_text("import os\n\ndef grade(response, problem):\n    os._exit(3)\n")
    code, _, err = dph(*words, "--accept-verifier")
    assert code == 1
    assert "verifier 'verifier:grade' crashed on" in err
    assert "data.verifier_crash_limit = 0.5" in err
    assert "Traceback" not in err
    own_verifier.write_text(whole)
    code, out, _ = dph(*words, "--accept-verifier")
    assert code == 0
    assert "checkpoint after 4 steps" in out


def test_rows_are_cut_at_their_lengths_so_the_pad_token_changes_no_weights(dph, example, tmp_path):
    words = (
        "--set",
        "method=grpo",
        "--set",
        "train.steps=2",
        "--set",
        "train.shared_prompts=never",
    )
    weights = []
    for pad in ("<pad>", None):
        path = example.parent / "model" / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"pad_token": pad}))
        run = tmp_path / str(pad)
        code, _, err = dph("train", example, *words, "--out", run)
        assert code == 0, err
        weights.append((run / "checkpoints" / "step_000002" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
