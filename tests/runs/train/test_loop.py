import json
import logging
import math
import os
import signal
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from dph.errors import CheckpointError, PoolError, SettingsError, TrainingError, VerifierError
from dph.records import Outcome, Verdict
from dph.runs.directory import latest_checkpoint
from dph.runs.presample.pool import load_pool
from dph.runs.presample.presample import presample
from dph.runs.train.checkpoints import Progress, RunCheckpoints
from dph.runs.train.collect import NoSignalError, collect
from dph.runs.train.policy_rows import require_reference
from dph.runs.train.tracking import read_metrics
from letter_task import GRADING, LetterVerifier
from loop_parts import (
    Killed,
    completion,
    killed_after,
    letters_recipe,
    stored_answer,
    training_forward,
)
from reproducible_log import reproducible_log

METHODS = ["grpo", "dapo", "rkl", "alpha", "dph_f", "dph_js", "dph_js_definition"]
METHODS += ["entropy_bonus", "exact_rkl", "exact_fkl"]
ADVANTAGES = ["maxrl", "f_grpo", "ucpo", "pass_at_k", "pkpo", "differential_smoothing"]
ADVANTAGES += ["flowrl"]


def make_recipe(method, **train):
    k = {"advantage": {"k": 2}} if method in ("pass_at_k", "pkpo") else {}
    train = {"rehearsal_per_step": 3, "warmup_steps": 2, **train}
    return letters_recipe(method, objective=k, train=train)


@pytest.fixture(scope="module")
def pool(tmp_path_factory, make_model, make_draw, make_source, make_reference, rule, problems):
    model, path = make_model(), tmp_path_factory.mktemp("made") / "pool"
    presample(
        problems,
        path,
        draw=make_draw(model),
        reference=make_reference(model),
        source=make_source(model),
        grading=GRADING,
        rule=rule,
    )
    return load_pool(path)


@pytest.fixture
def rehearse(start, pool):
    """Train with a pool that was made before."""

    def run(recipe, directory, **more):
        explored = pool.exploration if recipe.train.problems == "exploration" else None
        stored = {"rehearsal": pool.rehearsal}
        return start(recipe, directory, stored=stored, explored=explored, **more)

    return run


def weights(checkpoint):
    return (checkpoint / "model.safetensors").read_bytes()


@pytest.mark.parametrize("method", [*METHODS, *ADVANTAGES])
def test_every_method_trains_and_reports(rehearse, tmp_path, method):
    trained = rehearse(make_recipe(method, steps=2), tmp_path)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    assert trained.step == 2
    assert not trained.stopped
    for line in lines:
        assert math.isfinite(line["policy_loss"])
        assert line["grad_norm"] > 0
        assert 1 <= line["effective_styles"] <= 2
        assert line["peak_memory"] > 0
    has_rehearsal = method in ("alpha", "dph_f", "dph_js", "dph_js_definition")
    assert any(line["divergence"] > 0 for line in lines) == has_rehearsal
    has_penalty = method in ("rkl", "exact_rkl", "exact_fkl")
    assert any(line["kl_penalty"] > 0 for line in lines) == has_penalty


@pytest.mark.slow
def test_every_advantage_is_another_method_than_grpo(rehearse, tmp_path):
    ends = {}
    for method in ("grpo", *ADVANTAGES):
        recipe = make_recipe(method, problems_per_step=12, steps=2)
        ends[method] = weights(rehearse(recipe, tmp_path / method).checkpoint)
    same = [(a, b) for a in ends for b in ends if a < b and ends[a] == ends[b]]
    assert same == []


@pytest.mark.slow
def test_reward_rises(start, tmp_path):
    longer = {"steps": 25, "problems_per_step": 12, "samples_per_problem": 8}
    start(make_recipe("grpo", checkpoint_every=25, **longer), tmp_path)
    rewards = [line["reward"] for line in read_metrics(tmp_path / "metrics.jsonl")]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.2


@pytest.mark.parametrize(
    ("method", "step"),
    [
        ("dph_f", 3),
        ("flowrl", 1),
        *(
            pytest.param(method, step, marks=pytest.mark.slow)
            for method, step in (("dapo", 1), ("dph_js", 3), ("ucpo", 3), ("pkpo", 1))
        ),
    ],
)
def test_a_killed_run_ends_with_bit_identical_weights_and_metrics(rehearse, tmp_path, method, step):
    recipe = make_recipe(method, checkpoint_every=2)
    whole = rehearse(recipe, tmp_path / "whole")
    with pytest.raises(Killed):
        rehearse(recipe, tmp_path / "killed", on_step=killed_after(step))
    resumed = rehearse(recipe, tmp_path / "killed")
    for name in ("model.safetensors", "optimizer.safetensors"):
        assert (resumed.checkpoint / name).read_bytes() == (whole.checkpoint / name).read_bytes()
    assert reproducible_log(tmp_path / "killed") == reproducible_log(tmp_path / "whole")


