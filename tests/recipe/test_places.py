from pathlib import Path

import pytest
from pydantic import Field

from dph.errors import SettingsError
from dph.recipe import load_recipe, resolve_recipe, save_recipe
from dph.recipe.section import Override, PlacedPath, Section, load_file, put, read_override


class Other(Section):
    model: PlacedPath
    name: str = ""
    more: dict[str, PlacedPath] | None = None


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("train.steps=3", "train.steps", 3),
        (" train . steps = 3 ", "train.steps", 3),
        ("name=word", "name", "word"),
        ('name="a = b"', "name", "a = b"),
        ("name=a = b", "name", "a = b"),
        ("evaluate.k=[1, 8]", "evaluate.k", [1, 8]),
        ("model.adapter={rank=2}", "model.adapter", {"rank": 2}),
        ("name=", "name", ""),
    ],
)
def test_a_value_is_toml_and_a_bare_word_is_text(text, key, value):
    assert read_override(text) == Override(key=key, value=value)


@pytest.mark.parametrize("text", ["train.steps", "=3", "train.=3", ".steps=3", "train..steps=3"])
def test_another_form_is_refused_with_what_was_given(text):
    with pytest.raises(SettingsError) as refused:
        read_override(text)
    assert str(refused.value) == f"an override has the form key=value, got {text!r}"


def test_tables_on_the_way_are_made_and_values_are_not_taken_for_them():
    table = {"name": "a"}
    put(table, read_override("train.adam.eps=1e-5"))
    assert table == {"name": "a", "train": {"adam": {"eps": 1e-5}}}
    with pytest.raises(SettingsError, match=r"unknown setting name\.b: name is not a table"):
        put(table, read_override("name.b=3"))


def test_paths_start_where_they_are_typed_and_those_of_the_file_beside_it(tmp_path, monkeypatch):
    """Of a run's recipe and of every other file alike."""
    beside, here = tmp_path / "beside", tmp_path / "here"
    for place in (beside, here):
        (place / "m").mkdir(parents=True)
    monkeypatch.chdir(here)
    run, other = beside / "run.toml", beside / "other.toml"
    run.write_text('model.path = "m"\ndata = {train = "p.jsonl", verifier = "exact"}\n')
    other.write_text('model = "m"\n')
    assert load_recipe(run).model.path == str(beside / "m")
    assert load_file(Other, other).model == beside / "m"
    assert load_recipe(run, overrides=["model.path=m"]).model.path == str(here / "m")
    typed = load_file(Other, other, ["model=m", "more={a='b'}", "more.c=/d", "name=m"])
    assert (typed.model, typed.name) == (here / "m", "m")
    assert typed.more == {"a": here / "b", "c": Path("/d")}
    assert type(typed.name) is str


class Inner(Section):
    width: int = 3


class Outer(Section):
    place: PlacedPath | None = None
    inner: Inner = Inner()
    parts: dict[str, Inner] = Field({})


def load(tmp_path, text, overrides=()):
    path = tmp_path / "file.toml"
    path.write_text(text)
    return load_file(Outer, path, overrides)


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        ("a = [", [], "is not valid TOML"),
        ("inner.widht = 1", [], "unknown key inner.widht; did you mean width?"),
        ("parts.x.widht = 1", [], "did you mean width?"),
        ("inner.width = 'x'", [], "inner.width: Input should be a valid integer, got 'x'"),
        ("", ["inner"], "an override has the form key=value, got 'inner'"),
        ("place = 'x'", ["place.a=3"], "place is not a table"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, text, overrides, said):
    with pytest.raises(SettingsError) as told:
        load(tmp_path, text, overrides)
    assert said in str(told.value)


RECIPE = """
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
    (directory / "recipe.toml").write_text(RECIPE)
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
    text = RECIPE + 'modules = ["code"]\n'
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
