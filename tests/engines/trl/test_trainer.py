"""The trainer as a whole: what it logs, how it resumes, what it refuses."""

import math

import pytest
import torch
from peft import LoraConfig
from trl import GRPOTrainer

from dph.engines.trl.rehearsal import require_pool_of_model
from dph.engines.trl.trainer import METRICS
from dph.errors import CheckpointError, ModelError, PoolError, SettingsError
from dph.runs.presample.pool import load_pool
from dph.runs.train.rows import rehearsal_of_step
from engines.trl.small import (
    grpo_config,
    make_config,
    make_small_model,
    make_trainer,
    plain,
    stored_samples,
    weights_of,
    write_small_pool,
)


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def logged(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def test_with_eta_zero_it_is_grpo_to_the_bit(directory):
    ours = make_trainer(plain(directory))
    ours.train()
    theirs = make_trainer(grpo_config(directory), trainer=GRPOTrainer)
    theirs.train()
    assert same(weights_of(ours), weights_of(theirs))
    assert not logged(ours, METRICS[0])


def test_what_it_logs_are_means_over_the_tokens_of_the_step(directory):
    args = make_config(directory, per_device_train_batch_size=8, gradient_accumulation_steps=2)
    trainer = make_trainer(args)
    trainer.train()
    loss, log_ratio, tokens = (logged(trainer, name) for name in METRICS)
    rehearsal = load_pool(directory / "pool").rehearsal
    expected = [
        sum(len(r.completion_ids) for r in rehearsal_of_step(rehearsal, 7, step, seed=42))
        for step in (1, 2, 3)
    ]
    assert tokens == expected
    assert loss[0] < 1e-10  # the policy is the reference still, but for rounding
    assert log_ratio[0] < 1e-5
    # k3 is x^2 / 2 for small x, and a mean square is at least the square of the mean.
    assert all(f > 0.4 * x**2 > 0 for f, x in zip(loss[1:], log_ratio[1:], strict=True))


def test_bfloat16_starts_from_the_log_probs_of_a_bfloat16_pool(tmp_path):
    samples = stored_samples(make_small_model(), dtype="bfloat16")
    write_small_pool(tmp_path / "pool", samples=samples, dtype="bfloat16")
    trainer = make_trainer(make_config(tmp_path, bf16=True))
    trainer.train()
    log_ratio = logged(trainer, "rehearsal/log_ratio")
    assert log_ratio[0] < 1e-2 < log_ratio[-1]  # 1e-2: bfloat16 rounds to eight bits


def test_evaluation_does_not_rehearse(directory):
    trainer = make_trainer(make_config(directory, per_device_eval_batch_size=16))
    trainer.evaluate(trainer.train_dataset.select(range(4)))
    assert not logged(trainer, METRICS[0])
    assert not logged(trainer, f"eval_{METRICS[0]}")


def test_a_run_that_resumes_ends_with_the_same_bits(directory):
    settings = {
        "gradient_accumulation_steps": 2,
        "per_device_train_batch_size": 8,
        "max_steps": 4,
        "save_strategy": "steps",
        "save_steps": 2,
    }
    whole = make_trainer(make_config(directory, **settings))
    whole.train()
    resumed = make_trainer(make_config(directory, **settings))
    resumed.train(resume_from_checkpoint=str(directory / "run" / "checkpoint-2"))
    assert resumed.state.global_step == 4
    assert same(weights_of(whole), weights_of(resumed))
    for name in METRICS:
        assert logged(whole, name) == logged(resumed, name)


def test_a_resume_in_the_middle_of_a_rollout_is_refused(directory):
    settings = {"steps_per_generation": 2, "save_strategy": "steps", "save_steps": 1}
    make_trainer(make_config(directory, **settings)).train()
    again = make_trainer(make_config(directory, **settings))
    with pytest.raises(
        CheckpointError, match=r"step 1, in the middle of a rollout of 2 .*dph train"
    ):
        again.train(resume_from_checkpoint=str(directory / "run" / "checkpoint-1"))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"tokenizer_fingerprint": "0"}, "tokenizer fingerprint"),
        ({"model_fingerprint": "0"}, "model fingerprint"),
        ({"temperature": 0.5}, "temperature was 0.5, this run has 0.9"),
        ({"dtype": "bfloat16"}, "dtype was 'bfloat16', this run has 'float32'"),
    ],
)
def test_a_pool_of_something_else_is_refused(tmp_path, changes, what):
    write_small_pool(tmp_path / "pool", **changes)
    with pytest.raises(PoolError, match=what):
        make_trainer(make_config(tmp_path))


def test_a_store_of_an_anchor_is_compared_with_the_model_too(directory):
    write_small_pool(directory / "other", temperature=0.5)
    anchors = {
        "near": {"divergence": "forward_kl", "weight": 0.1},
        "far": {"divergence": "alpha", "weight": 0.2, "samples": f"pool:{directory / 'other'}"},
    }
    with pytest.raises(PoolError, match=r"other.*temperature was 0.5, this run has 0.9"):
        make_trainer(make_config(directory, eta=None, objective={"anchors": anchors}))
    objective = {"anchors": {"near": anchors["near"]}, "reduction": "fixed_length"}
    with pytest.raises(PoolError, match=r"pool holds an answer of 8 tokens, .* divides by 6"):
        make_trainer(make_config(directory, eta=None, objective=objective))


def test_a_damaged_pool_is_refused_before_anything_is_loaded(directory):
    (directory / "pool" / "rehearsal.parquet").write_bytes(b"")
    with pytest.raises(PoolError, match="SHA-256 differs"):
        make_trainer(make_config(directory), model="no such model")


def test_log_probs_of_another_policy_are_refused_at_the_first_step(tmp_path):
    write_small_pool(tmp_path / "pool", samples=stored_samples(make_small_model(seed=1)))
    trainer = make_trainer(make_config(tmp_path))
    with pytest.raises(PoolError, match=r"mean .log pi - log pi_ref. at step 0"):
        trainer.train()


def test_a_pool_without_stored_answers_is_refused(tmp_path):
    write_small_pool(tmp_path / "pool", samples=[])
    with pytest.raises(PoolError, match="has no rehearsal sample"):
        make_trainer(make_config(tmp_path)).train()


def test_settings_of_plain_grpo_and_a_processor_of_images_are_refused(directory):
    with pytest.raises(SettingsError, match="must be a DPHConfig, got GRPOConfig"):
        make_trainer(grpo_config(directory))
    args = make_config(directory)
    (anchor,) = (trainer := make_trainer(args)).anchors
    with pytest.raises(ModelError, match="must be a tokenizer, got object"):
        require_pool_of_model(
            anchor.pool, model=trainer.model, processing_class=object(), args=args
        )


def test_an_adapter_learns_and_the_weights_below_it_stay(directory):
    adapter = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    trainer = make_trainer(make_config(directory), peft_config=adapter)
    before = weights_of(trainer)
    trainer.train()
    moved = {n for n, w in weights_of(trainer).items() if not torch.equal(w, before[n])}
    assert moved
    assert all("lora_" in name for name in moved)
    log_ratio = logged(trainer, "rehearsal/log_ratio")
    assert log_ratio[0] < 1e-5 < log_ratio[-1]
    assert all(math.isfinite(value) for value in logged(trainer, "rehearsal/loss"))
