"""What a run's directory says of the software that trained it."""

import json

import pytest

from dph.errors import DataError
from dph.recipe import load_recipe
from dph.runs import layout as beginning
from dph.runs.layout import note_beginning, read_software


@pytest.fixture
def note(make_recipe, tmp_path, monkeypatch):
    recipe = make_recipe("grpo")

    def note(dph, done):
        monkeypatch.setattr(
            beginning, "version", lambda name: dph if name == "dph-rl" else f"of {name}"
        )
        note_beginning(recipe, tmp_path, done=done)
        return [(row["first_step"], row["dph"]) for row in read_software(tmp_path)]

    return note


def test_versions_are_noted_from_the_first_step_on(note, tmp_path):
    assert note("1", 0) == [(1, "1")]
    (row,) = read_software(tmp_path)
    assert (row["torch"], row["transformers"]) == ("of torch", "of transformers")
    assert load_recipe(tmp_path / "recipe.toml").method == "grpo"


def test_the_same_software_is_noted_once_and_another_from_where_it_goes_on(note):
    assert note("1", 0) == note("1", 10) == [(1, "1")]
    assert note("2", 10) == [(1, "1"), (11, "2")]
    assert note("2", 20) == [(1, "1"), (11, "2")]


def test_what_trained_steps_that_were_lost_is_forgotten(note):
    note("1", 0)
    note("2", 10)
    assert note("3", 10) == [(1, "1"), (11, "3")]
    assert note("3", 0) == [(1, "3")]


def test_another_engine_names_itself(make_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(beginning, "version", lambda name: f"of {name}")
    recipe = make_recipe("grpo")
    train = recipe.train.model_copy(update={"engine": "trl"})
    note_beginning(recipe.model_copy(update={"train": train}), tmp_path, done=0)
    assert read_software(tmp_path)[0]["trl"] == "of trl"


@pytest.mark.parametrize("damaged", [{}, [1], [{"dph": "1"}]])
def test_a_damaged_file_is_refused_by_name(damaged, tmp_path):
    (tmp_path / "software.json").write_text(json.dumps(damaged))
    with pytest.raises(DataError, match=r"software\.json is damaged"):
        read_software(tmp_path)
