"""What a report says of stores, against the manifests of stores that were made."""

import shutil
from types import SimpleNamespace

import pytest

from dph.errors import PoolError
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
    (found,) = store_facts([run(None, tmp_path / "base", "r0"), run(recipe, tmp_path / "run")])
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
    assert [fact.name for fact in store_facts([run(both, tmp_path / "run")])] == ["broad"]
    place = tmp_path / "run" / "consolidation" / "stores"
    shutil.copytree(tmp_path / "run" / "stores" / "broad", place / "after")
    assert [fact.name for fact in store_facts([run(both, tmp_path / "run")])] == ["broad", "after"]
    (place / "after" / "manifest.json").write_text("{}")
    with pytest.raises(PoolError, match="manifest"):
        store_facts([run(both, tmp_path / "run")])


def stores_of(recipe):
    """Its store, and another one of the same settings."""
    (table,) = recipe.model_dump()["stores"].values()
    return {"broad": table, "after": table}
