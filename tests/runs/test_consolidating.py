"""A finished run consolidated by itself: the same weights as in one recipe, killed or not."""

import pytest

from dph.model.loading import load_model, load_tokenizer
from dph.recipe import (
    METHODS,
    ConsolidationSettings,
    StoreSettings,
    load_recipe,
    save_recipe,
)
from dph.recipe.recipe import consolidating_recipe
from dph.records import Problem
from dph.runs.consolidation import consolidate_stage, consolidation_forecast
from dph.runs.evaluate import evaluate
from dph.runs.finished_models import consolidation_source
from dph.runs.plan import open_plan
from dph.runs.progress import Silent
from dph.runs.run import consolidation_recipe, run_stages
from dph.runs.stage_costs import run_cost
from dph.tasks.problems import save_problems
from reproducible_log import reproducible_log
from runs.test_broad import UNLABELLED

MANY = tuple(
    Problem(problem_id=f"u{i}", prompt=f"say {'abcdef'[i % 6]} {'abcdef'[i // 6 % 6]} e")
    for i in range(36)
)
"""More than one chunk of a store."""
SETTINGS = {"updates": 4, "samples": "store:after", "rows": 16, "rate": 2.0, "checkpoint_every": 2}


@pytest.fixture
def recipe(make_recipe, tmp_path):
    def make(*, updates=4, method="dph_broad", **sections):
        save_problems(tmp_path / "unlabelled.jsonl", UNLABELLED)
        shared = {"answers": 4, "agreement": "own_agreement:first_letter"}
        shared["file"] = str(tmp_path / "unlabelled.jsonl")
        broad = {"broad": {**shared, "novel": False}, "after": shared}
        anchor = {"anchors": {"broad": {"per_step": 8, "whole_prompts": False}}}
        if method != "dph_broad":
            anchor, broad = {}, {}
        return make_recipe(
            method,
            objective=anchor,
            stores=broad,
            consolidation={**SETTINGS, "updates": updates} if broad else {},
            train={"steps": 2, "checkpoint_every": 2},
            **sections,
        )

    return make


def run(recipe, directory):
    with open_plan(recipe, directory, all_sets=True) as plan:
        return run_stages(plan, Silent())


def consolidated(place, prompts, out, *, overrides=(), forecast=True, **more):
    source = consolidation_source(place, more.get("recipe"))
    asked = consolidating_recipe(source.recipe, prompts, overrides=overrides)
    follows = consolidation_recipe(asked, source.model)
    with open_plan(follows, out, all_sets=True) as plan:
        told = consolidation_forecast(plan, Silent(), prompts=6) if forecast else None
        return told, consolidate_stage(plan, source, Silent())


def weights(run):
    return (run / "checkpoints" / "step_000004" / "model.safetensors").read_bytes()


def test_broad_rehearsal_is_its_anchor_and_a_consolidation_bit_by_bit(recipe, tmp_path):
    whole, anchor, after = (tmp_path / name for name in ("whole", "anchor", "after"))
    run(recipe(), whole)
    run(recipe(updates=0), anchor)
    consolidated(
        anchor, tmp_path / "unlabelled.jsonl", after, overrides=["consolidation.updates=4"]
    )
    assert weights(after) == weights(whole / "consolidation")
    assert reproducible_log(after) == reproducible_log(whole / "consolidation")
    stores = [place / "stores/after" for place in (after, whole / "consolidation")]
    assert len({(store / "groups.parquet").read_bytes() for store in stores}) == 1
    samples = [(place / "samples.parquet").read_bytes() for place in (after, whole)]
    assert samples[0] == samples[1]


def test_the_forecast_changes_nothing_of_the_run(recipe, tmp_path):
    run(recipe(updates=0), tmp_path / "anchor")
    prompts = tmp_path / "unlabelled.jsonl"
    for name, forecast in (("told", True), ("untold", False)):
        consolidated(
            tmp_path / "anchor",
            prompts,
            tmp_path / name,
            overrides=["consolidation.updates=4"],
            forecast=forecast,
        )
    assert weights(tmp_path / "told") == weights(tmp_path / "untold")
    extra = {p.name for p in (tmp_path / "told").iterdir()} - {
        p.name for p in (tmp_path / "untold").iterdir()
    }
    assert extra == {"forecast.json"}


def test_a_run_of_any_method_is_consolidated_as_broad_rehearsal_is(recipe, tmp_path):
    run(recipe(method="grpo"), tmp_path / "grpo")
    prompts = tmp_path / "unlabelled.jsonl"
    usual = METHODS["dph_broad"]
    asked = consolidating_recipe(tmp_path / "grpo" / "recipe.toml", prompts)
    said = {**usual["stores"]["after"], "file": prompts}
    assert asked.stores["after"] == StoreSettings(**said)
    assert asked.consolidation == ConsolidationSettings(**usual["consolidation"])
    small = ["stores.after.answers=4", "stores.after.agreement=own_agreement:first_letter"]
    small += ["consolidation.updates=4", "consolidation.rows=16"]
    told, result = consolidated(tmp_path / "grpo", prompts, tmp_path / "after", overrides=small)
    assert result.trained.step == 4
    assert told["planned"]["answers"] == 4 * len(UNLABELLED)
    assert result.base["model"] == str(tmp_path / "grpo/checkpoints/step_000002")


