"""The loop as a whole, on the letter task."""

import json
import logging
import math
import os
import shutil
import signal
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from dph.errors import CheckpointError, PoolError, SettingsError, TrainingError, VerifierError
from dph.recipe import resolve_recipe
from dph.records import Completion, Outcome, Verdict
from dph.runs.directory import latest_checkpoint
from dph.runs.presample.pool import load_pool, read_base_counts
from dph.runs.presample.presample import presample
from dph.runs.presample.tables import RehearsalSample
from dph.runs.train.checkpoints import Progress, save_checkpoint
from dph.runs.train.collect import collect
from dph.runs.train.loop import Actors, train
from dph.runs.train.preparation import mean_reference_gap
from dph.runs.train.tracking import read_metrics
from dph.runs.train.updating import TrainingForward
from letter_task import GRADING
from reproducible_log import reproducible_log

METHODS = ["grpo", "dapo", "rkl", "alpha", "dph_f", "dph_js", "dph_js_definition", "dyjr"]
ADVANTAGES = ["maxrl", "f_grpo", "ucpo", "pass_at_k", "pkpo", "differential_smoothing"]
ADVANTAGES += ["bbg", "alpha_dpg", "flowrl"]


def make_recipe(method, **train_settings):
    return resolve_recipe(
        {
            "method": method,
            "objective": {"advantage": {"k": 2}} if method in ("pass_at_k", "pkpo") else {},
            "model": {"path": "letters", "dtype": "float32"},
            "data": {"train": "letters.jsonl"},
            "sampling": {"max_tokens": 8},
            "train": {
                "steps": 4,
                "problems_per_step": 4,
                "samples_per_problem": 4,
                "rehearsal_per_step": 3,
                "learning_rate": 1e-2,
                "checkpoint_every": 1,
                "warmup_steps": 2,
                **train_settings,
            },
        }
    )


@pytest.fixture
def pool(tmp_path, make_model, make_draw, make_source, make_reference, rule, problems):
    model = make_model()
    presample(
        problems,
        tmp_path / "pool",
        draw=make_draw(model),
        reference=make_reference(model),
        source=make_source(model),
        grading=GRADING,
        rule=rule,
    )
    return load_pool(tmp_path / "pool")


@pytest.fixture
def start(tmp_path, make_model, make_draw, tokenizer, problems, pool):
    """Train from the newest checkpoint in a directory, or from the initial weights."""

    def run(recipe, directory, on_step=lambda _: None, draw=None):
        policy = make_model()
        checkpoint = latest_checkpoint(directory / "checkpoints")
        if checkpoint:
            policy = type(policy).from_pretrained(checkpoint)
        needs_reference = recipe.objective.needs_reference_model
        actors = Actors(
            policy=policy,
            tokenizer=tokenizer,
            reference=make_model() if needs_reference else None,
            draw=draw or make_draw(policy),
        )
        explore = pool.exploration if recipe.train.problems == "exploration" else problems
        return train(
            recipe,
            directory,
            actors,
            explore,
            {"rehearsal": pool.rehearsal},
            digest="d",
            base=read_base_counts(tmp_path / "pool", pool.manifest),
            loaded=checkpoint,
            on_step=on_step,
        )

    return run


def weights(checkpoint):
    return (checkpoint / "model.safetensors").read_bytes()


