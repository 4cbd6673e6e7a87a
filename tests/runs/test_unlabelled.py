"""RL on self-consistency as a run: prompts of a file, resumed to the same bits."""

import pytest
from safetensors.torch import load_file

from dph.errors import CheckpointError, DataError, SettingsError
from dph.records import Problem
from dph.runs.plan import open_plan
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.tasks.problems import save_problems
from reproducible_log import reproducible_log

UNLABELLED = tuple(Problem(problem_id=f"u{i}", prompt=f"say f {'abcdef'[i]}") for i in range(6))


@pytest.fixture
def recipe(make_recipe, tmp_path):
    """A recipe with 2 unlabelled problems of 4 a step."""

    def make(*, file=None, steps=4, **changes):
        save_problems(tmp_path / "unlabelled.jsonl", UNLABELLED)
        own = {
            "problems_per_step": 2,
            "file": str(file or tmp_path / "unlabelled.jsonl"),
            "agreement": "own_agreement:first_letter",
        }
        return make_recipe(
            "grpo",
            self_consistency={**own, **changes},
            train={"steps": steps, "checkpoint_every": 2},
            data={"sets": {}},
        )

    return make


def run(recipe, directory):
    with open_plan(recipe, directory) as plan:
        return run_stages(plan, Silent())


def weights(directory, step=4):
    return load_file(directory / "checkpoints" / f"step_{step:06d}" / "model.safetensors")


def test_a_run_that_was_stopped_ends_with_the_same_weights_and_metrics(recipe, tmp_path):
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    run(recipe(), whole)
    run(recipe(steps=2), halves)
    run(recipe(), halves)
    one, other = weights(whole), weights(halves)
    assert all((one[name] == other[name]).all() for name in one)
    assert reproducible_log(whole) == reproducible_log(halves)
    assert any(row["unlabelled_reward"] > 0 for row in reproducible_log(whole))
    with pytest.raises(CheckpointError, match=r"self_consistency\.problems_per_step was 2, now 1"):
        run(recipe(problems_per_step=1), halves)


def test_prompts_of_a_test_are_refused(make_recipe, tmp_path, problems):
    save_problems(tmp_path / "tests.jsonl", problems[:3])
    found = make_recipe(
        "grpo",
        self_consistency={
            "problems_per_step": 2,
            "file": str(tmp_path / "tests.jsonl"),
            "agreement": "own_agreement:first_letter",
        },
    )
    with pytest.raises(DataError, match="self_consistency: 3 of 3 prompts are prompts of the"):
        run(found, tmp_path / "run")


def test_what_is_missing_is_said_before_anything_is_done(recipe, make_recipe, tmp_path):
    no_file = make_recipe("grpo", self_consistency={"problems_per_step": 2})
    with pytest.raises(SettingsError, match=r"needs self_consistency\.file"):
        run(no_file, tmp_path / "run")
    with pytest.raises(SettingsError, match=r"'letter_grader:grade' says what is right"):
        run(recipe(agreement=None), tmp_path / "run")
    save_problems(tmp_path / "few.jsonl", UNLABELLED[:1])
    with pytest.raises(SettingsError, match="only 1 unlabelled prompts"):
        run(recipe(file=tmp_path / "few.jsonl"), tmp_path / "run")
