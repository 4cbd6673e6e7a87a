"""A finished run consolidated by itself: the same weights as in one recipe, killed or not."""

import json

import pytest

from dph.runs.consolidating import consolidate_stage, consolidation_forecast
from dph.runs.consolidation_source import consolidation_source
from dph.runs.consolidation_stage import consolidation_recipe
from dph.runs.pipeline import run_stages
from dph.runs.progress import Silent
from dph.runs.set_problems import SetProblems
from dph.runs.workbench import open_workbench
from dph.settings import load_recipe, save_recipe
from dph.settings.consolidating import consolidating_recipe
from dph.tasks.problems import save_problems
from runs.test_broad import UNLABELLED

SETTINGS = {"updates": 4, "store": "after", "rows": 16, "rate": 2.0, "checkpoint_every": 2}


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
    with open_workbench(recipe, sets=SetProblems(recipe)) as bench:
        return run_stages(bench, directory, Silent())


def consolidated(place, prompts, out, *, overrides=(), forecast=True, **more):
    source = consolidation_source(place, more.get("recipe"))
    asked = consolidating_recipe(source.recipe, prompts, overrides=overrides)
    follows = consolidation_recipe(asked, source.model)
    with open_workbench(follows, sets=SetProblems(follows)) as bench:
        told = consolidation_forecast(bench, out, Silent(), prompts=6) if forecast else None
        return told, consolidate_stage(bench, source, out, Silent())


def weights(run):
    return (run / "checkpoints" / "step_000004" / "model.safetensors").read_bytes()


def metrics(directory):
    rows = map(json.loads, (directory / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in row.items() if "second" not in k} for row in rows]


def test_broad_rehearsal_is_its_anchor_and_a_consolidation_bit_by_bit(recipe, tmp_path):
    whole, anchor, after = (tmp_path / name for name in ("whole", "anchor", "after"))
    run(recipe(), whole)
    run(recipe(updates=0), anchor)
    consolidated(
        anchor, tmp_path / "unlabelled.jsonl", after, overrides=["consolidation.updates=4"]
    )
    assert weights(after) == weights(whole / "consolidation")
    assert metrics(after) == metrics(whole / "consolidation")
    stores = [place / "stores/after" for place in (after, whole / "consolidation")]
    assert len({(store / "groups.parquet").read_bytes() for store in stores}) == 1
    samples = [(place / "samples.parquet").read_bytes() for place in (after, whole)]
    assert samples[0] == samples[1]


def test_what_a_consolidated_run_says_is_read_back(recipe, tmp_path):
    follows = consolidation_recipe(recipe(), tmp_path / "model")
    save_recipe(follows, tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == follows
