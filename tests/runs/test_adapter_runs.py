import re

import pyarrow.parquet as pq
import pytest
import torch

from dph._base.provenance import install_command
from dph.errors import SettingsError
from dph.model.loading import load_model
from dph.model.policies import load_policy
from dph.runs.prepare import prepare
from dph.runs.written_models import export, interpolated
from loop_parts import FORWARD
from run_stages import evaluated, presampled, trained
from scored_completions import score_completions

ADAPTER = {"adapter": {"kind": "lora", "rank": 4, "alpha": 8.0}}
KINDS = ("lora", pytest.param("dora", marks=pytest.mark.slow))

ROWS = [[3, 4, 5]] * 3, [[4, 5, 1], [3, 1], [5, 4, 3]]


def largest_gap(ours, theirs):
    pairs = zip(ours, theirs, strict=True)
    return max(abs(a - b) for x, y in pairs for a, b in zip(x, y, strict=True))


def with_adapter(kind):
    return {"adapter": {"kind": kind, "rank": 4, "alpha": 8.0}}


def train(recipe, run):
    """Train, on a pool of the run's own where the method needs one."""
    if recipe.needs_pool:
        presampled(recipe, run)
    return trained(recipe, run)


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_a_checkpoint_holds_the_adapter_and_no_weights_of_the_model(make_recipe, tmp_path):
    found = files(train(make_recipe("grpo", model=ADAPTER), tmp_path / "run").checkpoint)
    assert {"adapter_model.safetensors", "adapter_config.json", "adapter_base.json"} <= found.keys()
    assert "model.safetensors" not in found
    assert str(tmp_path).encode() not in b"".join(found.values())


def test_the_initial_policy_of_an_adapter_is_that_of_a_run_without_one(make_recipe, tmp_path):
    """The pool that a run without one made is taken, whose model is told by its weights."""
    presampled(make_recipe(), tmp_path / "plain")
    recipe = make_recipe(model=ADAPTER, presample={"pool": str(tmp_path / "plain" / "pool")})
    assert train(recipe, tmp_path / "adapted").step == 2
    assert not (tmp_path / "adapted" / "pool").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_model_answers_as_the_run_does(make_recipe, tmp_path, kind):
    recipe = make_recipe("grpo", model=with_adapter(kind), train={"learning_rate": 0.05})
    run = tmp_path / "run"
    checkpoint = train(recipe, run).checkpoint
    out = export(run, tmp_path / "exported")
    assert not (out / "adapter_config.json").exists()
    assert not (out / "optimizer.safetensors").exists()
    evaluated(recipe, run, model=checkpoint)
    evaluated(recipe, tmp_path / "plain", model=out)
    with prepare(recipe, run) as plan:
        adapted = load_policy(checkpoint, recipe.model, initial=plan.initial)
    tables = [pq.read_table(place / "samples.parquet") for place in (run, tmp_path / "plain")]
    greedy = [[r["text"] for r in t.to_pylist() if r["sample_index"] < 0] for t in tables]
    assert greedy[0] == greedy[1]
    assert greedy[0]
    base, plain = (load_model(path, device="cpu") for path in (tmp_path / "model", out))
    base, ours, theirs = (score_completions(m, *ROWS, **FORWARD) for m in (base, adapted, plain))
    assert largest_gap(ours, theirs) <= 1e-4
    assert largest_gap(ours, base) > 1e-2  # it has learnt something


def test_an_export_in_bfloat16_is_the_float32_one_rounded_once(make_recipe, tmp_path):
    run = tmp_path / "run"
    train(make_recipe("grpo", model=ADAPTER), run)
    exact, rounded = export(run, tmp_path / "a"), export(run, tmp_path / "b", weights="bfloat16")
    ours = load_model(rounded, device="cpu", weights="bfloat16").state_dict()
    for name, tensor in load_model(exact, device="cpu").state_dict().items():
        assert torch.equal(tensor.bfloat16(), ours[name])


def test_a_run_without_an_adapter_is_exported_as_it_is(make_recipe, tmp_path):
    run = tmp_path / "run"
    trained = train(make_recipe("grpo"), run)
    out = export(run, tmp_path / "out")
    assert files(out)["model.safetensors"] == files(trained.checkpoint)["model.safetensors"]
    with pytest.raises(SettingsError, match="already exists"):
        export(run, out)


def test_the_model_half_way_is_made_of_merged_weights(make_recipe, tmp_path):
    run = tmp_path / "run"
    train(make_recipe("grpo", model=ADAPTER), run)
    final = load_model(export(run, tmp_path / "out"), device="cpu").state_dict()
    base = load_model(tmp_path / "model", device="cpu").state_dict()
    half = load_model(interpolated(run, 0.5), device="cpu").state_dict()
    for name, tensor in half.items():
        assert torch.allclose(tensor, (base[name] + final[name]) / 2, atol=1e-6)


def test_without_peft_the_run_says_how_to_install_it(make_recipe, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    with pytest.raises(SettingsError, match=re.escape(install_command("peft"))):
        train(make_recipe("grpo", model=ADAPTER), tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()
