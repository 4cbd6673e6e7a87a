"""Stores in a recipe: their keys, their places, and what may read them."""

import pytest

from dph.errors import SettingsError
from dph.recipe import METHODS, load_recipe, recipe_toml, resolve_recipe
from dph.recipe.schema import require_files
from dph.recipe.stores import StoreSettings

MINIMAL = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}}
TEXT = """
method = "dph_broad"
[model]
path = "model"
[data]
train = "train.jsonl"
[stores.broad]
file = "unlabelled.jsonl"
place = "broad"
agreement = "mine:key"
only = {part = "others"}
[data.shots]
file = "shown.jsonl"
[self_consistency]
file = "more.jsonl"
"""


@pytest.fixture
def recipe_file(tmp_path):
    (tmp_path / "mine.py").write_text("")
    path = tmp_path / "recipe.toml"
    path.write_text(TEXT)
    return path


def test_files_places_and_own_functions_are_those_beside_the_recipe(recipe_file, tmp_path):
    recipe = load_recipe(recipe_file)
    store = recipe.stores["broad"]
    assert (store.file, store.place) == (tmp_path / "unlabelled.jsonl", tmp_path / "broad")
    assert recipe.self_consistency.file == tmp_path / "more.jsonl"
    assert recipe.data.shots.file == tmp_path / "shown.jsonl"
    assert recipe.data.modules == (tmp_path,)
    assert (store.tilt, store.answers, store.novel, store.top) == (4.0, 16, True, 8)
    (tmp_path / "again.toml").write_text(recipe_toml(recipe))
    assert load_recipe(tmp_path / "again.toml") == recipe


def test_columns_and_strengths_can_be_set_on_the_command_line(recipe_file):
    overrides = [
        "stores.broad.only.part=trained",
        "stores.broad.only.year=3",
        "stores.more.prompts=train",
        "self_consistency.problems_per_step=2.0",
        "self_consistency.only.part=trained",
    ]
    recipe = load_recipe(recipe_file, overrides=overrides)
    assert recipe.stores["broad"].only == {"part": "trained", "year": 3}
    assert recipe.stores["more"].prompts == "train"
    assert recipe.self_consistency.problems_per_step == 2
    assert recipe.labelled_per_step == 30
    with pytest.raises(SettingsError, match=r"stores\.broad\.tilts; did you mean stores"):
        load_recipe(recipe_file, overrides=["stores.broad.tilts=2"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"stores": {"a/b": {}}}, "a name is letters"),
        (
            {
                "method": "dph_broad",
                "objective": {"anchors": {"broad": {"samples": "store:narrow"}}},
            },
            "'store:narrow' does not name a store; .* exists for: broad",
        ),
        ({"self_consistency": {"problems_per_step": 33}}, "at most train.problems_per_step=32"),
        (
            {"self_consistency": {"problems_per_step": 1, "reward": "consensus"}},
            "needs self_consistency.samples = 'store:NAME'",
        ),
        ({"self_consistency": {"reward": "consensus", "file": "x"}}, "takes its prompts from its"),
        ({"self_consistency": {"samples": "store:s"}}, "reads no store"),
        (
            {"method": "consensus", "stores": {"broad": {"answers": 1}}},
            "a consensus needs at least 2 answers",
        ),
    ],
)
def test_what_does_not_fit_is_refused(table, message):
    with pytest.raises(SettingsError, match=message):
        resolve_recipe({**MINIMAL, **table})


def test_named_methods_can_share_a_store_and_need_its_file():
    stores = [t["stores"]["broad"] for t in METHODS.values() if "broad" in t.get("stores", {})]
    drawn = {"prompts", "novel", "answers", "top", "only", "limit", "seed"}
    assert len({str(StoreSettings(**s).model_dump(include=drawn)) for s in stores}) == 1
    for method, key in {"dph_broad": "broad", "consensus": "broad", "ttrl": ""}.items():
        recipe = resolve_recipe({**MINIMAL, "method": method})
        assert set(recipe.used_stores) == ({key} if key else set())
        assert not recipe.needs_pool
        with pytest.raises(SettingsError, match="a file of prompts without answers"):
            require_files(recipe.used_stores, recipe.self_consistency)


def test_an_anchor_without_weight_reads_no_store():
    objective = {"anchors": {"broad": {"weight": 0.0}}}
    recipe = resolve_recipe({**MINIMAL, "method": "dph_broad", "objective": objective})
    assert recipe.used_stores == {}


def test_one_file_serves_all_stores_that_need_one_and_name_none():
    one = resolve_recipe(
        {**MINIMAL, "method": "dph_broad", "stores": {"broad": {"file": "u.jsonl"}}}
    )
    assert {str(store.file) for store in one.stores.values()} == {"u.jsonl"}
    two = {"broad": {"file": "u.jsonl"}, "more": {"file": "v.jsonl"}}
    assert (
        resolve_recipe({**MINIMAL, "method": "dph_broad", "stores": two}).stores["after"].file
        is None
    )
    train = {"broad": {"file": "u.jsonl"}, "more": {"prompts": "train"}}
    assert (
        resolve_recipe({**MINIMAL, "method": "dph_broad", "stores": train}).stores["more"].file
        is None
    )
