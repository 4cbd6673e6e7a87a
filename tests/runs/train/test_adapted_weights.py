"""Runs whose terms go beyond log-probs of sampled tokens: the whole loop, on the letter task."""

import json
import math

import pytest

from dph.loss.objectives import make_objective
from dph.model.forward.logprobs import score_completions
from dph.recipe import ObjectiveSettings, resolve_recipe
from dph.runs.directory import latest_checkpoint
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.checkpoints import read_progress
from dph.runs.train.loop import train
from dph.runs.train.preparation import Actors
from dph.runs.train.tracking import read_metrics
from dph.runs.train.updating import first_weights, next_weights
from reproducible_log import reproducible_log

KEPT = {"divergence": "forward_kl", "weight": 0.15, "per_step": 2}
ANSWERS = [(2, 3, 4, 5, 1), (2, 4, 4, 6, 7, 1), (2, 5, 3, 1), (2, 3, 3, 8, 1)]


def make_recipe(method="grpo", *, objective=None, **settings):
    return resolve_recipe(
        {
            "method": method,
            "model": {"path": "letters", "dtype": "float32"},
            "data": {"train": "letters.jsonl"},
            "sampling": {"max_tokens": 8},
            "objective": objective or {},
            "train": {
                "steps": 3,
                "problems_per_step": 6,
                "samples_per_problem": 4,
                "learning_rate": 1e-2,
                "checkpoint_every": 1,
                "warmup_steps": 0,
                "minibatches": 2,
                **settings,
            },
        }
    )


@pytest.fixture
def start(make_model, make_draw, tokenizer, problems):
    """Train from the newest checkpoint in a directory, or from the initial weights."""
    initial = make_model()
    forward = {"temperature": 1.0, "pad_id": 0, "token_budget": 99, "dtype": "float32"}
    prompts, answers = [ids[:3] for ids in ANSWERS], [ids[3:] for ids in ANSWERS]
    samples = [
        RehearsalSample(
            problem_id="p",
            sample_index=0,
            prompt_ids=prompt,
            completion_ids=answer,
            ref_logprobs=logprobs,
            correct=8,
        )
        for prompt, answer, logprobs in zip(
            prompts, answers, score_completions(initial, prompts, answers, **forward), strict=True
        )
    ]

    def run(recipe, directory, on_step=lambda _: None):
        policy = make_model()
        checkpoint = latest_checkpoint(directory / "checkpoints")
        if checkpoint:
            policy = type(policy).from_pretrained(checkpoint)
        reference = make_model() if recipe.objective.needs_reference_model else None
        actors = Actors(
            policy=policy, tokenizer=tokenizer, reference=reference, draw=make_draw(policy)
        )
        rows = dict.fromkeys(recipe.objective.anchors, samples)
        return train(
            recipe,
            directory,
            actors,
            problems,
            rows,
            digest="d",
            loaded=checkpoint,
            on_step=on_step,
        )

    return run


@pytest.mark.parametrize(
    "method", ["entropy_bonus", "exact_rkl", "exact_fkl", "clip_cov", "kl_cov"]
)
def test_every_method_trains_and_reports(start, tmp_path, method):
    trained = start(make_recipe(method, steps=2), tmp_path)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert trained.step == 2
    assert all(line["grad_norm"] > 0 for line in lines)
    if method == "entropy_bonus":  # minus a mean entropy, of at most that of nine tokens
        assert all(-math.log(9) <= line["kl_penalty"] < 0 for line in lines)
    elif method != "clip_cov":
        assert lines[-1]["kl_penalty"] > 0


def test_metrics_and_checkpoints_without_such_terms_have_nothing_new(start, tmp_path):
    trained = start(make_recipe(steps=1), tmp_path)
    (line,) = read_metrics(tmp_path / "metrics.jsonl")
    assert not [key for key in line if key.startswith("eta_")]
    assert "weights" not in json.loads((trained.checkpoint / "trainer.json").read_text())


TARGET = {"anchors": {"kept": {**KEPT, "target": 0.001, "target_rate": 0.5, "weight_max": 0.4}}}


def test_the_weight_follows_its_target_and_is_reported(start, tmp_path):
    trained = start(make_recipe(objective=TARGET, minibatches=1), tmp_path)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    weight = 0.15
    for line in lines:
        assert line["eta_kept"] == pytest.approx(weight, rel=1e-12)
        off = min(2.0, line["divergence"] / 0.001) - 1
        weight = min(0.4, max(0.01, weight * math.exp(0.5 * off)))
    assert lines[1]["eta_kept"] == pytest.approx(0.15 * math.exp(-0.5), rel=1e-3)  # started at 0
    assert lines[2]["eta_kept"] != lines[1]["eta_kept"]
    assert read_progress(trained.checkpoint, digest="d").weights == {"kept": weight}


@pytest.mark.parametrize("killed_after", [2, 3])
def test_a_killed_run_ends_with_bit_identical_weights_and_metrics(start, tmp_path, killed_after):
    # a penalty that draws tokens, one over the vocabulary, and a weight that follows a target
    objective = {
        **TARGET,
        "surrogate": {"kind": "clip_cov", "share": 0.1, "cov_low": 1e-6},
        "penalties": {"wide": {"kind": "entropy", "weight": 0.01}},
    }
    recipe = make_recipe(objective=objective, checkpoint_every=1)
    whole = start(recipe, tmp_path / "whole")

    class Killed(BaseException):
        pass

    def kill(metrics):
        if metrics["step"] == killed_after:
            raise Killed

    with pytest.raises(Killed):
        start(recipe, tmp_path / "killed", on_step=kill)
    left = read_progress(latest_checkpoint(tmp_path / "killed" / "checkpoints"), digest="d")
    assert left.step == killed_after - 1  # a step is told before it is saved
    assert left.weights["kept"] != 0.15
    resumed = start(recipe, tmp_path / "killed")
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
