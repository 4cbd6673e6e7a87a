"""TRL's log under our names: means over a rollout's optimizer steps, terms apart."""

import pytest

from dph.engines.stages.engine_log import SECONDS, step_of_trl
from engines.stages.recipes import make_recipe

RECIPE = make_recipe(
    "trl",
    **{
        "objective.anchors.rehearsal.weight": 0.5,
        "objective.penalties.kl.weight": 0.1,
        "train.epochs": 1,
    },
)
LINES = [
    {
        "loss": 2.0,
        "kl": 4.0,
        "rehearsal/loss": 1.0,
        "grad_norm": 3.0,
        SECONDS: 1.5,
        "reward": 0.25,
        "frac_reward_zero_std": 0.5,
        "completions/mean_length": 10.0,
        "dph/correct": 0.25,
        "dph/outcome_correct": 0.25,
        "dph/outcome_wrong": 0.75,
        "dph/outcome_crashed": 0.0,
        "learning_rate": 1e-3,
        "entropy": 0.5,
    },
    {"loss": 1.0, "kl": 2.0, "rehearsal/loss": 3.0, "grad_norm": 1.0, SECONDS: 0.5, "entropy": 0.7},
]


def test_the_surrogate_is_the_loss_without_the_weighted_terms():
    found = step_of_trl(LINES, RECIPE)
    # mean loss 1.5, mean kl 3 at weight 0.1, mean divergence 2 at weight 0.5
    assert found["policy_loss"] == pytest.approx(1.5 - 0.3 - 1.0)
    assert (found["kl_penalty"], found["divergence"], found["grad_norm"]) == (3.0, 2.0, 2.0)


def test_what_is_said_once_a_rollout_is_taken_as_it_is():
    found = step_of_trl(LINES, RECIPE)
    assert (found["reward"], found["zero_variance"], found["correct"]) == (0.25, 0.5, 0.25)
    assert found["entropy"] == pytest.approx(0.6)
    assert found["learning_rate"] == 1e-3


def test_tokens_are_those_of_all_answers_and_seconds_those_of_all_optimizer_steps():
    found = step_of_trl(LINES, RECIPE)
    assert (found["tokens"], found["seconds"]) == (10.0 * 6 * 4, 2.0)
    assert found["tokens_per_second"] == 120.0


def test_outcomes_are_those_that_came_up():
    found = step_of_trl(LINES, RECIPE)
    assert {name for name in found if name.startswith("outcome_")} == {
        "outcome_correct",
        "outcome_wrong",
    }
