"""The recipe of a run, with the consolidation that it had or that of broad rehearsal."""

from copy import deepcopy
from pathlib import Path

import pytest

from dph.errors import SettingsError
from dph.recipe import METHODS, ConsolidationSettings, StoreSettings, resolve_recipe, save_recipe
from dph.recipe.recipe import consolidating_recipe

USUAL = METHODS["dph_broad"]


@pytest.fixture
def asked(tmp_path):
    """The consolidating recipe of a recipe with ``tables``."""

    def make(method="grpo", overrides=(), **tables):
        minimal = {"model": {"path": "m"}, "data": {"train": "t.jsonl"}, "method": method}
        for name, table in tables.items():
            minimal[name] = {**minimal.get(name, {}), **table}
        save_recipe(resolve_recipe(minimal), tmp_path / "recipe.toml")
        prompts = tmp_path / "prompts.jsonl"
        return consolidating_recipe(tmp_path / "recipe.toml", prompts, overrides=overrides)

    return make


@pytest.mark.parametrize("method", ["grpo", "dph_f", "ttrl"])
def test_a_method_without_one_gets_that_of_broad_rehearsal(asked, tmp_path, method):
    recipe = asked(method)
    assert recipe.consolidation == ConsolidationSettings(**USUAL["consolidation"])
    said = {**USUAL["stores"]["after"], "file": tmp_path / "prompts.jsonl"}
    assert recipe.stores["after"] == StoreSettings(**said)
    assert recipe.method == method


@pytest.mark.parametrize("method", ["lmsi", "rft"])
def test_a_store_of_chosen_answers_learns_from_agreement_instead(asked, tmp_path, method):
    store = asked(method, stores={"after": {"answers": 5, "limit": 9}}).stores["after"]
    agreeing = (store.prompts, store.targets, store.values, store.tilt)
    assert agreeing == ("unlabelled", "distributions", "distinct", 4.0)
    assert (store.file, store.answers, store.limit) == (tmp_path / "prompts.jsonl", 5, 9)


def test_what_the_recipe_says_wins_and_overrides_win_over_that(asked, tmp_path):
    own = {"updates": 7, "samples": "store:mine", "rate": 3.0}
    store = {"mine": {"file": "old.jsonl", "answers": 5, "tilt": 2.0, "place": "there"}}
    recipe = asked(consolidation=own, stores=store, overrides=["stores.mine.tilt=8"])
    assert recipe.consolidation == ConsolidationSettings(**own)
    mine = recipe.stores["mine"]
    assert (mine.answers, mine.tilt, mine.values) == (5, 8.0, "agreement")
    assert mine.file == tmp_path / "prompts.jsonl"
    assert mine.place is None  # where answers of another model may lie
    assert "after" not in recipe.stores


def test_the_store_of_the_prompts_is_the_one_that_is_learnt_from(asked):
    with pytest.raises(SettingsError, match=r"--prompts gives .*prompts\.jsonl: leave out the"):
        asked("dph_broad", overrides=["consolidation.samples=store:broad", 'stores.broad.file="x"'])


def test_one_that_was_switched_off_is_switched_on_as_it_was_described(asked):
    recipe = asked("dph_broad", consolidation={"updates": 0, "rate": 2.0})
    usual = USUAL["consolidation"]
    assert recipe.consolidation == ConsolidationSettings(**{**usual, "rate": 2.0})


@pytest.mark.parametrize("engine", ["trl", "verl"])
def test_the_run_of_another_engine_is_consolidated(asked, engine):
    assert asked(train={"engine": engine}).consolidation.active


def test_the_whole_weights_of_an_exported_adapter_are_trained_without_it(asked):
    assert asked(model={"adapter": {"kind": "lora"}}).model.adapter is None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("consolidation.updates=0", "asks for no consolidation"),
        ("stores.after.tilt=0", "that learns nothing from agreement"),
        ("stores.after.values=correct", "that learns nothing from agreement"),
        ("stores.after.prompts=recombined", "--prompts gives the file of all prompts"),
        ("stores.after.tlit=1", "did you mean"),
        ("consolidation.samples=store:other", "does not name a store"),
    ],
)
def test_what_is_no_consolidation_is_refused(asked, override, message):
    with pytest.raises(SettingsError, match=message):
        asked(overrides=[override])


def test_the_table_of_methods_stays_as_it_is(asked):
    before = deepcopy(METHODS)
    asked(overrides=["stores.after.tilt=8", "consolidation.rate=2"])
    assert before == METHODS


def test_a_recipe_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read the recipe .*none\.toml"):
        consolidating_recipe(tmp_path / "none.toml", Path("p.jsonl"))
