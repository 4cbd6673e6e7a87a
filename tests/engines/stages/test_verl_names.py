"""verl's log under our names."""

import math

import pytest

from dph.engines.stages.engine_log import SAME_IN_VERL, step_of_verl
from engines.stages.recipes import make_recipe

LINE = {
    **dict.fromkeys(SAME_IN_VERL.values(), 2.0),
    "dph/reward": 0.25,
    "dph/correct": 0.25,
    "dph/zero_variance": 0.5,
    "dph/outcome_correct": 0.25,
    "dph/outcome_wrong": 0.75,
    "dph/ungraded_answers": 1,
    "actor/dph/divergence": 0.125,
    "actor/kl_loss": 0.5,
    "actor/dph/penalty/mine": 0.25,
}


def test_verdicts_are_ours_and_the_rest_is_verls():
    found = step_of_verl(LINE, make_recipe("verl"))
    assert (found["reward"], found["correct"], found["zero_variance"]) == (0.25, 0.25, 0.5)
    assert (found["policy_loss"], found["grad_norm"], found["seconds"]) == (2.0, 2.0, 2.0)
    assert (found["divergence"], found["kl_penalty"]) == (0.125, 0.75)
    assert found["tokens"] == 2.0 * 6 * 4
    assert found["outcome_wrong"] == 0.75
    assert "ungraded_answers" not in found


def test_what_verl_did_not_say_is_not_a_number():
    found = step_of_verl({"response_length/mean": 3.0}, make_recipe("verl"))
    assert math.isnan(found["reward"])
    assert found["tokens"] == 3.0 * 6 * 4


def test_several_anchors_stand_apart_as_in_our_own_log():
    two = {
        "objective.anchors.far.divergence": "alpha",
        "objective.anchors.far.weight": 0.1,
        "objective.anchors.rehearsal.weight": 0.2,
    }
    line = {"actor/dph/divergence/rehearsal": 1.0, "actor/dph/divergence/far": 2.0}
    found = step_of_verl(line, make_recipe("verl", **two))
    assert (found["anchor_rehearsal"], found["anchor_far"], found["divergence"]) == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    "name", [*SAME_IN_VERL, "reward", "correct", "zero_variance", "kl_penalty"]
)
def test_every_name_is_one_of_our_own_log(name):
    from pathlib import Path  # noqa: PLC0415 - only here

    import dph.runs.train  # noqa: PLC0415 - only here

    sources = Path(dph.runs.train.__file__).parent
    text = (sources / "tracking.py").read_text() + (sources / "loop.py").read_text()
    assert f'"{name}"' in text