def test_weights_of_another_checkpoint_are_refused_before_trackers(start, tmp_path, monkeypatch):
    start(make_recipe("grpo", steps=2), tmp_path)  # while this one loaded the initial policy
    monkeypatch.setattr("dph.runs.train.loop.open_trackers", lambda *_: pytest.fail("started"))
    with pytest.raises(CheckpointError, match=r"another process trained in .*: start it again"):
        start(make_recipe("grpo", steps=4), tmp_path, loaded=None)
    assert latest_checkpoint(tmp_path / "checkpoints").name == "step_000002"


def test_a_half_written_checkpoint_is_not_seen(tmp_path):
    for name in ("step_000002", ".step_000009.tmp"):
        (tmp_path / name).mkdir()
    assert latest_checkpoint(tmp_path).name == "step_000002"


@pytest.fixture
def checkpoints(make_model, tokenizer, tmp_path):
    model = make_model()
    parts = model, tokenizer, torch.optim.AdamW(model.parameters())
    recipe = make_recipe("grpo", keep_checkpoints=2)
    return RunCheckpoints(tmp_path, recipe, *parts, verifier=LetterVerifier(), digest="d")


def test_the_millionth_step_is_newer_than_the_one_before(checkpoints, tmp_path):
    for step in (999_998, 999_999, 1_000_000):
        checkpoints.save(Progress(step=step))
    assert latest_checkpoint(tmp_path) == tmp_path / "step_1000000"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_1000000", "step_999999"]


def test_a_damaged_checkpoint_is_refused(start, tmp_path):
    state = start(make_recipe("grpo", steps=2), tmp_path).checkpoint / "optimizer.safetensors"
    longer, intact = make_recipe("grpo", steps=3), load_file(state)
    for old, new, message in [
        ("exp_avg", "average", r"lacks exp_avg \(it has average, exp_avg_sq, step\)"),
        ("exp_avg_sq", "square", "lacks exp_avg_sq"),
        ("0.step", "first", "'first' is not the name of an optimizer's state"),
    ]:
        renamed = {
            new if key == old else f"{index}.{new}" if name == old else key: tensor
            for key, tensor in intact.items()
            for index, _, name in [key.partition(".")]
        }
        save_file(renamed, state)
        with pytest.raises(CheckpointError, match=rf"is damaged: .*{message}"):
            start(longer, tmp_path)
    for name, content in (("optimizer.safetensors", "x"), ("trainer.json", "{}")):
        state.with_name(name).write_text(content)
        with pytest.raises(CheckpointError, match="is damaged"):
            start(longer, tmp_path)


def test_stored_log_probs_of_another_policy_are_refused_before_the_first_step(rehearse, tmp_path):
    with pytest.raises(PoolError, match="not this policy's"):
        rehearse(make_recipe("dph_f"), tmp_path, seed=1)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_of_a_large_pool_an_even_sample_is_checked(make_model, monkeypatch):
    seen = []

    def score(self, model, prompts, *args, **kwargs):  # noqa: ARG001
        seen.append(len(prompts))
        return [(0.25,)] * len(prompts)

    monkeypatch.setattr("dph.runs.train.policy_rows.CHECKED", 10)
    monkeypatch.setattr("dph.model.forward.scorer.AnswerScorer.logprobs", score)
    forward = training_forward(make_model())
    for size in (1, 10, 11, 95):
        with pytest.raises(PoolError, match=r"step 0 is 0\.25 nats a token"):
            require_reference([stored_answer((3,), (0.0,))] * size, forward)
    assert seen == [1, 10, 6, 10]


def test_nothing_to_rehearse_and_too_few_problems_are_refused(start, tmp_path):
    with pytest.raises(PoolError, match="no rehearsal sample"):
        start(make_recipe("dph_f"), tmp_path, stored={"rehearsal": ()})
    with pytest.raises(SettingsError, match="only 24 problems"):
        start(make_recipe("grpo", problems_per_step=25), tmp_path)


def test_a_loss_that_is_not_finite_stops_the_run_and_leaves_its_rows(start, tmp_path, monkeypatch):
    def poison(lengths, **_):
        return torch.full(lengths.shape, math.nan)

    monkeypatch.setattr("dph.runs.train.updating.row_weights", poison)
    with pytest.raises(TrainingError, match="step 1: the loss is not finite"):
        start(make_recipe("grpo"), tmp_path)
    saved = json.loads((tmp_path / "failed_batch_step_000001.json").read_text())
    assert saved["step"] == 1
    assert saved["rows"][0]["weight"] == "nan"
    assert saved["rows"][0]["completion_ids"]
    assert latest_checkpoint(tmp_path / "checkpoints") is None


def test_dynamic_sampling_without_any_signal_is_an_error(start, tmp_path):
    always_right = ending(Outcome.CORRECT, sampler=FinishedSampler())
    with pytest.raises(TrainingError, match=r"none of \d+ groups holds both right and wrong"):
        start(make_recipe("dapo"), tmp_path, change=always_right)


