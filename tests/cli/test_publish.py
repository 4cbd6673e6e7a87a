import json

import pytest

from finished_runs import *  # noqa: F403
from hub_fixtures import *  # noqa: F403


def test_a_card_is_written_and_nothing_is_sent(dph, hub, finished, tmp_path):
    code, out, err = dph("card", finished, "--out", tmp_path / "card.md")
    assert (code, err) == (0, "")
    assert out == f"card: {tmp_path / 'card.md'}\n"
    assert "## Measured" in (tmp_path / "card.md").read_text()
    assert hub.requests == []


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
def test_a_run_is_pushed_and_its_address_printed(dph, hub, finished, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_loopback")
    code, out, _ = dph("push", finished, "me/words", "--json")
    assert code == 0
    assert json.loads(out)["commit"].startswith(f"{hub.url}/me/words/commit/")
    assert "README.md" in hub.files("me/words")


def test_a_card_without_a_base_shows_the_run_alone_and_says_so(dph, finished):
    (finished / "base" / "evaluation.json").unlink()
    code, _, err = dph("card", finished)
    card = (finished / "README.md").read_text()
    assert code == 0
    assert "no evaluation of the initial policy org/base" in err
    assert "| GRPO | 40.0" in card
    assert "Base model" not in card


def test_an_adapter_is_merged_and_the_model_evaluated_as_any_other(
    dph, document, example, tmp_path
):
    run = tmp_path / "run"
    settings = ("method=grpo", "train.steps=1", "model.adapter={kind='lora', rank=2}")
    code, _, err = dph("train", example, "--out", run, settings=settings)
    assert code == 0, err
    out = tmp_path / "models" / "merged"
    code, said, err = dph("export", run, "--out", out)
    assert (code, said, err) == (0, f"model: {out}\n", "")
    names = {path.name for path in out.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names
    assert not names & {"adapter_config.json", "optimizer.safetensors", "trainer.json"}
    assert document("recipe", "check", example, settings=[f"model.path={out}"])["errors"] == []
    half = ("--out", tmp_path / "half", "--weights", "bfloat16", "--json")
    code, said, _ = dph("export", run, *half)
    assert (code, json.loads(said)["weights"]) == (0, "bfloat16")
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "bfloat16"
