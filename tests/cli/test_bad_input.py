"""Whatever the user gets wrong: one line, exit code 2, no traceback, nothing left behind."""

import json
import os

import pytest
import torch
from transformers import AutoModelForCausalLM, T5Config


@pytest.fixture
def refused(refusal, example, tmp_path):
    """Run the words, expect one line that holds the parts, and no new file beside the task.

    A word with "=" is a setting, RECIPE the example's.
    """
    (tmp_path / "file").write_text("")

    def files():
        return {path for path in tmp_path.rglob("*") if "__pycache__" not in path.parts}

    def check(words, *parts):
        before = files()
        given = [example if word == "RECIPE" else word for word in words.split()]
        settings = [word for word in given if "=" in str(word)]
        said = refusal(*(word for word in given if word not in settings), settings=settings)
        assert all(part in said for part in parts), said
        assert files() == before

    return check


STEPZ = "unknown setting train.stepz; did you mean train.steps?"
NO_ROOM = "a prompt of 7 tokens and max_tokens = 30 exceed the model's context of 32"


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        *((f"{verb} nope.toml", ["cannot read the recipe nope.toml"]) for verb in ("run", "train")),
        *((f"{verb} RECIPE train.stepz=3", [STEPZ]) for verb in ("run", "evaluate")),
        *((f"recipe {verb} RECIPE train.stepz=3", [STEPZ]) for verb in ("check", "show")),
        ("run RECIPE train.steps=many", ["train.steps", "'many'"]),
        ("run RECIPE model.path=gone", ["gone is not a directory"]),
        ("presample RECIPE model.path=gone", ["gone is not a directory"]),
        ("train RECIPE model.path=gone", ["gone is not a directory"]),
        ("evaluate RECIPE --model task/model model.path=gone", ["gone is not a directory"]),
        ("train RECIPE data.train=gone.jsonl", ["there is no file", "gone.jsonl"]),
        ("run RECIPE data.sets.more=gone.jsonl", ["there is no file", "gone.jsonl"]),
        ("run RECIPE evaluate.k=[1,17]", ["got k=17, samples=16"]),
        ("run RECIPE --out file/run", ["cannot write into", "is a file"]),
        ("evaluate RECIPE --out file/run", ["cannot write into", "is a file"]),
        ("run RECIPE data.verifier=sq", ["there is no verifier 'sq'"]),
        ("run RECIPE data.verifier=verifier:marks", ["verifier:marks"]),
        ("train RECIPE", ["there is no pool", "dph presample"]),
        ("presample RECIPE presample.pool=task/model", ["files but no pool", "presample.pool"]),
        ("run RECIPE presample.pool=task/model", ["holds files but no pool", "presample.pool"]),
        ("run RECIPE presample.pool=task/recipe.toml", ["it is a file"]),
        ("presample RECIPE sampling.max_tokens=30", [NO_ROOM]),
        ("train RECIPE method=grpo sampling.max_tokens=30", ["exceed the model's context of 32"]),
        ("run RECIPE evaluate.max_tokens=30", ["context of 32"]),
        ("evaluate RECIPE --model task/model evaluate.max_tokens=30", ["context of 32"]),
        ("presample RECIPE data.chat=true", ["has no chat template"]),
        ("presample RECIPE data.databases=gone", ["is not a directory", "gone"]),
        ("train RECIPE method=grpo train.problems_per_step=13", ["there are only 12 problems"]),
        *((f"run RECIPE name='{name}'", ["name:", f"'{name}'"]) for name in (".", "..", "a/b", "")),
        ("quickstart --methods grpo,dph_x", ["unknown method 'dph_x'"]),
        ("quickstart --methods ,", ["at least one method"]),
        ("quickstart --out file/q", ["is a file"]),
        ("run", ["give a recipe, or --model with --train and --verifier", "--help"]),
        ("runn", ["No such command 'runn'", "--help"]),
        ("run r.toml --nope", ["No such option", "--help"]),
        ("run r.toml --seed x", ["--seed", "--help"]),
        ("run r.toml --seed -1", ["--seed", "--help"]),
        ("compare", ["Missing argument 'RUN'", "--help"]),
    ],
)
def test_what_is_typed_wrong(refused, words, parts):
    refused(words, *parts)


@pytest.mark.parametrize(
    ("name", "content", "verb", "parts"),
    [
        ("recipe.toml", "method = ", "run", ["recipe.toml is not valid TOML"]),
        ("problems.jsonl", "\n", "run", ["problems.jsonl holds no problems"]),
        ("problems.jsonl", "{\n", "presample", ["line 1: not valid JSON"]),
        ("verifier.py", "raise SystemExit(7)", "run", ["cannot import 'verifier'", "Exit: 7"]),
    ],
)
def test_a_file_that_holds_something_else(refused, example, name, content, verb, parts):
    (example.parent / name).write_text(content)
    refused(f"{verb} RECIPE", *parts)


def test_a_model_without_an_end_token_or_that_is_no_decoder_before_its_data(refused, example):
    path = example.parent / "model" / "tokenizer_config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"eos_token": None}))
    refused("run RECIPE", "has no eos token")
    T5Config().save_pretrained(example.parent / "model")
    (example.parent / "problems.jsonl").write_text("no problems")
    refused("run RECIPE", "t5 is an encoder-decoder, not a causal model")


def test_a_read_only_directory_is_told_by_the_system(refused, monkeypatch):
    monkeypatch.setattr(os, "access", lambda _, mode: mode == os.R_OK)
    refused("run RECIPE", "cannot write into the directory", "is read-only")


def test_an_evaluation_is_refused_before_the_training_and_not_after_it(refused, example):
    table = example.read_text().replace("[sampling]", "{}\n[sampling]")
    for setting in ("verifier", "styles"):
        own = f'sets.own = {{path = "problems.jsonl", {setting} = "no_such_module_z:f"}}\n'
        example.write_text(table.format(own))
        refused("run RECIPE", "no_such_module_z")


def test_a_pool_of_another_model(dph, refusal, example, tmp_path):
    run = tmp_path / "run"
    assert dph("presample", example, "--out", run)[0] == 0
    model = AutoModelForCausalLM.from_pretrained(example.parent / "model")
    with torch.no_grad():
        model.lm_head.weight += 0.01
    model.save_pretrained(example.parent / "model")
    for verb in ("presample", "train", "run"):
        assert "model fingerprint was" in refusal(verb, example, "--out", run)
    assert sorted(path.name for path in run.iterdir()) == [".lock", "pool", "pool.seconds.json"]


def test_no_command_at_all_shows_the_help(dph):
    code, out, err = dph()
    assert (code, out) == (2, "")
    assert "quickstart" in err


def test_a_run_says_which_setting_changed_and_never_goes_back(dph, refusal, example, tmp_path):
    words = ("train", example, "--set", "method=grpo", "--out", tmp_path / "run")
    assert dph(*words)[0] == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    other = (*words[1:], "--set", "train.learning_rate=0.1")
    assert "made with other settings" in refusal("run", *other)
    said = refusal("train", *other, settings=["train.steps=9"])
    assert said.endswith("(--out) [train.learning_rate was 1e-06, now 0.1]")
    said = refusal("run", example, "--out", tmp_path / "run", settings=["sampling.top_p=0.9"])
    assert "sampling.top_p was 1.0, now 0.9; " in said
    assert "more]" in said
    said = refusal(*words, settings=["train.steps=2"])
    assert "already at step 4" in said
    assert "train.steps = 2" in said
    assert {p: p.read_bytes() for p in before} == before
    assert {p for p in (tmp_path / "run").rglob("*") if p.is_file()} == before.keys()
