import json
from typing import get_args

import pytest

import dph
import dph.runs.prepare as prepared
from dph._base.files import make_directory, write_json
from dph.errors import DataError, PoolError, SettingsError
from dph.recipe import load_recipe, resolve_recipe
from dph.recipe.section import Engine
from dph.runs import training_digest
from dph.runs.directory import RunDirectory
from dph.runs.prepare import prepare
from dph.runs.presampling_stage import pin
from dph.runs.run import stages_of
from run_stages import ran


def test_the_key_of_training_follows_the_pools_and_nothing_else_is_hashed_again(
    make_recipe, tmp_path, monkeypatch
):
    hashed = []
    whole = training_digest.directory_fingerprint
    monkeypatch.setattr(
        training_digest, "directory_fingerprint", lambda path: hashed.append(path) or whole(path)
    )
    anchor = {"divergence": "alpha", "weight": 0.1, "samples": f"pool:{tmp_path / 'pool'}"}
    recipe = make_recipe("grpo", objective={"anchors": {"old": anchor}})
    with prepare(recipe, tmp_path / "run", stage="presample") as plan:
        before = plan.training_key()
        assert plan.training_key() == before
        write_json(make_directory(tmp_path / "pool") / "manifest.json", {"not": "a pool"})
        assert plan.training_key() != before
    assert hashed == [plan.initial]


MODEL = {"model": {"path": "m"}, "data": {"train": "p.jsonl"}}


@pytest.mark.parametrize("engine", get_args(Engine))
def test_an_engine_has_every_stage(engine):
    stages = stages_of(resolve_recipe({**MODEL, "method": "grpo", "train": {"engine": engine}}))
    wanted = "dph.runs" if engine == "own" else "dph.engines.stages"
    assert stages.train.__module__.startswith(wanted)
    assert callable(stages.presample)


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
    with pytest.raises(SettingsError, match="change a Recipe before passing it"):
        dph.run(make_recipe(), seed=3)


def recipe_of(train, revision=None):
    model = {"path": "org/tiny"} | ({"revision": revision} if revision else {})
    return resolve_recipe({"model": model, "data": {"train": train}})


def test_commits_are_left_in_a_run_before_training_and_stay(tmp_path):
    run = RunDirectory(tmp_path / "run")
    pin(resolve_recipe(MODEL), run)  # names nothing on the Hub: training writes it
    assert not run.path.exists()
    recipe = recipe_of(f"hf://datasets/org/data@{'b' * 40}/train.jsonl", "a" * 40)
    pin(recipe, run)
    pin(recipe_of("/data/train.jsonl", "b" * 40), run)
    assert load_recipe(run.recipe_file) == recipe


@pytest.fixture
def reads(monkeypatch):
    found, load = [], prepared.load_problems
    noted = lambda path, **named: found.append(path.name) or load(path, **named)  # noqa: E731
    monkeypatch.setattr(prepared, "load_problems", noted)
    return found


def test_a_run_reads_every_file_of_problems_once(make_recipe, tmp_path, reads):
    sets = {"dev": str(tmp_path / "dev.jsonl"), "again": str(tmp_path / "train.jsonl")}
    recipe = make_recipe("grpo", data={"sets": sets})
    ran(recipe, tmp_path / "run")
    assert reads == ["dev.jsonl", "train.jsonl"]


def test_a_set_is_read_for_the_stages_that_ask_its_problems(make_recipe, tmp_path, reads):
    recipe = make_recipe(data={"sets": {"gone": str(tmp_path / "gone.jsonl")}})
    with prepare(recipe, tmp_path / "run", stage="presample"):
        assert reads == ["train.jsonl"]
    with pytest.raises(PoolError, match="no pool"), prepare(recipe, tmp_path, stage="train"):
        pass
    for stage in ("evaluate", "run"):
        with pytest.raises(DataError, match=r"gone\.jsonl"), prepare(recipe, tmp_path, stage=stage):
            pass


def test_missing_terms_and_trackers_are_told_first(make_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("dph.runs.check_model.find_spec", lambda name: name[:5] != "wandb" or None)
    misspelt, missing = {"advantage": {"kind": "own_advantage:nearnes"}}, {"to": ["wandb"]}
    for wrong, said in (({"objective": misspelt}, "'nearnes'"), ({"track": missing}, "'wandb'")):
        with pytest.raises(SettingsError, match=said), prepare(make_recipe(**wrong), tmp_path):
            pass