def test_a_consolidated_run_is_consolidated_once_more_in_the_same_way(recipe, tmp_path):
    run(recipe(updates=0), tmp_path / "anchor")
    prompts, words = tmp_path / "unlabelled.jsonl", ["consolidation.updates=4"]
    consolidated(tmp_path / "anchor", prompts, tmp_path / "once", overrides=words)
    consolidated(tmp_path / "once", prompts, tmp_path / "twice", overrides=["seed=1"])
    one, two = (load_recipe(tmp_path / name / "recipe.toml") for name in ("once", "twice"))
    assert (two.seed, two.model.path) == (1, str(tmp_path / "once/checkpoints/step_000004"))
    same = {"objective", "train", "stores"}
    assert two.model_dump(include=same) == one.model_dump(include=same)
    assert weights(tmp_path / "twice") != weights(tmp_path / "once")


def test_a_checkpoint_and_a_saved_model_are_consolidated_like_their_run(recipe, tmp_path):
    run(recipe(updates=0), tmp_path / "anchor")
    checkpoint = tmp_path / "anchor" / "checkpoints" / "step_000002"
    plain = tmp_path / "plain"
    load_model(checkpoint, device="cpu").save_pretrained(plain)
    load_tokenizer(checkpoint).save_pretrained(plain)
    prompts, words = tmp_path / "unlabelled.jsonl", ["consolidation.updates=4"]
    given = tmp_path / "anchor" / "recipe.toml"
    for place, name, of_task in (
        (tmp_path / "anchor", "of_run", None),
        (checkpoint, "of_checkpoint", None),
        (plain, "of_model", given),
    ):
        out = tmp_path / name
        consolidated(place, prompts, out, overrides=words, forecast=False, recipe=of_task)
    assert weights(tmp_path / "of_checkpoint") == weights(tmp_path / "of_run")
    assert weights(tmp_path / "of_model") == weights(tmp_path / "of_run")


def test_what_was_measured_of_the_model_is_not_drawn_again(recipe, tmp_path, monkeypatch):
    run(recipe(updates=0), tmp_path / "anchor")
    drawn = []
    real = evaluate.evaluate_set

    def counted(chosen, **settings):
        drawn.append(chosen.name)
        return real(chosen, **settings)

    monkeypatch.setattr(evaluate, "evaluate_set", counted)
    consolidated(
        tmp_path / "anchor",
        tmp_path / "unlabelled.jsonl",
        tmp_path / "after",
        overrides=["consolidation.updates=4"],
        forecast=False,
    )
    assert drawn == ["dev"]  # of the consolidated model alone
    was, now = tmp_path / "anchor", tmp_path / "after" / "base"
    assert (now / "samples.parquet").read_bytes() == (was / "samples.parquet").read_bytes()


def test_its_cost_is_that_of_the_forecast_the_store_and_the_updates(recipe, tmp_path):
    run(recipe(updates=0), tmp_path / "anchor")
    told, _ = consolidated(
        tmp_path / "anchor",
        tmp_path / "unlabelled.jsonl",
        tmp_path / "after",
        overrides=["consolidation.updates=4"],
    )
    cost = run_cost(tmp_path / "after", load_recipe(tmp_path / "after" / "recipe.toml"))
    stages = {one.stage: one.answers for one in cost.stages}
    # 6 labelled prompts x (4 + greedy), 6 unlabelled ones x 4, the first of them once more.
    assert stages == {"forecast": 6 * 5 + 6 * 4 + 4, "store after": 48, "training": 0}
    assert told["spent"]["answers"] == stages["forecast"]
    assert cost.untimed == []


def test_what_a_consolidated_run_says_is_read_back(recipe, tmp_path):
    follows = consolidation_recipe(recipe(), tmp_path / "model")
    save_recipe(follows, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == follows


CHILD = """
import sys
from pathlib import Path

from dph.cli import main

real = Path.replace
def told(self, target):
    found = real(self, target)
    print("renamed", target, flush=True)
    return found
Path.replace = told
sys.exit(main(sys.argv[1:]))
"""
KILLED_AFTER = (
    "forecast.partial/stores/after",  # it begins anew
    "forecast.json",
    "stores/after.partial/000000.parquet",
    "checkpoints/step_000002",
    "samples.partial/000000.parquet",
)


def finish(program, out):
    with program:
        code, _, said = program.finish()
    assert code == 0, said
    names = ("samples.parquet", "base/samples.parquet", "stores/after/groups.parquet")
    names += ("stores/after/values.parquet", "checkpoints/step_000004/model.safetensors")
    return [(out / name).read_bytes() for name in names], reproducible_log(out)


def kill_after(program, path):
    """SIGKILL as soon as ``path`` was put in its place."""
    lines = []
    with program:
        for line in program.lines():
            lines.append(line)
            if line == f"renamed {path}":
                program.kill()
                return
    raise AssertionError(f"{path} was not written: {lines}")


@pytest.mark.parametrize(
    "places",
    [KILLED_AFTER[3:4], pytest.param(KILLED_AFTER, marks=pytest.mark.slow)],
    ids=["once", "five times"],
)
def test_killed_anywhere_the_same_command_ends_with_the_same_files(
    recipe, fork_program, places, tmp_path
):
    run(recipe(updates=0), tmp_path / "anchor")
    save_problems(tmp_path / "unlabelled.jsonl", MANY)
    words = ("consolidate", tmp_path / "anchor", "--prompts", tmp_path / "unlabelled.jsonl")
    words += ("--set", "consolidation.updates=4", "--forecast-prompts", 6, "--out")
    whole = finish(fork_program(CHILD, *words, tmp_path / "whole"), tmp_path / "whole")
    for name in places:
        kill_after(fork_program(CHILD, *words, tmp_path / "killed"), tmp_path / "killed" / name)
    killed = finish(fork_program(CHILD, *words, tmp_path / "killed"), tmp_path / "killed")
    assert killed == whole
    assert not (tmp_path / "killed" / "forecast.partial").exists()
