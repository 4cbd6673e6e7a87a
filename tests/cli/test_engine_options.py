"""Options of `dph run` for engines: each is a setting, and none does nothing."""

import json
import re
import sqlite3
from contextlib import closing
from math import prod
from pathlib import Path

import pytest
from transformers import Qwen2Config

from cli.test_gpu_recipes import save_header, save_tokenizer, weight_shapes
from dph._base.provenance import install_command
from dph.cli.run import engine_overrides, require_engine_of_options


def test_an_option_is_the_setting_that_it_stands_for():
    found = engine_overrides("verl", nodes=2, gpus=None, address="head:6379")
    assert found == ["train.engine=verl", "verl.nodes=2", "verl.address=head:6379"]
    assert engine_overrides(None, nodes=None) == []


def test_an_option_of_an_engine_that_does_not_run_is_refused(refusal, example, tmp_path):
    assert "--nodes 2 belongs to the engine verl; train.engine is 'own'" in refusal(
        "run", example, "--nodes", 2, "--out", tmp_path / "run"
    )
    assert not (tmp_path / "run").exists()
    require_engine_of_options("verl", nodes=2, gpus=None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--engine", "ray"), "train.engine: Input should be 'own' or 'verl'"),
        (("--engine", "trl"), "dph.engines.trl.DPHTrainer (docs/tutorials/trl.md)"),
        (("--engine", "verl", "--set", "train.shared_prompts=never"), "train.shared_prompts"),
        (("--engine", "verl", "--nodes", "2"), "verl.nodes = 2 needs a Ray cluster"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(
    refusal, example, tmp_path, options, said
):
    assert said in refusal("run", example, "--out", tmp_path / "run", *options)
    assert not (tmp_path / "run").exists()


def test_commands_for_a_cluster_are_printed_without_the_engine(
    dph, refusal, example, tmp_path, monkeypatch
):
    monkeypatch.setattr("dph.engines.stages.verl_stage.find_spec", lambda _: None)
    run = tmp_path / "run"
    words = ("run", example, "--out", run, "--engine", "verl")
    code, out, err = dph(*words, "--dry-run")
    assert code == 0, err
    assert out.startswith("# verl is not installed here")
    assert "python -P -m" in out.replace(" \\\n ", "")
    assert "dph.engines.verl.train" in out
    # What is named and not made by one of the commands is what a run writes first.
    first = next(line for line in out.splitlines() if line.startswith("# `dph run` writes"))
    read = re.findall(r"(?:--input |objective=)(\S+)", out)
    assert {Path(path).name for path in read} == {"problems.jsonl", "recipe.toml"}
    assert all(f"as {path}" in first for path in read)
    assert not run.exists()
    assert install_command("verl") in refusal(*words)
    assert not run.exists()


EIGHT = Path(__file__).parents[2] / "examples" / "verl" / "eight-gpus.toml"
CODER = Qwen2Config(
    vocab_size=152064,
    hidden_size=3584,
    intermediate_size=18944,
    num_hidden_layers=28,
    num_attention_heads=28,
    num_key_value_heads=4,
    max_position_embeddings=32768,
)


@pytest.fixture
def eight(dph, tmp_path):
    """What the check of the example of eight GPUs says, with model and data at hand."""
    shapes = weight_shapes(CODER)
    assert sum(map(prod, shapes.values())) == 7_615_616_512  # 7.6B, as its page says
    CODER.save_pretrained(tmp_path)
    save_header(tmp_path / "model.safetensors", shapes)
    save_tokenizer(tmp_path)
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as database:
        database.executescript("CREATE TABLE t (x INT);")
    row = {"prompt": " ".join(["word"] * 3000), "gold_sql": "SELECT 1", "database": "a.sqlite"}
    text = "".join(json.dumps(row | {"problem_id": str(n)}) + "\n" for n in range(128))
    (tmp_path / "train.jsonl").write_text(text)

    def check(*more):
        data = [f"data.train={tmp_path}/train.jsonl", f"data.databases={tmp_path}"]
        settings = [f"model.path={tmp_path}", *data, "data.sets={}", *more]
        words = ("recipe", "check", EIGHT, "--engine", "verl", "--device-memory", 80)
        return dph(*words, settings=settings)

    return check


def test_the_example_of_eight_gpus_says_what_each_of_them_holds(eight):
    code, out, err = eight()
    assert code == 0, err
    told = [line.strip() for line in out.splitlines() if "memory of each" in line]
    written = " ".join(line.removeprefix("# ") for line in EIGHT.read_text().splitlines())
    assert len(told) == 2
    for line in told:
        assert line in written, told
    # By hand: 16 bytes of each of 7.6e9 numbers, shared by eight, are 14.2 GiB.
    assert "weights 3.5 GiB, optimizer 7.1 GiB, gradients 3.5 GiB" in told[0]
    assert "vLLM 48.0 GiB" in told[1]


def test_one_gpu_is_too_few_and_a_setting_that_verl_refuses_is_named(eight):
    code, _, err = eight("verl.gpus=1")
    assert code == 2
    assert "share the weights among more GPUs (verl.gpus, verl.nodes)" in err
    code, _, err = eight("train.final_rate=0.5")
    assert code == 2
    assert "train.final_rate = 0.5 is not possible with train.engine = 'verl'" in err
