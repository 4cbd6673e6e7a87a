"""An advantage that TRL does not have takes the place of its own, whoever made the rewards."""

import math
from unittest import mock

import pytest
import torch

from dph.engines.trl import DPHTrainer
from dph.loss.objectives import GroupSamples, graded_advantages
from dph.recipe import ObjectiveSettings
from dph.runs.objective import make_objective
from dph.runs.presample.pool import load_pool
from dph.runs.train.rows import rehearsal_of_step
from engines.trl.by_hand import (
    _logprobs,
    _model_of,
    _rows,
    error_of,
    gradient_by_hand,
    record,
    relative_error,
)
from engines.trl.processes import run_two_processes
from engines.trl.small import (
    TEMPERATURE,
    make_config,
    make_small_model,
    make_trainer,
    plain,
    write_small_pool,
)
from own_advantage import RELATIVE, SURPRISING

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
    args = plain(directory, objective=OWN, max_steps=1)
    trainer = make_trainer(args, reward=listed)
    (step,) = record(trainer)
    given = torch.cat([batch["advantages"] for batch in step.batches]).tolist()
    assert sorted(given) == pytest.approx(sorted(BY_HAND), abs=1e-6)
    assert list(trainer._logs["advantages"]) == pytest.approx(BY_HAND, abs=1e-6)
    assert error_of(step, directory, eta=0) < EXACT


def test_a_group_without_graded_samples_has_no_advantage(directory):
    args = plain(directory, objective=OWN, max_steps=1)
    trainer = make_trainer(args, reward=lambda completion_ids, **_: [None] * len(completion_ids))
    (step,) = record(trainer)
    assert not torch.cat([batch["advantages"] for batch in step.batches]).any()
    assert all(not gradient.any() for gradient in step.gradient.values())


def test_evaluation_has_groups_of_its_own_size(directory):
    args = plain(directory, objective=OWN, num_generations_eval=2, per_device_eval_batch_size=8)
    trainer = make_trainer(args, reward=listed)
    trainer.evaluate(trainer.train_dataset.select(range(4)))
    # Pairs of the first eight rewards: means 1/2, 1/2, 1/2 and 0.
    assert list(trainer._logs["advantages"])[-8:] == [1, -1, 0, 0, 1, -1, 0, 0]


def test_a_group_that_two_processes_share_is_one_group(tmp_path):
    first, second = run_two_processes("ddp_advantages.py", tmp_path, RELATIVE)
    assert torch.equal(first["rewards"], second["rewards"])
    rewards = first["rewards"].flatten()
    assert len(rewards) == 16
    mean = rewards.mean()
    expected = ((rewards - mean) / mean).tolist()
    assert [*first["advantages"].tolist(), *second["advantages"].tolist()] == pytest.approx(
        expected, abs=1e-6
    )
    assert not math.isclose(float(rewards[:8].mean()), float(rewards[8:].mean()))


def logprobs_of(step):
    """Sum and number of the log-probs of every answer, of plain float64 forwards."""
    model = _model_of(step.weights)
    with torch.no_grad():
        found = [
            _logprobs(model, prompt, completion, TEMPERATURE)
            for batch in step.batches
            for prompt, completion, _ in _rows(batch)
        ]
    return torch.stack([row.sum() for row in found]), torch.tensor([len(row) for row in found])


class Ordered(DPHTrainer):
    """Does not shuffle, so that rewards and answers can be matched afterwards."""

    def _prepare_inputs(self, generation_batch):
        with mock.patch("trl.trainer.grpo_trainer.shuffle_sequence_dict", lambda batch: batch):
            return super()._prepare_inputs(generation_batch)


RIGHT = [1.0, 0.0, 1.0, 0.0, *[1.0, 1.0, 0.0, 1.0], *[1.0] * 4, *[1.0, None, 0.0, 1.0]]


def right_or_wrong(completion_ids, **_):
    return RIGHT[: len(completion_ids)]


@pytest.mark.parametrize(
    "advantage",
    [
        {"kind": "maxrl"},
        {"kind": "f_grpo"},
        {"kind": "ucpo", "tau": 0.7},
        {"kind": "pass_at_k", "k": 2},
        {"kind": "pkpo", "k": 2},
        {"kind": "differential_smoothing"},
        {"kind": "differential_smoothing", "logprob": "mean"},
        {"kind": "bbg_group", "k": 4},
        {"kind": SURPRISING},
    ],
    ids=lambda advantage: advantage["kind"],
)
def test_the_advantages_of_other_papers_are_those_of_the_formula_and_the_gradient_is_theirs(
    directory, advantage
):
    objective = {"advantage": advantage}
    args = plain(directory, objective=objective, max_steps=2)
    trainer = make_trainer(args, reward=right_or_wrong, trainer=Ordered)
    steps = record(trainer)
    assert len(steps) == 2
    for step in steps:
        sums, lengths = logprobs_of(step)
        expected = graded_advantages(
            make_objective(ObjectiveSettings(**objective)).advantage,
            torch.tensor([reward or 0.0 for reward in RIGHT]).view(-1, 4),
            torch.tensor([reward is not None for reward in RIGHT]).view(-1, 4),
            GroupSamples(logprobs=sums.float().view(-1, 4), lengths=lengths.view(-1, 4)),
        )
        given = torch.cat([batch["advantages"] for batch in step.batches])
        assert torch.allclose(given, expected.flatten(), rtol=1e-4, atol=1e-5)
        assert error_of(step, directory, eta=0) < EXACT


def test_log_probs_that_trl_computes_itself_are_not_computed_again(directory):
    # Two optimizer steps use one rollout: TRL needs old log-probs for the second.
    objective = {"advantage": {"kind": "ucpo"}}
    args = plain(directory, objective=objective, num_iterations=2, max_steps=2)
    calls = []

    class Counting(DPHTrainer):
        def _get_per_token_logps_and_entropies(self, *arguments, **keywords):
            calls.append(torch.is_grad_enabled())
            return super()._get_per_token_logps_and_entropies(*arguments, **keywords)

    make_trainer(args, reward=right_or_wrong, trainer=Counting).train()
    assert calls.count(False) == 1


def test_log_probs_of_a_group_that_two_processes_share_are_in_the_rewards_order(tmp_path):
    ranks = run_two_processes("ddp_advantages.py", tmp_path, SURPRISING)
    model = make_small_model().double()
    with torch.no_grad():
        rows = [(p, c) for rank in ranks for p, c, _ in _rows(rank)]
        means = [_logprobs(model, *row, TEMPERATURE).mean() for row in rows]
    rewards = ranks[0]["rewards"].flatten()
    expected = rewards - rewards.mean() - 0.1 * torch.tensor(means)
    found = torch.cat([rank["advantages"] for rank in ranks])
    assert torch.allclose(found.float(), expected.float(), atol=1e-5)


def test_every_anchor_has_answers_a_divergence_and_a_weight_of_its_own(directory):
    write_small_pool(directory / "far", answers=5)
    anchors = {
        "near": {"divergence": "forward_kl", "weight": 0.5},
        "far": {
            "divergence": "jensen_shannon",
            "weight": 0.3,
            "samples": f"pool:{directory / 'far'}",
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
