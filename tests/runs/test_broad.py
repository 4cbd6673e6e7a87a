"""Broad rehearsal as a run: made, trained, stopped, continued."""

import pytest
from safetensors.torch import load_file

from dph.errors import CheckpointError, PoolError, SettingsError
from dph.runs.plan import open_plan
from dph.runs.progress import Silent
from dph.runs.run import run_stages
from dph.runs.training_stage import train_stage
from dph.tasks.problems import save_problems
from letter_task import UNLABELLED
from reproducible_log import reproducible_log


@pytest.fixture
def recipe(make_recipe, tmp_path):
    def make(*, weight=0.15, steps=4, tilt=4.0, **store):
        save_problems(tmp_path / "unlabelled.jsonl", UNLABELLED)
        table = {
            "file": str(tmp_path / "unlabelled.jsonl"),
            "novel": False,
            "answers": 4,
            "tilt": tilt,
            "agreement": "own_agreement:first_letter",
            **store,
        }
        return make_recipe(
            "dph_broad",
            objective={
                "anchors": {"broad": {"weight": weight, "per_step": 8, "whole_prompts": False}}
            },
            stores={"broad": table},
            consolidation={"updates": 0},
            train={"steps": steps, "checkpoint_every": 2},
            data={"sets": {}},
        )

    return make


def run(recipe, directory):
    with open_plan(recipe, directory) as plan:
        return run_stages(plan, Silent())


def weights(directory):
    return load_file(directory / "checkpoints" / "step_000004" / "model.safetensors")


def test_a_stopped_run_ends_with_the_same_weights_and_metrics(recipe, tmp_path):
    result = run(recipe(), tmp_path / "whole")
    assert result.pool is None
    assert result.stores["broad"].counts.answers == 48
    run(recipe(steps=2), tmp_path / "halves")
    run(recipe(), tmp_path / "halves")
    one, other = (weights(tmp_path / name) for name in ("whole", "halves"))
    assert all((one[name] == other[name]).all() for name in one)
    assert reproducible_log(tmp_path / "whole") == reproducible_log(tmp_path / "halves")


def test_the_anchor_is_at_the_initial_policy_without_a_tilt_and_away_from_it_with_one(
    recipe, tmp_path
):
    run(recipe(tilt=0.0), tmp_path / "plain")
    run(recipe(tilt=4.0), tmp_path / "tilted")
    (plain, *_), (tilted, *_) = (reproducible_log(tmp_path / name) for name in ("plain", "tilted"))
    # Two updates a step, the first at the start.
    assert plain["divergence"] == pytest.approx(0, abs=0.05)
    assert tilted["divergence"] > plain["divergence"]


def test_another_tilt_or_a_missing_store_does_not_go_on(recipe, tmp_path):
    run(recipe(steps=2), tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"stores\.broad\.tilt was 4\.0, now 2\.0"):
        run(recipe(tilt=2.0), tmp_path / "run")
    with (
        open_plan(recipe(), tmp_path / "new") as plan,
        pytest.raises(PoolError, match="there is no store 'broad' in"),
    ):
        train_stage(plan, Silent())


def test_the_method_needs_its_file_before_anything_is_drawn(make_recipe, tmp_path):
    for method, key in {
        "dph_broad": "stores.broad.file",
        "consensus": "stores.broad.file",
        "ttrl": "self_consistency.file",
    }.items():
        few = {"problems_per_step": 2} if method != "dph_broad" else {}
        recipe = make_recipe(method, self_consistency=few)
        with pytest.raises(SettingsError, match=key.replace(".", r"\.")):
            run(recipe, tmp_path / method)
        assert not (tmp_path / method).exists()
