from pathlib import Path

import pytest

from dph.errors import DataError, ModelError, SettingsError
from dph.model import hub as names
from dph.model.hub import is_on_hub, model_directory, problems_file, resolve_names, uses_hub
from dph.recipe import ModelSettings, load_recipe, resolve_recipe, save_recipe

MODEL = {"config.json": b"{}", "model.safetensors": b"weights"}
DATA = {"train.jsonl": b"{}\n", "dev.jsonl": b"{}\n"}
FILE = "hf://datasets/org/data"


def recipe_of(model="org/tiny", *, train=f"{FILE}/train.jsonl", dev=f"{FILE}/dev.jsonl", **about):
    data = {"train": train, "sets": {"dev": dev}}
    return resolve_recipe({"model": {"path": model, **about}, "data": data})


@pytest.fixture
def pushed(hub):
    return hub.push("org/tiny", MODEL), hub.push("org/data", DATA, kind="datasets")


def test_every_name_gets_its_commit_and_a_line(pushed):
    model, data = pushed
    found = resolve_names(recipe_of())
    assert found.recipe.model.revision == model
    assert str(found.recipe.data.train) == f"hf:/datasets/org/data@{data}/train.jsonl"
    assert found.taken == (
        f"model.path: org/tiny of the Hub at {model[:12]}",
        f"data.train: {FILE}/train.jsonl of the Hub at {data[:12]}",
        f"data.sets.dev: {FILE}/dev.jsonl of the Hub at {data[:12]}",
    )
    assert model_directory(found.recipe.model).name == model
    assert problems_file(found.recipe.data.train).read_bytes() == DATA["train.jsonl"]


@pytest.mark.usefixtures("pushed")
def test_what_is_resolved_is_not_asked_for_again(hub):
    once = resolve_names(recipe_of()).recipe
    asked = len(hub.requests)
    assert resolve_names(once).recipe == once
    assert len(hub.requests) == asked


@pytest.mark.usefixtures("pushed")
def test_a_run_goes_on_with_the_commits_it_began_with(hub, tmp_path):
    begun = resolve_names(recipe_of()).recipe
    save_recipe(begun, tmp_path / "recipe.toml")
    newer = hub.push("org/tiny", {"config.json": b"[]"})
    hub.push("org/data", {"train.jsonl": b"new"}, kind="datasets")
    assert resolve_names(recipe_of(), run=tmp_path).recipe == begun
    assert resolve_names(load_recipe(tmp_path / "recipe.toml")).recipe == begun
    assert resolve_names(recipe_of(), run=tmp_path / "new").recipe.model.revision == newer
    named = resolve_names(recipe_of(revision="main"), run=tmp_path).recipe
    assert named.model.revision == newer


def test_all_files_of_a_data_set_are_of_one_commit(hub, pushed, monkeypatch):
    fetch = names.dataset_file

    def push_meanwhile(file, **how):
        path = fetch(file, **how)
        hub.push("org/data", {"dev.jsonl": b"pushed meanwhile"}, kind="datasets")
        return path

    monkeypatch.setattr(names, "dataset_file", push_meanwhile)
    found = resolve_names(recipe_of()).recipe
    dev = f"hf:/datasets/org/data@{pushed[1]}/dev.jsonl"
    assert str(found.data.sets["dev"].path) == dev


def test_local_places_alone_ask_for_nothing(hub, tmp_path):
    recipe = recipe_of(str(tmp_path), train="train.jsonl", dev="dev.jsonl")
    assert not uses_hub(recipe)
    assert resolve_names(recipe).recipe is recipe
    assert hub.requests == []
    assert not is_on_hub(recipe.model)
    assert model_directory(recipe.model) == tmp_path
    assert problems_file(tmp_path / "train.jsonl") == tmp_path / "train.jsonl"


def test_a_directory_of_that_name_is_taken_and_told_and_has_no_revision(hub, tmp_path, monkeypatch):
    place = tmp_path / "org" / "tiny"
    place.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    local = {"train": "train.jsonl", "dev": "dev.jsonl"}
    found = resolve_names(recipe_of(**local))
    assert found.taken == ("model.path: the directory org/tiny is used, not org/tiny of the Hub",)
    assert hub.requests == []
    absolute = recipe_of(str(place), **local)
    assert len(resolve_names(absolute, written="org/tiny").taken) == 1
    assert resolve_names(absolute, written="tiny").taken == resolve_names(absolute).taken == ()
    with pytest.raises(SettingsError, match=r"model\.revision = 'v1' belongs to .* is a directory"):
        resolve_names(recipe_of(str(place), revision="v1", **local))


@pytest.mark.usefixtures("pushed")
def test_the_model_is_fetched_before_data_and_a_wrong_file_is_named(hub):
    with pytest.raises(DataError, match=r"hf://datasets/org/data/gone\.jsonl: .* no such file"):
        resolve_names(recipe_of(train=f"{FILE}/gone.jsonl"))
    of_data = ["datasets" in path for _, path in hub.requests]
    assert of_data == sorted(of_data)
    assert set(of_data) == {False, True}


def test_an_unreadable_recipe_of_a_run_pins_nothing(pushed, tmp_path):
    (tmp_path / "recipe.toml").write_text("half a rec")
    assert resolve_names(recipe_of(), run=tmp_path).recipe.model.revision == pushed[0]


def test_asking_where_a_name_lies_fetches_nothing(hub):
    hub.push("org/unfetched", {"config.json": b"{}", "model.safetensors": b""})
    hub.push("org/unfetched", {"train.jsonl": b"{}"}, kind="datasets")
    assert is_on_hub(ModelSettings(path="org/unfetched"))
    with pytest.raises(ModelError, match="not in the cache"):
        model_directory(ModelSettings(path="org/unfetched"))
    with pytest.raises(DataError, match="not in the cache"):
        problems_file(Path("hf://datasets/org/unfetched/train.jsonl"))
    # A port is given to one server after another, so a request may be for the one before.
    assert [path for _, path in hub.requests if "unfetched" in path] == []