def test_ctrl_c_ends_at_a_checkpoint_of_the_last_finished_step(start, tmp_path):
    recipe = make_recipe("grpo", checkpoint_every=100)

    def interrupt(metrics):
        if metrics["step"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    stopped = start(recipe, tmp_path / "stopped", on_step=interrupt)
    assert (stopped.stopped, stopped.step, stopped.checkpoint.name) == (True, 3, "step_000003")
    whole = start(recipe, tmp_path / "whole")
    assert weights(start(recipe, tmp_path / "stopped").checkpoint) == weights(whole.checkpoint)


def test_ctrl_c_between_checkpoint_and_next_step_loses_nothing(start, tmp_path, monkeypatch):
    # Asked after a step, and before the next one.
    answers = iter([False, False, False, False, True])

    @contextmanager
    def asked():
        yield lambda: next(answers)

    monkeypatch.setattr("dph.runs.train.loop.asked_to_stop", asked)
    stopped = start(make_recipe("grpo", checkpoint_every=100), tmp_path)
    assert (stopped.step, stopped.checkpoint.name) == (2, "step_000002")


def test_a_checkpoint_on_a_full_disk_is_an_error_and_leaves_nothing(
    checkpoints, tmp_path, monkeypatch
):
    def fail(*_args, **_kwargs):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr("dph.runs.train.optimizer.save_file", fail)
    with pytest.raises(TrainingError, match="step_000000: No space left on device"):
        checkpoints.save(Progress())
    assert list(tmp_path.iterdir()) == []


class FinishedSampler:
    """Every answer is one letter and the end."""

    def sample(self, requests, *_, **__):
        return [
            [completion((3, 1), problem=r.problem_id, index=i, text="a") for i in range(r.samples)]
            for r in requests
        ]


class EndingVerifier:
    """Grades a few answers as the letter task does, and ends all others in one outcome."""

    name, version = "ending", "1"

    def __init__(self, inner, outcome, after=0):
        self.inner, self.outcome, self.left = inner, outcome, after

    def grade(self, problems, responses):
        self.left -= len(responses)
        if self.left >= 0:
            return self.inner.grade(problems, responses)
        reward = float(self.outcome is Outcome.CORRECT)
        return [Verdict(outcome=self.outcome, reward=reward, reason="as told")] * len(responses)

    def close(self):
        pass


def ending(outcome, **more):
    """Changes a sampler so that all of its answers end so."""
    return lambda draw: replace(draw, verifier=EndingVerifier(draw.verifier, outcome), **more)


def test_a_verifier_that_breaks_ends_the_run_with_the_finished_steps_saved(
    start, tmp_path, monkeypatch
):
    recipe, made = make_recipe("grpo", steps=3, checkpoint_every=100), []
    whole = start(recipe, tmp_path / "whole")

    def breaks(draw):
        made.append(EndingVerifier(draw.verifier, Outcome.CRASHED, after=10**6))
        return replace(draw, verifier=made[0], crash_limit=0.5)

    def breaking(*args, step, **rest):
        made[0].left -= 10**6 * (step == 3)
        return collect(*args, step=step, **rest)

    def empty(*args, step, **rest):
        if step == 3:
            raise NoSignalError("none")
        return collect(*args, step=step, **rest)

    with monkeypatch.context() as patch:
        patch.setattr("dph.runs.train.loop.collect", breaking)
        with pytest.raises(VerifierError, match="'ending' crashed on"):
            start(recipe, tmp_path / "run", change=breaks)
        patch.setattr("dph.runs.train.loop.collect", empty)
        with pytest.raises(NoSignalError):
            start(recipe, tmp_path / "empty")
    assert latest_checkpoint(tmp_path / "empty" / "checkpoints").name == "step_000002"
    assert latest_checkpoint(tmp_path / "run" / "checkpoints").name == "step_000002"
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2]
    again = start(recipe, tmp_path / "run")
    assert weights(again.checkpoint) == weights(whole.checkpoint)


def test_a_verifier_that_breaks_in_the_first_step_leaves_no_checkpoint(start, tmp_path):
    with pytest.raises(VerifierError):
        start(make_recipe("grpo"), tmp_path, change=ending(Outcome.CRASHED, crash_limit=0.5))
    assert latest_checkpoint(tmp_path / "checkpoints") is None


def test_a_verifier_that_always_says_the_same_and_no_other_is_told_of_once(start, tmp_path, caplog):
    late = ending(Outcome.TIMED_OUT, sampler=FinishedSampler())
    with caplog.at_level(logging.WARNING, logger="dph.runs.train.loop"):
        start(make_recipe("grpo", steps=1), tmp_path / "both")
        assert not [r for r in caplog.records if "answers are" in r.getMessage()]
        start(make_recipe("grpo", steps=2), tmp_path / "one", change=late)
    (said,) = [r.getMessage() for r in caplog.records if r.name == "dph.runs.train.loop"]
    assert said.startswith("step 1: all 16 answers are TIMED_OUT")
