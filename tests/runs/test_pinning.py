from dph.recipe import load_recipe, resolve_recipe
from dph.runs.directory import RunDirectory
from dph.runs.presampling_stage import pin


def recipe_of(train, revision=None):
    model = {"path": "org/tiny"} | ({"revision": revision} if revision else {})
    return resolve_recipe({"model": model, "data": {"train": train}})


def test_commits_are_left_in_a_run_before_training(tmp_path):
    recipe = recipe_of(f"hf://datasets/org/data@{'b' * 40}/train.jsonl", "a" * 40)
    pin(recipe, RunDirectory(tmp_path / "run"))
    assert load_recipe(tmp_path / "run" / "recipe.toml") == recipe


def test_what_a_run_has_stays(tmp_path):
    pin(recipe_of("/data/train.jsonl", "a" * 40), RunDirectory(tmp_path))
    pin(recipe_of("/data/train.jsonl", "b" * 40), RunDirectory(tmp_path))
    assert load_recipe(tmp_path / "recipe.toml").model.revision == "a" * 40


def test_a_run_on_local_places_is_left_to_training(tmp_path):
    table = {"model": {"path": str(tmp_path)}, "data": {"train": str(tmp_path / "train.jsonl")}}
    pin(resolve_recipe(table), RunDirectory(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
