"""A recipe names the same files and modules wherever it is read."""

import pytest

from dph.recipe import load_recipe, resolve_recipe, save_recipe

TEXT = """
[model]
path = "model"
[data]
train = "train.jsonl"
verifier = "mine:grade"
databases = "databases"
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    directory = tmp_path / "task"
    directory.mkdir()
    (directory / "mine.py").write_text("")
    (directory / "recipe.toml").write_text(TEXT)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return directory


def test_own_code_is_placed_beside_the_recipe_whatever_the_working_directory_holds(task, tmp_path):
    (tmp_path / "elsewhere" / "mine.py").write_text("")
    assert load_recipe(task / "recipe.toml").data.modules == (task,)


def test_own_code_that_is_not_beside_the_recipe_is_placed_in_the_working_directory(task, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "style.py").write_text("")
    overrides = ["data.sets.dev=d.jsonl", "data.sets.dev.styles=style:f"]
    assert load_recipe(task / "recipe.toml", overrides=overrides).data.modules == (task, elsewhere)


def test_built_in_names_and_installed_modules_have_no_place(task):
    overrides = ["data.verifier=sql", "data.styles=os.path:basename"]
    assert load_recipe(task / "recipe.toml", overrides=overrides).data.modules == ()


def test_named_directories_start_at_the_recipe_and_come_alone(task, tmp_path):
    text = TEXT + 'modules = ["code"]\n'
    (task / "recipe.toml").write_text(text)
    (tmp_path / "elsewhere" / "mine.py").write_text("")
    assert load_recipe(task / "recipe.toml").data.modules == (task / "code",)
    overrides = ["data.verifier=mine:grade"]  # what the command line names may lie where it is used
    assert load_recipe(task / "recipe.toml", overrides=overrides).data.modules == (
        task / "code",
        tmp_path / "elsewhere",
    )


def test_a_saved_recipe_keeps_every_place(task, tmp_path, monkeypatch):
    recipe = load_recipe(task / "recipe.toml")
    saved = tmp_path / "run" / "recipe.toml"
    saved.parent.mkdir()
    save_recipe(recipe, saved)
    (tmp_path / "mine.py").write_text("")
    (saved.parent / "mine.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert load_recipe(saved) == recipe


def test_a_recipe_made_in_memory_is_saved_with_absolute_paths(task, tmp_path, monkeypatch):
    monkeypatch.chdir(task)
    (task / "model").mkdir()
    table = {
        "model": {"path": "model"},
        "data": {
            "train": "train.jsonl",
            "databases": "databases",
            "verifier": "mine:grade",
            "sets": {"dev": "dev.jsonl"},
        },
        "presample": {"pool": "pool"},
    }
    save_recipe(resolve_recipe(table), tmp_path / "recipe.toml")
    monkeypatch.chdir(tmp_path)
    found = load_recipe(tmp_path / "recipe.toml")
    assert found.model.path == str(task / "model")
    assert found.data.databases == task / "databases"
    assert found.data.train == task / "train.jsonl"
    assert found.data.sets["dev"].path == task / "dev.jsonl"
    assert found.presample.pool == task / "pool"
    assert found.data.modules == (task,)
