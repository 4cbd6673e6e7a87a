"""Stages called from Python leave what the command line leaves."""

import json

import pytest

import dph
from dph.errors import SettingsError


def test_presample_evaluate_and_load_run_are_of_one_directory(make_recipe, tmp_path):
    recipe, run = make_recipe("dph_f"), tmp_path / "run"
    manifest = dph.presample(recipe, run)
    assert manifest == dph.presample(recipe, str(run))  # what is done is kept
    pool = dph.load_pool(run / "pool")
    assert pool.manifest == manifest
    document = dph.evaluate(recipe, run)
    assert document == json.loads((run / "base" / "evaluation.json").read_text())
    assert {*dph.load_run(run / "base").scores(arrow=True)["set"].to_pylist()} == {
        *document["sets"]
    }


def test_overrides_are_for_the_path_of_a_recipe(make_recipe, tmp_path):
    with pytest.raises(SettingsError, match="only to the path of a recipe"):
        dph.evaluate(make_recipe("grpo"), tmp_path, overrides=["train.steps=1"])