@pytest.mark.parametrize("method", [*METHODS, *ADVANTAGES])
def test_every_method_trains_and_reports(start, tmp_path, method):
    trained = start(make_recipe(method), tmp_path)
    lines = read_metrics(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert trained.step == 4
    assert not trained.stopped
    for line in lines:
        assert math.isfinite(line["policy_loss"])
        assert line["grad_norm"] > 0
        assert 1 <= line["effective_styles"] <= 2
        assert line["peak_memory"] > 0
    has_rehearsal = method in ("alpha", "dph_f", "dph_js", "dph_js_definition", "dyjr")
    assert any(line["divergence"] > 0 for line in lines) == has_rehearsal
    assert any(line["kl_penalty"] > 0 for line in lines) == (method == "rkl")


def test_every_advantage_is_another_method_than_grpo(start, tmp_path):
    ends = {}
    for method in ("grpo", *ADVANTAGES):
        trained = start(make_recipe(method, problems_per_step=12, steps=2), tmp_path / method)
        ends[method] = weights(trained.checkpoint)
    same = [(a, b) for a in ends for b in ends if a < b and ends[a] == ends[b]]
    assert same == []


def test_reward_rises(start, tmp_path):
    start(make_recipe("grpo", steps=25, problems_per_step=12, samples_per_problem=8), tmp_path)
    rewards = [line["reward"] for line in read_metrics(tmp_path / "metrics.jsonl")]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.2


@pytest.mark.parametrize("method", ["dapo", "dph_f", "dyjr", "ucpo", "bbg", "alpha_dpg", "flowrl"])
@pytest.mark.parametrize("killed_after", [1, 3])
def test_a_killed_run_ends_with_bit_identical_weights_and_metrics(
    start, tmp_path, method, killed_after
):
    recipe = make_recipe(method, checkpoint_every=2)
    whole = start(recipe, tmp_path / "whole")

    class Killed(BaseException):
        pass

    def kill(metrics):
        if metrics["step"] == killed_after:
            raise Killed

    with pytest.raises(Killed):
        start(recipe, tmp_path / "killed", on_step=kill)
    resumed = start(recipe, tmp_path / "killed")
    assert weights(resumed.checkpoint) == weights(whole.checkpoint)
    optimizer = "optimizer.safetensors"
    assert (resumed.checkpoint / optimizer).read_bytes() == (
        whole.checkpoint / optimizer
    ).read_bytes()

    assert reproducible_log(tmp_path / "killed") == reproducible_log(tmp_path / "whole")


def test_more_steps_continue_a_finished_run(start, tmp_path):
    whole = start(make_recipe("grpo", steps=4), tmp_path / "whole")
    start(make_recipe("grpo", steps=2), tmp_path / "parts")
    longer = start(make_recipe("grpo", steps=4), tmp_path / "parts")
    assert weights(longer.checkpoint) == weights(whole.checkpoint)


def test_weights_of_another_checkpoint_than_the_newest_are_refused(
    start, tmp_path, make_model, make_draw, tokenizer, problems
):
    start(make_recipe("grpo", steps=2), tmp_path)  # while this one loaded the initial policy
    policy = make_model()
    actors = Actors(policy=policy, tokenizer=tokenizer, reference=None, draw=make_draw(policy))
    with pytest.raises(CheckpointError, match=r"another process trained in .*: start it again"):
        train(make_recipe("grpo", steps=4), tmp_path, actors, problems, {}, digest="d")
    assert latest_checkpoint(tmp_path / "checkpoints").name == "step_000002"


def test_a_half_written_checkpoint_is_not_seen(start, tmp_path):
    recipe = make_recipe("grpo", steps=2)
    start(recipe, tmp_path)
    (tmp_path / "checkpoints" / ".step_000009.tmp").mkdir()
    assert latest_checkpoint(tmp_path / "checkpoints").name == "step_000002"


def test_only_the_newest_checkpoints_are_kept(start, tmp_path):
    start(make_recipe("grpo", keep_checkpoints=2), tmp_path)
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == [
        "step_000003",
        "step_000004",
    ]


def test_the_millionth_step_is_newer_than_the_one_before(make_model, tokenizer, tmp_path):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in (999_998, 999_999, 1_000_000):
        save_checkpoint(
            tmp_path, Progress(step=step), model, tokenizer, optimizer, digest="d", keep=2
        )
    assert latest_checkpoint(tmp_path) == tmp_path / "step_1000000"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_1000000", "step_999999"]


def test_a_damaged_checkpoint_is_refused(start, tmp_path):
    recipe = make_recipe("grpo", steps=2)
    trained = start(recipe, tmp_path)
    (trained.checkpoint / "optimizer.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="is damaged"):
        start(make_recipe("grpo", steps=3), tmp_path)
    (trained.checkpoint / "trainer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="is damaged"):
        start(make_recipe("grpo", steps=3), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("exp_avg", "average", "lacks exp_avg \\(it has average, exp_avg_sq, step\\)"),
        ("exp_avg_sq", "square", "lacks exp_avg_sq"),
        ("0.step", "first", "'first' is not the name of an optimizer's state"),
    ],
)
def test_an_optimizers_state_with_a_part_missing_is_a_damaged_checkpoint(
    start, tmp_path, old, new, message
):
    trained = start(make_recipe("grpo", steps=2), tmp_path)
    path = trained.checkpoint / "optimizer.safetensors"
    renamed = {
        new if key == old else f"{index}.{new}" if name == old else key: tensor
        for key, tensor in load_file(path).items()
        for index, _, name in [key.partition(".")]
    }
    save_file(renamed, path)
    with pytest.raises(CheckpointError, match=rf"is damaged: .*{message}"):
        start(make_recipe("grpo", steps=3), tmp_path)


def test_a_checkpoint_of_other_settings_is_refused(start, tmp_path):
    trained = start(make_recipe("grpo", steps=2), tmp_path)
    path = trained.checkpoint / "trainer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "digest": "other"}))
    with pytest.raises(CheckpointError, match="made with other settings"):
        start(make_recipe("grpo", steps=3), tmp_path)


def test_stored_log_probs_of_another_policy_are_refused_before_the_first_step(
    pool, tmp_path, make_model, make_draw, tokenizer
):
    policy = make_model(seed=1)
    actors = Actors(policy=policy, tokenizer=tokenizer, reference=None, draw=make_draw(policy))
    with pytest.raises(PoolError, match="not this policy's"):
        train(
            make_recipe("dph_f"),
            tmp_path,
            actors,
            pool.exploration,
            {"rehearsal": pool.rehearsal},
            digest="",
        )
    assert not (tmp_path / "metrics.jsonl").exists()


def test_of_a_large_pool_an_even_sample_is_checked(make_model, monkeypatch):
    def sample(i):
        return RehearsalSample(
            problem_id=str(i),
            sample_index=0,
            prompt_ids=(2,),
            completion_ids=(3,),
            ref_logprobs=(0.0,),
            correct=8,
        )

    seen = []

    def score(_, prompts, *args, **kwargs):  # noqa: ARG001
        seen.append(len(prompts))
        return [(0.25,)] * len(prompts)

    monkeypatch.setattr("dph.runs.train.preparation.CHECKED", 10)
    monkeypatch.setattr("dph.model.forward.scorer.score_completions", score)
    forward = TrainingForward(
        model=make_model(), pad_id=0, temperature=1.0, dtype="float32", token_budget=9, max_tokens=8
    )
    for size in (1, 10, 11, 95):
        assert mean_reference_gap([sample(i) for i in range(size)], forward) == 0.25
    assert seen == [1, 10, 6, 10]


def test_a_method_that_rehearses_needs_something_to_rehearse(
    pool, tmp_path, make_model, make_draw, tokenizer
):
    policy = make_model()
    actors = Actors(policy=policy, tokenizer=tokenizer, reference=None, draw=make_draw(policy))
    with pytest.raises(PoolError, match="no rehearsal sample"):
        train(
            make_recipe("dph_f"), tmp_path, actors, pool.exploration, {"rehearsal": ()}, digest=""
        )


def test_too_few_problems_are_refused(start, tmp_path):
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


def test_recomputed_old_log_probs_give_the_same_training_up_to_rounding(start, tmp_path):
    sampler = start(make_recipe("grpo", steps=1), tmp_path / "a")
    recomputed = start(make_recipe("grpo", steps=1, old_logprobs="recompute"), tmp_path / "b")
    a, b = (read_metrics(tmp_path / name / "metrics.jsonl")[0] for name in "ab")
    assert a["policy_loss"] == pytest.approx(b["policy_loss"], abs=1e-4)
    assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-3)
    assert weights(sampler.checkpoint)
    assert weights(recomputed.checkpoint)


def test_the_gap_between_sampler_and_trainer_is_measured_at_every_step(start, tmp_path):
    start(make_recipe("grpo", steps=2), tmp_path / "sampler")
    start(make_recipe("grpo", steps=2, old_logprobs="recompute"), tmp_path / "recompute")
    for name in ("sampler", "recompute"):
        for line in read_metrics(tmp_path / name / "metrics.jsonl"):
            assert 0 <= line["sampler_gap"] <= line["sampler_gap_max"] < 1e-4


@pytest.mark.parametrize("method", ["grpo", "dph_js_definition"])
def test_shared_prompts_train_as_separate_ones(start, tmp_path, method):
    for sharing in ("always", "never"):
        start(make_recipe(method, steps=1, shared_prompts=sharing), tmp_path / sharing)
    shared, separate = (
        read_metrics(tmp_path / name / "metrics.jsonl")[0] for name in ("always", "never")
    )
    assert shared["rows_packed"] == shared["rows"] > 0
    assert separate["rows_packed"] == 0
    assert shared["tokens_in_rows"] == separate["tokens_in_rows"]
    assert shared["tokens_computed"] < shared["tokens_in_rows"] <= separate["tokens_computed"]
    for name in ("policy_loss", "divergence", "grad_norm", "kl_penalty"):
        assert shared[name] == pytest.approx(separate[name], rel=1e-3, abs=1e-6)


def test_completions_that_were_cut_off_can_be_left_out(start, tmp_path):
    recipe = make_recipe("grpo", steps=1)
    recipe = recipe.model_copy(
        update={"objective": recipe.objective.model_copy(update={"overlong_filter": True})}
    )
    start(recipe, tmp_path)
    (line,) = read_metrics(tmp_path / "metrics.jsonl")
    assert line["rows_masked"] == round(line["unfinished"] * 16)
    assert line["rows"] + line["rows_skipped"] == 16


def test_bfloat16_trains(make_model, tokenizer, problems, tmp_path, make_draw):
    recipe = make_recipe("grpo", steps=2)
    recipe = recipe.model_copy(
        update={"model": recipe.model.model_copy(update={"dtype": "bfloat16"})}
    )
    policy = make_model()
    actors = Actors(policy=policy, tokenizer=tokenizer, reference=None, draw=make_draw(policy))
    train(recipe, tmp_path, actors, problems, {}, digest="")
    assert all(math.isfinite(m["grad_norm"]) for m in read_metrics(tmp_path / "metrics.jsonl"))


def test_the_share_of_minibatches_does_not_depend_on_microbatching(start, tmp_path):
    start(make_recipe("dph_js", steps=2, microbatch_tokens=10_000), tmp_path / "one")
    start(make_recipe("dph_js", steps=2, microbatch_tokens=16), tmp_path / "many")
    one, many = (read_metrics(tmp_path / n / "metrics.jsonl") for n in ("one", "many"))
    for name in ("policy_loss", "divergence", "grad_norm", "clipped_high"):
        assert one[0][name] == pytest.approx(many[0][name], rel=1e-4, abs=1e-6)


def test_dynamic_sampling_without_any_signal_is_an_error(start, tmp_path, make_draw, make_model):
    draw = make_draw(make_model())

    class AlwaysRight:
        encode, parameters = draw.encode, draw.parameters

        def __call__(self, *args, **kwargs):
            rollout = draw(*args, **kwargs)
            groups = tuple(
                tuple(replace(g, verdict=replace(g.verdict, reward=1.0)) for g in group)
                for group in rollout.groups
            )
            return replace(rollout, groups=groups)

    with pytest.raises(TrainingError, match=r"none of \d+ groups holds both right and wrong"):
        start(make_recipe("dapo"), tmp_path, draw=AlwaysRight())


def test_rehearsal_sample_needs_one_log_prob_a_token():
    with pytest.raises(PoolError, match="2 tokens but 1 log-probs"):
        RehearsalSample(
            problem_id="a",
            sample_index=0,
            prompt_ids=(1,),
            completion_ids=(1, 2),
            ref_logprobs=(0.0,),
            correct=8,
        )


def test_a_run_directory_can_be_moved_and_continued(start, tmp_path):
    start(make_recipe("grpo", steps=2), tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert start(make_recipe("grpo", steps=3), tmp_path / "there").step == 3


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
    make_model, tokenizer, tmp_path, monkeypatch
):
    def fail(*_args, **_kwargs):
        raise SafetensorError("No space left on device")

    monkeypatch.setattr("dph.runs.train.optimizer.save_file", fail)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters())
    with pytest.raises(TrainingError, match="step_000000: No space left on device"):
        save_checkpoint(tmp_path, Progress(), model, tokenizer, optimizer, digest="", keep=1)
    assert list(tmp_path.iterdir()) == []


