from pathlib import Path

import pytest
from huggingface_hub import parse_hf_uri

from dph.errors import SettingsError
from dph.recipe import load_recipe, recipe_toml, resolve_recipe
from dph.recipe.places import HubFile, hub_file, is_model_id

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
