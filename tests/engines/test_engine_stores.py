"""Which stores another engine reads, and what it takes from a recipe or a method."""

import pytest

from dph.engines.engine_stores import EngineStore, engine_objective, engine_stores
from dph.errors import SettingsError

RECIPE = """
method = "dph_broad"
model.path = "model"
data.train = "train.jsonl"
[stores.broad]
file = "unlabelled.jsonl"
place = "stores/mine"
tilt = 2.5
"""


def of_method(given, **changes):
    objective = engine_objective(changes or None, method="dph_broad")
    return engine_stores(given, objective, method="dph_broad")


def test_a_directory_is_enough_and_the_method_says_the_tilt():
    found = of_method({"broad": "there"})
    assert found == {"broad": EngineStore(place="there", tilt=4.0, values="distinct")}
    assert of_method(found) == found
    assert of_method('{"broad": "there"}') == found
    assert of_method({"broad": {"place": "there", "tilt": None}}) == found


def test_what_is_said_of_a_store_wins():
    found = of_method({"broad": {"place": "there", "tilt": 0.0, "values": "correct"}})
    assert found == {"broad": EngineStore(place="there", tilt=0.0, values="correct")}


def test_answers_can_be_the_targets():
    chosen = {"place": "there", "tilt": 0.0, "values": "majority", "targets": "answers"}
    assert of_method({"broad": chosen}) == {"broad": EngineStore(**chosen)}


def test_a_recipe_brings_place_and_tilt(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    objective = engine_objective(str(path))
    found = engine_stores(None, objective, source=str(path))
    assert found == {
        "broad": EngineStore(place=tmp_path / "stores" / "mine", tilt=2.5, values="distinct")
    }


def test_an_anchor_that_is_off_needs_no_store_but_may_have_one():
    off = {"anchors": {"broad": {"weight": 0.0}}}
    assert of_method(None, **off) == {}
    assert of_method({"broad": "there"}, **off) == {}


def test_a_method_without_stores_reads_none():
    objective = engine_objective(None, method="dph_f")
    assert engine_stores(None, objective, method="dph_f") == {}
    assert engine_stores({}, objective, method="dph_f") == {}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, r"objective\.anchors\.broad\.samples = 'store:broad' needs stores\.broad"),
        ({"broad": {"tilt": 1.0}}, r"'store:broad' needs stores\.broad: the directory"),
        ({"broad": "there", "more": "s"}, r"stores\.more: no anchor reads it.*: broad"),
        ({"broad": {"place": "there", "tilt": -1.0}}, r"stores\.broad: tilt"),
        ({"broad": {"place": "there", "tlt": 1.0}}, r"stores\.broad: tlt"),
        (
            {"broad": {"place": "there", "targets": "answers", "values": "majority"}},
            r"stores\.broad: .*no distributions to tilt: set tilt = 0, got tilt=4",
        ),
        ({"broad": 3}, r"stores\.broad must be a directory, or a table of place, tilt, values"),
        ([1], r"stores must be a table of stores by name, got \[1\]"),
        ("there", r"stores is not JSON.*'there'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given, message):
    with pytest.raises(SettingsError, match=message):
        of_method(given)