class FinishedSampler:
    """Every answer is one letter and the end."""

    def sample(self, requests, *_, **__):
        return [
            [
                Completion(
                    problem_id=request.problem_id,
                    sample_index=index,
                    token_ids=(3, 1),
                    logprobs=(-1.0, -1.0),
                    finished=True,
                    text="a",
                )
                for index in range(request.samples)
            ]
            for request in requests
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
        return [Verdict(outcome=self.outcome, reward=0.0, reason="as told")] * len(responses)

    def close(self):
        pass


def test_a_verifier_that_breaks_ends_the_run_with_the_finished_steps_saved(
    start, tmp_path, make_model, make_draw, tokenizer, problems, monkeypatch
):
    recipe = make_recipe("grpo", checkpoint_every=100)
    whole = start(recipe, tmp_path / "whole")
    policy = make_model()
    draw = replace(make_draw(policy), crash_limit=0.5)
    verifier = EndingVerifier(draw.verifier, Outcome.CRASHED, after=10**6)

    def breaking(*args, step, **rest):
        if step == 3:
            verifier.left = 0
        return collect(*args, step=step, **rest)

    monkeypatch.setattr("dph.runs.train.loop.collect", breaking)
    actors = Actors(
        policy=policy,
        tokenizer=tokenizer,
        reference=None,
        draw=replace(draw, verifier=verifier),
    )
    with pytest.raises(VerifierError, match="'ending' crashed on"):
        train(recipe, tmp_path / "run", actors, problems, (), digest="d")
    assert latest_checkpoint(tmp_path / "run" / "checkpoints").name == "step_000002"
    assert [line["step"] for line in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2]
    monkeypatch.undo()
    again = start(recipe, tmp_path / "run")
    assert weights(again.checkpoint) == weights(whole.checkpoint)


def test_a_verifier_that_breaks_in_the_first_step_leaves_no_checkpoint(
    start, tmp_path, make_model, make_draw
):
    draw = make_draw(make_model())
    verifier = EndingVerifier(draw.verifier, Outcome.CRASHED)
    with pytest.raises(VerifierError):
        start(make_recipe("grpo"), tmp_path, draw=replace(draw, verifier=verifier, crash_limit=0.5))
    assert latest_checkpoint(tmp_path / "checkpoints") is None


@pytest.mark.parametrize("outcome", [Outcome.CORRECT, Outcome.CRASHED, Outcome.TIMED_OUT])
def test_a_verifier_that_always_says_the_same_is_told_of_once(
    start, tmp_path, make_model, make_draw, caplog, outcome
):
    draw = make_draw(make_model())
    draw = replace(draw, verifier=EndingVerifier(draw.verifier, outcome), sampler=FinishedSampler())
    with caplog.at_level(logging.WARNING, logger="dph.runs.train.loop"):
        start(make_recipe("grpo", steps=3), tmp_path, draw=draw)
    (said,) = [r.getMessage() for r in caplog.records if r.name == "dph.runs.train.loop"]
    assert said.startswith(f"step 1: all 16 answers are {outcome.value}")


def test_a_step_with_both_outcomes_in_a_group_is_not_remarked_on(start, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="dph.runs.train.loop"):
        start(make_recipe("grpo"), tmp_path)
    assert not [r for r in caplog.records if "answers are" in r.getMessage()]
