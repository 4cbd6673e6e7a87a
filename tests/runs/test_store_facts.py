"""What a report says of stores, against the manifests of stores that were made."""

import shutil
from types import SimpleNamespace

from dph.results.report.page_tables import store_facts
from runs import test_store_stage as stage

store_recipe, make_stores = stage.store_recipe, stage.make_stores
LABELLED = {"prompts": "train", "file": None, "answers": 6, "values": "correct"}


def run(recipe, path, key="r1"):
    return SimpleNamespace(key=key, label=f"label of {key}", path=path, recipe=recipe)


def test_each_store_that_a_run_reads_is_told_with_how_often_a_consensus_is_wrong(
    store_recipe, make_stores, tmp_path
):
    recipe = store_recipe(**stage.COMPARED | LABELLED)
    counts = make_stores(recipe)["broad"].counts
    runs = [run(None, tmp_path / "base", "r0"), run(recipe, tmp_path / "run")]
    ((found,), unread) = store_facts(runs)
    assert unread == []
    assert (found.key, found.label, found.name) == ("r1", "label of r1", "broad")
    assert found.counts == counts
    assert counts.labelled == counts.prompts
    assert counts.agreed_wrong is not None


def test_a_consolidation_has_its_own_store_and_one_that_is_gone_is_not_told(
    store_recipe, make_stores, tmp_path
):
    recipe = store_recipe(**stage.COMPARED)
    make_stores(recipe)
    after = {"consolidation": {"updates": 1, "samples": "store:after"}, "stores": stores_of(recipe)}
    both = recipe.model_validate(recipe.model_dump() | after)
    assert names([run(both, tmp_path / "run")]) == (["broad"], [])
    place = tmp_path / "run" / "consolidation" / "stores"
    shutil.copytree(tmp_path / "run" / "stores" / "broad", place / "after")
    assert names([run(both, tmp_path / "run")]) == (["broad", "after"], [])


def test_a_store_that_cannot_be_read_is_told_once_and_the_others_are_shown(
    store_recipe, make_stores, tmp_path
):
    recipe = store_recipe(**stage.COMPARED)
    made = make_stores(recipe)
    assert list(made) == ["broad"]
    shutil.copytree(tmp_path / "run" / "stores", tmp_path / "old" / "stores")
    manifest = tmp_path / "old" / "stores" / "broad" / "manifest.json"
    manifest.write_text('{"format": 2}')
    runs = [run(recipe, tmp_path / name, name) for name in ("old", "run", "old")]
    assert names(runs) == (
        ["broad"],
        [
            f"no counts of the store 'broad': {manifest}: store format 2 is unknown, this version "
            "reads 3"
        ],
    )


def names(runs):
    found, unread = store_facts(runs)
    return [fact.name for fact in found], unread


def stores_of(recipe):
    """Its store, and another one of the same settings."""
    (table,) = recipe.model_dump()["stores"].values()
    return {"broad": table, "after": table}
