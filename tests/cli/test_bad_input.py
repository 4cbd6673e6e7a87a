"""Whatever the user gets wrong: one line, exit code 2, no traceback, nothing left behind."""

import json
import os
import shutil

import pytest
import torch
from transformers import AutoModelForCausalLM, T5Config


def assert_refused(result, *parts):
    code, out, err = result
    assert code == 2, err
    assert out == ""
    assert err.startswith("dph: error: ")
    assert len(err.strip().splitlines()) == 1, err
    for part in parts:
        assert part in err


@pytest.fixture
def refused(dph, tmp_path):
    """Run the words, expect one line that holds the parts, and no new file beside the task."""

    def check(words, *parts):
        before = sorted(tmp_path.rglob("*"))
        assert_refused(dph(*words), *parts)
        after = [path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts]
        assert sorted(after) == before

    return check


VERBS = ("run", "presample", "train", "evaluate")


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_recipe(refused, verb):
    refused([verb, "nope.toml"], "cannot read the recipe nope.toml")


def test_a_recipe_that_is_no_toml(refused, example):
    example.write_text("method = ")
    refused(["run", example], "recipe.toml is not valid TOML")


@pytest.mark.parametrize("verb", [*VERBS, "recipe check", "recipe show"])
def test_an_unknown_key_and_the_nearest_known_one(refused, example, verb):
    words = [*verb.split(), example, "--set", "train.stepz=3"]
    refused(words, "unknown setting train.stepz; did you mean train.steps?")


def test_a_wrong_type(refused, example):
    refused(["run", example, "--set", "train.steps=many"], "train.steps", "'many'")


@pytest.mark.parametrize("verb", ["run", "presample", "train", "evaluate"])
def test_a_missing_model(refused, example, verb):
    words = [verb, example, "--set", "model.path=gone"]
    words += ["--model", example.parent / "model"] if verb == "evaluate" else []
    refused(words, "gone is not a directory")


def test_a_missing_model_to_evaluate(refused, example):
    refused(["evaluate", example, "--model", "gone"], "gone is not the directory of a saved")


def test_a_model_without_an_end_token(refused, example):
    path = example.parent / "model" / "tokenizer_config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"eos_token": None}))
    refused(["run", example], "has no eos token")


def test_a_model_that_is_no_decoder_before_its_data(refused, example):
    T5Config().save_pretrained(example.parent / "model")
    (example.parent / "problems.jsonl").write_text("no problems")
    refused(["run", example], "t5 is an encoder-decoder, not a causal model")


def test_an_empty_data_set(refused, example):
    (example.parent / "problems.jsonl").write_text("\n")
    refused(["run", example], "problems.jsonl holds no problems")


def test_a_missing_data_set(refused, example):
    refused(["train", example, "--set", "data.train=gone.jsonl"], "there is no file", "gone.jsonl")


def test_a_row_that_is_no_json(refused, example):
    (example.parent / "problems.jsonl").write_text("{\n")
    refused(["presample", example], "line 1: not valid JSON")


def test_k_above_the_samples(refused, example):
    refused(["run", example, "--set", "evaluate.k=[1, 17]"], "got k=17, samples=16")


@pytest.mark.parametrize("verb", VERBS)
def test_a_directory_under_a_file(refused, example, tmp_path, verb):
    (tmp_path / "file").write_text("")
    refused([verb, example, "--out", tmp_path / "file" / "run"], "cannot write into", "is a file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory(refused, example, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    refused(["run", example, "--out", tmp_path / "closed" / "run"], "is read-only")


def test_a_read_only_directory_is_told_by_the_system(refused, example, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _, mode: mode == os.R_OK)
    refused(["run", example], "cannot write into the directory", "is read-only")


def test_an_unknown_verifier(refused, example):
    refused(["run", example, "--set", "data.verifier=sq"], "there is no verifier 'sq'")


def test_a_verifier_that_is_not_there(refused, example):
    refused(["run", example, "--set", "data.verifier=verifier:marks"], "verifier:marks")


def test_no_evaluation_set(refused, example):
    refused(["evaluate", example, "--set", "data.sets={}"], "[data.sets]")


def test_training_that_needs_a_pool_and_has_none(dph, example, tmp_path):
    assert_refused(dph("train", example), "there is no pool", "dph presample")
    assert not (tmp_path / "runs").exists()


def test_an_unknown_method_of_the_quickstart(refused):
    refused(["quickstart", "--methods", "grpo,dph_x"], "unknown method 'dph_x'")


def test_no_method_for_the_quickstart(refused):
    refused(["quickstart", "--methods", ","], "at least one method")


def test_a_quickstart_under_a_file(refused, tmp_path):
    (tmp_path / "file").write_text("")
    refused(["quickstart", "--out", tmp_path / "file" / "q"], "is a file")


def test_a_pool_of_another_model(dph, example, tmp_path):
    run = tmp_path / "run"
    assert dph("presample", example, "--out", run)[0] == 0
    model = AutoModelForCausalLM.from_pretrained(example.parent / "model")
    with torch.no_grad():
        model.lm_head.weight += 0.01
    model.save_pretrained(example.parent / "model")
    for verb in ("presample", "train", "run"):
        assert_refused(dph(verb, example, "--out", run), "model fingerprint was")
    assert sorted(path.name for path in run.iterdir()) == [".lock", "pool", "pool.seconds.json"]


def test_a_run_with_other_settings(dph, example, tmp_path):
    words = ("train", example, "--set", "method=grpo", "--out", tmp_path / "run")
    assert dph(*words)[0] == 0
    recipe = (tmp_path / "run" / "recipe.toml").read_text()
    for verb in ("train", "run"):
        other = (verb, *words[1:], "--set", "train.learning_rate=0.1")
        assert_refused(dph(*other), "made with other settings")
    assert (tmp_path / "run" / "recipe.toml").read_text() == recipe


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run"], "Missing argument 'RECIPE'"),
        (["runn"], "No such command 'runn'"),
        (["run", "r.toml", "--nope"], "No such option"),
        (["run", "r.toml", "--seed", "x"], "--seed"),
        (["run", "r.toml", "--seed", "-1"], "--seed"),
        (["compare"], "Missing argument 'RUN'"),
    ],
)
def test_a_command_that_cannot_be_understood(refused, words, message):
    refused(words, message, "--help")


