from pathlib import Path

import pytest

from dph.errors import SettingsError
from dph.recipe import load_recipe
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
