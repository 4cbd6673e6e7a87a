"""An advantage that TRL does not have takes the place of its own, whoever made the rewards."""

import math

import pytest
import torch

from dph.presampling.pool import load_pool
from dph.training.order import rehearsal_of_step
from integrations.trl.by_hand import gradient_by_hand, record, relative_error
from integrations.trl.processes import run_two_processes
from integrations.trl.small import TEMPERATURE, make_config, make_trainer, write_small_pool
from own_advantage import RELATIVE

EXACT = 1e-6  # a float32 forward against float64
OWN = {"advantage": {"kind": RELATIVE}}

REWARDS = [1.0, 0.0, 0.5, 0.5, *[1.0, 0.0, 0.0, 0.0], *[1.0] * 4, *[1.0, None, 0.0, 1.0]]
"""Four groups of four; None could not be graded."""
BY_HAND = [1, -1, 0, 0, *[3, -1, -1, -1], *[0] * 4, *[0.5, 0, -1, 0.5]]
"""(r - mean) / mean with means 1/2, 1/4, 1 and, of three rewards, 2/3."""


def listed(completion_ids, **_):
    """The rewards above, whatever was answered."""
    return REWARDS[: len(completion_ids)]


def test_the_advantages_are_those_of_the_formula_and_the_gradient_is_theirs(directory):
    args = make_config(directory, eta=None, pool="", objective=OWN, max_steps=1)
    trainer = make_trainer(args, reward=listed)
    (step,) = record(trainer)
    given = torch.cat([batch["advantages"] for batch in step.batches]).tolist()
    assert sorted(given) == pytest.approx(sorted(BY_HAND), abs=1e-6)
    assert list(trainer._logs["advantages"]) == pytest.approx(BY_HAND, abs=1e-6)
    expected = gradient_by_hand(
        step.weights, step.batches, [], divergence="forward_kl", eta=0, temperature=TEMPERATURE
    )
    assert relative_error(step.gradient, expected) < EXACT


def test_a_group_without_graded_samples_has_no_advantage(directory):
    args = make_config(directory, eta=None, pool="", objective=OWN, max_steps=1)
    trainer = make_trainer(args, reward=lambda completion_ids, **_: [None] * len(completion_ids))
    (step,) = record(trainer)
    assert not torch.cat([batch["advantages"] for batch in step.batches]).any()
    assert all(not gradient.any() for gradient in step.gradient.values())


def test_evaluation_has_groups_of_its_own_size(directory):
    args = make_config(
        directory,
        eta=None,
        pool="",
        objective=OWN,
        num_generations_eval=2,
        per_device_eval_batch_size=8,
    )
    trainer = make_trainer(args, reward=listed)
    trainer.evaluate(trainer.train_dataset.select(range(4)))
    # Pairs of the first eight rewards: means 1/2, 1/2, 1/2 and 0.
    assert list(trainer._logs["advantages"])[-8:] == [1, -1, 0, 0, 1, -1, 0, 0]


def test_a_group_that_two_processes_share_is_one_group(tmp_path):
    run_two_processes("ddp_advantages.py", tmp_path)
    first, second = (torch.load(tmp_path / f"rank{r}.pt", weights_only=True) for r in (0, 1))
    assert torch.equal(first["rewards"], second["rewards"])
    rewards = first["rewards"].flatten()
    assert len(rewards) == 16
    mean = rewards.mean()
    expected = ((rewards - mean) / mean).tolist()
    assert [*first["advantages"].tolist(), *second["advantages"].tolist()] == pytest.approx(
        expected, abs=1e-6
    )
    assert not math.isclose(float(rewards[:8].mean()), float(rewards[8:].mean()))


def test_every_anchor_has_answers_a_divergence_and_a_weight_of_its_own(directory):
    write_small_pool(directory / "far", answers=5)
    anchors = {
        "near": {"divergence": "forward_kl", "weight": 0.5},
        "far": {
            "divergence": "jensen_shannon",
            "weight": 0.3,
            "store": str(directory / "far"),
            "per_step": 5,
        },
    }
    args = make_config(
        directory,
        eta=None,
        objective={"anchors": anchors},
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
    )
    trainer = make_trainer(args)
    steps = record(trainer)
    for step in steps:
        parts = [
            ("pool", 7, "forward_kl", 0.5, step.batches),
            ("far", 5, "jensen_shannon", 0.3, []),
        ]
        expected = {}
        for store, count, divergence, weight, batches in parts:
            samples = load_pool(directory / store).rehearsal
            part = gradient_by_hand(
                step.weights,
                batches,
                rehearsal_of_step(samples, count, step.number + 1, seed=42),
                divergence=divergence,
                eta=weight,
                temperature=TEMPERATURE,
            )
            expected = {name: expected.get(name, 0) + g for name, g in part.items()}
        assert relative_error(step.gradient, expected) < EXACT
    logged = trainer.state.log_history[0]
    assert logged["near/tokens"] != logged["far/tokens"]
    assert logged["far/loss"] < 1e-10
