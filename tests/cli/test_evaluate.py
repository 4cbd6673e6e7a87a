"""``dph evaluate``, ``export``, ``interpolate``, ``card`` and ``push``."""

import json
import shutil

import pyarrow.parquet as pq
import pytest

from finished_runs import *  # noqa: F403
from hub_fixtures import *  # noqa: F403

FEW = ("evaluate.samples=2", "evaluate.k=[1]", "evaluate.retention_k=1")


def test_the_newest_checkpoint_is_evaluated(dph, document, example, tmp_path):
    trained = tmp_path / "run"
    settings = ("method=grpo", *FEW)
    assert dph("train", example, "--out", trained, settings=settings)[0] == 0
    content = document("evaluate", example, "--out", trained, settings=settings)
    assert content["schema"] == 2
    assert content["sets"]["train"]["problems"] == 12
    assert json.loads((trained / "evaluation.json").read_text()) == content
    assert (trained / "samples.parquet").is_file()


def test_the_initial_policy_is_measured_beside_the_run(dph, example, tmp_path):
    words = ("evaluate", example, "--model", example.parent / "model", "--out", tmp_path / "run")
    code, out, _ = dph(*words, settings=FEW)
    assert code == 0
    assert "pass@1" in out
    code, out, err = dph("evaluate", example, "--out", tmp_path / "run", "--json", settings=FEW)
    content = json.loads(out)
    assert code == 0, err
    assert "no checkpoint in" in err
    assert content == json.loads((tmp_path / "run" / "base" / "evaluation.json").read_text())
    assert content["model"] == str(example.parent / "model")
    assert not (tmp_path / "run" / "evaluation.json").exists()


def test_models_of_one_name_are_measured_side_by_side(dph, example, tmp_path):
    run = tmp_path / "run"
    for name in ("first", "second"):
        place = tmp_path / name / "checkpoints" / "step_000004"
        shutil.copytree(example.parent / "model", place)
    documents = {}
    for name in ("first", "second", "first"):  # again: what is measured is kept
        model = tmp_path / name / "checkpoints" / "step_000004"
        words = ("evaluate", example, "--out", run, "--model", model, "--json")
        code, out, err = dph(*words, settings=FEW)
        assert code == 0, err
        documents[name] = json.loads(out)
    places = {p.name: json.loads((p / "evaluation.json").read_text()) for p in _measured(run)}
    assert places == {"step_000004": documents["first"], "second-step_000004": documents["second"]}
    made_from = json.loads((run / "models" / "second-step_000004" / "model.json").read_text())
    assert made_from["path"] == str(tmp_path / "second" / "checkpoints" / "step_000004")


def test_what_is_refused_claims_no_place_and_measures_no_initial_policy(
    dph, refusal, example, tmp_path
):
    shutil.copytree(example.parent / "model", tmp_path / "other")
    words = ("evaluate", example, "--out", tmp_path / "run", "--model", tmp_path / "other")
    code, _, err = dph(*words, "--set", "evaluate.max_tokens=30")
    assert code == 2, err
    assert not (tmp_path / "run" / "models").exists()
    broken = shutil.copytree(example.parent / "model", tmp_path / "broken")
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    assert str(broken) in refusal("evaluate", example, "--model", broken, "--out", tmp_path / "run")
    assert not list((tmp_path / "run").rglob("samples.parquet"))


def test_answers_that_were_all_cut_off_are_warned_of_once(dph, example, tmp_path):
    words = ("evaluate", example, "--out", tmp_path / "run", "--set", "evaluate.max_tokens=1")
    code, _, err = dph(*words, settings=FEW)
    assert code == 0
    assert err.count("were cut off at max_tokens = 1:") == 1
    assert "the set 'train'" in err
    code, _, err = dph("evaluate", example, "--out", tmp_path / "other", settings=FEW)
    assert "cut off" not in err


def _measured(run):
    return sorted(path.parent for path in run.glob("models/*/evaluation.json"))


@pytest.fixture
def trained(dph, example, tmp_path):
    run = tmp_path / "run"
    learns = ("method=grpo", "train.learning_rate=0.03")
    few = ("evaluate.samples=4", "evaluate.k=[1, 4]", "evaluate.retention_k=2")
    assert dph("train", example, "--out", run, settings=(*learns, *few))[0] == 0
    return run


def answers(directory):
    """Greedy and sampled ones, in order."""
    return pq.read_table(directory / "samples.parquet").column("text").to_pylist()


def test_every_model_is_made_measured_and_set_beside_base_and_run(dph, trained):
    code, out, _ = dph("interpolate", trained, "--weights", "0,0.3,1")
    assert code == 0
    for weight in ("0", "0.3", "1"):
        place = trained / "interpolated" / weight
        for name in ("config.json", "model.safetensors", "evaluation.json", "samples.parquet"):
            assert (place / name).is_file()
        assert f"{weight}: {place}" in out
    styles = out[out.index("effective styles") :].splitlines()[2:7]
    names = ["base", "0", "0.3", "1", "run"]
    assert [next(name for name in names if name in line.split()) for line in styles] == names
    # The ends of the line answer as base and run do.
    assert answers(trained / "interpolated" / "1") == answers(trained)
    assert answers(trained / "interpolated" / "0") == answers(trained / "base")
    assert answers(trained) != answers(trained / "base")
    samples = trained / "interpolated" / "0.3" / "samples.parquet"
    before = samples.stat().st_mtime_ns
    code, out, _ = dph("interpolate", trained, "--weights", "0.3", "--json")
    assert (code, samples.stat().st_mtime_ns) == (0, before)  # what is measured is kept
    content = json.loads(out)
    (third,) = content["interpolated"]
    assert (third["weight"], third["directory"]) == (0.3, str(samples.parent))
    for said, directory in (
        (third["evaluation"], samples.parent),
        (content["base"], trained / "base"),
        (content["evaluation"], trained),
    ):
        assert said == json.loads((directory / "evaluation.json").read_text())
    assert list(content["comparison"]["labels"].values()) == ["base", "0.3", "run"]


def test_settings_can_be_overridden_and_an_unfinished_run_is_told(document, trained, caplog):
    settings = ("evaluate.samples=2", "evaluate.k=[1]", "evaluate.retention_k=1", "train.steps=9")
    found = document("interpolate", trained, "--weights", "0.5", settings=settings)
    assert found["interpolated"][0]["evaluation"]["samples"] == 2
    (message,) = caplog.messages
    assert f"{trained} is unfinished, after 4 of 9 steps" in message


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