def test_no_command_at_all_shows_the_help(dph):
    code, out, err = dph()
    assert (code, out) == (2, "")
    assert "quickstart" in err


def test_a_copy_without_its_verifier_does_not_find_another(refused, example):
    (example.parent / "verifier.py").unlink()
    shutil.rmtree(example.parent / "__pycache__", ignore_errors=True)
    refused(["run", example], "verifier:grade")


@pytest.mark.parametrize("verb", ["presample", "run"])
def test_a_pool_never_replaces_what_is_no_pool(refused, example, verb):
    taken = example.parent / "model"
    words = [verb, example, "--set", f"presample.pool={taken}"]
    refused(words, "holds files but no pool", "presample.pool")
    refused([*words[:-1], f"presample.pool={example}"], "it is a file")


@pytest.mark.parametrize("verb", ["presample", "run"])
def test_a_prompt_longer_than_the_context(refused, example, verb):
    words = [verb, example, "--set", "sampling.max_tokens=30"]
    refused(words, "a prompt of 7 tokens and max_tokens = 30 exceed the model's context of 32")


def test_a_prompt_to_train_on_longer_than_the_context(refused, example):
    words = ["train", example, "--set", "method=grpo", "--set", "sampling.max_tokens=30"]
    refused(words, "exceed the model's context of 32")


def test_an_evaluation_is_refused_before_the_training_and_not_after_it(refused, example):
    refused(["run", example, "--set", "evaluate.max_tokens=30"], "context of 32")
    table = example.read_text().replace("[sampling]", "{}\n[sampling]")
    for setting in ("verifier", "styles"):
        own = f'sets.own = {{path = "problems.jsonl", {setting} = "no_such_module_z:f"}}\n'
        example.write_text(table.format(own))
        refused(["run", example], "no_such_module_z")


def test_an_evaluation_with_prompts_longer_than_the_context(refused, example):
    words = ["evaluate", example, "--model", example.parent / "model"]
    refused([*words, "--set", "evaluate.max_tokens=30"], "context of 32")


def test_a_chat_without_a_template(refused, example):
    refused(["presample", example, "--set", "data.chat=true"], "has no chat template")


def test_databases_that_are_not_there(refused, example):
    refused(["presample", example, "--set", "data.databases=gone"], "is not a directory", "gone")


@pytest.mark.parametrize("name", [".", "..", "a/b", ""])
def test_a_name_that_leads_out_of_the_directory_of_runs(refused, example, name):
    refused(["run", example, "--set", f"name={name!r}"], "name:", repr(name))


def test_a_verifier_that_ends_the_process_while_it_is_imported(refused, example):
    (example.parent / "verifier.py").write_text("raise SystemExit(7)")
    refused(["run", example], "cannot import 'verifier'", "SystemExit: 7")


def test_fewer_problems_than_a_step_takes(refused, example):
    words = ["train", example, "--set", "method=grpo", "--set", "train.problems_per_step=13"]
    refused(words, "there are only 12 problems")


def test_a_run_says_which_setting_changed_and_never_goes_back(dph, example, tmp_path):
    words = ("train", example, "--set", "method=grpo", "--out", tmp_path / "run")
    assert dph(*words)[0] == 0
    other = (*words, "--set", "train.learning_rate=0.1", "--set", "train.steps=9")
    code, _, err = dph(*other)
    assert code == 2
    assert err.endswith("(--out) [train.learning_rate was 1e-06, now 0.1]\n")
    before = sorted((tmp_path / "run").rglob("*"))
    code, _, err = dph("run", example, "--out", tmp_path / "run", "--set", "sampling.top_p=0.9")
    assert code == 2
    assert "sampling.top_p was 1.0, now 0.9; " in err
    assert "more]" in err
    assert sorted((tmp_path / "run").rglob("*")) == before
    assert_refused(dph(*words, "--set", "train.steps=2"), "already at step 4", "train.steps = 2")
