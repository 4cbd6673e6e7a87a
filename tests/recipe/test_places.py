from pathlib import Path

import pytest
from huggingface_hub import parse_hf_uri
from pydantic import Field

from dph.errors import SettingsError
from dph.recipe import load_recipe, recipe_toml, resolve_recipe, save_recipe
from dph.recipe.places import HubFile, hub_file, is_model_id
from dph.recipe.section import PlacedPath, Section, load_file, put, read_override


class Inner(Section):
    width: int = 3


class Other(Section):
    place: PlacedPath | None = None
    name: str = ""
    more: dict[str, PlacedPath] | None = None
    inner: Inner = Inner()
    parts: dict[str, Inner] = Field({})


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
    assert read_override(text) == (key, value)


@pytest.mark.parametrize("text", ["train.steps", "=3", "train.=3", ".steps=3", "train..steps=3"])
def test_another_form_is_refused_with_what_was_given(text):
    with pytest.raises(SettingsError) as refused:
        read_override(text)
    assert str(refused.value) == f"an override has the form key=value, got {text!r}"


def test_tables_on_the_way_are_made_and_values_are_not_taken_for_them():
    table = {"name": "a"}
    put(table, *read_override("train.adam.eps=1e-5"))
    assert table == {"name": "a", "train": {"adam": {"eps": 1e-5}}}
    with pytest.raises(SettingsError, match=r"unknown setting name\.b: name is not a table"):
        put(table, *read_override("name.b=3"))


def test_paths_start_where_they_are_typed_and_those_of_the_file_beside_it(tmp_path, monkeypatch):
    """Of a run's recipe and of every other file alike."""
    beside, here = tmp_path / "beside", tmp_path / "here"
    for place in (beside, here):
        (place / "m").mkdir(parents=True)
    monkeypatch.chdir(here)
    run, other = beside / "run.toml", beside / "other.toml"
    run.write_text('model.path = "m"\ndata = {train = "p.jsonl", verifier = "exact"}\n')
    other.write_text('place = "m"\n')
    assert load_recipe(run).model.path == str(beside / "m")
    assert load_file(Other, other).place == beside / "m"
    assert load_recipe(run, overrides=["model.path=m"]).model.path == str(here / "m")
    typed = load_file(Other, other, ["place=m", "more={a='b'}", "more.c=/d", "name=m"])
    assert (typed.place, typed.name) == (here / "m", "m")
    assert typed.more == {"a": here / "b", "c": Path("/d")}
    assert type(typed.name) is str


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
    (tmp_path / "file.toml").write_text(text)
    with pytest.raises(SettingsError) as told:
        load_file(Other, tmp_path / "file.toml", overrides)
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


def test_own_code_is_placed_beside_the_recipe_or_else_in_the_working_directory(task, tmp_path):
    def modules(*overrides):
        return load_recipe(task / "recipe.toml", overrides=overrides).data.modules

    elsewhere = tmp_path / "elsewhere"
    for name in ("mine", "style"):
        (elsewhere / f"{name}.py").write_text("")
    assert modules() == (task,)
    both = modules("data.sets.dev=d.jsonl", "data.sets.dev.styles=style:f")
    assert both == (task, elsewhere)
    # Built-in names and installed modules have no place.
    assert modules("data.verifier=sql", "data.styles=os.path:basename") == ()
    # Named directories start at the recipe and come by themselves.
    (task / "recipe.toml").write_text(RECIPE + 'modules = ["code"]\n')
    assert modules() == (task / "code",)
    # What the command line names may be where it is typed.
    assert modules("data.verifier=mine:grade") == (task / "code", elsewhere)
    assert modules("environment.path=mine:Env") == (task / "code", elsewhere)


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


FILE = HubFile(repo="org/name", revision=None, path="data/train.parquet")


@pytest.mark.parametrize(
    ("spelled", "file"),
    [
        ("hf://datasets/org/name/data/train.parquet", FILE),
        ("hf://datasets/org/name@v1.0/data/train.parquet", FILE.at("v1.0")),
        ("hf://datasets/org/name@a%2Fb/data/train.parquet", FILE.at("a/b")),
        ("hf://datasets/org/name@refs/pr/3/data/train.parquet", FILE.at("refs/pr/3")),
    ],
)
def test_a_file_is_spelled_as_by_the_file_system_of_huggingface_hub(spelled, file):
    theirs = parse_hf_uri(spelled)
    said = file.repo, file.revision, file.path
    assert (theirs.id, theirs.revision, theirs.path_in_repo) == said
    assert hub_file(spelled) == file
    assert str(file) == spelled
    assert hub_file(Path(spelled)) == file
    assert hub_file(Path(str(file))) == file


def test_what_begins_as_such_a_file_and_is_none_is_refused():
    wrong = ["datasets/org/name", "datasets/name/train.parquet", "org/name/train.parquet"]
    wrong += ["datasets/org/name@/train.parquet", "datasets/org/name/../other/train.parquet"]
    for name in ("hf:org/name/train.parquet", *(f"hf://{each}" for each in wrong)):
        with pytest.raises(ValueError, match="named hf://datasets/<owner>/<name>"):
            hub_file(name)
    for path in ("data/train.parquet", Path("/data/hf/train.parquet")):
        assert hub_file(path) is None


def test_model_ids_have_an_owner_and_a_name():
    ids = ("org/name", "Qwen/Qwen2.5-1.5B", "a_b/c.d")
    others = ("name", "/org/name", "org/name/", "a/b/c", "./name", "../name", "org/na me", "")
    assert [is_model_id(name) for name in (*ids, *others)] == [True] * 3 + [False] * 8


TABLE = {
    "model": {"path": "org/tiny", "revision": "v1"},
    "data": {
        "train": "hf://datasets/org/name@v1/train.parquet",
        "sets": {"dev": {"path": "hf://datasets/org/name@a%2Fb/dev.parquet", "columns": {}}},
        "columns": {"prompt": "question"},
    },
}


def test_a_recipe_says_names_as_they_were_said(tmp_path):
    recipe = resolve_recipe(TABLE)
    assert recipe.data.columns_of("dev") == {}
    (tmp_path / "recipe.toml").write_text(recipe_toml(recipe))
    text = (tmp_path / "recipe.toml").read_text()
    assert 'train = "hf://datasets/org/name@v1/train.parquet"' in text
    assert 'path = "hf://datasets/org/name@a%2Fb/dev.parquet"' in text
    assert load_recipe(tmp_path / "recipe.toml") == recipe


def test_a_column_can_be_overridden_by_its_key(tmp_path):
    (tmp_path / "recipe.toml").write_text(recipe_toml(resolve_recipe(TABLE)))
    recipe = load_recipe(
        tmp_path / "recipe.toml",
        overrides=["data.columns.prompt=text", "data.sets.dev.columns.answer=gold"],
    )
    assert recipe.data.columns == {"prompt": "text"}
    assert recipe.data.columns_of("dev") == {"answer": "gold"}


def test_a_malformed_name_is_refused_with_its_key():
    wrong = {**TABLE, "data": {"train": "hf://datasets/name"}}
    with pytest.raises(SettingsError, match=r"data\.train: .*got 'hf:/datasets/name'"):
        resolve_recipe(wrong)
