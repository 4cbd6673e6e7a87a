"""``dph export`` on runs of the example task."""

import json

import pytest

SHORT = ("method=grpo", "train.steps=1", "model.device=cpu", "train.learning_rate=0.05")
ADAPTER = "model.adapter={kind='lora', rank=2}"


@pytest.fixture
def trained(dph, example):
    """A run of one step, with an adapter or without."""

    def train(*settings):
        words = [word for setting in (*SHORT, *settings) for word in ("--set", setting)]
        code, _, err = dph("train", example, *words, "--out", "run")
        assert code == 0, err
        return example.parent.parent / "run"

    return train


def test_an_adapter_is_merged_and_the_model_evaluated_as_any_other(dph, trained, example, tmp_path):
    run = trained(ADAPTER)
    out = tmp_path / "models" / "merged"
    code, said, err = dph("export", run, "--out", out)
    assert (code, said, err) == (0, f"model: {out}\n", "")
    names = {path.name for path in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not names & {"adapter_config.json", "optimizer.safetensors", "trainer.json"}
    found = dph("recipe", "check", example, "--set", f"model.path={out}", "--json")[1]
    assert json.loads(found)["errors"] == []


def test_weights_are_saved_in_the_precision_that_is_asked_for(dph, trained, tmp_path):
    run, sizes = trained(), {}
    for weights in ("float32", "bfloat16"):
        out = tmp_path / weights
        code, said, _ = dph("export", run, "--out", out, "--weights", weights, "--json")
        assert (code, json.loads(said)) == (0, {"model": str(out), "weights": weights})
        sizes[weights] = (out / "model.safetensors").stat().st_size
        assert json.loads((out / "config.json").read_text())["dtype"] == weights
    assert sizes["bfloat16"] < 0.75 * sizes["float32"]  # half, and the same header
