import json
import math

import pytest

from dph.loss.objectives import make_objective
from dph.model.forward.logprobs import score_completions
from dph.recipe import ObjectiveSettings
from dph.runs.directory import latest_checkpoint
from dph.runs.train.checkpoints import read_progress
from dph.runs.train.tracking import read_metrics
from dph.runs.train.updating import first_weights, next_weights
from loop_parts import FORWARD, Killed, killed_after, letters_recipe, stored_answer
from reproducible_log import reproducible_log

KEPT = {"divergence": "forward_kl", "weight": 0.15, "per_step": 2}
ANSWERS = [(3, 4, 5, 1), (4, 4, 6, 7, 1), (5, 3, 1), (3, 3, 8, 1)]


def make_recipe(objective, **settings):
    train = {"steps": 3, "problems_per_step": 6, "warmup_steps": 0, "minibatches": 2, **settings}
    return letters_recipe(objective=objective, train=train)


@pytest.fixture
def rows(make_model):
    """Stored answers for the anchor ``kept``."""
    prompts, answers = [(2, *ids[:2]) for ids in ANSWERS], [ids[2:] for ids in ANSWERS]
    scores = score_completions(make_model(), prompts, answers, **FORWARD)
    pairs = zip(prompts, answers, scores, strict=True)
    return {"kept": [stored_answer(ids, ref, prompt=prompt) for prompt, ids, ref in pairs]}


def test_metrics_and_checkpoints_without_such_terms_have_nothing_new(start, tmp_path):
    trained = start(make_recipe({}, steps=1), tmp_path)
    (line,) = read_metrics(tmp_path / "metrics.jsonl")
    assert not [key for key in line if key.startswith("eta_")]
    assert "weights" not in json.loads((trained.checkpoint / "trainer.json").read_text())


TARGET = {"anchors": {"kept": {**KEPT, "target": 0.001, "target_rate": 0.5, "weight_max": 0.4}}}


def test_the_weight_follows_its_target_and_is_reported(start, rows, tmp_path):
    trained = start(make_recipe(TARGET, minibatches=1), tmp_path, stored=rows)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    weight = 0.15
    for line in lines:
        assert line["eta_kept"] == pytest.approx(weight, rel=1e-12)
        off = min(2.0, line["divergence"] / 0.001) - 1
        weight = min(0.4, max(0.01, weight * math.exp(0.5 * off)))
    assert lines[1]["eta_kept"] == pytest.approx(0.15 * math.exp(-0.5), rel=1e-3)  # started at 0
    assert lines[2]["eta_kept"] != lines[1]["eta_kept"]
    assert read_progress(trained.checkpoint, digest="d").weights == {"kept": weight}


@pytest.mark.parametrize("step", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_killed_run_ends_with_bit_identical_weights_and_metrics(start, rows, tmp_path, step):
    # a penalty that draws tokens, one over the vocabulary, and a weight that follows a target
    objective = {
        **TARGET,
        "surrogate": {"kind": "clip_cov", "share": 0.1, "cov_low": 1e-6},
        "penalties": {"wide": {"kind": "entropy", "weight": 0.01}},
    }
    recipe = make_recipe(objective)
    whole = start(recipe, tmp_path / "whole", stored=rows)
    with pytest.raises(Killed):
        start(recipe, tmp_path / "killed", stored=rows, on_step=killed_after(step))
    left = read_progress(latest_checkpoint(tmp_path / "killed" / "checkpoints"), digest="d")
    assert left.step == step - 1  # a step is told before it is saved
    assert left.weights["kept"] != 0.15
    resumed = start(recipe, tmp_path / "killed", stored=rows)
    for name in ("model.safetensors", "optimizer.safetensors", "trainer.json"):
        assert (resumed.checkpoint / name).read_bytes() == (whole.checkpoint / name).read_bytes()
    assert reproducible_log(tmp_path / "killed") == reproducible_log(tmp_path / "whole")


def test_only_anchors_with_a_target_adapt_their_weight():
    anchors = {"one": {**KEPT, "target": 0.1}, "two": {**KEPT, "weight": 0.3}}
    objective = make_objective(ObjectiveSettings(anchors=anchors))
    first = first_weights(objective)
    assert first == {"one": 0.15}
    rows = {"one": (0,), "two": (0,)}
    after = next_weights(objective, first, {"one": 0.2, "two": 9.0}, rows)
    assert after == {"one": pytest.approx(0.15 * math.exp(0.2))}
    weights = {n: a.weight for n, a in objective.with_weights(after).anchors.items()}
    assert weights == {"one": after["one"], "two": 0.3}
    assert objective.anchors["one"].weight == 0.15
    # Without a stored row the value of a term is 0, which measures nothing.
    assert next_weights(objective, after, {"one": 0.0, "two": 0.0}, {**rows, "one": ()}) == after
