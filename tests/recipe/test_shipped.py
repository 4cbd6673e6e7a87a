from pathlib import Path

import pytest

from dph.errors import DataError, SettingsError
from dph.recipe import load_recipe
from dph.recipe.recipe import copy_recipe, shipped_recipes

RECIPES = Path(__file__).parents[2] / "recipes"


def test_every_recipe_of_the_repository_is_listed_with_what_its_file_says_first():
    found = shipped_recipes()
    files = {p.relative_to(RECIPES).with_suffix("").as_posix() for p in RECIPES.rglob("*.toml")}
    assert found.keys() == files
    assert found["example-own-task/recipe"].startswith("Your own task: ")
    assert all(found.values())


@pytest.mark.parametrize("path", sorted(RECIPES.rglob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_is_valid_and_another_method_needs_no_other_change(path):
    assert load_recipe(path).notes
    if not path.stem.startswith("paper-") and path.parent.name != "gpu":
        return
    paper = {"alpha": [0.01], "dph_f": [0.01], "dph_js": [0.2]}
    for method in ("grpo", "dapo", "rkl", *paper):
        recipe = load_recipe(path, overrides=[f"method={method}"])
        weights = [anchor.weight for anchor in recipe.objective.active_anchors.values()]
        assert weights == paper.get(method, [])


def test_a_folder_comes_with_all_that_belongs_to_it(tmp_path):
    [recipe] = copy_recipe("example-own-task", tmp_path / "mine" / "task")
    assert recipe == tmp_path / "mine" / "task" / "recipe.toml"
    names = {"problems.jsonl", "recipe.toml", "verifier.py"}
    assert {path.name for path in recipe.parent.iterdir()} == names
    for name in names:
        ours = RECIPES / "example-own-task" / name
        assert (recipe.parent / name).read_bytes() == ours.read_bytes()
    with pytest.raises(SettingsError, match=r"needs gsm8k\.py next to it: copy 'gpu', its folder"):
        copy_recipe("gpu/gsm8k-4b-lora-24gb", tmp_path / "one.toml")
    assert copy_recipe("gpu/spider-4b-lora-24gb", tmp_path / "one.toml")


@pytest.mark.parametrize("name", ["paper-qwen2.5-math-7b", "paper-qwen2.5-math-7b.toml"])
def test_one_recipe_comes_under_its_own_name_into_the_working_directory(
    tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    assert copy_recipe(name) == [Path("paper-qwen2.5-math-7b.toml")]
    assert [path.name for path in tmp_path.iterdir()] == ["paper-qwen2.5-math-7b.toml"]


@pytest.mark.parametrize("name", ["nothing", "..", "/etc", "", "example-own-task/problems"])
def test_a_name_that_is_none_is_refused_with_those_that_are(tmp_path, name):
    with pytest.raises(SettingsError, match=r"there is no recipe .*example-own-task, "):
        copy_recipe(name, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(SettingsError, match="already exists"):
        copy_recipe("example-own-task", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_an_installation_that_lacks_them_says_so(tmp_path):
    with pytest.raises(DataError, match="has no recipes"):
        shipped_recipes([tmp_path / "none"])
